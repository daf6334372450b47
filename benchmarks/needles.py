"""Long texts with facts in them, and questions that only the text answers: drawn from a seed, with nothing to download.

The text around a fact is prose of Python's own manual, which every Python carries (the words differ a little from one
version to the next). Keys share their words on purpose: half a key must not be enough to find a fact.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pydoc_data import topics
from random import Random
from typing import Literal

Kind = Literal["retrieval", "notes"]  # one fact hidden in a manual; a text of nothing but facts
KINDS: tuple[Kind, ...] = ("retrieval", "notes")
Measure = Callable[[str], int]  # a text's length in tokens
AROUND = 96  # tokens of a prompt left for its template and its question


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_LOOKS = _words("amber silver golden copper ivory violet scarlet teal olive coral jade bronze dusty rusty wooden")
_THINGS = _words("""kettle lantern basket ladder mirror hammer bottle carpet bridge tower engine wagon cabinet blanket
candle clock compass curtain drum fence fountain guitar helmet kite magnet medal piano ribbon rocket statue suitcase
telescope umbrella violin wheel whistle anchor barrel bell bucket""")
_CITIES = _words("Lisbon Madrid Vienna Oslo Prague Dublin Cairo Nairobi Tokyo Seoul Sydney Toronto Lima Geneva Porto")
_ANIMALS = _words("horse rabbit wolf bear lion tiger monkey squirrel eagle swan turtle shark whale dolphin penguin")


def _number(chance: Random) -> str:
    return str(chance.randint(1000, 99999))


_VALUES: dict[str, Callable[[Random], str]] = {
    "access code": _number,
    "serial number": _number,
    "room number": _number,
    "price": lambda chance: f"{chance.randint(20, 990)} dollars",
    "weight": lambda chance: f"{chance.randint(20, 990)} grams",
    "city": lambda chance: chance.choice(_CITIES),
    "secret word": lambda chance: chance.choice(_ANIMALS),
}
_TOLD = (
    "The {attribute} of {key} is {value}.",
    "Note that the {attribute} of {key} is {value}.",
    "Remember: the {attribute} of {key} is {value}.",
    "By the way, the {attribute} of {key} is {value}.",
)
_ASKED = ("What is the {attribute} of {key}?", "Tell me the {attribute} of {key}.", "Find the {attribute} of {key}.")


@dataclass(frozen=True, slots=True)
class Fact:
    key: str
    attribute: str
    value: str

    def told(self, chance: Random) -> str:
        return self._in(chance.choice(_TOLD))

    def asked(self, chance: Random) -> str:
        return self._in(chance.choice(_ASKED))

    def _in(self, phrase: str) -> str:
        return phrase.format(key=self.key, attribute=self.attribute, value=self.value)

    def is_in(self, answer: str) -> bool:
        """Is the value there, as words of its own? `12` is not in `312`."""
        return re.search(rf"(?<!\w){re.escape(self.value)}(?!\w)", answer) is not None


@dataclass(frozen=True, slots=True)
class Needle:
    """What one user says, and the fact that answers it."""

    kind: Kind
    text: str
    fact: Fact
    depth: float  # where in the text the fact stands, 0 to 1


def draw(kind: Kind, tokens: int, measure: Measure, count: int, seed: int = 0) -> list[Needle]:
    """Prompts of about `tokens` tokens each, at most. Their facts stand at depths spread evenly over the text."""
    found = []
    for place in range(count):
        chance = Random(f"{seed}/{kind}/{tokens}/{place}")
        depth = (place + chance.random()) / count
        found.append((_retrieval if kind == "retrieval" else _notes)(tokens, depth, measure, chance))
    return found


def _retrieval(tokens: int, depth: float, measure: Measure, chance: Random) -> Needle:
    [fact] = _facts(chance, 1)
    told = fact.told(chance)
    sentences = _filled(_prose(chance), tokens - AROUND - measure(told), measure)
    sentences.insert(round(depth * len(sentences)), told)
    return _asking("retrieval", sentences, fact, depth, chance)


def _notes(tokens: int, depth: float, measure: Measure, chance: Random) -> Needle:
    facts = _facts(chance, min(tokens // 8, len(_LOOKS) * len(_THINGS) * len(_VALUES) // 2))
    sentences = _filled((fact.told(chance) for fact in facts), tokens - AROUND, measure)
    fact = facts[min(int(depth * len(sentences)), len(sentences) - 1)]
    return _asking("notes", sentences, fact, depth, chance)


def _asking(kind: Kind, sentences: Sequence[str], fact: Fact, depth: float, chance: Random) -> Needle:
    text = f"Read this text and answer my question.\n\n{' '.join(sentences)}\n\n{fact.asked(chance)}"
    return Needle(kind, text, fact, depth)


def _facts(chance: Random, count: int) -> list[Fact]:
    """No two answer the same question."""
    found: dict[tuple[str, str], Fact] = {}
    while len(found) < count:
        key = f"the {chance.choice(_LOOKS)} {chance.choice(_THINGS)}"
        attribute = chance.choice(list(_VALUES))
        found.setdefault((key, attribute), Fact(key, attribute, _VALUES[attribute](chance)))
    return list(found.values())


def _filled(sentences: Iterator[str], tokens: int, measure: Measure) -> list[str]:
    """As many as fit, at least one."""
    taken = [next(sentences)]
    left = tokens - measure(taken[0])
    for sentence in sentences:
        left -= measure(" " + sentence)
        if left < 0:
            break
        taken.append(sentence)
    return taken


def _prose(chance: Random) -> Iterator[str]:
    """Sentences without end, from anywhere in the manual on."""
    sentences = manual()
    place = chance.randrange(len(sentences))
    while True:
        yield sentences[place % len(sentences)]
        place += 1


@cache
def manual() -> tuple[str, ...]:
    """The manual's sentences: paragraphs of prose, without code, grammar and tables."""
    found: list[str] = []
    for name in sorted(topics.topics):
        for paragraph in topics.topics[name].split("\n\n"):
            prose = " ".join(paragraph.split())
            if _is_prose(paragraph, prose):
                found += re.split(r"(?<=[a-z)\"]\.) (?=[A-Z])", prose)
    return tuple(found)


def _is_prose(paragraph: str, prose: str) -> bool:
    return prose[:1].isupper() and prose.endswith(".") and "::=" not in prose and "   " not in paragraph.strip()


def plain_text(characters: int, seed: int = 0) -> str:
    """The manual from anywhere on, so long at least."""
    taken: list[str] = []
    length = 0
    for sentence in _prose(Random(f"{seed}/plain")):
        if length > characters:
            break
        taken.append(sentence)
        length += len(sentence) + 1
    return " ".join(taken)
