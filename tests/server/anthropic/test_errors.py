"""Errors as Anthropic's clients read them."""

from __future__ import annotations

import anthropic.types
import pytest

from paceline.errors import (
    DeadlineExceeded,
    NeverFits,
    QueueFull,
    QueueTimeout,
)
from paceline.server.anthropic.errors import message_error


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (QueueFull("full"), "rate_limit_error"),
        (QueueTimeout("late"), "overloaded_error"),
        (DeadlineExceeded("late"), "timeout_error"),
        (NeverFits(9000, 2, 1), "invalid_request_error"),
    ],
)
def test_anthropics_clients_read_their_own_words_for_a_refusal(error: Exception, kind: str) -> None:
    body = message_error(error)
    assert body["error"]["type"] == kind
    anthropic.types.ErrorResponse.model_validate(body, strict=True)
