"""A model's answer, taken apart while it streams. Pure Python: text in, events out."""

from paceline.conversation.answers.events import (
    Answer,
    Call,
    CallArguments,
    CallBroken,
    CallEnd,
    CallStart,
    Content,
    Event,
    Reasoning,
    merge,
)
from paceline.conversation.answers.formats import (
    REASONING_PARSERS,
    TOOL_PARSERS,
    AnswerFormat,
    choose,
    opens_reasoning,
)
from paceline.conversation.answers.parser import AnswerParser, call_id, parse_whole

__all__ = [
    "REASONING_PARSERS",
    "TOOL_PARSERS",
    "Answer",
    "AnswerFormat",
    "AnswerParser",
    "Call",
    "CallArguments",
    "CallBroken",
    "CallEnd",
    "CallStart",
    "Content",
    "Event",
    "Reasoning",
    "call_id",
    "choose",
    "merge",
    "opens_reasoning",
    "parse_whole",
]
