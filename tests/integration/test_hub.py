"""`paceline models` and `paceline serve --hf-cache` as processes, with a hub that imitates Hugging Face's."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import huggingface_hub
import pytest

from paceline.errors import LoadError
from paceline.models import files
from paceline.models.files import EMBEDDED
from tests.fleet import ROOT, Server
from tests.hub import COMMIT, Hub, hub
from tests.server.child import free_port

NAME = "owner/mini"
MODEL = EMBEDDED / "paceline-mini"
MEGABYTE = 1 << 20
Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def fake() -> Iterator[Hub]:
    with hub() as fake:
        fake.repositories[NAME] = MODEL
        yield fake


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "huggingface"


def environment(fake: Hub, home: Path) -> dict[str, str]:
    own = {name: value for name, value in os.environ.items() if not name.startswith(("PACELINE_", "HF_"))}
    return {**own, "PYTHONPATH": str(ROOT), "HF_ENDPOINT": fake.url, "HF_HOME": str(home), "COLUMNS": "200"}


@pytest.fixture
def run(fake: Hub, home: Path) -> Run:
    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "paceline", *arguments]
        return subprocess.run(command, env=environment(fake, home), capture_output=True, text=True, timeout=300)

    return run


def snapshot(home: Path) -> Path:
    return home / "hub" / "models--owner--mini" / "snapshots" / COMMIT


def is_whole(home: Path) -> bool:
    kept = {file.name: file.read_bytes() for file in snapshot(home).iterdir()}
    return kept == {file.name: file.read_bytes() for file in MODEL.iterdir() if file.name in kept} and len(kept) >= 8


def in_a_terminal(fake: Hub, home: Path, *arguments: str) -> tuple[int, str]:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 120, 0, 0))
    command = [sys.executable, "-m", "paceline", *arguments]
    process = subprocess.Popen(command, env=environment(fake, home), stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    said = b""
    try:
        while part := os.read(ours, 65536):
            said += part
    except OSError as error:
        assert error.errno == errno.EIO  # the other end was closed
    os.close(ours)
    return process.wait(), said.decode()


@pytest.mark.slow
def test_a_model_is_pulled_with_a_bar_once_listed_shown_and_removed(fake: Hub, home: Path, run: Run) -> None:
    fake.drop_after = 11 * MEGABYTE  # the library writes parts of 10
    code, said = in_a_terminal(fake, home, "models", "pull", NAME)
    assert code == 0 and "Fetching" in said and "100%" in said and f"{NAME} is in" in said
    assert any("safetensors@" in file for file in fake.got), "a connection that broke off is resumed"
    assert is_whole(home)
    fake.got.clear()
    again = run("models", "pull", NAME)
    assert again.returncode == 0 and fake.got == []
    listed = json.loads(run("models", "list", "--json").stdout)
    assert (NAME, "cache") in [(card["name"], card["place"]) for card in listed]
    shown = run("models", "show", NAME, "--context", "4096").stdout
    assert "model-00001-of-00003.safetensors" in shown and "4,096 tokens" in shown
    assert run("models", "rm", NAME, "--yes").returncode == 0
    assert NAME not in run("models", "list", "--json").stdout


@pytest.mark.slow
def test_an_interrupted_pull_ends_at_once_and_the_next_downloads_the_rest(fake: Hub, home: Path, run: Run) -> None:
    fake.hold_after = MEGABYTE
    command = [sys.executable, "-m", "paceline", "models", "pull", NAME]
    process = subprocess.Popen(command, env=environment(fake, home), stderr=subprocess.PIPE, text=True)
    assert fake.held.wait(120)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)  # while the hub still holds its file back
    assert process.returncode == 130 and "Interrupted" in said and "Traceback" not in said
    assert not list(home.rglob("*.incomplete"))
    fake.go_on.set()
    before = {file.name for file in snapshot(home).iterdir()} if snapshot(home).is_dir() else set()
    fake.got.clear()
    assert run("models", "pull", NAME).returncode == 0
    assert is_whole(home) and before.isdisjoint(fake.got)


@pytest.mark.slow
def test_what_cannot_be_pulled_is_one_line_and_an_exit_code(fake: Hub, home: Path, run: Run) -> None:
    fake.gated.add("owner/gated")
    for name, words in (("owner/gated", "is gated: accept its terms"), ("owner/unknown", "the hub has no such model")):
        refused = run("models", "pull", name)
        (line,) = refused.stderr.strip().splitlines()
        assert refused.returncode == 2 and line.startswith("paceline: error:") and words in line and "HF_TOKEN" in line
    fake.down = True
    refused = run("models", "pull", NAME)
    assert refused.returncode == 2 and "the hub answers: " in refused.stderr and "503" in refused.stderr
    fake.url = f"http://127.0.0.1:{free_port()}"
    refused = run("models", "pull", NAME)
    assert refused.returncode == 2 and "the hub cannot be reached" in refused.stderr and "\n\n" not in refused.stderr


@pytest.mark.parametrize(
    "error", [OSError(errno.ENOSPC, "No space left on device"), RuntimeError("the connection\nis gone")]
)
def test_any_error_of_a_download_is_one_line(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> Any:
        raise error

    monkeypatch.setattr(huggingface_hub, "snapshot_download", fail)
    with pytest.raises(LoadError, match=r"cannot be downloaded: .*(No space left on device|the connection is gone)"):
        files.download(NAME)


@pytest.mark.slow
def test_a_pulled_model_is_served_by_its_name_from_the_cache(fake: Hub, home: Path, run: Run) -> None:
    assert run("models", "pull", NAME).returncode == 0
    fake.got.clear()
    port = free_port()
    command = [sys.executable, "-m", "paceline", "serve", "--hf-cache", "--port", str(port)]
    server = Server(command, port, "/ready", {"HF_ENDPOINT": fake.url, "HF_HOME": str(home)})
    try:
        server.until_ready()
        with httpx.Client(base_url=server.url, timeout=300, trust_env=False) as client:
            cards = {card["id"]: card["state"] for card in client.get("/v1/models").json()["data"]}
            assert cards == {NAME: "unloaded"}
            question = {"messages": [{"role": "user", "content": "Hello!"}], "max_tokens": 4}
            for name in (NAME, "mini"):
                answer = client.post("/v1/chat/completions", json={**question, "model": name})
                assert answer.status_code == 200 and answer.json()["usage"]["completion_tokens"] > 0
            unknown = client.post("/v1/chat/completions", json={**question, "model": "nobody"})
            assert unknown.status_code == 404 and NAME in unknown.text
        assert fake.got == []
    finally:
        server.send(signal.SIGTERM)
        server.process.wait(60)
        server.end()
