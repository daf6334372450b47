"""What people tell about themselves and ask back; why things are as they are; a sentence or two in short."""

# ruff: noqa: E501, SIM905  (phrases in rows are easier to read than lists of them)

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from random import Random

from training import facts, wide, wide_common, wide_members, wide_talk
from training.data_chat import Turn
from training.data_long import REMEMBERED
from training.facts_questions import Exchange
from training.held_words import fresh
from training.wide_facts import capital
from training.wide_more import put
from training.wide_talk import UNKNOWN, lines, spelled

Slots = dict[str, str]


@cache
def kind(name: str) -> list[str]:
    """Members of one of `wide_members`' kinds."""
    for line in wide_members.KINDS.strip().splitlines():
        names, _, words, *_ = line.split("|")
        if names.split()[0] == name:
            return [word for word in words.split(",") if not word.startswith(("a ", "the "))]
    raise KeyError(name)


# -- oneself: a label, how it is told, how it is asked back, the answer; `{v}` is the value, `{k}` what it is the value of


@dataclass(frozen=True)
class Trait:
    label: str
    told: list[str]
    asked: list[str]
    answer: str
    slots: Callable[[Random], Slots]
    check: str = ""  # asked as yes or no


def _value(draw: Callable[[Random], str]) -> Callable[[Random], Slots]:
    return lambda rng: {"v": draw(rng)}


def _job(rng: Random) -> Slots:
    return {"v": facts.an(rng.choice(facts.JOBS if rng.random() < 0.5 else kind("profession")))}


def _kin(rng: Random) -> Slots:
    words, names = rng.choice(((KIN, None), (HIS, HE), (HERS, SHE)))
    return {"k": rng.choice(words), "v": rng.choice(names) if names else wide.first_name(rng)}


def _pet(rng: Random) -> Slots:
    pets = lines("cat|dog|rabbit|horse|parrot|goat|turtle|pony|kitten|puppy")
    return {
        "k": rng.choice(pets if rng.random() < 0.6 else kind("pet")),
        "v": wide.first_name(rng) if rng.random() < 0.6 else rng.choice(CALLED),
    }


def _favorite(rng: Random) -> Slots:
    name = rng.choice(list(FAVORITES))
    return {"k": name, "v": rng.choice(FAVORITES[name])}


def _plan(rng: Random) -> Slots:
    return {"k": rng.choice(WHENS), "v": rng.choice(DEEDS).format(p=wide.first_name(rng), t=wide.town(rng))}


def _owned(rng: Random) -> Slots:
    return {
        "k": rng.choice(lines("bike|car|house|coat|hat|bag|sofa|door|boat|phone|umbrella|backpack")),
        "v": rng.choice(facts.COLOURS),
    }


def _siblings(rng: Random) -> Slots:
    return {
        "k": rng.choice(lines("brothers|sisters|children|cats|dogs|cousins|sons|daughters|bikes|hens")),
        "v": rng.choice((spelled, str))(rng.randint(2, 9)),
    }


def _meal(rng: Random) -> Slots:
    return {
        "k": rng.choice(("breakfast", "lunch", "dinner")),
        "v": rng.choice([*MEALS, *kind("dish")]),
    }


def _country(rng: Random) -> str:
    """One whose name wants no article."""
    name = rng.choice(facts.countries())[0]
    return (
        _country(rng)
        if re.search(r"Republic|Island|United|Nether|Philip|Bahamas|Gambia|Maldives|Comoros|Seych|Congo|Vatican", name)
        else name
    )


def _meeting(rng: Random) -> Slots:
    return {
        "k": wide.first_name(rng),
        "v": f"{rng.choice(('at', 'at', 'around'))} {rng.choice(lines('noon|nine|half past ten|8 pm|3:30|seven|six in the evening|quarter past two'))}",
    }


MEALS = lines(
    "bread|cheese|soup|rice|pasta|yogurt|stew|curry|noodles|beans|toast|eggs|porridge|fruit|pancakes|salad|pizza|cereal|fish|a sandwich|an apple|muesli"
)
CALLED = lines(
    "Bella|Rex|Milo|Coco|Luna|Fluffy|Spot|Max|Biscuit|Shadow|Pepper|Daisy|Ginger|Oreo|Tiger|Snowy|Charlie|Nala|Simba|Button"
)
FAVORITES = {
    "color": facts.COLOURS, "food": facts.FOODS, "animal": [f"the {one}" for one in facts.ANIMALS], "sport": facts.SPORTS, "fruit": [f"the {one}" for one in facts.FRUITS], "season": lines("spring|summer|autumn|winter"),
    "day": facts.DAYS, "month": facts.MONTHS, "number": [str(one) for one in range(1, 100)], "subject": facts.SUBJECTS, "city": facts.CITIES, "drink": lines("tea|coffee|water|milk|cocoa|lemonade|apple juice"),
    "flower": [f"the {one}" for one in lines("rose|tulip|daisy|lily|sunflower|orchid")], "game": lines("chess|poker|bingo|dominoes|checkers"), "instrument": [f"the {one}" for one in facts.INSTRUMENTS], "dessert": lines("ice cream|cheesecake|apple pie|pudding|brownies"),
}  # fmt: skip
WHENS = lines(
    "tomorrow|tonight|on Sunday|on Monday|on Friday|next week|next summer|this weekend|after work|in May|this afternoon"
)
DEEDS = lines(
    """visit {p}|go to {t}|paint the kitchen|bake a cake|play tennis|clean the garage|see a film|meet {p}|swim in the lake|fly to {t}|buy a new bike|cook for {p}|stay at home|climb a mountain|plant a tree|read a book|repair the roof|write to {p}|take an exam|run a race|move to {t}|ride a horse|learn to dance|see the dentist"""
)
KIN = lines("best friend|boss|teacher|neighbor|cousin|partner|doctor|roommate|colleague|dentist|landlord|coach|baby")
HIS, HERS = (
    lines("brother|husband|son|father|uncle|grandfather|nephew"),
    lines("sister|wife|daughter|mother|aunt|grandmother|niece"),
)
HE = lines(
    "Ben|David|Farid|Hugo|Jonas|Liam|Omar|Samir|Umar|Xavier|Anton|Emil|Gustav|Igor|Kofi|Marco|Oscar|Ravi|Tomas|Victor|Walter|Yusuf|Bruno|Diego|Felix|Jacob|Leo|Pablo|Simon|Frank|Tom|Peter|Paul|Karl"
)
SHE = lines(
    "Ada|Carla|Elena|Grace|Ines|Karin|Maria|Nadia|Paula|Rosa|Tessa|Vera|Wendy|Yara|Zoe|Bella|Dora|Fiona|Hanna|Julia|Lena|Nora|Petra|Sofia|Ursula|Alice|Clara|Edith|Greta|Iris|Mira|Olga|Rita|Ruth|Anna|Eva|Lucy"
)
TRAITS = (
    Trait("name", lines("my name is {v}|I am {v}|I'm {v}|call me {v}|I am called {v}|my friends call me {v}|my first name is {v}|you can call me {v}"),
          lines("what is my name|what's my name|who am I|how am I called|do you remember my name|tell me my name|do you know my name|what should you call me|my name is what|can you say my name"), "Your name is {v}.", _value(wide.first_name), "is my name {v}"),
    Trait("home", lines("I live in {v}|I am living in {v}|my home is in {v}|I have lived in {v} for years|I moved to {v} last year|my flat is in {v}|I have a house in {v}|these days I live in {v}|{v} is where I live"),
          lines("where do I live|in which city do I live|what town do I live in|where is my home|do you know where I live|which place do I live in|where am I at home|tell me where I live"), "You live in {v}.", _value(wide.town), "do I live in {v}"),
    Trait("age", lines("I am {v} years old|I'm {v} years old|I turned {v} last week|my age is {v}|I have just turned {v}|I am {v}"), lines("how old am I|what is my age|what's my age|tell me my age|do you know how old I am|how many years old am I"), "You are {v} years old.",
          lambda rng: {"v": str(rng.randint(5, 95)) if rng.random() < 0.8 else spelled(rng.randint(5, 95))}, "am I {v} years old"),
    Trait("job", lines("I work as {v}|I am {v}|I'm {v} by trade|I earn my living as {v}|I have a job as {v}"), lines("what is my job|what do I do for a living|what do I work as|what's my profession|what is my work|which job do I have|do you know my job"), "You work as {v}.", _job, "do I work as {v}"),
    Trait("name of my {k}", lines("I have a {k} called {v}|my {k} is called {v}|my {k}'s name is {v}|the name of my {k} is {v}|I have a {k} named {v}|we named our {k} {v}"), lines("what is my {k} called|what's the name of my {k}|what is my {k}'s name|how is my {k} called|do you remember my {k}'s name|tell me the name of my {k}"),
          "Your {k} is called {v}.", _pet, "is my {k} called {v}"),
    Trait("name of my {k}", lines("my {k} is called {v}|my {k}'s name is {v}|I have a {k} named {v}|my {k} {v} is here|{v} is my {k}"), lines("what is my {k} called|what's the name of my {k}|what is my {k}'s name|who is my {k}|do you know my {k}'s name"), "Your {k} is called {v}.", _kin, "is my {k} called {v}"),
    Trait("favorite {k}", lines("my favorite {k} is {v}|my favourite {k} is {v}|of all {K}, I like {v} best|the {k} I like best is {v}"), lines("what is my favorite {k}|which {k} do I like best|what's my favourite {k}|which {k} is my favorite|do you remember my favorite {k}"), "Your favorite {k} is {v}.", _favorite, "is {v} my favorite {k}"),
    Trait("plan", lines("{k} I will {v}|I am going to {v} {k}|I plan to {v} {k}|{k} I am going to {v}|I want to {v} {k}"), lines("what am I going to do {k}|what will I do {k}|what do I plan to do {k}|what are my plans {k}|what do I want to do {k}"), "You are going to {v} {k}.", _plan),
    Trait("color of the {k}", lines("my {k} is {v}|I have a {v} {k}|I bought a {v} {k}|I painted my {k} {v}"), lines("what color is my {k}|what colour is my {k}|which color does my {k} have|what is the color of my {k}"), "Your {k} is {v}.", _owned, "is my {k} {v}"),
    Trait("number of {k}", lines("I have {v} {k}|I've got {v} {k}|{v} {k} are mine"), lines("how many {k} do I have|how many {k} have I got|what is the number of my {k}|do you know how many {k} I have"), "You have {v} {k}.", _siblings, "do I have {v} {k}"),
    Trait("birthday", lines("my birthday is on {v}|I was born on {v}|I have my birthday on {v}"), lines("when is my birthday|when was I born|on which day is my birthday|what day is my birthday|when do I have my birthday"), "Your birthday is on {v}.",
          lambda rng: {"v": f"{rng.choice(facts.MONTHS)} {rng.randint(1, 28)}" if rng.random() < 0.6 else f"{rng.randint(1, 28)} {rng.choice(facts.MONTHS)}"}, "is my birthday on {v}"),
    Trait("country", lines("I come from {v}|I am from {v}|I was born in {v}|my family is from {v}|I grew up in {v}"), lines("where do I come from|which country am I from|where am I from|what country do I come from"), "You come from {v}.", _value(_country), "do I come from {v}"),
    Trait("allergy", lines("I am allergic to {v}|I cannot eat {v}|{v} make me ill"), lines("what am I allergic to|what can I not eat|which food must I avoid|what should I not eat"), "You cannot eat {v}.", _value(lambda rng: rng.choice(lines("nuts|eggs|strawberries|shrimps|apples|peanuts|mushrooms|tomatoes|oysters|peaches|beans")))),
    Trait("hobby", lines("my hobby is {v}|I spend my free time with {v}|in my free time I enjoy {v}|{v} is my hobby"), lines("what is my hobby|what do I do in my free time|which hobby do I have|how do I spend my free time"), "Your hobby is {v}.", _value(lambda rng: rng.choice([*kind("hobby"), "reading", "cooking", "painting", "swimming"])), "is {v} my hobby"),
    Trait("{k}", lines("I had {v} for {k}|for {k} I ate {v}|I ate {v} for {k}|my {k} was {v}"), lines("what did I have for {k}|what did I eat for {k}|what was my {k}|which food did I have for {k}"), "You had {v} for {k}.", _meal, "did I have {v} for {k}"),
    Trait("meeting with {k}", lines("I meet {k} {v}|I am meeting {k} {v}|I have a meeting with {k} {v}|{k} and I meet {v}"), lines("when do I meet {k}|at what time do I meet {k}|when is my meeting with {k}|when am I meeting {k}"), "You meet {k} {v}.", _meeting),
    Trait("language", lines("I speak {v}|I grew up with {v}|my language is {v}|at home we speak {v}"), lines("which language do I speak|what language do I speak|what is my language"), "You speak {v}.", _value(lambda rng: rng.choice([*kind("language"), "French", "German", "Spanish", "Italian"])), "do I speak {v}"),
    Trait("studies", lines("I study {v}|I am a student of {v}|at university I study {v}"), lines("what do I study|what is my subject|which subject do I study"), "You study {v}.", _value(lambda rng: rng.choice(kind("science") + kind("subject"))), "do I study {v}"),
)  # fmt: skip


@dataclass(frozen=True)
class Own:
    """A trait with its values."""

    trait: Trait
    slots: Slots

    def fill(self, text: str) -> str:
        many = facts.plural(self.slots.get("k", "")) if self.slots.get("k") else ""
        return re.sub(r"\ba (?=orange\b)", "an ", text.format(**self.slots, K=many))

    @property
    def about(self) -> str:
        return self.fill(self.trait.label)

    @property
    def answer(self) -> str:
        return self.fill(self.trait.answer)


def owns(rng: Random, count: int) -> list[Own]:
    """Different things about oneself."""
    # The first seven are what people tell first.
    order = sorted(TRAITS, key=lambda trait: rng.random() * (0.45 if TRAITS.index(trait) < 7 else 1))
    found = [Own(trait, trait.slots(rng)) for trait in order[:count]]
    names = [one.slots["v"] for one in found] + [
        one.slots["k"] for one in found if one.trait.label.startswith("meeting")
    ]
    # A person's name must not be another's, and a brother is not a dog.
    return found if len(set(names)) == len(names) else owns(rng, count)


def tell(found: list[Own], rng: Random) -> str:
    """All of them, in sentences, in one sentence or as a list."""
    draw = rng.random()
    if draw < 0.14 and len(found) > 1:
        rows = [
            f"{capital(one.about)}: {one.slots['v'] if one.trait.label != 'plan' else one.slots['v'] + ' ' + one.slots['k']}"
            for one in found
        ]
        mark = rng.choice(("- ", "* ", ""))
        if rng.random() < 0.3:
            return "About me: " + "; ".join(row[0].lower() + row[1:] for row in rows) + "."
        return (
            rng.choice(("About me:", "My facts:", "Some facts about me:", "This is me:"))
            + "\n"
            + "\n".join(mark + row for row in rows)
            + "\n"
        )
    said = [one.fill(rng.choice(one.trait.told)) for one in found]
    if draw < 0.6 and len(said) > 1:
        return capital(", ".join(said[:-1]) + rng.choice((" and ", ", and ")) + said[-1]) + "."
    return " ".join(capital(one) + "." for one in said)


ASK = lines(
    "{q}?|{q}?|{q}?|{q}?|{q}|now tell me: {q}?|question: {q}?|so {q}?|please tell me, {q}?|quick test: {q}?|and now: {q}?"
)
ALL = lines(
    "what do you know about me|what did I tell you about myself|tell me what you know about me|what have you learned about me|repeat what I told you about me|who am I and what do you know about me|sum up what you know about me|describe me"
)
UNTOLD = lines(
    "what is my shoe size|what is my phone number|where did I park|what am I wearing|what is my password|how tall am I|what is my middle name|what is my blood type|what did I dream of|how much do I weigh|what is my bank balance|where are my keys"
)


def _ask(question: str, rng: Random) -> str:
    asked = rng.choice(ASK).format(q=question)
    return capital(asked) if rng.random() < 0.75 else asked


def question(found: list[Own], rng: Random) -> tuple[str, str]:
    """About one of them or all; or about something that was not told."""
    draw = rng.random()
    if draw < 0.14:
        others = [
            trait
            for trait in TRAITS
            if "{k}" not in trait.label + trait.answer and trait.label not in {one.trait.label for one in found}
        ]
        text = rng.choice(UNTOLD) if rng.random() < 0.4 else rng.choice(rng.choice(others).asked)
        # What somebody studies or where one comes from may be guessed from the rest: only what is plainly missing is asked.
        return _ask(text if "who am I" not in text else UNTOLD[0], rng), UNKNOWN
    if draw < 0.22:
        return _ask(rng.choice(ALL), rng), " ".join(one.answer for one in found)
    one = rng.choice(found)
    if draw < 0.36 and one.trait.check:
        asked = one if rng.random() < 0.5 else changed(one, rng)
        return _ask(
            asked.fill(asked.trait.check), rng
        ), f"{'Yes' if asked is one else 'No'}, {one.answer[0].lower()}{one.answer[1:]}"
    return _ask(one.fill(rng.choice(one.trait.asked[:2] if rng.random() < 0.3 else one.trait.asked)), rng), one.answer


def changed(one: Own, rng: Random) -> Own:
    """The same trait with another value; the same value where there is no other."""
    key, value = one.slots.get("k", ""), one.slots["v"]
    for _ in range(40):
        new = {"k": key, "v": rng.choice(FAVORITES[key])} if key in FAVORITES else one.trait.slots(rng)
        fits = key not in HIS + HERS or new["k"] in (HIS if key in HIS else HERS)  # a brother has a man's name
        if fits and new["v"].lower() != value.lower():
            return Own(one.trait, one.slots | {"v": new["v"]})
    return one


AGAIN = lines(
    "Sorry, that was wrong: {s}.|I made a mistake. {S}.|Wait, that is not right. {S}.|Correction: {s}.|No, I meant this: {s}.|Things have changed. Now it is like this: {s}."
)


def own(rng: Random) -> Exchange:
    """Told and asked back in the same turn."""
    found = owns(rng, rng.choice((1, 1, 2, 2, 2, 3, 4, 5)))
    told = tell(found, rng)
    asked, answer = question(found, rng)
    return Exchange(
        f"{told}{'' if told.endswith(chr(10)) else rng.choice((' ', ' ', ' ', chr(10)))}{asked}", answer, ()
    )


def own_turns(rng: Random) -> list[Turn]:
    """Told in one turn or in several, and asked back in later ones."""
    found = owns(rng, rng.choice((1, 2, 2, 3, 4)))
    turns: list[Turn] = []
    parts = [found] if rng.random() < 0.7 else [[one] for one in found]
    for part in parts:
        name = next((one.slots["v"] for one in part if one.trait.label == "name"), "")
        turns += [
            Turn("user", tell(part, rng).strip()),
            Turn("assistant", f"Nice to meet you, {name}! How can I help you?" if name else REMEMBERED),
        ]
    if rng.random() < 0.15:  # what is said later counts
        at = rng.randrange(len(found))
        new = changed(found[at], rng)
        said = new.fill(rng.choice(new.trait.told))
        turns += [Turn("user", rng.choice(AGAIN).format(s=said, S=capital(said))), Turn("assistant", REMEMBERED)]
        found[at] = new
    if rng.random() < 0.4:
        between = fresh(
            rng.choice((wide_common.known, wide_talk.arithmetic, wide_talk.three, reason, wide_talk.joke)), rng
        )
        turns += [Turn("user", between.user), Turn("assistant", between.answer)]
    for _ in range(rng.choice((1, 1, 2, 3))):
        asked, answer = question(found, rng)
        turns += [Turn("user", asked), Turn("assistant", answer)]
    return turns


# -- why and how: the question, and what makes it so where one can ask that; the answers of `facts`, and more

ASKED = """why the sky is blue~why is the sky blue~what makes the sky blue|why it rains~why does it rain~what makes it rain|why leaves fall in autumn~why do leaves fall in autumn~what makes leaves fall in autumn|why ice floats~why does ice float~what makes ice float|how a rainbow forms~how does a rainbow form~how do rainbows form|why we have
seasons~why do we have seasons~why are there seasons|why the moon shines~why does the moon shine~what makes the moon shine|how bread rises~how does bread rise~what makes bread rise|how a plane flies~how does a plane fly~how do planes fly|why we sleep~why do we sleep~why do people sleep|how a magnet works~how does a magnet work~how do magnets
work|how fish breathe~how do fish breathe~how does a fish breathe|how bees make honey~how do bees make honey~how is honey made by bees|how to make tea~how do I make tea~how do you make a cup of tea|how to boil an egg~how do I boil an egg~how do you boil eggs|how to plant a seed~how do I plant a seed~how do you plant seeds|how to wash your hands~how do I
wash my hands~how should I wash my hands|how to stay healthy~how do I stay healthy~how can people stay healthy|how to learn a language~how do I learn a language~how can I learn a new language|how to save money~how do I save money~how can I save money|how to fall asleep~how do I fall asleep~how can I fall asleep faster|what gravity is~what is
gravity~what does gravity do|what a prime number is~what is a prime number~what are prime numbers|what an atom is~what is an atom~what are atoms|what photosynthesis is~what is photosynthesis~how does photosynthesis work|what an algorithm is~what is an algorithm~what are algorithms|what democracy is~what is democracy~what is a democracy|what electricity
is~what is electricity~what exactly is electricity|what a language model is~what is a language model~what are language models|what a server is~what is a server~what does a server do|what a cache is~what is a cache~what does a cache do|what a variable is~what is a variable~what are variables in a program|what recycling is~what is recycling~what does recycling
mean"""
MORE = """why grass is green~why is grass green~what makes grass green~Grass holds a green stuff, chlorophyll, with which it catches sunlight.|why the sea is salty~why is the sea salty~what makes the sea salty~Rivers wash salt out of the rocks and carry it into the sea, where it stays.|why it gets dark at night~why does it get dark at night~what makes it dark at
night~The earth turns, and at night our side of it looks away from the sun.|why birds fly south~why do birds fly south~what makes birds fly south~Birds fly south in autumn because it is warm there and they find food.|why iron rusts~why does iron rust~what makes iron rust~Iron rusts because air and water slowly change it into a red powder.|why thunder comes after
lightning~why does thunder come after lightning~why do we hear thunder after lightning~Light is much faster than sound, so we see the lightning before we hear the thunder.|why onions make us cry~why do onions make us cry~why do I cry when I cut onions~A cut onion lets out a gas that stings in the eyes, and tears wash it away.|why the moon changes its shape~why does
the moon change its shape~what makes the moon change its shape~We see only the part of the moon that the sun lights, and that part changes as the moon goes around us.|why there are tides~why are there tides~what makes the tides~The moon pulls the water of the sea toward it, so the water rises and falls.|why bees visit flowers~why do bees visit flowers~what do bees want
from flowers~Bees visit flowers to collect nectar and pollen as food.|why camels have humps~why do camels have humps~why does a camel have a hump~A camel keeps fat in its hump and lives on it when there is no food.|why giraffes have long necks~why do giraffes have long necks~why is the neck of a giraffe so long~With a long neck a giraffe can reach leaves high in the
trees.|why we sweat~why do we sweat~what makes us sweat~Sweat dries on the skin and cools the body.|why we eat~why do we eat~why do people need to eat~Food gives the body energy and what it needs to grow.|why snow is white~why is snow white~what makes snow white~Snow sends back light of all colors at once, and together they look white.|why blood is red~why is blood
red~what makes blood red~Blood is red because of the iron in it, which carries oxygen.|why the sun shines~why does the sun shine~what makes the sun shine~Deep inside the sun, hydrogen turns into helium, and that sets free light and heat.|why hot air rises~why does hot air rise~what makes hot air rise~Hot air is lighter than cold air, so it rises.|why we brush our
teeth~why do we brush our teeth~why should I brush my teeth~We brush our teeth to remove food and germs, which make holes in them.|why a compass points north~why does a compass point north~what makes a compass point north~The earth is like a large magnet and turns the needle of a compass to the north.|why people get sunburned~why do people get sunburned~what makes
people get sunburned~Strong sunlight hurts the skin when one stays in it too long.|why volcanoes erupt~why do volcanoes erupt~what makes a volcano erupt~Hot melted rock and gas press upward from below until they break out.|why popcorn pops~why does popcorn pop~what makes popcorn pop~The water in a grain of corn turns into steam and bursts it open.|why balloons
rise~why do balloons rise~what makes a balloon rise~A balloon rises when the gas in it is lighter than the air around it.|why spiders spin webs~why do spiders spin webs~why does a spider make a web~Spiders spin webs to catch insects.|why the wind blows~why does the wind blow~what makes the wind blow~Air moves from cold places to warm ones, where the warm air rises.
|why days are longer in summer~why are days longer in summer~what makes the days longer in summer~In summer our half of the earth leans toward the sun, so the sun is up for longer.|why polar bears are white~why are polar bears white~why does a polar bear have white fur~A white coat hides a polar bear in the snow when it hunts.|why we need trees~why do we need trees~why
are trees important~Trees give us oxygen, wood, fruit and shade.|why people work~why do people work~why do we have to work~People work to earn money and to do something useful.|why ice melts~why does ice melt~what makes ice melt~Ice melts when it gets warmer than zero degrees Celsius.|why stars twinkle~why do stars twinkle~what makes the stars twinkle~Moving air bends
the light of the stars on its way to us.|why cats have whiskers~why do cats have whiskers~why does a cat have whiskers~With its whiskers a cat feels what is near, even in the dark.|why we wear helmets~why do we wear helmets~why should I wear a helmet~A helmet protects the head in a fall.|why wood floats~why does wood float~what makes wood float~Wood floats because it is
lighter than water."""


@cache
def reasons() -> list[tuple[str, list[str], str]]:
    """What is asked for as a clause, as questions, and the answer."""
    found = []
    for line in (*lines(ASKED), *lines(MORE)):
        clause, *questions = line.split("~")
        answer = facts.EXPLANATIONS[clause] if len(questions) == 2 else questions.pop()
        found.append((clause, questions, answer))
    return found


WHY = lines("""{q}|{q}|{q}|{q}|{m}|{m}|explain {c}|can you explain {c}|please explain {c}|tell me {c}|do you know {c}|I wonder {c}|what is the reason {c}|how come {s}|how come {s}|why {s}|{s}, why|explain to me {c}|I want to know {c}|my son wants to know {c}|I never knew {c}|could you explain to a child {c}|tell me in short {c}|a short explanation:
{q}|for what reason {i}|in simple words, {q}|{q}, do you know""")


def reason(rng: Random) -> Exchange:
    clause, (first, second), answer = rng.choice(reasons())
    why = clause.startswith("why ")
    forms = [form for form in WHY if why or not any(slot in form for slot in ("{s}", "{i}", "the reason"))]
    text = rng.choice(forms).format(
        q=first, m=second, c=clause, s=clause.removeprefix("why "), i=first.removeprefix("why ")
    )
    return Exchange(put(text, rng), answer, ())


# -- in short

VERBS = lines("""sold/the {n}|bought/a {n}|found/a {n}|lost/the {n}|repaired/the {n}|painted/the {n}|opened/a bakery|closed/the shop|won/the race|left/the village|built/a boat|wrote/a book|broke/the window|missed/the train|moved/to {t}|traveled/to {t}|called/the police|baked/a cake|planted/a tree|stole/the {n}|returned/the {n}|signed/the contract|cleaned/the
kitchen|started/a new job|passed/the exam|visited/the museum|cancelled/the party|forgot/the {n}|brought/the {n}|hid/the {n}|burned/the letters|saw/a fox|married/a painter|sat/on the {n}|slept/in the barn|fell/into the river|ran/home|waited/at the station|hired/a cook|rented/a car|ordered/a {n}|cut down/the old tree|fixed/the roof""")
SUBJECTS = lines(
    "my neighbor|the teacher|the mayor|the farmer|our team|the old man|a young woman|the children|the company|the king|a fisherman|the nurse|the captain|my uncle|the baker|a stranger|the twins|the committee|the pilot"
)
BEASTS = lines("the cat|the dog|the fox|the horse|a crow|the goat|a young bear|the parrot|our hens|the mouse")
BEASTLY = lines(
    "sat/on the {n}|sat/on the mat|slept/in the barn|fell/into the river|ran/home|hid/under the {n}|waited/at the door|found/a {n}|jumped/over the fence|ate/the bread|stood/beside the {n}|broke/the {n}|looked/at the {n}"
)
HELD = [
    one
    for one in facts.THINGS[: facts.THINGS.index("kennel")]
    if one not in lines("window|garden|bridge|tower|harbor|fence|fountain|dome|gate")
]
COUNTED = ("furniture", "garment", "tool", "instrument", "toy", "appliance", "vehicle", "boat", "hat", "fruit", "bag")
MANY = lines("our team|the children|the company|the twins|the committee")
OPENERS = lines(
    "on {d}|last week|in the morning|after a long wait|to everybody's surprise|in {y}|late at night|without a word|during the storm|two days ago|at last|before breakfast|at the end of {m}|as so often|in spite of the rain|according to the newspaper|for the first time in years|when the rain stopped|after the meeting"
)
ASIDES = lines(
    "who comes from {t}|who is {n} years old|who had never done it before|who lives next door|who was very tired|known to everybody in {t}|who loves long walks|who has two brothers|who did not feel well|who usually stays at home"
)
TAILS = lines(
    """because it was raining|because there was no other way|because the money was needed|although nobody had asked for it|although it was very late|while the others were asleep|so that everybody was happy|and nobody knew why|which made the others laugh|after thinking about it for weeks|with a smile|for the second time this
year|just before the doors closed|which took the whole afternoon|in front of a large crowd|even though it was forbidden|because it was warm there|since the weather was good|before anybody could say a word"""
    ""
)
REST = lines("""It was a cold day, and the streets were empty.|Nobody had expected that.|The neighbors talked about it for weeks.|It took almost three hours.|The weather was fine.|Some people were not happy about it.|It cost more than {n} euros.|Later there was tea and cake for all.|It was the talk of the town.|Many people came to see it.|The newspaper wrote
about it the next day.|Everybody was a little tired afterward.|It had been planned for a long time.|There will be more about it next week.""")


def thing(rng: Random) -> str:
    """Something that one can count and hold or look at."""
    return rng.choice(HELD) if rng.random() < 0.4 else rng.choice(kind(rng.choice(COUNTED)))


def event(rng: Random) -> tuple[str, str]:
    """A sentence, and its main clause without the full stop."""
    subject = (
        rng.choice(SUBJECTS) if rng.random() < 0.45 else rng.choice(BEASTS) if rng.random() < 0.3 else wide.person(rng)
    )
    verb, _, rest = rng.choice(BEASTLY if subject in BEASTS else VERBS).partition("/")
    core = re.sub(r"\ba (?=[aeiou])", "an ", f"{verb} {rest.format(n=thing(rng), t=wide.town(rng))}")
    words = {
        "t": wide.town(rng),
        "n": str(rng.randint(19, 90)),
        "d": rng.choice(facts.DAYS),
        "y": str(rng.randint(1900, 2025)),
        "m": rng.choice(facts.MONTHS),
    }
    single = subject not in BEASTS and subject not in MANY
    parts = [subject if not single or rng.random() < 0.6 else f"{subject}, {rng.choice(ASIDES).format(**words)},", core]
    if rng.random() < 0.6:
        parts.insert(0, f"{rng.choice(OPENERS).format(**words)},")
    if rng.random() < 0.7 or len(parts) == 2:
        tail = rng.choice(TAILS)
        parts[-1] += f", {tail}" if tail.startswith(("which", "although", "even", "and ", "while")) else f" {tail}"
    return capital(" ".join(parts)) + ".", f"{subject} {core}"


def aside(rng: Random) -> str:
    """A sentence that only says more about what happened."""
    return rng.choice(REST).format(n=rng.choice((200, 500, 1000, 3000)))


def summary(rng: Random) -> tuple[str, str]:
    """One to four sentences, and the main clauses of what happened; what only says more about it is left out."""
    told, main = event(rng)
    if rng.random() < 0.18:
        more, other = event(rng)
        if main.split()[:2] != other.split()[:2]:
            told, main = f"{told} {more}", f"{main}, and {other}"
    rest = list(dict.fromkeys(aside(rng) for _ in range(rng.choice((0, 0, 0, 1, 1, 2, 3)))))
    return " ".join((told, *rest[: 4 - told.count(". ")])), capital(main) + "."


SUM_UP = lines("""Summarize: {t}|Summarize: {t}|Summarize this: {t}|Summarize this in a few words: {t}|Summarize the text. {t}|Sum this up: {t}|Please summarize: {t}|{t} Summarize this.|{t}¶¶Summarize.|{t} In short?|In short: {t}|Give me a summary: {t}|Make this shorter: {t}|Shorten this: {t}|What happened, in a few words? {t}|What is the main point? {t}|{t}¶¶What is
the main point?|tl;dr: {t}|summary of this please: {t}|Say this in fewer words: {t}|Can you summarize this? {t}|Can you sum this up? "{t}"|Summarize the following text.¶¶{t}|Text: {t}¶Summary:|{t} Now put that in a nutshell.|Write a short summary of this: {t}|summarise: {t}|Give the gist: {t}|{t}¶TL;DR|Summarize this sentence:¶{t}|Summarize in one sentence: {t}""")


def short(rng: Random) -> Exchange:
    told, answer = summary(rng)
    return Exchange(rng.choice(SUM_UP).format(t=told).replace("¶", "\n"), answer, ())
