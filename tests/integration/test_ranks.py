"""Real ranks: two processes over MLX's ring on this machine."""

from __future__ import annotations

import base64
import concurrent.futures
import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import mlx.core as mx
import numpy as np
import pytest
from PIL import Image

from paceline.models.sharding import TOLERANCE
from paceline.parallel.launch import free_ports
from paceline.setting_sources import SECRET_VARIABLE
from tests.fleet import MODEL, ROOT, Server
from tests.lengths import turns
from tests.rank_fleet import CHAT, PATIENCE, SECRET, children, command, is_gone, post, say, served
from tests.waiting import until

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("family", ["llama", "qwen3", "qwen3_moe", "hybrid", "hybrid_moe"])
def test_two_ranks_say_what_one_process_says(family: str, tiny: Callable[..., Path], tmp_path: Path) -> None:
    """Through joins, leaves, preemptions, restores, drafts of 0 to 3 tokens and aborts; digests are compared at every
    step, on both ranks, or the processes end."""
    found = played(tiny(family), tmp_path)
    assert found["error"] <= TOLERANCE[mx.float32]
    assert found["compared"] and found["wrong"] == {}
    assert found["compared_digests"] == found["steps"]
    for happened in ("joined", "left", "preempted", "restored", "aborted", "accepted"):
        assert found[happened], happened
    assert set(found["drafted"]) == {0, 1, 2, 3}
    assert set(found["ended"].values()) == {"length", "abort"}


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


def picture() -> str:
    file = io.BytesIO()
    noise = np.random.default_rng(0).integers(0, 256, (64, 96, 3), dtype=np.uint8)
    Image.fromarray(noise).save(file, "PNG")
    return f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"


def questions() -> list[tuple[str, dict[str, Any]]]:
    """Text, a picture, an answer by a schema, and vectors."""
    properties = {"n": {"type": "integer"}, "s": {"enum": ["a", "b"]}}
    schema = {"type": "object", "properties": properties, "required": ["n", "s"], "additionalProperties": False}
    wanted = {"type": "json_schema", "json_schema": {"name": "n", "schema": schema}}
    seen = [{"type": "image_url", "image_url": {"url": picture()}}, {"type": "text", "text": "What is this?"}]
    chats: list[dict[str, Any]] = [
        {"max_tokens": 24},
        {"max_tokens": 24, "messages": [{"role": "user", "content": seen}]},
        {"max_tokens": 24, "messages": [{"role": "user", "content": [*seen, *seen]}]},
        {"max_tokens": 60, "response_format": wanted, "ignore_eos": False},
    ]
    chats = [{**CHAT, "enable_thinking": False, **chat} for chat in chats]
    embedded = {"model": MODEL, "input": ["Rivers and stones.", "A much longer text about the weather. " * 20]}
    return [*(("chat/completions", chat) for chat in chats), ("embeddings", embedded)]


def test_a_server_over_two_ranks_answers_as_one_process_does(tiny: Callable[..., Path]) -> None:
    """All at the same time, and once more, from the prefix cache."""
    asked = questions()
    answers = []
    for ranks in (1, 2):
        with served(tiny("hybrid"), "--prefill-chunk", "64", ranks=ranks) as server:
            with concurrent.futures.ThreadPoolExecutor() as pool:
                answers.append(list(pool.map(partial(post, server), *zip(*asked, strict=True))))
            again = [post(server, path, body) for path, body in asked[:2]]
            if ranks == 2:
                assert [texts(one) for one in again] == [texts(one) for one in answers[-1][:2]]
                assert again[1]["usage"]["prompt_tokens_details"]["cached_tokens"] > 0
                assert "2 ranks" in " ".join(server.status()["model"]["notes"])
                httpx.post(f"{server.url}/v1/cache/clear", timeout=PATIENCE, trust_env=False).raise_for_status()
                before = children(server)
                server.send(signal.SIGTERM)
                assert server.process.wait(PATIENCE) == 0, server.log()
                until(lambda: all(map(is_gone, before)))  # noqa: B023
    (*one, vectors), (*two, split_vectors) = answers
    assert [texts(answer) for answer in one] == [texts(answer) for answer in two]
    assert texts(two[3])[0].startswith("{")
    for mine, other in zip(vectors["data"], split_vectors["data"], strict=True):
        np.testing.assert_allclose(mine["embedding"], other["embedding"], atol=1e-4)


def texts(answer: dict[str, Any]) -> list[str]:
    return [choice["message"]["content"] for choice in answer["choices"]]


def test_four_ranks_answer_as_one_process_does(tiny: Callable[..., Path]) -> None:
    folder = tiny("llama", layers=2, kv_heads=4)
    answers = []
    for ranks in (1, 4):
        with served(folder, ranks=ranks) as server:
            answers.append(say(server, max_tokens=24))
    assert answers[0] == answers[1]


def test_mlx_launch_starts_the_ranks(llama: Path) -> None:
    """By the command of docs/scale-out.md, with the ring of this machine."""
    port, meeting, ring = free_ports(3)
    launcher = [str(Path(sys.executable).parent / "mlx.launch"), "-n", "2", "--backend", "ring", "-p", str(ring), "--"]
    flags = ("--parallel", "tensor", "--port", str(port), "--rank-port", str(meeting))
    env = {SECRET_VARIABLE: SECRET}
    # Its standard input stays open: it reads that of a closed one again and again.
    server = Server([*launcher, *command(llama, *flags)], port, "/ready", env, stdin=subprocess.PIPE)
    try:
        server.until_ready()
        split = say(server, max_tokens=24)
        ranks = children(server)
        [leader] = [pid for pid in ranks if b"MLX_RANK=0" in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")]
        os.kill(leader, signal.SIGTERM)
        assert server.process.wait(PATIENCE) == 0, server.log()
        assert "exited with code" not in server.log()
        assert all(map(is_gone, ranks))
    finally:
        for rank in children(server):  # which outlive a launcher that is killed
            os.kill(rank, signal.SIGKILL)
        server.end()
    with served(llama, ranks=1) as alone:
        assert split == say(alone, max_tokens=24)
