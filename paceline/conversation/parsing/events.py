"""The events of an output in the order in which the model wrote them, and the writer that makes them.

Text is written at once, except for space that may turn out to be a marker's layout. Models put markers on lines of
their own. Newlines next to a marker belong to the marker, and so does space alone between two markers or after the
last one. Every other character is content.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple


@dataclass(slots=True)
class Content:
    """Text for the user."""

    text: str


@dataclass(frozen=True, slots=True)
class Reasoning:
    """The inside of a think block."""

    text: str


@dataclass(frozen=True, slots=True)
class CallStart:
    """The start of a tool call. Its name is one of the request's tools."""

    index: int
    id: str
    name: str


@dataclass(frozen=True, slots=True)
class CallArguments:
    """A piece of a call's arguments. The joined pieces of an ended call are a JSON object."""

    index: int
    text: str


@dataclass(frozen=True, slots=True)
class CallEnd:
    """The call is complete."""

    index: int


@dataclass(frozen=True, slots=True)
class CallBroken:
    """The call will never be complete: the text ended inside it, or stopped being a call.

    `text` is the call as the model wrote it. `cut`: the limit on the output's length ended it, not the model; the
    parser does not know that limit, its caller sets this.
    """

    index: int
    text: str
    cut: bool = False


Event = Content | Reasoning | CallStart | CallArguments | CallEnd | CallBroken


@dataclass(frozen=True, slots=True)
class ToolCall:
    id: str
    name: str
    arguments: str  # a JSON object; the beginning of one if the call was cut


@dataclass(frozen=True, slots=True)
class ParsedOutput:
    """A complete output. A call that the model broke off is not in `calls`: its raw text is in `content`."""

    content: str = ""
    reasoning: str = ""
    calls: tuple[ToolCall, ...] = ()


def merge(events: Iterable[Event]) -> ParsedOutput:
    content: list[str] = []
    reasoning: list[str] = []
    started: dict[int, tuple[CallStart, list[str]]] = {}
    calls: list[ToolCall] = []
    for event in events:
        match event:
            case Content(text):
                content.append(text)
            case Reasoning(text):
                reasoning.append(text)
            case CallStart(index):
                started[index] = (event, [])
            case CallArguments(index, text):
                started[index][1].append(text)
            case CallEnd(index) | CallBroken(index, _, True):
                start, pieces = started[index]
                calls.append(ToolCall(start.id, start.name, "".join(pieces)))
            case CallBroken(_, text):
                content.append(text)
    return ParsedOutput("".join(content), "".join(reasoning), tuple(calls))


NEWLINES = "\r\n"


class LayoutState(NamedTuple):
    kind: type[Content] | type[Reasoning]
    held: str  # space that is not written yet
    empty: bool  # only space since the last marker
    marked: bool  # there was a marker


class Writer:
    def __init__(self) -> None:
        self._events: list[Event] = []
        self._state = LayoutState(Content, "", True, False)
        self.begun = False  # content or a call was written

    @property
    def empty(self) -> bool:
        return self._state.empty

    def take(self) -> list[Event]:
        """The events since the last call, with neighbours of one kind joined."""
        events, self._events = self._events, []
        if len(events) < 2:
            return events
        joined: list[Event] = []
        pieces: list[str] = []
        for event, following in zip(events, [*events[1:], None], strict=True):
            if isinstance(event, CallStart | CallEnd | CallBroken):
                joined.append(event)
                continue
            pieces.append(event.text)
            if type(following) is not type(event):
                joined.append(replace(event, text="".join(pieces)))
                pieces = []
        return joined

    def content(self, text: str) -> None:
        self._write(Content, text)

    def reasoning(self, text: str) -> None:
        self._write(Reasoning, text)

    def marker(self) -> LayoutState:
        """A marker is here. Returns what `broken` needs if it turns out to be text."""
        before = self._state
        self._state = LayoutState(Content, "", True, True)
        return before

    def broken(self, before: LayoutState, index: int, raw: str) -> None:
        """The call that began where `marker` returned `before` is text, and is written like other text there."""
        self._state = before
        place = len(self._events)
        self._write(Content, raw)
        text = "".join(event.text for event in self._events[place:] if isinstance(event, Content))
        self._events[place:] = [CallBroken(index, text)]

    def event(self, event: Event) -> None:
        self.begun = True
        self._events.append(event)

    def finish(self) -> None:
        state = self._state
        if state.held and not (state.empty and state.marked):
            self._append(state.kind, state.held)
        self._state = LayoutState(state.kind, "", state.empty, state.marked)

    def _write(self, kind: type[Content] | type[Reasoning], text: str) -> None:
        state = self._state
        text = state.held + text
        if state.empty:
            if not text or text.isspace():
                self._state = LayoutState(kind, text, True, state.marked)
                return
            if state.marked:
                text = text.lstrip(NEWLINES)
        body = text.rstrip(NEWLINES)
        self._state = LayoutState(kind, text[len(body) :], False, state.marked)
        self._append(kind, body)

    def _append(self, kind: type[Content] | type[Reasoning], text: str) -> None:
        if kind is Content and not text.isspace():
            self.begun = True
        if text:
            self._events.append(kind(text))
