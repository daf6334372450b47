"""Whether the model thinks, as clients of other servers say it."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from paceline.requests import ChatRequest
from tests.server.fake_service import FakeService
from tests.server.harness import post_chat, refused


def options_of(service: FakeService) -> dict[str, Any]:
    request = service.requests[-1]
    assert isinstance(request, ChatRequest)
    return dict(request.template_options)


@pytest.mark.parametrize(
    ("fields", "options"),
    [
        ({"reasoning": {"effort": "low"}}, {"reasoning_effort": "low"}),
        ({"reasoning": {"effort": "low"}, "reasoning_effort": "high"}, {"reasoning_effort": "high"}),
        ({"reasoning": {"enabled": False}}, {"enable_thinking": False}),
        ({"reasoning": {"exclude": False}}, {}),
        ({"thinking": {"type": "enabled"}}, {"enable_thinking": True}),
        ({"thinking": {"type": "auto"}}, {}),
        ({"verbosity": "high"}, {"verbosity": "high"}),
        ({"verbosity": None, "reasoning": None, "thinking": None}, {}),
    ],
)
def test_thinking_and_verbosity_are_told_to_the_template_however_they_are_said(
    http: httpx.Client,
    service: FakeService,
    monkeypatch: pytest.MonkeyPatch,
    fields: dict[str, Any],
    options: dict[str, Any],
) -> None:
    monkeypatch.setattr(service.tokenizer, "chat_template", "{{ reasoning_effort }} {{ verbosity }}")
    assert post_chat(http, **fields).status_code == 200
    assert options_of(service) == options


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"verbosity": "high"}, "verbosity"),
        ({"verbosity": "loud"}, "verbosity"),
        ({"reasoning": {"max_tokens": 100}}, "reasoning.max_tokens"),
        ({"reasoning": {"exclude": True}}, "reasoning.exclude"),
        ({"reasoning": {"effort": 5}}, "reasoning"),
        ({"reasoning": "high"}, "reasoning"),
        ({"reasoning": {"effort": "high"}}, "reasoning_effort"),
        ({"thinking": {"type": "on"}}, "thinking"),
        ({"thinking": True}, "thinking"),
    ],
)
def test_what_the_template_has_no_word_for_is_refused(http: httpx.Client, fields: dict[str, Any], param: str) -> None:
    refused(post_chat(http, **fields), 400, param)
