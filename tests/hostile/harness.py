"""A real `paceline serve` process, attacks on it, and the judgement: what another client saw, and what is left.

How bounds are chosen. Before each attack the bystander watches the quiet server; the median of all these baselines of
a run is the measure, and beside an attack a wait may be TIMES_QUIET times as long. A wait is counted in
seconds of the server's own processor time, if that is less than the clock's: how long the server did something else
instead. Other programs that keep the machine busy do not lengthen it, so the same bounds hold there. Baselines are some
hundredths of a second, the defects that these attacks were written for took 2 to 60 seconds: a wait that is below
LEAST_WAIT is never a failure. A server that waits without using the processor is caught by LONGEST_STALL, by the clock.
Memory: bodies may take a sixteenth of --memory-limit-gb, and pictures and texts a quarter of what the tiny model leaves
of it; beside an attack, and in all, the server may grow by half of it. The defects took all of it and more.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from tests.lengths import LONG

ROOT = Path(__file__).parents[2]
WAIT = 120.0  # seconds until something that must happen has failed to happen
QUIET_SECONDS = 0.6  # of a baseline before each attack
TIMES_QUIET = 10.0
LEAST_WAIT = 1.5  # the smallest freeze that was ever found took 1.6 s; beside a busy process honest steps took 1.2
LEAST_CHAT_WAIT = 4.0  # a whole chat may wait for a worker that takes a large picture apart
LONGEST_STALL = 30.0
GB = 10**9
MEMORY_LIMIT_GB = 4.0
GROWTH_SHARE = 2  # a server may grow by one part in so many of its limit
GUARD_BYTES = 2 * GB  # a server that holds its limit and so much more is killed: it would take the machine with it
REFUSALS = (400, 404, 408, 413, 429, 431, 503)
GREEDY: Mapping[str, Any] = {
    "messages": [{"role": "user", "content": "What is the capital of France? Say it in one sentence."}],
    "max_tokens": 24,
    "temperature": 0,
}
HELD = ("sequences", "reserved", "activations", "sequence images")  # parts of the budget that requests hold


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)

    def __str__(self) -> str:
        return f"{self.status} {self.body[:600].decode(errors='replace')}"


@dataclass(frozen=True, slots=True)
class Figures:
    """What the bystander saw. Seconds are the server's processor time, see above."""

    gap: float  # longest pause of its stream
    chunks: int
    health: float  # longest answer of /health
    polls: int
    chat: float  # longest answer to a small question
    chats: int
    stall: float  # the longest of these three by the clock
    resident: int  # most memory that the server held
    trouble: tuple[str, ...]  # errors, which it must never see

    def __str__(self) -> str:
        return (
            f"stream {self.gap:.2f} s, /health {self.health:.2f} s, chat {self.chat:.2f} s, "
            f"by the clock {self.stall:.2f} s, {self.resident / GB:.2f} GB"
        )


class Bystander:
    """The client of bystander.py, told when to begin and asked what it saw."""

    def __init__(self, pid: int, most_bytes: int) -> None:
        command = [sys.executable, "-I", str(Path(__file__).with_name("bystander.py")), str(pid), str(most_bytes)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def watch(self, port: int) -> Figures:
        return self._ask(f"watch {port}")

    def figures(self) -> Figures:
        """Since it was last asked."""
        return self._ask("figures")

    def rest(self) -> Figures:
        return self._ask("rest")

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()

    def _ask(self, command: str) -> Figures:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(f"{command}\n")
        self._process.stdin.flush()
        told = json.loads(self._process.stdout.readline())
        return Figures(**{**told, "trouble": tuple(told["trouble"])})


@dataclass
class Server:
    """A `paceline serve` process that listens."""

    process: subprocess.Popen[str]
    bystander: Bystander
    log: Path
    limit: int  # bytes of --memory-limit-gb
    port: int = 0
    baselines: list[Figures] = field(default_factory=list)

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def is_alive(self) -> bool:
        return self.process.poll() is None

    @property
    def most_growth(self) -> float:
        return self.limit / GROWTH_SHARE

    def said(self) -> str:
        return self.log.read_text(errors="replace")

    def request(self, method: str, path: str, body: bytes | None = None, timeout: float = WAIT) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            connection.request(method, path, body, {"content-type": "application/json"} if body is not None else {})
            response = connection.getresponse()
            headers = {name.lower(): value for name, value in response.getheaders()}
            return Answer(response.status, headers, response.read())
        finally:
            connection.close()

    def post(self, path: str, body: Any) -> Answer:
        return self.request("POST", path, body if isinstance(body, bytes) else json.dumps(body).encode())

    def get(self, path: str) -> Answer:
        return self.request("GET", path)

    def chat(self, **fields: Any) -> Any:
        """The answer's text, of a request that must succeed."""
        answer = self.post("/v1/chat/completions", {**GREEDY, **fields})
        assert answer.status == 200, answer
        return answer.json()["choices"][0]["message"]["content"]

    @cached_property
    def greedy(self) -> Any:
        """What a greedy chat says to whoever asks first; all others must be told the same."""
        return self.chat()

    def wait(self, seconds: float = WAIT) -> int:
        return self.process.wait(seconds)

    def wait_until(self, condition: Callable[[Any], bool], seconds: float = WAIT) -> Any:
        """The status, once it fulfils the condition."""
        deadline = time.monotonic() + seconds
        while not condition(status := self.get("/v1/status").json()):
            assert time.monotonic() < deadline, status
            time.sleep(0.02)
        return status


def environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PACELINE_")}
    return {**kept, "PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}


@contextlib.contextmanager
def launched(
    *flags: str, memory_limit_gb: float = MEMORY_LIMIT_GB, program: Sequence[str] = ("paceline", "serve")
) -> Iterator[Server]:
    """A server process that may still be loading. Killed in the end, if it is still there."""
    with tempfile.TemporaryDirectory(prefix="paceline-hostile-") as folder:
        log = Path(folder) / "log"
        memory = ("--memory-limit-gb", f"{memory_limit_gb:g}")
        command = [sys.executable, "-m", *program, "--port", "0", *memory, *flags]
        with log.open("w") as output:
            process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=output, stderr=output, text=True, cwd=ROOT, env=environment()
            )
        limit = round(memory_limit_gb * GB)
        server = Server(process, Bystander(process.pid, limit + GUARD_BYTES), log, limit)
        try:
            yield server
        finally:
            server.bystander.close()  # first: it must not kill whoever gets the process's number next
            process.kill()
            process.communicate()


@contextlib.contextmanager
def served(*flags: str, **options: Any) -> Iterator[Server]:
    """A server process that is ready."""
    with launched(*flags, **options) as server:
        server.port = int(wait_for_words(server, r"curl http://127\.0\.0\.1:(\d+)")[1])
        yield server


def wait_for_words(server: Server, pattern: str) -> re.Match[str]:
    """Until the server has said it, on stdout or in its log."""
    deadline = time.monotonic() + WAIT
    while (found := re.search(pattern, server.said())) is None:
        assert server.process.poll() is None, server.said()[-4000:]
        assert time.monotonic() < deadline, server.said()[-4000:]
        time.sleep(0.02)
    return found


def end(server: Server, sig: signal.Signals = signal.SIGTERM) -> int:
    server.process.send_signal(sig)
    return server.wait()


# -- an attack, and what it did to others


@contextlib.contextmanager
def under_attack(server: Server) -> Iterator[None]:
    """What happens inside may cost its sender anything, others a bounded wait, and the server bounded memory."""
    before = server.greedy
    log_length = len(server.said())
    bystander = server.bystander
    quiet = bystander.watch(server.port)
    assert quiet.chunks, quiet
    time.sleep(QUIET_SECONDS)
    quiet = bystander.figures()
    server.baselines.append(quiet)
    gone: Exception | None = None
    try:
        yield
    except (OSError, http.client.HTTPException) as error:  # a time-out, or the server is gone: it is judged first
        gone = error
    during = bystander.figures()
    if gone is not None:  # what it is still busy with must not be the next test's trouble
        server.process.kill()
        server.wait()
    bystander.rest()
    judge(server, quiet, during, gone)
    left_as_before(server, before, log_length)


def judge(server: Server, quiet: Figures, during: Figures, gone: Exception | None) -> None:
    grown = during.resident - quiet.resident

    def most(name: str, least: float) -> float:
        usual: float = median(getattr(each, name) for each in server.baselines)
        return max(TIMES_QUIET * usual, least)

    waits = (
        ("a stream stood still for", during.gap, most("gap", LEAST_WAIT)),
        ("/health took", during.health, most("health", LEAST_WAIT)),
        ("a small chat took", during.chat, most("chat", LEAST_CHAT_WAIT)),
        ("somebody waited for", during.stall, LONGEST_STALL),
    )
    wrong = [f"{what} {seconds:.2f} s ({allowed:.2f} allowed)" for what, seconds, allowed in waits if seconds > allowed]
    if grown > server.most_growth:
        wrong.append(f"the server grew by {grown / GB:.2f} GB ({server.most_growth / GB:g} allowed)")
    wrong += during.trouble[:3]
    if gone is not None:
        wrong.append(f"no answer: {gone!r}")
    elif not server.is_alive:
        wrong.append(f"the server ended: {server.said()[-1000:]}")
    said = f"quiet: {quiet}; under attack: {during}"
    print(said)
    assert not wrong, f"{', '.join(wrong)} ({said})"


def left_as_before(server: Server, before: Any, log_length: int) -> None:
    """Nothing runs, nothing is held, no error was the server's own, and answers are what they were."""
    idle = server.wait_until(lambda status: not status["num_requests_running"] and not status["num_requests_waiting"])
    parts = idle["memory_budget"]["parts"]
    assert not any(parts[name] for name in HELD), parts
    said = server.said()[log_length:]
    assert "Traceback" not in said and '" 500' not in said, said[-4000:]
    assert server.chat() == before


# -- requests that do harm


@dataclass(frozen=True)
class Attack:
    """A body for a path, sent by so many clients at once. A refusal must name one of `fields`, where there are any."""

    path: str
    body: Callable[[], bytes]
    fields: tuple[str, ...] = ()
    clients: int = 1
    sharp: bool = False  # among those that `make test` runs
    allowed: tuple[int, ...] = (200, *REFUSALS)

    def run(self, server: Server) -> None:
        body = self.body()
        with under_attack(server):
            answers = at_once(server, [(self.path, body)] * self.clients)
        for answer in answers:
            assert answer.status in self.allowed, answer
            if answer.status != 200:
                check_refusal(self.path, answer, self.fields)


def at_once(server: Server, requests: Sequence[tuple[str, bytes]]) -> list[Answer]:
    with ThreadPoolExecutor(max(1, len(requests))) as pool:
        return list(pool.map(lambda request: server.request("POST", *request), requests))


def check_refusal(path: str, answer: Answer, fields: Sequence[str]) -> None:
    """The API's own error object, which names what was wrong: unless the body was not read, or it is just not now."""
    assert answer.headers["content-type"].startswith("application/json"), answer
    told = answer.json()
    error = told["error"]
    assert error["message"] and error["type"], answer
    if path.startswith("/v1/messages"):
        assert told["type"] == "error", answer
        named = error["message"]
    else:
        assert set(error) == {"message", "type", "param", "code"}, answer
        named = f"{error['param']}: {error['message']}"
    if answer.status in (429, 503):
        assert int(answer.headers["retry-after"]) > 0, answer
    elif fields and "The request's body" not in named:
        assert any(each in named for each in fields), (fields, str(answer))


def cases(attacks: Mapping[str, Attack], quick: str | None = None) -> list[Any]:
    """For pytest.mark.parametrize: the sharp ones always run, the others are slow; of these one in three, but all in
    `make soak` and `make fuzz`. Where the sharp ones take long, `quick` is the one that `make test` runs instead."""
    sharp = [name for name, attack in attacks.items() if attack.sharp]
    others = [name for name, attack in attacks.items() if not attack.sharp]
    always = [quick] if quick else sharp
    tried = {*always, *sharp, *(others if LONG else others[::3])}
    return [
        pytest.param(attack, id=name, marks=() if name in always else pytest.mark.slow)
        for name, attack in attacks.items()
        if name in tried
    ]
