"""/v1/messages over a service without a model, with Anthropic's own client and types."""

from __future__ import annotations

from typing import Any

import anthropic
import httpx
import pytest
from anthropic.types import Message, MessageTokensCount
from pydantic import SecretStr

from paceline.settings import Settings
from tests.integration.test_server_images import png
from tests.server.anthropic.harness import ASK, REST, TOOL, Scripted, events, message, picture, post, refused
from tests.server.fake_service import REPLY, FakeService
from tests.server.harness import serve, user

LENGTH = len(REPLY.encode()) + 1


# -- answers


def test_an_answer_validates_as_anthropics_type(http: httpx.Client) -> None:
    answer = message(post(http, "hi", model="fake/model"))
    assert answer.id.startswith("msg_") and answer.model == "fake/model"
    assert [block.to_dict() for block in answer.content] == [{"type": "text", "text": REPLY}]
    assert (answer.stop_reason, answer.stop_sequence) == ("end_turn", None)
    prompt = len("user: hi|assistant: ") + 1
    usage = answer.usage
    assert (usage.input_tokens, usage.cache_read_input_tokens, usage.output_tokens) == (prompt - 1, 1, LENGTH)
    assert usage.cache_creation_input_tokens == 0


def test_anthropics_client_reads_an_answer(claude: anthropic.Anthropic) -> None:
    answer = claude.messages.create(**ASK)
    assert answer.content[0].to_dict() == {"type": "text", "text": REPLY}


def test_anthropics_client_reads_a_stream(claude: anthropic.Anthropic) -> None:
    with claude.messages.stream(**ASK) as stream:
        assert "".join(stream.text_stream) == REPLY
        final = stream.get_final_message()
    assert (final.stop_reason, final.usage.output_tokens, final.usage.cache_read_input_tokens) == (
        "end_turn",
        LENGTH,
        1,
    )


def test_a_streams_events_come_in_anthropics_order(http: httpx.Client) -> None:
    response = post(http, stream=True)
    first, *deltas, stop, delta, end = events(response)
    assert response.text.startswith("event: message_start\n") and response.text.count("event: ping\n") == 1
    start = deltas.pop(0)
    assert first["message"]["content"] == [] and first["message"]["stop_reason"] is None
    assert first["message"]["usage"]["cache_read_input_tokens"] == 1
    assert start == {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
    assert "".join(event["delta"]["text"] for event in deltas) == REPLY
    assert stop == {"type": "content_block_stop", "index": 0}
    assert delta["delta"] == {"stop_reason": "end_turn", "stop_sequence": None}
    assert delta["usage"]["output_tokens"] == LENGTH
    assert end == {"type": "message_stop"}


def test_an_answer_that_is_cut_off_says_why(http: httpx.Client, stage: httpx.Client, actor: Scripted) -> None:
    assert message(post(http, max_tokens=3)).stop_reason == "max_tokens"
    assert events(post(http, max_tokens=3, stream=True))[-2]["delta"]["stop_reason"] == "max_tokens"
    actor.ends = {"finish_reason": "length"}
    assert message(post(stage, max_tokens=10**9)).stop_reason == "model_context_window_exceeded"


def test_a_stop_sequence_is_named(stage: httpx.Client, actor: Scripted) -> None:
    actor.ends = {"finish_reason": "stop", "stop_reason": "END"}
    answer = message(post(stage, stop_sequences=["x", "END"]))
    assert (answer.stop_reason, answer.stop_sequence) == ("stop_sequence", "END")
    assert actor.requests[-1].sampling.stop == ("x", "END")
    delta = events(post(stage, stop_sequences=["END"], stream=True))[-2]["delta"]
    assert delta == {"stop_reason": "stop_sequence", "stop_sequence": "END"}


# -- tools and thinking

CALLS = (
    '<think>\nhm\n</think>\n\nI look.\n<tool_call>\n{"name": "look", "arguments": {"at": "x"}}\n</tool_call>\n'
    '<tool_call>\n{"name": "rest", "arguments": {}}\n</tool_call>'
)


def test_thoughts_text_and_calls_are_blocks(stage: httpx.Client, actor: Scripted) -> None:
    actor.says = CALLS
    answer = message(post(stage, tools=[TOOL, REST]))
    assert [block.type for block in answer.content] == ["thinking", "text", "tool_use", "tool_use"]
    thought, said, look, rest = (block.to_dict() for block in answer.content)
    assert thought["thinking"] == "hm" and thought["signature"]
    assert said["text"] == "I look."
    assert str(look["id"]).startswith("toolu_") and look["id"] != rest["id"]
    assert (look["name"], look["input"], rest["input"]) == ("look", {"at": "x"}, {})
    assert answer.stop_reason == "tool_use"


def test_a_stream_adds_up_to_the_whole_answer(staged: anthropic.Anthropic, actor: Scripted) -> None:
    actor.says = CALLS
    fields: Any = {**ASK, "tools": [TOOL, REST]}
    whole = staged.messages.create(**fields)
    with staged.messages.stream(**fields) as stream:
        final = stream.get_final_message()

    def told(answer: Message) -> list[Any]:
        return [{**block.to_dict(), "id": None, "parsed_output": None} for block in answer.content]

    assert told(final) == told(whole)
    assert (final.stop_reason, final.usage.output_tokens) == (whole.stop_reason, whole.usage.output_tokens)


def test_every_event_of_calls_and_thoughts_validates(stage: httpx.Client, actor: Scripted) -> None:
    actor.says = CALLS
    found = events(post(stage, tools=[TOOL, REST], stream=True))
    kinds = {event["delta"]["type"] for event in found if event["type"] == "content_block_delta"}
    assert kinds == {"text_delta", "thinking_delta", "signature_delta", "input_json_delta"}


def test_a_call_that_never_ends_is_no_tool_use(stage: httpx.Client, actor: Scripted) -> None:
    actor.says, actor.ends = (
        'I look.\n<tool_call>\n{"name": "look", "arguments": {"at": "x',
        {"finish_reason": "length"},
    )
    answer = message(post(stage, tools=[TOOL], max_tokens=15))
    assert [block.type for block in answer.content] == ["text"] and answer.stop_reason == "max_tokens"
    found = events(post(stage, tools=[TOOL], max_tokens=15, stream=True))
    assert [event["type"] for event in found[-3:]] == ["content_block_stop", "message_delta", "message_stop"]
    written = [event["delta"].get("partial_json", "") for event in found if event["type"] == "content_block_delta"]
    assert '{"at": "x'.startswith("".join(written))
    assert found[-2]["delta"]["stop_reason"] == "max_tokens"


def test_one_call_at_a_time_where_that_is_asked_for(stage: httpx.Client, actor: Scripted) -> None:
    actor.says = CALLS
    choice = {"type": "auto", "disable_parallel_tool_use": True}
    answer = message(post(stage, tools=[TOOL, REST], tool_choice=choice))
    assert [block.type for block in answer.content] == ["thinking", "text", "tool_use"]
    assert answer.stop_reason == "tool_use"


def test_thoughts_can_be_omitted_and_still_be_given_back(stage: httpx.Client, actor: Scripted) -> None:
    actor.says = "hm\n</think>\n\nSo."
    thinking = {"type": "enabled", "budget_tokens": 1024, "display": "omitted"}
    [thought, said] = message(post(stage, thinking=thinking)).content
    assert (thought.to_dict()["thinking"], said.to_dict()["text"]) == ("", "So.")
    back = [{"role": "assistant", "content": [thought.to_dict(), said.to_dict()]}]
    assert post(stage, messages=[*user("a"), *back, *user("b")]).status_code == 200
    request: Any = actor.requests[-1]
    assert request.messages[1] == {"role": "assistant", "content": "So.", "reasoning_content": "hm"}


# -- pictures


def test_an_image_is_accepted_also_in_a_tools_result(http: httpx.Client) -> None:
    message(post(http, [{"type": "text", "text": "What?"}, picture(png())]))
    message(post(http, [{"type": "tool_result", "tool_use_id": "toolu_1", "content": [picture(png())]}]))


def test_a_bad_image_is_refused_and_named_as_the_client_wrote_it(http: httpx.Client) -> None:
    answer = post(http, [{"type": "text", "text": "What?"}, picture(b"no picture")], system="s")
    refused(answer, 400, "invalid_request_error", "messages[0].content[1].source is not an image")
    counted = http.post("/v1/messages/count_tokens", json={"messages": user([picture(b"", "text/plain;x")])})
    refused(counted, 400, "invalid_request_error", "messages[0].content[0].source.media_type")


def test_a_model_without_eyes_refuses_an_image(
    http: httpx.Client, service: FakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "takes_images", False)
    refused(post(http, [picture(png())]), 400, "invalid_request_error", "messages[0].content[0]", "no images")


# -- counting


def test_tokens_are_counted_with_system_and_tools(claude: anthropic.Anthropic, http: httpx.Client) -> None:
    fields: dict[str, Any] = {"model": "fake/model", "messages": user("hi")}
    alone = claude.messages.count_tokens(**fields)
    assert alone.input_tokens == len("user: hi|assistant: ") + 1
    more = claude.messages.count_tokens(**{**fields, "system": "be brief", "tools": [TOOL]})
    assert more.input_tokens == alone.input_tokens + len("look|") + len("system: be brief|")
    response = http.post("/v1/messages/count_tokens?beta=true", json=fields)
    assert MessageTokensCount.model_validate(response.json(), strict=True) == alone
    usage = message(post(http, system="be brief", tools=[TOOL])).usage
    assert usage.input_tokens + (usage.cache_read_input_tokens or 0) == more.input_tokens


def test_a_prompt_of_any_length_is_counted(http: httpx.Client) -> None:
    count = http.post("/v1/messages/count_tokens", json={"messages": user("x" * 5000)}).json()
    assert count["input_tokens"] > 5000


# -- errors


def test_a_prompt_that_is_too_long_is_said_in_anthropics_words(http: httpx.Client) -> None:
    words = refused(post(http, "x" * 5000), 400, "invalid_request_error")
    assert words.startswith("prompt is too long: 5019 tokens > 4095 maximum")


def test_anthropics_client_raises_its_own_errors(claude: anthropic.Anthropic) -> None:
    with pytest.raises(anthropic.NotFoundError) as missing:
        claude.messages.create(**{**ASK, "model": "huge"})
    assert missing.value.body["error"]["type"] == "not_found_error"  # type: ignore[index]
    with pytest.raises(anthropic.BadRequestError, match="stop_sequences"):
        claude.messages.create(**ASK, stop_sequences=[""])
    with pytest.raises(anthropic.InternalServerError):
        claude.messages.create(**{**ASK, "messages": user("!fail 0")})


def test_every_path_below_has_anthropics_errors(http: httpx.Client) -> None:
    refused(http.get("/v1/messages"), 405, "invalid_request_error")
    refused(http.post("/v1/messages/batches", json={}), 404, "not_found_error")
    refused(http.post("/v1/messages", content=b"{"), 400, "invalid_request_error", "JSON")
    refused(http.post("/v1/messages", content=b" " * (5 << 20)), 413, "request_too_large")
    assert "secret" not in refused(post(http, "!crash"), 500, "api_error")
    assert set(http.post("/v1/messagesque", json={}).json()) == {"error"}


def test_a_stream_that_fails_ends_with_an_error_event(http: httpx.Client, claude: anthropic.Anthropic) -> None:
    *_, last = events(post(http, "!fail 3", stream=True))
    assert last["type"] == "error"
    assert last["error"] == {"type": "api_error", "message": "the sampler broke"}
    *_, last = events(post(http, "!abort 3", stream=True))
    assert last["error"]["type"] == "overloaded_error"
    with (
        pytest.raises(anthropic.APIStatusError, match="the sampler broke"),
        claude.messages.stream(**{**ASK, "messages": user("!fail 3")}) as stream,
    ):
        stream.get_final_message()


def test_a_stream_that_cannot_begin_has_a_status(http: httpx.Client) -> None:
    refused(post(http, "x" * 5000, stream=True), 400, "invalid_request_error")


def test_a_key_is_taken_from_anthropics_header() -> None:
    settings = Settings(api_key=(SecretStr("sk-one"),))
    with serve(FakeService(settings), settings) as address:
        with anthropic.Anthropic(base_url=address, api_key="sk-one", max_retries=0) as client:
            assert client.messages.create(**ASK).stop_reason == "end_turn"
        with (
            anthropic.Anthropic(base_url=address, api_key="sk-two", max_retries=0) as client,
            pytest.raises(anthropic.AuthenticationError) as caught,
        ):
            client.messages.create(**ASK)
    assert caught.value.body["error"]["type"] == "authentication_error"  # type: ignore[index]


def test_a_server_that_is_not_ready_is_overloaded(
    http: httpx.Client, service: FakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "ready", False)
    response = post(http)
    refused(response, 503, "overloaded_error", "loading")
    assert response.headers["retry-after"]
