"""Responses that run without their client."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import httpx
import openai
import pytest

from paceline.errors import InvalidRequest
from paceline.host_memory import HostMemory
from paceline.server import app
from paceline.server.http.body import BODY_BYTES, SMALL
from paceline.server.http.drain import DrainGate
from paceline.server.openai.responses import background as module
from paceline.server.openai.responses.background import Background, EventLog
from paceline.settings import Settings
from tests.server.fake_service import REPLY, FakeService
from tests.server.harness import refused, serve
from tests.server.openai.responses.harness import respond, response_of, stream_of
from tests.server.sdk_types import sent
from tests.waiting import WAIT, until


def ended(http: httpx.Client, id: str) -> dict[str, Any]:
    deadline = time.monotonic() + WAIT
    while time.monotonic() < deadline:
        answer = response_of(http.get(f"/v1/responses/{id}"))
        if answer.status not in ("queued", "in_progress"):
            return answer.to_dict()
        time.sleep(0.02)
    raise AssertionError(id)


def test_a_background_response_is_there_at_once_and_done_later(
    http: httpx.Client, client: openai.OpenAI, service: FakeService
) -> None:
    first = response_of(respond(http, "!hang 2", background=True))
    assert first.status == "queued" and first.background and first.output == [] and first.usage is None
    assert service.hanging.wait(WAIT)
    assert client.responses.retrieve(first.id).status == "in_progress"
    service.release()
    done = ended(http, first.id)
    assert done["status"] == "completed" and done["background"] is True
    assert client.responses.retrieve(first.id).output_text == REPLY


def test_a_background_response_is_cancelled(http: httpx.Client, client: openai.OpenAI, service: FakeService) -> None:
    id = respond(http, "!hang 2", background=True).json()["id"]
    assert service.hanging.wait(WAIT)
    assert client.responses.cancel(id).status == "cancelled"
    assert ended(http, id)["status"] == "cancelled"
    assert service.idle.wait(WAIT)


def test_a_cancelled_response_is_cancelled_at_once(http: httpx.Client, client: openai.OpenAI) -> None:
    for _ in range(5):
        id = respond(http, "!hang 2", background=True).json()["id"]
        assert client.responses.cancel(id).status == "cancelled"
        assert client.responses.retrieve(id).status == "cancelled"


def test_a_response_that_still_runs_cannot_be_gone_on_from(http: httpx.Client, service: FakeService) -> None:
    id = respond(http, "!hang 2", background=True).json()["id"]
    assert service.hanging.wait(WAIT)
    refused(respond(http, previous_response_id=id), 400, "previous_response_id", "still runs")
    service.release()
    ended(http, id)
    assert respond(http, previous_response_id=id).status_code == 200


def test_a_response_that_was_cancelled_can_be_gone_on_from_at_once(http: httpx.Client, service: FakeService) -> None:
    id = respond(http, "!hang 2", background=True).json()["id"]
    assert service.hanging.wait(WAIT)
    assert http.post(f"/v1/responses/{id}/cancel").json()["status"] == "cancelled"
    asked = {"input": "And?", "previous_response_id": id}
    assert http.post("/v1/responses/input_tokens", json=asked).status_code == 200


def test_a_background_response_that_fails_keeps_its_error(http: httpx.Client) -> None:
    for text, words in (("!fail 2", "the sampler broke"), ("!refuse-queue_full 0", "not now"), ("!crash", "log")):
        done = ended(http, respond(http, text, background=True).json()["id"])
        assert done["status"] == "failed" and words in done["error"]["message"]


def test_a_background_stream_can_be_left_and_read_again(http: httpx.Client, service: FakeService) -> None:
    with http.stream("POST", "/v1/responses", json={"input": "!hang 2", "background": True, "stream": True}) as answer:
        text = ""
        for piece in answer.iter_text():
            text += piece
            if "output_text.delta" in text:
                break
    begun = sent(text[: text.rindex("\n\n")])
    id = begun[0]["response"]["id"]
    assert service.hanging.wait(WAIT)
    service.release()
    assert ended(http, id)["status"] == "completed"
    whole = stream_of(http.get(f"/v1/responses/{id}", params={"stream": True}))
    assert whole[: len(begun)] == begun and whole[-1]["type"] == "response.completed"
    later = http.get(f"/v1/responses/{id}", params={"stream": True, "starting_after": 3})
    assert '"sequence_number":4' in later.text.split("\n\n")[0] and later.text.count("\n\n") == len(whole) - 4
    assert http.get(f"/v1/responses/{id}", params={"stream": True, "starting_after": 9999}).text == ""
    assert http.delete(f"/v1/responses/{id}").status_code == 200
    refused(http.get(f"/v1/responses/{id}", params={"stream": True}), 404, None)


def test_a_background_stream_that_cannot_begin_has_a_status(http: httpx.Client) -> None:
    refused(respond(http, "!refuse-queue_full 0", background=True, stream=True), 429, None, "not now")
    id = respond(http).json()["id"]
    refused(http.get(f"/v1/responses/{id}", params={"stream": True}), 400, "stream", "background")


@pytest.mark.parametrize("stream", [False, True])
def test_its_body_holds_memory_until_it_ends(monkeypatch: pytest.MonkeyPatch, stream: bool) -> None:
    memory = HostMemory(16 << 20)
    monkeypatch.setattr(app, "body_memory", lambda settings: memory)
    service = FakeService()
    with serve(service, Settings()) as address, httpx.Client(base_url=address, timeout=WAIT) as http:
        body = {"input": "!hang 2", "background": True, "stream": stream, "padding": "x" * 2 * SMALL}
        with http.stream("POST", "/v1/responses", json=body) as answer:
            pieces = answer.iter_text()
            next(pieces)
            assert service.hanging.wait(WAIT)
            http.get("/v1/models")  # whoever is done with the other answer is done
            assert memory.held > 2 * SMALL * BODY_BYTES
            service.release()
            "".join(pieces)
        until(lambda: memory.held == 0)
    assert memory.held == 0


async def test_readers_of_a_log_get_what_is_there_and_what_comes() -> None:
    log = EventLog()
    log.add(b"a\n\nb\n\n")
    first = log.read()
    assert await anext(first) == b"a\n\nb\n\n"
    late = asyncio.create_task(anext(first))
    await asyncio.sleep(0)
    log.add(b"c\n\n")
    assert await late == b"c\n\n"
    log.end()
    assert [piece async for piece in first] == []
    assert [piece async for piece in log.read(2)] == [b"c\n\n"]
    assert [piece async for piece in log.read(3)] == [b""]


class Quick:
    def __init__(self, id: str, *events: bytes) -> None:
        self.id = id
        self.given = events
        self.error: Exception | None = None

    async def events(self) -> Any:
        for event in self.given:
            yield event

    def fail(self, error: Exception) -> None:
        self.error = error


async def test_a_server_that_stops_waits_for_it_and_old_logs_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_LOGS", 2)
    monkeypatch.setattr(module, "MAX_BYTES", 4)
    gate = DrainGate()
    background = Background(gate)
    for id in ("a", "b", "c"):
        background.start(Quick(id, b"x\n\n"), streamed=True)
    background.start(Quick("long", b"x\n\n", b"y\n\n"), streamed=True)
    assert gate.inside == 4
    assert await gate.emptied(WAIT)
    assert background.log("c").ended
    for id in ("a", "long"):
        with pytest.raises(InvalidRequest):
            background.log(id)
