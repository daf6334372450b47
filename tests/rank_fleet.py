"""Servers whose model is split over two real processes."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx

from paceline.parallel.launch import free_ports
from paceline.setting_sources import SECRET_VARIABLE
from tests.fleet import MODEL, Server
from tests.server.child import free_port

PATIENCE = 500.0  # seconds for what two processes do on a machine that runs other tests
TIMEOUT = 15.0  # seconds after which a rank that is stopped counts as lost
SECRET = "s" * 20
PACELINE = ("-m", "paceline")
CHAT: dict[str, Any] = {
    "messages": [{"role": "user", "content": "Tell me about rivers and stones."}],
    "temperature": 0,
    "ignore_eos": True,
}


def command(folder: Path, *flags: str, program: Sequence[str] = PACELINE) -> list[str]:
    common = ["--served-model-name", MODEL, "--dtype", "float32", "--memory-limit-gb", "2"]
    return [sys.executable, *program, "serve", str(folder), *common, *flags]


@contextmanager
def served(folder: Path, *flags: str, ranks: int = 2) -> Iterator[Server]:
    """By --ranks, or in one process."""
    port = free_port()
    if ranks > 1:
        flags = ("--ranks", str(ranks), "--rank-timeout-seconds", str(TIMEOUT), *flags)
    server = Server(command(folder, "--port", str(port), *flags), port, "/ready")
    try:
        server.until_ready()
        yield server
    finally:
        server.end()


class Pair:
    """Two ranks that are started one by one, as on two machines."""

    def __init__(self, stack: ExitStack, folder: Path) -> None:
        self._stack = stack
        self.port, self.meeting = free_ports(2)
        self._hosts = folder / "hosts.json"
        self.ring = free_ports(2)  # of MLX's collectives
        self._hosts.write_text(json.dumps([[f"127.0.0.1:{port}"] for port in self.ring]))

    def start(
        self, rank: int, model: Path, *flags: str, secret: str = SECRET, program: Sequence[str] = PACELINE
    ) -> Server:
        own = ["--parallel", "tensor", "--port", str(self.port), "--rank-port", str(self.meeting)]
        own += ["--rank-timeout-seconds", str(TIMEOUT), *flags]
        env = {"MLX_RANK": str(rank), "MLX_HOSTFILE": str(self._hosts), SECRET_VARIABLE: secret}
        server = Server(command(model, *own, program=program), self.port, "/ready", env)
        self._stack.callback(server.end)
        return server


@contextmanager
def pair() -> Iterator[Pair]:
    with ExitStack() as stack:
        yield Pair(stack, Path(stack.enter_context(tempfile.TemporaryDirectory())))


def children(server: Server) -> list[int]:
    """Whichever of its threads has started them."""
    tasks = Path(f"/proc/{server.process.pid}/task").glob("*/children")
    return [int(child) for task in tasks for child in task.read_text().split()]


def is_gone(pid: int) -> bool:
    """Ended; one whose parent has not asked for its code is, too."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def ticks(pid: int) -> int:
    """Of the processor, that a process has taken."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def say(server: Server, **more: Any) -> str:
    text: str = post(server, "chat/completions", {**CHAT, **more})["choices"][0]["message"]["content"]
    return text


def post(server: Server, path: str, body: dict[str, Any]) -> dict[str, Any]:
    answer = httpx.post(f"{server.url}/v1/{path}", json=body, timeout=PATIENCE, trust_env=False)
    found: dict[str, Any] = answer.raise_for_status().json()
    return found


@contextmanager
def streamed(server: Server, **more: Any) -> Iterator[Iterator[dict[str, Any]]]:
    """The events of a stream that has begun."""
    body = {**CHAT, "stream": True, **more}
    url = f"{server.url}/v1/chat/completions"
    with httpx.stream("POST", url, json=body, timeout=PATIENCE, trust_env=False) as stream:
        events = (json.loads(line[6:]) for line in stream.iter_lines() if line.startswith("data: {"))
        yield events


def codes(*servers: Server) -> list[int]:
    """With which they end."""
    return [server.process.wait(PATIENCE) for server in servers]
