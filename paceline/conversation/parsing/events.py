"""What an answer is made of, in the order in which the model wrote it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Content:
    """Text for the user."""

    text: str


@dataclass(frozen=True, slots=True)
class Reasoning:
    """The inside of a think block."""

    text: str


@dataclass(frozen=True, slots=True)
class CallStart:
    """A tool call: its name is known to be one of the request's tools."""

    index: int
    id: str
    name: str


@dataclass(frozen=True, slots=True)
class CallArguments:
    """A piece of a call's arguments. All pieces of a call that ends, joined, are a JSON object."""

    index: int
    text: str


@dataclass(frozen=True, slots=True)
class CallEnd:
    """The call is whole."""

    index: int


@dataclass(frozen=True, slots=True)
class CallBroken:
    """The call will never be whole: the text ended inside it, or stopped being one. Its arguments are no JSON.

    `text` is the call as the model wrote it. `cut`: not the model broke it off but the limit on the answer's length,
    which only the one who knows that limit can say.
    """

    index: int
    text: str
    cut: bool = False


Event = Content | Reasoning | CallStart | CallArguments | CallEnd | CallBroken


@dataclass(frozen=True, slots=True)
class ToolCall:
    id: str
    name: str
    arguments: str  # JSON, an object; of a call that was cut, the beginning of one


@dataclass(frozen=True, slots=True)
class ParsedOutput:
    """A whole answer. A call that the model broke off is not in `calls`: its raw text is in `content`."""

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
