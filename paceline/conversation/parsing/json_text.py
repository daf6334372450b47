"""One JSON value, copied as it comes and exactly to its end.

What is written out is at every moment the beginning of valid JSON. Valid text is copied byte for byte; slips that have
one meaning only are put right on the way: control characters inside strings, backslashes before characters that need
none, a comma before a closing bracket, and Python's True, False and None.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable

from paceline.conversation.parsing.source import Source, Steps

DEPTH = 128  # Python's own parser gives up at about a thousand, other languages' sooner
SCALAR = 256  # characters; Python parses integers of up to 4,300 digits

_space = re.compile(r"[ \t\n\r]+")
_plain = re.compile(r'(?:[^"\\\x00-\x1f]+|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4})+')
_word = re.compile(r"[A-Za-z0-9.+-]*")
_number = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_words = {"true": "true", "false": "false", "null": "null", "True": "true", "False": "false", "None": "null"}


class NotJSON(Exception):
    """The text goes on as no JSON does."""


class Incomplete(Exception):
    """The text ended before the value did."""


def copy_value(source: Source, write: Callable[[str], None]) -> Steps[None]:
    """Takes one value, which begins here, and writes it out. Raises NotJSON or Incomplete."""
    brackets: list[str] = []
    held = ""  # a comma and the space behind it, until something follows
    expected = "value"  # value, first value, key, first key, colon, comma
    while True:
        yield from _need(source)
        if space := source.match(_space):
            source.take(len(space))
            if held:
                held += space
            else:
                write(space)
            continue
        character = source.peek()
        if character in "}]":
            closes = brackets and brackets[-1] == ("{" if character == "}" else "[")
            if not closes or expected == "colon" or (expected == "value" and brackets[-1] == "{"):
                raise NotJSON
            source.take(1)
            write(held[1:] + character)  # without a comma too many
            held = ""
            brackets.pop()
            if not brackets:
                return
            expected = "comma"
        elif expected == "comma":
            if character != ",":
                raise NotJSON
            held = source.take(1)
            expected = "key" if brackets[-1] == "{" else "value"
        elif expected == "colon":
            if character != ":":
                raise NotJSON
            write(source.take(1))
            expected = "value"
        elif expected in ("key", "first key"):
            if character != '"':
                raise NotJSON
            write(held)
            held = ""
            yield from _copy_string(source, write)
            expected = "colon"
        elif character in "{[":
            if len(brackets) == DEPTH:
                raise NotJSON
            write(held + source.take(1))
            held = ""
            brackets.append(character)
            expected = "first key" if character == "{" else "first value"
        else:
            if character == '"':
                write(held)
                yield from _copy_string(source, write)
            else:
                word = yield from _scalar(source)
                if word is None:
                    raise NotJSON
                write(held + word)
            held = ""
            if not brackets:
                return
            expected = "comma"


def _copy_string(source: Source, write: Callable[[str], None]) -> Steps[None]:
    write(source.take(1))
    while True:
        yield from _need(source)
        if plain := source.match(_plain):
            write(source.take(len(plain)))
            continue
        character = source.peek()
        if character == '"':
            write(source.take(1))
            return
        if character != "\\":
            write(json.dumps(source.take(1))[1:-1])
            continue
        yield from _need(source, 2)
        source.take(1)
        escaped = source.peek()
        if escaped == "u":
            source.take(1)
            digits = yield from _hex_digits(source)
            write(("\\u" if len(digits) == 4 else "\\\\u") + digits)
        elif escaped in '"\\/bfnrt':
            write("\\" + source.take(1))
        else:
            write("\\\\")


def _hex_digits(source: Source) -> Steps[str]:
    digits = ""
    while len(digits) < 4:
        yield from _need(source)
        if source.peek() not in "0123456789abcdefABCDEF":
            break
        digits += source.take(1)
    return digits


def _scalar(source: Source) -> Steps[str | None]:
    """A number or a word, taken and made JSON; None, with nothing taken, if it is neither."""
    text = source.match(_word)
    while len(text) == source.available and len(text) <= SCALAR:
        yield from _need(source, len(text) + 1)
        text = source.match(_word)
    if text in _words:
        source.take(len(text))
        return _words[text]
    if len(text) <= SCALAR and _number.fullmatch(text):
        return source.take(len(text))
    return None


def _need(source: Source, count: int = 1) -> Steps[None]:
    if not (yield from source.want(count)):
        raise Incomplete
