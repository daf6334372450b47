from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from paceline.bench.load import Schedule
from paceline.bench.prompts import Lengths, Workload
from paceline.bench.serve import Target, bench
from paceline.bench.wire import Address
from tests.waiting import WAIT

if TYPE_CHECKING:
    from tests.bench.conftest import FakeServer, Reply, Serve

WORKLOAD = Workload("", prompt_tokens=Lengths(45, 45), output_tokens=Lengths(2, 2))
SCHEDULE = Schedule(concurrency=2, requests=3, timeout=WAIT)


def target(server: FakeServer, label: str) -> Target:
    return Target(label, Address.parse(server.url))


def prompts(server: FakeServer) -> list[str]:
    """The measured ones, in a fixed order; a calibration asks for a single token."""
    return sorted(body["messages"][0]["content"] for body in server.bodies if body["max_tokens"] > 1)


async def test_two_servers_take_turns_and_see_the_same_new_prompts_each_round(fake: Serve) -> None:
    order: list[str] = []
    ours, theirs = fake(models=["a"]), fake(models=["b"], tokenizes=True)

    def watch(title: str) -> Callable[[], None]:
        order.append(title)
        return lambda: None

    first, second = await bench(
        [target(ours, "ours"), target(theirs, "theirs")], WORKLOAD, SCHEDULE, pairs=2, warmup=1, watch=watch
    )
    assert order == [
        "ours: warm-up",
        "theirs: warm-up",
        "ours: run 1 of 2",
        "theirs: run 1 of 2",
        "ours: run 2 of 2",
        "theirs: run 2 of 2",
    ]
    assert [run.model for run in first + second] == ["a", "a", "b", "b"]
    assert [run.ok for run in first + second] == [3] * 4
    assert prompts(ours) == prompts(theirs)
    assert len(set(prompts(ours))) == 1 + 2 * 3
    assert {run.prompt_tokens for run in first + second} == {3 * 45}


async def test_a_server_compared_with_itself_never_sees_a_prompt_twice(fake: Serve) -> None:
    server = fake()
    await bench([target(server, "a"), target(server, "b")], WORKLOAD, SCHEDULE, pairs=2)
    assert len(set(prompts(server))) == len(prompts(server)) == 2 * 2 * 3


async def test_what_the_probe_learned_is_noted_in_every_report(fake: Serve) -> None:
    async def script(reply: Reply) -> None:
        if "ignore_eos" in reply.body:
            await reply.answer(422, {"error": {"message": "extra field"}})
        else:
            await reply.stream()

    [[run]] = await bench([target(fake(script, models=["a", "b"]), "x")], WORKLOAD, SCHEDULE)
    assert (run.ok, run.errors) == (3, {})
    assert ["2 models" in run.notes[0], "refuses ignore_eos" in run.notes[1]] == [True, True]
