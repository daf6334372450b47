"""What the tests of /v1/messages share: requests, checks of answers, and a service that says what it is told."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncGenerator
from typing import Any

import httpx
from anthropic.types import Message, RawMessageStreamEvent
from pydantic import TypeAdapter

from paceline.conversation.parsing.formats import choose_format
from paceline.requests import ChatRequest
from paceline.settings import Settings
from paceline.types import Acceptance, Delta, PromptInfo, Usage
from tests.server.fake_service import FakeService
from tests.server.harness import user
from tests.synthetic.tokenizer import CHAT_TEMPLATE

STREAM_EVENT: TypeAdapter[Any] = TypeAdapter(RawMessageStreamEvent)
TOOL = {
    "name": "look",
    "description": "Looks.",
    "input_schema": {"type": "object", "properties": {"at": {"type": "string"}}, "required": ["at"]},
}
REST = {"name": "rest", "input_schema": {"type": "object", "properties": {}}}
ASK: dict[str, Any] = {"model": "fake/model", "max_tokens": 100, "messages": user("hi")}


class Scripted(FakeService):
    """Says what it is told to say, three characters a token; it thinks and calls tools like a Qwen."""

    def __init__(self, settings: Settings | None = None) -> None:
        super().__init__(settings)
        self.answer_format = choose_format(CHAT_TEMPLATE)
        self.tokenizer.chat_template = CHAT_TEMPLATE
        self.says = "Hello"
        self.ends: dict[str, Any] = {"finish_reason": "stop"}

    def stream_chat(self, request: ChatRequest) -> AsyncGenerator[Delta, None]:
        return self._answer(request)

    async def _answer(self, request: ChatRequest) -> AsyncGenerator[Delta, None]:
        prompt = tuple(self._conversation(request))
        self.requests.append(request)
        tail = "<think>\n" if request.template_options.get("enable_thinking") else ""
        info: PromptInfo | None = PromptInfo(prompt, cached_tokens=1, tail=tail)
        if request.announce:
            yield Delta(accepted=Acceptance(len(prompt), 1))
        pieces = [self.says[at : at + 3] for at in range(0, len(self.says), 3)]
        for piece in pieces:
            yield Delta(text=piece, token_ids=(65,), prompt=info)
            info = None
        yield Delta(prompt=info, usage=Usage(len(prompt), len(pieces), 1), **self.ends)


def post(http: httpx.Client, text: Any = "hi", **fields: Any) -> httpx.Response:
    return http.post("/v1/messages", json={"max_tokens": 100, "messages": user(text), **fields})


def message(response: httpx.Response) -> Message:
    assert response.status_code == 200, response.text
    return Message.model_validate(response.json(), strict=True)


def events(response: httpx.Response) -> list[dict[str, Any]]:
    """A stream's events but for pings, each checked with Anthropic's types."""
    assert response.headers["content-type"].startswith("text/event-stream")
    *parts, rest = response.text.split("\n\n")
    assert rest == ""
    found = []
    for part in parts:
        name, data = part.split("\n")
        event = json.loads(data.removeprefix("data: "))
        assert name == f"event: {event['type']}"
        if event["type"] not in ("ping", "error"):
            STREAM_EVENT.validate_python(event)
        if event["type"] != "ping":
            found.append(event)
    return found


def refused(response: httpx.Response, status: int, kind: str, *words: str) -> str:
    assert response.status_code == status, response.text
    body = response.json()
    assert set(body) == {"type", "error", "request_id"} and set(body["error"]) == {"type", "message"}
    assert (body["type"], body["error"]["type"]) == ("error", kind)
    assert body["request_id"].startswith("req_")
    for word in words:
        assert word in body["error"]["message"]
    return str(body["error"]["message"])


def picture(data: bytes, kind: str = "image/png") -> dict[str, Any]:
    source = {"type": "base64", "media_type": kind, "data": base64.b64encode(data).decode()}
    return {"type": "image", "source": source}
