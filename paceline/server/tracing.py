"""OpenTelemetry traces (`--otlp URL`): one span per request that works, sent as OTLP over HTTP in its JSON form.

That form needs no library. Spans wait in a bounded queue and are sent by a thread of their own: a collector that is
slow or gone costs spans, and never a request. Without the setting there is neither queue nor thread.
"""

from __future__ import annotations

import json
import logging
import os
import queue
import re
import secrets
import threading
import urllib.request
from collections.abc import Mapping
from contextlib import suppress
from http.client import HTTPException
from typing import Any
from urllib.error import URLError
from urllib.parse import unquote

from paceline import __version__
from paceline.server.http.request_log import RequestRecord

PATH = "/v1/traces"
MAX_WAITING = 4096  # spans
MAX_SENT = 256  # in one request
PAUSE_SECONDS = 1.0  # between two requests: spans are collected meanwhile
TIMEOUT_SECONDS = 10.0
PARENT = re.compile(  # a version after 00 may have more at its end
    r"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})((?<!^00.{53})-.*)?"
)
SERVER_KIND = 2
ERROR_STATUS = 2

logger = logging.getLogger("paceline.server")


class Tracer:
    """`add` is a sink of request records."""

    def __init__(self, url: str, model_name: str, env: Mapping[str, str] = os.environ) -> None:
        url = url.rstrip("/")
        self.url = url if url.endswith(PATH) else f"{url}{PATH}"
        self.model_name = model_name
        self.lost = 0  # spans that no collector has
        self._service = env.get("OTEL_SERVICE_NAME", "paceline")
        self._headers = dict(_pairs(env.get("OTEL_EXPORTER_OTLP_HEADERS", "")))
        self._spans: queue.Queue[dict[str, Any] | None] = queue.Queue(MAX_WAITING)
        self._stopping = threading.Event()
        self._failing = False
        self._thread = threading.Thread(target=self._run, name="paceline-otlp", daemon=True)
        self._thread.start()

    def add(self, record: RequestRecord) -> None:
        if record.method != "POST" or (made := span(record, self.model_name)) is None:
            return
        try:
            self._spans.put_nowait(made)
        except queue.Full:
            self.lost += 1

    def stop(self) -> None:
        """Sends what waits, for as long as one request may take."""
        self._stopping.set()
        with suppress(queue.Full):
            self._spans.put_nowait(None)  # wakes the thread
        self._thread.join(TIMEOUT_SECONDS)

    def _run(self) -> None:
        while True:
            spans = self._taken()
            if spans:
                self._send(spans)
            if self._stopping.is_set() and self._spans.empty():
                return
            self._stopping.wait(PAUSE_SECONDS)

    def _taken(self) -> list[dict[str, Any]]:
        """The spans that wait, at least one, unless the tracer stops."""
        taken = [self._spans.get()]
        while len(taken) < MAX_SENT and not self._spans.empty():
            taken.append(self._spans.get())
        return [one for one in taken if one is not None]

    def _send(self, spans: list[dict[str, Any]]) -> None:
        resource = {"attributes": _attributes({"service.name": self._service, "service.version": __version__})}
        scope = {"scope": {"name": "paceline", "version": __version__}, "spans": spans}
        body = json.dumps({"resourceSpans": [{"resource": resource, "scopeSpans": [scope]}]}).encode()
        headers = {"content-type": "application/json", **self._headers}
        try:
            request = urllib.request.Request(self.url, body, headers, method="POST")
            with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as response:
                response.read()
            self._failing = False
        except (OSError, ValueError, HTTPException) as error:
            self.lost += len(spans)
            reason = str(error.reason if type(error) is URLError else error)
            if not self._failing:  # once, until it works again
                logger.warning("traces cannot be sent to %s: %s", self.url, reason)
            self._failing = True


def span(record: RequestRecord, model_name: str) -> dict[str, Any] | None:
    """A request as a span. None: the client's trace is not sampled."""
    parent = PARENT.fullmatch(record.traceparent or "")
    if parent is not None and not int(parent[3], 16) & 1:
        return None
    figures = record.figures
    attributes: dict[str, Any] = {
        "http.request.method": record.method,
        "url.path": record.path,
        "http.response.status_code": record.status,
        "client.address": record.address,
        "user.id": record.user,
        "paceline.request_id": record.request_id,
    }
    if figures.prompt_tokens:
        first, queued = figures.first_token_seconds, figures.queue_seconds
        attributes |= {
            "gen_ai.provider.name": "paceline",
            "gen_ai.response.model": model_name,
            "gen_ai.usage.input_tokens": figures.prompt_tokens,
            "gen_ai.usage.output_tokens": figures.completion_tokens,
            "gen_ai.response.finish_reasons": figures.finish_reasons,
            "paceline.cached_tokens": figures.cached_tokens,
            "paceline.drafted_tokens": figures.drafted_tokens,
            "paceline.accepted_tokens": figures.accepted_tokens,
            "paceline.queue_seconds": queued,
            "paceline.prefill_seconds": None if first is None else max(first - (queued or 0.0), 0.0),
            "paceline.decode_seconds": None if first is None else max(record.seconds - first, 0.0),
        }
    made: dict[str, Any] = {
        "traceId": parent[1] if parent else secrets.token_hex(16),
        "spanId": secrets.token_hex(8),
        "name": f"{record.method} {record.path}",
        "kind": SERVER_KIND,
        "startTimeUnixNano": str(int(record.began * 1e9)),
        "endTimeUnixNano": str(int((record.began + record.seconds) * 1e9)),
        "attributes": _attributes(attributes),
        "status": {"code": ERROR_STATUS} if record.status >= 500 else {},
    }
    if parent is None:
        return made
    state = {"traceState": record.tracestate} if record.tracestate else {}
    return {**made, "parentSpanId": parent[2], **state}


def _attributes(values: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": _value(value)} for key, value in values.items() if value is not None]


def _value(value: Any) -> dict[str, Any]:
    match value:
        case int():
            return {"intValue": str(value)}
        case float():
            return {"doubleValue": value}
        case list():
            return {"arrayValue": {"values": [_value(item) for item in value]}}
        case _:
            return {"stringValue": str(value)}


def _pairs(text: str) -> list[tuple[str, str]]:
    """As OpenTelemetry writes headers in a variable: `name=value,name=value`, percent-encoded."""
    parts = (part.partition("=") for part in text.split(",") if "=" in part)
    return [(unquote(name.strip()), unquote(value.strip())) for name, _, value in parts]
