from __future__ import annotations

import json

from paceline.server.openai.envelope import Envelope


def decoded(event: bytes) -> dict[str, object]:
    text = event.decode()
    assert text.startswith("data: ") and text.endswith("\n\n") and text.count("\n") == 2
    chunk: dict[str, object] = json.loads(text.removeprefix("data: "))
    return chunk


def test_a_chunk_is_one_event_with_the_responses_identity() -> None:
    envelope = Envelope("chatcmpl", 'a "model"\n')
    choices = [{"index": 0, "delta": {"content": "line\n\nline 🙂 \u2028"}}]
    chunk = decoded(envelope.chunks("chat.completion.chunk", nullable_usage=False)(choices))
    whole = envelope.response("chat.completion.chunk", choices, {})
    assert chunk == {name: value for name, value in whole.items() if name != "usage"}


def test_usage_is_absent_null_or_there() -> None:
    envelope = Envelope("cmpl", "m")
    assert "usage" not in decoded(envelope.chunks("x", nullable_usage=False)([]))
    assert decoded(envelope.chunks("x", nullable_usage=True)([]))["usage"] is None
    assert decoded(envelope.chunks("x", nullable_usage=True)([], {"total_tokens": 1}))["usage"] == {"total_tokens": 1}


def test_a_number_that_json_does_not_have_is_never_sent() -> None:
    event = Envelope("cmpl", "m").chunks("x", nullable_usage=False)([{"logprob": float("nan")}])
    assert decoded(event)["choices"] == [{"logprob": None}]


def test_no_two_responses_have_one_id() -> None:
    assert len({Envelope("cmpl", "m").id for _ in range(100)}) == 100
