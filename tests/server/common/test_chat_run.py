"""One chat run under three APIs: what each tells of calls that are one too many, cut off, or broken off."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncGenerator, Callable
from typing import Any

import httpx
import pytest
from anthropic.types import Message
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from paceline.conversation.parsing.events import CallEnd, CallStart, Content, Event, Reasoning
from paceline.conversation.parsing.formats import OutputFormat
from paceline.requests import ChatRequest
from paceline.server.common.chat_run import ChatDelta, ChatRun
from paceline.server.common.tools import Toolbox
from paceline.server.http.drain import DrainGate
from paceline.server.http.requests import Requests
from paceline.server.metrics import Metrics
from paceline.server.state import AppState
from paceline.settings import Settings
from paceline.types import Delta, PromptInfo, RequestId, Sampling, TokenLogprob, Usage
from tests.server import fake_service
from tests.server.fake_service import FakeService
from tests.server.harness import events, post_chat, user
from tests.server.openai.responses.harness import CALL, PARAMETERS, WEATHER, respond, response_of, stream_of
from tests.waiting import WAIT

TOOL = {"type": "function", "function": {"name": "weather", "parameters": PARAMETERS}}
CLAUDES = {"name": "weather", "input_schema": PARAMETERS}
BROKEN = '<tool_call>\n{"name": "weather", "arguments": {"city": "a"b"}}\n</tool_call>'
Says = Callable[[str], None]


@pytest.fixture(autouse=True)
def format(service: FakeService, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "answer_format", OutputFormat("hermes", "think"))


@pytest.fixture
def says(monkeypatch: pytest.MonkeyPatch) -> Says:
    """The model's answers from now on."""
    return lambda text: monkeypatch.setattr(fake_service, "REPLY", text)


def chat(http: httpx.Client, **fields: Any) -> Any:
    answer = post_chat(http, tools=[TOOL], **fields)
    assert answer.status_code == 200, answer.text
    return ChatCompletion.model_validate(answer.json())


def chat_stream(http: httpx.Client, **fields: Any) -> tuple[list[list[str]], str, str]:
    """The calls as name and arguments, the text, and the reason of the end."""
    calls: dict[int, list[str]] = {}
    text = reason = ""
    for event in events(post_chat(http, tools=[TOOL], stream=True, **fields)):
        [choice] = ChatCompletionChunk.model_validate(event).choices
        text += choice.delta.content or ""
        reason = choice.finish_reason or reason
        for call in choice.delta.tool_calls or ():
            assert call.function is not None
            calls.setdefault(call.index, [call.function.name or "", ""])[1] += call.function.arguments or ""
    return list(calls.values()), text, reason


def message(http: httpx.Client, **fields: Any) -> Any:
    answer = http.post("/v1/messages", json={"max_tokens": 500, "messages": user("hi"), "tools": [CLAUDES], **fields})
    assert answer.status_code == 200, answer.text
    return Message.model_validate(answer.json())


def message_stream(http: httpx.Client, **fields: Any) -> tuple[list[list[str]], str]:
    """The blocks as type and text, and the reason of the end."""
    body = {"max_tokens": 500, "messages": user("hi"), "tools": [CLAUDES], "stream": True, **fields}
    blocks: list[list[str]] = []
    reason = ""
    for line in http.post("/v1/messages", json=body).text.splitlines():
        if not line.startswith("data: "):
            continue
        event = json.loads(line.removeprefix("data: "))
        if event["type"] == "content_block_start":
            blocks.append([event["content_block"]["type"], ""])
        elif event["type"] == "content_block_delta":
            blocks[-1][1] += event["delta"].get("text", event["delta"].get("partial_json", ""))
        elif event["type"] == "message_delta":
            reason = event["delta"]["stop_reason"]
    return blocks, reason


# -- one call at a time


def test_chat_ends_before_a_second_call_where_one_is_allowed(
    http: httpx.Client, service: FakeService, says: Says
) -> None:
    says(f"Look:\n{CALL}\n{CALL}{'and so on' * 50}")
    said = chat(http, parallel_tool_calls=False)
    [choice] = said.choices
    assert (choice.finish_reason, choice.message.content, len(choice.message.tool_calls)) == ("tool_calls", "Look:", 1)
    assert said.usage.completion_tokens < len(f"Look:\n{CALL}\n{CALL}".encode()), "the sequence ended there"
    calls, text, reason = chat_stream(http, parallel_tool_calls=False)
    assert (calls, text, reason) == ([["weather", '{"city": "Zürich"}']], "Look:", "tool_calls")
    assert len(chat(http).choices[0].message.tool_calls) == 2, "and without the field there are two"
    assert service.idle.wait(WAIT)


def test_each_choice_ends_before_its_own_second_call(http: httpx.Client, service: FakeService, says: Says) -> None:
    says(f"{CALL}\n{CALL}")
    for choice in chat(http, parallel_tool_calls=False, n=3).choices:
        assert (choice.finish_reason, len(choice.message.tool_calls)) == ("tool_calls", 1)
    assert service.idle.wait(WAIT)


def test_messages_end_before_a_second_call_where_one_is_allowed(
    http: httpx.Client, service: FakeService, says: Says
) -> None:
    says(f"Look:\n{CALL}\n{CALL}{'and so on' * 50}")
    single = {"tool_choice": {"type": "auto", "disable_parallel_tool_use": True}}
    said = message(http, **single)
    assert ([block.type for block in said.content], said.stop_reason) == (["text", "tool_use"], "tool_use")
    assert said.usage.output_tokens < len(f"Look:\n{CALL}\n{CALL}".encode())
    blocks, reason = message_stream(http, **single)
    assert (blocks, reason) == ([["text", "Look:"], ["tool_use", '{"city": "Zürich"}']], "tool_use")
    assert service.idle.wait(WAIT)


def test_text_after_the_only_call_is_told(http: httpx.Client, says: Says) -> None:
    says(f"{CALL}\nThat is all.")
    [choice] = chat(http, parallel_tool_calls=False).choices
    assert (choice.finish_reason, choice.message.content) == ("tool_calls", "That is all.")


# -- cut by the length: told as far as it came, and never as if it were whole


def test_chat_hands_over_the_beginning_of_a_call_that_the_length_cut(http: httpx.Client, says: Says) -> None:
    says(f"Look:\n{CALL}")
    [choice] = chat(http, max_tokens=62).choices
    [call] = choice.message.tool_calls
    assert (choice.finish_reason, choice.message.content) == ("length", "Look:")
    assert (call.function.name, call.function.arguments) == ("weather", '{"city": "Z')
    calls, text, reason = chat_stream(http, max_tokens=62)
    assert (calls, text, reason) == ([["weather", '{"city": "Z']], "Look:", "length")


def test_responses_call_it_incomplete(http: httpx.Client, says: Says) -> None:
    says(CALL)
    last = stream_of(respond(http, tools=[WEATHER], max_output_tokens=56, stream=True))[-1]["response"]
    for output in (last["output"], respond(http, tools=[WEATHER], max_output_tokens=56).json()["output"]):
        [call] = output
        assert (call["status"], call["arguments"]) == ("incomplete", '{"city": "Z')


def test_messages_close_its_block_in_a_stream_and_tell_it_as_text_in_a_whole(http: httpx.Client, says: Says) -> None:
    """A whole answer's input is an object, and there is none."""
    says(f"Look:\n{CALL}")
    said = message(http, max_tokens=62)
    assert ([block.type for block in said.content], said.stop_reason) == (["text"], "max_tokens")
    assert said.content[0].text == f"Look:\n{CALL}"[:62]
    blocks, reason = message_stream(http, max_tokens=62)
    assert (blocks, reason) == ([["text", "Look:"], ["tool_use", '{"city": "Z']], "max_tokens")


# -- broken off by the model: text


@pytest.mark.parametrize("text", [BROKEN, CALL[:60]])
def test_what_the_model_broke_off_is_text_and_no_call(http: httpx.Client, says: Says, text: str) -> None:
    says(text)
    [choice] = chat(http).choices
    assert (choice.finish_reason, choice.message.tool_calls, choice.message.content) == ("stop", None, text)
    [call], told, reason = chat_stream(http)
    assert (told, reason) == (text, "stop")
    with pytest.raises(ValueError, match="."):
        json.loads(call[1])
    said = message(http)
    assert ([block.type for block in said.content], said.stop_reason) == (["text"], "end_turn")
    assert said.content[0].text == text
    blocks, reason = message_stream(http)
    assert ([block[0] for block in blocks], blocks[1][1], reason) == (["tool_use", "text"], text, "end_turn")
    broken, rest = response_of(respond(http, tools=[WEATHER])).output
    assert broken.type == "function_call" and broken.status == "incomplete"
    assert rest.type == "message" and rest.content[0].type == "output_text" and rest.content[0].text == text
    stream_of(respond(http, tools=[WEATHER], stream=True))


def test_a_call_after_a_broken_one_counts(http: httpx.Client, says: Says) -> None:
    says(f"{BROKEN}\n{CALL}")
    [choice] = chat(http).choices
    assert (choice.finish_reason, len(choice.message.tool_calls)) == ("tool_calls", 1)
    calls, _, reason = chat_stream(http)
    assert ([call[1] for call in calls], reason) == (['{"city": "a"', '{"city": "Zürich"}'], "tool_calls")


# -- deltas that were merged on their way


class Merged(FakeService):
    """Its only delta is several in one."""

    def __init__(self, *parts: Delta) -> None:
        super().__init__()
        self.answer_format = OutputFormat("hermes", "think")
        self.parts = parts

    async def stream_chat(self, request: ChatRequest) -> AsyncGenerator[Delta, None]:
        ids = tuple(token for part in self.parts for token in part.token_ids)
        text, last = "".join(part.text for part in self.parts), self.parts[-1]
        prompt, usage, reason = self.parts[0].prompt, last.usage, last.finish_reason
        yield Delta(text, ids, finish_reason=reason, usage=usage, prompt=prompt, parts=self.parts)


def told_of(service: FakeService, toolbox: Toolbox | None = None) -> tuple[list[ChatDelta], list[dict[str, Any]]]:
    """What a run tells, and its usage whenever it does."""
    metrics = Metrics("m", service.stats)
    state = AppState(service, Settings(), metrics, DrainGate(), Requests(service.abort))
    run = ChatRun(state, ChatRequest(user("hi"), Sampling(), request_id=RequestId("a")), toolbox or Toolbox())

    async def read() -> tuple[list[ChatDelta], list[dict[str, Any]]]:
        told, usages = [], []
        async for delta in run.deltas():
            told.append(delta)
            usages.append(run.counter.usage())
        return told, usages

    return asyncio.run(read())


def test_merged_deltas_of_one_kind_are_told_together() -> None:
    prompt = PromptInfo((1, 2, 3))
    scores = [TokenLogprob(token, -1.0) for token in range(9)]
    texts = ["<think>", "hm", " so", "</think>", "Yes", " it", " is"]
    parts = [
        Delta(text, (token,), (scores[token],), prompt=None if token else prompt) for token, text in enumerate(texts)
    ]
    end = Delta("!", (7, 8), tuple(scores[7:]), "stop", ".", usage=Usage(3, 9))
    told, _ = told_of(Merged(*parts, end))
    spoken = [delta for delta in told if delta.events]
    assert [delta.events for delta in spoken] == [(Reasoning("hm so"),), (Content("Yes it is!"),)]
    assert sum((delta.token_ids for delta in told), ()) == tuple(range(9))
    assert sum((delta.logprobs for delta in told), ()) == tuple(scores)
    assert (told[0].prompt, [delta.prompt for delta in told[1:]]) == (prompt, [None] * (len(told) - 1))
    assert [(delta.finish_reason, delta.stop_reason) for delta in told] == [(None, None)] * (len(told) - 1) + [
        ("stop", ".")
    ]


def test_usage_counts_no_token_that_was_not_told_yet() -> None:
    texts = ["<think>", "hm", "</think>", "Yes", "!"]
    parts = [Delta(text, (token,)) for token, text in enumerate(texts)]
    told, usages = told_of(Merged(*parts, Delta(finish_reason="stop", usage=Usage(3, 6))))
    delivered = list(itertools.accumulate(len(delta.token_ids) for delta in told))
    assert len(told) > 1
    assert [usage["completion_tokens"] for usage in usages] == [*delivered[:-1], 6]  # the end's token has no text


def test_what_comes_merged_behind_the_only_call_is_neither_told_nor_counted() -> None:
    toolbox = Toolbox((TOOL,), parallel=False)
    parts = [Delta(text, (1,)) for text in (CALL, "\n", CALL, " and", " so on")]
    told, usages = told_of(Merged(*parts), toolbox)
    assert [delta.finish_reason for delta in told][-1] == "tool_calls"
    assert sum(isinstance(event, CallEnd) for delta in told for event in delta.events) == 1
    assert usages[-1]["completion_tokens"] == 3


@pytest.mark.parametrize(
    ("first", "second", "both"),
    [
        ((Content("a"),), (Content("b"), Content("c")), (Content("abc"),)),
        ((Reasoning("a"),), (Reasoning("b"),), (Reasoning("ab"),)),
        ((Content("a"),), (Reasoning("b"),), None),
        ((Content("a"),), (CallStart(0, "call", "f"),), None),
        ((Content("a"), Reasoning("b")), (Content("c"),), None),
        ((Content("a"),), (), None),
        ((), (), None),
    ],
)
def test_deltas_of_the_same_kind_become_one(
    first: tuple[Event, ...], second: tuple[Event, ...], both: tuple[Event, ...] | None
) -> None:
    delta, before = ChatDelta(0, first, token_ids=(1,)), ChatDelta(0, first, token_ids=(1,))
    absorbed = delta.absorb(ChatDelta(0, second, finish_reason="stop", stop_reason=7, token_ids=(2, 3)))
    assert absorbed == (both is not None)
    expected = before if both is None else ChatDelta(0, both, (), "stop", 7, token_ids=(1, 2, 3))
    assert delta == expected
