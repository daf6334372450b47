"""What fails how over ranks, as docs/scale-out.md says it: with real processes."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from paceline.ranks.leaving import LOST
from tests.fleet import Server
from tests.rank_fleet import PATIENCE, children, codes, is_gone, pair, say, served, streamed, ticks
from tests.server.child import free_port
from tests.waiting import until

USED = 2  # the code of a wrong command line
# A rank that at SIGUSR1 makes a call in which no other thread can run, as some of MLX's are.
HANGING = """
import ctypes, signal
from paceline.cli import main
signal.signal(signal.SIGUSR1, lambda *_: ctypes.PyDLL(None).sleep(1000))
main()
"""
OTHER_VERSION = """
import paceline
paceline.__version__ = "0.0.7"
from paceline.cli import main
main()
"""

pytestmark = pytest.mark.slow


def is_unwell(server: Server, reason: str) -> None:
    health = httpx.get(f"{server.url}/health", timeout=PATIENCE, trust_env=False)
    assert health.status_code == 503 and reason in health.text


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_rank_that_is_gone_ends_all_with_an_error(llama: Path, number: signal.Signals) -> None:
    with served(llama) as server:
        [follower] = children(server)
        with streamed(server, max_tokens=4000) as events:
            next(events)
            os.kill(follower, number)
            *_, last = events
        assert "Rank 1" in last["error"]["message"], last
        is_unwell(server, "Rank 1")
        assert codes(server) == [LOST]
        until(lambda: is_gone(follower))


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_ranks_without_a_leader_end(llama: Path, number: signal.Signals) -> None:
    with pair() as ranks:
        leader, follower = ranks.start(0, llama), ranks.start(1, llama)
        leader.until_ready()
        leader.send(number)
        assert codes(follower) == [LOST]
        assert ("is gone" if number == signal.SIGKILL else "has not been heard") in follower.log()
        leader.send(signal.SIGCONT)  # one that was stopped learns then that it is alone
        assert codes(leader)[0] in (-signal.SIGKILL, LOST, -signal.SIGALRM)


@pytest.mark.parametrize("rank", [0, 1])
def test_a_rank_that_lets_no_thread_run_is_ended_by_the_kernel(llama: Path, rank: int) -> None:
    with pair() as ranks:
        started = [ranks.start(number, llama, program=("-c", HANGING)) for number in (0, 1)]
        stuck, other = started[rank], started[1 - rank]
        started[0].until_ready()
        with streamed(started[0], max_tokens=4000) as events:
            next(events)
            stuck.send(signal.SIGUSR1)
            if rank == 0:  # what it would say, it cannot
                with pytest.raises(httpx.TransportError):
                    list(events)
            else:
                *_, last = events
                assert "Rank 1 has not answered" in last["error"]["message"], last
        assert codes(stuck, other) == [-signal.SIGALRM, LOST]
        assert 'File "<string>"' in stuck.log()  # where it was


def test_an_idle_server_takes_no_time(llama: Path) -> None:
    with served(llama) as server:
        say(server, max_tokens=4)
        processes = [server.process.pid, *children(server)]
        before = [ticks(pid) for pid in processes]
        with pytest.raises(subprocess.TimeoutExpired):
            server.process.wait(5)
        spent = [ticks(pid) - start for pid, start in zip(processes, before, strict=True)]
        assert max(spent) < 0.2 * 5 * os.sysconf("SC_CLK_TCK")


@pytest.mark.parametrize("all_ranks", [False, True], ids=["rank 0", "all ranks"])
def test_a_leader_that_drains_loses_no_token(llama: Path, all_ranks: bool) -> None:
    """Also where a supervisor ends all ranks at the same time."""
    with pair() as ranks:
        leader, follower = (ranks.start(rank, llama, "--drain-seconds", "400") for rank in (0, 1))
        leader.until_ready()
        wanted = say(leader, max_tokens=300)
        with streamed(leader, max_tokens=300, stream_options={"include_usage": True}) as events:
            heard = [next(events) for _ in range(5)]
            for server in (leader, follower) if all_ranks else (leader,):
                server.send(signal.SIGTERM)
            heard += events
        assert heard[-1]["usage"]["completion_tokens"] == 300
        choices = [choice for event in heard for choice in event["choices"]]
        assert "".join(choice["delta"].get("content") or "" for choice in choices) == wanted
        assert choices[-1]["finish_reason"] == "length"
        assert codes(leader, follower) == [0, 0]


def test_a_rank_without_a_leader_gives_up(llama: Path) -> None:
    with pair() as ranks:
        follower = ranks.start(1, llama, "--rank-start-seconds", "1")
        assert codes(follower) == [LOST]
        assert "Rank 0 did not answer" in follower.log()


def test_a_leader_whose_ranks_do_not_come_gives_up(llama: Path) -> None:
    with pair() as ranks:
        leader = ranks.start(0, llama, "--rank-start-seconds", "1")
        assert codes(leader) == [LOST]
        assert "Rank 1 did not come within 1 seconds" in leader.log()


def test_a_rank_with_another_secret_is_not_let_in(llama: Path) -> None:
    """And rank 0 goes on to wait for the right one."""
    with pair() as ranks:
        leader = ranks.start(0, llama)
        stranger = ranks.start(1, llama, secret="t" * 20)
        assert codes(stranger) == [USED]
        assert "The secret of this rank is not that of rank 0." in stranger.log()
        until(lambda: "refused a connection from 127.0.0.1" in leader.log())
        ranks.start(1, llama)
        leader.until_ready()


@pytest.mark.parametrize("what", ["weights", "version", "setting"])
def test_a_rank_that_differs_is_refused(tiny: Callable[..., Path], what: str) -> None:
    reason, model, more = {
        "weights": ("its weights or its config.json differ", "qwen3", {}),
        "version": ("it has Paceline 0.0.7, and rank 0 has", "llama", {"program": ("-c", OTHER_VERSION)}),
        "setting": ("kv_layout is rows there, and auto on rank 0", "llama", {"flags": ("--kv-layout", "rows")}),
    }[what]
    settings: dict[str, Any] = dict(more)
    with pair() as ranks:
        leader = ranks.start(0, tiny("llama"))
        other = ranks.start(1, tiny(model), *settings.pop("flags", ()), **settings)
        assert codes(leader, other) == [USED, USED]
        assert reason in leader.log() and reason in other.log()


@pytest.mark.parametrize("which", ["http", "ranks"])
def test_a_port_in_use_is_said_at_once(llama: Path, which: str) -> None:
    with pair() as ranks:
        port = ranks.port if which == "http" else ranks.meeting
        with socket.create_server(("127.0.0.1", port)):
            leader = ranks.start(0, llama)
            assert codes(leader) == [USED]
            assert f"{port}" in leader.log() and "in use" in leader.log()


@pytest.mark.parametrize("rank", [0, 1])
def test_a_port_in_use_of_mlx_itself_ends_both_ranks(llama: Path, rank: int) -> None:
    with pair() as ranks, socket.create_server(("127.0.0.1", ranks.ring[rank])):
        started = [ranks.start(number, llama) for number in (0, 1)]
        this, other = started[rank], started[1 - rank]
        assert codes(this) == [USED]
        assert "The ranks cannot be connected" in this.log()
        assert codes(other)[0] in (LOST, -signal.SIGALRM)  # MLX lets no thread run while it waits for this one


def test_a_family_that_cannot_be_split_is_refused(window: Path) -> None:
    """Gemma 3: mlx-lm has no shard() for it."""
    port = free_port()
    command = [sys.executable, "-m", "paceline", "serve", str(window), "--port", str(port), "--ranks", "2"]
    server = Server(command, port, "/ready")
    try:
        assert codes(server) == [USED]
        assert "mlx-lm has no shard() for it" in server.log()
    finally:
        server.end()
