from __future__ import annotations

from typing import Any

import pytest

from paceline.conversation.parsing.events import (
    CallArguments,
    CallBroken,
    CallEnd,
    CallStart,
    Content,
    Event,
    Reasoning,
)
from paceline.server.anthropic.events import Blocks, thought_in_signature

ANSWER: list[Event] = [
    *(Reasoning("hm"), Reasoning("m"), Content("I "), Content("look")),
    *(CallStart(0, "call_a", "look"), CallArguments(0, '{"at":'), CallArguments(0, ' "x"}'), CallEnd(0)),
    *(CallStart(1, "call_b", "rest"), CallArguments(1, "{}"), CallEnd(1)),
    Content("done"),
]


def streamed(events: list[Event], **options: bool) -> list[dict[str, Any]]:
    """Pushed one by one."""
    blocks = Blocks(**options)
    return [made for event in events for made in blocks.push([event])] + blocks.finish()


def whole(events: list[Event], **options: bool) -> list[dict[str, Any]]:
    blocks = Blocks(**options)
    blocks.push(events)
    return blocks.content()


def test_blocks_come_in_the_order_of_the_answer() -> None:
    assert whole(ANSWER) == [
        {"type": "thinking", "thinking": "hmm", "signature": "paceline"},
        {"type": "text", "text": "I look"},
        {"type": "tool_use", "id": "toolu_a", "name": "look", "input": {"at": "x"}},
        {"type": "tool_use", "id": "toolu_b", "name": "rest", "input": {}},
        {"type": "text", "text": "done"},
    ]


def test_each_block_is_started_filled_and_stopped_before_the_next() -> None:
    events = streamed(ANSWER)
    told = [(event["type"].removeprefix("content_block_"), event["index"]) for event in events]
    delta, start, stop = "delta", "start", "stop"
    assert told == [
        *((start, 0), (delta, 0), (delta, 0), (delta, 0), (stop, 0)),
        *((start, 1), (delta, 1), (delta, 1), (stop, 1)),
        *((start, 2), (delta, 2), (delta, 2), (stop, 2)),
        *((start, 3), (delta, 3), (stop, 3)),
        *((start, 4), (delta, 4), (stop, 4)),
    ]
    kinds = [event["delta"]["type"] for event in events if "delta" in event]
    assert kinds == [
        *("thinking_delta", "thinking_delta", "signature_delta", "text_delta", "text_delta"),
        *("input_json_delta", "input_json_delta", "input_json_delta", "text_delta"),
    ]
    assert events[9]["content_block"] == {"type": "tool_use", "id": "toolu_a", "name": "look", "input": {}}


def test_an_empty_answer_has_no_blocks() -> None:
    assert whole([]) == streamed([]) == []


def broken_off(cut: bool) -> list[Event]:
    call = (CallStart(0, "call_a", "look"), CallArguments(0, '{"at":'), CallBroken(0, '<tool_call>{"at":', cut))
    return [Content("I "), *call]


@pytest.mark.parametrize("cut", [True, False])
def test_a_call_that_is_broken_off_is_text(cut: bool) -> None:
    assert whole(broken_off(cut)) == [{"type": "text", "text": 'I <tool_call>{"at":'}]


def test_a_streamed_call_that_is_cut_is_closed_with_what_came() -> None:
    blocks = Blocks()
    events = blocks.push(broken_off(cut=True)) + blocks.finish()
    assert [event["type"] for event in events[3:]] == [
        *("content_block_start", "content_block_delta", "content_block_stop")
    ]
    assert events[4]["delta"]["partial_json"] == '{"at":'
    assert not blocks.calls


@pytest.mark.parametrize("arguments", ['{"a": 1e999}', '{"a": "\\ud800"}', '{"a": ' + "[" * 9999 + "]" * 9999 + "}"])
def test_arguments_that_cannot_be_written_again_are_text(arguments: str) -> None:
    events: list[Event] = [CallStart(0, "call_a", "look"), CallArguments(0, arguments), CallEnd(0)]
    assert whole(events) == [{"type": "text", "text": arguments}]


def test_omitted_thoughts_travel_in_their_signature() -> None:
    events: list[Event] = [Reasoning("hm "), Reasoning("wörld"), Content("so")]
    [thought, _] = whole(events, omitted=True)
    assert thought["thinking"] == "" and thought_in_signature(thought["signature"]) == "hm wörld"
    told = [event["delta"] for event in streamed(events, omitted=True) if "delta" in event]
    assert told == [
        {"type": "signature_delta", "signature": thought["signature"]},
        {"type": "text_delta", "text": "so"},
    ]


@pytest.mark.parametrize("signature", [None, 5, "", "paceline", "paceline:###", "paceline:/w==", "EqQBCg"])
def test_a_signature_of_somebody_else_carries_nothing(signature: Any) -> None:
    assert thought_in_signature(signature) == ""
