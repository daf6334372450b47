from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import openai
import pytest
from openai.types.responses import ResponseItemList

from paceline.conversation.answers import AnswerFormat
from paceline.service import ChatRequest
from tests.server import fake_service
from tests.server.fake_service import REPLY, FakeService
from tests.server.harness import open_request, refused
from tests.server.responses import CALL, WEATHER, kinds, parsed, respond, response_of, stream_of
from tests.waiting import WAIT

LENGTH = len(REPLY.encode()) + 1


@pytest.fixture
def format(service: FakeService, monkeypatch: pytest.MonkeyPatch) -> None:
    """The model thinks, and calls as Hermes does."""
    monkeypatch.setattr(service, "answer_format", AnswerFormat("hermes", "think"))


@pytest.fixture
def says(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """`says(text)` makes it the model's next answers."""
    yield lambda text: monkeypatch.setattr(fake_service, "REPLY", text)


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


def test_an_answer_of_nothing_is_an_empty_message(http: httpx.Client, says: Any) -> None:
    says("")
    assert response_of(respond(http)).output_text == ""
    [item] = stream_of(respond(http, stream=True))[-1]["response"]["output"]
    assert item["content"][0]["text"] == ""


def test_logprobs_are_those_of_the_text(http: httpx.Client, format: None, says: Any) -> None:
    says("<think>\nmh\n</think>\n\nHi!")
    fields: dict[str, Any] = {"include": ["message.output_text.logprobs"], "top_logprobs": 2}
    thought, item = response_of(respond(http, **fields)).output
    assert thought.type == "reasoning" and item.type == "message" and item.content[0].type == "output_text"
    scores = item.content[0].logprobs
    assert scores is not None
    assert "".join(score.token for score in scores).endswith("Hi!")
    assert all(len(score.top_logprobs) == 2 for score in scores)
    assert "m" not in [score.token for score in scores]
    events = stream_of(respond(http, stream=True, **fields))
    streamed = [each for event in events if event["type"].endswith("text.delta") for each in event.get("logprobs", [])]
    assert [score["token"] for score in streamed] == [score.token for score in scores]
    none = response_of(respond(http)).output[-1]
    assert none.type == "message" and none.content[0].type == "output_text" and none.content[0].logprobs == []


# -- reasoning


def test_reasoning_is_an_item_before_the_message(http: httpx.Client, format: None, says: Any) -> None:
    says("<think>\nLet me see.\n</think>\n\nYes.")
    response = response_of(respond(http))
    thought, item = response.output
    assert thought.type == "reasoning" and thought.content is not None
    assert thought.content[0].text == "Let me see." and thought.summary == [] and thought.encrypted_content is None
    assert item.type == "message" and response.output_text == "Yes."
    assert response.usage is not None
    inside = len("<think>\nLet me see.")  # tokens are bytes; the mark that ends it counts for what follows
    assert response.usage.output_tokens_details.reasoning_tokens == inside
    assert kinds(stream_of(respond(http, stream=True)))[2:9] == [
        "output_item.added",
        "content_part.added",
        "reasoning_text.delta",
        "reasoning_text.done",
        "content_part.done",
        "output_item.done",
        "output_item.added",
    ]


def test_a_summary_of_reasoning_is_the_reasoning(http: httpx.Client, format: None, says: Any) -> None:
    says("<think>\nLet me see.\n</think>\n\nYes.")
    fields = {"reasoning": {"summary": "auto", "effort": "high"}, "include": ["reasoning.encrypted_content"]}
    thought = response_of(respond(http, **fields)).output[0]
    assert thought.type == "reasoning" and thought.content is None
    assert thought.summary[0].text == "Let me see." and thought.encrypted_content
    assert kinds(stream_of(respond(http, stream=True, **fields)))[3:7] == [
        "reasoning_summary_part.added",
        "reasoning_summary_text.delta",
        "reasoning_summary_text.done",
        "reasoning_summary_part.done",
    ]


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


def test_calls_stream_as_they_are_written(http: httpx.Client, format: None, says: Any) -> None:
    says(f"Look:\n{CALL}\n{CALL}")
    events = stream_of(respond(http, tools=[WEATHER], stream=True))
    one = ["output_item.added", "function_call_arguments.delta", "function_call_arguments.done", "output_item.done"]
    assert kinds(events)[-9:] == [*one, *one, "completed"]
    deltas = [event for event in events if event["type"] == "response.function_call_arguments.delta"]
    assert len(deltas) > 4
    ids = [item["call_id"] for item in events[-1]["response"]["output"][1:]]
    assert len(set(ids)) == 2


def test_the_answer_ends_before_a_second_call_where_one_is_allowed(
    http: httpx.Client, service: FakeService, format: None, says: Any
) -> None:
    says(f"Look:\n{CALL}\n{CALL}")
    for response in (
        respond(http, tools=[WEATHER], parallel_tool_calls=False).json(),
        stream_of(respond(http, tools=[WEATHER], parallel_tool_calls=False, stream=True))[-1]["response"],
    ):
        assert [item["type"] for item in response["output"]] == ["message", "function_call"]
        assert (response["status"], response["parallel_tool_calls"]) == ("completed", False)
    assert service.idle.wait(WAIT)


def test_a_call_that_the_length_cuts_off_is_incomplete(http: httpx.Client, format: None, says: Any) -> None:
    says(CALL)
    for response in (
        respond(http, tools=[WEATHER], max_output_tokens=55).json(),
        stream_of(respond(http, tools=[WEATHER], max_output_tokens=55, stream=True))[-1]["response"],
    ):
        [call] = response["output"]
        assert (call["type"], call["status"], response["status"]) == ("function_call", "incomplete", "incomplete")
        assert call["arguments"].startswith('{"city"')


def test_a_call_that_the_model_breaks_off_is_text_too(http: httpx.Client, format: None, says: Any) -> None:
    says('<tool_call>\n{"name": "weather", "arguments": {"city": "Zü')
    for response in (
        respond(http, tools=[WEATHER]).json(),
        stream_of(respond(http, tools=[WEATHER], stream=True))[-1]["response"],
    ):
        call, text = response["output"]
        assert (call["status"], text["type"], response["status"]) == ("incomplete", "message", "completed")
        assert text["content"][0]["text"].startswith("<tool_call>")


def test_free_text_tools_are_functions_to_the_model(
    http: httpx.Client, service: FakeService, format: None, says: Any
) -> None:
    grammar = {"type": "grammar", "syntax": "lark", "definition": 'start: "x"'}
    patch = {"type": "custom", "name": "apply_patch", "description": "Edits.", "format": grammar}
    says('<tool_call>\n{"name": "apply_patch", "arguments": {"input": "*** Begin\\n\\"x\\""}}\n</tool_call>')
    first = response_of(respond(http, tools=[patch]))
    [call] = first.output
    assert call.type == "custom_tool_call" and (call.name, call.input) == ("apply_patch", '*** Begin\n"x"')
    tools = asked(service).tools
    assert tools is not None and 'start: "x"' in tools[0]["function"]["description"]
    events = stream_of(respond(http, tools=[patch], stream=True))
    assert kinds(events)[2:6] == [
        "output_item.added",
        "custom_tool_call_input.delta",
        "custom_tool_call_input.done",
        "output_item.done",
    ]
    output = {"type": "custom_tool_call_output", "call_id": call.call_id, "output": "Done"}
    response_of(respond(http, [output], previous_response_id=first.id, tools=[patch]))
    assert messages(service)[1]["tool_calls"][0]["function"]["arguments"] == '{"input": "*** Begin\\n\\"x\\""}'


def test_a_namespace_is_part_of_the_name_to_the_model(
    http: httpx.Client, service: FakeService, format: None, says: Any
) -> None:
    agents = {"type": "namespace", "name": "agents", "description": "Helpers.", "tools": [{**WEATHER, "name": "ask"}]}
    says(CALL.replace("weather", "agents__ask"))
    first = response_of(respond(http, tools=[agents, WEATHER]))
    [call] = first.output
    assert call.type == "function_call" and (call.name, call.namespace) == ("ask", "agents")
    output = {"type": "function_call_output", "call_id": call.call_id, "output": [{"type": "input_text", "text": "y"}]}
    response_of(respond(http, [output], previous_response_id=first.id, tools=[agents]))
    answer, result = messages(service)[1:]
    assert answer["tool_calls"][0]["function"]["name"] == "agents__ask" == result["name"]
    named = {"type": "function", "name": "ask", "namespace": "agents"}
    assert response_of(respond(http, tools=[agents], tool_choice=named)).status == "completed"


def test_a_tool_that_the_server_would_have_to_run_is_left_out(http: httpx.Client, service: FakeService) -> None:
    hosted = [{"type": kind} for kind in ("web_search", "local_shell", "tool_search", "image_generation")]
    response = response_of(respond(http, tools=[*hosted, WEATHER]))
    assert [tool.type for tool in response.tools] == ["function"]
    tools = asked(service).tools
    assert tools is not None and [tool["function"]["name"] for tool in tools] == ["weather"]
    response_of(respond(http, tools=hosted))
    assert asked(service).tools is None
    refused(respond(http, tools=hosted, tool_choice="required"), 400, "tool_choice", "required")
    refused(respond(http, tools=hosted, tool_choice={"type": "web_search_preview"}), 400, "tool_choice", "web_search")


def test_the_choice_of_tools_is_honoured(http: httpx.Client, service: FakeService, format: None) -> None:
    other = {**WEATHER, "name": "other", "strict": False}
    tools = [WEATHER, other]

    def offered(choice: Any) -> list[str] | None:
        response_of(respond(http, tools=tools, tool_choice=choice))
        found = asked(service).tools
        return None if found is None else [tool["function"]["name"] for tool in found]

    assert offered("auto") == offered(None) == ["weather", "other"]
    assert asked(service).grammar is None
    assert offered("none") is None
    assert offered("required") == ["weather", "other"]
    assert asked(service).grammar is not None
    assert offered({"type": "function", "name": "other"}) == ["weather", "other"]
    assert asked(service).grammar is not None
    allowed = {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "other"}]}
    assert offered(allowed) == ["other"]
    assert asked(service).grammar is None
    assert offered({**allowed, "mode": "required"}) == ["other"]
    assert asked(service).grammar is not None


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"tools": [{"type": "function"}]}, "tools[0].name"),
        ({"tools": [{"type": "function", "name": "a b"}]}, "tools[0].name"),
        ({"tools": [{**WEATHER, "parameters": 5}]}, "tools[0].parameters"),
        ({"tools": [WEATHER, WEATHER]}, "tools[1]"),
        ({"tools": [5]}, "tools[0].type"),
        ({"tools": [{"type": "telepathy"}]}, "tools[0].type"),
        ({"tools": [{"type": "custom", "name": "x", "format": {"type": "xml"}}]}, "tools[0].format"),
        ({"tools": [{"type": "namespace", "name": "x"}]}, "tools[0]"),
        ({"tools": [{"type": "namespace", "name": "x", "tools": [{"type": "mcp"}]}]}, "tools[0].tools[0].type"),
        ({"tools": [WEATHER], "tool_choice": "sometimes"}, "tool_choice"),
        ({"tools": [WEATHER], "tool_choice": {"type": "function", "name": "other"}}, "tool_choice"),
        ({"tools": [WEATHER], "tool_choice": {"type": "custom", "name": "weather"}}, "tool_choice"),
        ({"tools": [WEATHER], "tool_choice": {"type": "allowed_tools", "mode": "auto"}}, "tool_choice.tools"),
        (
            {"tools": [WEATHER], "tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [5]}},
            "tool_choice.tools[0]",
        ),
        (
            {"tools": [WEATHER], "tool_choice": {"type": "allowed_tools", "mode": "none", "tools": []}},
            "tool_choice.mode",
        ),
        ({"tool_choice": "required"}, "tool_choice"),
    ],
)
def test_a_bad_tool_is_refused_by_name(http: httpx.Client, fields: dict[str, Any], param: str) -> None:
    refused(respond(http, **fields), 400, param)


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


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"background": True}, "background"),
        ({"conversation": "conv_1"}, "conversation"),
        ({"prompt": {"id": "x"}}, "prompt"),
        ({"service_tier": "flex"}, "service_tier"),
        ({"n": 2}, "n"),
        ({"max_tokens": 5}, "max_tokens"),
        ({"response_format": {"type": "json_object"}}, "response_format"),
        ({"max_output_tokens": 0}, "max_output_tokens"),
        ({"max_output_tokens": 10**9}, "max_output_tokens"),
        ({"temperature": -1}, "temperature"),
        ({"temperature": "warm"}, "temperature"),
        ({"top_logprobs": 21}, "top_logprobs"),
        ({"include": ["everything"]}, "include[0]"),
        ({"truncation": "maybe"}, "truncation"),
        ({"metadata": {"a": 1}}, "metadata.a"),
        ({"reasoning": {"effort": "heroic"}}, "reasoning.effort"),
        ({"reasoning": {"summary": "long"}}, "reasoning.summary"),
        ({"reasoning": {"mode": "pro"}}, "reasoning.mode"),
        ({"text": {"verbosity": "high"}}, "text.verbosity"),
        ({"text": {"format": {"type": "xml"}}}, "text.format"),
        ({"text": {"format": {"type": "json_schema", "name": "x"}}}, "text.format"),
        ({"chat_template_kwargs": {"chat_template": "x"}}, "chat_template_kwargs"),
        ({"stream": True, "stream_options": {"include_obfuscation": True}}, "stream_options.include_obfuscation"),
        ({"text": {"format": {"type": "json_object"}}, "guided_regex": "a"}, "guided_regex"),
    ],
)
def test_what_cannot_be_honoured_is_refused_by_name(http: httpx.Client, fields: dict[str, Any], param: str) -> None:
    refused(respond(http, **fields), 400, param, param.split("[")[0].split(".")[0])


@pytest.mark.parametrize("depth", [130, 400, 850])
def test_what_is_nested_too_deeply_is_refused(http: httpx.Client, depth: int) -> None:
    deep: Any = {}
    for _ in range(depth):
        deep = {"a": deep}
    refused(respond(http, tools=[{**WEATHER, "parameters": deep}]), 400, "tools", "deeply")
    refused(
        respond(http, [{"role": "user", "content": [{"type": "input_text", "text": deep}]}]),
        400,
        "input[0].content[0].text",
    )
    refused(respond(http, [{"role": "user", "content": [{"type": "smell", "text": deep}]}]), 400, "input[0].content[0]")
    assert respond(http, unknown=deep).status_code == 200


def test_another_model_is_not_found(http: httpx.Client) -> None:
    refused(respond(http, model="gpt-9"), 404, "model")


# -- failures


def test_a_row_that_fails_is_a_status_or_a_last_event(http: httpx.Client) -> None:
    refused(respond(http, "!fail 3"), 500, None, "the sampler broke")
    refused(respond(http, "!fail 0", stream=True), 500, None, "the sampler broke")
    refused(respond(http, "!crash", stream=True), 500, None)
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


def test_a_request_that_cannot_be_made_cannot_be_counted(http: httpx.Client) -> None:
    def count(**fields: Any) -> httpx.Response:
        return http.post("/v1/responses/input_tokens", json=fields)

    refused(count(), 400, "input")
    refused(count(input="x", previous_response_id="resp_x"), 404, "previous_response_id")
    refused(count(input="x", background=True), 400, "background")


def test_compacting_is_not_served_and_says_so(http: httpx.Client) -> None:
    refused(http.post("/v1/responses/compact", json={"input": "x"}), 404, None, "summary")
