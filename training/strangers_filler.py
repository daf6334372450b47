"""Text to hide facts in: prose, code, logs, lists, random words, and a mix, of about a given number of tokens."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Mapping, Sequence

from training.strangers_sources import Material
from training.strangers_voices import terms

KINDS = ("prose", "code", "log", "list", "words", "mail")
SAMPLE = 12_000  # characters that measure a kind's tokens
LEVELS = ("INFO", "WARN", "DEBUG", "ERROR", "NOTICE")
PARTS = ("scheduler", "mailer", "indexer", "proxy", "billing", "uploads", "sessions", "thumbnails")
EVENTS = (
    "retry {} of 5 after timeout",
    "worker {} joined the pool",
    "flushed {} rows in one go",
    "request took {} ms",
    "cache miss, loading page {}",
    "user session {} expired",
    "heartbeat ok, {} peers",
    "queue depth is {}",
)
GOODS = terms(
    """screws, ribbons, kettles, envelopes, candles, buckets, rulers, blankets, ladders, sponges, tiles, brushes,
    gloves, hinges, pillows, crates, pencils, lamps, towels, ropes"""
)
STATES = ("to be checked", "sold out", "on the top shelf", "reordered", "as new", "two boxes", "ask the depot", "fine")
REMARKS = (
    "On the subject of {}, we are where we were last month.",
    "Could someone look at the {} before the weekend?",
    "I saw nothing wrong with the {} when I was there.",
    "Regarding {}: the supplier has not written back.",
    "We talked about {} for an hour and settled nothing.",
    "The {} can wait until the holidays are over.",
    "As for the {}, my opinion has not changed.",
    "Thanks to all who helped to carry the {}.",
)


class Filler:
    """`per_token`: characters a token has, by kind; of a tokenizer that is not known, 3.5."""

    def __init__(self, material: Material, per_token: Mapping[str, float] | None = None) -> None:
        self.material = material
        self.per_token = per_token or {}
        self._words = sorted(word for word in material.words if word.isalpha() and 3 <= len(word) <= 9)
        self._code = material.code.splitlines()

    def units(self, kind: str, rng: random.Random) -> Iterator[str]:
        """Pieces without end, to be joined with `joint(kind)`."""
        if kind == "prose":
            book = rng.choice(self.material.books)
            start = rng.randrange(len(book))
            yield from itertools.cycle((*book[start:], *book[:start]))
        elif kind == "code":
            start = rng.randrange(len(self._code))
            yield from itertools.cycle((*self._code[start:], *self._code[:start]))
        else:
            make = {"log": log_line, "list": list_line, "words": self._random_words, "mail": remark}[kind]
            while True:
                yield make(rng)

    def _random_words(self, rng: random.Random) -> str:
        return " ".join(rng.choice(self._words) for _ in range(rng.randint(6, 14)))

    def pieces(self, kind: str, rng: random.Random, tokens: int) -> list[str]:
        """Units of about so many tokens together."""
        budget = tokens * self.per_token.get(kind, 3.5)
        chosen: list[str] = []
        for unit in self.units(kind, rng):
            budget -= len(unit) + 1
            if budget < 0 and chosen:
                break
            chosen.append(unit)
        return chosen

    def sample(self, kind: str) -> str:
        rng = random.Random(f"sample {kind}")
        text = ""
        for unit in self.units(kind, rng):
            text += unit + joint(kind)
            if len(text) > SAMPLE:
                break
        return text


def joint(kind: str) -> str:
    return " " if kind in ("prose", "mail") else "\n"


def log_line(rng: random.Random) -> str:
    time = f"{rng.randrange(24):02}:{rng.randrange(60):02}:{rng.randrange(60):02}"
    event = rng.choice(EVENTS).format(rng.randint(1, 99))
    return f"{time} {rng.choice(LEVELS)} {rng.choice(PARTS)}: {event}"


def list_line(rng: random.Random) -> str:
    mark = rng.choice(("-", "*", "+"))
    return f"{mark} {rng.randint(2, 90)} {rng.choice(GOODS)}, {rng.choice(STATES)}"


def remark(rng: random.Random) -> str:
    return rng.choice(REMARKS).format(rng.choice(GOODS))


def hidden(pieces: Sequence[str], needles: Sequence[str], depths: Sequence[float], kind: str) -> str:
    """The pieces joined, with each needle at its depth (0 is the beginning, 1 the end)."""
    placed = list(pieces)
    for needle, depth in sorted(zip(needles, depths, strict=True), key=lambda pair: -pair[1]):
        placed.insert(round(depth * len(pieces)), needle)
    return joint(kind).join(placed)
