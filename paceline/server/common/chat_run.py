"""A chat run, for every API alike: a checked request in, parsed deltas of its answers out.

The APIs differ in how a request is written and in how an answer is sent. In between there is one thing: a
conversation with tools, rules for the answer, and events (text, reasoning, calls) as the model writes them.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field, replace

from paceline.conversation.parsing.events import CallBroken, CallEnd, CallStart, Content, Event, Reasoning
from paceline.conversation.parsing.formats import opens_reasoning
from paceline.conversation.parsing.parser import OutputParser
from paceline.requests import ChatRequest
from paceline.server.common.deltas import UsageCounter, follow
from paceline.server.common.tools import Toolbox, answer_grammar, calls_format
from paceline.server.state import AppState
from paceline.types import Delta, PromptInfo, TokenLogprob


@dataclass(slots=True)
class ChatDelta:
    """What one choice has produced since its last delta. `finish_reason` is OpenAI's, with the last one.

    A call counts when it has ended. One that never ended is `CallBroken`, and `cut` where the answer's length did it:
    that one is sent as far as it came, with the reason "length"; a call that the model itself broke off is text.
    """

    index: int
    events: tuple[Event, ...] = ()
    logprobs: tuple[TokenLogprob, ...] = ()
    finish_reason: str | None = None
    stop_reason: str | int | None = None  # the stop string or token that ended it
    accepted: bool = False  # the request runs, or has its place in the queue: in front of all others, by itself
    token_ids: tuple[int, ...] = ()
    prompt: PromptInfo | None = None  # with the first of all

    def absorb(self, other: ChatDelta) -> bool:
        """Append a delta of the same choice and kind: both only text, or both only reasoning."""
        kind = _kind(self)
        if kind is None or kind is not _kind(other):
            return False
        text = "".join(event.text for event in (*self.events, *other.events) if isinstance(event, kind))
        self.events = (kind(text),)
        self.logprobs += other.logprobs
        self.token_ids += other.token_ids
        self.finish_reason, self.stop_reason = other.finish_reason, other.stop_reason
        return True


@dataclass(slots=True)
class ChatRun:
    """`counter` counts while `deltas` is read."""

    state: AppState
    request: ChatRequest
    toolbox: Toolbox = field(default_factory=Toolbox)
    counter: UsageCounter = field(default_factory=UsageCounter)
    calls_first: bool = field(init=False)  # text in a format holds no calls

    def __post_init__(self) -> None:
        asked = self.request.grammar
        grammar = answer_grammar(self.toolbox, self.state.backend.answer_format, asked)
        self.calls_first = asked is not None
        self.request = replace(self.request, tools=self.toolbox.offered, grammar=grammar, keep_format_tokens=True)

    async def deltas(self) -> AsyncGenerator[ChatDelta, None]:
        """Where calls may not be parallel, a choice ends before its second one; sequences end with the last choice."""
        stream = self.state.backend.stream_chat(self.request)
        choices: dict[int, _Choice] = {}
        stopped: set[int] = set()
        run = follow(self.state, stream, self.request.n, self.request.request_id, stopped)
        async with aclosing(run) as deltas:
            async for merged in deltas:
                pending: ChatDelta | None = None
                for delta in merged.parts or (merged,):  # one by one: a marker may end reasoning or begin a call
                    if delta.accepted is not None:
                        self.counter.add(0, delta)
                        yield ChatDelta(delta.index, accepted=True)
                        continue
                    choice = choices.get(delta.index)
                    if choice is None:
                        tail = "" if delta.prompt is None else delta.prompt.tail
                        thinks = opens_reasoning(tail, self.state.backend.answer_format)
                        choice = choices[delta.index] = _Choice(self._parser(thinks), self.toolbox.parallel)
                    elif choice.finished:
                        continue
                    events = _parsed(choice.parser, delta)
                    made = choice.read(delta, events)
                    if choice.finished and delta.finish_reason is None:
                        stopped.add(delta.index)
                    if pending is not None and not pending.absorb(made):
                        yield pending
                        pending = None
                    pending = pending or made
                    self.counter.add(0, delta)
                    self.counter.add_parsed(delta.index, events)
                if pending is not None:
                    yield pending
                if sum(choice.finished for choice in choices.values()) == self.request.n:
                    return

    def _parser(self, thinking: bool) -> OutputParser:
        format = calls_format(self.toolbox, self.state.backend.answer_format)
        offered = self.toolbox.offered
        return OutputParser(
            format,
            offered,
            calls=offered is not None,
            calls_first=self.calls_first,
            starts_in_reasoning=thinking,
        )


class _Choice:
    """Parses one choice, and decides its finish reason."""

    def __init__(self, parser: OutputParser, parallel: bool) -> None:
        self.parser, self.parallel = parser, parallel
        self.has_call = self.finished = False

    def read(self, delta: Delta, events: tuple[Event, ...]) -> ChatDelta:
        reason: str | None = delta.finish_reason
        second = None if self.parallel else _second_call(events)
        if second is not None:
            events, reason = events[:second], "stop"
        self.has_call = self.has_call or CallEnd in map(type, events)
        self.finished = reason is not None
        if reason == "stop" and self.has_call:
            reason = "tool_calls"
        stop = delta.stop_reason if second is None else None
        prompt, ids = delta.prompt, delta.token_ids
        return ChatDelta(delta.index, events, delta.logprobs, reason, stop, token_ids=ids, prompt=prompt)


def _kind(delta: ChatDelta) -> type[Content] | type[Reasoning] | None:
    """What all of its events are."""
    for kind in (Content, Reasoning):
        if delta.events and all(type(event) is kind for event in delta.events):
            return kind
    return None


def _parsed(parser: OutputParser, delta: Delta) -> tuple[Event, ...]:
    events = parser.push(delta.text) if delta.text else []
    if delta.finish_reason is not None:
        events += parser.finish()
    if delta.finish_reason == "length" and events and isinstance(events[-1], CallBroken):
        events[-1] = replace(events[-1], cut=True)
    return tuple([event for event in events if type(event) is not Content or event.text])


def _second_call(events: tuple[Event, ...]) -> int | None:
    return next((place for place, event in enumerate(events) if isinstance(event, CallStart) and event.index), None)
