"""Traces, against a receiver of OTLP in this process."""

from __future__ import annotations

import json
import re
import socket
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import BadStatusLine
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
import pytest

from paceline.errors import SettingsError
from paceline.server import tracing
from paceline.server.http.request_log import Figures, RequestRecord
from paceline.server.tracing import Tracer, span
from paceline.settings import Settings
from tests.server.fake_service import FakeService
from tests.server.harness import post_chat, serve
from tests.waiting import WAIT, until

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
RECORD = RequestRecord("127.0.0.1", "POST", "/v1/x", "1.1", 200, 1000.0, 2.0, "req_1", "key-1", Figures(), None)


class Receiver:
    def __init__(self) -> None:
        self.requests: list[tuple[str, dict[str, str], Any]] = []
        self.status = 200

    @property
    def spans(self) -> list[dict[str, Any]]:
        bodies = [body for _, _, body in self.requests]
        return [one for body in bodies for one in body["resourceSpans"][0]["scopeSpans"][0]["spans"]]


@contextmanager
def receiving() -> Iterator[tuple[str, Receiver]]:
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            receiver.requests.append((self.path, {k.lower(): v for k, v in self.headers.items()}, body))
            self.send_response(receiver.status)
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *arguments: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", receiver
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def attributes(span: dict[str, Any]) -> dict[str, Any]:
    return {one["key"]: next(iter(one["value"].values())) for one in span["attributes"]}


def test_a_request_is_one_span_in_the_clients_trace() -> None:
    with receiving() as (url, receiver):
        settings = Settings.load({"otlp": url, "served_model_name": "tiny"}, None, {})
        with serve(FakeService(settings), settings) as address, httpx.Client(base_url=address, timeout=WAIT) as http:
            http.headers.update({"traceparent": f"00-{TRACE}-{PARENT}-01", "tracestate": "vendor=1"})
            answer = post_chat(http, max_tokens=5, speculation=2)
            http.get("/v1/models")
        [(path, _, body)] = receiver.requests
    [seen] = receiver.spans
    assert path == "/v1/traces"
    resource = attributes(body["resourceSpans"][0]["resource"])
    assert resource["service.name"] == "paceline"
    assert (seen["traceId"], seen["parentSpanId"], seen["kind"]) == (TRACE, PARENT, 2)
    assert seen["traceState"] == "vendor=1"
    assert re.fullmatch(r"[0-9a-f]{16}", seen["spanId"]) and seen["name"] == "POST /v1/chat/completions"
    assert int(seen["endTimeUnixNano"]) > int(seen["startTimeUnixNano"])
    said = attributes(seen)
    assert said["paceline.request_id"] == answer.headers["x-request-id"]
    assert (said["gen_ai.response.model"], said["http.response.status_code"]) == ("tiny", "200")
    assert (said["gen_ai.usage.output_tokens"], said["paceline.cached_tokens"]) == ("5", "1")
    assert (said["paceline.accepted_tokens"], said["paceline.drafted_tokens"]) == ("2", "6")
    assert {"paceline.queue_seconds", "paceline.prefill_seconds", "paceline.decode_seconds"} <= said.keys()


def test_without_the_setting_there_is_no_thread() -> None:
    before = {thread.name for thread in threading.enumerate()}
    with serve(FakeService(), Settings()) as address, httpx.Client(base_url=address, timeout=WAIT) as http:
        post_chat(http)
        assert "paceline-otlp" not in {thread.name for thread in threading.enumerate()} - before


@pytest.mark.parametrize(
    "given", [None, "", "garbage", f"00-{'0' * 32}-{PARENT}-01", f"00-{TRACE}-{'0' * 16}-01", f"01-{TRACE}"]
)
def test_without_a_valid_context_a_trace_begins(given: str | None) -> None:
    seen = span(replaced(traceparent=given), "m")
    assert seen is not None and "parentSpanId" not in seen and re.fullmatch(r"[0-9a-f]{32}", seen["traceId"])


@pytest.mark.parametrize(
    ("given", "taken"),
    [("01-{}", True), ("cc-{}-what-comes", True), ("00-{}-what-comes", False), ("01-{}more", False), ("ff-{}", False)],
)
def test_later_versions_of_the_context_are_read_as_far_as_they_are_known(given: str, taken: bool) -> None:
    seen = span(replaced(traceparent=given.format(f"{TRACE}-{PARENT}-01"), tracestate="a=1"), "m")
    assert seen is not None
    assert (seen["traceId"] == TRACE, seen.get("parentSpanId") == PARENT) == (taken, taken)
    assert seen.get("traceState") == ("a=1" if taken else None)


def test_a_trace_that_the_client_does_not_sample_gets_no_span() -> None:
    assert span(replaced(traceparent=f"00-{TRACE}-{PARENT}-00"), "m") is None


def test_an_error_of_the_server_is_an_error_of_the_span() -> None:
    broken, refused = span(replaced(status=503), "m"), span(replaced(status=429), "m")
    assert broken is not None and refused is not None
    assert (broken["status"], refused["status"]) == ({"code": 2}, {})


def test_headers_and_the_services_name_come_from_opentelemetrys_variables() -> None:
    env = {"OTEL_SERVICE_NAME": "mine", "OTEL_EXPORTER_OTLP_HEADERS": "x-token=a=b, other=c, x%2Dthird=Basic%20a%3D%2C"}
    with receiving() as (url, receiver):
        tracer = Tracer(f"{url}/v1/traces/", "m", env)
        tracer.add(RECORD)
        tracer.stop()
    [(path, headers, body)] = receiver.requests
    assert (path, headers["x-token"], headers["other"]) == ("/v1/traces", "a=b", "c")
    assert headers["x-third"] == "Basic a=,"  # percent-encoded, as the specification has it
    assert attributes(body["resourceSpans"][0]["resource"])["service.name"] == "mine"


def test_many_spans_are_sent_together() -> None:
    with receiving() as (url, receiver):
        tracer = Tracer(url, "m", {})
        for _ in range(600):
            tracer.add(RECORD)
        tracer.stop()
    assert len(receiver.spans) == 600 and len(receiver.requests) < 10 and tracer.lost == 0


def test_a_collector_that_is_not_there_is_one_plain_line(caplog: pytest.LogCaptureFixture) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    tracer = Tracer(url, "m", {})
    tracer.add(RECORD)
    tracer.stop()
    [line] = [message for message in caplog.messages if "traces cannot be sent" in message]
    assert "refused" in line and "urlopen" not in line


def test_a_collector_that_fails_costs_spans_and_one_line(caplog: pytest.LogCaptureFixture) -> None:
    with receiving() as (url, receiver):
        receiver.status = 500
        tracer = Tracer(url, "m", {})
        tracer.add(RECORD)
        until(lambda: tracer.lost == 1)
        tracer.add(RECORD)
        tracer.stop()
    assert tracer.lost == 2
    assert len([record for record in caplog.records if "traces cannot be sent" in record.getMessage()]) == 1


def test_what_is_no_http_costs_spans_and_not_the_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(request: object, timeout: float) -> None:
        raise BadStatusLine("SSH-2.0")

    monkeypatch.setattr(urllib.request, "urlopen", answer)
    tracer = Tracer("http://127.0.0.1:9", "m", {})
    tracer.add(RECORD)
    until(lambda: tracer.lost == 1)
    tracer.add(RECORD)
    until(lambda: tracer.lost == 2)
    tracer.stop()


def test_spans_that_nobody_takes_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracing, "MAX_WAITING", 10)
    monkeypatch.setattr(Tracer, "_run", lambda self: None)
    tracer = Tracer("http://127.0.0.1:9", "m", {})
    for _ in range(15):
        tracer.add(RECORD)
    assert tracer.lost == 5
    tracer.stop()


@pytest.mark.parametrize("value", ["127.0.0.1:4318", "ftp://x", "http://", "http://user@host"])
def test_an_address_must_be_one(value: str) -> None:
    with pytest.raises((SettingsError, ValueError)):
        Settings.load({"otlp": value}, None, {})


def replaced(**values: Any) -> RequestRecord:
    from dataclasses import replace

    return replace(RECORD, **values)
