"""Questions as people type them: a word left out, one too many, another of the same meaning, no question mark.

A model of ten million weights learns a list of phrases by heart and takes the first stranger for something else. Rough
phrases teach it to go by the words that matter. Slots are never touched, and what comes out is never a held-out phrase.
"""

# ruff: noqa: SIM905  (words in a row are easier to read than a list of them)

from __future__ import annotations

import re
from collections.abc import Callable
from random import Random

SMALL = frozenset(
    "a an the of in on at to for with from by it is are was be do does did can could would will you me my i we us "
    "please this that these those here there now then so and or what which who where how tell give say show have has "
    "let know want need like just also again about out up them they one ones your some any".split()
)
FILLERS = tuple(
    "please now then here so just also again well okay right really actually maybe still only exactly quickly simply "
    "once more today me it this that there then you for from with about in the a".split()
)
ALIKE = (
    ("picture", "image", "drawing", "photo", "screenshot", "sketch"),
    ("pictures", "images", "drawings", "photos", "screenshots"),
    ("shown", "drawn", "visible", "seen", "painted", "depicted", "there"),
    ("see", "notice", "find", "spot", "observe", "recognize"),
    ("shows", "has", "contains", "displays", "holds"),
    ("find", "get", "fetch", "look up", "search for", "locate", "read out", "look for"),
    ("tell", "say", "give", "name", "state", "report"),
    ("describe", "explain", "tell about"),
    ("count", "number", "quantity", "amount"),
    ("text", "document", "notes", "passage", "page", "note"),
    ("object", "record", "document", "structure"),
    ("fields", "keys", "properties", "entries", "names"),
    ("make", "write", "build", "produce", "create", "return", "output", "give", "form"),
    ("convert", "turn", "put", "change", "transform"),
    ("need", "want", "require", "would like", "ask for"),
    ("same", "equal", "identical", "alike"),
    ("compare", "look at", "check"),
    ("both", "the two", "each", "the pair"),
    ("color", "colour"),
    ("shape", "form", "figure"),
    ("shapes", "figures", "forms", "objects", "things"),
    ("word", "text", "lettering"),
    ("read", "spell out", "say"),
    ("mean", "stand for", "signify"),
    ("calculate", "compute", "work out", "solve"),
    ("big", "large"),
    ("city", "town"),
    ("story", "tale"),
    ("list", "name", "write down"),
)
SAME = {word: group for group in reversed(ALIKE) for word in group}  # the first group that has a word
BEFORE = (
    "Please", "Now", "OK.", "Okay,", "So,", "Well,", "Hi.", "Hello.", "Hey,", "Thanks.", "Next:", "Right.", "Good.",
    "One question:", "A question:", "Listen.", "Next question.", "Also,", "And", "Let me ask:", "Then", "Excuse me,",
    "I wonder:", "Help me.", "Tell me:", "First,", "Great.", "Quickly:", "Again:", "Question:", "Task:",
    "Could you help?",
)  # fmt: skip
BEHIND = (
    "please", "Thanks.", "Thank you.", "now", "for me", "here", "if you can", "Be quick.", "I am curious.", "Please.",
    "right now", "this time", "in short", "exactly", "I need it.", "Thank you!", "please?", "as you know", "OK?",
)  # fmt: skip


def plain(text: str) -> str:
    """A phrase without case and signs, for comparing."""
    return " ".join(re.findall(r"\{[^{}]*\}|\w+", text.lower()))


def _drop(words: list[str], rng: Random) -> None:
    places = [place for place, word in enumerate(words) if word.lower() in SMALL]
    if places and len(words) > 2:
        del words[rng.choice(places)]


def _swap(words: list[str], rng: Random) -> None:
    places = [place for place, word in enumerate(words) if word.lower() in SMALL]
    if places:
        words[rng.choice(places)] = rng.choice(FILLERS)


def _add(words: list[str], rng: Random) -> None:
    place = rng.randrange(len(words) + 1)
    if not any("{" in word for word in words[max(0, place - 1) : place + 1]):  # or it would belong to the slot
        words.insert(place, rng.choice(FILLERS))


def _alike(words: list[str], rng: Random) -> None:
    for place in rng.sample(range(len(words)), len(words)):
        bare = re.sub(r"\W+$", "", words[place])
        if bare.lower() in SAME:
            words[place] = rng.choice(SAME[bare.lower()]) + words[place][len(bare) :]
            return


def _lower(words: list[str], rng: Random) -> None:
    if not words[0].startswith("{"):
        words[0] = words[0].lower()


def _end(words: list[str], rng: Random) -> None:
    bare = words[-1].rstrip("?.!:")
    if bare:
        words[-1] = bare + rng.choice(("", "", ".", "?", "!", "??"))


def _before(words: list[str], rng: Random) -> None:
    _lower(words, rng)
    words.insert(0, rng.choice(BEFORE))


def _behind(words: list[str], rng: Random) -> None:
    if "{" not in words[-1]:
        words.append(rng.choice(BEHIND))


_CHANGES: tuple[Callable[[list[str], Random], None], ...] = (
    _drop, _swap, _add, _alike, _alike, _alike, _lower, _end, _before, _behind,
)  # fmt: skip


def rough(text: str, rng: Random) -> str:
    """One to four changes. Line breaks and what is written together stay as they are."""
    if "\n" in text:
        head, _, rest = text.partition("\n") if not text.startswith("{") else ("", "", text)
        return (rough(head, rng) + "\n" + rest) if head.strip() else text
    words = text.split(" ")
    for _ in range(rng.choice((1, 1, 2, 2, 3, 4))):
        rng.choice(_CHANGES)(words, rng)
    return " ".join(word for word in words if word)


__all__ = ["plain", "rough"]
