"""Anthropic's conversations in OpenAI's form, which is what templates are given."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from paceline.conversation.messages import role_of
from paceline.errors import InvalidRequest
from paceline.server.anthropic.events import thought_in_signature
from paceline.server.common.conversation import Conversation, text_of

ROLES = ("user", "assistant", "system")
MEDIA_TYPE = re.compile(r"[\w.+-]+/[\w.+-]+")
ERROR = "Error: "  # in front of a tool's result that is one


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of a message as OpenAI writes it, and where the client wrote it."""

    part: dict[str, Any]
    place: str

    @property
    def is_image(self) -> bool:
        return "image_url" in self.part


def conversation(system: Any, messages: Sequence[Any], *, takes_images: bool) -> Conversation:
    """Raises InvalidRequest for what is not in Anthropic's form, and for what cannot be passed to a model here."""
    if not messages:
        raise InvalidRequest.at("messages", "must be a list with at least one message.")
    return _Reader(takes_images).read(system, messages)


class _Reader:
    def __init__(self, takes_images: bool) -> None:
        self.takes_images = takes_images
        self.messages: list[dict[str, Any]] = []
        self.places: dict[str, str] = {}
        self.names: dict[str, str] = {}  # of the tools that were called, by the calls' ids

    def read(self, system: Any, messages: Sequence[Any]) -> Conversation:
        if system is not None:
            self._system(system, "system")
        for index, message in enumerate(messages):
            place = f"messages[{index}]"
            role = role_of(message, ROLES, place)
            read = {"user": self._user, "assistant": self._assistant, "system": self._system}[role]
            read(message.get("content"), f"{place}.content")
        return Conversation(tuple(self.messages), self.places, inline_media='a source of the type "base64"')

    # -- messages

    def _system(self, content: Any, place: str) -> None:
        parts = [_text(block, here) for block, here in _blocks(content, place, ("text",))]
        self._add_message("system", parts)

    def _user(self, content: Any, place: str) -> None:
        """Tool results are messages of their own."""
        before = len(self.messages)
        parts: list[_Part] = []
        shown: list[_Part] = []  # images in tool results
        for block, here in _blocks(content, place, (*READABLE, "tool_result")):
            if block["type"] != "tool_result":
                parts += self._read(block, here)
                continue
            if parts:
                self._add_message("user", shown + parts)
                parts, shown = [], []
            shown += self._result(block, here, len(shown) // 2)
        if shown or parts or len(self.messages) == before:
            self._add_message("user", shown + parts)

    def _result(self, block: Mapping[str, Any], place: str, shown: int) -> list[_Part]:
        """A tool's result. Few templates take images in one: they are for the user to show, behind the results."""
        id = text_of(block, "tool_use_id", place)
        parts: list[_Part] = []
        images: list[_Part] = []
        content = block.get("content")
        for inner, here in _blocks("" if content is None else content, f"{place}.content", (*READABLE, REFERENCE)):
            for part in self._read(inner, here):
                if part.is_image:
                    shown += 1
                    label = _Part(_text_part(f"[image {shown}]"), here)
                    images += [label, part]
                    part = label
                parts.append(part)
        if not isinstance(block.get("is_error"), bool | None):
            raise InvalidRequest.at(f"{place}.is_error", "must be true or false.")
        if block.get("is_error"):
            first = parts[0].part["text"] if parts else ""
            parts[:1] = [_Part(_text_part(ERROR + first), place)]
        named = {"name": self.names[id]} if id in self.names else {}
        self._add_message("tool", parts, tool_call_id=id, **named)
        return images

    def _assistant(self, content: Any, place: str) -> None:
        parts: list[_Part] = []
        thoughts: list[str] = []
        calls: list[dict[str, Any]] = []
        for block, here in _blocks(content, place, ("text", "thinking", "redacted_thinking", "tool_use")):
            match block["type"]:
                case "text":
                    parts.append(_text(block, here))
                case "thinking":
                    thoughts.append(text_of(block, "thinking", here) or thought_in_signature(block.get("signature")))
                case "tool_use":
                    calls.append(self._call(block, here))
        more: dict[str, Any] = {"tool_calls": calls} if calls else {}
        if thought := "\n\n".join(filter(None, thoughts)):
            more["reasoning_content"] = thought
        self._add_message("assistant", parts, **more)

    def _call(self, block: Mapping[str, Any], place: str) -> dict[str, Any]:
        id, name = text_of(block, "id", place), text_of(block, "name", place)
        arguments = block.get("input")
        if not isinstance(arguments, Mapping | None):
            raise InvalidRequest.at(f"{place}.input", "must be an object.")
        self.names[id] = name
        return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments or {}}}

    def _add_message(self, role: str, parts: Sequence[_Part], **more: Any) -> None:
        index = len(self.messages)
        for number, part in enumerate(parts):
            if part.is_image:
                self.places[f"messages[{index}].content[{number}].image_url"] = part.place
        content: Any = [part.part for part in parts]
        if len(parts) == 1 and not parts[0].is_image:
            content = parts[0].part["text"]
        self.messages.append({"role": role, "content": content or "", **more})

    # -- blocks

    def _read(self, block: Mapping[str, Any], place: str) -> list[_Part]:
        match block["type"]:
            case "text":
                return [_text(block, place)]
            case "image":
                return [self._image(block, place)]
            case "document":
                return self._document(block, place)
            case "search_result":
                return self._search_result(block, place)
            case _:  # the tool that a search has found: it is with the others already
                return [_Part(_text_part(text_of(block, "tool_name", place)), place)]

    def _image(self, block: Mapping[str, Any], place: str) -> _Part:
        if not self.takes_images:
            raise InvalidRequest.at(place, ": this model takes no images.")
        if block.get("transformations"):
            raise InvalidRequest(f"{place}.transformations is not supported by this server.", field=place)
        source, here = _source(block, place)
        match source.get("type"):
            case "base64":
                kind, data = text_of(source, "media_type", here), text_of(source, "data", here)
                if MEDIA_TYPE.fullmatch(kind) is None:
                    raise InvalidRequest.at(f"{here}.media_type", "must be like image/png.")
                url = f"data:{kind};base64,{data}"
            case "url":
                url = text_of(source, "url", here)
            case kind:
                raise InvalidRequest.at(f"{here}.type", f"is {kind!r}; pictures are taken as base64 or by their url.")
        return _Part({"type": "image_url", "image_url": {"url": url}}, here)

    def _document(self, block: Mapping[str, Any], place: str) -> list[_Part]:
        _refuse_citations(block, place)
        source, here = _source(block, place)
        match source.get("type"):
            case "text":
                parts = [_Part(_text_part(text_of(source, "data", here)), here)]
            case "content":
                blocks = _blocks(source.get("content"), f"{here}.content", ("text", "image"))
                parts = [part for inner, at in blocks for part in self._read(inner, at)]
            case kind:
                raise InvalidRequest.at(f"{here}.type", f"is {kind!r}; documents are taken as text only.")
        return _with_header((block.get("title"), block.get("context")), parts, place)

    def _search_result(self, block: Mapping[str, Any], place: str) -> list[_Part]:
        _refuse_citations(block, place)
        blocks = _blocks(block.get("content"), f"{place}.content", ("text",))
        return _with_header(
            (block.get("title"), block.get("source")), [_text(inner, here) for inner, here in blocks], place
        )


READABLE = ("text", "image", "document", "search_result")
REFERENCE = "tool_reference"


def _blocks(content: Any, place: str, kinds: Sequence[str]) -> Iterator[tuple[Mapping[str, Any], str]]:
    """Text as a block of it, or the blocks, each with its place; none but of these kinds."""
    if isinstance(content, str):
        yield {"type": "text", "text": content}, place
        return
    if not isinstance(content, list):
        raise InvalidRequest.at(place, "must be text or a list of blocks.")
    for index, block in enumerate(content):
        here = f"{place}[{index}]"
        if not isinstance(block, Mapping):
            raise InvalidRequest.at(here, 'must be an object, as in {"type": "text", "text": "..."}.')
        kind = block.get("type")
        if kind not in kinds:
            raise InvalidRequest.at(here, f"has the type {kind!r}; here this server takes {', '.join(kinds)}.")
        yield block, here


def _text(block: Mapping[str, Any], place: str) -> _Part:
    return _Part(_text_part(text_of(block, "text", place)), place)


def _text_part(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _with_header(lines: Sequence[Any], parts: list[_Part], place: str) -> list[_Part]:
    head = "\n".join(line for line in lines if isinstance(line, str) and line)
    return [_Part(_text_part(head), place), *parts] if head else parts


def _source(block: Mapping[str, Any], place: str) -> tuple[Mapping[str, Any], str]:
    source, here = block.get("source"), f"{place}.source"
    if not isinstance(source, Mapping):
        raise InvalidRequest.at(here, "must be an object.")
    return source, here


def _refuse_citations(block: Mapping[str, Any], place: str) -> None:
    citations = block.get("citations")
    if isinstance(citations, Mapping) and citations.get("enabled"):
        raise InvalidRequest.at(f"{place}.citations", "are not supported by this server.")
