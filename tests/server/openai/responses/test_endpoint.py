from __future__ import annotations

from typing import Any

import httpx
import openai
import pytest
from openai.types.responses import ResponseItemList

from paceline.requests import ChatRequest
from tests.server.fake_service import REPLY, FakeService
from tests.server.harness import open_request, refused
from tests.server.openai.responses.harness import CALL, WEATHER, kinds, parsed, respond, response_of, stream_of
from tests.waiting import WAIT

LENGTH = len(REPLY.encode()) + 1


def asked(service: FakeService) -> ChatRequest:
    request = service.requests[-1]
    assert isinstance(request, ChatRequest)
    return request


def messages(service: FakeService) -> list[Any]:
    return [dict(message) for message in asked(service).messages]


# -- answers


def test_an_answer_validates_as_openais_type(http: httpx.Client) -> None:
    response = response_of(respond(http, "hi", model="fake/model", instructions="Be kind", metadata={"a": "b"}))
    assert response.id.startswith("resp_") and response.model == "fake/model" and response.status == "completed"
    assert response.output_text == REPLY
    [item] = response.output
    assert item.type == "message" and item.status == "completed" and item.id.startswith("msg_")
    assert response.instructions == "Be kind" and response.metadata == {"a": "b"}
    assert response.usage is not None
    assert (response.usage.output_tokens, response.usage.input_tokens_details.cached_tokens) == (LENGTH, 1)
    assert response.usage.total_tokens == response.usage.input_tokens + LENGTH
    assert response.error is None and response.incomplete_details is None


def test_a_stream_tells_the_same_in_openais_order(http: httpx.Client) -> None:
    events = stream_of(respond(http, "hi", stream=True))
    assert kinds(events) == [
        "created",
        "in_progress",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "completed",
    ]
    assert events[-1]["response"]["output"][0]["content"][0]["text"] == REPLY
    assert events[-1]["response"]["usage"]["output_tokens"] == LENGTH
    assert events[0]["response"]["status"] == "in_progress" and events[0]["response"]["usage"] is None


def test_the_openai_client_creates_streams_retrieves_and_deletes(client: openai.OpenAI) -> None:
    created = client.responses.create(model="fake/model", input="hi")
    assert created.output_text == REPLY
    assert client.responses.retrieve(created.id).output_text == REPLY
    [item] = client.responses.input_items.list(created.id).data
    assert item.type == "message" and item.role == "user"
    client.responses.delete(created.id)
    for call in (client.responses.retrieve, client.responses.delete, client.responses.cancel):
        with pytest.raises(openai.NotFoundError):
            call(created.id)
    with client.responses.stream(model="fake/model", input="hi") as stream:
        text = "".join(event.delta for event in stream if event.type == "response.output_text.delta")
        assert text == stream.get_final_response().output_text == REPLY


def test_a_length_limit_makes_it_incomplete(http: httpx.Client) -> None:
    response = response_of(respond(http, max_output_tokens=5))
    assert response.status == "incomplete" and response.output_text == "Hello"
    assert response.incomplete_details is not None and response.incomplete_details.reason == "max_output_tokens"
    [item] = response.output
    assert item.type == "message" and item.status == "incomplete"
    last = stream_of(respond(http, max_output_tokens=5, stream=True))[-1]
    assert last["type"] == "response.incomplete" and last["response"]["status"] == "incomplete"


# -- reasoning


@pytest.mark.parametrize("fields", [{}, {"reasoning": {"summary": "auto"}}])
@pytest.mark.parametrize("include", [[], ["reasoning.encrypted_content"]])
def test_reasoning_comes_back_to_the_model(
    http: httpx.Client, service: FakeService, format: None, says: Any, fields: Any, include: Any
) -> None:
    says("<think>\nLet me see. 🙂\n</think>\n\nYes.")
    first = respond(http, "Is it?", store=False, include=include, **fields).json()
    if include:  # as a client does that cannot read it
        first["output"][0] = {**first["output"][0], "content": None, "summary": []}
    respond(http, [{"role": "user", "content": "Is it?"}, *first["output"], {"role": "user", "content": "Sure?"}])
    answer = messages(service)[1]
    assert answer["role"] == "assistant" and answer["reasoning_content"] == "Let me see. 🙂"
    assert answer["content"][0]["text"] == "Yes."


def test_reasoning_of_other_servers_is_dropped(http: httpx.Client, service: FakeService) -> None:
    foreign = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAA"}
    damaged = {**foreign, "encrypted_content": "paceline.###"}
    items = [{"role": "user", "content": "a"}, foreign, damaged, {"role": "assistant", "content": "b"}]
    assert respond(http, items).status_code == 200
    assert "reasoning_content" not in messages(service)[1]


def test_reasoning_of_earlier_turns_is_forgotten_when_asked(http: httpx.Client, service: FakeService) -> None:
    thought = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "mh"}]}
    items = [{"role": "user", "content": "a"}, thought, {"role": "assistant", "content": "b"}]
    items += [{"role": "user", "content": "c"}, thought, {"role": "assistant", "content": "d"}]
    respond(http, items, reasoning={"context": "current_turn"})
    assert ["reasoning_content" in message for message in messages(service)] == [False, False, False, True]


def test_an_effort_without_levels_is_tolerated(http: httpx.Client, service: FakeService) -> None:
    assert respond(http, reasoning={"effort": "high", "summary": "auto"}).status_code == 200
    assert asked(service).template_options == {}


def test_an_effort_reaches_the_template(
    http: httpx.Client, service: FakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service.tokenizer, "chat_template", "{{ reasoning_effort }} {{ verbosity }}")
    assert respond(http, reasoning={"effort": "low"}, text={"verbosity": "high"}).status_code == 200
    assert asked(service).template_options == {"reasoning_effort": "low", "verbosity": "high"}


# -- tools


def test_a_call_and_its_output_make_a_round_trip(
    http: httpx.Client, service: FakeService, format: None, says: Any
) -> None:
    says(f"Let me look.\n{CALL}")
    first = response_of(respond(http, "Weather?", tools=[WEATHER]))
    text, call = first.output
    assert first.status == "completed" and text.type == "message" and call.type == "function_call"
    assert (call.name, call.arguments, call.status) == ("weather", '{"city": "Zürich"}', "completed")
    says("Sunny.")
    output = {"type": "function_call_output", "call_id": call.call_id, "output": "sun"}
    second = response_of(respond(http, [output], previous_response_id=first.id, tools=[WEATHER]))
    assert second.output_text == "Sunny." and second.previous_response_id == first.id
    question, answer, result = messages(service)
    assert question["content"][0]["text"] == "Weather?"
    assert answer["content"][0]["text"] == "Let me look."
    function = {"name": "weather", "arguments": '{"city": "Zürich"}'}
    assert answer["tool_calls"] == [{"id": call.call_id, "type": "function", "function": function}]
    assert (result["role"], result["tool_call_id"], result["content"]) == ("tool", call.call_id, "sun")


# -- fields


def test_formats_of_the_answer_are_grammars(http: httpx.Client, service: FakeService) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    given = {"type": "json_schema", "name": "thing", "schema": schema, "strict": True}
    response = response_of(respond(http, text={"format": given}))
    assert response.text is not None and response.text.format is not None
    assert response.text.format.type == "json_schema"
    grammar = asked(service).grammar
    assert grammar is not None and grammar.kind == "json_schema" and grammar.field == "text.format.schema"
    response_of(respond(http, text={"format": {"type": "json_object"}}))
    assert asked(service).grammar is not None
    response_of(respond(http, text={"format": {"type": "text"}, "verbosity": "medium"}))
    assert asked(service).grammar is None


def test_sampling_fields_reach_the_engine(http: httpx.Client, service: FakeService) -> None:
    fields = {"temperature": 0.5, "top_p": 0.25, "seed": 7, "max_output_tokens": 9, "speculation": "off", "top_k": 3}
    response_of(respond(http, cache=False, cache_salt="salt", prompt_cache_key="key", **fields))
    request = asked(service)
    sampling = request.sampling
    assert (sampling.temperature, sampling.top_p, sampling.seed, sampling.max_tokens) == (0.5, 0.25, 7, 9)
    assert (sampling.speculation, sampling.top_k, sampling.logprobs) == ("off", 3, None)
    assert (request.cache, request.cache_salt) == (False, "salt")
    response_of(respond(http, prompt_cache_key="key", user="u", safety_identifier="s", service_tier="auto"))
    assert (asked(service).cache, asked(service).cache_salt) == (True, "")


def test_another_model_is_not_found(http: httpx.Client) -> None:
    refused(respond(http, model="gpt-9"), 404, "model")


# -- failures


def test_a_row_that_fails_is_a_status_or_a_last_event(http: httpx.Client) -> None:
    refused(respond(http, "!fail 3"), 500, None, "the sampler broke")
    refused(respond(http, "!crash", stream=True), 500, None)
    last = stream_of(respond(http, "!fail 0", stream=True))[-1]
    assert last["type"] == "response.failed" and last["response"]["error"]["message"] == "the sampler broke"
    last = stream_of(respond(http, "!fail 3", stream=True))[-1]
    assert last["type"] == "response.failed" and last["response"]["status"] == "failed"
    assert last["response"]["error"] == {"code": "server_error", "message": "the sampler broke"}
    assert last["response"]["output"][0]["status"] == "incomplete"
    assert response_of(http.get(f"/v1/responses/{last['response']['id']}")).status == "failed"
    last = stream_of(respond(http, "!abort 2", stream=True))[-1]
    assert last["type"] == "response.failed"


@pytest.mark.parametrize("store", [True, False])
def test_a_running_stream_is_cancelled_from_another_connection(
    http: httpx.Client, service: FakeService, store: bool
) -> None:
    text = ""
    body = {"input": "!hang 3", "stream": True, "store": store}
    with http.stream("POST", "/v1/responses", json=body) as answer:
        lines = answer.iter_text()
        text += next(lines)
        id = text.split('"id":"')[1].split('"')[0]
        assert service.hanging.wait(WAIT)
        if store:
            assert response_of(http.get(f"/v1/responses/{id}")).status == "in_progress"
            assert len(http.get(f"/v1/responses/{id}/input_items").json()["data"]) == 1
        assert response_of(http.post(f"/v1/responses/{id}/cancel")).status == "cancelled"
        text += "".join(lines)
    last = parsed(text)[-1]
    assert last["type"] == "response.incomplete" and last["response"]["status"] == "cancelled"
    assert service.idle.wait(WAIT) and id in service.aborted
    again = http.get(f"/v1/responses/{id}")
    assert again.status_code == (200 if store else 404)
    if store:
        assert response_of(again).status == "cancelled" and response_of(again).output_text == "Hel"
        assert response_of(http.post(f"/v1/responses/{id}/cancel")).status == "cancelled"


def test_a_finished_response_cannot_be_cancelled(http: httpx.Client) -> None:
    refused(http.post(f"/v1/responses/{respond(http).json()['id']}/cancel"), 400, None, "completed")


def test_a_running_response_that_is_deleted_ends_and_is_not_kept(http: httpx.Client, service: FakeService) -> None:
    with http.stream("POST", "/v1/responses", json={"input": "!hang 3", "stream": True}) as answer:
        lines = answer.iter_text()
        id = next(lines).split('"id":"')[1].split('"')[0]
        assert service.hanging.wait(WAIT)
        assert http.delete(f"/v1/responses/{id}").json() == {"id": id, "object": "response", "deleted": True}
        "".join(lines)
    refused(http.get(f"/v1/responses/{id}"), 404, None)


@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_goes_away_frees_its_row(http: httpx.Client, service: FakeService, stream: bool) -> None:
    body = {"input": "!hang 3", "stream": stream}
    with open_request(str(http.base_url), "/v1/responses", body) as connection:
        assert service.hanging.wait(WAIT)
        if stream:
            id = connection.recv(65536).decode().split('"id":"')[1].split('"')[0]
    assert service.idle.wait(WAIT)
    if stream:
        assert response_of(http.get(f"/v1/responses/{id}")).status == "cancelled"


# -- what is kept


def test_a_chain_carries_the_conversation_but_not_the_instructions(
    http: httpx.Client, service: FakeService, says: Any
) -> None:
    says("Yes.")
    first = response_of(respond(http, "one", instructions="Be kind"))
    second = response_of(respond(http, "two", previous_response_id=first.id, instructions="Be brief"))
    response_of(respond(http, "three", previous_response_id=second.id))
    said = [message["content"] for message in messages(service)]
    assert [content[0]["text"] for content in said] == ["one", "Yes.", "two", "Yes.", "three"]
    refused(respond(http, previous_response_id="resp_0"), 404, "previous_response_id", "resp_0")


def test_what_is_not_to_be_stored_is_not(http: httpx.Client) -> None:
    response = respond(http, store=False).json()
    assert response["store"] is False
    refused(http.get(f"/v1/responses/{response['id']}"), 404, None)
    refused(respond(http, previous_response_id=response["id"]), 404, "previous_response_id")
    refused(respond(http, [{"type": "item_reference", "id": response["output"][0]["id"]}]), 400, "input[0].id")


def test_an_item_can_be_referred_to(http: httpx.Client, service: FakeService, says: Any) -> None:
    says("Yes.")
    first = respond(http, "one").json()
    for reference in ({"type": "item_reference", "id": first["output"][0]["id"]}, {"id": first["output"][0]["id"]}):
        response_of(respond(http, [{"role": "user", "content": "a"}, reference, {"role": "user", "content": "b"}]))
        assert messages(service)[1]["content"][0]["text"] == "Yes."


def test_input_items_are_listed_in_pages(http: httpx.Client, says: Any) -> None:
    says("Yes.")
    items = [{"role": "user", "content": str(number)} for number in range(5)]
    first = respond(http, items).json()
    second = respond(http, "last", previous_response_id=first["id"]).json()
    path = f"/v1/responses/{second['id']}/input_items"

    def texts(**query: Any) -> tuple[list[str], Any]:
        found = http.get(path, params=query).json()
        ResponseItemList.model_validate(found, strict=True)
        return [item["content"][0]["text"] for item in found["data"]], found

    assert texts(order="asc")[0] == ["0", "1", "2", "3", "4", "Yes.", "last"]
    newest, found = texts(limit=2)
    assert newest == ["last", "Yes."] and found["has_more"] is True
    assert texts(limit=20, after=found["last_id"])[0] == ["4", "3", "2", "1", "0"]
    assert texts(limit=20, after=found["last_id"])[1]["has_more"] is False
    refused(http.get(path, params={"after": "x"}), 400, "after")
    refused(http.get(path, params={"limit": 0}), 400, "limit")
    refused(http.get(f"/v1/responses/{second['id']}", params={"stream": True}), 400, "stream")


def test_a_conversation_that_is_too_long_is_refused_or_cut(http: httpx.Client, service: FakeService) -> None:
    turns = [{"role": ("user", "assistant")[n % 2], "content": f"{n} {'x' * 400}"} for n in range(16)]
    items = [{"role": "developer", "content": "Rules"}, *turns, {"role": "user", "content": "Now?"}]
    error = refused(respond(http, items), 400, "input", "4096")
    assert error["code"] == "context_length_exceeded"
    response = response_of(respond(http, items, truncation="auto"))
    assert response.truncation == "auto"
    kept = [message["content"][0]["text"] for message in messages(service)]
    assert kept[0] == "Rules" and kept[-1] == "Now?"
    assert kept[1:-1] == [turn["content"] for turn in turns[-len(kept) + 2 :]]
    assert 4096 * 3 / 4 < sum(map(len, kept)) < 4096
    refused(respond(http, "x" * 5000, truncation="auto"), 400, "input", "4096")


# -- counting


def test_input_tokens_are_those_of_the_same_request(client: openai.OpenAI, says: Any) -> None:
    says("Sunny.")
    first = client.responses.create(model="fake/model", input="Weather?")
    fields: dict[str, Any] = {"input": "And tomorrow?", "instructions": "Be brief.", "tools": [WEATHER]}
    for more in ({}, {"previous_response_id": first.id}):
        fields |= more
        counted = client.responses.input_tokens.count(**fields)
        assert counted.object == "response.input_tokens"
        usage = client.responses.create(model="fake/model", **fields).usage
        assert usage is not None and counted.input_tokens == usage.input_tokens
    cut: Any = {**fields, "extra_body": {"truncate_prompt_tokens": 3}}
    assert client.responses.input_tokens.count(**cut).input_tokens == 3


def test_an_item_whose_id_is_there_already_gets_another_one(http: httpx.Client) -> None:
    item = {"id": "msg_same", "type": "message", "role": "user", "content": "a"}
    id = respond(http, [item, item]).json()["id"]
    first, second = http.get(f"/v1/responses/{id}/input_items", params={"order": "asc"}).json()["data"]
    assert first["id"] == "msg_same" and second["id"].startswith("msg_") and second["id"] != "msg_same"
    page = http.get(f"/v1/responses/{id}/input_items", params={"order": "asc", "limit": 1, "after": first["id"]}).json()
    assert (page["last_id"], page["has_more"]) == (second["id"], False)


def test_a_request_that_cannot_be_made_cannot_be_counted(http: httpx.Client) -> None:
    def count(**fields: Any) -> httpx.Response:
        return http.post("/v1/responses/input_tokens", json=fields)

    refused(count(), 400, "input")
    refused(count(input="x", previous_response_id="resp_x"), 404, "previous_response_id")
    refused(count(input="x", conversation="conv_x"), 404, "conversation")


def test_compacting_is_not_served_and_says_so(http: httpx.Client) -> None:
    refused(http.post("/v1/responses/compact", json={"input": "x"}), 404, None, "summary")
