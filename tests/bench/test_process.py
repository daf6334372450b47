"""A server's process is awaited, read and ended."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from paceline.bench import process as processes
from paceline.bench.process import Process
from paceline.bench.wire import BenchError, call

SERVER = """
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer

class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.path == "/ready" else 404)
        self.end_headers()

print("listening", flush=True)
HTTPServer(("127.0.0.1", int(sys.argv[sys.argv.index("--port") + 1])), Handler).serve_forever()
"""


async def test_it_is_ready_when_it_says_so_and_gone_afterwards(tmp_path: Path) -> None:
    (tmp_path / "server.py").write_text(SERVER)
    process = Process([sys.executable, str(tmp_path / "server.py")], "/ready")
    async with process:
        assert (await call(process.address, "GET", "/ready", timeout=10)).status == 200
        assert process.returncode is None and "listening" in process.log()
    assert process.returncode is not None
    with pytest.raises(BenchError, match="Is the server up"):
        await call(process.address, "GET", "/ready", timeout=10)


async def test_one_that_ends_at_once_is_an_error_with_its_last_words() -> None:
    process = Process([sys.executable, "-c", "print('no such model'); raise SystemExit(3)"], "/ready")
    with pytest.raises(BenchError, match="no such model"):
        async with process:
            pass
    assert process.returncode == 3


async def test_one_that_never_answers_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "READY", 0.5)
    process = Process([sys.executable, "-c", "import time; time.sleep(600)"], "/ready")
    with pytest.raises(BenchError, match="was not ready"):
        async with process:
            pass
    assert process.returncode is not None
