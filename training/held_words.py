"""What the evaluation keeps for itself: names of the examiner's schemas and tools, and the held-out phrases.

What is made for training has none of them. The names are collected from the examiner's files by a rule, unseen by whoever writes the training data: every word that
stands alone in quotes, before a colon or an equals sign, or has an underscore or a capital inside.
"""

# ruff: noqa: E501, SIM905  (a row of words is easier to read)

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from random import Random

from training import facts_questions, facts_talk, rough
from training.data_chat import Phrases
from training.facts_questions import Exchange

FILES = ("strangers_json.py", "strangers_tools.py")
NAME = re.compile(
    r"""["'`]([A-Za-z][\w-]*)["'`]|\b([A-Za-z][\w-]*)\s*[:=]|\b([a-z]+(?:_[a-z0-9]+)+|[a-z]+(?:[A-Z][a-z0-9]+)+)\b"""
)
COMMON = frozenset(
    "name title date time day id type kind count number amount price place city town country year size".split()
)


def plain(name: str) -> str:
    """The same for `crewSize`, `crew_size` and `crew-size`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|[-\s]", "_", name).lower()


@cache
def held_keys() -> frozenset[str]:
    """Names, plain, without the few that every schema has."""
    folder = Path(__file__).parent
    texts = [(folder / file).read_text(encoding="utf-8") for file in FILES if (folder / file).exists()]
    found = {plain(next(filter(None, groups))) for text in texts for groups in NAME.findall(text)}
    return frozenset(found - COMMON)


def free(names: Iterable[str]) -> list[str]:
    return [name for name in names if plain(name) not in held_keys()]


@cache
def _joint() -> frozenset[str]:
    return frozenset(name.replace("_", "") for name in held_keys())


def taken(name: str) -> bool:
    """Whether it is such a name in any manner of writing, `crewsize` too."""
    return plain(name).replace("_", "") in _joint()


@cache
def _phrases() -> re.Pattern[str]:
    found = []
    for module in (facts_questions, facts_talk):
        for value in vars(module).values():
            many = value.values() if isinstance(value, dict) else (value,)
            found += [text for one in many if isinstance(one, Phrases) for text in one.held if text[0] != "{"]
    slotted = [re.sub(r"\{[^{}]*\}", "slot", text) for text in found]
    return re.compile("|".join(re.sub(r"\bslot\b", ".+", re.escape(rough.plain(text))) for text in slotted))


def held_phrase(text: str) -> bool:
    """Whether it is a phrase that `Phrases` holds out, with anything in its slots.

    Those that begin with a slot are left out: "{} is my name" would be the end of many a question.
    """
    return bool(_phrases().fullmatch(rough.plain(text)))


def fresh(draw: Callable[[Random], Exchange], rng: Random) -> Exchange:
    """What is drawn, and drawn again while it asks in a held-out phrase."""
    one = draw(rng)
    while held_phrase(one.user):
        one = draw(rng)
    return one
