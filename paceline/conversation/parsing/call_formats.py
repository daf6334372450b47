"""How models write tool calls, one reader per format.

mlx-lm has parsers for most of these formats, but they take a whole call. The readers here stream: a client sees a
call's arguments as the model writes them. Formats that are rare, or that cannot be cut into valid JSON as they come,
are held back and given to mlx-lm's parsers (the last section).
"""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Callable
from dataclasses import dataclass

from paceline.conversation.parsing import json_values
from paceline.conversation.parsing.calls import Calls, NotACall
from paceline.conversation.parsing.json_values import Incomplete, NotJSON, copy_value
from paceline.conversation.parsing.source import Source, Steps

# -- JSON arguments: Qwen and Hermes, Llama 3, Mistral, DeepSeek, and the bare object

KEYS = {f'{key}"': key for key in ("name", "arguments", "parameters", "id", "type")}
KEYS |= {'tool_name"': "name", 'tool_call_id"': "id"}  # Command R's


@dataclass(frozen=True, slots=True)
class JSONMark:
    """What stands behind calls in JSON, and the keys of a call. `by_name`: the tool's name is the only key."""

    close: str = ""
    name: str = "name"
    arguments: str = "arguments"
    by_name: bool = False


JSON_MARKERS = {
    "<|tool_call|>": JSONMark("<|/tool_call|>"),  # Phi, Granite
    "<tool_call>": JSONMark("</tool_call>"),
    "<tool_calls>": JSONMark("</tool_calls>"),  # Apriel, MiniMax-M1
    "<TOOLCALL>": JSONMark("</TOOLCALL>"),  # Nemotron Nano
    "<|function_call|>": JSONMark(),  # GigaChat
    "<|START_ACTION|>": JSONMark("<|END_ACTION|>", "tool_name", "parameters"),  # Command R7B
    "<|tools_prefix|>": JSONMark("<|tools_suffix|>", by_name=True),  # Apertus
}

_call_id = re.compile(r"[A-Za-z0-9_\-]+")


def read_hermes(calls: Calls) -> Steps[None]:
    """<tool_call>{"name": ..., "arguments": {...}}</tool_call>"""
    yield from calls.source.literal("<tool_call>")
    yield from calls.source.space()
    yield from _objects(calls)
    yield from calls.trailer("</tool_call>")


def read_json(calls: Calls) -> Steps[None]:
    """{"name": ..., "arguments": {...}}, or a list of those, bare or in marks"""
    source = calls.source
    marker = yield from source.one_of(JSON_MARKERS)
    yield from source.space()
    if marker is None:
        yield from _objects(calls, bare=True)
        return
    mark = JSON_MARKERS[marker]
    more = True
    while more:  # MiniMax-M1 writes a call a line
        yield from _objects(calls, by_name=mark.by_name)
        yield from source.space()
        more = (yield from source.want()) and source.peek() == "{"
        if not more:
            source.rewind()
    if mark.close:
        yield from calls.trailer(mark.close)


def read_llama(calls: Calls) -> Steps[None]:
    """<|python_tag|>{"name": ..., "parameters": {...}}; {...}"""
    marker = yield from calls.source.one_of(("<|python_tag|>", ";"))
    yield from calls.source.space()
    yield from _objects(calls, bare=marker != "<|python_tag|>")


def read_mistral(calls: Calls) -> Steps[None]:
    """[TOOL_CALLS][{"name": ..., "arguments": {...}}], or [TOOL_CALLS]name[CALL_ID]id[ARGS]{...}"""
    source = calls.source
    yield from source.literal("[TOOL_CALLS]")
    yield from source.space()
    yield from source.want()
    if source.peek() in ("[", "{"):
        yield from _objects(calls)
        return
    name = yield from calls.name("[CALL_ID]", "[ARGS]", "{")
    yield from source.space()
    if (yield from source.literal("[CALL_ID]")):
        yield from source.run(_call_id, 64)
    yield from source.literal("[ARGS]")
    yield from source.space()
    yield from calls.json_arguments(name)


def read_deepseek(calls: Calls) -> Steps[None]:
    """<｜tool▁call▁begin｜>name<｜tool▁sep｜>{...}<｜tool▁call▁end｜>; before V3.1, "function" and a fence"""
    source = calls.source
    yield from source.literal("<｜tool▁calls▁begin｜>")
    yield from source.space()
    if not (yield from source.literal("<｜tool▁call▁begin｜>")):
        raise NotACall
    yield from source.literal("function<｜tool▁sep｜>")
    name = yield from calls.name("<｜tool▁sep｜>", "\n")
    yield from source.literal("<｜tool▁sep｜>")
    yield from source.space()
    yield from source.literal("```json")
    yield from source.space()
    yield from calls.json_arguments(name)
    yield from calls.trailer("```", "<｜tool▁call▁end｜>", "<｜tool▁calls▁end｜>")


def _objects(calls: Calls, *, bare: bool = False, by_name: bool = False) -> Steps[None]:
    source = calls.source
    if not (yield from source.literal("[")):
        yield from _by_name(calls) if by_name else _object(calls, bare)
        return
    separator: str | None = ","
    while separator == ",":
        yield from source.space()
        yield from _by_name(calls) if by_name else _object(calls, bare)
        yield from source.space()
        separator = yield from source.one_of((",", "]"))
    if separator is None:
        raise NotACall
    source.checkpoint()


def _by_name(calls: Calls) -> Steps[None]:
    """{"get_weather": {...}}"""
    source = calls.source
    for mark in ("{", '"'):
        if not (yield from source.literal(mark)):
            raise NotACall
        yield from source.space()
    name = yield from calls.name('"')
    yield from source.literal('"')
    yield from source.space()
    if not (yield from source.literal(":")):
        raise NotACall
    yield from source.space()
    yield from calls.json_arguments(name)
    yield from calls.trailer("}")


def _object(calls: Calls, bare: bool) -> Steps[None]:
    """One call. Without a marker before it (`bare`), an object without arguments is content, not a call."""
    source = calls.source
    name = held = None
    ended = calls.ended
    if not (yield from source.literal("{")):
        raise NotACall
    separator: str | None = ","
    while separator == ",":
        yield from source.space()
        if not (yield from source.literal('"')):
            raise NotACall
        key = KEYS.get((yield from source.one_of(KEYS)) or "")
        yield from source.space()
        if key is None or not (yield from source.literal(":")):
            raise NotACall
        yield from source.space()
        if key in ("arguments", "parameters"):
            if calls.ended > ended or held is not None:
                raise NotACall
            if name is None:
                held = yield from calls.held_arguments()
            else:
                yield from calls.json_arguments(name)
        elif key == "name":
            if name is not None or not (yield from source.literal('"')):
                raise NotACall
            name = yield from calls.name('"')
            yield from source.literal('"')
            if held is not None:
                calls.whole(name, held)
        else:
            try:
                yield from copy_value(source, lambda _: None)
            except (NotJSON, Incomplete):
                raise NotACall from None
        yield from source.space()
        separator = yield from source.one_of((",", "}"))
    if separator is None:
        raise NotACall
    if calls.ended == ended:
        if name is None or bare:
            raise NotACall
        calls.whole(name, "{}")
    source.checkpoint()


# -- tagged arguments: every parameter between tags, without quotes (Qwen3-Coder, GLM, MiniMax)

MAX_KEY = 256

_key = re.compile(r"[^<>\"\x00-\x1f]+")


@dataclass(frozen=True, slots=True)
class Tags:
    open: str  # around the call
    call: str  # before the name
    named: tuple[str, ...]  # after the name
    key: str
    keyed: str  # between key and value
    value: str
    valued: str  # after the value
    called: str  # after the last value
    close: str
    lines: bool = False  # values are on lines of their own: one newline before and one after are layout
    ends: tuple[str, ...] = ()  # at the end of the text these end a value that was not closed, and the call


# <tool_call><function=name><parameter=key>value</parameter></function></tool_call>
QWEN3_CODER = Tags(
    *("<tool_call>", "<function=", (">",), "<parameter=", ">", "", "</parameter>", "</function>", "</tool_call>"),
    lines=True,
    ends=("</function>\n</tool_call>", "</function></tool_call>"),
)
# <tool_call>name<arg_key>key</arg_key><arg_value>value</arg_value></tool_call>
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
# <minimax:tool_call><invoke name="..."><parameter name="...">value</parameter></invoke></minimax:tool_call>
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


def read_tagged(calls: Calls, tags: Tags) -> Steps[None]:
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
        if json_values.is_text(parameters.get(key), key in parameters):
            calls.arguments('"')
            closed = yield from _value(
                calls, tags, lambda text: calls.arguments(json.dumps(text, ensure_ascii=False)[1:-1])
            )
            calls.arguments('"')
        else:
            pieces: list[str] = []
            closed = yield from _value(calls, tags, pieces.append)
            calls.arguments(json_values.convert("".join(pieces), parameters.get(key)))
        opening = ", "
        if not closed:
            calls.arguments("}")
            calls.end()
            return
    if tags.close:
        yield from calls.trailer(tags.close)


def _read_key(calls: Calls, tags: Tags) -> Steps[str | None]:
    source = calls.source
    key = yield from source.run(_key, MAX_KEY)
    if len(key) > MAX_KEY:
        return None
    for tag in filter(None, (tags.keyed, tags.value)):
        if tag == tags.value:
            yield from source.space()
        if not (yield from source.literal(tag)):
            if source.cut_short(tag):
                raise Incomplete
            return None
    return key.strip() or None


def _value(calls: Calls, tags: Tags, write: Callable[[str], None]) -> Steps[bool]:
    """Writes a value as it comes. Raises Incomplete if the text ends inside the value; False: the call ends with it."""
    source = calls.source
    lines = _Lines(write) if tags.lines else None
    write = lines.write if lines else write
    while True:
        marker = yield from source.until((tags.valued, *tags.ends), write)
        if marker is None:
            raise Incomplete
        yield from source.literal(marker)
        if marker == tags.valued:
            return True
        space = yield from source.space()
        if not (yield from source.want()):
            return False
        write(marker + space)


class _Lines:
    """Drops one newline at the start and one at the end."""

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


# -- held calls: mlx-lm's parsers, which take whole text

PYTHON_MARKERS = {"<|tool_call_start|>": "<|tool_call_end|>", "<|python_start|>": "<|python_end|>"}
MAX_HELD = 200_000  # characters of one held call


@dataclass(frozen=True, slots=True)
class LibraryFormat:
    """A format that one of mlx-lm's parsers reads: the markers around its text, and around the first name in it.

    A name that is no tool's is not held back, nor left to the parser to guess.
    """

    start: str
    end: str
    before: tuple[str, ...]
    after: tuple[str, ...]
    inner: tuple[str, ...] = ()  # other special tokens in the text


# By the name of mlx-lm's parser, which is our name too.
LIBRARY_FORMATS = {
    "kimi_k2": LibraryFormat(
        "<|tool_calls_section_begin|>",
        "<|tool_calls_section_end|>",
        ("<|tool_call_begin|>functions.", "<|tool_call_begin|>"),
        (":",),
        ("<|tool_call_begin|>", "<|tool_call_argument_begin|>", "<|tool_call_end|>"),
    ),
    "kimi_k3": LibraryFormat(
        "<|open|>tools<|sep|>",
        "<|close|>tools<|sep|>",
        ('<|open|>call tool="',),
        ('" ', '"<|sep|>'),
        ("<|open|>", "<|close|>", "<|sep|>"),
    ),
    "longcat": LibraryFormat(
        "<longcat_tool_call>",
        "</longcat_tool_call>",
        ("", '{"name": "', '{"name":"'),  # older ones write JSON
        ("<longcat_arg_key>", "\n", '"'),
        ("<longcat_arg_key>", "</longcat_arg_key>", "<longcat_arg_value>", "</longcat_arg_value>"),
    ),
    "function_gemma": LibraryFormat("<start_function_call>", "<end_function_call>", ("call:",), ("{",), ("<escape>",)),
    "minicpm5": LibraryFormat("<function name=", "</function>", ('"',), ('">',)),
    "muse_spark": LibraryFormat("<atem:function_calls>", "</atem:function_calls>", ('<atem:invoke name="',), ('">',)),
}

_outside = re.compile(r"[^\"'\[\]]+")
_inside = {'"': re.compile(r'[^"\\]+'), "'": re.compile(r"[^'\\]+")}
_gemma_string = re.compile(r'<\|"\|>.*?<\|"\|>', re.DOTALL)


def read_pythonic(calls: Calls) -> Steps[None]:
    """[name(key=value, ...), ...], with or without markers around it"""
    source = calls.source
    marker = yield from source.one_of(PYTHON_MARKERS)
    yield from source.space()
    if not (yield from source.literal("[")):
        raise NotACall
    yield from source.space()
    name = yield from calls.name("(")
    rest = yield from _to_bracket(source)
    _parse_held(calls, f"[{name}{rest}", "pythonic")
    if marker:
        yield from calls.trailer(PYTHON_MARKERS[marker])


def read_gemma(calls: Calls) -> Steps[None]:
    """<|tool_call>call:name{key:<|"|>text<|"|>,...}<tool_call|>"""
    source = calls.source
    yield from source.literal("<|tool_call>")
    if not (yield from source.literal("call:")):
        raise NotACall
    name = yield from calls.name("{")
    body = yield from _to_end(source, "<|tool_call>", "<tool_call|>")
    bare = _gemma_string.sub("", body)
    if not body.rstrip().endswith("}") or bare.count("{") != bare.count("}"):  # spares the parser's recursive pattern
        raise NotACall
    _parse_held(calls, f"call:{name}{body}", "gemma4")
    yield from calls.trailer("<tool_call|>")


def read_by_library(calls: Calls, name: str) -> Steps[None]:
    """Everything between the markers of one of mlx-lm's parsers."""
    source, format = calls.source, LIBRARY_FORMATS[name]
    yield from source.literal(format.start)
    yield from source.space()
    before = yield from source.one_of(format.before)
    if before is None:
        raise NotACall
    tool = yield from calls.name(*format.after)
    rest = yield from _to_end(source, format.start, format.end)
    _parse_held(calls, before + tool + rest, name)
    yield from calls.trailer(format.end)


def _parse_held(calls: Calls, text: str, parser: str) -> None:
    """Write all calls of the text, or raise NotACall. `parser` is a module of mlx_lm.tool_parsers.

    The module is imported at the first call, because its package imports MLX, which a server has by then.
    """
    if len(text) > MAX_HELD:
        raise NotACall
    try:
        parsed = importlib.import_module(f"mlx_lm.tool_parsers.{parser}").parse_tool_call(text, calls.declared())
    except Exception:  # noqa: BLE001  text of a model may raise anything, and is then no call
        raise NotACall from None
    found = []
    for call in parsed if isinstance(parsed, list) else [parsed]:
        arguments = call.get("arguments")
        dumped = json_values.dump(arguments) if isinstance(arguments, dict) else None
        if not calls.knows(call.get("name")) or dumped is None:
            raise NotACall
        found.append((call["name"], dumped))
    for name, dumped in found:
        calls.whole(name, dumped)


def _to_end(source: Source, start: str, end: str) -> Steps[str]:
    """The text before `end`, which is not taken; another `start` before it means that this was no call."""
    pieces: list[str] = []
    if (yield from source.until((end, start), pieces.append)) != end:
        raise NotACall
    return "".join(pieces)


def _to_bracket(source: Source) -> Steps[str]:
    """The text up to the bracket that closes the one before. Brackets in quotes do not count."""
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
