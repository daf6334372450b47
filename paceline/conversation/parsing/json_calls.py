"""Formats whose arguments are JSON: Qwen and Hermes, Llama 3, Mistral, DeepSeek, and the bare object."""

from __future__ import annotations

import re

from paceline.conversation.parsing.calls import Calls, NotACall
from paceline.conversation.parsing.json_text import Incomplete, NotJSON, copy_value
from paceline.conversation.parsing.source import Steps

KEYS = {f'{key}"': key for key in ("name", "arguments", "parameters", "id", "type")}
JSON_MARKERS = {"<|tool_call|>": "<|/tool_call|>", "<tool_call>": "</tool_call>"}

_call_id = re.compile(r"[A-Za-z0-9_\-]+")


def read_hermes(calls: Calls) -> Steps[None]:
    """<tool_call>{"name": ..., "arguments": {...}}</tool_call>"""
    yield from calls.source.literal("<tool_call>")
    yield from calls.source.space()
    yield from _objects(calls)
    yield from calls.trailer("</tool_call>")


def read_json(calls: Calls) -> Steps[None]:
    """{"name": ..., "arguments": {...}}, or a list of those, bare or with the marks that Phi and Granite write"""
    marker = yield from calls.source.one_of(JSON_MARKERS)
    yield from calls.source.space()
    yield from _objects(calls, bare=marker is None)
    if marker:
        yield from calls.trailer(JSON_MARKERS[marker])


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


def _objects(calls: Calls, *, bare: bool = False) -> Steps[None]:
    source = calls.source
    if not (yield from source.literal("[")):
        yield from _object(calls, bare)
        return
    separator: str | None = ","
    while separator == ",":
        yield from source.space()
        yield from _object(calls, bare)
        yield from source.space()
        separator = yield from source.one_of((",", "]"))
    if separator is None:
        raise NotACall
    source.checkpoint()


def _object(calls: Calls, bare: bool) -> Steps[None]:
    """One call. Without a mark before it (`bare`), an object without arguments is an answer, not a call."""
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
