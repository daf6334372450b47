from __future__ import annotations

import asyncio
import random
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from rich.console import Console
from typer.testing import CliRunner

from paceline.bench.cli import app
from paceline.bench.crowd import Ask, Crowd, Manner, Mix, Outcome, _broken_off, _refused
from paceline.bench.overload import Plan, Report, Sightings, idle, overload, overload_table, rules
from paceline.bench.prompts import Lengths

if TYPE_CHECKING:
    from tests.bench.conftest import Reply, Serve

STATE: dict[str, Any] = {
    "running": 0,
    "waiting": 0,
    "waiting_by_reason": {},
    "steps": 5,
    "finished": {"stop": 3},
    "generated_tokens": 300,
    "prompt_tokens": 900,
    "preemptions": {"memory": 2, "policy": 1},
    "budget": {"limit_bytes": 1000, "parts": {"weights": 300, "rows": 0, "promised": 0, "prefixes": 200}},
    "memory": {"active_bytes": 510, "peak_bytes": 900, "cache_bytes": 50},
}


def ask(manner: Manner = "stays") -> Ask:
    return Ask("one", "/v1/completions", {"stream": False}, manner)


def report(*outcomes: Outcome, state: dict[str, Any] = STATE) -> Report:
    seen = Sightings()
    seen.see(state, 0.0)
    before = {**STATE, "generated_tokens": 100, "prompt_tokens": 100}
    made = Report(Plan(), outcomes, seen, before, state, 10.0, ())
    return replace(made, broken=tuple(rules(made)))


def refusal(status: int, code: str, headers: dict[str, str] | None = None, manner: Manner = "stays") -> Outcome:
    answer = httpx.Response(status, headers=headers, json={"error": {"message": "a reason", "code": code}})
    return _refused(answer, ask(manner))


def test_a_refusal_says_when_to_come_back() -> None:
    outcome = refusal(429, "queue_full", {"retry-after": "7"})
    assert (outcome.ending, outcome.cause, outcome.retry_after) == ("refused", "queue full", 7.0)
    silent = refusal(503, "queue_timeout")
    assert silent.ending == "broken"
    assert "503 without Retry-After" in silent.detail


def test_what_never_fits_and_what_was_cancelled_is_no_mistake() -> None:
    assert refusal(400, "memory_limit_exceeded").ending == "never fits"
    assert refusal(400, "context_length_exceeded").ending == "broken"
    assert refusal(499, "request_cancelled", manner="cancels").ending == "cancelled"
    assert refusal(499, "request_cancelled").ending == "broken"
    assert _refused(httpx.Response(500, text="no JSON"), ask()).ending == "broken"


def test_a_stream_may_be_cut_off_for_a_reason_only() -> None:
    assert _broken_off({"code": "deadline"}, ask(), 1.0).ending == "cut off"
    assert _broken_off({"code": "slow_reader"}, ask("dawdles"), 1.0).ending == "cut off"
    assert _broken_off({"code": "slow_reader"}, ask("stays"), 1.0).ending == "broken"
    assert _broken_off({"code": None, "message": "oh"}, ask("cancels"), 1.0).ending == "broken"


def test_clients_ask_for_everything_and_the_same_for_the_same_seed() -> None:
    crowd = Crowd("http://127.0.0.1:9", "m", Mix(prompt=Lengths(10, 500), giant=600), lambda tokens: tokens, 1.0)
    chance, again = random.Random(1), random.Random(1)
    asked = [crowd.ask(chance, index) for index in range(300)]
    assert [each.body for each in asked] == [crowd.ask(again, index).body for index in range(300)]
    manners = Counter(each.manner for each in asked)
    assert set(manners) == {"stays", "cancels", "leaves", "dawdles"}
    assert {each.path for each in asked} == {"/v1/completions", "/v1/chat/completions"}
    assert {each.body["user"] for each in asked} == {f"tenant-{number}" for number in range(6)}
    assert {each.streams for each in asked} == {True, False}
    lengths = [len(each.body["prompt"]) for each in asked if "prompt" in each.body]
    assert min(lengths) < 15 and 400 < max(lengths) <= 600
    assert any(isinstance(each.body["messages"][-1]["content"], list) for each in asked if "messages" in each.body)
    assert len({each.id for each in asked}) == len(asked)


async def test_a_crowd_writes_down_how_every_request_ended(fake: Serve) -> None:
    async def script(reply: Reply) -> None:
        if reply.body["max_tokens"] % 3 == 0:
            await reply.answer(500, {"error": {"message": "no luck"}})
        elif reply.body["stream"]:
            await reply.stream()
        else:
            await reply.answer(200, {"choices": [{"finish_reason": "length"}]})

    mix = Mix(prompt=Lengths(2, 5), answer=Lengths(1, 9), completions=0, giants=0, leaves=0, cancels=0, dawdles=0)
    server = fake(script)
    crowd = Crowd(server.url, "m", mix, lambda tokens: tokens, 20.0)
    await asyncio.wait_for(crowd.play(6, 1.5), 30)
    endings = Counter(outcome.ending for outcome in crowd.outcomes)
    assert set(endings) == {"answered", "broken"}
    assert sum(endings.values()) == len(server.bodies)
    assert all(outcome.seconds > 0 for outcome in crowd.outcomes)


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
    parts = {**STATE["budget"]["parts"], "rows": 7}
    left = {**STATE, "running": 1, "budget": {"limit_bytes": 1000, "parts": parts}}
    assert len(list(idle(left))) == 2
    leaked = {**STATE, "memory": {"active_bytes": 600, "peak_bytes": 900, "cache_bytes": 0}}
    assert "the budget names" in next(idle(leaked))


def test_a_standstill_is_one_only_while_there_is_work() -> None:
    seen = Sightings()
    busy = {**STATE, "running": 2}
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
