"""Template fallbacks: the same conversation written otherwise, for templates that refuse it or drop a part of it."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any

from paceline.conversation.messages import REASONING
from paceline.conversation.normalize import (
    Message,
    arguments_of,
    is_blank,
    joined,
    neighbours_merged,
)

Tools = Sequence[Mapping[str, Any]]

# For models whose template knows no tools. Their calls are written as in `call_text`.
TOOLS_INSTRUCTION = """\
# Tools

You may call functions. These are their descriptions, one JSON object a line:
{tools}

To call functions, answer with nothing but one JSON object a line for each call, in this form:
{{"name": "the function's name", "arguments": {{"an argument's name": "its value"}}}}"""
RESULT_OPENING = "Result of {name}:\n"


class FallbackChange(Enum):
    """What a fallback changes. The value is for the log."""

    IDS = "tool call ids of nine letters and digits"
    NAMED_IDS = "tool call ids of the tool's name and a number"
    EMPTY = "no empty answers"
    PYTHON = "tool calls as LFM2 writes them"
    SPLIT = "one tool call a message, apart from text"
    DESCRIBE = "tools as text in the system message"
    SYSTEM = "the system message as the user's"
    CALLS = "tool calls and results as text"
    ALTERNATE = "user and assistant in turns"


Fallback = frozenset[FallbackChange]

# In order of preference: each changes more than the ones before. None loses text.
FALLBACKS: tuple[Fallback, ...] = (
    frozenset(),
    frozenset({FallbackChange.IDS}),
    frozenset({FallbackChange.NAMED_IDS}),
    frozenset({FallbackChange.EMPTY}),
    frozenset({FallbackChange.SPLIT}),
    frozenset({FallbackChange.IDS, FallbackChange.SPLIT}),
    frozenset({FallbackChange.ALTERNATE}),
    frozenset({FallbackChange.ALTERNATE, FallbackChange.IDS}),
    frozenset({FallbackChange.PYTHON}),
    frozenset({FallbackChange.DESCRIBE}),
    frozenset({FallbackChange.SYSTEM}),
    frozenset({FallbackChange.SYSTEM, FallbackChange.IDS, FallbackChange.SPLIT}),
    frozenset({FallbackChange.SYSTEM, FallbackChange.DESCRIBE}),
    frozenset({FallbackChange.CALLS}),
    frozenset({FallbackChange.CALLS, FallbackChange.DESCRIBE}),
    frozenset({FallbackChange.SYSTEM, FallbackChange.CALLS}),
    frozenset({FallbackChange.SYSTEM, FallbackChange.CALLS, FallbackChange.DESCRIBE}),
    frozenset({FallbackChange.SYSTEM, FallbackChange.CALLS, FallbackChange.ALTERNATE}),
    frozenset({FallbackChange.SYSTEM, FallbackChange.CALLS, FallbackChange.ALTERNATE, FallbackChange.DESCRIBE}),
)


PYTHON_SIGN = "List of tools: "  # in LFM2's templates, which write tools and results, and leave out calls


def fallbacks_for(source: str | None) -> tuple[Fallback, ...]:
    """Those that a template may need."""
    if source is not None and PYTHON_SIGN in source:
        return FALLBACKS
    return tuple(fallback for fallback in FALLBACKS if FallbackChange.PYTHON not in fallback)


def apply_fallback(
    fallback: Fallback, messages: Sequence[Message], tools: Tools | None
) -> tuple[list[Message], Tools | None]:
    """A normalized conversation with the fallback's changes. Texts and images keep their order."""
    result = list(messages)
    if FallbackChange.DESCRIBE in fallback and tools:
        result, tools = _describe_tools(result, tools), None
    if FallbackChange.EMPTY in fallback:
        result = neighbours_merged(message for message in result if not _is_empty_answer(message))
    if FallbackChange.CALLS in fallback:
        result = _as_text(result)
    elif FallbackChange.PYTHON in fallback:
        result = [_as_python(message) for message in result]
    else:
        result = _with_short_ids(result) if FallbackChange.IDS in fallback else result
        result = _with_named_ids(result) if FallbackChange.NAMED_IDS in fallback else result
        result = _split_calls(result) if FallbackChange.SPLIT in fallback else result
    if FallbackChange.SYSTEM in fallback:
        result = [{**message, "role": "user"} if message["role"] == "system" else message for message in result]
        result = [*neighbours_merged(result[:2]), *result[2:]]
    if FallbackChange.ALTERNATE in fallback:
        result = neighbours_merged(result)
        first = next((place for place, message in enumerate(result) if message["role"] != "system"), 0)
        if result[first]["role"] in ("assistant", "tool"):
            result = [*result[:first], {"role": "user", "content": ""}, *result[first:]]
    return result, tools


def call_text(call: Mapping[str, Any]) -> str:
    """A tool call as `TOOLS_INSTRUCTION` asks for it."""
    return json.dumps({"name": call["function"]["name"], "arguments": arguments_of(call)}, ensure_ascii=False)


def _describe_tools(messages: list[Message], tools: Tools) -> list[Message]:
    lines = "\n".join(json.dumps(tool.get("function", tool), ensure_ascii=False) for tool in tools)
    text = TOOLS_INSTRUCTION.format(tools=lines)
    if messages[0]["role"] != "system":
        return [{"role": "system", "content": text}, *messages]
    return [{**messages[0], "content": joined([messages[0]["content"], text])}, *messages[1:]]


# -- tool calls as text


def _as_text(messages: Sequence[Message]) -> list[Message]:
    names: dict[Any, str] = {}
    result: list[Message] = []
    for message in messages:
        if message["role"] == "tool":
            name = names.get(message.get("tool_call_id")) or message.get("name") or "the call"
            opening, content = RESULT_OPENING.format(name=name), message["content"]
            content = opening + content if isinstance(content, str) else [{"type": "text", "text": opening}, *content]
            message = {"role": "user", "content": content}
        elif calls := message.get("tool_calls"):
            names |= {call["id"]: call["function"]["name"] for call in calls if isinstance(call.get("id"), str)}
            said = joined([message["content"] or "", "\n".join(map(call_text, calls))])
            message = {key: value for key, value in message.items() if key != "tool_calls"} | {"content": said}
        result.append(message)
    return neighbours_merged(result)


def _as_python(message: Message) -> Message:
    """<|tool_call_start|>[get_weather(city="Rome", days=2)]<|tool_call_end|>, in front of what is said."""
    calls = message.get("tool_calls")
    if not calls:
        return message
    written = []
    for call in calls:
        arguments = arguments_of(call)
        if not isinstance(arguments, dict):
            arguments = {"arguments": arguments}
        values = (
            f"{key}={json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)}"
            for key, value in arguments.items()
        )
        written.append(f"{call['function']['name']}({', '.join(values)})")
    text = f"<|tool_call_start|>[{', '.join(written)}]<|tool_call_end|>"
    said = {key: value for key, value in message.items() if key != "tool_calls"}
    return {**said, "content": text if is_blank(message["content"]) else joined([text, message["content"]])}


# -- tool calls as some templates require them


def _split_calls(messages: Sequence[Message]) -> list[Message]:
    """Separates a message's text and each of its calls. Each result follows its call, where that moves no text."""
    result: list[Message] = []
    place = 0
    while place < len(messages):
        message = messages[place]
        place += 1
        calls = message.get("tool_calls")
        if not calls:
            result.append(message)
            continue
        kept = {key: value for key, value in message.items() if key != "tool_calls"}
        if is_blank(message["content"]):
            alone = [
                {**(kept if not number else _plain(kept)), "tool_calls": [call]} for number, call in enumerate(calls)
            ]
        else:
            result.append(kept)
            alone = [{**_plain(kept), "tool_calls": [call]} for call in calls]
        answers = list(messages[place : place + len(calls)])
        if [answer.get("tool_call_id") for answer in answers] == [call.get("id") for call in calls] and all(
            answer["role"] == "tool" for answer in answers
        ):
            place += len(answers)
            result += [turn for pair in zip(alone, answers, strict=True) for turn in pair]
        else:
            result += alone
    return result


def _plain(message: Message) -> Message:
    return {**{key: value for key, value in message.items() if key not in REASONING}, "content": ""}


def _with_short_ids(messages: Sequence[Message]) -> list[Message]:
    """Ids as Mistral's templates require them. Calls and results without an id get one, in order."""
    result: list[Message] = []
    waiting: list[str] = []  # ids of calls without a result
    for place, message in enumerate(messages):
        if calls := message.get("tool_calls"):
            ids = [_short(call.get("id") or f"{place}.{number}") for number, call in enumerate(calls)]
            waiting += ids
            named = [{**call, "id": id} for call, id in zip(calls, ids, strict=True)]
            message = {**message, "tool_calls": named}
        elif message["role"] == "tool":
            given = message.get("tool_call_id")
            id = _short(given) if given else next(iter(waiting), _short(str(place)))
            if id in waiting:
                waiting.remove(id)
            message = {**message, "tool_call_id": id}
        result.append(message)
    return result


def _with_named_ids(messages: Sequence[Message]) -> list[Message]:
    """Ids as Kimi's templates write them, in place of names. Results without an id belong to the calls in order."""
    result: list[Message] = []
    named: dict[str, str] = {}
    waiting: list[str] = []  # ids of calls without a result
    count = 0
    for message in messages:
        if calls := message.get("tool_calls"):
            ids = [f"functions.{call['function']['name']}:{count + number}" for number, call in enumerate(calls)]
            count += len(ids)
            waiting += ids
            named |= {str(call.get("id")): id for call, id in zip(calls, ids, strict=True)}
            message = {**message, "tool_calls": [{**call, "id": id} for call, id in zip(calls, ids, strict=True)]}
        elif message["role"] == "tool" and (waiting or str(message.get("tool_call_id")) in named):
            id = named.get(str(message.get("tool_call_id"))) or waiting[0]
            waiting = [other for other in waiting if other != id]
            message = {**message, "tool_call_id": id}
        result.append(message)
    return result


def _is_empty_answer(message: Message) -> bool:
    if message["role"] != "assistant" or message.get("tool_calls") or not is_blank(message["content"]):
        return False
    return not any(message.get(field) for field in REASONING)


def _short(id: Any) -> str:
    text = str(id)
    if re.fullmatch(r"[A-Za-z0-9]{9}", text):
        return text
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:9]
