from __future__ import annotations

import sys

import httpx
import pytest

from paceline.bench import local_fleet
from paceline.bench.local_fleet import find_smg, free_port, replica_command, running, smg_command
from paceline.bench.wire import Address, BenchError

HTTP_SERVER = [sys.executable, "-m", "http.server", "--bind", "127.0.0.1"]


async def test_a_process_is_there_when_it_answers_and_gone_afterwards() -> None:
    port = free_port()
    async with running([*HTTP_SERVER, str(port)], port, "/") as address:
        assert httpx.get(str(address), trust_env=False).status_code == 200
    with pytest.raises(httpx.TransportError):
        httpx.get(str(address), trust_env=False)


async def test_a_process_that_ends_at_once_is_an_error_with_its_last_words() -> None:
    command = [sys.executable, "-c", "print('no model here'); raise SystemExit(3)"]
    with pytest.raises(BenchError, match="no model here"):
        async with running(command, free_port(), "/"):
            raise AssertionError("it did not come up")


async def test_a_process_that_never_answers_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_fleet, "START_SECONDS", 0.0)
    with pytest.raises(BenchError, match="did not come up"):
        async with running([sys.executable, "-c", "import time; time.sleep(600)"], free_port(), "/"):
            raise AssertionError("it answers nothing")


def test_a_program_that_is_named_has_to_be_there() -> None:
    assert find_smg(sys.executable) == sys.executable
    with pytest.raises(BenchError, match="pip install smg"):
        find_smg("no-such-program")


def test_commands_name_what_they_start() -> None:
    assert replica_command("folder", 5)[-6:] == ["serve", "folder", "--port", "5", "--log-level", "warning"]
    assert replica_command(None, 5)[3] == "serve" and "--port" in replica_command(None, 5)
    replicas = [Address.parse("http://a:1"), Address.parse("http://b:2")]
    command = smg_command("smg", 3000, replicas, "cache_aware", ["--more"])
    assert command[:2] == ["smg", "launch"] and command[-1] == "--more"
    place = command.index("--worker-urls")
    assert command[place + 1 : place + 3] == ["http://a:1", "http://b:2"]
