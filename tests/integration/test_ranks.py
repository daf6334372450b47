"""Real ranks: two processes over MLX's ring on this machine."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import mlx.core as mx
import pytest

from paceline.bench.local_fleet import free_port
from paceline.models.sharding import TOLERANCE
from paceline.parallel.launch import free_ports
from paceline.ranks.leaving import LOST
from paceline.setting_sources import SECRET_VARIABLE
from tests.fleet import MODEL, ROOT, Server
from tests.lengths import turns
from tests.waiting import WAIT, until

PATIENCE = 500.0  # seconds for what two processes do on a machine that runs other tests
TIMEOUT = 15.0  # seconds after which a rank that is stopped counts as lost
CHAT: dict[str, Any] = {
    "messages": [{"role": "user", "content": "Tell me about rivers and stones."}],
    "temperature": 0,
    "ignore_eos": True,
}

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("family", ["llama", "qwen3", "hybrid", "hybrid_moe"])
def test_two_ranks_say_what_one_process_says(family: str, tiny: Callable[..., Path], tmp_path: Path) -> None:
    """Through joins, leaves, preemptions, restores, drafts of 0 to 3 tokens and aborts; digests are compared at every
    step, on both ranks, or the processes end."""
    found = played(tiny(family), tmp_path)
    assert found["error"] <= TOLERANCE[mx.float32]
    assert found["compared"] and found["wrong"] == {}
    assert found["preempted"] and found["restored"] and found["aborted"]
    assert set(found["ended"].values()) == {"length", "abort"}
    assert 0 in found["drafted"]
    if family.startswith("hybrid"):  # these have an MTP head
        assert {0, 1, 2, 3} <= set(found["drafted"])


def played(folder: Path, tmp_path: Path) -> dict[str, Any]:
    """The report of tests/parallel/rank_process.py."""
    hosts, report = tmp_path / "hosts.json", tmp_path / "report.json"
    *ports, port = free_ports(3)
    hosts.write_text(json.dumps([[f"127.0.0.1:{ring}"] for ring in ports]))
    command = [sys.executable, "-m", "tests.parallel.rank_process", str(folder), str(report)]
    shared = {"MLX_HOSTFILE": str(hosts), "PACELINE_TEST_PORT": str(port), "PYTHONPATH": str(ROOT)}
    shared["PACELINE_TEST_REQUESTS"] = str(turns(200, 24))
    ranks = [
        subprocess.Popen(command, cwd=ROOT, env={**os.environ, **shared, "MLX_RANK": str(rank)}) for rank in (0, 1)
    ]
    try:
        assert [rank.wait(PATIENCE) for rank in ranks] == [0, 0]
    finally:
        for rank in ranks:
            rank.kill()
            rank.wait()
    found: dict[str, Any] = json.loads(report.read_text())
    return found


@contextmanager
def served(folder: Path, *flags: str, ranks: int = 2, env: dict[str, str] | None = None) -> Iterator[Server]:
    port = free_port()
    command = [sys.executable, "-m", "paceline", "serve", str(folder), "--served-model-name", MODEL]
    command += ["--port", str(port), "--dtype", "float32", "--memory-limit-gb", "2", *flags]
    if ranks > 1:
        command += ["--ranks", str(ranks), "--rank-timeout-seconds", str(TIMEOUT)]
    server = Server(command, port, "/ready", env)
    try:
        server.until_ready()
        yield server
    finally:
        server.end()


def children(server: Server) -> list[int]:
    pid = server.process.pid
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def is_gone(pid: int) -> bool:
    """Ended; one whose parent has not asked for its code is, too."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def say(server: Server, **more: Any) -> str:
    answer = httpx.post(f"{server.url}/v1/chat/completions", json={**CHAT, **more}, timeout=PATIENCE, trust_env=False)
    text: str = answer.raise_for_status().json()["choices"][0]["message"]["content"]
    return text


def test_a_server_over_two_ranks_answers_as_one_process_does(tiny: Callable[..., Path]) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    wanted: dict[str, Any] = {"type": "json_schema", "json_schema": {"name": "n", "schema": schema}}
    asked: list[dict[str, Any]] = [
        {"max_tokens": 24},
        {"max_tokens": 24},
        {"max_tokens": 60, "response_format": wanted, "ignore_eos": False},
    ]
    answers = []
    for ranks in (1, 2):
        with served(tiny("hybrid"), ranks=ranks) as server:
            answers.append([say(server, **more) for more in asked])
            if ranks == 2:
                assert "2 ranks" in " ".join(server.status()["model"]["notes"])
                httpx.post(f"{server.url}/v1/cache/clear", timeout=PATIENCE, trust_env=False)
                before = children(server)
                server.send(signal.SIGTERM)
                assert server.process.wait(PATIENCE) == 0, server.log()
                until(lambda: all(map(is_gone, before)))  # noqa: B023
    assert answers[0] == answers[1]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_rank_that_is_gone_ends_all_with_an_error(tiny: Callable[..., Path], number: signal.Signals) -> None:
    with served(tiny("llama")) as server:
        [follower] = children(server)
        body = {**CHAT, "max_tokens": 4000, "stream": True}
        with httpx.stream(
            "POST", f"{server.url}/v1/chat/completions", json=body, timeout=PATIENCE, trust_env=False
        ) as stream:
            lines = stream.iter_lines()
            next(line for line in lines if line.startswith("data: "))
            os.kill(follower, number)
            events = [json.loads(line[6:]) for line in lines if line.startswith("data: {")]
        assert "Rank 1" in events[-1]["error"]["message"], events[-1]
        health = httpx.get(f"{server.url}/health", timeout=PATIENCE, trust_env=False)
        assert health.status_code == 503 and "Rank 1" in health.text
        assert server.process.wait(PATIENCE) == LOST
        until(lambda: is_gone(follower))


def test_ranks_without_a_leader_end(tiny: Callable[..., Path]) -> None:
    with served(tiny("llama")) as server:
        [follower] = children(server)
        server.send(signal.SIGKILL)
        until(lambda: is_gone(follower))
        assert "Rank 0 is gone" in server.log()


def test_an_idle_server_takes_no_time(tiny: Callable[..., Path]) -> None:
    def ticks(pid: int) -> int:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return int(fields[11]) + int(fields[12])

    with served(tiny("llama")) as server:
        say(server, max_tokens=4)
        processes = [server.process.pid, *children(server)]
        before = [ticks(pid) for pid in processes]
        with pytest.raises(subprocess.TimeoutExpired):
            server.process.wait(5)
        spent = [ticks(pid) - start for pid, start in zip(processes, before, strict=True)]
        assert max(spent) < 0.2 * 5 * os.sysconf("SC_CLK_TCK")


@pytest.fixture
def rank_1(tmp_path: Path) -> Callable[..., tuple[int, str]]:
    """Starts rank 1 of two, and returns its code and what it said; rank 0 is the test's to start."""
    hosts = tmp_path / "hosts.json"
    hosts.write_text(json.dumps([[f"127.0.0.1:{port}"] for port in free_ports(2)]))
    env = {name: value for name, value in os.environ.items() if not name.startswith("PACELINE_")}
    env |= {"MLX_RANK": "1", "MLX_HOSTFILE": str(hosts), "PYTHONPATH": str(ROOT), SECRET_VARIABLE: "s" * 20}

    def run(folder: Path, *flags: str) -> tuple[int, str]:
        command = [sys.executable, "-m", "paceline", "serve", str(folder), "--parallel", "tensor", *flags]
        ended = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=PATIENCE)
        return ended.returncode, ended.stderr

    return run


def test_a_rank_without_a_leader_gives_up(tiny: Callable[..., Path], rank_1: Callable[..., tuple[int, str]]) -> None:
    code, said = rank_1(tiny("llama"), "--rank-port", str(free_port()), "--rank-start-seconds", "1")
    assert code == LOST and "Rank 0 did not answer" in said


def test_a_leader_whose_ranks_do_not_come_gives_up(tiny: Callable[..., Path], tmp_path: Path) -> None:
    hosts = tmp_path / "hosts.json"
    hosts.write_text(json.dumps([[f"127.0.0.1:{port}"] for port in free_ports(2)]))
    port = free_port()
    command = [sys.executable, "-m", "paceline", "serve", str(tiny("llama")), "--parallel", "tensor"]
    command += ["--port", str(port), "--rank-port", str(free_port()), "--rank-start-seconds", "1"]
    env = {"MLX_RANK": "0", "MLX_HOSTFILE": str(hosts), SECRET_VARIABLE: "s" * 20}
    server = Server(command, port, "/ready", env)
    try:
        assert server.process.wait(PATIENCE) == LOST
        assert "Rank 1 did not come within 1 seconds" in server.log()
    finally:
        server.end()


def test_a_family_that_cannot_be_split_is_refused(tiny: Callable[..., Path]) -> None:
    """Gemma 3: mlx-lm has no shard() for it."""
    port = free_port()
    command = [sys.executable, "-m", "paceline", "serve", str(tiny("window")), "--port", str(port), "--ranks", "2"]
    server = Server(command, port, "/ready")
    try:
        assert server.process.wait(PATIENCE) == 2
        assert "mlx-lm has no shard() for it" in server.log()
    finally:
        server.end()


def test_a_rank_with_other_weights_is_refused(
    tiny: Callable[..., Path], rank_1: Callable[..., tuple[int, str]], tmp_path: Path
) -> None:
    hosts = tmp_path / "leader.json"
    hosts.write_text(json.dumps([[f"127.0.0.1:{port}"] for port in free_ports(2)]))
    port, meeting = free_ports(2)
    command = [sys.executable, "-m", "paceline", "serve", str(tiny("llama")), "--parallel", "tensor"]
    command += ["--port", str(port), "--rank-port", str(meeting)]
    server = Server(command, port, "/ready", {"MLX_RANK": "0", "MLX_HOSTFILE": str(hosts), SECRET_VARIABLE: "s" * 20})
    try:
        code, said = rank_1(tiny("qwen3"), "--rank-port", str(meeting))
        assert code == 2 and "its weights or its config.json differ" in said
        assert server.process.wait(WAIT) == 2
        assert "its weights or its config.json differ" in server.log()
    finally:
        server.end()
