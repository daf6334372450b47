"""How different people write one sentence: in capitals, without any, with slips of the keyboard, without articles.

Only the surface changes. Words with digits, words in `keep` and names (a capital inside the sentence) stay as they
are, but for capitals. Everything is judged without regard to case.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable

NEAR = {"a": "s", "e": "r", "i": "o", "o": "p", "t": "y", "n": "m", "s": "d", "r": "t", "h": "j", "l": "k", "u": "i"}
BEFORE = {
    "polite": ("Excuse me. {}", "If it is no trouble: {}", "Good day. {} Many thanks.", "{} Thank you kindly!"),
    "grumpy": ("Ugh. {}", "{} And no essay, just tell me.", "Third time I ask. {}", "Come on. {}"),
    "chatty": ("so um, {}", "quick one for you :) {}", "{} (asking for a friend haha)", "Right then, {}"),
}
SHARES = (
    ("plain", 40),
    ("lower", 12),
    ("capitals", 7),
    ("typos", 12),
    ("no articles", 7),
    ("polite", 8),
    ("grumpy", 7),
    ("chatty", 7),
)


def lower(text: str, rng: random.Random, keep: frozenset[str]) -> str:
    return re.sub(r"\S+", lambda m: m[0] if bare(m[0]) in keep else m[0].lower(), text)


def capitals(text: str, rng: random.Random, keep: frozenset[str]) -> str:
    return re.sub(r"\S+", lambda m: m[0] if bare(m[0]) in keep else m[0].upper(), text)


def typos(text: str, rng: random.Random, keep: frozenset[str]) -> str:
    """One or two slips in a sentence, in words of five letters or more."""
    words = text.split(" ")
    places = [i for i, word in enumerate(words) if re.fullmatch(r"[a-z]{5,}", word) and word not in keep]
    for place in rng.sample(places, min(len(places), rng.randint(1, 2))):
        words[place] = slip(words[place], rng)
    return " ".join(words)


def slip(word: str, rng: random.Random) -> str:
    at = rng.randrange(1, len(word) - 1)
    kind = rng.choice(("swap", "drop", "double", "near"))
    if kind == "swap":
        return word[:at] + word[at + 1] + word[at] + word[at + 2 :]
    if kind == "drop":
        return word[:at] + word[at + 1 :]
    if kind == "double":
        return word[:at] + word[at] + word[at:]
    return word[:at] + NEAR.get(word[at], word[at]) + word[at + 1 :]


def no_articles(text: str, rng: random.Random, keep: frozenset[str]) -> str:
    return re.sub(r"\b(?:the|a|an) (?=[a-z])", "", text)


def around(kind: str) -> Callable[[str, random.Random, frozenset[str]], str]:
    def add(text: str, rng: random.Random, keep: frozenset[str]) -> str:
        return rng.choice(BEFORE[kind]).format(text)

    return add


CHANGES: dict[str, Callable[[str, random.Random, frozenset[str]], str]] = {
    "plain": lambda text, rng, keep: text,
    "lower": lower,
    "capitals": capitals,
    "typos": typos,
    "no articles": no_articles,
    **{kind: around(kind) for kind in BEFORE},
}


def bare(word: str) -> str:
    return re.sub(r"^\W+|\W+$", "", word).removesuffix("'s")


def voiced(text: str, rng: random.Random, keep: Iterable[str] = (), *, only: Iterable[str] = ()) -> tuple[str, str]:
    """The text in somebody's voice, and the voice's name. `keep`: phrases whose words must not change."""
    kept = frozenset(bare(word) for phrase in keep for word in phrase.split())
    names = [name for name, _ in SHARES if not only or name in only]
    weights = [share for name, share in SHARES if name in names]
    name = rng.choices(names, weights)[0]
    return CHANGES[name](text, rng, kept), name


def terms(text: str) -> list[str]:
    """Of a list with commas, over any number of lines."""
    return [" ".join(term.split()) for term in text.split(",")]
