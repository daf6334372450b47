"""Small talk, sums, lists, stories, definitions and the unknowable, in as many people's words as rules can make."""

# ruff: noqa: E501, SIM905  (phrases in rows are easier to read than lists of them)

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import cache
from random import Random

from training import facts, facts_talk, wide, wide_facts
from training.data_chat import Chat, Turn
from training.facts_questions import Exchange
from training.rough import rough
from training.sources import records
from training.wide_facts import capital, typed
from training.wide_words import MEANINGS

UNKNOWN = "I do not know that."


def lines(text: str) -> list[str]:
    return [" ".join(part.split()) for part in text.split("|")]


def _marked(text: str, rng: Random, marks: Sequence[str]) -> str:
    text = text if rng.random() < 0.3 else capital(text)
    return text + ("" if text[-1:] in "?!.=" else rng.choice(marks))


def _said(texts: Sequence[str], rng: Random, marks: Sequence[str] = ("?", "?", "?", "", "??", " ?")) -> str:
    """One of the texts, with what people put around it; now and then with a slip."""
    text = rng.choice(texts)
    draw = rng.random()
    if draw < 0.15:
        text = f"{rng.choice(OPEN)} {text}"
    elif draw < 0.22:
        text = f"{text} {rng.choice(CLOSE)}"
    elif draw < 0.34:
        text = rough(text, rng)
    return typed(_marked(text, rng, marks), rng)


OPEN = lines("""hey,|hi,|hello,|hello!|hi there,|ok,|so,|please|well,|um,|sorry,|excuse me,|just curious:|tell me,|quick question,|one
more thing:|I wonder,|yo,|good morning,|alright,|listen,|and|but|now|honestly,|dear assistant,|bot,""")
CLOSE = lines("""please|thanks|then|now|exactly|today|anyway|in short|for me|my friend|by the way|if I may ask|really|buddy|in a
sentence""")

GREET = lines("""hello|hi|hey|hiya|good morning|good afternoon|good evening|greetings|howdy|hello there|hi there|hey there|good day|
morning|evening|hello hello|hi hi|heya|hallo|salutations|welcome|oh hello|well hello|a good day to you|hello again|hi again|
pleased to meet you|nice to meet you|anyone there|are you there|is anybody here|knock knock, hello|hello world|ping|testing,
hello|what's up|sup|yo|wassup|hi, how's everything|let's chat|can we talk|talk to me|I'm new here|just saying hi|I wanted to
say hello|first time here, hi|hey, you there|good to see you|happy to be here|start|let us begin|I have a question""")
TO = (
    "",
    "",
    "",
    "",
    " friend",
    " there",
    " assistant",
    " Paceline",
    " bot",
    " mini",
    " you",
    " everybody",
    ", my friend",
    " computer",
)
HOW = lines("""how are you|how are you doing|how do you do|how is it going|how's it going|how are things|how do you feel|are you ok|are
you well|are you fine|how have you been|how's life|how's your day|how is your day going|how was your day|you good|everything
alright|how are you today|how's everything|are you happy|what's new with you|how do you feel right now|you doing okay""")
WHO = lines("""who are you|what are you|what is your name|what's your name|your name|do you have a name|how should I call you|what should
I call you|tell me about yourself|tell me who you are|introduce yourself|say who you are|who is this|who am I talking to|who am
I speaking with|with whom am I chatting|are you a human|are you a robot|are you a person|are you a real person|are you an AI|are
you a machine|are you alive|what kind of model are you|which model are you|what model is this|what language model is this|are
you chatgpt|are you a chatbot|what sort of thing are you|describe yourself|give me your name|state your name|may I ask who you
are|can you introduce yourself|could you tell me who you are|please present yourself|who's there|who do I have the pleasure of
speaking to|identify yourself|what do they call you|is there a name I can call you|I'd like to know who you are|explain what you
are|name yourself|are you a bot|so who are you|and you are|what is paceline mini|what's this thing""")
CAN = lines("""what can you do|what can you do for me|how can you help me|how can you help|what are you good at|what can I ask you|what
do you know|what are your abilities|what are your skills|what are you able to do|what tasks can you handle|what are you for|what
is your purpose|what is your job|what do you do|how do I use you|what can I use you for|what kind of questions can I ask|what
sort of things can you do|list your capabilities|tell me what you can do|show me what you can do|give me an overview of your
skills|in what ways can you help|how could you be useful|what features do you have|what's possible here|what should I ask|help|
can you help me|could you help me|I need help|I need some help|what am I supposed to ask you|explain your capabilities|what are
your strengths|what services do you offer|how may you assist me|can you assist me|what use are you|which things are you capable
of|tell me your functions|are you useful|what would you be able to help with|describe what you can do|name some things that you
can do""")
THANKS = lines("""thanks|thank you|thanks a lot|thank you very much|thank you so much|many thanks|thx|ty|cheers|much appreciated|I
appreciate it|I appreciate your help|thanks for your help|thank you for the help|thanks, that helped|great, thanks|perfect,
thank you|awesome, thanks|that was helpful|that helps a lot|you helped me a lot|you're the best|thanks a million|thanks a bunch|
thank you kindly|I'm grateful|I am very grateful|thanks again|ok thanks|cool thanks|nice, thank you|wonderful, thanks|big
thanks|thank you, that is all I needed|thanks for the answer|thank you for answering|how kind of you, thanks|well done,
thanks|good job, thank you|tysm|thanks so much|that's great, thank you|that's what I needed, thanks|super, thanks|
brilliant, thank you|you have been very helpful|very kind of you""")
BYE = lines("""goodbye|bye|see you later|good night|I have to go|bye bye|see you soon|that is all, bye|see you|farewell|take care|I'm
leaving|I am off|have a nice day|talk to you later|until next time|catch you later|I'm done for today|ciao|so long|later|gotta
go|time to go|see you tomorrow|that's it, goodbye|end of chat|quit|exit|I will go now""")
JOKE = lines("""tell me a joke|do you know a joke|make me laugh|say something funny|a joke please|can you tell a joke|I could use a
joke|joke|got any jokes|know any good jokes|let me hear a joke|cheer me up with a joke|I want to laugh|be funny|give me a funny
line|tell us something funny|entertain me with a joke|one joke please|another joke""")
MADE = lines("""who made you|where do you come from|who built you|who trained you|how were you made|who created you|who developed you|
who is your maker|who wrote you|what company made you|which project are you from|how were you trained|who programmed you|who is
behind you|where were you made|what is your origin""")
GOOD = lines("""I am happy|today is a good day|I had a great day|I got the job|I passed my exam|we won the game|it's my birthday|I feel
great|life is good|everything is fine|I'm in love|we are having a party|I finished my project|I am on holiday""")
BAD = lines("""I am sad|I had a bad day|I feel down|I failed my test|I lost my keys|I'm not feeling well|my head hurts|I am stressed|I'm
worried|nobody likes me|everything went wrong|I had a fight with my friend|I miss my family|I can't sleep""")
OKAY = lines("""ok|okay|I see|alright|got it|good|great|nice|cool|fine|interesting|wow|yes|no|sure|maybe|hm|hmm|aha|right|understood|
good to know|fair enough|no problem|never mind|that's fine|not really|I guess|of course|very good""")
NOISE = lines(
    """asdf|qwertz|???|...|blah blah|lorem ipsum|foo bar|xyz|hmm what|huh|la la la|aaaa|jkl;|12 34 x|bzzt|wat|zzz"""
)


def _simple(
    texts: list[str], *answers: str, marks: Sequence[str] = ("?", "?", "", "??")
) -> Callable[[Random], Exchange]:
    return lambda rng: Exchange(_said(texts, rng, marks), rng.choice(answers), ())


def greet(rng: Random) -> Exchange:
    text = rng.choice(GREET)
    text += rng.choice(TO) if " " not in text or text.startswith("good") else ""
    text = typed(_marked(text, rng, ("!", "!", ".", "", "", "!!", " :)", "?")), rng)
    if rng.random() < 0.1:
        text += f" {_marked(rng.choice(HOW), rng, ('?', ''))}"
        return Exchange(text, "I am fine, thank you. How can I help you?", ())
    return Exchange(text, "Hello! How can I help you?", ())


def greet_and_ask(rng: Random) -> Exchange:
    """A greeting before the question: the question counts."""
    other = rng.choice((who, who, who, can, unknown, three, story, arithmetic, define))(rng)
    hello = capital(rng.choice(GREET[:14])) + rng.choice(("!", ".", ",", " -", "! "))
    return Exchange(f"{hello} {other.user}", other.answer, ())


_calm = ("!", ".", ".", "", "")
who = _simple(WHO, facts_talk.WHO)
can = _simple(CAN, facts_talk.CAN)
thanks = _simple(THANKS, "You are welcome!", marks=("!", "!", ".", "", "!!", " :)"))
bye = _simple(BYE, "Goodbye! Have a nice day.", marks=_calm)
how = _simple(HOW, "I am fine, thank you. How can I help you?")
joke = _simple(JOKE, *facts.JOKES, marks=_calm)
made = _simple(MADE, "I was trained for the Paceline project, as a small model to try the server with.")
good = _simple(GOOD, "That is good to hear! Tell me more.", marks=_calm)
bad = _simple(BAD, "I am sorry to hear that. Do you want to talk about it?", marks=_calm)
okay = _simple(OKAY, "Good. Is there anything else I can do for you?", marks=_calm)
noise = _simple(NOISE, "I did not understand that. Can you say it in other words?", marks=("", ".", "?"))

# -- lists

MORE = {
    "bird": "eagle owl sparrow", "flower": "rose tulip daisy", "tree": "oak pine maple", "planet": "Mars Venus Jupiter",
    "country": "France Japan Brazil", "metal": "iron gold copper", "drink": "water tea coffee", "shape": "circle square triangle",
    "season": "spring summer autumn", "month": "January February March", "day of the week": "Monday Tuesday Wednesday",
    "insect": "ant bee beetle", "fish": "salmon trout tuna", "language": "English French Spanish", "number": "one two three",
    "letter": "A B C", "body part": "arm leg head", "piece of furniture": "chair table bed", "toy": "doll ball kite",
    "river": "Nile Amazon Danube", "ocean": "Atlantic Pacific Indian", "continent": "Africa Asia Europe", "spice": "salt pepper cinnamon",
    "pet": "cat dog hamster", "piece of clothing": "shirt coat hat", "hobby": "reading painting gardening", "feeling": "joy fear anger",
    "farm animal": "cow pig sheep", "wild animal": "lion wolf bear", "kitchen tool": "knife spoon pan", "dessert": "cake pie pudding",
    "building": "house church school", "thing in a school": "desk book pencil", "thing in a kitchen": "pot plate oven",
    "way to travel": "car train plane", "thing to eat": "bread cheese soup", "book": "novel atlas dictionary", "gem": "ruby diamond emerald",
    "thing": "lamp chair clock", "item": "lamp chair clock", "object": "lamp chair clock", "name": "Anna Tom Maria", "word": "sun tree river",
    "verb": "run eat sleep", "adjective": "red tall quiet", "noun": "house dog tree", "berry": "strawberry blueberry raspberry",
    "musical instrument": "piano guitar violin", "profession": "teacher doctor nurse", "capital city": "Paris Tokyo Rome",
    "European country": "France Germany Spain", "mammal": "cat dog horse", "reptile": "snake lizard turtle", "sea animal": "whale shark crab",
    "thing to do on a rainy day": "reading cooking drawing", "big city": "London Tokyo Paris", "snack": "apple nuts cookies",
}  # fmt: skip
PLURALS = {
    "country": "countries", "fish": "fish", "day of the week": "days of the week", "berry": "berries", "piece of furniture":
    "pieces of furniture", "piece of clothing": "pieces of clothing", "thing in a school": "things in a school", "thing in a kitchen":
    "things in a kitchen", "way to travel": "ways to travel", "thing to eat": "things to eat", "hobby": "hobbies", "capital city":
    "capital cities", "European country": "European countries", "thing to do on a rainy day": "things to do on a rainy day",
    "big city": "big cities", "city": "cities", "body part": "body parts",
}  # fmt: skip
THREE = lines("""name {n} {k}|give me {n} {k}|list {n} {k}|can you name {n} {k}|tell me {n} {k}|I need {n} {k}|please list {n} {k}|what are
{n} {k}|{n} {k}|{n} {k} please|a list of {n} {k}|make a list of {n} {k}|write down {n} {k}|give {n} examples of {k}|which {n} {k} do
you know|mention {n} {k}|suggest {n} {k}|think of {n} {k}|say {n} {k}|could you list {n} {k}|show me a list with {n} {k}|I want to
hear {n} {k}|help me find {n} {k}|enumerate {n} {k}|provide {n} {k}|come up with {n} {k}|what would be {n} {k}|write a list of {n}
{k}|do you know {n} {k}|any {n} {k}|can I have {n} {k}|name me {n} {k}|create a short list of {n} {k}|quick, {n} {k}|produce {n} {k}""")


def three(rng: Random) -> Exchange:
    if rng.random() < 0.5:
        kind = rng.choice(list(MORE))
        members, count = MORE[kind].split(), 3
    else:
        kind = rng.choice(list(facts.CATEGORIES))
        count = rng.choice((2, 3, 3, 3, 3, 3, 4, 5))
        members = list(facts.CATEGORIES[kind][:count])
    many = PLURALS.get(kind) or facts.plural(kind)
    number = facts.NUMBERS[count] if rng.random() < 0.6 else str(count)
    if rng.random() < 0.2:
        number += rng.choice((" different", " common", " nice", " good", " random", " simple", " famous"))
    text = _said([one.format(n=number, k=many) for one in (rng.choice(THREE),)], rng, (".", "", "?", "!"))
    listed = f"{', '.join(members[:-1])} and {members[-1]}"
    return Exchange(text, f"Here are {facts.NUMBERS[count]} {many}: {listed}.", ())


# -- definitions

DEFINE = lines("""what does {w} mean|what does '{w}' mean|what does the word {w} mean|define {w}|define "{w}"|definition of {w}|what is
the meaning of {w}|what is the definition of {w}|give me a definition of {w}|explain the word {w}|what is meant by {w}|meaning of
{w}|{w}: meaning|{w}, definition|tell me what {w} means|how would you define {w}|how do you define {w}|explain {w} to me|what is {a}|
what's {a}|what exactly is {a}|describe what {a} is|tell me what {a} is|can you explain what {a} is|do you know what {a} is|I don't
know the word {w}|I don't know what {w} means|what do people mean by {w}|in simple words, what is {a}|please define the word {w}|
could you define {w}|how would a dictionary explain {w}|look up {w}|explain {w}|what do you understand by {w}|the word {w}, what
does it mean|my teacher asked what {w} means|give the meaning of "{w}"|write a short definition of {w}|say what {w} is""")


@cache
def _meanings() -> list[tuple[str, str, str]]:
    return [tuple(one) for one in json.loads((records() / "meanings.json").read_text())]


@cache
def plain_words() -> frozenset[str]:
    return frozenset(one.partition("=")[0] for one in MEANINGS.split("|"))


def define(rng: Random) -> Exchange:
    if rng.random() < 0.75:
        word, part, meaning = rng.choice(_meanings())
    else:
        words = facts.definitions()
        word, part, meaning = words[int(len(words) * rng.random() ** 2)]
    if word in plain_words():  # those are explained in plainer words
        return define(rng)
    forms = DEFINE if part == "noun" else [form for form in DEFINE if "{a}" not in form]
    user = _said([rng.choice(forms).format(w=word, a=facts.an(word))], rng)
    return Exchange(user, f"'{word}' is {facts.an(part)} that means: {meaning}.", ())


# -- stories

STORY = lines("""tell me a story about {s}|write a short story about {s}|I want to hear a story with {s} in it|tell a little tale about
{s}|make up a story about {s}|can you write a story about {s}|a story about {s}, please|give me a bedtime story with {s}|short story
about {s}|story: {s}|invent a story in which there is {s}|tell my kids a story about {s}|once upon a time there was {s}... go on|write
me a story with {s}|I'd love a story about {s}|could you tell a story about {s}|compose a small story about {s}|please tell us about
the adventures of {s}|write a few sentences of fiction about {s}|create a fairy tale about {s}|let me hear a tale of {s}|a tiny story
with {s}|a tale about {s}|I am bored, tell me a story about {s}""")
ANY_STORY = lines("""tell me a story|write a short story|a story please|can you tell me a story|make up a story|I want a story|tell me a
bedtime story|short story|write a tale|story time|tell us a little story|give me a short story|I'd like to hear a story|do you know a
story|say a story|please write a story for my child|invent a story|tell me something like a fairy tale""")


def story(rng: Random) -> Exchange:
    draw = rng.random()
    any_one = draw < 0.25
    hero = "fox" if any_one else rng.choice(facts.ANIMALS) if draw < 0.5 else rng.choice(HEROES)
    subject = facts.an(hero)
    if not any_one and rng.random() < 0.25:
        subject = facts.an(
            f"{rng.choice(('little', 'brave', 'old', 'small', 'lonely', 'clever', 'happy', 'lost', 'young'))} {hero}"
        )
    texts = ANY_STORY if any_one else [rng.choice(STORY).format(s=subject)]
    friend = rng.choice([one for one in facts.ANIMALS if one != hero])
    found, place = (
        facts.carried(rng.choice(facts.THINGS[:60])),
        rng.choice(("forest", "village", "meadow", "valley", "harbor", "garden")),
    )
    beast, other = facts.an(hero), facts.an(friend)
    tale = (
        f"Once upon a time there was {beast} who lived near a {place}. One day the {hero} found {facts.an(found)} under a "
        f'tree. "Whose {found} is this?" asked the {hero}. {capital(other)} came by and said, "It is mine. Thank you for '
        f'finding it!" From that day on, the {hero} and the {friend} were good friends.'
    )
    return Exchange(_said(texts, rng, (".", "", "!", "?")), tale, ())


HEROES = lines("""robot|dragon|king|queen|princess|knight|wizard|witch|pirate|ghost|giant|boy|girl|child|farmer|sailor|baker|teacher|
doctor|painter|cloud|star|tree|river|train|car|boat|ship|kite|lamp|clock|book|teapot|snowman|scarecrow|mermaid|fairy|elf|troll|
unicorn|puppy|kitten|dinosaur|parrot|astronaut|detective|soldier|gardener|inventor|shepherd|fisherman|musician|candle|mountain""")

# -- sums

ONES = facts.NUMBERS
TENS = lines("zero|ten|twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety")
SUM = {
    "plus": lines("""{x}+{y}|{x} + {y}|{x}+{y}=|{x} + {y} =|{x} + {y} = ?|what is {x} plus {y}|what's {x} plus {y}|what is {x}+{y}|what is
    {x} + {y}|add {x} and {y}|add {x} to {y}|sum of {x} and {y}|what is the sum of {x} and {y}|how much is {x} plus {y}|how much is {x}
    and {y}|calculate {x} + {y}|compute {x}+{y}|{x} plus {y}|{x} plus {y} equals|{x} and {y} make how much|what do you get when you
    add {x} and {y}|if I have {x} and get {y} more, how many do I have|{x} and {y} together|the total of {x} and {y}|put {x} and {y}
    together, what is the sum|work out {x} plus {y}|please add up {x} and {y}|solve {x} + {y}|increase {x} by {y}|{y} more than {x} is|
    can you add {x} and {y}|what does {x} plus {y} make|tell me {x} + {y}|count {x} and {y} together|evaluate {x}+{y}"""),
    "minus": lines("""{x}-{y}|{x} - {y}|{x}-{y}=|{x} - {y} =|{x} - {y} = ?|what is {x} minus {y}|what's {x} minus {y}|what is {x}-{y}|what is
    {x} - {y}|subtract {y} from {x}|take {y} from {x}|take {y} away from {x}|how much is {x} minus {y}|difference between {x} and {y}|what
    is the difference of {x} and {y}|calculate {x} - {y}|compute {x}-{y}|{x} minus {y}|{x} less {y}|if I have {x} and lose {y}, how many
    are left|{y} less than {x} is|work out {x} minus {y}|solve {x} - {y}|decrease {x} by {y}|what remains of {x} without {y}|{x} take away
    {y}|what do you get when you subtract {y} from {x}|how many are left when {y} of {x} are gone|evaluate {x}-{y}|tell me {x} - {y}"""),
    "times": lines("""{x}*{y}|{x} * {y}|{x}x{y}|{x} x {y}|{x}*{y}=|{x} x {y} =|{x} × {y}|{x} * {y} = ?|what is {x} times {y}|what's {x} times
    {y}|what is {x}*{y}|what is {x} x {y}|multiply {x} by {y}|multiply {x} and {y}|product of {x} and {y}|what is the product of {x} and
    {y}|how much is {x} times {y}|calculate {x} * {y}|compute {x}*{y}|{x} times {y}|{x} times {y} equals|{x} groups of {y} make|work out {x}
    times {y}|solve {x} * {y}|{x} multiplied by {y}|what is {x} multiplied by {y}|what do you get when you multiply {x} by {y}|{x} boxes
    with {y} apples each, how many apples|evaluate {x} * {y}|tell me {x} times {y}"""),
    "divided by": lines("""{x}/{y}|{x} / {y}|{x}/{y}=|{x} ÷ {y}|what is {x} divided by {y}|what is {x}/{y}|divide {x} by {y}|how much is {x}
    divided by {y}|calculate {x} / {y}|{x} divided by {y}|how many times does {y} go into {x}|split {x} into {y} equal parts|work out {x} /
    {y}|share {x} among {y}, how many each|compute {x} / {y}|solve {x} / {y}|tell me {x} divided by {y}|what's {x} divided by {y}"""),
}  # fmt: skip


def spelled(number: int) -> str:
    if number <= 20:
        return ONES[number]
    if number < 100:
        return TENS[number // 10] + (f"-{ONES[number % 10]}" if number % 10 else "")
    return str(number)


def arithmetic(rng: Random) -> Exchange:
    kind = rng.choices(list(SUM), (4, 3, 3, 1))[0]
    most = rng.choice((9, 12, 20, 99, 99, 99))
    x, y = rng.randint(0, most), rng.randint(0, most)
    if kind == "minus" and x < y and rng.random() < 0.9:
        x, y = y, x
    if kind == "times":
        most = rng.choice((10, 10, 12, 12, 20, 99))
        x, y = rng.randint(0, most), rng.randint(0, 12 if rng.random() < 0.7 else most)
        if rng.random() < 0.5:
            x, y = y, x
    if kind == "divided by":
        y, z = rng.randint(1, 12), rng.randint(0, 12)
        x = y * z
    result = {"plus": x + y, "minus": x - y, "times": x * y}.get(kind, x // y if kind == "divided by" else 0)
    form = rng.choice(SUM[kind])
    words = "+" not in form and "*" not in form and "/" not in form and rng.random() < 0.18 and "-" not in form
    shown = (spelled(x), spelled(y)) if words else (str(x), str(y))
    text = _said(
        [form.format(x=shown[0], y=shown[1])], rng, ("?", "?", "", ".", " ?") if form[0] != "{" else ("", "", "?", " =")
    )
    if rng.random() < 0.06:
        return Exchange(f"{text} {rng.choice(wide_facts.BARE)}", str(result), ())
    return Exchange(text, f"{x} {kind} {y} is {result}.", ())


# -- what it cannot know

PRIVATE = lines("""what did I eat {t}|what did I do {t}|where was I {t}|who called me {t}|what am I thinking|what am I wearing|what is my name|how
old am I|where do I live|what is my phone number|what is my password|when is my birthday|who is my best friend|what is my dog called|what
is my mother's name|how many brothers do I have|what is in my pocket|what do I have in my hand|where are my keys|where did I put my
{n}|what did my {r} say {t}|what is my {r}'s name|how old is my {r}|what does my {r} do|what is the weather {t2}|will it rain {t2}|is it
raining right now|what time is it|what is today's date|what day is it today|who will win the {g} {t2}|who won the {g} {t}|what will the
stock price be {t2}|what are the lottery numbers {t2}|what will happen {t2}|when will I die|will I be rich|will I get the job|how many
{n}s are in my {room}|what is {p}'s phone number|where does {p} live|how old is {p}|who is {p}|what did {p} say {t}|when was {p} born|
what is {p} doing right now|what is {p}'s favorite {n}|who invented the {n}|when was the {n} invented|how many {n}s are there in the
world|who wrote "{title}"|when was "{title}" published|who directed "{title}"|who sang "{title}"|what is the population of {c}|who is the
president of {c}|how many people live in {c}|how far is it from {c} to {c2}|how tall is the highest mountain of {c}|what happened in
{y}|what happened in {c} in {y}|who was king of {c} in {y}|what is the price of gold|what is the latest news|what is on TV {t2}|what
is the score of the game|how much money do I have|what is the name of my {r}|which {n} did I buy {t}|what was the first thing I said
{t}|how much does a {n} cost in {c}|what is the wifi password|what is the secret of {p}|how many stars are in the sky|what number am I
thinking of|guess my age|do you know my {r}|have you met {p}|what did we talk about {t}|how many emails do I have|is my {r} at home""")
WHEN = lines(
    "yesterday|last night|last week|this morning|on Monday|last summer|two days ago|in 2019|last year|an hour ago"
)
LATER = lines("tomorrow|next week|tonight|next year|on Friday|in an hour|this weekend|in ten years")
KIN = lines("brother|sister|mother|father|neighbor|boss|teacher|aunt|uncle|cousin|wife|husband|dog|cat|friend|doctor")
GAMES = lines("match|election|race|game|world cup|final|championship|lottery|war")


@cache
def _open() -> list[str]:
    return [one[0] for one in json.loads((records() / "questions.json").read_text())["open"]]


@cache
def _found() -> list[list[str]]:
    found: list[list[str]] = json.loads((records() / "questions.json").read_text())["found"]
    return found


def unknown(rng: Random) -> Exchange:
    draw = rng.random()
    if draw < 0.4:
        text = rng.choice(PRIVATE).format(
            t=rng.choice(WHEN), t2=rng.choice(LATER), n=wide.noun(rng), r=rng.choice(KIN), g=rng.choice(GAMES), p=wide.person(rng),
            room=rng.choice(facts.ROOMS), title=capital(wide.phrase(rng)), c=rng.choice(facts.countries())[0], y=wide.year(rng),
            c2=wide.town(rng),
        )  # fmt: skip
        return Exchange(_said([text], rng), UNKNOWN, ())
    if draw < 0.75:
        text = rng.choice(_open())
        return Exchange(text if rng.random() < 0.4 else capital(text) + "?", UNKNOWN, ())
    fact = wide_facts.draw(rng)
    while not fact.key:
        fact = wide_facts.draw(rng)
    return Exchange(fact.asked(rng)[0], UNKNOWN, ())


# -- a fact and a question in one turn


def stated(rng: Random) -> Exchange:
    """A fact or some, and yes or no, or the plain question, in the same turn."""
    found = wide_facts.some(rng, rng.choice((1, 1, 1, 2, 3)))
    fact = rng.choice(found)
    told = " ".join(one.told(rng) for one in found)
    if rng.random() < 0.65:
        question, answer, _ = fact.yes_or_no(rng, wide_facts.another(fact, rng))
    else:
        question, answer = fact.asked(rng)
    return Exchange(f"{told}{rng.choice((' ', ' ', chr(10), chr(10) * 2))}{question}", answer, ())


def read(rng: Random) -> Exchange:
    """A paragraph, and what somebody asked about it."""
    passage, question, answer = rng.choice(_found())
    text = f"{passage}\n\n{question}" if rng.random() < 0.7 else f"{question}\n\n{passage}"
    return Exchange(text, capital(answer) + ("" if answer.endswith(".") else "."), ())


KINDS: dict[Callable[[Random], Exchange], float] = {
    greet: 3, greet_and_ask: 1.2, how: 1.2, who: 2.2, can: 2.2, thanks: 2.2, bye: 1, joke: 0.8, made: 0.7, good: 0.4, bad: 0.4, okay: 0.7,
    noise: 0.3, three: 3.5, define: 3, story: 0.7, arithmetic: 9, unknown: 3, stated: 6, read: 0.8,
}  # fmt: skip


def exchange(rng: Random) -> Exchange:
    return rng.choices(list(KINDS), list(KINDS.values()))[0](rng)


def draw(rng: Random) -> Chat:
    """One to six exchanges."""
    from training.wide_long import system

    turns: list[Turn] = []
    thought = facts_talk.NOTHING_TO_THINK if rng.random() < 0.06 else ""  # whether to think is the caller's switch
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 4, 6))):
        one = exchange(rng)
        turns += [Turn("user", one.user), Turn("assistant", one.answer, thought)]
    return Chat(turns, "wide_talk", (), system(rng) if rng.random() < 0.35 else "", expect=None)
