"""What the tests of /v1/responses share: words for requests, and checks that hold for every answer and stream."""

from __future__ import annotations

import json
from typing import Any

import httpx
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

Event = dict[str, Any]
EVENTS: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)

PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER = {"type": "function", "name": "weather", "description": "Of a city.", "parameters": PARAMETERS}
CALL = '<tool_call>\n{"name": "weather", "arguments": {"city": "Zürich"}}\n</tool_call>'


def respond(http: httpx.Client, input: Any = "hi", **fields: Any) -> httpx.Response:
    return http.post("/v1/responses", json={"input": input, **fields})


def response_of(answer: httpx.Response) -> Response:
    assert answer.status_code == 200, answer.text
    return Response.model_validate(answer.json(), strict=True)


def stream_of(answer: httpx.Response) -> list[Event]:
    """The stream's events, each of which must be one of OpenAI's, in order."""
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("text/event-stream")
    return parsed(answer.text)


def parsed(text: str) -> list[Event]:
    *blocks, rest = text.split("\n\n")
    assert rest == ""
    events = []
    for number, block in enumerate(blocks):
        name, data = block.split("\n")
        event = json.loads(data.removeprefix("data: "))
        assert name == f"event: {event['type']}"
        assert event["sequence_number"] == number
        EVENTS.validate_python(event, strict=True)
        events.append(event)
    return checked(events)


def checked(events: list[Event]) -> list[Event]:
    """Each item is added, written and done before the next; deltas add up; the last event has all items."""
    assert [event["type"] for event in events[:2]] == ["response.created", "response.in_progress"]
    last = events[-1]
    assert last["type"] in ("response.completed", "response.incomplete", "response.failed")
    items: list[Any] = []
    deltas = ""
    item: Any = None
    for event in events[2:-1]:
        kind = event["type"]
        assert event["output_index"] == len(items)
        if kind == "response.output_item.added":
            assert item is None and event["item"]["status"] == "in_progress"
            item, deltas = event["item"], ""
        elif kind == "response.output_item.done":
            assert event["item"]["id"] == item["id"]
            items.append(event["item"])
            item = None
        else:
            assert event["item_id"] == item["id"]
            if kind.endswith(".delta"):
                deltas += event["delta"]
            elif kind.endswith((".done",)) and "part" not in event:
                assert deltas == event.get("text", event.get("arguments", event.get("input")))
    assert item is None
    assert last["response"]["output"] == items
    return events


def kinds(events: list[Event]) -> list[str]:
    """The events' types without `response.`, deltas of one kind once."""
    names = [event["type"].removeprefix("response.") for event in events]
    return [name for place, name in enumerate(names) if place == 0 or name != names[place - 1]]
