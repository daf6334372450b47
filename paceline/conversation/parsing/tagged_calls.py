"""Formats that write every parameter between tags, without quotes: Qwen3-Coder, GLM and MiniMax."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass

from paceline.conversation.parsing import schema
from paceline.conversation.parsing.calls import Calls, NotACall
from paceline.conversation.parsing.json_text import Incomplete
from paceline.conversation.parsing.source import Steps

LONGEST_KEY = 256

_key = re.compile(r"[^<>\"\x00-\x1f]+")


@dataclass(frozen=True, slots=True)
class Tags:
    open: str  # around the call
    call: str  # before the name
    named: tuple[str, ...]  # behind the name
    key: str
    keyed: str  # between key and value
    value: str
    valued: str  # behind the value
    called: str  # behind the last value
    close: str
    lines: bool = False  # a value has a line of its own: one newline before it and one behind it are layout


QWEN3_CODER = Tags(
    "<tool_call>", "<function=", (">",), "<parameter=", ">", "", "</parameter>", "</function>", "</tool_call>", True
)
GLM = Tags(
    "<tool_call>",
    "",
    ("\n", "<arg_key>", "</tool_call>"),
    "<arg_key>",
    "</arg_key>",
    "<arg_value>",
    "</arg_value>",
    "</tool_call>",
    "",
)
MINIMAX = Tags(
    "<minimax:tool_call>",
    '<invoke name="',
    ('">',),
    '<parameter name="',
    '">',
    "",
    "</parameter>",
    "</invoke>",
    "</minimax:tool_call>",
)


def read_qwen3_coder(calls: Calls) -> Steps[None]:
    """<tool_call><function=name><parameter=key>value</parameter></function></tool_call>"""
    return _read(calls, QWEN3_CODER)


def read_glm(calls: Calls) -> Steps[None]:
    """<tool_call>name<arg_key>key</arg_key><arg_value>value</arg_value></tool_call>"""
    return _read(calls, GLM)


def read_minimax(calls: Calls) -> Steps[None]:
    """<minimax:tool_call><invoke name="..."><parameter name="...">value</parameter></invoke></minimax:tool_call>"""
    return _read(calls, MINIMAX)


def _read(calls: Calls, tags: Tags) -> Steps[None]:
    source = calls.source
    yield from source.literal(tags.open)
    yield from source.space()
    if not (yield from source.literal(tags.call)):
        raise NotACall
    name = yield from calls.name(*tags.named)
    if len(tags.named) == 1:
        yield from source.literal(tags.named[0])
    calls.start(name)
    parameters = calls.parameters(name)
    opening = "{"
    while True:
        here = source.tell()
        yield from source.space()
        tag = yield from source.one_of((tags.key, tags.called))
        if tag == tags.called:
            calls.arguments("{}" if opening == "{" else "}")
            calls.end()
            break
        if tag is None and source.cut_short(tags.key, tags.called):
            raise Incomplete
        key = (yield from _read_key(calls, tags)) if tag else None
        if key is None:
            source.rewind(here)
            raise NotACall
        calls.arguments(f"{opening}{json.dumps(key, ensure_ascii=False)}: ")
        if schema.is_text(parameters.get(key), key in parameters):
            calls.arguments('"')
            yield from _value(calls, tags, lambda text: calls.arguments(json.dumps(text, ensure_ascii=False)[1:-1]))
            calls.arguments('"')
        else:
            pieces: list[str] = []
            yield from _value(calls, tags, pieces.append)
            calls.arguments(schema.convert("".join(pieces), parameters.get(key)))
        opening = ", "
    if tags.close:
        yield from calls.trailer(tags.close)


def _read_key(calls: Calls, tags: Tags) -> Steps[str | None]:
    source = calls.source
    key = yield from source.run(_key, LONGEST_KEY)
    if len(key) > LONGEST_KEY:
        return None
    for tag in filter(None, (tags.keyed, tags.value)):
        if tag == tags.value:
            yield from source.space()
        if not (yield from source.literal(tag)):
            if source.cut_short(tag):
                raise Incomplete
            return None
    return key.strip() or None


def _value(calls: Calls, tags: Tags, write: Callable[[str], None]) -> Steps[None]:
    """Writes a value as it comes. Raises Incomplete if the text ends inside."""
    lines = _Lines(write) if tags.lines else None
    if (yield from calls.source.until((tags.valued,), lines.write if lines else write)) is None:
        raise Incomplete
    yield from calls.source.literal(tags.valued)


class _Lines:
    """Drops a newline at the front and one at the end."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        self._begun = False
        self._held = ""

    def write(self, text: str) -> None:
        if not self._begun:
            self._begun = True
            text = text.removeprefix("\n")
        text = self._held + text
        self._held = "\n" if text.endswith("\n") else ""
        self._write(text[:-1] if self._held else text)
