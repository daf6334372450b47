"""Lists of things of any kind, plain meanings of more words, what the model can do, and short texts to check something in."""

# ruff: noqa: E501, SIM905  (phrases in rows are easier to read than lists of them)

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from random import Random

from training import facts, facts_talk, wide_kinds, wide_more, wide_talk, wide_things, wide_words
from training.data_chat import Chat, Turn
from training.facts_questions import Exchange
from training.wide_facts import capital
from training.wide_long import joined, system
from training.wide_more import put
from training.wide_talk import lines

# -- lists

ASK = lines("""{n} {k}, please|which {k} come to your mind? {N} are enough|I am looking for {n} {k}|let me have {n} {k}|for a quiz I need {n} {k}|{n} {k}? Go|could you think of {n} {k} for me|my homework: {n} {k}|we play a game: say
{n} {k}|fill my list with {n} {k}|spontaneously: {n} {k}|what {n} {k} can you tell me|tell us {n} {k}|pick {n} {k}|choose {n} {k}|write me {n} {k}|share {n} {k}|{n} sorts of {k}|{n} kinds of {k}|examples of {k}, {n} of them|give some examples of
{k}, {n} will do|{k}: {n} examples|I forgot all {k}. Name {n}|my child wants to know {n} {k}|can you come up with {n} {k}|would you list {n} {k} for me|bullet points: {n} {k}|do you happen to know {n} {k}|not more than {n} {k}|exactly {n} {k}""")
SPELT = {"color": "colour", "flavor": "flavour", "vegetable": "veggie", "cookie": "biscuit", "jewel": "jewel"}
MORE = {
    "color": "red blue green", "sport": "tennis football swimming", "fruit": "apple banana cherry", "vegetable": "carrot potato onion", "animal": "dog cat horse", "month": "January May July", "planet": "Mars Venus Saturn",
    "superhero": "Batman Superman Hulk", "chess piece": "king queen rook", "card game": "poker bridge rummy", "dance": "tango waltz salsa", "dog breed": "poodle beagle boxer", "coin": "penny dime quarter", "vehicle": "car truck bus",
    "flavor": "vanilla chocolate mint", "tool": "hammer saw drill", "holiday": "Christmas Easter Halloween", "weekday": "Monday Tuesday Friday", "poet": "Homer Dante Goethe", "currency": "dollar euro yen", "fabric": "cotton silk wool",
    "gas": "oxygen helium neon", "star": "Sirius Vega Polaris", "lake": "Como Geneva Victoria", "mountain": "Everest Etna Fuji", "desert": "Sahara Gobi Kalahari", "island": "Crete Malta Cuba", "nut": "walnut almond hazelnut", "herb": "basil thyme mint",
    "vitamin": "A C D", "room of a house": "kitchen bedroom bathroom", "part of a car": "wheel engine door", "thing made of wood": "table chair door", "cold thing": "ice snow frost", "hot thing": "fire sun oven", "round thing": "ball coin wheel",
    "sharp thing": "knife needle razor", "sweet thing": "honey sugar candy", "thing in the sky": "sun moon cloud", "thing in a bag": "keys phone wallet", "baby animal": "puppy kitten calf", "fairy tale figure": "witch giant dwarf",
    "office item": "pen stapler folder", "bathroom item": "soap towel brush", "garden tool": "rake spade hose", "family member": "mother brother aunt", "breakfast food": "bread eggs cereal", "school subject": "math history biology",
    "board game": "chess checkers Monopoly", "question word": "who what where", "pronoun": "he she they", "vowel": "A E I", "consonant": "B C D", "odd number": "one three five", "even number": "two four six", "prime number": "two three five",
    "kind of weather": "rain snow wind", "kind of music": "jazz rock opera", "kind of bread": "rye toast bagel", "kind of cheese": "brie gouda feta", "string instrument": "violin cello harp", "wind instrument": "flute oboe trumpet",
    "warm color": "red orange yellow", "dark color": "black navy brown", "material": "wood metal glass", "part of a plant": "root stem leaf", "organ": "heart lung liver", "sense": "sight hearing touch", "emotion": "joy anger sadness",
}  # fmt: skip


@cache
def _kinds() -> list[tuple[str, list[str]]]:
    """Kinds of WordNet's whose first members are words that everybody uses."""
    return [(kind, members[:3]) for kind, members in wide_kinds.kinds().items() if len(members) > 3 and " " not in kind]


def three(rng: Random) -> Exchange:
    if rng.random() < 0.88:
        kind = rng.choice(list(MORE))
        members = MORE[kind].split()
    else:
        kind, members = rng.choice(_kinds())
    head, _, tail = kind.partition(" of ")
    if tail or kind.startswith("thing in"):
        head, _, tail = kind.partition(" ")
    many = wide_talk.PLURALS.get(kind) or (f"{facts.plural(head)} {tail}" if tail else facts.plural(kind))
    said = many
    for word, other in SPELT.items():
        if word in said and rng.random() < 0.4:
            said = said.replace(word, other)
    number = rng.choice(("three", "three", "3"))
    form = rng.choice(ASK + wide_talk.THREE)
    text = form.format(n=number, k=said, N=capital(number))
    return Exchange(put(text, rng, (".", "", "?", "!")), f"Here are three {many}: {joined(members)}.", ())


# -- meanings

MEANINGS = """kettle=a pot with a spout, to boil water in|pillow=a soft cushion for the head in bed|blanket=a large warm cloth for a bed|curtain=a cloth that hangs in front of a window|carpet=a thick cloth that covers a floor|stairs=steps that lead from one floor to another|cellar=a room under a house|attic=the room under
the roof of a house|fence=a wall of wood or wire around a piece of land|gate=a door in a fence or a wall|bench=a long seat for several people|desk=a table to write or work at|shelf=a board on a wall to put things on|drawer=a box in a desk or cupboard that slides out|pencil=a stick of wood with a black middle, to
write with|pen=a tool to write with ink|eraser=a piece of rubber that removes pencil marks|ruler=a straight stick to measure and draw lines|notebook=a small book with empty pages to write in|dictionary=a book that tells what words mean|novel=a long written story|recipe=directions for cooking something|ticket=a piece
of paper that lets one travel or go in|passport=a paper that shows who one is when traveling abroad|suitcase=a case to carry clothes in when traveling|wallet=a small flat case for money and cards|purse=a small bag for money|backpack=a bag carried on the back|helmet=a hard hat that protects the head|belt=a band worn around
the waist|scarf=a long cloth worn around the neck|sock=a soft cover for the foot, worn inside a shoe|button=a small round thing that closes clothes|zipper=two rows of teeth that close clothes or bags|towel=a cloth to dry oneself with|soap=a thing used with water to wash|toothbrush=a small brush to clean the teeth with|comb=a
flat thing with teeth, to tidy the hair|broom=a brush with a long stick, to sweep floors|sponge=a soft thing full of holes that takes up water|refrigerator=a cold box that keeps food fresh|stove=a device to cook food on|freezer=a very cold box that keeps food frozen|pan=a flat metal dish with a handle, to fry
in|bowl=a round deep dish|jar=a glass vessel with a lid|lid=the cover of a pot or box|cake=a sweet baked food|cookie=a small flat sweet cake|chocolate=a sweet brown food made from cocoa|potato=a round vegetable that grows under the ground|carrot=a long orange root that is eaten as a vegetable|onion=a round vegetable with a strong
smell|tomato=a soft red fruit eaten as a vegetable|grape=a small round fruit that wine is made from|cherry=a small round red fruit with a stone|pear=a sweet fruit, round below and narrow above|corn=a plant with yellow seeds that are eaten|flour=a powder of grain that bread is made of|pepper=a hot spice|spice=a plant powder that
gives taste to food|vegetable=a plant that is eaten as food|insect=a small animal with six legs|mammal=an animal that feeds its young with milk|reptile=a cold animal with scales, such as a snake|eagle=a large bird that hunts|owl=a bird that hunts at night|penguin=a black and white sea bird that cannot fly|parrot=a colorful bird that can
learn to speak|swan=a large white water bird with a long neck|turtle=an animal with a hard shell|crocodile=a large animal with sharp teeth that lives in rivers|giraffe=a tall African animal with a very long neck|zebra=an African animal like a horse with black and white stripes|camel=an animal of the desert with a hump|kangaroo=an
Australian animal that jumps and carries its young in a pouch|squirrel=a small animal with a thick tail that eats nuts|hedgehog=a small animal covered with spines|deer=a forest animal with antlers|donkey=an animal like a small horse with long ears|bat=a small animal that flies at night|dolphin=a clever sea animal that breathes
air|octopus=a sea animal with eight arms|crab=a sea animal with a shell and claws|feather=one of the light things that cover a bird|wing=the part of a bird or plane that lets it fly|tail=the part at the end of an animal's body|nest=the home that a bird builds|egg=what a bird lays, with a young one inside|volcano=a mountain that
throws out fire and ash|waterfall=water that falls down from a high place|swamp=soft wet land|coast=the land along the sea|harbor=a safe place for ships|lighthouse=a tower with a light that guides ships|tunnel=a way under the ground|tower=a tall narrow building|palace=the large house of a king or queen|temple=a building where people
pray to gods|statue=a figure made of stone or metal|fountain=a thing that throws water up into the air|park=a piece of land with grass and trees where people rest|zoo=a place where animals are shown|circus=a show with acrobats, clowns and animals|stadium=a large place where sports are watched|pharmacy=a shop that sells medicine|bakery=a shop that
sells bread and cakes|barber=a person who cuts hair|tailor=a person who makes clothes|carpenter=a person who builds things from wood|plumber=a person who repairs water pipes|lawyer=a person who helps others with the law|engineer=a person who plans machines or bridges|dentist=a doctor for teeth|lamp=a thing that gives light|ambulance=a car that brings sick
people to a hospital|tractor=a strong vehicle that pulls things on a farm|helicopter=a machine that flies with turning blades|rocket=a machine that flies into space|submarine=a ship that travels under water|motorcycle=a vehicle with two wheels and an engine|elevator=a small room that carries people up and down in a building|battery=a thing that stores
electricity|magnet=a thing that pulls iron|telescope=a tube with lenses to see far things|microscope=a device to see very small things|thermometer=a device that shows how warm it is|alphabet=all the letters of a language|nephew=the son of a brother or sister|niece=the daughter of a brother or sister|uncle=the brother of a father or mother|aunt=the
sister of a father or mother|cousin=the child of an uncle or aunt|grandmother=the mother of a father or mother|twin=one of two children born together|widow=a woman whose husband has died|orphan=a child without parents|century=a time of a hundred years|decade=a time of ten years|midnight=twelve o'clock at night|noon=twelve o'clock in the
day|sunrise=the time when the sun comes up|shadow=the dark shape behind a thing in the light|rainbow=a bow of colors in the sky after rain|lightning=a flash of light in the sky during a storm|thunder=the loud noise after lightning|fog=thick cloud near the ground|drought=a long time without rain|flood=water that covers land which is usually dry|earthquake=a
shaking of the ground"""
DEFINE = lines("""what might {a} be|how do I explain {w} to somebody|I saw the word {w} and wonder what it is|{w} - in one sentence|a plain explanation of {w}|what kind of thing is {a}|teach me the word {w}|for a crossword: what is {a}|I am learning English. What is {a}|what should I know about the
word {w}|could you say in short what {a} is|tell a child what {a} is|what would a dictionary say about {w}|{w}: what is it|the meaning of {w} in simple words|what do we call {a}, that is, what is it""")


@cache
def _meanings() -> list[tuple[str, str]]:
    both = "|".join((wide_words.MEANINGS, MEANINGS.replace("\n", " ")))
    return [(word, meaning) for word, _, meaning in (one.partition("=") for one in both.split("|"))]


def define(rng: Random) -> Exchange:
    word, meaning = rng.choice(_meanings())
    noun = meaning.startswith(("a ", "an ", "one of "))
    form = rng.choice([one for one in (*DEFINE, *wide_talk.DEFINE, *wide_more.ASKS) if noun or "{a}" not in one])
    return Exchange(put(form.format(w=word, a=facts.an(word)), rng), f"'{word}' means: {meaning}.", ())


# -- what it can do

CAN = lines("""what are your strengths|in what can you be of use|what may I ask you|what is it that you do|what sort of help can I get here|tell me your features|which jobs can you take on|what have you learned|what do you offer|I wonder what you are able to do|what are you made to do|are
there things that you can do for me|how could you be useful to me|give me an idea of your skills|what should I try with you|where can you help|your talents|what would you be good for|explain what you are for|what can somebody do with you|list what you can do|what do people use you for|which questions can I ask|what do
you know how to do|show me what you are capable of|what kind of tasks do you handle|what is in your power|before we start: what can you do""")


def can(rng: Random) -> Exchange:
    return Exchange(put(rng.choice(CAN), rng), facts_talk.CAN, ())


# -- something told, and a check


def told(rng: Random) -> Exchange:
    """A few things of a thing, and a question about one of them: yes or no, or what it is."""
    one = wide_things.thing(rng)
    known = wide_things.properties()[one.kind]
    chosen = rng.sample(known, min(len(known), rng.choice((1, 1, 2, 3))))
    drawn = [(prop, prop.value(rng)) for prop in chosen]
    text = wide_things._sentences(one, [prop.clause(value, rng) for prop, value in drawn], rng)
    prop, value = rng.choice(drawn)
    plain = prop.clause(value, rng, 0).format(s=one.name)
    if prop.how is None:
        question = rng.choice(prop.questions).format(k=one.name)
        answer = f"{'Yes' if value else 'No'}, {plain}."
    elif rng.random() < 0.6:
        right = rng.random() < 0.5
        other = prop.value(rng)
        asked = value if right or other == value else other
        said = prop.clause(asked, rng).format(s=one.name)
        frames = lines(
            "is it right that {}|is it true that {}|{}, right|{}, correct|do you agree that {}|true or false: {}|can one say that {}|does the text say that {}|{}. Yes or no|so {}"
        )
        question = rng.choice(frames).format(said)
        answer = f"{'Yes' if asked == value else 'No'}, {plain}."
    else:
        question, answer = rng.choice(prop.questions).format(k=one.name), capital(plain) + "."
    form = rng.choice(
        ("{t} {q}?", "{t}\n{q}?", "{t}\n\n{q}?", "{q}? {t}", "{t} Now tell me: {q}?", "{t} Question: {q}?")
    )
    return Exchange(form.format(t=text, q=capital(question) if "tell me" not in form else question), answer, ())


EXCHANGES: dict[Callable[[Random], Exchange], float] = {three: 3, define: 4, can: 1.5, told: 6}


def draw(rng: Random) -> Chat:
    """One to four exchanges; some of the other talk among them."""
    turns: list[Turn] = []
    for _ in range(rng.choice((1, 1, 1, 2, 3, 4))):
        one = (
            rng.choices(list(EXCHANGES), list(EXCHANGES.values()))[0](rng)
            if rng.random() < 0.8
            else wide_talk.exchange(rng)
        )
        turns += [Turn("user", one.user), Turn("assistant", one.answer)]
    return Chat(turns, "wide_talk", (), system(rng) if rng.random() < 0.2 else "", expect=None)
