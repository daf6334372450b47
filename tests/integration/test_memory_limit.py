"""MLX never holds more than the limit, whoever comes and goes: no copy is made that nobody has made room for."""

from __future__ import annotations

import gc
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import mlx.core as mx
import pytest

from paceline.cache import kv_snapshot
from paceline.cache.batch import Batch
from paceline.cache.budget import Budget
from paceline.cache.disk import Disk
from paceline.cache.disk_files import SUFFIX
from paceline.cache.prefix import PrefixCache
from paceline.cache.tier import DiskTier
from paceline.engine.admission import Admission
from paceline.engine.memory import HEADROOM, POOL, profile_memory
from paceline.engine.policy import POLICIES
from paceline.engine.prefix_manager import PrefixManager
from paceline.types import Prompt, Sampling, Speculation
from tests.cache.disks import Gate
from tests.engine.stepper import Stepper
from tests.lengths import turns

Tiny = Callable[..., Path]


class Limited(Stepper):
    """An engine with an account of its memory, as a server has one, and a clock of its own."""

    def __init__(self, folder: Path, layout: str, megabytes: float, speculation: Speculation = "off") -> None:
        super().__init__(folder, layout, chunk=64, speculation=speculation)
        engine, limit = self.engine, int(megabytes * 1e6)
        self.budget = budget = Budget(limit, int(limit * HEADROOM))
        budget.hold("weights", self.model.nbytes)
        drafts = speculation != "off"
        engine.scheduler.admission = Admission(
            budget, profile_memory(self.runner, head=drafts), width=3 if drafts else 1
        )
        engine.scheduler.policy = POLICIES["fair"]()
        most = budget.room("prefixes") // 2
        cache = PrefixCache(lambda: min(most, budget.room("prefixes")))
        engine.prefix = PrefixManager(cache, self.runner, feeds_head=drafts, budget=budget)
        self.now = 0.0
        engine.clock = lambda: self.now
        mx.set_memory_limit(limit)
        mx.set_cache_limit(int(budget.headroom * POOL))
        gc.collect()
        mx.synchronize()
        mx.clear_cache()
        self.others = mx.get_active_memory() - self.model.nbytes  # what other tests have loaded
        self.peaks: list[int] = []

    def step(self, count: int = 1) -> None:
        for _ in range(count):
            self.now += 0.05
            mx.reset_peak_memory()
            super().step()
            self.peaks.append(mx.get_peak_memory() - self.others)

    @property
    def worst(self) -> float:
        """In megabytes."""
        return max(self.peaks) / 1e6


@pytest.fixture(autouse=True)
def _limits() -> Iterator[None]:
    before = mx.set_memory_limit(1 << 40), mx.set_cache_limit(1 << 40)
    yield
    mx.set_memory_limit(before[0])
    mx.set_cache_limit(before[1])


def text(seed: int, length: int) -> tuple[int, ...]:
    return tuple(random.Random(seed).choices(range(480), k=length))


def asks(stepper: Stepper, seed: int, length: int, tokens: int, shared: int = 0, again: str = "") -> None:
    """A prompt of which the first `shared` tokens are everybody's."""
    prompt = Prompt(text(0, shared) + text(seed, length - shared), boundaries=(shared,) if shared else ())
    stepper.submit(f"{seed}{again}", prompt, Sampling(temperature=0, max_tokens=tokens, ignore_eos=True))


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["similar", "padded"])
def test_long_sequences_that_join_and_end_together_keep_the_limit(llama: Path, layout: str) -> None:
    stepper, calm = Limited(llama, layout, 20), Stepper(llama, layout, chunk=256)
    for each in (stepper, calm):
        for seed in range(1, 9):
            asks(each, seed, 1500, 20, shared=400)
        each.finish()
    assert stepper.runner.low_memory
    assert {name: heard.tokens for name, heard in stepper.heard.items()} == {
        name: heard.tokens for name, heard in calm.heard.items()
    }
    assert stepper.worst < 20


@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "layout", "speculation"),
    [("hybrid", "similar", "off"), ("hybrid", "padded", 2), ("window", "similar", "off")],
)
def test_whoever_comes_and_goes_the_limit_is_kept(
    tiny: Tiny, family: str, layout: str, speculation: Speculation
) -> None:
    """Prompts of all lengths that share beginnings, answers of all lengths, and callers who go away."""
    folder = tiny(family)
    limit = Stepper(folder).model.nbytes / 1e6 + 18
    stepper = Limited(folder, layout, limit, speculation)
    dice = random.Random(1)
    for seed in range(1, turns(300, 40)):
        if len(stepper.engine.seqs) < 20:
            shared = dice.choice((0, 50, 300, 700))
            asks(stepper, seed, shared + dice.choice((5, 20, 100, 600)), dice.choice((1, 5, 20, 60)), shared)
        if dice.random() < 0.1 and stepper.engine.seqs:
            stepper.abort(dice.choice(list(stepper.engine.seqs)))
        stepper.step()
    stepper.finish()
    assert stepper.worst < limit


def test_nothing_is_cut_for_a_cache_that_has_no_room(llama: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row that leaves the batch is copied for the next turn; where nothing can be kept, that would be for nothing."""
    stepper = Limited(llama, "similar", 20)
    asks(stepper, 1, 300, 40)
    asks(stepper, 2, 300, 40)
    stepper.step(20)
    cuts: list[int] = []
    cut = kv_snapshot.cut_segment

    def counted(batch: Batch, row: int, start: int, stop: int) -> tuple[mx.array, ...]:
        cuts.append(row)
        return cut(batch, row, start, stop)

    monkeypatch.setattr(kv_snapshot, "cut_segment", counted)
    stepper.budget.hold("somebody", stepper.budget.usable)
    stepper.finish()
    assert cuts == [] and stepper.reuse.cache.memory == 0


def test_a_prefix_is_restored_only_where_its_copy_fits(llama: Path) -> None:
    stepper = Limited(llama, "similar", 20)
    budget = stepper.budget
    for name in ("", " again", " without memory"):
        if "without" in name:
            budget.hold("somebody", budget.room("prefixes") - stepper.reuse.cache.memory)
        asks(stepper, 1, 700, 4, again=name)
        stepper.finish()
    first, again, without = stepper.heard.values()
    assert (first.cached, again.cached, without.cached) == (0, 699, 0)
    assert first.tokens == again.tokens == without.tokens


def test_a_disk_that_stalls_keeps_no_memory_that_nobody_counts(llama: Path, tmp_path: Path) -> None:
    """What waits to be written is a part of the account, bounded, and given up where rows need the memory."""
    stepper = Limited(llama, "similar", 20)
    disk = Disk(tmp_path, "fingerprint", 1 << 30)
    stepper.reuse.disk = tier = DiskTier(stepper.reuse.cache, disk)
    tier.open()
    gate = Gate(disk)
    entry = 0
    for seed in range(1, 13):
        asks(stepper, seed, 200 + 40 * seed, 2)
        stepper.finish()
        stepper.step()
        entry = max(entry, *(node.nbytes for node in stepper.reuse.cache.nodes()))
        assert stepper.budget.held()["disk"] == tier.nbytes <= max(entry, (tier.write_limit or 0) + entry)
        assert set(tier._unsaved) <= set(stepper.reuse.cache.nodes())
    assert gate.reached.wait(5) and tier.nbytes > 0
    stepper.budget.hold("somebody", stepper.budget.usable)
    stepper.step()
    assert tier.nbytes <= entry  # what is being written at this moment
    assert stepper.reuse.cache.memory == 0 and not tier._unsaved
    gate.open.set()
    stepper.budget.hold("somebody", 0)
    for seed in (1, 2):
        asks(stepper, seed, 240, 2, again=" again")
        stepper.finish()
    stepper.close()
    assert list(disk.folder.glob(f"*{SUFFIX}"))
