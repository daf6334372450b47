from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from paceline.bench.load import Schedule
from paceline.bench.prompts import Lengths, Workload
from paceline.bench.serve import Target, bench, find_model, probe
from paceline.bench.wire import Address, BenchError
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


if TYPE_CHECKING:
    from tests.bench.conftest import Reply, Serve

PROBED_WORKLOAD = Workload("fake", prompt_tokens=Lengths(105, 105))


async def test_the_first_listed_model_is_taken_and_others_are_mentioned(fake: Serve) -> None:
    one, several = fake(), fake(models=["a", "b"])
    assert await find_model(Address.parse(one.url), timeout=WAIT) == ("fake", ())
    name, notes = await find_model(Address.parse(several.url), timeout=WAIT)
    assert name == "a"
    assert "2 models" in notes[0]


async def test_a_server_that_lists_no_model_is_asked_for_one_by_name(fake: Serve) -> None:
    with pytest.raises(BenchError, match="--model"):
        await find_model(Address.parse(fake(models=[]).url), timeout=WAIT)
    with pytest.raises(BenchError, match=r"401.*--api-key"):
        await find_model(Address.parse(fake(models=[], listed=401).url), timeout=WAIT)


async def test_a_first_request_without_a_key_is_told_of_it(fake: Serve) -> None:
    async def script(reply: Reply) -> None:
        await reply.answer(401, {"error": {"message": "no key"}})

    with pytest.raises(BenchError, match="no key.*--api-key"):
        await probe(Address.parse(fake(script).url), PROBED_WORKLOAD, timeout=WAIT)


@pytest.mark.parametrize("tokenizes", [True, False])
@pytest.mark.parametrize("endpoint", ["chat", "completions"])
async def test_prompts_have_the_length_asked_for(fake: Serve, tokenizes: bool, endpoint: str) -> None:
    server = fake(tokenizes=tokenizes)
    wanted = Workload("fake", endpoint=endpoint, prompt_tokens=Lengths(105, 105))  # type: ignore[arg-type]
    workload = (await probe(Address.parse(server.url), wanted, timeout=WAIT)).workload
    assert workload.calibration.source == ("/tokenize" if tokenizes else "usage")
    assert workload.calibration.tokens_per_word == pytest.approx(2)
    assert workload.calibration.overhead == pytest.approx(5 if endpoint == "chat" else 0)
    assert [body["max_tokens"] for body in server.bodies] == [1] * (1 if tokenizes else 2)


@pytest.mark.parametrize("refused", [{"ignore_eos"}, {"stream_options"}, {"ignore_eos", "stream_options"}])
async def test_optional_fields_that_a_server_refuses_are_not_sent(fake: Serve, refused: set[str]) -> None:
    async def script(reply: Reply) -> None:
        if refused & set(reply.body):
            await reply.answer(400, {"error": {"message": "unknown field"}})
        else:
            await reply.stream()

    probed = await probe(Address.parse(fake(script).url), PROBED_WORKLOAD, timeout=WAIT)
    assert probed.workload.ignore_eos is ("ignore_eos" not in refused)
    assert probed.workload.include_usage is ("stream_options" not in refused)
    assert sum("refuses" in note for note in probed.notes) == len(refused)


async def test_without_any_count_the_length_is_a_guess_and_a_note_says_so(fake: Serve) -> None:
    async def script(reply: Reply) -> None:
        reply.body["stream_options"] = {}
        await reply.stream()

    probed = await probe(Address.parse(fake(script).url), PROBED_WORKLOAD, timeout=WAIT)
    assert probed.workload.calibration.source == "a guess"
    assert "guess" in probed.notes[0]


async def test_a_server_that_fails_the_first_request_is_quoted(fake: Serve) -> None:
    async def script(reply: Reply) -> None:
        await reply.answer(503, {"error": {"message": "still loading"}})

    with pytest.raises(BenchError, match="http 503: still loading"):
        await probe(Address.parse(fake(script).url), PROBED_WORKLOAD, timeout=WAIT)
