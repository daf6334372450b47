"""Signals at bad moments: while it loads, while it streams, more than one, and those that cannot be caught."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.hostile.harness import WAIT, Answer, Server, launched, served, under_attack, wait_for_words
from tests.hostile.test_prompts import said

CHAT = "/v1/chat/completions"
# What a server says on its way: before the libraries are imported, with the weights read, with the model checked.
STAGES = {"early": "BLAS: ", "loaded": "No model was given", "checked": "GB of weights"}
ENDLESS = ("tests.hostile.endless", "serve")
SIGNALS = pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGINT], ids=["sigterm", "sigint"])


def send(server: Server, *signals: signal.Signals) -> None:
    for sig in signals:
        if server.is_alive:
            server.process.send_signal(sig)
            time.sleep(0.05)  # two that arrive together are one to the system


@pytest.mark.slow
@pytest.mark.parametrize("stage", STAGES)
@SIGNALS
def test_a_server_that_is_still_loading_ends_without_a_traceback(stage: str, sig: signal.Signals) -> None:
    with launched() as loading:
        wait_for_words(loading, STAGES[stage])
        # MLX compiles on a CPU by system(3), which ignores SIGINT meanwhile: a person presses the keys again.
        for _ in range(10 if sig == signal.SIGINT else 1):
            send(loading, sig)
            with suppress(subprocess.TimeoutExpired):
                loading.process.wait(0.5)
        code, words = loading.wait(), loading.said()
    assert "Traceback" not in words and "curl" not in words, words[-2000:]
    assert code == 0, words[-2000:]


@pytest.mark.slow
@SIGNALS
def test_a_server_does_not_wait_for_weights_that_never_come(sig: signal.Signals) -> None:
    with launched(program=ENDLESS) as loading:
        wait_for_words(loading, "stuck")
        send(loading, sig)
        code, words = loading.wait(), loading.said()
    assert "Traceback" not in words, words[-2000:]
    assert code == 0, words[-2000:]


@pytest.mark.slow
@pytest.mark.parametrize("times", [2, 3])
@SIGNALS
def test_impatient_signals_while_it_loads_end_it(sig: signal.Signals, times: int) -> None:
    with launched(program=ENDLESS) as loading:
        wait_for_words(loading, "stuck")
        send(loading, *[sig] * times)
        code, words = loading.wait(), loading.said()
    assert "Traceback" not in words, words[-2000:]
    assert code in (0, 128 + sig), words[-2000:]


@contextmanager
def streaming(server: Server, tokens: int) -> Iterator[Future[Answer]]:
    body = {"messages": said("Go on."), "stream": True, "ignore_eos": True, "max_tokens": tokens, "temperature": 0}
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(server.request, "POST", CHAT, json.dumps(body).encode())
        server.wait_until(lambda status: status["num_requests_decoding"] == 1)
        yield asked


@pytest.mark.slow
def test_a_signal_while_it_streams_lets_the_stream_end_and_refuses_others() -> None:
    with served("--drain-seconds", str(WAIT)) as server, streaming(server, 400) as asked:
        server.process.send_signal(signal.SIGTERM)
        while server.get("/ready").status == 200:
            time.sleep(0.01)
        late = server.post(CHAT, {"messages": said("hi")})
        assert late.status == 503 and int(late.headers["retry-after"]) > 0, late
        answer = asked.result(WAIT)
        assert b'"finish_reason":"length"' in answer.body and answer.body.endswith(b"data: [DONE]\n\n")
        assert server.wait() == 0
        assert "Traceback" not in server.said()


@pytest.mark.slow
@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGINT], ids=["sigterm", "sigint"])
def test_a_second_signal_while_it_streams_is_an_error_in_the_stream_and_the_signals_number(
    second: signal.Signals,
) -> None:
    with served("--drain-seconds", "600") as server, streaming(server, 30_000) as asked:
        server.process.send_signal(signal.SIGTERM)
        while server.get("/ready").status == 200:
            time.sleep(0.01)
        server.process.send_signal(second)
        assert server.wait() == 128 + second
        rest = asked.result(WAIT).body
        assert b'data: {"error"' in rest and rest.endswith(b"data: [DONE]\n\n"), rest[-500:]
        assert "Traceback" not in server.said()


@pytest.mark.slow
def test_a_server_that_was_killed_starts_again_on_its_cache_folder(tmp_path: Path) -> None:
    flags = ("--cache-dir", str(tmp_path / "cache"))
    question = {"messages": said("A long story about a line of riders. " * 60)}
    with served(*flags) as server:
        before = server.greedy, server.chat(**question)
        with streaming(server, 30_000):
            server.process.kill()
            assert server.wait() == -signal.SIGKILL
    with served(*flags) as again:
        assert (again.greedy, again.chat(**question)) == before
        assert "Traceback" not in again.said()


READER = """
import socket, sys
body = sys.argv[2].encode()
with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as client:
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.sendall(b"POST /v1/chat/completions HTTP/1.1\\r\\nhost: localhost\\r\\ncontent-type: application/json\\r\\n"
        + b"connection: close\\r\\ncontent-length: %d\\r\\n\\r\\n" % len(body) + body)
    print("asked", flush=True)
    data = b""
    while more := client.recv(4096):
        data += more
print(data[-400:].decode(errors="replace"))
"""


@pytest.mark.slow
def test_a_client_that_is_stopped_holds_up_nobody_and_goes_on_where_it_was(server: Server) -> None:
    body = {"messages": said("Go on."), "stream": True, "ignore_eos": True, "max_tokens": 300, "logprobs": True}
    command = [sys.executable, "-I", "-c", READER, str(server.port), json.dumps({**body, "top_logprobs": 20})]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as reader:
        try:
            assert reader.stdout is not None and reader.stdout.readline() == "asked\n"
            with under_attack(server):
                reader.send_signal(signal.SIGSTOP)
                time.sleep(3.0)
                reader.send_signal(signal.SIGCONT)
                rest, _ = reader.communicate(timeout=WAIT)
        finally:
            reader.kill()
    assert rest.rstrip().endswith("[DONE]") or "data: [DONE]" in rest, rest
    assert '"error"' not in rest, rest
