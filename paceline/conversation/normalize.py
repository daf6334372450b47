"""One shape for every conversation: the shape that most templates take.

System messages are merged and come first; neighbours of one role become one message. Well-formed conversations stay
unchanged and no text is lost: only empty system messages are dropped.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from paceline import bounded_json
from paceline.conversation.messages import MEDIA_TYPES, REASONING, MediaPart
from paceline.errors import InvalidRequest

Message = dict[str, Any]
Content = str | list[dict[str, Any]]

BETWEEN = "\n\n"  # joins texts
THINK, END_OF_THINK = "<think>", "</think>"


def normalized(
    conversation: Sequence[Message], media: Sequence[MediaPart], *, names: bool = False
) -> tuple[list[Message], list[MediaPart]]:
    """A `checked` conversation in normal form, and its media in their new order.

    `names`: the template writes names, so messages of different names are not merged.
    """
    following = iter(media)
    opening: list[Message] = []
    rest: list[Message] = []
    opening_media: list[MediaPart] = []
    rest_media: list[MediaPart] = []
    for message in conversation:
        found = [next(following) for part in as_parts(message["content"]) if part["type"] in MEDIA_TYPES]
        if message["role"] != "system":
            rest.append(_cleaned(message))
            rest_media += found
        elif not is_blank(message["content"]):
            opening.append(_cleaned(message) if not opening else message)
            opening_media += found
    if not opening and not rest:
        raise InvalidRequest.at("messages", "holds nothing but empty system messages.")
    first = [merged(opening)] if opening else []
    return [*first, *neighbours_merged(rest, names=names)], [*opening_media, *rest_media]


def neighbours_merged(messages: Iterable[Message], *, names: bool = False) -> list[Message]:
    """Merges neighbours of one role. Tool results and tool calls stay messages of their own."""
    groups: list[list[Message]] = []
    for message in messages:
        if groups and _belong_together(groups[-1][-1], message, names):
            groups[-1].append(message)
        else:
            groups.append([message])
    return [merged(group) for group in groups]


def merged(messages: Sequence[Message]) -> Message:
    """One message with all texts. Of other fields, the first message's value counts."""
    if len(messages) == 1:
        return messages[0]
    together: Message = {}
    for message in messages:
        together = {**message, **together}
    together["content"] = joined([message["content"] for message in messages])
    for field in REASONING:
        thoughts = [message[field] for message in messages if isinstance(message.get(field), str)]
        if len(thoughts) > 1:
            together[field] = joined(thoughts)
    return together


def joined(contents: Sequence[Content]) -> Content:
    """Texts with a blank line between them; a list of parts if one of them is one. Takes linear time."""
    if all(isinstance(content, str) for content in contents):
        return BETWEEN.join(content for content in contents if isinstance(content, str) and content)
    parts: list[dict[str, Any]] = []
    texts: list[list[str]] = []  # of the text parts, in order
    for content in contents:
        for place, part in enumerate(as_parts(content)):
            if part["type"] != "text":
                parts.append(part)
            elif place == 0 and parts and parts[-1]["type"] == "text":
                texts[-1].append(part["text"])
            else:
                parts.append(part)
                texts.append([part["text"]])
    found = iter(texts)
    return [
        {**part, "text": BETWEEN.join(filter(None, next(found)))} if part["type"] == "text" else part for part in parts
    ]


def as_parts(content: Content | None) -> list[dict[str, Any]]:
    if isinstance(content, list):
        return content
    return [{"type": "text", "text": content}] if content else []


def is_blank(content: Content | None) -> bool:
    """Whether there is only whitespace."""
    return all(part["type"] == "text" and not part["text"].strip() for part in as_parts(content))


# -- tool calls


def arguments_of(call: Mapping[str, Any]) -> Any:
    """A call's arguments as an object, or the text itself if it is no JSON object."""
    arguments = call["function"].get("arguments")
    if arguments is None or isinstance(arguments, str) and not arguments.strip():
        return {}
    if not isinstance(arguments, str):
        return arguments
    try:
        parsed = bounded_json.loads(arguments.encode())
    except (ValueError, RecursionError):
        return arguments
    return parsed if isinstance(parsed, dict) else arguments


def with_arguments(message: Message, *, as_objects: bool) -> Message:
    """The message with its calls' arguments as objects or as JSON text."""
    if not message.get("tool_calls"):
        return message
    calls = []
    for call in message["tool_calls"]:
        arguments = arguments_of(call)
        if not as_objects:
            given = call["function"].get("arguments")
            arguments = given if isinstance(given, str) and given.strip() else json.dumps(arguments, ensure_ascii=False)
        calls.append({**call, "function": {**call["function"], "arguments": arguments}})
    return {**message, "tool_calls": calls}


# -- one message


def _cleaned(message: Message) -> Message:
    """Without null fields and empty lists of calls, with today's field names and closed think blocks."""
    clean = {key: value for key, value in message.items() if value is not None or key == "content"}
    if clean["role"] == "function":  # the former name of `tool`
        clean["role"] = "tool"
    function = clean.pop("function_call", None)
    if not clean.get("tool_calls"):
        clean.pop("tool_calls", None)
    if clean["role"] != "assistant":
        return clean
    if function:
        clean.setdefault("tool_calls", [{"type": "function", "function": function}])
    return {**clean, "content": _close_think_block(clean["content"])}


def _close_think_block(content: Content) -> Content:
    """Closes a think block: a template that looks for its end would take the whole message for reasoning."""
    text = "".join(part["text"] for part in as_parts(content) if part["type"] == "text")
    if text.rfind(THINK) <= text.rfind(END_OF_THINK):
        return content
    if isinstance(content, str):
        return f"{content}\n{END_OF_THINK}{BETWEEN}"
    return [*content, {"type": "text", "text": f"\n{END_OF_THINK}{BETWEEN}"}]


def _belong_together(one: Message, other: Message, names: bool) -> bool:
    if one["role"] != other["role"] or one["role"] == "tool" or one.get("tool_calls") or other.get("tool_calls"):
        return False
    return not names or one.get("name") == other.get("name")
