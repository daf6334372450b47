"""The application, and the process that runs it."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import shlex
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from socket import socket

import uvicorn
from fastapi import APIRouter, FastAPI
from rich.console import Console
from starlette.middleware.cors import CORSMiddleware

from paceline import __version__
from paceline.errors import EngineFailed
from paceline.logs import FIELDS
from paceline.preflight import listen
from paceline.server import loads, not_implemented, status, status_stream
from paceline.server.anthropic import messages
from paceline.server.anthropic import models as anthropic_models
from paceline.server.common.unknown_fields import HEADER
from paceline.server.http import errors, limits, requests
from paceline.server.http.auth import ApiKeys, Auth, KnownHosts, guarded, is_loopback
from paceline.server.http.behind_front import BehindFront, FromFront
from paceline.server.http.body import BodyLimit, UnreadBody, body_memory
from paceline.server.http.drain import DrainGate, DrainingServer, DrainMiddleware
from paceline.server.http.openapi import Application
from paceline.server.http.paths import HeadAsGet, Versioned, names_below_version
from paceline.server.http.request_log import RequestLog, Sink, log_access
from paceline.server.http.requests import WithoutTrailingSlash
from paceline.server.metrics import Metrics
from paceline.server.ollama import answer as ollama_answer
from paceline.server.ollama import embeddings as ollama_embeddings
from paceline.server.ollama import models as ollama_models
from paceline.server.openai import chat, completions, embeddings, loras, models, rerank
from paceline.server.openai.batches import endpoint as batches
from paceline.server.openai.responses import endpoint as responses
from paceline.server.state import AppState, Backend
from paceline.server.tracing import Tracer
from paceline.server.web_page import WebPage
from paceline.settings import Settings

FLUSH_SECONDS = 5  # after the drain: for last bytes to slow clients
KEEP_ALIVE_SECONDS = 75  # longer than clients keep theirs: a client may be about to use the connection
# In the order of /openapi.json.
ENDPOINTS = (
    chat,
    completions,
    responses,
    messages,
    embeddings,
    rerank,
    batches,
    status,
    loads,
    status_stream,
    anthropic_models,  # in front of OpenAI's: it takes what has Anthropic's header
    models,
    loras,
    ollama_answer,
    ollama_embeddings,
    ollama_models,
    not_implemented,
)
KEY_VARIABLE = "PACELINE_API_KEY"

logger = logging.getLogger("paceline.server")

Started = Callable[[Exception | None], None]


def create_app(
    backend: Backend,
    settings: Settings,
    *,
    gate: DrainGate | None = None,
    started: Started | None = None,
    behind_front: bool = False,
) -> FastAPI:
    """The routes over a backend that the app starts and stops.

    With `started`, the app listens while the model loads (503 with the reason, and `/health` answers), and
    calls it when the backend can be used, or with what prevented that. Without, it listens after loading.
    `behind_front`: a front has checked keys and names of hosts, and says who asks.
    """
    tracer = None if settings.otlp is None else Tracer(settings.otlp, settings.served_name or backend.model_name)
    app = new_app(backend, started, tracer)
    gate = gate or DrainGate()
    metrics = Metrics(settings.served_name or backend.model_name, backend.stats, settings.metrics_alias)
    inside = requests.Requests(backend.abort)
    state = AppState(backend, settings, metrics, gate, inside)
    add_middleware(app, state, tracer, behind_front=behind_front)
    routers = endpoint_routers(state)
    for router in routers:
        app.include_router(router)
    add_versions(app, routers)
    return app


def new_app(backend: Backend, started: Started | None, tracer: Tracer | None = None) -> FastAPI:
    """Without routes; it starts and stops the backend."""

    async def start(started: Started) -> None:
        try:
            await backend.start()
        except Exception as error:
            started(error)
        else:
            started(None)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        starting = None
        if started is None:
            await backend.start()
        else:
            starting = asyncio.create_task(start(started))
        try:
            yield
        finally:
            if starting is not None:
                starting.cancel()
                await asyncio.gather(starting, return_exceptions=True)
            await backend.stop()
            if tracer is not None:
                await asyncio.to_thread(tracer.stop)

    return Application(
        title="Paceline", version=__version__, lifespan=lifespan, docs_url=None, redoc_url=None, redirect_slashes=False
    )


def add_middleware(app: FastAPI, state: AppState, tracer: Tracer | None = None, *, behind_front: bool = False) -> None:
    """What every request passes, the innermost first."""
    settings, metrics = state.settings, state.metrics
    app.add_middleware(HeadAsGet)
    app.add_middleware(
        BodyLimit,
        max_bytes=settings.max_body_mb * 2**20,
        memory=body_memory(settings),
        on_refusal=lambda: metrics.refused.update(["bodies"]),
    )
    app.add_middleware(DrainMiddleware, gate=state.gate, on_refusal=lambda: metrics.refused.update(["draining"]))
    if not behind_front:
        _add_access(app, settings)
    errors.install(app)
    app.add_middleware(requests.RequestIdMiddleware, requests=state.requests)
    sinks: list[Sink] = [] if behind_front else [log_access]  # a front logs for its models
    app.add_middleware(RequestLog, sinks=sinks if tracer is None else [*sinks, tracer.add])
    app.add_middleware(WithoutTrailingSlash)  # outside of all that look at the path
    app.add_middleware(UnreadBody, max_bytes=settings.max_body_mb * 2**20)  # and of all that answer early
    if behind_front:
        app.add_middleware(FromFront)


def _add_access(app: FastAPI, settings: Settings) -> None:
    """Who may ask."""
    keys = ApiKeys.of(settings)
    app.add_middleware(Auth, keys=keys)
    if settings.web:  # outside of Auth: the page asks for the key
        app.add_middleware(WebPage)
    if guarded(settings, keys):
        names = (settings.host.lower(), *settings.allowed_host)
        app.add_middleware(KnownHosts, names=names, origins=settings.cors_origin)
    if settings.cors_origin:  # outside of Auth: a browser's preflight has no key, and a page must be able to read a 401
        app.add_middleware(
            CORSMiddleware,
            allow_origins=settings.cors_origin,
            allow_methods=("GET", "POST", "DELETE"),
            allow_headers=("*",),
            expose_headers=("retry-after", "www-authenticate", "x-request-id", "request-id", HEADER),
        )


def endpoint_routers(state: AppState) -> list[APIRouter]:
    return [requests.routes(state.requests), *(endpoint.routes(state) for endpoint in ENDPOINTS)]


def add_versions(app: FastAPI, routers: Sequence[APIRouter]) -> None:
    routes = (route for router in routers for route in router.routes)
    app.add_middleware(Versioned, names=names_below_version(routes))


def run(backend: Backend, settings: Settings, behind: BehindFront | None = None) -> None:
    """Serve until a signal: drain, stop, return. Raises what kept the model from loading, or ended the engine."""
    listener = listen(settings) if behind is None else behind.listener
    if behind is None:
        settings = settings.model_copy(update={"port": listener.getsockname()[1]})
    gate = DrainGate() if behind is None else behind.gate

    def app(started: Started) -> FastAPI:
        return create_app(backend, settings, gate=gate, started=started, behind_front=behind is not None)

    def ready() -> None:
        if behind is None:
            announce(settings, backend)
        else:
            behind.started(None)

    def failed(failure: Exception) -> None:
        if behind is not None:
            behind.started(failure)

    if behind is None:
        limits.allow_files_for(settings.max_connections)
        warn_if_open(settings)
    serve(app, backend, settings, listener, gate, ready, failed)


def serve(
    make_app: Callable[[Started], FastAPI],
    backend: Backend,
    settings: Settings,
    listener: socket,
    gate: DrainGate,
    on_ready: Callable[[], None],
    on_failure: Callable[[Exception], None] = lambda failure: None,
) -> None:
    """Run an app until a signal. `on_ready` is called when its backend has started."""
    failures: list[Exception] = []
    loaded = False

    def started(failure: Exception | None) -> None:
        nonlocal loaded
        if failure is None:
            loaded = True
            # What is there now stays: a full collection that looks at all of it would hold up every stream.
            gc.collect()
            gc.freeze()
            on_ready()
        else:
            failures.append(failure)
            on_failure(failure)
            server.should_exit = True

    config = configured(make_app(started), settings)
    if settings.log_level == "info":  # uvicorn's own start and stop lines say less than ours
        logging.getLogger("uvicorn.error").setLevel("WARNING")
    server = DrainingServer(
        config,
        gate,
        settings.drain_seconds,
        backend.stop,
        lambda: backend.failure,
        lambda: not (loaded or failures),
    )
    server.run(sockets=[listener])
    if failures:
        raise failures[0]
    if server.failed is not None:
        raise EngineFailed(server.failed)


def warn_if_open(settings: Settings) -> None:
    if not is_loopback(settings.host) and not (settings.api_key or settings.api_key_file):
        logger.warning("%s is open to everybody who can reach it: --api-key asks for a key", settings.host)


def configured(app: FastAPI, settings: Settings) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=limits.protocol_for(settings),
        ws="none",
        h11_max_incomplete_event_size=limits.MAX_HEAD_BYTES,
        log_config=None,  # its lines go where the program's own go
        access_log=False,  # ours says more
        log_level=settings.log_level,
        timeout_graceful_shutdown=FLUSH_SECONDS,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
    )


def announce(settings: Settings, backend: Backend) -> None:
    """Say where the server is, and a command that speaks to it; with a JSON log, only the first, as a line of it."""
    address = f"http://{_reachable(settings.host)}:{settings.port}"
    name = settings.served_name or backend.model_name
    if settings.log_format == "json":
        logger.info("%s is served at %s", name, address, extra={FIELDS: {"model": name, "url": address}})
        return
    console = Console(highlight=False, soft_wrap=True)
    console.print(f"\n{name} is served at {address} (Ctrl+C stops it). Try:\n", markup=False)
    message = '{"role": "user", "content": "Hello! Who are you?"}'
    path, body = "chat/completions", f'{{"messages": [{message}], "max_tokens": 100}}'
    if not backend.takes_chat:
        path, body = "completions", '{"prompt": "Hello!", "max_tokens": 100}'
    key = f'-H "Authorization: Bearer {_shown_key(settings)}" ' if settings.api_key or settings.api_key_file else ""
    kind = "-H 'Content-Type: application/json'"
    command = f"curl {address}/v1/{path} {key}{kind} -d {shlex.quote(body)}"
    console.print(command, markup=False)


def _shown_key(settings: Settings) -> str:
    """Never the key itself: the variable if it holds a key that is accepted, else a word to replace."""
    held = os.environ.get(KEY_VARIABLE)
    return f"${KEY_VARIABLE}" if held in [key.get_secret_value() for key in settings.api_key] else "YOUR_KEY"


def _reachable(host: str) -> str:
    match host:
        case "0.0.0.0" | "localhost":
            return "127.0.0.1"
        case "::":
            return "[::1]"
        case _:
            return f"[{host}]" if ":" in host else host
