"""A front in a thread, over processes with fake models."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import httpx
import uvicorn

from paceline.front.app import create_app
from paceline.front.catalog import Catalog
from paceline.front.machine import Machine
from paceline.front.pool import Pool
from paceline.models.estimate import estimate
from paceline.models.files import DEFAULT_FOLDER
from paceline.preflight import listen
from paceline.server.app import configured
from paceline.setting_sources import ModelTable
from paceline.settings import Settings
from tests.server.harness import user
from tests.waiting import WAIT, until

COMMAND = (sys.executable, "-m", "tests.front.fake_worker")
EACH = int(1.04 * estimate(DEFAULT_FOLDER, cpu=True).least)  # what a process for paceline-mini needs, about
SOURCE = "paceline-mini"


def table(name: str, **more: Any) -> ModelTable:
    return ModelTable(name, SOURCE, **more)


@dataclass(frozen=True)
class Front:
    http: httpx.Client
    pool: Pool
    address: str

    def state(self, name: str) -> dict[str, Any]:
        models: list[dict[str, Any]] = self.http.get("/v1/status").json()["models"]
        return next(model for model in models if model["name"] == name)

    def chat(self, model: str | None, text: str = "hi", **fields: Any) -> httpx.Response:
        named = {} if model is None else {"model": model}
        return self.http.post("/v1/chat/completions", json={"messages": user(text), **named, **fields})

    def until_state(self, name: str, state: str) -> None:
        until(lambda: self.state(name)["state"] == state)


@contextlib.contextmanager
def front(
    tables: Sequence[ModelTable], *, room: float = 10, settings: Settings | None = None, **client: Any
) -> Iterator[Front]:
    """`room`: how many models there is memory for."""
    settings = settings or Settings()
    listener = listen(settings.model_copy(update={"port": 0}))
    pool = Pool(Catalog(settings, tables), settings, Machine("cpu", int(room * EACH), "the test"), COMMAND)
    started = threading.Event()
    server = uvicorn.Server(configured(create_app(pool, settings, started=lambda failure: started.set()), settings))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    address = f"http://127.0.0.1:{listener.getsockname()[1]}"
    try:
        assert started.wait(WAIT)
        with httpx.Client(base_url=address, timeout=WAIT, **client) as http:
            yield Front(http, pool, address)
    finally:
        server.should_exit = True
        thread.join()
