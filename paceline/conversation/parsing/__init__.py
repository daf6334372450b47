"""Output parsing: a model's text becomes events of content, reasoning and tool calls while it streams."""

from paceline.conversation.parsing.events import (
    CallArguments,
    CallBroken,
    CallEnd,
    CallStart,
    Content,
    Event,
    ParsedOutput,
    Reasoning,
    ToolCall,
    merge,
)
from paceline.conversation.parsing.formats import (
    REASONING_PARSERS,
    TOOL_PARSERS,
    OutputFormat,
    choose_format,
    opens_reasoning,
)
from paceline.conversation.parsing.parser import OutputParser, call_id, parse_output

__all__ = [
    "REASONING_PARSERS",
    "TOOL_PARSERS",
    "ParsedOutput",
    "OutputFormat",
    "OutputParser",
    "ToolCall",
    "CallArguments",
    "CallBroken",
    "CallEnd",
    "CallStart",
    "Content",
    "Event",
    "Reasoning",
    "call_id",
    "choose_format",
    "merge",
    "opens_reasoning",
    "parse_output",
]
