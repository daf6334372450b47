"""The front's application and process: one address, every route of the server, many models behind it."""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import NoReturn, cast

from fastapi import APIRouter, FastAPI
from fastapi.routing import APIRoute
from rich.console import Console

from paceline.errors import EngineUnavailable
from paceline.front import routes
from paceline.front.pool import Pool
from paceline.front.proxy import Proxy
from paceline.logs import FIELDS
from paceline.preflight import listen
from paceline.server import app as server
from paceline.server.http import limits
from paceline.server.http.drain import DrainGate
from paceline.server.http.requests import Requests
from paceline.server.metrics import Metrics
from paceline.server.state import AppState, Backend
from paceline.settings import Settings
from paceline.stats import Stats
from paceline.types import RequestId

# Routes of the server that need no model, by the names of their functions. The rest goes to one.
WITHOUT_MODEL = ("front_page", "health", "ready", "version", "refuse", "compact_response")
WATCHED = ("/v1/status/stream", "/v1/loads")  # what one model's process says about itself
BY_ID = ("{response_id}", "{conversation_id}")

logger = logging.getLogger("paceline.front")


class FrontBackend:
    """What routes without a model ask of a service."""

    failure: str | None = None
    takes_chat = True
    loras: tuple[str, ...] = ()  # each model's process knows its own

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self.ready = False

    @classmethod
    def of(cls, pool: Pool) -> Backend:
        return cast(Backend, cls(pool))  # what it has not got, `__getattr__` refuses

    @property
    def model_name(self) -> str:
        return self.pool.catalog.default.name

    async def start(self) -> None:
        await self.pool.start()
        self.ready = True

    async def stop(self) -> None:
        await self.pool.stop()

    def abort(self, request_id: RequestId) -> None:
        """What runs, runs in a model's process: it is told by the route that cancels."""

    def stats(self) -> Stats:
        return Stats(state="ready" if self.ready else "loading")

    def __getattr__(self, name: str) -> NoReturn:
        raise EngineUnavailable("The front has no model of its own.")


def create_app(
    pool: Pool, settings: Settings, *, gate: DrainGate | None = None, started: server.Started | None = None
) -> FastAPI:
    backend = FrontBackend.of(pool)
    return _create(backend, pool, settings, gate or DrainGate(), started)


def _create(
    backend: Backend, pool: Pool, settings: Settings, gate: DrainGate, started: server.Started | None
) -> FastAPI:
    app = server.new_app(backend, started)
    metrics = Metrics(backend.model_name, backend.stats)
    state = AppState(backend, settings, metrics, gate, Requests(backend.abort))
    proxy = Proxy(pool)
    server.add_middleware(app, state)
    own = routes.routes(state, pool, proxy)
    answered = {route.path for router in own for route in router.routes if isinstance(route, APIRoute)}
    routers = [*own, *(_forwarding(router, proxy, answered) for router in server.endpoint_routers(state))]
    for router in routers:
        app.include_router(router)
    server.add_versions(app, routers)
    return app


def _forwarding(router: APIRouter, proxy: Proxy, answered: Collection[str]) -> APIRouter:
    """The same routes, with the models' processes behind them. `answered`: paths that the front answers."""
    forwarding = APIRouter()
    for route in router.routes:
        assert isinstance(route, APIRoute)
        if route.path in answered:
            continue
        if route.name in WITHOUT_MODEL:
            forwarding.routes.append(route)
            continue
        to_model = proxy.watching if route.path in WATCHED else proxy.by_model
        forwarding.add_api_route(
            route.path,
            proxy.by_id if any(name in route.path for name in BY_ID) else to_model,
            methods=sorted(route.methods or ()),
            responses=route.responses,
            openapi_extra=route.openapi_extra,
            include_in_schema=route.include_in_schema,
            description=route.description,
            name=route.name,
            operation_id=route.unique_id,
        )
    return forwarding


def run(pool: Pool, settings: Settings) -> None:
    """Serve until a signal: drain, end all processes, return."""
    listener = listen(settings)
    settings = settings.model_copy(update={"port": listener.getsockname()[1]})
    backend, gate = FrontBackend.of(pool), DrainGate()
    limits.allow_files_for(2 * settings.max_connections)  # each has one to a model's process
    server.warn_if_open(settings)
    server.serve(
        lambda started: _create(backend, pool, settings, gate, started),
        backend,
        settings,
        listener,
        gate,
        lambda: announce(pool, settings),
    )


def announce(pool: Pool, settings: Settings) -> None:
    names = [entry.name for entry in pool.catalog.entries()]
    server.announce(settings, FrontBackend.of(pool))
    if settings.log_format == "json":
        logger.info("models, loaded when they are asked for: %s", ", ".join(names), extra={FIELDS: {"models": names}})
        return
    console = Console(highlight=False, soft_wrap=True)
    console.print(f"\nModels, loaded when they are asked for: {', '.join(names)}", markup=False)
