"""An answer as Anthropic's content blocks: whole, or as the events of a stream."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

from paceline.conversation.parsing.events import (
    CallArguments,
    CallBroken,
    CallEnd,
    CallStart,
    Content,
    Event,
    Reasoning,
)
from paceline.server.anthropic.errors import message_error
from paceline.server.common.conversation import sealed, unsealed
from paceline.server.common.tools import call_arguments
from paceline.server.http.response import named_events

StreamEvent = dict[str, Any]
SIGNATURE = "paceline"  # clients want one, and give it back; nothing depends on it
SIGNATURE_PREFIX = f"{SIGNATURE}:"  # in front of thoughts that the client did not want to see


def thought_in_signature(signature: Any) -> str:
    """What a signature of ours carries, else nothing: it comes from a client."""
    return unsealed(SIGNATURE_PREFIX, signature) or ""


@dataclass(slots=True)
class Block:
    kind: Literal["text", "thinking", "tool_use"]
    pieces: list[str] = field(default_factory=list)
    id: str = ""
    name: str = ""
    ended: bool = False  # of a call: it is whole
    raw: str = ""  # of a call that was cut: how the model wrote it

    @property
    def text(self) -> str:
        return "".join(self.pieces)


class Blocks:
    """Grows with the answer. `omitted`: thoughts are kept from the client's eyes, and travel in their signature."""

    def __init__(self, *, omitted: bool = False) -> None:
        self._omitted = omitted
        self._blocks: list[Block] = []
        self._open: Block | None = None

    def push(self, events: Iterable[Event]) -> list[StreamEvent]:
        return [made for event in events for made in self._event(event)]

    def finish(self) -> list[StreamEvent]:
        """The answer is over."""
        return self._end_block()

    @property
    def calls(self) -> bool:
        """Is there a call that is whole?"""
        return any(block.ended for block in self._blocks)

    def content(self) -> list[dict[str, Any]]:
        """The blocks of a whole answer: calls that are none, because they never ended or are no JSON, as text."""
        content: list[dict[str, Any]] = []
        for block in self._blocks:
            made = self._as_content(block)
            if made["type"] == "text" and content and content[-1]["type"] == "text":
                content[-1]["text"] += made["text"]
            elif made != {"type": "text", "text": ""}:
                content.append(made)
        return content

    def _as_content(self, block: Block) -> dict[str, Any]:
        match block.kind:
            case "thinking":
                return {"type": "thinking", "thinking": self._shown(block.text), "signature": self._signature(block)}
            case "tool_use":
                input = call_arguments(block.text) if block.ended else None
                if input is None:
                    return {"type": "text", "text": block.text if block.ended else block.raw}
                return {"type": "tool_use", "id": block.id, "name": block.name, "input": input}
            case _:
                return {"type": "text", "text": block.text}

    def _event(self, event: Event) -> list[StreamEvent]:
        match event:
            case Content(text):
                return [*self._continue_block("text"), self._delta("text_delta", "text", text)]
            case Reasoning(text):
                begun = self._continue_block("thinking")
                delta = self._delta("thinking_delta", "thinking", text)
                return begun if self._omitted else [*begun, delta]
            case CallStart(_, id, name):
                return self._start_block(Block("tool_use", id=tool_use_id(id), name=name))
            case CallArguments(_, text):
                return [self._delta("input_json_delta", "partial_json", text)]
            case CallEnd():
                assert self._open is not None
                self._open.ended = True
                return self._end_block()
            case CallBroken(_, text, cut):
                assert self._open is not None
                if cut:
                    self._open.raw = text
                    return self._end_block()
                closed = self._end_block()  # a stream cannot take it back; a whole answer leaves it out
                return [*closed, *self._continue_block("text"), self._delta("text_delta", "text", text)]

    def _continue_block(self, kind: Literal["text", "thinking"]) -> list[StreamEvent]:
        if self._open is not None and self._open.kind == kind:
            return []
        return self._start_block(Block(kind))

    def _start_block(self, block: Block) -> list[StreamEvent]:
        ended = self._end_block()
        self._blocks.append(block)
        self._open = block
        match block.kind:
            case "text":
                empty: dict[str, Any] = {"type": "text", "text": ""}
            case "thinking":
                empty = {"type": "thinking", "thinking": "", "signature": ""}
            case _:
                empty = {"type": "tool_use", "id": block.id, "name": block.name, "input": {}}
        return [*ended, {"type": "content_block_start", "index": self._index, "content_block": empty}]

    def _end_block(self) -> list[StreamEvent]:
        block = self._open
        if block is None:
            return []
        end = {"type": "content_block_stop", "index": self._index}
        self._open = None
        if block.kind != "thinking":
            return [end]
        signature = {"type": "signature_delta", "signature": self._signature(block)}
        return [{"type": "content_block_delta", "index": self._index, "delta": signature}, end]

    def _delta(self, kind: str, name: str, text: str) -> StreamEvent:
        assert self._open is not None
        self._open.pieces.append(text)
        return {"type": "content_block_delta", "index": self._index, "delta": {"type": kind, name: text}}

    @property
    def _index(self) -> int:
        return len(self._blocks) - 1

    def _shown(self, thought: str) -> str:
        return "" if self._omitted else thought

    def _signature(self, block: Block) -> str:
        return sealed(SIGNATURE_PREFIX, block.text) if self._omitted else SIGNATURE


def tool_use_id(id: str) -> str:
    return f"toolu_{id.removeprefix('call_')}"


# -- the stream


def failed(error: Exception) -> bytes:
    """A stream that breaks ends with an error event."""
    return named_events([message_error(error)])
