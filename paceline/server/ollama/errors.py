"""Errors as Ollama's clients read them: one text, as a body or as the last line of a stream."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from paceline.errors import InvalidRequest
from paceline.server.http.errors import DIALECTS, Dialect, ModelNotFound, error_object
from paceline.server.http.response import encode_json


class OllamaError(BaseModel):
    """Ollama's."""

    error: str


def ollama_error(error: Exception) -> dict[str, Any]:
    message = str(error_object(error)["error"]["message"])
    if isinstance(error, ModelNotFound):  # the words that apps look for, to offer a download
        message = f"model not found: {message}"
    elif isinstance(error, InvalidRequest) and error.field and error.field not in message:
        message = f"{error.field}: {message}"  # there is no other place for it
    return {"error": message}


def failed(error: Exception) -> bytes:
    """A stream that breaks ends with a line that says why."""
    return f"{encode_json(ollama_error(error))}\n".encode()


DIALECTS["/api"] = Dialect(ollama_error, OllamaError)
