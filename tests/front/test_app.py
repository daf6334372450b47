from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from tests.front.harness import front, table
from tests.server.harness import refused
from tests.waiting import WAIT, until

CODE = """
import sys
from paceline.front import app
from paceline.front.catalog import Catalog
from paceline.front.machine import Machine
from paceline.front.pool import Pool
from paceline.settings import Settings
from tests.front.harness import COMMAND, table

settings = Settings(port=0, drain_seconds=float(sys.argv[1]))
app.announce = lambda pool, settings: print(settings.port, flush=True)
catalog = Catalog(settings, [table("a", pinned=True), table("b")])
app.run(Pool(catalog, settings, Machine("cpu", 10**9, "x"), COMMAND), settings)
"""


def started(drain_seconds: float) -> tuple[subprocess.Popen[str], httpx.Client, list[int]]:
    """A front in a process of its own with two loaded models, and the ids of their processes."""
    process = subprocess.Popen([sys.executable, "-c", CODE, str(drain_seconds)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    http = httpx.Client(base_url=f"http://127.0.0.1:{int(process.stdout.readline())}", timeout=WAIT)
    assert http.post("/v1/completions", json={"model": "b", "prompt": "hi"}).status_code == 200
    return process, http, [model["pid"] for model in http.get("/v1/status").json()["models"]]


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    status = Path(f"/proc/{pid}/stat")
    try:
        return status.exists() and status.read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 0), (signal.SIGKILL, -9)])
def test_however_a_front_ends_no_process_is_left(number: signal.Signals, code: int) -> None:
    process, http, workers = started(5)
    process.send_signal(number)
    assert process.wait(WAIT) == code
    for pid in workers:
        until(lambda pid=pid: gone(pid))  # type: ignore[misc]
    http.close()
    assert process.stdout is not None
    process.stdout.close()


@pytest.mark.slow
def test_a_request_that_does_not_finish_in_time_gets_an_error_and_not_a_cut_connection() -> None:
    process, http, _ = started(0.1)
    body = {"model": "b", "prompt": "!hang 1", "stream": True}
    with http.stream("POST", "/v1/completions", json=body) as stream:
        lines = stream.iter_lines()
        next(lines)
        process.send_signal(signal.SIGTERM)
        rest = [line for line in lines if line]
    assert rest[-1] == "data: [DONE]" and "error" in json.loads(rest[-2].removeprefix("data: "))
    assert process.wait(WAIT) == 0
    http.close()
    assert process.stdout is not None
    process.stdout.close()


def test_the_front_has_every_route_of_the_server_and_answers_without_a_model_where_none_is_needed() -> None:
    with front([table("a")]) as served:
        paths = served.http.get("/openapi.json").json()["paths"]
        assert {"/v1/chat/completions", "/v1/messages", "/api/chat", "/v1/responses/{response_id}"} <= set(paths)
        assert "/v1/models/{name}/load" in paths
        for path in ("/health", "/ready", "/api/version", "/"):
            assert served.http.get(path).status_code == 200
        refused(served.http.get("/v1/audio/speech"), 404, None, "not served here")
        refused(served.http.get("/v1/chatt/completions"), 404, None, "did you mean /v1/chat/completions?")
        refused(served.http.get("/v1/responses/x"), 404, None, "no model is loaded")
        assert served.http.get("/v1/chat/completions").status_code == 405
        assert served.state("a")["state"] == "unloaded"
