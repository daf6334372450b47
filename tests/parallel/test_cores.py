"""A follower does what rank 0 did: here one after the other in one process, each with the whole model, so that only
orders are tried. `tests/integration/test_ranks.py` has real ranks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from paceline.conversation.text import ByteDetokenizer, TextStream
from paceline.engine.sequence import EngineRequest, Sequence
from paceline.models.sharding import Sharding
from paceline.parallel.answers import Following, Leading, RanksFailed, StepClock
from paceline.parallel.cores import FollowerCore, LeaderCore
from paceline.parallel.follower import carry_out
from paceline.parallel.wire import Sequences
from paceline.ranks.orders import BadOrder, Order
from paceline.types import Delta, Prompt, RequestId, Sampling
from tests.engine.stepper import loaded
from tests.parallel.rank_process import GREEDY, Restless, Script, core_of
from tests.parallel.recorded import Player, Recorder


class Whole:
    """Every rank has the whole model: nothing has to be agreed on."""

    agree: Any = None


def leader(folder: Path, cache: int = 1 << 20) -> tuple[LeaderCore, Recorder]:
    link = Recorder()
    ask = Leading(cast(Any, link), StepClock())
    core = core_of(LeaderCore, loaded(folder), cast(Sharding, Whole()), ask, cache)
    assert isinstance(core, LeaderCore)
    return core, link


def follower(folder: Path, orders: list[Order], cache: int = 1 << 20) -> tuple[FollowerCore, Player]:
    link = Player(orders)
    ask = Following(cast(Any, link), StepClock())
    core = core_of(FollowerCore, loaded(folder), cast(Sharding, Whole()), ask, cache)
    assert isinstance(core, FollowerCore)
    return core, link


def replayed(folder: Path, orders: list[Order], cache: int = 1 << 20) -> FollowerCore:
    """A follower that has carried out all of them, and whose digest was rank 0's after every step."""
    core, link = follower(folder, orders, cache)
    sequences = Sequences(core.runner.language.vocab_size)
    while link.orders:
        carry_out(core, cast(Any, link), sequences, link.take("add", "abort", "step", "clear"))
    return core


@pytest.fixture(scope="module", params=["llama", "hybrid"])
def folder(request: pytest.FixtureRequest, tiny: Callable[..., Path]) -> Path:
    return tiny(request.param)


@pytest.mark.parametrize("cache", [1 << 30, 1 << 17], ids=["roomy", "evicting"])
def test_a_follower_does_what_rank_0_did(folder: Path, cache: int) -> None:
    core, link = leader(folder, cache)
    head = core.runner.drafter is not None
    script = Script(core, requests=14, seed=3, head=head)
    script.play()
    assert isinstance(core.scheduler, Restless)
    assert core.scheduler.preemptions["policy"] and (script.restored or cache < 1 << 20)
    assert set(core.scheduler.drafted) == {0, 1, 2, 3}
    assert core.prefix is not None and bool(core.prefix.cache.counts.evictions) == (cache < 1 << 20)
    other = replayed(folder, link.orders, cache)
    assert other.steps == core.steps
    assert other.digest() == core.digest()


def add(core: LeaderCore, name: str, prompt: tuple[int, ...], sampling: Sampling = GREEDY, **more: Any) -> list[Delta]:
    heard: list[Delta] = []
    text = TextStream(ByteDetokenizer(lambda token: b"<%d>" % token), sampling.stop)
    request = EngineRequest(RequestId(name), Prompt(prompt), sampling, sampling.max_tokens or 8)
    core.add(Sequence(request, text, heard.append, **more))
    return heard


def finish(core: LeaderCore) -> None:
    while core.seqs or core.in_flight is not None:
        core.step()


def test_a_stop_in_the_text_is_rank_0s_to_find(folder: Path) -> None:
    core, link = leader(folder)
    plain = add(core, "a", (1, 2, 3))
    finish(core)
    said = [token for delta in plain for token in delta.token_ids]
    stopped = add(core, "b", (1, 2, 3), replace(GREEDY, stop=(f"<{said[3]}>",)))
    finish(core)
    assert stopped[-1].finish_reason == "stop"
    replayed(folder, link.orders)


class Failing:
    """A grammar that fails at its second token."""

    accepted = 0

    def __init__(self, vocabulary: int) -> None:
        self.vocabulary = vocabulary

    def allowed(self, draft_tokens: Any) -> Any:
        import numpy as np

        return np.ones((len(draft_tokens) + 1, self.vocabulary), dtype=np.bool_)

    def accept(self, token: int) -> None:
        self.accepted += 1
        if self.accepted == 2:
            raise ValueError("this grammar is broken")


def test_what_fails_for_one_sequence_ends_that_one_on_all_ranks(folder: Path) -> None:
    core, link = leader(folder)
    broken = add(core, "a", (1, 2, 3), grammar=Failing(core.runner.language.vocab_size))
    other = add(core, "b", (4, 5, 6))
    finish(core)
    assert broken[-1].error == "this grammar is broken"
    assert other[-1].finish_reason == "length"
    replayed(folder, link.orders)


def test_prompt_logprobs_and_penalties_and_samples_are_the_same(folder: Path) -> None:
    core, link = leader(folder)
    add(core, "a", tuple(range(1, 40)), Sampling(prompt_logprobs=1, max_tokens=4, temperature=0.0))
    add(core, "b", (1, 2, 3), Sampling(temperature=1.0, top_p=0.9, frequency_penalty=0.5, max_tokens=9, logprobs=2))
    finish(core)
    replayed(folder, link.orders)


def test_clearing_the_cache_is_an_order(folder: Path) -> None:
    core, link = leader(folder)
    add(core, "a", tuple(range(1, 40)))
    finish(core)
    assert core.prefix is not None and core.prefix.clear()["entries"]
    other = replayed(folder, link.orders)
    assert other.prefix is not None and other.prefix.cache.entries == 0


def test_a_follower_that_computes_something_else_notices(folder: Path) -> None:
    core, link = leader(folder)
    add(core, "a", (1, 2, 3))
    finish(core)
    orders = link.orders
    place = next(place for place, order in enumerate(orders) if order.kind == "add")
    record = {**orders[place].body["sequence"], "token_ids": [1, 2, 4]}
    orders[place] = replace(orders[place], body={**orders[place].body, "sequence": record})
    with pytest.raises(BadOrder, match="something else in step"):
        replayed(folder, orders)


def test_an_answer_to_another_question_ends_the_follower(folder: Path) -> None:
    core, link = leader(folder)
    add(core, "a", (1, 2, 3))
    core.step()
    orders = [order for order in link.orders if order.kind != "plan"]
    with pytest.raises(RanksFailed, match="BadOrder"):
        replayed(folder, orders)


def test_a_failing_device_ends_all_ranks(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    core, _ = leader(folder)
    add(core, "a", (1, 2, 3))

    def fails(*_: object, **__: object) -> None:
        raise RuntimeError("the device is gone")

    monkeypatch.setattr(core.runner, "prefill", fails)
    with pytest.raises(RanksFailed, match="cannot be retried: the device is gone"):
        finish(core)


def test_rank_0_tells_the_others_when_it_ends(folder: Path) -> None:
    core, link = leader(folder)
    heard = add(core, "a", (1, 2, 3))
    core.fail(RanksFailed("Rank 1 is gone."))
    core.close()
    assert link.reason == "Rank 1 is gone."
    assert (heard[-1].finish_reason, heard[-1].error) == ("error", "Rank 1 is gone.")
