"""Errors as Anthropic's clients read them."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel

from paceline.errors import InvalidRequest, PromptTooLong
from paceline.server.http.errors import DIALECTS, Dialect, error_object, status_of
from paceline.server.http.identity import current

MESSAGES = "/v1/messages"  # below it, errors are these
KINDS: Mapping[int, str] = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
    529: "overloaded_error",
}


class MessageErrorFields(BaseModel):
    type: str
    message: str


class MessageError(BaseModel):
    """Anthropic's."""

    type: Literal["error"]
    error: MessageErrorFields
    request_id: str


def message_error(error: Exception) -> dict[str, Any]:
    """The body of an error response, and of an error event."""
    status = status_of(error)
    kind = KINDS.get(status, "api_error" if status >= 500 else "invalid_request_error")
    return {
        "type": "error",
        "error": {"type": kind, "message": _words(error)},
        "request_id": current().id or f"req_{uuid.uuid4().hex}",
    }


def _words(error: Exception) -> str:
    message = str(error_object(error)["error"]["message"])
    if isinstance(error, PromptTooLong):  # Claude Code looks for these words, and shortens the conversation
        return f"prompt is too long: {error.prompt_tokens} tokens > {error.context_length - 1} maximum. {message}"
    if isinstance(error, InvalidRequest) and error.field and error.field not in message:
        return f"{error.field}: {message}"  # there is no other place for it
    return message


DIALECTS[MESSAGES] = Dialect(message_error, MessageError, ("x-request-id", "request-id"))
