from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from benchmarks.cli import app
from benchmarks.prefix_overhead import SYSTEM, Overhead, OverheadBench, Turns, compare, conversation, tiny_chats

if TYPE_CHECKING:
    from tests.conftest import Tiny


def test_ratios_are_those_of_a_pair() -> None:
    line = Overhead("chats", "requests", 8, Turns([2.0, 4.0], [1.0, 2.0]), Turns([1.0, 4.0], [1.0, 1.0]))
    assert (line.ratios, line.cpu_ratios) == ([0.5, 1.0], [1.0, 0.5])
    figures = line.figures()
    assert figures["on_to_off"] == {"median": 0.75, "lowest": 0.5}
    assert (figures["on_per_s"], figures["off_per_s"]) == (8 / 3, 3.2)


def test_tiny_chats_share_their_system_prompt_and_nothing_else() -> None:
    chats = [chat for client in tiny_chats(4, 2, 10_000, seed=0) for chat in client]
    assert len(chats) == 8
    assert len({chat.prompt[:SYSTEM] for chat in chats}) == 1
    assert len({chat.prompt[20:] for chat in chats}) == 8
    for chat in chats:
        assert 20 <= len(chat.prompt) <= 60 and 8 <= chat.answer <= 16
        assert list(chat.boundaries) == sorted(set(chat.boundaries)) and chat.boundaries[-1] < len(chat.prompt)


def test_a_conversation_has_a_boundary_at_every_turn() -> None:
    chat = conversation(300, 100, seed=0)
    assert len(chat.boundaries) == 302
    assert chat.boundaries[-1] < len(chat.prompt)


@pytest.mark.slow
def test_both_kinds_of_traffic_run_with_the_cache_on_and_off(tiny: Tiny) -> None:
    with OverheadBench(str(tiny("hybrid")), prefill_chunk=64) as bench:
        lines = compare(bench, 2, clients=3, turns=12, chats=2)
        counts = bench.manager.cache.counts
        assert counts.stored > 0  # of the conversation; the tiny chats are too short
    for line in lines:
        times = line.on.wall + line.off.wall + line.on.cpu + line.off.cpu
        assert (len(times), min(times) > 0) == (8, True)


@pytest.mark.slow
def test_the_command_prints_a_table_and_writes_json(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    arguments = ["--turns", "1", "--clients", "2", "--history", "8", "--json", "-"]
    result = CliRunner().invoke(app, ["prefix-overhead", str(tiny("hybrid")), *arguments])
    assert result.exit_code == 0, result.output
    first, second = json.loads(result.stdout)["traffic"]
    assert (first["traffic"], second["unit"]) == ("2 clients, tiny chats", "tokens")
    assert "on / off by CPU time" in result.stderr
