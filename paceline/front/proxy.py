"""A request on its way to a model's process, and the answer on its way back, piece by piece.

The body is read whole, within the limits of `http/body`, because the model's name is in it. The answer is passed on as
it comes: a client that does not read stops the reading here, and so the process notices. A client that goes away closes
the connection to the process, which ends the work.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any

from fastapi import Request, Response
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from paceline.errors import EngineUnavailable, InvalidRequest
from paceline.front.client import Broken
from paceline.front.client import Response as Incoming
from paceline.front.pool import Pool, Slot
from paceline.front.worker_process import WorkerProcess
from paceline.server.http.auth import is_admin
from paceline.server.http.behind_front import HEADERS, identity_headers
from paceline.server.http.body import read_object
from paceline.server.http.errors import Cancelled, NotFound, dialect_of
from paceline.server.http.identity import current
from paceline.server.http.response import encode_json, named_events, sender, unless_disconnected
from paceline.server.openai.envelope import DONE

MAX_NAMES = 32  # models that an error lists
LONGEST_NAME = 200  # characters of a name that are quoted
RESPONSES, MESSAGES = "/v1/responses", "/v1/messages"

# Of one connection, not of the request; and what was meant for the front.
HOP = frozenset(
    (b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization", b"te", b"trailer", b"upgrade")
    + (b"transfer-encoding", b"content-length", b"expect", b"authorization", b"x-api-key", b"cookie", b"x-request-id")
    + HEADERS
)
HOP_BACK = frozenset((b"connection", b"keep-alive", b"transfer-encoding", b"date", b"server"))  # the front has its own

logger = logging.getLogger("paceline.front")


async def read_fields(request: Request) -> tuple[bytes, Mapping[str, Any]]:
    """The body, and the JSON object in it. Raises InvalidRequest, as a model's process would."""
    body, fields, _ = await read_object(request, lambda fields: None)
    return body, fields


class Proxy:
    def __init__(self, pool: Pool) -> None:
        self.pool = pool

    async def chosen(self, name: Any) -> Slot:
        """The model that a request names. Raises UnknownModel with the names of all."""
        if name is not None and not isinstance(name, str):
            raise InvalidRequest.at("model", "must be text.")
        catalog = self.pool.catalog
        if name and catalog.named(name) is None:
            await self.pool.refresh()
        entry = catalog.find(name or None)
        if entry is None:
            raise UnknownModel(str(name), [known.name for known in self.pool.catalog.entries()])
        return self.pool.slot(entry)

    async def by_model(self, request: Request) -> Response:
        """To the model that the body names; Ollama calls it `name` too."""
        body, fields = await read_fields(request)
        slot = await self.chosen(fields.get("model", fields.get("name")))
        return Forwarded(self.pool, request, [slot], body, may_load=_streams(request, fields))

    async def by_id(self, request: Request) -> Response:
        """To the one that knows the id in the path: all that are loaded are asked."""
        body = await request.body()
        slots = self.pool.resident()
        if not slots:
            raise NotFound("This id is not known here: no model is loaded, and ids end with their model's process.")
        return Forwarded(self.pool, request, slots, body, may_load=True)

    async def watching(self, request: Request) -> Response:
        """To a model that is loaded: the one of the query, or the first. To be watched keeps none of them loaded."""
        asked = request.query_params.get("model")
        slots = self.pool.resident() if asked is None else [await self.chosen(asked)]
        slot = next((slot for slot in slots if slot.state == "resident" and slot.worker is not None), None)
        if slot is None or slot.worker is None:
            raise EngineUnavailable(
                "No model is loaded: there is nothing to watch."
                if asked is None
                else f"The model {slots[0].name!r} is not loaded: there is nothing to watch."
            )
        return Watched(self.pool, request, slot, slot.worker)


class UnknownModel(NotFound):
    code = "model_not_found"

    def __init__(self, asked: str, known: Sequence[str]) -> None:
        names = ", ".join(map(repr, known[:MAX_NAMES]))
        more = f" and {len(known) - MAX_NAMES} more (GET /v1/models)" if len(known) > MAX_NAMES else ""
        super().__init__(
            f"The model {asked[:LONGEST_NAME]!r} does not exist here; this server has {names}{more}. Ask for one of "
            "those, or start the server with --default-model NAME for requests like this.",
            field="model",
        )


class Forwarded(Response):
    """The answer of the first of these models' processes that does not say 404; of the last one whatever it says."""

    def __init__(self, pool: Pool, request: Request, slots: Sequence[Slot], body: bytes, *, may_load: bool) -> None:
        super().__init__()
        self.pool = pool
        self.slots = slots
        self.content = body
        self.may_load = may_load
        address = request.client.host if request.client is not None else ""
        self.sent = [(name, value) for name, value in request.scope["headers"] if name not in HOP]
        self.sent += identity_headers(address, current().owner, is_admin(request))
        self.sent += [(b"x-request-id", current().id.encode()), (b"content-length", str(len(body)).encode())]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with suppress(ClientDisconnect):
            await unless_disconnected(receive, self._forward(scope, send))

    async def _forward(self, scope: Scope, send: Send) -> None:
        target = scope.get("raw_path") or scope["path"].encode()
        if scope["query_string"]:
            target += b"?" + scope["query_string"]
        for place, slot in enumerate(self.slots):
            last = place + 1 == len(self.slots)
            if slot.state != "resident" and not last:  # it has left meanwhile, and is not loaded for this
                continue
            async with self._worker(slot) as worker:
                try:
                    async with worker.client.request(scope["method"], target, self.sent, self.content) as incoming:
                        if incoming.status == 404 and not last:
                            continue
                        await _pass_on(incoming, slot.name, scope, send)
                        return
                except Broken as broken:
                    raise EngineUnavailable(gone(slot.name, worker.failure)) from broken

    @asynccontextmanager
    async def _worker(self, slot: Slot) -> AsyncIterator[WorkerProcess]:
        """The model's process. Until there is one, this is where the request can be cancelled."""
        context, task = current(), asyncio.current_task()
        assert task is not None

        def cancel() -> None:
            task.cancel()

        async with AsyncExitStack() as stack:
            context.on_cancel.append(cancel)
            try:
                worker = await stack.enter_async_context(self.pool.using(slot, may_load=self.may_load))
            except asyncio.CancelledError:
                if not context.cancelled:
                    raise
                raise Cancelled from None
            finally:
                context.on_cancel.remove(cancel)
            yield worker


class Watched(Forwarded):
    """What a process says about itself. It does not count as work of the model."""

    def __init__(self, pool: Pool, request: Request, slot: Slot, worker: WorkerProcess) -> None:
        super().__init__(pool, request, [slot], b"", may_load=True)
        self.worker = worker

    @asynccontextmanager
    async def _worker(self, slot: Slot) -> AsyncIterator[WorkerProcess]:
        yield self.worker


async def _pass_on(incoming: Incoming, name: str, scope: Scope, send: Send) -> None:
    path: str = scope["path"]
    headers = [header for header in incoming.headers if header[0] not in HOP_BACK]
    kind = dict(headers).get(b"content-type", b"")
    write = sender(scope, send, sized=b"content-length" in dict(headers))
    await send({"type": "http.response.start", "status": incoming.status, "headers": headers})
    told = ResponseEvents() if path.startswith(RESPONSES) else None
    try:
        async for piece in incoming.body():
            if told is not None:
                told.add(piece)
            await write(piece)
    except Broken:
        error = EngineUnavailable(gone(name, None))
        logger.warning("%s", error)
        if (event := _error_event(error, kind, path, told)) is None:
            return  # uvicorn cuts the connection: nothing else says that an answer is not whole
        await write(event)
    await send({"type": "http.response.body", "body": b""})


class ResponseEvents:
    """What must be known of a stream of /v1/responses to end it: its response as it began, and the last number."""

    def __init__(self) -> None:
        self.response: dict[str, Any] | None = None
        self.number = -1
        self._rest = b""

    def add(self, piece: bytes) -> None:
        *events, self._rest = (self._rest + piece).split(b"\n\n")
        for event in events:
            data = event.partition(b"data: ")[2]
            if self.response is None:
                with suppress(ValueError, AttributeError):
                    self.response = json.loads(data).get("response")
            if number := NUMBER.search(data):
                self.number = int(number[1])

    def failed(self, error: Exception) -> bytes | None:
        """None: it had not begun."""
        if self.response is None:
            return None
        response = {
            **self.response,
            "status": "failed",
            "error": {"code": "server_error", "message": str(error)},
        }
        return named_events([{"type": "response.failed", "sequence_number": self.number + 1, "response": response}])


NUMBER = re.compile(rb'"sequence_number":\s*(\d+)')


def _error_event(error: Exception, kind: bytes, path: str, told: ResponseEvents | None) -> bytes | None:
    """The end of a stream that broke, as its API writes it; None: it is no stream."""
    body = encode_json(dialect_of(path).error_body(error))
    if kind.startswith(b"application/x-ndjson"):
        return f"{body}\n".encode()
    if not kind.startswith(b"text/event-stream"):
        return None
    if told is not None and (failed := told.failed(error)) is not None:
        return failed
    if told is not None or path.startswith(MESSAGES):
        return f"event: error\ndata: {body}\n\n".encode()
    return f"data: {body}\n\n".encode() + DONE


def gone(name: str, failure: str | None) -> str:
    why = f" ({failure})" if failure else ""
    return f"The process of the model {name!r} ended before its answer did{why}. It is started again when it is needed."


def _streams(request: Request, fields: Mapping[str, Any]) -> bool:
    """Whether the answer is a stream, which its model's process keeps alive while the model loads. Ollama streams
    unless it is told not to."""
    stream = fields.get("stream")
    if fields.get("background"):
        return False
    return stream is not False if request.url.path in ("/api/chat", "/api/generate") else stream is True
