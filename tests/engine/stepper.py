"""An engine stepped by hand on the test's own thread: scripts say what happens between which steps."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from paceline.cache.disk import Disk
from paceline.cache.features import Features
from paceline.cache.prefix import PrefixCache
from paceline.cache.slot_plan import LAYOUTS, Grouping
from paceline.cache.tier import DiskTier
from paceline.conversation.text import ByteDetokenizer, TextStream
from paceline.engine import sequence
from paceline.engine.checkpoints import Worth
from paceline.engine.core import EngineCore
from paceline.engine.draft_choice import DraftChoice
from paceline.engine.draft_model import DraftModelProposer
from paceline.engine.prefix_manager import PrefixManager
from paceline.engine.proposer import HostProposer
from paceline.engine.runner import Runner
from paceline.engine.scheduler import Scheduler
from paceline.engine.speculation_policy import HEADED, SpeculationPolicy
from paceline.models.adapter import buckets_for
from paceline.models.loader import LoadedModel, load
from paceline.types import Delta, Grammar, Prompt, RequestId, Sampling, SamplingTokens, Speculation, SpeculationMethod

PADS_ALL = bool(os.environ.get("PACELINE_TEST_BUCKETS"))
TRACES_ALL = bool(os.environ.get("PACELINE_TEST_TRACES"))
counts_passes = pytest.mark.skipif(PADS_ALL, reason="counts the passes of exact shapes")
BUCKETED = ["padded+buckets", "similar+buckets"]  # what `grouping` makes of these
NO_TOKENS = SamplingTokens()
EVERYTHING = Worth(stored=1, first=1, apart=1)  # scripts have short prompts: all of them are to be stored
_models: dict[str, LoadedModel] = {}


def loaded(folder: Path | str) -> LoadedModel:
    """The model at `folder`, loaded once in the test process, in float32: so are the references."""
    if str(folder) not in _models:
        _models[str(folder)] = load(str(folder), "float32")
    return _models[str(folder)]


@dataclass(slots=True)
class Heard:
    """What one request's caller hears."""

    deltas: list[Delta] = field(default_factory=list)

    @property
    def tokens(self) -> list[int]:
        return [token for delta in self.deltas for token in delta.token_ids]

    @property
    def finish_reason(self) -> str | None:
        return self.deltas[-1].finish_reason if self.deltas else None

    @property
    def cached(self) -> int:
        """Tokens of its prompt that were restored."""
        usage = self.deltas[-1].usage
        assert usage is not None
        return usage.cached_tokens


def grouping(layout: str, model: LoadedModel) -> Grouping:
    """A layout by its name; PACELINE_TEST_BUCKETS=1 makes every one a bucketed one."""
    name, _, bucketed = layout.partition("+")
    if bucketed or PADS_ALL:
        return replace(LAYOUTS[name], buckets=buckets_for(model.language))
    return LAYOUTS[name]


class Stepper:
    def __init__(
        self,
        folder: Path | str,
        layout: str = "rows",
        chunk: int = 32,
        max_rows: int = 64,
        end_ids: frozenset[int] = frozenset(),
        speculation: Speculation = "off",
        cache: int | None = None,
        disk: Path | None = None,
        disk_limit: int = 1 << 30,
        features: int = 0,
        traces: bool | None = None,
        methods: tuple[SpeculationMethod, ...] = HEADED,
        proposers: Sequence[HostProposer] = (),
        draft: Path | str | None = None,
    ) -> None:
        """`layout`: its name, with `+buckets` where shapes come from buckets. `cache`: bytes for the prefix cache;
        None: there is none. `disk`: where it writes behind the steps, and what an earlier stepper has `close`d there
        is known. `features`: bytes for pictures seen before. `methods`: who may draft, beside the head the
        `proposers`. `draft`: a draft model, which drafts instead of the head."""
        traces = TRACES_ALL if traces is None else traces
        self.model = loaded(folder)
        no_head = self.model.head if isinstance(self.model.head, str) else None if draft is None else "a draft model"
        self.router = SpeculationPolicy(speculation, no_head, methods)
        self.end_ids = end_ids
        self.grouping = grouping(layout, self.model)
        self.draft_model: DraftModelProposer | None = None
        if draft is not None:
            other = loaded(draft).language
            own = grouping(layout, loaded(draft))
            self.draft_model = DraftModelProposer(other, self.model.language.vocab_size, own, traces=traces)
        self.runner = Runner(
            self.model, self.grouping, traces=traces, features=Features(features), draft_model=self.draft_model
        )
        self.runner.apart = 0  # scripts are short: every shape is tried at once
        reuse = None
        if cache is not None:
            prefixes = PrefixCache(lambda: cache)
            tier = None if disk is None else DiskTier(prefixes, Disk(disk, "fingerprint", disk_limit))
            head = speculation != "off"
            reuse = PrefixManager(prefixes, self.runner, feeds_head=head, disk=tier, worth=EVERYTHING)
            if tier is not None:
                tier.open()
        self.engine = EngineCore(self.runner, Scheduler(max_rows, chunk), prefix=reuse)
        self.engine.scheduler.buckets = self.engine.scheduler.draft_lengths.buckets = self.grouping.buckets
        self.engine.scheduler.draft_choice = DraftChoice(proposers)
        if draft is not None:
            self.engine.scheduler.draft_lengths.method = "draft_model"
        self.heard: dict[str, Heard] = {}

    def submit(
        self,
        name: str,
        prompt: Prompt | Sequence[int],
        sampling: Sampling,
        grammar: Grammar | None = None,
        tokens: SamplingTokens = NO_TOKENS,
    ) -> Heard:
        if not isinstance(prompt, Prompt):
            prompt = Prompt(tuple(prompt))
        heard = self.heard[name] = Heard()
        limit = sampling.max_tokens if sampling.max_tokens is not None else 64
        text = TextStream(ByteDetokenizer(lambda token: b"<%d>" % token), sampling.stop)
        route = self.router.mode(prompt, sampling)
        sink = heard.deltas.append
        self.add(
            sequence.Sequence(
                sequence.EngineRequest(
                    RequestId(name), prompt, sampling, limit, route, eos_ids=self.end_ids, tokens=tokens
                ),
                text,
                sink,
                grammar,
            )
        )
        return heard

    def greedy(self, name: str, prompt: Prompt | Sequence[int], tokens: int) -> Heard:
        return self.submit(name, prompt, Sampling(temperature=0, max_tokens=tokens, ignore_eos=True))

    def add(self, seq: sequence.Sequence) -> None:
        seq.queue.arrived = self.engine.clock()
        self.engine.add(seq)

    def abort(self, name: str) -> None:
        self.engine.abort(RequestId(name))

    def settle(self) -> None:
        """Deliver the step in flight, and plan none."""
        in_flight, self.engine.in_flight = self.engine.in_flight, None
        if in_flight is not None:
            self.engine.complete(in_flight)

    def step(self, count: int = 1) -> None:
        self.engine.runner = self.runner  # a test may have put in another
        for _ in range(count):
            self.engine.step()

    def finish(self, limit: int = 20_000) -> None:
        """Step until nothing is left to do."""
        for _ in range(limit):
            self.step()
            scheduler = self.engine.scheduler
            if self.engine.in_flight is None and not scheduler.running and not scheduler.waiting:
                return
            if scheduler.running and all(seq.prefix.waiting for seq in scheduler.running):
                time.sleep(0.001)  # the disk is read
        raise AssertionError("the engine did not come to rest")

    @property
    def reuse(self) -> PrefixManager:
        assert self.engine.prefix is not None
        return self.engine.prefix

    def close(self) -> None:
        """What is not on disk yet goes there; the folder is free for the next stepper."""
        self.reuse.close()


class Instead:
    """Another call in place of an object's own; all else is the object's."""

    def __init__(self, inner: Any, call: Callable[..., Any]) -> None:
        self._inner, self._call = inner, call

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        return self._call(*arguments, **options)
