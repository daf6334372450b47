"""The text as it arrives, for readers that are written as if all of it were there.

A reader is a generator: it yields where it needs text that has not come, and goes on when some has. Every reader
therefore gives the same result wherever the text is cut.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Generator
from functools import lru_cache
from typing import TypeVar

Result = TypeVar("Result")
Steps = Generator[None, None, Result]

SPACE = re.compile(r"\s*")


class Source:
    """`take` moves on; `rewind` goes back, at most to the last `checkpoint`."""

    def __init__(self) -> None:
        self.ended = False
        self._text = ""
        self._at = 0
        self._taken: list[str] = []  # since the last checkpoint

    def feed(self, text: str) -> None:
        self._text = self._text[self._at :] + text
        self._at = 0

    def checkpoint(self) -> None:
        self._taken = []

    def raw(self) -> str:
        """The text taken since the last checkpoint."""
        return "".join(self._taken)

    def tell(self) -> int:
        """How many characters were taken since the last checkpoint."""
        return sum(map(len, self._taken))

    def rewind(self, to: int = 0) -> None:
        """Back to the last checkpoint, or to `to` characters after it."""
        raw = self.raw()
        back = len(raw) - to
        if back <= self._at:
            self._at -= back
        else:
            self._text = raw[to:] + self._text[self._at :]
            self._at = 0
        self._taken = [raw[:to]]

    def cut_short(self, *words: str) -> bool:
        """Whether the text ends where one of the words may just have begun."""
        rest = self._text[self._at :]
        return self.ended and any(word.startswith(rest) for word in words)

    @property
    def available(self) -> int:
        return len(self._text) - self._at

    def peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def take(self, count: int) -> str:
        text = self._text[self._at : self._at + count]
        self._at += count
        self._taken.append(text)
        return text

    def back(self, count: int) -> None:
        """Gives back the end of the last `take`. There must have been no wait since."""
        self._at -= count
        self._taken[-1] = self._taken[-1][: len(self._taken[-1]) - count]

    def match(self, pattern: re.Pattern[str]) -> str:
        """The match in the text that has come, which may be shorter than the final match. Takes nothing."""
        found = pattern.match(self._text, self._at)
        return found.group() if found else ""

    # -- steps: each waits only for the text that decides it

    def want(self, count: int = 1) -> Steps[bool]:
        """Whether there are `count` characters before the end."""
        while self.available < count and not self.ended:
            yield
        return self.available >= count

    def one_of(self, words: Collection[str], *, cut: bool = False) -> Steps[str | None]:
        """Takes the longest of the words that is here. With `cut`, the end of the text may cut it short."""
        longest = max(map(len, words), default=0)
        while True:
            here = self._text[self._at : self._at + longest]
            open_words = [word for word in words if len(word) > len(here) and word.startswith(here)]
            found = max((word for word in words if here.startswith(word)), key=len, default=None)
            if open_words and not self.ended:
                yield
                continue
            if found is None and cut and open_words and here:
                self.take(len(here))
                return open_words[0]
            if found is not None:
                self.take(len(found))
            return found

    def literal(self, word: str, *, cut: bool = False) -> Steps[bool]:
        return (yield from self.one_of((word,), cut=cut)) is not None

    def space(self) -> Steps[str]:
        return (yield from self.run(SPACE))

    def run(self, pattern: re.Pattern[str], limit: int | None = None) -> Steps[str]:
        """Takes all that matches a repeated character class; stops once it has `limit` characters."""
        pieces: list[str] = []
        size = 0
        while True:
            found = self.match(pattern)
            if found:
                pieces.append(self.take(len(found)))
                size += len(found)
            if self.available or self.ended or (limit is not None and size >= limit):
                return "".join(pieces)
            yield

    def until(
        self, markers: Collection[str], write: Callable[[str], None], *, final: bool = False
    ) -> Steps[str | None]:
        """Writes the text before the first marker as it comes. Returns the marker, not taken; None at the end.

        Only text that may begin a marker is held back. `final` text cannot be rewound.
        """
        table = _Markers.of(tuple(markers))
        while True:
            found = table.pattern.search(self._text, self._at)
            if found:
                end = found.start()
            else:
                end = len(self._text) - (0 if self.ended else table.undecided(self._text, self._at))
            if end > self._at:
                write(self.take(end - self._at))
                if final:
                    self.checkpoint()
            if found:
                return found.group()
            if self.ended:
                return None
            yield


class _Markers:
    """A set of markers, prepared for the search."""

    def __init__(self, markers: tuple[str, ...]) -> None:
        by_length = sorted(markers, key=len, reverse=True)
        self.pattern = re.compile("|".join(map(re.escape, by_length)) or r"(?!)")
        self._beginnings = frozenset(marker[:size] for marker in markers for size in range(1, len(marker)))
        self._letters = re.compile(
            "[" + "".join(re.escape(marker[0]) for marker in markers) + "]" if markers else r"(?!)"
        )
        self._longest = len(by_length[0]) - 1 if markers else 0

    @staticmethod
    @lru_cache(maxsize=64)
    def of(markers: tuple[str, ...]) -> _Markers:
        return _Markers(markers)

    def undecided(self, text: str, start: int) -> int:
        """How many characters at the text's end may begin a marker."""
        for found in self._letters.finditer(text, max(start, len(text) - self._longest)):
            if text[found.start() :] in self._beginnings:
                return len(text) - found.start()
        return 0
