"""Facts to be found again in a text: key and value, stated once, asked for later.

A fact is told in one of several ways and asked for in others; the answer repeats the key, then gives the value. Keys
share words with each other on purpose: half a key must not be enough.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

from training import facts
from training.data_chat import Chat, Phrases, Split, Turn, held


def _digits(rng: Random) -> str:
    return str(rng.randint(10 ** rng.randint(2, 5), 10**6 - 1))[: rng.randint(3, 6)]


def _code(rng: Random) -> str:
    return rng.choice("ABCDEFGHKLMNPRSTUVWXYZ") + rng.choice("ABCDEFGHKLMNPRSTUVWXYZ") + "-" + str(rng.randint(10, 999))


def _of(words: Sequence[str]) -> Callable[[Random], str]:
    return lambda rng: rng.choice(words)


ATTRIBUTES: dict[str, Callable[[Random], str]] = {
    "access code": _digits, "serial number": _digits, "secret number": _digits, "phone extension": _digits,
    "price": lambda rng: f"{rng.randint(2, 990)} dollars", "weight": lambda rng: f"{rng.randint(2, 990)} grams",
    "room number": _digits, "ticket code": _code, "license": _code, "badge": _code,
    "color": _of(facts.COLOURS),
    "password": lambda rng: f"{rng.choice(facts.RICH_COLOURS)}-{rng.choice(facts.ANIMALS)}",
    "owner": lambda rng: f"{rng.choice(facts.NAMES)} {rng.choice(facts.SURNAMES)}", "city": _of(facts.CITIES),
    "secret word": _of(facts.ANIMALS + facts.FRUITS), "material": _of(facts.MATERIALS), "guardian": _of(facts.NAMES),
    "opening day": _of(facts.DAYS), "magic number": _digits, "special fruit": _of(facts.FRUITS),
}  # fmt: skip
PERSON_ATTRIBUTES: dict[str, Callable[[Random], str]] = {
    "phone number": _digits, "favorite color": _of(facts.COLOURS), "favorite fruit": _of(facts.FRUITS),
    "job": _of(facts.JOBS),
    "home town": _of(facts.CITIES), "pet": _of(facts.ANIMALS), "locker number": _digits,
    "birth month": _of(facts.MONTHS),
    "age": lambda rng: str(rng.randint(5, 99)), "instrument": _of(facts.INSTRUMENTS), "password": _digits,
    "favorite food": _of(facts.FOODS), "sport": _of(facts.SPORTS),
}  # fmt: skip

TOLD = Phrases(
    "You should know that the {attribute} of {key} is {value}.",
    "By the way, the {attribute} of {key} is {value}.",
    "Keep in mind that the {attribute} of {key} is {value}.",
    "Please note: the {attribute} of {key} is {value}.",
    "For your information, the {attribute} of {key} is {value}.",
    "I can tell you that the {attribute} of {key} is {value}.",
    "Somebody said that the {attribute} of {key} is {value}.",
    "Today we learned that the {attribute} of {key} is {value}.",
    "Also, the {attribute} of {key} is {value}.",
    "Before I go on: the {attribute} of {key} is {value}.",
    "Never lose this: the {attribute} of {key} is {value}.",
    "It is a fact that the {attribute} of {key} is {value}.",
    "Here is a detail: the {attribute} of {key} is {value}.",
    "Write down that the {attribute} of {key} is {value}.",
    "The {attribute} of {key} is {value}.", "The {attribute} of {key} is {value}.",
    "The {attribute} of {key} is {value}.",
    "Note that the {attribute} of {key} is {value}.", "Remember: the {attribute} of {key} is {value}.",
    "As everybody knows, the {attribute} of {key} is {value}.",
    "It is written that the {attribute} of {key} is {value}.",
    "For {key}, the {attribute} is {value}.", "One more thing: the {attribute} of {key} is {value}.",
    "Do not forget that the {attribute} of {key} is {value}.",
    exact=True,
)  # fmt: skip
LISTED = Phrases("{attribute} of {key}: {value}", "{key}, {attribute}: {value}",
"- the {attribute} of {key} is {value}",
                 "{key} | {attribute} | {value}", "* {attribute} of {key} = {value}", held=1, exact=True)  # fmt: skip
ASKED = Phrases(
    "{key}: {attribute}?",
    "the {attribute} of {key}",
    "{attribute} for {key}",
    "What about the {attribute} of {key}?",
    "And the {attribute} of {key}?",
    "Now the {attribute} of {key}.",
    "Please tell me the {attribute} of {key}.",
    "Could you give me the {attribute} of {key}?",
    "Would you look up the {attribute} of {key}?",
    "Can you tell me the {attribute} of {key}?",
    "What does the text say about the {attribute} of {key}?",
    "Search the text for the {attribute} of {key}.",
    "Where it speaks of {key}: what is the {attribute}?",
    "I forgot the {attribute} of {key}. What is it?",
    "Show me the {attribute} of {key}.",
    "Name the {attribute} of {key}.",
    "For {key}, what is the {attribute}?",
    "Read out the {attribute} of {key}.",
    "I would like to know the {attribute} of {key}.",
    "Check the notes: what is the {attribute} of {key}?",
    "Quick question: the {attribute} of {key}?",
    "what is the {attribute} of {key}",
    "tell me the {attribute} of {key}",
    "Is the {attribute} of {key} mentioned? What is it?",
    "What is the {attribute} of {key}?", "Tell me the {attribute} of {key}.", "Which {attribute} does {key} have?",
    "What {attribute} belongs to {key}?", "Give me the {attribute} of {key}.", "Find the {attribute} of {key}.",
    "I need the {attribute} of {key}.", "Look up the {attribute} of {key}.", "What was the {attribute} of {key} again?",
    "Do you know the {attribute} of {key}?", "According to the text, what is the {attribute} of {key}?",
    "Say the {attribute} of {key}.", "Can you find the {attribute} of {key} in the text?", "{attribute} of {key}?",
)  # fmt: skip


@dataclass(frozen=True)
class Fact:
    key: str
    attribute: str
    value: str

    def told(self, rng: Random, split: Split) -> str:
        return _capital(TOLD.pick(rng, split).format(**vars(self)))

    def listed(self, form: str) -> str:
        return form.format(**vars(self))

    def asked(self, rng: Random, split: Split) -> str:
        return _capital(ASKED.pick(rng, split).format(**vars(self)))

    @property
    def answer(self) -> str:
        return f"The {self.attribute} of {self.key} is {self.value}."


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]


def draw_fact(rng: Random, split: Split) -> Fact:
    """A key and attribute from the wanted side of the split."""
    while True:
        if rng.random() < 0.3:
            key, attributes = f"{rng.choice(facts.NAMES)} {rng.choice(facts.SURNAMES)}", PERSON_ATTRIBUTES
        else:
            key, attributes = f"the {rng.choice(facts.RICH_COLOURS)} {rng.choice(facts.THINGS)}", ATTRIBUTES
        attribute = rng.choice(list(attributes))
        if held("fact", key, attribute) == (split == "held"):
            return Fact(key, attribute, attributes[attribute](rng))


def draw_facts(rng: Random, split: Split, count: int) -> list[Fact]:
    """Facts without two answers to one question, some of which share a key's words or an attribute."""
    found: dict[tuple[str, str], Fact] = {}
    while len(found) < count:
        fact = draw_fact(rng, split)
        if found and rng.random() < 0.4:  # a near miss of a fact that is there
            other = rng.choice(list(found.values()))
            attributes = ATTRIBUTES if other.key.startswith("the ") else PERSON_ATTRIBUTES
            if rng.random() < 0.5:
                attribute = rng.choice(list(attributes))
                fact = Fact(other.key, attribute, attributes[attribute](rng))
            elif fact.key.startswith("the ") == other.key.startswith("the "):
                key = " ".join([*fact.key.split()[:-1], other.key.split()[-1]])
                fact = Fact(key, other.attribute, attributes[other.attribute](rng))
        if held("fact", fact.key, fact.attribute) == (split == "held"):
            found.setdefault((fact.key, fact.attribute), fact)
    return list(found.values())


_opening = Phrases(
    "Please read this carefully.\n\n{}",
    "Context:\n{}",
    "Below is a document.\n\n{}",
    "{}\n\nThat was the text.",
    "Document:\n\n{}\n\nNow a question.",
    "This is what I know:\n{}",
    "Consider this text.\n\n{}",
    "{}\n\nUse the text above.",
    "From my notebook:\n{}",
    "Have a look at this:\n\n{}",
    "Read this text and answer my questions.\n\n{}", "Here is a text:\n\n{}\n\nPlease read it.",
    "{}\n\nAnswer from this text.",
    "Text:\n{}", "Use these notes to answer.\n\n{}", "I will ask you about this:\n\n{}",
    "Study the following and answer.\n\n{}",
    "Here are my notes.\n{}",
)  # fmt: skip


def lookup(rng: Random, split: Split, count: int | None = None, questions: int | None = None) -> Chat:
    """Many facts, several questions: what makes a model look back."""
    count = count or rng.randint(2, 24)
    found = draw_facts(rng, split, count)
    if rng.random() < 0.3:
        form = LISTED.pick(rng, split)
        text = "\n".join(fact.listed(form) for fact in found)
    else:
        text = " ".join(fact.told(rng, split) for fact in found)
    return ask(text, found, rng, split, questions or rng.randint(1, min(8, count)))


def opening(rng: Random, split: Split) -> str:
    """What comes before or behind a text; `{}` stands for it."""
    return _opening.pick(rng, split)


def ask(text: str, found: list[Fact], rng: Random, split: Split, questions: int) -> Chat:
    """The text as a user's turn, or the system's, then questions about facts in it."""
    asked = rng.sample(found, min(questions, len(found)))
    turns: list[Turn] = []
    before = _opening.pick(rng, split).format(text)
    in_system = rng.random() < 0.15
    for place, fact in enumerate(asked):
        question = fact.asked(rng, split)
        if place == 0 and not in_system:
            question = f"{before}\n\n{question}"
        turns += [Turn("user", question), Turn("assistant", fact.answer)]
    last = asked[-1]
    return Chat(turns, "lookup", (last.key, last.attribute), before if in_system else "", expect=last.value)


# -- a small world: who is where, with what

_went = Phrases("{name} went to the {room}.", "{name} is in the {room}.", "{name} walked into the {room}.",
"{name} waits in the {room}.",
                "{name} moved to the {room}.", "{name} entered the {room}.", held=1, exact=True)  # fmt: skip
_has = Phrases("{name} has the {thing}.", "{name} took the {thing}.", "{name} picked up the {thing}.",
"{name} is holding the {thing}.",
               "{name} got the {thing}.", "{name} carries the {thing}.", held=1, exact=True)  # fmt: skip
_where = Phrases("Where is {name}?", "In which room is {name}?", "Tell me where {name} is.", "Which room is {name} in?",
                 "Where can I find {name}?", held=1)  # fmt: skip
_what = Phrases("What does {name} have?", "Which thing does {name} have?", "What is {name} holding?",
"Tell me what {name} has.",
                "What thing is with {name}?", held=1)  # fmt: skip
_who_has = Phrases("Who has the {thing}?", "Which person has the {thing}?", "Tell me who has the {thing}.",
"Who is holding the {thing}?",
                   "With whom is the {thing}?", held=1)  # fmt: skip


def scene(rng: Random, split: Split) -> Chat:
    """A passage about people, rooms and things; questions about it."""
    while True:
        people = rng.sample(facts.NAMES, rng.randint(2, 6))
        things = rng.sample(facts.THINGS, len(people))
        if held("scene", people[0], things[0]) == (split == "held"):
            break
    rooms = [rng.choice(facts.ROOMS) for _ in people]
    lines = []
    for name, thing, room in zip(people, things, rooms, strict=True):
        pair = [
            _went.pick(rng, split).format(name=name, room=room),
            _has.pick(rng, split).format(name=name, thing=thing),
        ]
        lines += pair if rng.random() < 0.7 else pair[::-1]
    text = " ".join(lines)
    turns: list[Turn] = []
    expect = ""
    for place in range(rng.randint(1, 5)):
        who = 0 if place == 0 and split == "held" else rng.randrange(len(people))
        name, thing, room = people[who], things[who], rooms[who]
        asked = rng.randrange(3)
        question = (_where, _what, _who_has)[asked].pick(rng, split).format(name=name, thing=thing)
        answer = (f"{name} is in the {room}.", f"{name} has the {thing}.", f"{name} has the {thing}.")[asked]
        expect = (room, thing, name)[asked]
        if place == 0:
            question = _opening.pick(rng, split).format(text) + "\n\n" + question
        turns += [Turn("user", question), Turn("assistant", answer)]
    return Chat(turns, "scene", (people[0], things[0]), expect=expect)
