"""JSON as an answer writes it. A grammar leaves blanks open, so it forces almost nothing of a JSON answer. The same
grammar with the blanks of a usual style, or with those that the answer had so far, forces keys, quotes and braces. That
is what a model probably writes next, and what is proposed as a draft. The grammar itself decides what is allowed."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from llguidance import LLMatcher, LLTokenizer

# As Python's json.dumps writes it, which most models do, and without blanks.
STYLES: tuple[dict[str, Any], ...] = (
    {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "},
    {"whitespace_flexible": False, "item_separator": ",", "key_separator": ":"},
)


def styled(grammar: str) -> list[str]:
    """A grammar as `spec.write` makes it, once in every style; none if it has no JSON."""
    if '"json_schema"' not in grammar:
        return []
    found = []
    for style in STYLES:
        parts = json.loads(grammar)["grammars"]
        for part in parts:
            if "json_schema" in part:
                part["json_schema"]["x-guidance"] = style
        found.append(json.dumps({"grammars": parts}))
    return found


class StyleFollower:
    """Follows an answer in the first style that fits it so far; if none does, by its own blanks."""

    def __init__(self, vocabulary: LLTokenizer, styles: Sequence[Callable[[], LLMatcher]]) -> None:
        """`styles` in the order of `STYLES`."""
        self._vocabulary = vocabulary
        self._left = list(styles)
        self._compact = self._left[-1]
        self._matcher: LLMatcher | None = None
        self._layout: Layout | None = None
        self._read = 0  # tokens of the answer

    def forced(self, tokens: Sequence[int]) -> list[int] | None:
        """What the style forces after `tokens`, which go on from those of the last call; None: no style fits them."""
        while self._layout is None:
            if self._matcher is None:
                if not self._left:
                    self._layout, self._read = Layout(self._vocabulary, self._compact()), 0
                    break
                self._matcher, self._read = self._left.pop(0)(), 0
            new = list(tokens[self._read :])
            if self._matcher.try_consume_tokens(new) == len(new) and not self._matcher.is_error():
                self._read = len(tokens)
                return self._written(self._matcher)
            self._matcher = None
        new, self._read = list(tokens[self._read :]), len(tokens)
        if not self._layout.read([self._vocabulary.decode_bytes([token]) for token in new]):
            return None
        return [token for part in self._layout.forced() for token in self._vocabulary.tokenize_bytes(part)]

    def _written(self, matcher: LLMatcher) -> list[int]:
        """The forced text as tokens. llguidance leaves off the last ones, where the free text behind may begin in the
        same token; a quote before a string seldom does."""
        tokens = list(matcher.compute_ff_tokens())
        rest = matcher.compute_ff_bytes()[len(self._vocabulary.decode_bytes(tokens)) :]
        return tokens + list(self._vocabulary.tokenize_bytes(rest))


class Layout:
    """JSON with blanks of its own, indented or uneven: read without them, and forced text is written with those that
    stood in such places last."""

    def __init__(self, vocabulary: LLTokenizer, matcher: LLMatcher) -> None:
        """`matcher` takes JSON without blanks."""
        self._vocabulary = vocabulary
        self._matcher = matcher
        self._fits = True
        self._inside = self._escaped = False  # of a string
        self._depth = 0
        self._before = 0  # the last byte outside of strings that is no blank
        self._blank = b""  # since then
        self._blanks = {OPEN: b"", COMMA: b" ", COLON: b" "}  # behind these
        self._ahead: dict[tuple[int, bool], bytes] = {}  # before a comma, a colon or an end, maybe behind another end
        self._unit = b""  # of indentation
        self._alone = False  # the last blanks were tokens of their own
        self._apart: dict[int, bool] = {}  # the same of those before each byte

    def read(self, tokens: Sequence[bytes]) -> bool:
        """The next tokens of the answer; False: they do not fit, and nothing after them will."""
        compact = bytearray()
        for data in tokens if self._fits else ():
            if not self._inside and data[:1].isspace():
                self._alone = data.isspace()
            for byte in data:
                if not self._inside and byte in BLANKS:
                    self._blank += bytes((byte,))
                    continue
                compact.append(byte)
                if not self._inside:
                    self._learn(byte)
                self._pass(byte)
        return self._follow(compact)

    def _follow(self, compact: bytearray) -> bool:
        tokens = self._vocabulary.tokenize_bytes(bytes(compact))
        self._fits = self._fits and self._matcher.try_consume_tokens(tokens) == len(tokens)
        return self._fits and not self._matcher.is_error()

    def forced(self) -> list[bytes]:
        """What follows, with blanks; in parts that share no token."""
        kept = (self._inside, self._escaped, self._depth, self._before, self._blank)
        parts = [bytearray()]
        for byte in self._matcher.compute_ff_bytes():
            if not self._inside:
                expected = self._expected(byte)
                if not expected.startswith(self._blank):
                    break  # more blanks may follow
                blank = expected[len(self._blank) :]
                if blank and self._apart.get(byte, False):
                    parts += [bytearray(blank), bytearray()]
                else:
                    parts[-1] += blank
            parts[-1].append(byte)
            self._pass(byte)
        self._inside, self._escaped, self._depth, self._before, self._blank = kept
        return [bytes(part) for part in parts if part]

    def _pass(self, byte: int) -> None:
        if self._inside:
            self._inside = self._escaped or byte != QUOTE
            self._escaped = not self._escaped and byte == BACKSLASH
        else:
            self._inside = byte == QUOTE
            self._depth += (byte in OPENING) - (byte in CLOSING)
        self._before, self._blank = byte, b""

    def _learn(self, byte: int) -> None:
        place = OPEN if self._before in OPENING else self._before
        if self._blank:
            self._apart[byte] = self._alone
        if byte in AHEAD:
            self._ahead[self._gap(byte)] = self._blank
        elif place in self._blanks:
            self._blanks[place] = self._blank
            if place == OPEN and b"\n" in self._blank and self._depth:
                indentation = self._blank.rpartition(b"\n")[2]
                self._unit = indentation[: len(indentation) // self._depth]
                self._blanks[COMMA] = self._blank

    def _gap(self, byte: int) -> tuple[int, bool]:
        return CLOSING[0] if byte in CLOSING else byte, self._before in CLOSING

    def _expected(self, byte: int) -> bytes:
        """The blanks before a byte."""
        place = OPEN if self._before in OPENING else self._before
        if byte in AHEAD and place != OPEN and not (byte in CLOSING and self._unit):
            return self._ahead.get(self._gap(byte), b"")
        if byte in CLOSING:
            lines, depth = self._blanks[OPEN] if place != OPEN else b"", self._depth - 1
        else:
            lines, depth = self._blanks.get(place, b""), self._depth
        head, line, _ = lines.rpartition(b"\n")
        return head + line + depth * self._unit if line else lines if byte not in CLOSING else b""


BLANKS, OPENING, CLOSING = b" \t\r\n", b"{[", b"}]"
AHEAD = b",:}]"
QUOTE, BACKSLASH, COMMA, COLON, OPEN = b'"\\,:{'
