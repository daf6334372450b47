"""What /v1/responses makes of an answer: items, and the events of their stream."""

from __future__ import annotations

from typing import Any

import httpx

from tests.server.fake_service import FakeService
from tests.server.openai.responses.harness import CALL, WEATHER, kinds, respond, response_of, stream_of
from tests.waiting import WAIT


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
    assert "".join(score.token for score in scores) == "Hi!"  # without the mark that ends the reasoning
    assert all(len(score.top_logprobs) == 2 for score in scores)
    assert "m" not in [score.token for score in scores]
    events = stream_of(respond(http, stream=True, **fields))
    streamed = [each for event in events if event["type"].endswith("text.delta") for each in event.get("logprobs", [])]
    assert [score["token"] for score in streamed] == [score.token for score in scores]
    none = response_of(respond(http)).output[-1]
    assert none.type == "message" and none.content[0].type == "output_text" and none.content[0].logprobs == []


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
    events = stream_of(respond(http, tools=[WEATHER], max_output_tokens=55, stream=True))
    assert kinds(events)[-3:] == ["function_call_arguments.done", "output_item.done", "incomplete"]
    assert events[-3]["arguments"] == call["arguments"]


def test_a_call_that_the_model_breaks_off_is_text_too(http: httpx.Client, format: None, says: Any) -> None:
    says('<tool_call>\n{"name": "weather", "arguments": {"city": "Zü')
    for response in (
        respond(http, tools=[WEATHER]).json(),
        stream_of(respond(http, tools=[WEATHER], stream=True))[-1]["response"],
    ):
        call, text = response["output"]
        assert (call["status"], text["type"], response["status"]) == ("incomplete", "message", "completed")
        assert call["arguments"] == '{"city": "Zü'
        assert text["content"][0]["text"].startswith("<tool_call>")
