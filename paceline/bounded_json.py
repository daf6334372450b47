"""JSON of any size without a standstill: Python's parser holds the interpreter's lock for the whole of a call.

A short body is one call. Of a longer one, long strings and long flat arrays (token ids) are cut out and parsed in
pieces; what is left, the structure, is one call again and bounded. So no call takes more than some tens of
milliseconds, and other threads run between two of them. pydantic-core's parser is faster, but holds the lock as well,
refuses what is nested 200 levels deep, and bounds nothing.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from typing import Any

DIRECT = 256 << 10  # bytes that are parsed in one call
LONG = 1 << 10  # bytes of a string or a flat array that is cut out of a longer body
PIECE = 1 << 20  # bytes of such a part that are parsed in one call
MAX_STRUCTURE = 4 << 20  # bytes of what is left
MAX_CONTAINERS = 1 << 16  # objects and arrays
MAX_STRINGS = 1 << 17
MAX_VALUES = 1 << 20  # of which most must be numbers

ESCAPE = 6  # bytes of an escape like \u00e9

_CONTENT = re.compile(rb'[^"\\]*+(?:\\(?:u[0-9a-fA-F]{4}|[^u])[^"\\]*+)*+')


class TooMuchStructure(ValueError):
    """More values than any real request has."""

    def __init__(self, most: int, what: str) -> None:
        super().__init__(f"it has more than {most} {what}")


def loads(body: bytes) -> Any:
    """Raises ValueError, RecursionError. Text must be valid: half of an escaped emoji is not."""
    if len(body) <= DIRECT:
        value = _parsed(body)
        if b"\\u" in body:
            _check_text(json.dumps(value, ensure_ascii=False))
        return value
    return _Document(body).value()


def _parsed(body: bytes) -> Any:
    """`json.loads` would let through the bytes of half an emoji, which are not UTF-8."""
    return json.loads(body.decode(json.detect_encoding(body)), parse_constant=_refuse_constant)


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")


def _check_text(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("an unpaired \\uD800-\\uDFFF escape is not text") from None


class _Document:
    """A long body. Parts that are cut out leave a string that no client can know in their place."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self._mark = f"cut-{secrets.token_hex(12)}-"
        self._parts: list[Callable[[], Any]] = []

    def value(self) -> Any:
        structure = self._without_long_arrays(self._without_long_strings())
        if len(structure) > MAX_STRUCTURE:
            raise TooMuchStructure(MAX_STRUCTURE >> 20, "MiB of names, numbers and short strings")
        value = _parsed(structure)
        if b"\\u" in structure:
            _check_text(json.dumps(value, ensure_ascii=False))
        return self._restored(value)

    def _left(self, part: Callable[[], Any]) -> bytes:
        """What stands in the structure for a part that was cut out."""
        self._parts.append(part)
        return f'"{self._mark}{len(self._parts) - 1}"'.encode()

    def _without_long_strings(self) -> bytes:
        body, kept, position = self._body, [], 0
        for cuts in _strings(body):
            if cuts[-1] - cuts[0] > LONG:
                kept += [body[position : cuts[0] - 1], self._left(partial(_text, body, cuts))]
                position = cuts[-1] + 1
        return b"".join([*kept, body[position:]])

    def _without_long_arrays(self, body: bytes) -> bytes:
        """Of what has no brackets and no strings inside. A bracket inside a string never opens a long one."""
        for bracket in (b"[", b"{"):
            if _count(body, bracket, MAX_CONTAINERS) > MAX_CONTAINERS:
                raise TooMuchStructure(MAX_CONTAINERS, "objects and arrays")
        if _count(body, b",", MAX_VALUES) > MAX_VALUES:
            raise TooMuchStructure(MAX_VALUES, "values")
        kept, position, opened = [], 0, body.find(b"[")
        while opened >= 0:
            following = body.find(b"[", opened + 1)
            closed = body.find(b"]", opened + 1, following if following >= 0 else len(body))
            if closed - opened > LONG and not any(body.find(c, opened + 1, closed) >= 0 for c in (b"{", b'"')):
                kept += [body[position:opened], self._left(partial(_flat_array, body[opened + 1 : closed]))]
                position = closed + 1
            opened = following
        return b"".join([*kept, body[position:]])

    def _restored(self, value: Any) -> Any:
        """The value with its parts back in their places. A loop, not a recursion: it may be nested deeply."""
        top = [value]
        todo: list[list[Any] | dict[str, Any]] = [top]
        while todo:
            container = todo.pop()
            items: Iterator[tuple[Any, Any]] = iter(
                list(container.items()) if isinstance(container, dict) else enumerate(container)
            )
            for key, item in items:
                if isinstance(key, str) and key.startswith(self._mark):
                    raise ValueError(f"a name in it has more than {LONG} characters")
                if isinstance(item, str) and item.startswith(self._mark):
                    container[key] = self._parts[int(item[len(self._mark) :])]()
                elif isinstance(item, list | dict):
                    todo.append(item)
        return top[0]


def _strings(body: bytes) -> Iterator[list[int]]:
    """Of each string's content: where it begins, where it can be cut, where it ends."""
    begin = body.find(b'"') + 1
    count = 0
    while begin:
        count += 1
        if count > MAX_STRINGS:
            raise TooMuchStructure(MAX_STRINGS, "strings")
        cuts = [begin]
        while body[cuts[-1] : cuts[-1] + 1] != b'"':
            cuts.append(_next_cut(body, cuts[-1]))
        yield cuts
        begin = body.find(b'"', cuts[-1] + 1) + 1


def _next_cut(body: bytes, begin: int) -> int:
    """The string's end, or a place before it that is in no character and in no escape."""
    end = min(begin + PIECE, len(body))
    while end < len(body) and body[end] & 0xC0 == 0x80:
        end -= 1
    match = _CONTENT.match(body, begin, end)
    cut = begin if match is None else match.end()
    if cut == len(body):
        raise ValueError(f"Unterminated string at: byte {begin}")
    if cut == begin:
        raise ValueError(f"Invalid \\escape at: byte {cut}")
    return cut


def _text(body: bytes, cuts: list[int]) -> str:
    pieces, carried = [], 0
    for begin, end in pairwise(cuts):
        begin -= carried
        try:
            piece = json.loads(b'"%b"' % body[begin:end])
        except json.JSONDecodeError as error:
            raise ValueError(f"{error.msg} at: byte {begin - 1 + error.pos}") from None
        # Half of a pair of escapes goes with the other half.
        carried = ESCAPE if end != cuts[-1] and "\ud800" <= piece[-1:] <= "\udbff" else 0
        piece = piece[:-1] if carried else piece
        _check_text(piece)
        pieces.append(piece)
    return "".join(pieces)


def _flat_array(numbers: bytes) -> list[Any]:
    values: list[Any] = []
    begin = 0
    while begin <= len(numbers):
        cut = numbers.find(b",", begin + PIECE)
        if cut < 0:
            cut = len(numbers)
        piece = numbers[begin:cut]
        if not piece.strip() and (begin or cut < len(numbers)):
            raise ValueError("Expecting value")
        values += _parsed(b"[%b]" % piece)
        begin = cut + 1
    return values


def _count(body: bytes, what: bytes, most: int) -> int:
    """As far as `most` and a little more."""
    count = 0
    for begin in range(0, len(body), PIECE):
        count += body.count(what, begin, begin + PIECE)
        if count > most:
            break
    return count
