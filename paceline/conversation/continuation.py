"""A last message of the assistant's that the answer continues, instead of answering it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from paceline.conversation.normalize import Message
from paceline.errors import InvalidRequest

MARK = "\ue000paceline-continues-here\ue000"  # where the message ends, in what the template writes


def marked(conversation: Sequence[Message]) -> list[Message]:
    """The conversation with a mark at the end of its last message, which must be the assistant's, and text."""
    *before, last = conversation
    content: Any = last["content"]
    if last["role"] != "assistant" or last.get("tool_calls"):
        raise InvalidRequest.at(
            "messages", "must end with a message of the assistant's without tool calls: that one is continued."
        )
    if isinstance(content, list):
        if content and content[-1]["type"] != "text":
            raise InvalidRequest.at("messages", "must end with text of the assistant's: that is continued.")
        text = content[-1]["text"] if content else ""
        content = [*content[:-1], {"type": "text", "text": text + MARK}]
    else:
        content = (content or "") + MARK
    return [*before, {**last, "content": content}]


def cut(text: str) -> str:
    """What the template wrote, up to the mark."""
    written, mark, _ = text.rpartition(MARK)
    if not mark:
        raise InvalidRequest.at(
            "messages", ": this model's chat template does not write the assistant's last message, to be continued."
        )
    return written
