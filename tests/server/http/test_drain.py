"""The process and its signals: a real child, a real SIGTERM."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import subprocess
import sys
from collections.abc import Iterator

import httpx
import pytest

from paceline.server.http.drain import DrainGate
from tests.server.harness import post_chat, refused, user
from tests.waiting import WAIT, until


class Child:
    def __init__(self, drain_seconds: float, *flags: str) -> None:
        command = [sys.executable, "-m", "tests.server.child", str(drain_seconds), *flags]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True)
        assert self.process.stdout is not None
        self.said = ""
        while "curl" not in self.said:
            line = self.process.stdout.readline()
            assert line, self.said
            self.said += line
        self.address = self.said.split("curl ")[1].split("/v1")[0]

    def terminate(self, sig: signal.Signals = signal.SIGTERM) -> None:
        self.process.send_signal(sig)

    def release(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()

    def end(self) -> tuple[int, str, str]:
        output, errors = self.process.communicate(timeout=WAIT)
        return self.process.returncode, output, errors


@contextlib.contextmanager
def child(drain_seconds: float, *flags: str) -> Iterator[tuple[Child, httpx.Client]]:
    started = Child(drain_seconds, *flags)
    try:
        with httpx.Client(base_url=started.address, timeout=WAIT) as http:
            yield started, http
    finally:
        started.process.kill()
        started.process.communicate()


@contextlib.contextmanager
def hanging_stream(http: httpx.Client) -> Iterator[Iterator[bytes]]:
    body = {"messages": user("!hang 1"), "stream": True}
    with http.stream("POST", "/v1/chat/completions", json=body) as response:
        chunks = response.iter_bytes()
        assert any(b'"H"' in chunk for chunk in chunks)
        yield chunks


def until_draining(http: httpx.Client) -> None:
    until(lambda: http.get("/ready").status_code != 200)


def test_sigterm_lets_running_requests_finish_and_refuses_new_ones() -> None:
    with child(drain_seconds=WAIT) as (server, http):
        assert post_chat(http).status_code == 200  # leaves a connection that is kept alive
        with hanging_stream(http) as chunks:
            server.terminate()
            until_draining(http)
            response = post_chat(http)
            refused(response, 503, None, "shutting down")
            anthropics = http.post("/v1/messages", json={})
            assert (anthropics.status_code, anthropics.json()["error"]["type"]) == (503, "overloaded_error")
            assert response.headers["retry-after"] and response.headers["connection"] == "close"
            assert http.get("/health").status_code == 200
            server.release()
            rest = b"".join(chunks)
        assert b'"finish_reason":"stop"' in rest and rest.endswith(b"data: [DONE]\n\n")
        status, output, errors = server.end()
        assert status == 0 and output.endswith("stopped: True\n"), errors
        assert '"POST /v1/chat/completions HTTP/1.1" 503' in errors  # the access log,
        assert "/ready" not in errors and "!hang" not in errors  # without probes and messages


def test_what_outlasts_the_drain_reads_an_error_and_the_server_still_exits_with_0() -> None:
    with child(drain_seconds=0.2) as (server, http):
        with hanging_stream(http) as chunks:
            server.terminate()
            rest = b"".join(chunks)
        assert b'"error"' in rest and rest.endswith(b"data: [DONE]\n\n")
        status, _, errors = server.end()
        assert status == 0 and "unfinished requests (1) end with an error" in errors
        assert "shutting down: unfinished requests (1) have 0.2 seconds" in errors


@pytest.mark.slow
@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_ends_streams_with_an_error_and_then_the_process(second: signal.Signals) -> None:
    with child(drain_seconds=600) as (server, http):
        with hanging_stream(http) as chunks:
            server.terminate()
            until_draining(http)
            server.terminate(second)
            rest = b"".join(chunks)
        assert b'data: {"error"' in rest and rest.endswith(b"data: [DONE]\n\n")  # not a cut connection
        assert server.end()[0] == 128 + second


@pytest.mark.slow
def test_a_second_signal_does_not_wait_for_an_engine_that_does_not_end() -> None:
    with child(600, "--never-stop") as (server, http), hanging_stream(http):
        server.terminate()
        until_draining(http)
        server.terminate()
        assert server.process.wait(WAIT) == 128 + signal.SIGTERM


@pytest.mark.slow
def test_a_third_signal_ends_the_process_at_once() -> None:
    with child(600, "--never-stop", "--patient") as (server, http), hanging_stream(http):
        server.terminate()
        until_draining(http)
        server.terminate()

        def ended() -> bool:
            server.terminate(signal.SIGINT)
            return server.process.poll() is not None

        until(ended)
        assert server.process.returncode in (128 + signal.SIGTERM, 128 + signal.SIGINT)  # they may come together


@pytest.mark.slow
def test_an_idle_server_stops_on_sigint_without_a_traceback() -> None:
    with child(drain_seconds=600) as (server, _):
        server.terminate(signal.SIGINT)
        status, output, errors = server.end()
        assert (status, output, errors) == (0, "stopped: True\n", "")


def test_a_model_that_cannot_be_loaded_ends_the_server_with_its_reason() -> None:
    command = [sys.executable, "-m", "tests.server.child", "1", "no such file"]
    result = subprocess.run(command, input="", capture_output=True, text=True, timeout=WAIT)
    assert result.returncode == 2
    assert "failed: no such file" in result.stdout
    assert "Traceback" not in result.stderr


async def test_a_gate_is_emptied_when_the_last_one_leaves() -> None:
    gate = DrainGate()
    assert await gate.emptied(0)
    gate.enter()
    gate.enter()
    assert not await gate.emptied(0)
    gate.leave()
    assert not await gate.emptied(0)
    gate.leave()
    assert await gate.emptied(0)


@pytest.mark.parametrize("seconds", [0, 0.001])
async def test_waiting_for_a_gate_ends_in_time(seconds: float) -> None:
    gate = DrainGate()
    gate.enter()
    assert not await gate.emptied(seconds)


async def test_a_hurry_ends_the_wait_for_a_gate() -> None:
    gate = DrainGate()
    gate.enter()
    waiting = asyncio.create_task(gate.emptied(WAIT))
    await asyncio.sleep(0)
    gate.hurry()
    assert not await waiting
    gate.enter()
    assert not await gate.emptied(WAIT)


def test_a_signal_while_the_model_loads_ends_waiting_streams_with_an_error() -> None:
    command = [sys.executable, "-m", "tests.server.child", "600", "--load-forever", "--keep-alive"]
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True)
    try:
        assert process.stdout is not None and process.stdout.readline() == "loading\n"
        address = f"http://127.0.0.1:{process.stdout.readline().strip()}"
        with (
            httpx.Client(base_url=address, timeout=WAIT) as http,
            http.stream("POST", "/v1/chat/completions", json={"messages": user("hi"), "stream": True}) as response,
        ):
            chunks = response.iter_bytes()
            assert next(chunks).startswith(b": keep-alive\n\n")
            process.send_signal(signal.SIGTERM)
            rest = b"".join(chunks)
        assert b"shutting down" in rest and rest.endswith(b"data: [DONE]\n\n")
        assert process.wait(WAIT) == 0
    finally:
        process.kill()
        process.communicate()


@pytest.mark.thin(2)
@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_while_the_model_loads_ends_the_process_at_once(sig: signal.Signals) -> None:
    command = [sys.executable, "-m", "tests.server.child", "600", "--load-forever"]
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True)
    try:
        assert process.stdout is not None and process.stdout.readline() == "loading\n"
        process.send_signal(sig)
        output, errors = process.communicate(timeout=WAIT)
        assert (process.returncode, output) == (0, "")
        assert "Traceback" not in errors and "stopped while the model was loading" in errors
    finally:
        process.kill()
        process.communicate()
