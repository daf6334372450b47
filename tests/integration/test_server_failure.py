"""The real engine in a real process: it gives up, or is told to stop while requests wait."""

from __future__ import annotations

import concurrent.futures
import contextlib
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import httpx
import pytest

from tests.server.harness import refused, user
from tests.waiting import WAIT, until


@dataclass(frozen=True, slots=True)
class Server:
    process: subprocess.Popen[str]
    log: IO[str]

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)

    def break_engine(self, how: str = "break") -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{how}\n")
        self.process.stdin.flush()

    def end(self) -> tuple[int, str]:
        """Its exit code, and the last line that it wrote."""
        code = self.process.wait(WAIT)
        self.log.seek(0)
        return code, self.log.read().rstrip().rpartition("\n")[2]


@contextlib.contextmanager
def started(model: Path, drain_seconds: float) -> Iterator[tuple[Server, httpx.Client]]:
    command = [sys.executable, "-m", "tests.server.engine_child", str(model), str(drain_seconds)]
    pipe = subprocess.PIPE
    with (
        tempfile.TemporaryFile("w+") as log,  # no pipe: it would fill up, with nobody reading
        subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=log, text=True) as process,
    ):
        try:
            assert process.stdout is not None
            said = ""
            while "curl" not in said:
                line = process.stdout.readline()
                assert line, said
                said += line
            with httpx.Client(base_url=said.split("curl ")[1].split("/v1")[0], timeout=WAIT) as http:
                yield Server(process, log), http
        finally:
            process.kill()


def until_there_are(http: httpx.Client, running: int, waiting: int) -> None:
    def holds() -> bool:
        status = http.get("/v1/status").json()
        return (status["num_requests_running"], status["num_requests_waiting"]) == (running, waiting)

    until(holds)


@pytest.mark.slow
def test_an_engine_that_gave_up_is_unhealthy_and_ends_the_process_with_a_message(hybrid: Path) -> None:
    body = {"messages": user("Go on"), "ignore_eos": True}
    with started(hybrid, drain_seconds=600) as (server, http), concurrent.futures.ThreadPoolExecutor(12) as pool:
        assert http.get("/health").status_code == 200
        with http.stream("POST", "/v1/chat/completions", json={**body, "stream": True}) as response:
            chunks = response.iter_text()
            next(chunks)
            asked = [pool.submit(http.post, "/v1/chat/completions", json=body) for _ in range(12)]
            until_there_are(http, running=1, waiting=12)
            server.break_engine()
            rest = "".join(chunks)
        assert "the device is gone" in rest and rest.endswith("data: [DONE]\n\n")  # an error, not a cut connection
        answers = [each.result(WAIT) for each in asked]
        assert all(answer.status_code == 500 and "the device is gone" in answer.text for answer in answers)
        refused(http.get("/health"), 503, None, "16 failing steps", "the device is gone")
        late = http.post("/v1/chat/completions", json=body)
        assert late.status_code == 503 and late.headers["retry-after"]
        code, last = server.end()
    assert code == 3
    assert last.startswith("paceline: error: The engine stopped after 16 failing steps in a row: the device is gone")


@pytest.mark.slow
def test_an_engine_whose_thread_crashed_is_unhealthy_and_ends_the_process_with_a_message(hybrid: Path) -> None:
    body = {"messages": user("Go on"), "ignore_eos": True}
    with started(hybrid, drain_seconds=600) as (server, http), concurrent.futures.ThreadPoolExecutor(2) as pool:
        with http.stream("POST", "/v1/chat/completions", json={**body, "stream": True}) as response:
            chunks = response.iter_text()
            next(chunks)
            asked = [pool.submit(http.post, "/v1/chat/completions", json=body) for _ in range(2)]
            names = ("num_requests_running", "num_requests_waiting")
            until(lambda: [http.get("/v1/status").json()[name] for name in names] == [1, 2])
            server.break_engine("crash")
            rest = "".join(chunks)
        assert "the device is gone" in rest and rest.endswith("data: [DONE]\n\n")  # an error, not a cut connection
        answers = [each.result(WAIT) for each in asked]
        assert all(answer.status_code == 500 and "the device is gone" in answer.text for answer in answers)
        refused(http.get("/health"), 503, None, "unexpected error", "the device is gone")
        assert http.get("/ready").status_code == 503
        assert http.post("/v1/chat/completions", json=body).status_code == 503
        code, last = server.end()
    assert code == 3
    assert last.startswith("paceline: error: The engine stopped after an unexpected error: RuntimeError: the device")


@pytest.mark.slow
def test_a_drain_lets_those_finish_who_wait_and_refuses_who_comes(hybrid: Path) -> None:
    body = {"messages": user("Go on"), "max_tokens": 100, "ignore_eos": True}
    with started(hybrid, drain_seconds=WAIT) as (server, http), concurrent.futures.ThreadPoolExecutor(3) as pool:
        asked = [pool.submit(http.post, "/v1/chat/completions", json=body) for _ in range(3)]
        until_there_are(http, running=1, waiting=2)
        server.stop()
        until(lambda: http.get("/ready").status_code != 200)
        late = http.post("/v1/chat/completions", json=body)
        refused(late, 503, None, "shutting down")
        assert int(late.headers["retry-after"]) > 0
        answers = [each.result(WAIT) for each in asked]
        assert [answer.status_code for answer in answers] == [200, 200, 200]
        assert all(answer.json()["usage"]["completion_tokens"] == 100 for answer in answers)
        assert server.end()[0] == 0


@pytest.mark.slow
def test_who_still_waits_when_the_drain_is_over_is_told_when_to_come_back(hybrid: Path) -> None:
    body = {"messages": user("Go on"), "ignore_eos": True}
    with started(hybrid, drain_seconds=0.2) as (server, http), concurrent.futures.ThreadPoolExecutor(2) as pool:
        asked = [pool.submit(http.post, "/v1/chat/completions", json=body) for _ in range(2)]
        until_there_are(http, running=1, waiting=1)
        server.stop()
        for each in asked:
            answer = each.result(WAIT)
            assert answer.status_code == 503 and answer.headers["retry-after"]
        assert server.end()[0] == 0
