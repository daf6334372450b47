"""An engine stepped by hand on the test's own thread: scripts say what happens between which steps."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from paceline.cache.disk import Disk
from paceline.cache.features import Features
from paceline.cache.grouping import LAYOUTS
from paceline.cache.prefix import PrefixCache
from paceline.cache.tier import DiskTier
from paceline.conversation.detokenize import ByteDetokenizer
from paceline.conversation.text import TextStream
from paceline.engine.engine import Engine
from paceline.engine.request import Delta, Grammar, Prompt, RequestId, Sampling, Speculation
from paceline.engine.reuse import Reuse
from paceline.engine.routing import Router
from paceline.engine.row import Row
from paceline.engine.runner import Launched, Runner
from paceline.engine.scheduler import Scheduler
from paceline.models.loader import LoadedModel, load

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
    ) -> None:
        """`cache`: bytes for the prefix cache; None: there is none. `disk`: where it writes behind the steps, and what
        an earlier stepper has `close`d there is known. `features`: bytes for pictures seen before."""
        self.model = loaded(folder)
        no_head = self.model.head if isinstance(self.model.head, str) else None
        self.router = Router(speculation, no_head)
        self.engine = Engine(self._never, Scheduler(max_rows, chunk))
        self.engine.end_ids = end_ids
        self.runner = Runner(self.model, LAYOUTS[layout], self.engine.ends, features=Features(features))
        if cache is not None:
            prefixes = PrefixCache(lambda: cache)
            tier = None if disk is None else DiskTier(prefixes, Disk(disk, "fingerprint", disk_limit))
            head = speculation != "off"
            self.engine.reuse = Reuse(prefixes, self.runner, self.engine.ends, feeds_head=head, disk=tier)
            if tier is not None:
                tier.open()
        self.engine._open = True
        self.launched: Launched | None = None
        self.heard: dict[str, Heard] = {}

    @staticmethod
    def _never() -> Runner:
        raise AssertionError("this engine is stepped by hand")

    def submit(
        self, name: str, prompt: Prompt | Sequence[int], sampling: Sampling, grammar: Grammar | None = None
    ) -> Heard:
        if not isinstance(prompt, Prompt):
            prompt = Prompt(tuple(prompt))
        heard = self.heard[name] = Heard()
        limit = sampling.max_tokens if sampling.max_tokens is not None else 64
        text = TextStream(ByteDetokenizer(lambda token: b"<%d>" % token), sampling.stop)
        route = self.router.route(prompt, sampling)
        self.engine.submit(Row(RequestId(name), prompt, sampling, limit, text, heard.deltas.append, route, grammar))
        return heard

    def greedy(self, name: str, prompt: Prompt | Sequence[int], tokens: int) -> Heard:
        return self.submit(name, prompt, Sampling(temperature=0, max_tokens=tokens, ignore_eos=True))

    def abort(self, name: str) -> None:
        self.engine.abort(RequestId(name))

    def step(self, count: int = 1) -> None:
        self.engine._runner = self.runner  # a test may have put in another
        for _ in range(count):
            self.engine._admit(wait=False)
            self.launched = self.engine.step(self.runner, self.launched)

    def finish(self, limit: int = 20_000) -> None:
        """Step until nothing is left to do."""
        for _ in range(limit):
            self.step()
            scheduler = self.engine.scheduler
            if self.launched is None and not scheduler.running and not scheduler.waiting:
                return
            if scheduler.running and all(row.held for row in scheduler.running):
                time.sleep(0.001)  # the disk is read
        raise AssertionError("the engine did not come to rest")

    @property
    def reuse(self) -> Reuse:
        assert self.engine.reuse is not None
        return self.engine.reuse

    def close(self) -> None:
        """What is not on disk yet goes there; the folder is free for the next stepper."""
        self.reuse.close()
