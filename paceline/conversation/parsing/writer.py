"""Events in order. Text is let out at once, except for space that may turn out to be a mark's layout.

Models put marks on lines of their own. Newlines that touch a mark belong to the mark, and so does space alone between
two marks (or behind the last one); every other character is the user's.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from paceline.conversation.parsing.events import CallBroken, CallEnd, CallStart, Content, Event, Reasoning

NEWLINES = "\r\n"


class LayoutState(NamedTuple):
    kind: type[Content] | type[Reasoning]
    held: str  # space, not written yet
    empty: bool  # nothing but space since the last mark
    marked: bool  # there was a mark


class Writer:
    def __init__(self) -> None:
        self._events: list[Event] = []
        self._state = LayoutState(Content, "", True, False)
        self.begun = False  # something for the user, or a call, was written

    @property
    def empty(self) -> bool:
        return self._state.empty

    def take(self) -> list[Event]:
        """What was written since the last time, with neighbours of one kind joined."""
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
        """A mark stands here. Returns what `broken` needs if it turns out to be none."""
        before = self._state
        self._state = LayoutState(Content, "", True, True)
        return before

    def broken(self, before: LayoutState, index: int, raw: str) -> None:
        """A call began where `mark` returned `before`, and was none: its text is like other text there."""
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
