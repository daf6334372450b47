"""One record per HTTP request, when it has ended: for the access log, and for traces. No texts are in it."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from paceline.logs import FIELDS
from paceline.types import Delta

UNLOGGED_PATHS = ("/health", "/ping", "/ready", "/metrics", "/v1/loads", "/loads")  # what probes ask every few seconds
LOST = 499  # nginx's status for a client that went away before it was answered

INNER = ("began", "unfinished", "drafts")  # of the figures: not for the log

access = logging.getLogger("paceline.access")


@dataclass(slots=True)
class Figures:
    """What the engine did for a request: the sum over all of its sequences. Times are of the first that had them."""

    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    accepted_tokens: int = 0
    drafted_tokens: int = 0
    queue_seconds: float | None = None
    first_token_seconds: float | None = None  # since the request came
    finish_reasons: list[str] = field(default_factory=list)
    began: float = field(default_factory=time.perf_counter)
    unfinished: dict[int, int] = field(default_factory=dict)  # tokens so far, by choice
    drafts: dict[int, tuple[int, int]] = field(default_factory=dict)  # accepted and rejected so far, by choice

    def add(self, delta: Delta) -> None:
        if delta.prompt is not None and delta.index == 0:
            self.prompt_tokens += len(delta.prompt.token_ids)
            self.cached_tokens += delta.prompt.cached_tokens
            if self.queue_seconds is None:
                self.queue_seconds = delta.prompt.queued
        if delta.token_ids and self.first_token_seconds is None:
            self.first_token_seconds = time.perf_counter() - self.began
        self.completion_tokens += len(delta.token_ids)
        self.unfinished[delta.index] = self.unfinished.get(delta.index, 0) + len(delta.token_ids)
        if delta.usage is not None:  # also has tokens that were not delivered
            self.completion_tokens += delta.usage.completion_tokens - self.unfinished.pop(delta.index)
            self._count_drafts(delta.index, delta.usage.accepted_tokens, delta.usage.rejected_tokens)
            del self.drafts[delta.index]
        elif any(delta.drafts):
            self._count_drafts(delta.index, *delta.drafts)
        if delta.finish_reason is not None:
            self.finish_reasons.append(delta.finish_reason)

    def _count_drafts(self, index: int, accepted: int, rejected: int) -> None:
        before = self.drafts.get(index, (0, 0))
        self.drafts[index] = accepted, rejected
        self.accepted_tokens += accepted - before[0]
        self.drafted_tokens += accepted + rejected - sum(before)


@dataclass(frozen=True, slots=True)
class RequestRecord:
    address: str
    method: str
    path: str  # without the query
    http_version: str
    status: int
    began: float  # Unix seconds
    seconds: float
    request_id: str
    user: str | None  # the key's place among the keys
    figures: Figures
    traceparent: str | None = None  # W3C's, as the client sent it; and the next one
    tracestate: str | None = None


Sink = Callable[[RequestRecord], None]


class RequestLog:
    """ASGI middleware: gives the sinks a record of every request that is not a probe."""

    def __init__(self, app: ASGIApp, sinks: Sequence[Sink]) -> None:
        self.app = app
        self.sinks = sinks

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"].rstrip("/") in UNLOGGED_PATHS:
            await self.app(scope, receive, send)
            return
        state: dict[str, Any] = scope.setdefault("state", {})
        status, whole, began, clock = LOST, False, time.time(), time.perf_counter()

        async def watched(message: Message) -> None:
            nonlocal status, whole
            if message["type"] == "http.response.start":
                status = message["status"]
            whole = message["type"] == "http.response.body" and not message.get("more_body", False)
            await send(message)

        try:
            await self.app(scope, receive, watched)
        except Exception:
            status = 500
            raise
        finally:
            context = state.get("context")
            figures = Figures() if context is None else context.figures
            left = status == LOST or (status < 500 and not whole)
            if left and not figures.finish_reasons:  # the client went away
                figures.finish_reasons.append("abort")
            record = RequestRecord(
                address=scope["client"][0] if scope.get("client") else "-",
                method=scope["method"],
                path=scope["path"],
                http_version=scope.get("http_version", "1.1"),
                status=status,
                began=began,
                seconds=time.perf_counter() - clock,
                request_id="" if context is None else context.id,
                user=state.get("user"),
                figures=figures,
                traceparent=_header(scope, b"traceparent"),
                tracestate=_header(scope, b"tracestate"),
            )
            for sink in self.sinks:
                sink(record)


def log_access(record: RequestRecord) -> None:
    """The access log: a sink."""
    figures = record.figures
    words = [f'{record.address} - "{record.method} {record.path} HTTP/{record.http_version}" {record.status}']
    words.append(f"{record.seconds:.3f}s {record.user or '-'} {record.request_id}")
    if figures.prompt_tokens:
        words.append(
            f"prompt={figures.prompt_tokens} cached={figures.cached_tokens} output={figures.completion_tokens} "
            f"drafts={figures.accepted_tokens}/{figures.drafted_tokens} queue={_seconds(figures.queue_seconds)} "
            f"first={_seconds(figures.first_token_seconds)}"
        )
    if figures.prompt_tokens or figures.finish_reasons:
        words.append(f"finish={','.join(figures.finish_reasons) or '-'}")
    access.info("%s", " ".join(words), extra={FIELDS: fields(record)})


def fields(record: RequestRecord) -> dict[str, Any]:
    """The same as data, for `--log-format json`."""
    shown = {
        "address": record.address,
        "method": record.method,
        "path": record.path,
        "status": record.status,
        "seconds": round(record.seconds, 4),
        "request_id": record.request_id,
        "user": record.user,
    }
    if record.figures.prompt_tokens or record.figures.finish_reasons:
        shown |= {name: value for name, value in asdict(record.figures).items() if name not in INNER}
    return shown


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}s"


def _header(scope: Scope, name: bytes) -> str | None:
    return next((value.decode("latin-1") for key, value in scope["headers"] if key == name), None)
