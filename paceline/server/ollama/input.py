"""Ollama's conversations in OpenAI's form, which is what templates are given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from paceline.conversation.messages import role_of
from paceline.errors import InvalidRequest
from paceline.server.common.conversation import Conversation

ROLES = ("system", "user", "assistant", "tool")


def conversation(messages: Sequence[Any]) -> Conversation:
    """Raises InvalidRequest for what is not in Ollama's form."""
    return _Reader().read(messages)


def single_turn(system: str | None, prompt: str, images: Sequence[str] | None) -> Conversation:
    """/api/generate's: a question, with instructions in front of it."""
    reader = _Reader()
    if system:
        reader.messages.append({"role": "system", "content": system})
    reader.messages.append({"role": "user", "content": reader.content(prompt, images, "images")})
    return Conversation(tuple(reader.messages), {**reader.places, "messages": "prompt"})


class _Reader:
    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []
        self.places: dict[str, str] = {}
        self.open: list[tuple[str, str]] = []  # calls without a result: id and name
        self.calls = 0

    def read(self, messages: Sequence[Any]) -> Conversation:
        for index, message in enumerate(messages):
            place = f"messages[{index}]"
            if not isinstance(message, Mapping):
                raise InvalidRequest.at(place, "must be an object.")
            role = role_of(message, ROLES, place)
            text = _text(message, "content", place)
            read: dict[str, Any] = {
                "role": role,
                "content": self.content(text, message.get("images"), f"{place}.images"),
            }
            if role == "assistant":
                read |= self._said(message, place)
            elif role == "tool":
                read |= self._result(message, place)
            self.messages.append(read)
        return Conversation(tuple(self.messages), self.places)

    def content(self, text: str, images: Any, place: str) -> str | list[dict[str, Any]]:
        """With images in front of the text, as Ollama has them."""
        if not images:
            return text
        if not isinstance(images, list) or not all(isinstance(image, str) for image in images):
            raise InvalidRequest.at(place, "must be a list of images in base64.")
        parts: list[dict[str, Any]] = []
        here = f"messages[{len(self.messages)}].content"
        for index, image in enumerate(images):
            url = image if image.startswith("data:") else f"data:image/png;base64,{image}"
            for place_here in (f"{here}[{index}]", f"{here}[{index}].image_url"):
                self.places[place_here] = f"{place}[{index}]"
            parts.append({"type": "image_url", "image_url": {"url": url}})
        return [*parts, {"type": "text", "text": text}] if text else parts

    def _said(self, message: Mapping[str, Any], place: str) -> dict[str, Any]:
        more: dict[str, Any] = {}
        if thought := _text(message, "thinking", place):
            more["reasoning_content"] = thought
        calls = message.get("tool_calls")
        if calls is not None and not isinstance(calls, list):
            raise InvalidRequest.at(f"{place}.tool_calls", "must be a list.")
        if calls:
            more["tool_calls"] = [self._call(call, f"{place}.tool_calls[{index}]") for index, call in enumerate(calls)]
        return more

    def _call(self, call: Any, place: str) -> dict[str, Any]:
        function = call.get("function") if isinstance(call, Mapping) else None
        if not isinstance(function, Mapping):
            raise InvalidRequest.at(f"{place}.function", "must be an object.")
        name, arguments = function.get("name"), function.get("arguments")
        if not isinstance(name, str):
            raise InvalidRequest.at(f"{place}.function.name", "must be text.")
        if not isinstance(arguments, Mapping | str | None):
            raise InvalidRequest.at(f"{place}.function.arguments", "must be an object.")
        id = call.get("id")
        if not isinstance(id, str) or not id:  # most clients have none
            id = f"call_{self.calls}"
        self.calls += 1
        self.open.append((id, name))
        return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments or {}}}

    def _result(self, message: Mapping[str, Any], place: str) -> dict[str, Any]:
        """Whose result it is: by the call's id, by the tool's name, or in the order of the calls."""
        id, name = _text(message, "tool_call_id", place), _text(message, "tool_name", place)
        name = name or _text(message, "name", place)
        found = next((call for call in self.open if (call[0] == id if id else name in ("", call[1]))), None)
        if found is not None:
            self.open.remove(found)
            id, name = found
        return {key: value for key, value in (("tool_call_id", id), ("name", name)) if value}


def _text(message: Mapping[str, Any], name: str, place: str) -> str:
    value = message.get(name)
    if value is not None and not isinstance(value, str):
        raise InvalidRequest.at(f"{place}.{name}", "must be text.")
    return value or ""
