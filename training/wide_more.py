"""More talk: greetings with a remark, stories of many plots, plain definitions, sums in words."""

# ruff: noqa: E501, SIM905  (phrases in rows are easier to read than lists of them)

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from random import Random

from training import facts, facts_talk, wide, wide_talk
from training.facts_questions import Exchange
from training.rough import rough
from training.wide_facts import capital, slip
from training.wide_kinds import kinds
from training.wide_talk import lines, spelled
from training.wide_words import MEANINGS

# -- as fingers have it

SHORT = {"you": "u", "are": "r", "your": "ur", "please": "pls", "thanks": "thx", "what": "wat", "because": "cuz", "are you": "r u", "to": "2", "okay": "ok",
         "people": "ppl", "about": "abt", "with": "w", "and": "n", "great": "gr8", "thank you": "ty", "the": "da", "know": "kno", "that": "dat", "for": "4"}  # fmt: skip


def rushed(text: str, rng: Random) -> str:
    """Small letters, short forms, slips, no signs; or shouted, or with too many signs."""
    draw = rng.random()
    if draw < 0.62:
        return text
    if draw < 0.72:
        return text.lower().rstrip(".?!")
    if draw < 0.82:
        words = text.lower().split(" ")
        return " ".join(SHORT.get(word, word) if rng.random() < 0.6 else word for word in words)
    if draw < 0.93:
        words = text.split(" ")
        for at in rng.sample(range(len(words)), min(len(words), rng.choice((1, 1, 2)))):
            if len(words[at]) > 3 and words[at].isalpha():
                words[at] = slip(words[at], rng)
        return " ".join(words)
    if draw < 0.95:
        return text.upper()
    return text.rstrip("?.!") + rng.choice(("??", "!!", "...", " ...", " :)", "?!", " lol", " thx", " ty", " pls"))


# -- greetings and the like

HELLO = lines("""hello|hi|hey|hiya|good morning|good afternoon|good evening|greetings|howdy|hey there|hi there|hello there|morning|evening|good day|salutations|
hallo|yo|ahoy|well met|heya|oh hi|hullo|g'day|welcome back|hi again|hello again|top of the morning|aloha|hola|bonjour|ciao|hej|hi ya|hey hey|hello hello""")
NAMED = lines("""you|friend|my friend|everyone|bot|computer|Paceline|mini|assistant|dear assistant|little one|buddy|pal|mate|stranger|chatbot|AI|model|robot|sir|madam|
neighbor|old friend|dear|chief|captain|folks|program|little helper|silicon friend""")
REMARK = lines("""what a nice morning|it is a sunny day|the weather is great|I just got here|I am new here|this is my first try|I am back|nice to meet you|glad to see you|
pleased to meet you|hope all is well|I hope you slept well|long time no see|just wanted to say hi|here I am|it's me|I am {n}|my name is {n}|this is {n} speaking|{n} here|
greetings from {t}|I'm writing from {t}|what a day|finally Friday|happy {d}|I made it|nice place you have here|great to be here|can you hear me|is this thing on|anybody home|
anyone awake|I came to say hello|let's get started|shall we begin|I'm in a good mood|it is raining here|cold today|so we meet at last|a fine evening to you|
wonderful to be here|I brought cookies|testing the connection|checking in|first time using this|we haven't met before|coffee is ready|just passing by""")
THANKED = lines("""that was quick|that was what I needed|you saved my day|that helped|you are a star|that is very kind|that was useful|I could not have done it alone|
now it is clear|that's perfect|it works now|I understand it now|much better|you made it easy|what a relief|you're a great help|just what I wanted|good work|that is all|
I owe you one|you did well|excellent answer|that solved it|my problem is gone|you really helped me out|nice one|I learned something|great explanation|that's all for today""")
THANK = lines("""thanks|thank you|many thanks|thanks a lot|thank you so much|thx|cheers|ta|thanks again|thank you very much|I thank you|much obliged|my thanks|thanks a ton|
a big thank you|I am grateful|I really appreciate it|thanks for that|thank you for everything|thanks for your time|thank you for your patience|bless you|kudos|lovely, thanks|
appreciated|merci|gracias|danke|thank u|thanx|thnks|tyvm|tnx|thank you dearly|thanks heaps|sincere thanks""")
WHO = lines("""who are you|what are you|who is there|what is your name|do you have a name|what do I call you|who do I talk to|who is answering me|who am I chatting with|tell
me your name|what's this program|what is this bot|which AI are you|what AI is this|what am I talking to|are you human or machine|is this a person|is a human there|are you real|
what exactly are you|explain yourself: who are you|give a short introduction of yourself|a few words about yourself, please|your name please|name?|who's this|and who might you
be|whom do I have the honor of meeting|what sort of creature are you|say something about yourself|could you introduce yourself|let me know who you are|I wonder who you are|I don't know
you, who are you|what do people call you|how are you called|which model do I speak to|are you GPT|are you Siri|are you Alexa|are you Claude|are you some kind of robot|what software are
you|what is the name of this assistant|present yourself|who made an appearance here, you or a human|are you a computer program|what kind of assistant are you|I'd like to get to
know you|tell me a bit about you|we have not been introduced|do I talk to a machine|what's your deal, who are you""")
CAN = lines("""what can you do|what are you good at|how can you help|what can I do with you|what do you offer|what are you able to do|what things can you do|what can I ask|what do
you do|what is your use|what are you useful for|what could you do for me|which tasks can you do|what jobs can I give you|how would you help me|tell me your talents|what talents do you
have|your skills?|list what you can do|give me some examples of what you can do|name your abilities|what are the things you know how to do|can you do anything useful|what
sort of help do you give|how do you help people|what are your features|what's in your toolbox|how might I use you|why should I use you|what is it you do|what may I ask of you|what
functions do you have|what would you say you are good at|what tricks do you know|show me your skills|so what can you actually do|describe your abilities|what kinds of questions do you
answer|what are your powers|which problems can you solve|what are the limits of what you can do|what are you made for|I don't know what to ask you|give me an idea what you can
do|how can I make use of you|in what can you assist|where can you help|what support can you give me|what all can you do|tell me how you can be of help|what works with you""")
BEFORE = lines("""hi,|hello,|ok,|so|please|hey|well|um|excuse me,|sorry,|quick one:|by the way,|one question:|before we start:|just asking:|be honest:|in short:|if I may ask,|say,|
right,|I'm curious,|random question,|for the record,|first things first:|tell me,|now then,|good morning,|hello there!""")
AFTER = lines(
    """please|exactly|then|anyway|today|if I may ask|in one sentence|in a few words|in short|honestly|my friend|for me|actually|again|really|in general|right now|mate|dear"""
)
ENDS = ("?", "?", "?", "", "", ".", "!", "??")
CALM = ("!", ".", "", "", "!!", " :)", "...")


def put(text: str, rng: Random, ends: Sequence[str] = ENDS) -> str:
    draw = rng.random()
    if draw < 0.18:
        text = f"{rng.choice(BEFORE)} {text}"
    elif draw < 0.28:
        text = f"{text} {rng.choice(AFTER)}"
    elif draw < 0.38:
        text = rough(text, rng)
    text = capital(text) if rng.random() < 0.65 else text
    return rushed(text + (rng.choice(ends) if text[-1:] not in "?!." else ""), rng)


def greet(rng: Random) -> Exchange:
    text = rng.choice(HELLO)
    if rng.random() < 0.4:
        text += rng.choice((", ", " ", " ")) + rng.choice(NAMED)
    if rng.random() < 0.5:
        remark = rng.choice(REMARK).format(n=wide.first_name(rng), t=wide.town(rng), d=rng.choice(facts.DAYS))
        text = rng.choice(
            ("{0}, {1}", "{0}! {2}", "{0}. {2}", "{0} - {1}", "{2}, {0}", "{0} {1}", "{0}... {1}")
        ).format(text, remark, capital(remark))
    text = capital(text) if rng.random() < 0.6 else text
    return Exchange(rushed(text + rng.choice(CALM), rng), "Hello! How can I help you?", ())


def thank(rng: Random) -> Exchange:
    text, more = rng.choice(THANK), rng.choice(THANKED)
    if rng.random() < 0.3:
        text += " " + rng.choice(
            (
                "for the help",
                "for your answer",
                "for explaining",
                "for the quick reply",
                "for the information",
                "for helping me",
                "for listening",
                "my friend",
                "mate",
                "Paceline",
                "bot",
                "for that one",
            )
        )
    if rng.random() < 0.5:
        text = rng.choice(("{0}, {1}", "{0}! {2}", "{2}. {0}", "{1}, {0}", "{2}! {0}", "{0}. {2}")).format(
            text, more, capital(more)
        )
    text = capital(text) if rng.random() < 0.6 else text
    return Exchange(rushed(text + rng.choice(CALM), rng), "You are welcome!", ())


def who(rng: Random) -> Exchange:
    return Exchange(put(rng.choice(WHO), rng), facts_talk.WHO, ())


def can(rng: Random) -> Exchange:
    return Exchange(put(rng.choice(CAN), rng), facts_talk.CAN, ())


# -- stories

PLOTS = lines("""Once there was {a} who could not sleep. Every night the {h} went to the {p} and counted the stars. One night {f} came by and sang a soft song. The {h} closed its eyes and slept
until morning. From then on they met every night.|Long ago, {a} lived at the edge of a {p}. The {h} had lost a {o} and looked for it everywhere. At last {f} found it in the grass. "You may keep it,"
said the {h}, "if you stay my friend." And so it was.|One winter {a} was cold and hungry. The {h} knocked at every door in the {p}, but nobody opened. Then {f} called, "Come in, there is soup for
two." They ate together, and the {h} never felt alone again.|There was once {a} that wanted to see the sea. The {h} walked for three days, over hills and past a {p}. On the way it met {f}, who knew the road.
When they saw the waves they laughed and danced. It was the best day of their lives.|{A} and {f} had a race through the {p}. The {h} was fast but stopped to help a bird that had fallen from its nest. So {f} won.
But everybody cheered for the {h}, because it had a good heart.|Deep in a {p} lived {a} who was afraid of the dark. One evening the {h} found a {o} that glowed like the moon. It put the light in its window. Soon
all the neighbors came to thank it, and the {h} was never afraid again.|A great storm came over the {p}. {A} hid under a bridge and found {f} there, wet and shaking. The {h} shared its blanket. When the sun came back, a
rainbow stood in the sky. They followed it home together.|Once upon a time {a} wished to fly. It built wings of paper and jumped from a hill, but it fell into the {p}. {f} laughed, then helped it to build better ones. On
the third day the {h} flew over the roofs. Everybody waved.|In a small {p} there was {a} who baked the best bread. One day all the flour was gone. The {h} was sad, until {f} came with a full sack. They baked all
night, and in the morning the whole town had breakfast together.|{A} found an old map in a drawer. It led through the {p} to a secret door. Behind the door there was no gold, only {f}, who had waited for a friend. "You are my
treasure," said the {h}, and both were happy.|Nobody ever listened to {a}. So the {h} went to the {p} and talked to the wind. {f} heard it and said, "What a fine story!" The next day they told it together, and the
whole village came to listen.|There was {a} who never shared. One day the {h} fell into a hole near the {p} and cried for help. {f} came with a rope and pulled it out. "Thank you," said the {h}, and gave away
half of everything it had. It was happier than before.|Every morning {a} carried a bucket to the {p}. Nobody knew why. One day {f} followed in secret and saw that the {h} watered a tiny tree there. Years later it was the tallest tree
in the land, and all children played under it.|{A} woke up and the sun was gone. "Who took it?" asked the {h}. Together with {f} it climbed the highest hill behind the {p}. There the sun was only sleeping behind a cloud. They
called its name, and the day began.|Once {a} got a letter without a name. "Come to the {p} at noon," it said. The {h} was curious and went. There stood {f} with a cake and a {o}. It was a birthday party, and the {h} had forgotten its own birthday!|The king had
lost his {o}, and nobody could find it. Only {a} looked in the {p}, where nobody ever went. There it lay, beside {f}, who had kept it safe. The king laughed, and the {h} got a medal.""")
STORIES = lines("""tell me a story about {s}|a story about {s}|write something about {s}, as a story|can I have a story with {s}|I want a tale of {s}|short story: {s}|story with {s}, please|make a story, the
hero is {s}|tell us of {s}|a bedtime story about {s}|write a tiny tale about {s}|invent something about {s}|what about a story with {s}|my daughter wants a story about {s}|story time! {s}|give me three or four sentences of story about
{s}|let {s} be the hero of a story|please tell a story where {s} appears|I need a story about {s} for tonight|a fable with {s}|tell a short one about {s}|could you make up a tale with {s} in it|spin me a yarn about {s}|begin a story about
{s}|how about a little story on {s}|narrate a tale about {s}|a brief story featuring {s}|once upon a time, {s}|amuse us with a story about {s}|the story of {s}, please|fairy tale, {s}|quick story about {s}|write me some fiction, about {s}""")


def story(rng: Random) -> Exchange:
    draw = rng.random()
    any_one = draw < 0.15
    named = kinds()[
        rng.choice(
            [
                kind
                for kind in (
                    "bird",
                    "animal",
                    "worker",
                    "mammal",
                    "insect",
                    "vehicle",
                    "tool",
                    "clothing",
                    "furniture",
                    "fruit",
                    "tree",
                    "vessel",
                    "toy",
                    "container",
                )
                if kind in kinds()
            ]
            or list(kinds())
        )
    ]
    hero = (
        rng.choice(facts.ANIMALS)
        if draw < 0.35
        else rng.choice(wide_talk.HEROES)
        if draw < 0.65
        else rng.choice(named)
        if draw < 0.8
        else wide.noun(rng)
    )
    subject = rng.choice(
        (
            facts.an(hero),
            facts.an(hero),
            hero,
            f"the {hero}",
            facts.plural(hero),
            facts.an(
                f"{rng.choice(('little', 'brave', 'old', 'small', 'lonely', 'clever', 'happy', 'lost', 'young', 'tired', 'curious'))} {hero}"
            ),
        )
    )
    friend = f"{rng.choice(('a', 'an old', 'a small', 'a kind', 'a young'))} {rng.choice([one for one in facts.ANIMALS if one != hero and one[0] not in 'aeiou'])}"
    words = {"a": facts.an(hero), "A": capital(facts.an(hero)), "h": hero, "f": friend, "F": capital(friend), "o": rng.choice(facts.CARRIED),
             "p": rng.choice(lines("forest|village|meadow|valley|harbor|garden|river|lake|market|field|mill|town"))}  # fmt: skip
    tale = re.sub(r"(?<=[.!?] )\{f\}|(?<=\" )\{f\}", "{F}", rng.choice(PLOTS)).format(**words)
    text = rng.choice(wide_talk.ANY_STORY) if any_one else rng.choice(STORIES).format(s=subject)
    return Exchange(put(text, rng, (".", "", "!", "?")), tale, ())


# -- definitions

ASKS = lines("""what is {a}|define {w}|meaning of {w}|what does {w} mean|explain {w}|the word {w} means what|tell me the meaning of {w}|definition: {w}|{w}?|how would you explain {w} to a child|in your own
words, what is {a}|what do you call {a}, I mean what is it|what's the meaning of the word "{w}"|give a short definition for {w}|I never heard the word {w}|please explain the term {w}|what is {w}|what is the sense of the
word {w}|a definition of '{w}', please|describe {a}|say what {a} is|can you tell me what {w} means|what is understood by {w}|explain in one sentence what {a} is|my son asks what {a} is|dictionary entry for {w}|look up the word {w} for
me|what would you say {a} is|do you know the word {w}|who knows what {w} means|so what exactly is {a}|help me understand the word {w}|{w} - what is that|what on earth is {a}|how is {w} defined|write what {w} means""")


@cache
def _meanings() -> list[tuple[str, str]]:
    return [(word, meaning) for word, _, meaning in (one.partition("=") for one in MEANINGS.split("|"))]


def define(rng: Random) -> Exchange:
    word, meaning = rng.choice(_meanings())
    form = rng.choice(
        [form for form in ASKS if "{a}" not in form]
        if meaning.startswith(("to ", "not ", "having", "with", "feeling", "the ", "very", "of ", "cover"))
        else ASKS
    )
    answer = f"'{word}' means: {meaning}."
    return Exchange(put(form.format(w=word, a=facts.an(word)), rng), answer, ())


# -- sums in words

PROBLEMS = {
    "plus": lines("""{p} has {x} {t} and gets {y} more. How many does {p} have now|there are {x} {t} on the table and {y} in the box. How many in all|I bought {x} {t} in the morning and {y} in the evening, how many {t} is that|{p} found
    {x} {t}, {q} found {y}. How many did they find together|{x} people were on the bus and {y} got on. How many are on it now|a shelf holds {x} books and another one {y}. What is the total|yesterday it was {x} euros, today {y}. How much together|we
    had {x} {t} and then {y} arrived. How many {t} now|{p} walked {x} km and then {y} km more. How far in total|put {x} and {y} together|{x} in one hand, {y} in the other, how many|I spent {x} on food and {y} on books, what did I
    spend|{x} girls and {y} boys are in the class. How many children|{p} is {x} now. How old will {p} be in {y} years|what do {x} and {y} add up to|{x} with {y} on top|a price of {x} goes up by {y}. What is the new price|{x} {t} here and {y}
    {t} there make how many|combine {x} and {y}|you have {x}, I have {y}, what have we got together"""),
    "minus": lines("""{p} had {x} {t} and gave {y} to {q}. How many are left|of {x} {t}, {y} are gone. How many remain|there were {x} people in the room and {y} went home. How many are still there|I have {x} euros and spend {y}. What
    is left|{x} {t} lay in the basket, {p} ate {y}. How many are in it now|{p} has {x} and {q} has {y}. How many more has {p}|a rope of {x} meters is cut by {y} meters. How long is it now|{x} cars were parked, {y} drove away, how many are there
    now|we lost {y} of our {x} {t}. How many do we have|from {x} take {y}|what must I add to {y} to get {x}|{p} is {x} years old, {q} is {y} years younger. How old is {q}|it is {x} degrees and gets {y} degrees colder. How warm is it then|{y}
    of {x} seats are taken. How many are free|a price of {x} falls by {y}. What is it now|{x} pages, {y} are read. How many to go|{p} baked {x} {t} and sold {y}, how many remain|{x} minus {y} leaves what|if {y} leave a group of {x}, how many
    stay behind|by how much is {x} larger than {y}"""),
    "times": lines("""{x} boxes with {y} {t} each. How many {t}|{p} buys {x} {t} at {y} euros each. How much is that|there are {x} rows with {y} seats. How many seats|every day {p} runs {y} km. How far in {x} days|{x} children get {y}
    {t} each, how many {t} are needed|a week costs {y} euros, how much do {x} weeks cost|{x} bags hold {y} {t} each. What is the total number|{x} tables with {y} legs, how many legs|{x} times as many as {y}|one {u} has {y} wheels, how many wheels have
    {x}|{x} teams of {y} players make how many players|{y} pages a day for {x} days, how many pages|{x} lots of {y}"""),
    "divided by": lines("""{x} {t} are shared by {y} children. How many does each get|{p} puts {x} {t} into {y} equal bags. How many in each bag|{x} euros for {y} people, how much for each|how many groups of {y} can I make from {x}|{x} km in {y} hours.
    How many km an hour|cut {x} meters into {y} equal pieces, how long is each|{y} friends split {x} {t} fairly. What does each one get|{x} cards dealt to {y} players, how many each"""),
}  # fmt: skip
GOODS = lines(
    "apples|eggs|coins|stamps|marbles|cookies|pencils|books|cards|balls|flowers|fish|shells|buttons|candles|cups|tickets|nuts|oranges|keys|hats|chairs|stones|birds|toys|plates|cakes|bottles|bananas|stickers"
)


def word_sum(rng: Random) -> Exchange:
    kind = rng.choices(list(PROBLEMS), (4, 4, 2, 1))[0]
    most = rng.choice((9, 12, 20, 60, 99))
    x, y = rng.randint(2, most), rng.randint(1, most)
    if kind == "minus":
        x, y = max(x, y), min(x, y)
    if kind == "times":
        x, y = rng.randint(2, 12), rng.randint(2, 12 if rng.random() < 0.8 else 20)
    if kind == "divided by":
        y = rng.randint(2, 12)
        x = y * rng.randint(1, 12)
    result = {"plus": x + y, "minus": x - y, "times": x * y}.get(kind, x // y)
    shown = (spelled(x), spelled(y)) if rng.random() < 0.2 else (str(x), str(y))
    text = rng.choice(PROBLEMS[kind]).format(
        x=shown[0],
        y=shown[1],
        p=wide.first_name(rng),
        q=wide.first_name(rng),
        t=rng.choice(GOODS),
        u=rng.choice(("car", "cart", "bike")),
    )
    text = capital(text) if rng.random() < 0.8 else text
    text = rushed(text + rng.choice(("?", "?", "?", "", ".")), rng)
    if " 2 " in f" {text} " and "2" not in shown:  # a short form must not become a number
        text = text.replace(" 2 ", " to ")
    if " 4 " in f" {text} " and "4" not in shown:
        text = text.replace(" 4 ", " for ")
    return Exchange(text, f"{x} {kind} {y} is {result}.", ())
