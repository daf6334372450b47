from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from benchmarks.cli import app
from benchmarks.crowd import Mix, Outcome
from benchmarks.overload import Plan, Report, Sightings, idle, overload, overload_table, rules
from paceline.bench.prompts import Lengths

if TYPE_CHECKING:
    pass

STATE: dict[str, Any] = {
    "num_requests_running": 0,
    "num_requests_waiting": 0,
    "num_requests_waiting_by_reason": {},
    "steps": 5,
    "requests_finished": {"stop": 3},
    "generation_tokens": 300,
    "prompt_tokens": 900,
    "preemptions": {"memory": 2, "policy": 1},
    "memory_budget": {"limit_bytes": 1000, "parts": {"weights": 300, "sequences": 0, "reserved": 0, "prefixes": 200}},
    "memory": {"active_bytes": 510, "peak_bytes": 900, "cache_bytes": 50},
}


def report(*outcomes: Outcome, state: dict[str, Any] = STATE) -> Report:
    seen = Sightings()
    seen.see(state, 0.0)
    before = {**STATE, "generation_tokens": 100, "prompt_tokens": 100}
    made = Report(Plan(), outcomes, seen, before, state, 10.0, ())
    return replace(made, broken=tuple(rules(made)))


def test_a_server_that_kept_every_rule_is_told_so() -> None:
    good = report(Outcome("answered", "stays", first=0.5), Outcome("refused", "stays", "queue full"))
    assert good.broken == ()
    console = Console(width=120, record=True)
    console.print(overload_table(good))
    text = console.export_text()
    for words in ("answered", "refused: queue full", "memory 2, policy 1", "90%", "rules broken", "none", "20"):
        assert words in text
    assert good.figures()["generated_tokens_per_s"] == 20.0


def test_every_broken_rule_is_named() -> None:
    bad = report(Outcome("broken", "leaves", detail="500: no luck"))
    assert "1 x 500: no luck (leaves)" in bad.broken[0]
    over = {**STATE, "memory": {"active_bytes": 510, "peak_bytes": 1001, "cache_bytes": 600}}
    assert [rule.split(",")[0] for rule in report(state=over).broken] == [
        "MLX had 0.0 MB in use",
        "MLX had 0.0 MB in use and in the pool",
    ]
    parts = {**STATE["memory_budget"]["parts"], "sequences": 7}
    left = {**STATE, "num_requests_running": 1, "memory_budget": {"limit_bytes": 1000, "parts": parts}}
    assert len(list(idle(left))) == 2
    leaked = {**STATE, "memory": {"active_bytes": 600, "peak_bytes": 900, "cache_bytes": 0}}
    assert "the budget names" in next(idle(leaked))


def test_a_standstill_is_one_only_while_there_is_work() -> None:
    seen = Sightings()
    busy = {**STATE, "num_requests_running": 2}
    seen.see(STATE, 0.0)
    seen.see(STATE, 100.0)
    assert seen.still == 0
    seen.see(busy, 110.0)
    seen.see(busy, 150.0)
    assert seen.still == 50.0
    assert any("nothing moved" in rule for rule in rules(Report(Plan(), (), seen, STATE, STATE, 1.0, ())))


def test_the_command_explains_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    result = CliRunner().invoke(app, ["overload", "--help"])
    assert result.exit_code == 0
    for words in ("--memory-limit-gb", "--clients", "Retry-After"):
        assert words in result.output


@pytest.mark.slow
async def test_a_server_with_little_memory_answers_or_refuses_forty_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")  # the clients share the cores
    # A row that ends is copied for the prefix cache: of 4,096 tokens, that is nearly a tenth of so little memory.
    monkeypatch.setenv("PACELINE_SCHEDULER_HEADROOM_GB", "0.009")
    mix = Mix(prompt=Lengths(10, 4096), answer=Lengths(1, 64), patience=1.0)
    plan = Plan(40, 15.0, 0.06, max_queue=12, queue_timeout=8.0, request_timeout=30.0, max_unread_tokens=64, mix=mix)
    result = await overload(plan)
    assert result.broken == ()
    endings = result.endings
    assert endings["answered"] and endings["refused"]
    assert result.seen.reasons["memory"]
    assert sum(result.after["preemptions"].values())
