"""What messages and their blocks may hold: what is read, and what clients send that has no effect here."""

from __future__ import annotations

# An answer that is sent back as it came has the rest.
MESSAGE = frozenset({"role", "content", "id", "type", "model", "stop_reason", "stop_sequence", "usage"})

_BLOCK = frozenset({"type", "cache_control"})
BLOCKS = {
    "text": _BLOCK | {"text", "citations"},
    "image": _BLOCK | {"source", "transformations"},
    "document": _BLOCK | {"source", "title", "context", "citations"},
    "search_result": _BLOCK | {"source", "title", "content", "citations"},
    "thinking": _BLOCK | {"thinking", "signature"},
    "redacted_thinking": _BLOCK | {"data"},
    "tool_use": _BLOCK | {"id", "name", "input", "caller", "toolset_name"},
    "tool_result": _BLOCK | {"tool_use_id", "content", "is_error", "toolset_name"},
    "tool_reference": _BLOCK | {"tool_name"},
}
SOURCE = frozenset({"type", "data", "media_type", "url", "content"})


def blocks_of(field: str) -> dict[str, frozenset[str]]:
    """For `options_of`: what the blocks of this field may hold, by their type."""
    return {f"{field} {kind}": options for kind, options in BLOCKS.items()} | {f"{field}.source": SOURCE}


OPTIONS = {
    "messages": MESSAGE,
    **blocks_of("system"),
    **blocks_of("messages.content"),
    **blocks_of("messages.content.content"),  # of a tool's result
    **blocks_of("messages.content.source.content"),  # of a document
}
