"""Replicas and routers as processes of their own, started as examples/scale-out starts them."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx

from tests.server.child import free_port
from tests.waiting import until

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples" / "scale-out"
MODEL = "tiny"
START_SECONDS = 400.0  # three replicas that load at the same time as other tests run


def find_smg() -> str | None:
    """The one that was named, the one that `make scale` installs, or one on the path."""
    own = Path(sys.prefix) / "smg" / "bin" / "smg"
    return os.environ.get("PACELINE_SMG") or (str(own) if own.exists() else shutil.which("smg"))


class Server:
    """A process that listens. `ready` is the path that says when it can be used."""

    def __init__(
        self,
        command: Sequence[str],
        port: int,
        ready: str,
        env: Mapping[str, str] | None = None,
        stdin: int = subprocess.DEVNULL,
    ) -> None:
        self.port = port
        self.url = f"http://127.0.0.1:{port}"
        self._ready = ready
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 (closed in `end`)
        # Variables of the tests' own would be unknown settings to a server.
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("PACELINE_")}
        self.process = subprocess.Popen(
            command,
            cwd=ROOT,
            env={**inherited, "PYTHONPATH": str(ROOT), **(env or {})},
            stdin=stdin,
            stdout=self._log,
            stderr=subprocess.STDOUT,
        )

    def until_ready(self) -> None:
        until(lambda: self.is_ready() or self._has_ended(), START_SECONDS)

    def is_ready(self) -> bool:
        try:
            return httpx.get(self.url + self._ready, timeout=10, trust_env=False).status_code == 200
        except httpx.TransportError:
            return False

    def _has_ended(self) -> bool:
        assert self.process.poll() is None, f"{self.process.args!r} has ended:\n{self.log()}"
        return False

    def log(self) -> str:
        self._log.seek(0)
        return self._log.read().decode(errors="replace")

    def send(self, number: int) -> None:
        self.process.send_signal(number)

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        if self.process.stdin is not None:
            self.process.stdin.close()
        self._log.close()

    def status(self, key: str | None = None) -> dict[str, Any]:
        headers = {} if key is None else {"authorization": f"Bearer {key}"}
        status: dict[str, Any] = (
            httpx.get(f"{self.url}/v1/status", headers=headers, timeout=60, trust_env=False).raise_for_status().json()
        )
        return status

    def finished(self, key: str | None = None) -> int:
        return sum(self.status(key)["requests_finished"].values())


@contextmanager
def replicas(folder: Path, count: int, *flags: str) -> Iterator[list[Server]]:
    """They load at the same time."""
    with ExitStack() as stack:
        started = []
        for _ in range(count):
            port = free_port()
            command = [sys.executable, "-m", "paceline", "serve", str(folder), "--served-model-name", MODEL]
            server = Server([*command, "--port", str(port), "--log-level", "warning", *flags], port, "/ready")
            stack.callback(server.end)
            started.append(server)
        for server in started:
            server.until_ready()
        yield started


@contextmanager
def smg(program: str, behind: Sequence[Server], keys: Sequence[str] = ()) -> Iterator[Server]:
    """Started by the script of the example."""
    port = free_port()
    env = {"SMG": program, "PORT": str(port), "METRICS_PORT": str(free_port())}
    env["KEYS"] = " ".join(keys)
    env["REPLICAS"] = " ".join(server.url for server in behind)
    server = Server(["sh", str(EXAMPLES / "smg.sh")], port, "/readiness", env)
    try:
        server.until_ready()
        until(lambda: len(workers(server, *keys[:1])) == len(behind))
        yield server
    finally:
        server.send(signal.SIGINT)
        server.end()


def workers(router: Server, key: str = "none") -> list[dict[str, Any]]:
    """Those that SMG gives requests to."""
    headers = {"authorization": f"Bearer {key}"}
    listed = httpx.get(f"{router.url}/workers", headers=headers, timeout=60, trust_env=False).json()["workers"]
    return [worker for worker in listed if worker["is_healthy"]]
