"""Formats that are held back to their end and parsed by mlx-lm: Python calls and Gemma's.

mlx-lm is imported at the first such call (its package brings MLX along; a server has it loaded anyway).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from paceline.conversation.parsing import schema
from paceline.conversation.parsing.calls import Calls, NotACall
from paceline.conversation.parsing.source import Source, Steps

PYTHON_MARKERS = {"<|tool_call_start|>": "<|tool_call_end|>", "<|python_start|>": "<|python_end|>"}
LONGEST = 200_000  # characters of one held call

_outside = re.compile(r"[^\"'\[\]]+")
_inside = {'"': re.compile(r'[^"\\]+'), "'": re.compile(r"[^'\\]+")}
_gemma_string = re.compile(r'<\|"\|>.*?<\|"\|>', re.DOTALL)


def read_pythonic(calls: Calls) -> Steps[None]:
    """[name(key=value, ...), ...], with or without marks around it"""
    source = calls.source
    marker = yield from source.one_of(PYTHON_MARKERS)
    yield from source.space()
    if not (yield from source.literal("[")):
        raise NotACall
    yield from source.space()
    name = yield from calls.name("(")
    rest = yield from _to_bracket(source)
    _parse(calls, f"[{name}{rest}", _pythonic)
    if marker:
        yield from calls.trailer(PYTHON_MARKERS[marker])


def read_gemma(calls: Calls) -> Steps[None]:
    """<|tool_call>call:name{key:<|"|>text<|"|>,...}<tool_call|>"""
    source = calls.source
    yield from source.literal("<|tool_call>")
    if not (yield from source.literal("call:")):
        raise NotACall
    name = yield from calls.name("{")
    pieces: list[str] = []
    if (yield from source.until(("<tool_call|>", "<|tool_call>"), pieces.append)) != "<tool_call|>":
        raise NotACall
    body = "".join(pieces)
    bare = _gemma_string.sub("", body)
    if not body.rstrip().endswith("}") or bare.count("{") != bare.count("}"):  # spares the parser's recursive pattern
        raise NotACall
    _parse(calls, f"call:{name}{body}", _gemma)
    yield from calls.trailer("<tool_call|>")


def _parse(calls: Calls, text: str, parse: Callable[[str], Any]) -> None:
    """All calls of the text, or none."""
    if len(text) > LONGEST:
        raise NotACall
    try:
        parsed = parse(text)
    except Exception:  # noqa: BLE001  it parses what a model wrote: whatever it raises, that was not a call
        raise NotACall from None
    found = []
    for call in parsed if isinstance(parsed, list) else [parsed]:
        arguments = call.get("arguments")
        dumped = schema.dump(arguments) if isinstance(arguments, dict) else None
        if not calls.knows(call.get("name")) or dumped is None:
            raise NotACall
        found.append((call["name"], dumped))
    for name, dumped in found:
        calls.whole(name, dumped)


def _pythonic(text: str) -> Any:
    from mlx_lm.tool_parsers.pythonic import parse_tool_call

    return parse_tool_call(text)


def _gemma(text: str) -> Any:
    from mlx_lm.tool_parsers.gemma4 import parse_tool_call

    return parse_tool_call(text)


def _to_bracket(source: Source) -> Steps[str]:
    """Up to the bracket that closes the one before, with no bracket inside quotes counted."""
    pieces: list[str] = []
    depth = 1
    quote = ""
    while depth:
        if not (yield from source.want()):
            raise NotACall
        if plain := source.match(_inside[quote] if quote else _outside):
            pieces.append(source.take(len(plain)))
            continue
        if source.peek() == "\\":
            if not (yield from source.want(2)):
                raise NotACall
            pieces.append(source.take(2))
            continue
        character = source.take(1)
        pieces.append(character)
        if character in "\"'":
            quote = "" if quote else character
        else:
            depth += 1 if character == "[" else -1
    return "".join(pieces)
