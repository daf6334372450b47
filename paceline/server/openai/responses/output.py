"""The output of /v1/responses: an answer's events as OpenAI's items, and as the events of their stream.

Items come one after the other, each as: added, its part added, deltas, its part done, done.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from paceline.conversation.parsing.events import CallArguments, CallBroken, CallEnd, CallStart, Content, Reasoning
from paceline.server.common.chat_run import ChatDelta
from paceline.server.common.conversation import sealed
from paceline.server.http.errors import error_object, status_of
from paceline.server.http.response import named_events
from paceline.server.openai.logprobs import AnswerTokens, chat_logprobs
from paceline.server.openai.responses.input import OUR_MARK, new_id
from paceline.server.openai.responses.tools import INPUT, Called
from paceline.server.state import Tokenizer
from paceline.types import TokenLogprob

Event = dict[str, Any]

FAILURES: Mapping[int, str] = {400: "invalid_prompt", 429: "rate_limit_exceeded"}  # by status


class Output:
    """Grows while deltas are pushed. `items` are whole; the one that is being written is in `snapshot` only."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        called: Mapping[str, Called],
        *,
        logprobs: bool = False,
        summary: bool = False,  # reasoning is sent as its summary, in full
        seal: bool = False,  # reasoning is also given as encrypted_content
    ) -> None:
        self.items: list[dict[str, Any]] = []
        self._tokenizer = tokenizer
        self._called = called
        self._wants_logprobs = logprobs
        self._summary = summary
        self._seal = seal
        self._number = 0
        self._item: dict[str, Any] | None = None  # being written
        self._texts: list[str] = []  # of that item
        self._scores: list[dict[str, Any]] = []  # of that item's tokens
        self._tokens = AnswerTokens()
        self._logprobs: list[TokenLogprob] = []  # of the answer's tokens whose text is still to come

    def event(self, type: str, **fields: Any) -> Event:
        """Numbered in the order in which they are made, and they must be sent in that order."""
        self._number += 1
        return {"type": type, "sequence_number": self._number - 1, **fields}

    def push(self, delta: ChatDelta) -> list[Event]:
        """The delta's events."""
        events: list[Event] = []
        self._logprobs += [entry for each in self._tokens.of(delta) for entry in each.logprobs]
        last_content = max((i for i, event in enumerate(delta.events) if isinstance(event, Content)), default=None)
        for index, event in enumerate(delta.events):
            match event:
                case Reasoning(text):
                    events += self._add_reasoning(text)
                case Content(text):
                    events += self._add_text(text, index == last_content)
                case CallStart():
                    events += self._start_call(event)
                case CallArguments(_, text):
                    events += self._add_arguments(text)
                case CallEnd():
                    events += self.close()
                case CallBroken(_, text, cut):
                    events += self.close(whole=False)
                    events += [] if cut else self._add_text(text, False)
        if delta.events:
            self._logprobs = []
        return events

    def finish(self, *, whole: bool) -> list[Event]:
        """Nothing more comes. An answer of nothing is an empty message."""
        events = [] if self._item is None else self.close(whole)
        if whole and not self.items:
            events += [*self._add_text("", False), *self.close()]
        return events

    def snapshot(self) -> list[dict[str, Any]]:
        return [*self.items, *([] if self._item is None else [self._build_item("in_progress")])]

    # -- items

    def _item_is(self, *kinds: str) -> bool:
        return self._item is not None and self._item["type"] in kinds

    def _start_item(self, item: dict[str, Any]) -> list[Event]:
        events = [] if self._item is None else self.close()
        self._item, self._texts, self._scores = item, [], []
        events.append(self.event("response.output_item.added", output_index=len(self.items), item=dict(item)))
        return events

    def close(self, whole: bool = True) -> list[Event]:
        """The item that is being written is done."""
        item = self._build_item("completed" if whole else "incomplete")
        events = self._done_events(item)
        events.append(self.event("response.output_item.done", output_index=len(self.items), item=item))
        self.items.append(item)
        self._item = None
        return events

    def _build_item(self, status: str) -> dict[str, Any]:
        assert self._item is not None
        item, text = {**self._item, "status": status}, "".join(self._texts)
        match item["type"]:
            case "message":
                item["content"] = [_text_part(text, self._scores)]
            case "reasoning":
                if self._summary:
                    item["summary"] = [{"type": "summary_text", "text": text}]
                else:
                    item["content"] = [{"type": "reasoning_text", "text": text}]
                if self._seal and status != "in_progress":
                    item["encrypted_content"] = sealed(OUR_MARK, text)
            case "function_call":
                item["arguments"] = text
            case "custom_tool_call":
                item["input"] = _free_text(text)
        return item

    def _done_events(self, item: Mapping[str, Any]) -> list[Event]:
        """Also of a call that was broken off, with what there is of it: the item's status says so."""
        part = {"item_id": item["id"], "output_index": len(self.items)}
        match item["type"]:
            case "message":
                [content] = item["content"]
                part["content_index"] = 0
                done = {"text": content["text"], "logprobs": content["logprobs"]}
                return [
                    self.event("response.output_text.done", **part, **done),
                    self.event("response.content_part.done", **part, part=content),
                ]
            case "reasoning" if self._summary:
                [content] = item["summary"]
                part["summary_index"] = 0
                return [
                    self.event("response.reasoning_summary_text.done", **part, text=content["text"]),
                    self.event("response.reasoning_summary_part.done", **part, part=content),
                ]
            case "reasoning":
                [content] = item["content"]
                part["content_index"] = 0
                return [
                    self.event("response.reasoning_text.done", **part, text=content["text"]),
                    self.event("response.content_part.done", **part, part=content),
                ]
            case "function_call":
                return [
                    self.event(
                        "response.function_call_arguments.done", **part, name=item["name"], arguments=item["arguments"]
                    )
                ]
            case "custom_tool_call":
                return [
                    self.event("response.custom_tool_call_input.delta", **part, delta=item["input"]),
                    self.event("response.custom_tool_call_input.done", **part, input=item["input"]),
                ]
        return []

    # -- what items are made of

    def _add_text(self, text: str, scored: bool) -> list[Event]:
        events: list[Event] = []
        if not self._item_is("message"):
            item = {"id": new_id("msg"), "type": "message", "status": "in_progress", "role": "assistant", "content": []}
            events += self._start_item(item)
            events.append(self._part_event("response.content_part.added", content_index=0, part=_text_part("", [])))
        if text:
            scores = self._scored() if scored and self._wants_logprobs else []
            self._texts.append(text)
            self._scores += scores
            events.append(self._part_event("response.output_text.delta", content_index=0, delta=text, logprobs=scores))
        return events

    def _scored(self) -> list[dict[str, Any]]:
        ends = self._tokenizer.eos_ids
        entries = [entry for entry in self._logprobs if entry.token_id not in ends]
        scores: list[dict[str, Any]] = chat_logprobs(self._tokenizer, entries)["content"]
        return scores

    def _add_reasoning(self, text: str) -> list[Event]:
        events: list[Event] = []
        place = {"summary_index": 0} if self._summary else {"content_index": 0}
        if not self._item_is("reasoning"):
            events += self._start_item(
                {"id": new_id("rs"), "type": "reasoning", "status": "in_progress", "summary": []}
            )
            added = "reasoning_summary_part.added" if self._summary else "content_part.added"
            part = {"type": "summary_text" if self._summary else "reasoning_text", "text": ""}
            events.append(self._part_event(f"response.{added}", **place, part=part))
        self._texts.append(text)
        delta = "reasoning_summary_text.delta" if self._summary else "reasoning_text.delta"
        events.append(self._part_event(f"response.{delta}", **place, delta=text))
        return events

    def _start_call(self, start: CallStart) -> list[Event]:
        called = self._called.get(start.name) or Called("function", start.name)
        custom = called.kind == "custom"
        item: dict[str, Any] = {
            "id": new_id("ctc" if custom else "fc"),
            "type": "custom_tool_call" if custom else "function_call",
            "status": "in_progress",
            "call_id": start.id,
            "name": called.name,
            "input" if custom else "arguments": "",
        }
        if called.namespace is not None:
            item["namespace"] = called.namespace
        return self._start_item(item)

    def _add_arguments(self, text: str) -> list[Event]:
        self._texts.append(text)
        if self._item_is("custom_tool_call"):  # its text is inside JSON: sent when it is complete
            return []
        return [self._part_event("response.function_call_arguments.delta", delta=text)]

    def _part_event(self, type: str, **fields: Any) -> Event:
        assert self._item is not None
        return self.event(type, item_id=self._item["id"], output_index=len(self.items), **fields)


def failure_code(error: Exception) -> str:
    """One of the codes that OpenAI's failed responses have."""
    return FAILURES.get(status_of(error), "server_error")


def failed(error: Exception) -> bytes:
    """The event of a stream that breaks before its response is created. `error`: what SDKs look for, and raise."""
    told = error_object(error)
    about = {name: told["error"][name] for name in ("code", "message", "param")}
    return named_events([{"type": "error", "sequence_number": 0, **about, **told}])


def _text_part(text: str, logprobs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {"type": "output_text", "annotations": [], "logprobs": list(logprobs), "text": text}


def _free_text(arguments: str) -> str:
    """The text inside the arguments of the function that stands for a free-text tool."""
    try:
        text = json.loads(arguments)[INPUT]
        text.encode()  # half a character, escaped, is no text
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return arguments
    assert isinstance(text, str)
    return text
