"""Lines that agents put in front of their system prompt and change at every request, so that no prefix matches."""

from __future__ import annotations

import re
from typing import Any

HEADERS = ("x-anthropic-billing-header",)  # Claude Code's, in front of all that it says

_FRONT = re.compile(rf"(?:(?:{'|'.join(map(re.escape, HEADERS))}):[^\n]*(?:\n|\Z))+", re.IGNORECASE)

Parts = list[dict[str, Any]]


def without_headers(content: str | Parts) -> str | Parts | None:
    """A system message's text or parts without the header lines at its very front; None where they were all of it.

    A line goes with its own line break; every other character stays. A part that held only such lines goes, and
    then the next part is the front. What has no such line is returned as it is, even if it is empty.
    """
    if isinstance(content, str):
        text = _cut(content)
        return text if text or not content else None
    parts = _cut_parts(content)
    says_something = any(part["type"] != "text" or part["text"] for part in parts)
    return parts if says_something or parts == content else None


def _cut_parts(parts: Parts) -> Parts:
    for place, part in enumerate(parts):
        if part["type"] != "text" or not part["text"]:
            return parts[place:]
        if text := _cut(part["text"]):
            return [{**part, "text": text}, *parts[place + 1 :]]
    return []


def _cut(text: str) -> str:
    front = _FRONT.match(text)
    return text[front.end() :] if front else text
