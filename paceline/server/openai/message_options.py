"""What messages, their parts and items may hold: what is read, and what clients send that has no effect here."""

from __future__ import annotations

from paceline.conversation import messages

# What clients add for other servers, or send back as it came.
_HARMLESS = frozenset({"id", "type", "status", "metadata", "cache_control", "prompt_cache_breakpoint", "extra_content"})
_SENT_BACK = frozenset(
    {
        *("annotations", "audio", "images", "parsed", "logprobs", "citations"),
        *("reasoning_details", "thinking_blocks", "provider_specific_fields", "created_by", "caller", "async"),
    }
)

MESSAGE = (
    _HARMLESS
    | _SENT_BACK
    | frozenset(
        {
            *("role", "content", "name", "refusal", "tool_calls", "tool_call_id", "function_call"),
            *messages.REASONING,
            *("prefix", "tool_plan", "tool_responses"),  # some templates read them
        }
    )
)

_TEXT = _HARMLESS | {"text", "annotations", "logprobs", "citations", "parsed"}
_IMAGE = _HARMLESS | {"image_url", "detail", "file_id", "uuid"}
_AUDIO = _HARMLESS | {"input_audio", "audio", "audio_url", "uuid"}
_VIDEO = _HARMLESS | {"video", "video_url", "fps", "uuid", *messages.REFUSED}
PARTS = {
    **dict.fromkeys(messages.TEXT_PARTS, _TEXT),
    **dict.fromkeys(messages.IMAGE_PARTS, _IMAGE),
    **dict.fromkeys(messages.AUDIO_PARTS, _AUDIO),
    **dict.fromkeys(messages.VIDEO_PARTS, _VIDEO),
    "refusal": _HARMLESS | {"refusal"},
}


def parts_of(field: str) -> dict[str, frozenset[str]]:
    """For `options_of`: what the parts of this field may hold, by their type."""
    return {f"{field} {kind}": options for kind, options in PARTS.items()}


TOOL = frozenset({"type", "function", "cache_control"})

ITEM = (
    _HARMLESS
    | _SENT_BACK
    | frozenset(
        {
            *("role", "content", "phase", "end_turn", "call_id", "name", "namespace", "arguments", "input", "output"),
            *("parsed_arguments", "summary", "encrypted_content", "format"),
        }
    )
)
