"""The input of /v1/responses: items as clients write them, in one form, and as messages that templates take."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from paceline.conversation.messages import role_of
from paceline.errors import InvalidRequest
from paceline.server.common.conversation import text_of, unsealed
from paceline.server.openai.responses.store import Item
from paceline.server.openai.responses.tools import INPUT, flat_name

ROLES = ("user", "system", "developer", "assistant")
CALLS = ("function_call", "custom_tool_call")
OUTPUTS = ("function_call_output", "custom_tool_call_output")
OUR_MARK = "paceline."  # of encrypted_content that this server wrote
PICTURE = 1000  # letters: what an image counts for when a conversation is shortened

Find = Callable[[str], Item | None]


def new_id(prefix: str) -> str:
    return f"{prefix}_{uuid.uuid4().hex}"


# -- items


def input_items(given: Any, find: Find) -> list[Item]:
    """What the client sent, checked, every item with an id. `find` knows the stored items. Raises InvalidRequest."""
    if given is None:
        return []
    if isinstance(given, str):
        given = [{"role": "user", "content": given}]
    if not isinstance(given, list):
        raise InvalidRequest.at("input", "must be text or a list of items.")
    return [_item(item, f"input[{index}]", find) for index, item in enumerate(given)]


def with_unique_ids(items: Iterable[Item], taken: Iterable[Item] = ()) -> list[Item]:
    """Lists are read from one id to the next, so one that is in them already becomes another."""
    seen = {item["id"] for item in taken}
    unique = []
    for item in items:
        if item["id"] in seen:
            item = {**item, "id": new_id(str(item["id"]).partition("_")[0][:16])}
        seen.add(item["id"])
        unique.append(item)
    return unique


def _item(given: Any, place: str, find: Find) -> Item:
    if not isinstance(given, Mapping):
        raise InvalidRequest.at(place, "must be an object.")
    kind = given.get("type")
    if kind is None:
        kind = "message" if "role" in given else "item_reference" if "id" in given else None
    match kind:
        case "message":
            return _message(given, place)
        case "function_call":
            return _call(given, place, "fc", "arguments")
        case "custom_tool_call":
            return _call(given, place, "ctc", "input")
        case "function_call_output" | "custom_tool_call_output":
            return _output(given, place)
        case "reasoning":
            return _reasoning(given, place)
        case "item_reference":
            return _referred(given, place, find)
        case str() if kind.endswith(("_call", "_call_output")) or kind.startswith(("mcp_", "tool_search")):
            raise InvalidRequest(
                f"{place} is a {kind}: this server runs no tools of its own. Leave it out.", field=f"{place}.type"
            )
        case _:
            raise InvalidRequest(f"{place} has the unknown type {kind!r}.", field=f"{place}.type")


def _message(given: Item, place: str) -> Item:
    role = role_of(given, ROLES, place)
    by_assistant = role == "assistant"
    content = given.get("content")
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    if not isinstance(content, list):
        raise InvalidRequest.at(f"{place}.content", "must be text or a list of parts.")
    parts = [_part(part, f"{place}.content[{index}]", by_assistant) for index, part in enumerate(content)]
    item = {"id": _id(given, "msg"), "type": "message", "role": role, "content": parts, "status": _status(given)}
    if by_assistant and given.get("phase") in ("commentary", "final_answer"):
        item["phase"] = given["phase"]
    return item


def _part(part: Any, place: str, by_assistant: bool) -> dict[str, Any]:
    """In OpenAI's form. Images and audio are looked at later, and film refused, where chat's are."""
    match part:
        case {"type": "text" | "input_text" | "output_text"}:
            text = text_of(part, "text", place)
            if by_assistant:
                return {"type": "output_text", "annotations": [], "logprobs": [], "text": text}
            return {"type": "input_text", "text": text}
        case {"type": "refusal"}:
            return {"type": "refusal", "refusal": text_of(part, "refusal", place)}
        case {"type": "image_url" | "input_image"}:
            address = part.get("image_url")
            url = address.get("url") if isinstance(address, Mapping) else address
            detail = part.get("detail")
            if part.get("file_id") is not None:
                raise InvalidRequest.at(
                    f"{place}.file_id", "is not taken: send the image in image_url, as a data: URL."
                )
            return {
                "type": "input_image",
                "detail": "auto" if detail is None else detail,  # checked where the image is
                "image_url": url if isinstance(url, str) else None,
            }
        case {"type": "input_audio"}:
            return {"type": "input_audio", "input_audio": part.get("input_audio")}
        case {"type": "input_file"}:
            raise InvalidRequest.at(place, ": this model takes no files.")
        case {"type": str(kind)}:
            return {"type": kind}
    raise InvalidRequest.at(place, "must be an object with a type.")


def _call(given: Item, place: str, prefix: str, arguments: str) -> Item:
    for name in ("call_id", "name", arguments):
        text_of(given, name, place)
    known = ("type", "call_id", "name", arguments)
    item = {"id": _id(given, prefix), **{name: given[name] for name in known}, "status": _status(given)}
    if isinstance(given.get("namespace"), str):
        item["namespace"] = given["namespace"]
    return item


def _output(given: Item, place: str) -> Item:
    text_of(given, "call_id", place)
    output = given.get("output")
    if isinstance(output, list):
        output = [_part(part, f"{place}.output[{index}]", False) for index, part in enumerate(output)]
    elif not isinstance(output, str):
        raise InvalidRequest.at(f"{place}.output", "must be text or a list of parts.")
    return {
        "id": _id(given, "fco" if given["type"] == "function_call_output" else "ctco"),
        "type": given["type"],
        "call_id": given["call_id"],
        "output": output,
        "status": _status(given),
    }


def _reasoning(given: Item, place: str) -> Item:
    item: dict[str, Any] = {"id": _id(given, "rs"), "type": "reasoning", "summary": []}
    for name, kind in (("summary", "summary_text"), ("content", "reasoning_text")):
        parts = given.get(name)
        if parts is None:
            continue
        if not isinstance(parts, list) or not all(
            isinstance(part, Mapping) and isinstance(part.get("text"), str) for part in parts
        ):
            raise InvalidRequest.at(f"{place}.{name}", "must be a list of parts with text.")
        item[name] = [{"type": kind, "text": part["text"]} for part in parts]
    if given.get("encrypted_content") is not None:
        item["encrypted_content"] = text_of(given, "encrypted_content", place)
    return item


def _referred(given: Item, place: str, find: Find) -> Item:
    id = text_of(given, "id", place)
    item = find(id)
    if item is None:
        raise InvalidRequest(f"{place} refers to the item {id!r}, which is not stored here.", field=f"{place}.id")
    return item


def _id(given: Item, prefix: str) -> str:
    id = given.get("id")
    return id if isinstance(id, str) and id else new_id(prefix)


def _status(given: Item) -> str:
    return "incomplete" if given.get("status") == "incomplete" else "completed"


def reasoning_text(item: Item) -> str:
    """The reasoning that the item holds."""
    ours = unsealed(OUR_MARK, item.get("encrypted_content"))
    if ours is not None:
        return ours
    return "\n\n".join(part["text"] for part in item.get("content") or item["summary"])


# -- messages


@dataclass(frozen=True, slots=True)
class Place:
    """Where a message came from, as the client names it."""

    item: str
    content: str


@dataclass(slots=True)
class Conversation:
    messages: list[dict[str, Any]] = field(default_factory=list)
    places: list[Place] = field(default_factory=list)

    def add(self, message: dict[str, Any], place: str, content: str = "content") -> None:
        self.messages.append(message)
        self.places.append(Place(place, f"{place}.{content}"))

    def renamed(self, error: InvalidRequest) -> InvalidRequest:
        """An error about messages, as one about the items that they were made of."""
        if error.field is None or not error.field.startswith("messages"):
            return error
        text = re.sub(r"^messages\b(?!\[)", "input", str(error))
        field = re.sub(r"^messages\b(?!\[)", "input", error.field)
        return InvalidRequest(self._placed(text), field=self._placed(field), code=error.code)

    def _placed(self, text: str) -> str:
        def place(found: re.Match[str]) -> str:
            index = int(found[1])
            if index >= len(self.places):
                return found[0]
            return self.places[index].content if found[2] else self.places[index].item

        return re.sub(r"\bmessages\[(\d{1,9})\](\.content)?", place, text)


def conversation(
    instructions: str | None, history: Sequence[Item], items: Sequence[Item], *, forget: bool = False
) -> Conversation:
    """One assistant's turn (reasoning, text, calls) is one message. `forget`: what was thought in earlier turns."""
    talk = Conversation()
    if instructions:
        talk.add({"role": "system", "content": instructions}, "instructions")
        talk.places[-1] = Place("instructions", "instructions")
    placed = [(item, "previous_response_id") for item in history]
    placed += [(item, f"input[{index}]") for index, item in enumerate(items)]
    questions = [place for place, (item, _) in enumerate(placed) if item.get("role") == "user"]
    thought = ""
    called: dict[str, str] = {}
    for number, (item, place) in enumerate(placed):
        kind = item["type"]
        if kind == "reasoning":
            if not (forget and questions and number < questions[-1]):
                thought = "\n\n".join(text for text in (thought, reasoning_text(item)) if text)
            continue
        if kind in CALLS:
            call = _tool_call(item)
            called[item["call_id"]] = call["function"]["name"]
            last = talk.messages[-1] if talk.messages else None
            if last is not None and last["role"] == "assistant" and not thought:
                last.setdefault("tool_calls", []).append(call)
            else:
                talk.add(_answer(None, thought, tool_calls=[call]), place)
        elif kind in OUTPUTS:
            if item["call_id"] not in called:
                raise InvalidRequest(
                    f"{place}: no call with the call_id {item['call_id']!r} comes before its output.",
                    field=f"{place}.call_id",
                )
            name = called[item["call_id"]]
            result = {"role": "tool", "tool_call_id": item["call_id"], "name": name, "content": item["output"]}
            talk.add(result, place, "output")
        elif item["role"] == "assistant":
            talk.add(_answer(item["content"], thought), place)
        else:
            talk.add({"role": item["role"], "content": item["content"]}, place)
        thought = ""
    return talk


def _answer(content: Any, thought: str, **more: Any) -> dict[str, Any]:
    reasoning = {"reasoning_content": thought} if thought else {}
    return {"role": "assistant", "content": content, **reasoning, **more}


def _tool_call(item: Item) -> dict[str, Any]:
    custom = item["type"] == "custom_tool_call"
    arguments = json.dumps({INPUT: item["input"]}, ensure_ascii=False) if custom else item["arguments"]
    function = {"name": flat_name(item["name"], item.get("namespace")), "arguments": arguments}
    return {"id": item["call_id"], "type": "function", "function": function}


# -- truncation


def shortened(talk: Conversation, share: float, least: int) -> Conversation | None:
    """Without the oldest messages: about `share` of the text, and at least so many steps of the conversation.

    A call goes with its results. System messages, the last question and the last step stay; None: nothing else is left.
    """
    steps: list[list[int]] = []
    for index, message in enumerate(talk.messages):
        if message["role"] == "tool" and steps:
            steps[-1].append(index)
        elif message["role"] not in ("system", "developer"):
            steps.append([index])
    questions = [step for step in steps if talk.messages[step[0]]["role"] == "user"]
    droppable = [step for step in steps[:-1] if not questions or step is not questions[-1]]
    if not droppable:
        return None
    target = share * sum(map(_size, talk.messages))
    gone: set[int] = set()
    size = 0
    for count, step in enumerate(droppable):
        if count >= least and size >= target:
            break
        gone.update(step)
        size += sum(_size(talk.messages[index]) for index in step)
    kept = [index for index in range(len(talk.messages)) if index not in gone]
    return replace(
        talk, messages=[talk.messages[index] for index in kept], places=[talk.places[index] for index in kept]
    )


def _size(message: Mapping[str, Any]) -> int:
    calls: Iterable[Any] = message.get("tool_calls") or ()
    letters = sum(len(call["function"]["arguments"]) for call in calls) + len(message.get("reasoning_content") or "")
    content = message["content"] or ""
    if isinstance(content, str):
        return letters + len(content)
    return letters + sum(len(part["text"]) if isinstance(part.get("text"), str) else PICTURE for part in content)
