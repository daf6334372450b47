"""Conversations of other APIs on their way to OpenAI's form, which is what templates are given."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from paceline.errors import InvalidRequest


@dataclass(frozen=True, slots=True)
class Conversation:
    messages: tuple[dict[str, Any], ...]
    places: Mapping[str, str]  # by where a thing stands here, where the client wrote it
    inline_media: str = "a data: URL"  # what the API calls media that are in the request

    @contextmanager
    def renaming_errors(self) -> Iterator[None]:
        """Errors raised inside are about what the client wrote."""
        try:
            yield
        except InvalidRequest as error:
            place = self.places.get(error.field or "")
            if place is None:
                raise
            message = str(error).replace(str(error.field), place).replace("as a data: URL", f"as {self.inline_media}")
            raise InvalidRequest(message, field=place, code=error.code) from None


def text_of(fields: Mapping[str, Any], name: str, place: str) -> str:
    value = fields.get(name)
    if not isinstance(value, str):
        raise InvalidRequest.at(f"{place}.{name}", "must be text.")
    return value


# -- reasoning, to the client and back


def sealed(mark: str, reasoning: str) -> str:
    """For the client to send back, not for it to read. It is no secret."""
    return mark + base64.b64encode(reasoning.encode()).decode()


def unsealed(mark: str, content: Any) -> str | None:
    """None: somebody else wrote it."""
    if not isinstance(content, str) or not content.startswith(mark):
        return None
    try:
        return base64.b64decode(content.removeprefix(mark), validate=True).decode()
    except ValueError:
        return None
