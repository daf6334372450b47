"""A stepped engine that remembers every round, and what the speculation suites ask of it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import mlx.core as mx
import numpy as np

from paceline.cache.batch import Batch
from paceline.cache.slot_plan import LAYOUTS, Grouping
from paceline.engine import sequence
from paceline.engine.draft_length import ENOUGH, DraftLengths
from paceline.engine.drafter import Drafter
from paceline.engine.forward import Forward
from paceline.engine.in_flight import InFlightStep, StepLost
from paceline.engine.runner import Runner
from paceline.models.loader import LoadedModel
from paceline.types import MAX_DRAFTED, Prompt, Sampling, Speculation, Usage
from tests.engine.stepper import Heard, Stepper
from tests.models.test_vision import Message, built

Tiny = Callable[..., Path]
FAMILIES = ["hybrid", "hybrid_moe"]
DEPTHS: list[Speculation] = [1, 2, 3, 5, "auto"]
SMALL = {"layers": 4}  # three with a state, one with attention, and the head: half the time
# Here a guess depends on all that the head has read, not just on the last token: where it stands shows in its guesses.
LISTENING = {"layers": 4, "mix": 3.0}
LENGTHS = (1, 2, 9, 33, 70)  # of prompts; few, because the references are computed once for each
TOKENS = 24
PLACES = [*(("hybrid", layout) for layout in LAYOUTS), ("hybrid_moe", "similar")]
PICTURED = 12  # tokens of the answers about pictures


def prompt(length: int, seed: int = 0) -> tuple[int, ...]:
    return tuple(np.random.default_rng([length, seed]).integers(0, 480, length).tolist())


def greedy(tokens: int = TOKENS, **rules: Any) -> Sampling:
    return Sampling(temperature=0, max_tokens=tokens, ignore_eos=True, **rules)


def lengths(count: int) -> list[int]:
    return [LENGTHS[place % len(LENGTHS)] for place in range(count)]


class Told(DraftLengths):
    """Measures nothing: a step costs what a fast machine's would, so that "auto" drafts, and the same in every run."""

    def timed(self, seqs: int, depth: int, seconds: float) -> None:
        super().timed(seqs, depth, 1 + 0.1 * depth)

    def knowing(self) -> Told:
        """As after some time: a busy minute of coming and going would not be enough to measure anything."""
        for seqs in range(1, 33):
            for depth in range(MAX_DRAFTED + 1):
                for _ in range(ENOUGH):
                    self.timed(seqs, depth, 0)
        return self


class Erratic(DraftLengths):
    """Every sequence that drafts gets any depth at every step."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.random = np.random.default_rng(seed)

    def choose(self, seqs: Collection[sequence.Sequence]) -> tuple[int, ...]:
        wanted = [int(self.random.integers(0, 6)) if seq.speculation.drafts else 0 for seq in seqs]
        lengths = tuple(max(0, min(each, seq.max_draft_length)) for each, seq in zip(wanted, seqs, strict=True))
        self.steps[max(lengths, default=0)] += 1
        return lengths


class Round(NamedTuple):
    """One of a sequence's: its guesses, and how many tokens it kept, the last of which was none."""

    depth: int
    kept: int
    guesses: tuple[int, ...]

    @property
    def wrong(self) -> int:
        return self.depth - self.kept + 1


class WatchedRunner(Runner):
    """Remembers each sequence's rounds."""

    def __init__(self, model: LoadedModel, grouping: Grouping) -> None:
        super().__init__(model, grouping)
        assert not isinstance(model.head, str), model.head
        self.drafter: Drafter = Drafter(model.head, grouping)
        self.rounds: dict[str, list[Round]] = defaultdict(list)
        self._guesses: dict[int, list[mx.array]] = {}  # of rounds that were not read yet
        self.followed = 0  # rounds that were submitted before the one before was read
        self.drifted = 0  # times that the head stood elsewhere than the target, but for what it is owed
        self.lose = False

    def _draft(self, length: int) -> list[mx.array]:
        self._drafted = super()._draft(length)
        return self._drafted

    def _speculative_step(self, batch: Batch, draft_length: int, undelivered: Any) -> InFlightStep:
        step = super()._speculative_step(batch, draft_length, undelivered)
        self._guesses[id(step)] = self._drafted
        return step

    def can_follow(self, step: InFlightStep, seqs: Collection[sequence.Sequence], draft_length: int) -> bool:
        result = super().can_follow(step, seqs, draft_length)
        self.followed += result
        return result

    def read(self, step: InFlightStep) -> None:
        if self.lose:
            self.lose = False
            raise StepLost(step)
        super().read(step)
        guesses: Any = mx.stack(self._guesses.pop(id(step)), axis=1).tolist()
        for seq, depth, kept, mine in zip(step.rows, step.draft_lengths, step.kept, guesses, strict=True):
            if seq is not None and depth and seq.finished is None:
                self.rounds[str(seq.id)].append(Round(depth, kept, tuple(mine[:depth])))
        if self.batch is not None and not self.batch.unsynced:
            self.drifted += self._drifts(self.batch)

    def _drifts(self, batch: Batch) -> bool:
        assert self.drafter.batch is not None and self.drafter.pending is not None
        head, owed = self.drafter.batch, self.drafter.pending.counts
        if head.unsynced or not isinstance(owed, list):
            return True
        places = [place + count for place, count in zip(head.next_positions, owed, strict=True)]
        rows = zip(self.rows, batch.next_positions, places, strict=True)
        return any(mine != theirs for seq, mine, theirs in rows if seq is not None and seq.speculation.drafts)


class Watched(Stepper):
    runner: WatchedRunner

    def __init__(self, folder: Path, layout: str = "rows", *, traces: bool = False, **options: Any) -> None:
        super().__init__(folder, layout, **options)
        self.runner = WatchedRunner(self.model, self.grouping)
        if traces:
            drafter = self.runner.drafter
            self.runner.forward = Forward(self.runner._states_and_logits, traces=True, trace_after=1)
            drafter.forward = Forward(drafter._draft, traces=True, trace_after=1)
        self.engine.scheduler.draft_lengths = Told().knowing()

    def finish(self, limit: int = 20_000) -> None:
        super().finish(limit)
        assert not self.runner.drifted

    @property
    def drafts(self) -> list[int]:
        """By depth, the decode steps so far."""
        return self.engine.scheduler.draft_lengths.steps


def usage(heard: Heard) -> Usage:
    found = heard.deltas[-1].usage
    assert found is not None
    return found


def outcome(heard: Heard) -> tuple[Any, ...]:
    """All that a caller can tell of an answer, however it came about."""
    last, used = heard.deltas[-1], usage(heard)
    text = "".join(delta.text for delta in heard.deltas)
    return heard.tokens, text, last.finish_reason, last.stop_reason, used.prompt_tokens, used.completion_tokens


def ask(stepper: Stepper, folder: Path, messages: Sequence[Message], name: str, depth: Speculation | None) -> Heard:
    return stepper.submit(name, built(folder, messages), greedy(PICTURED, speculation=depth))


_alone: dict[tuple[Any, ...], list[Round]] = {}


def rounds_alone(folder: Path, text: Prompt, tokens: int, depth: Speculation) -> list[Round]:
    key = folder, text.token_ids, tuple(image.digest for image in text.media), tokens, depth
    if key not in _alone:
        stepper = Watched(folder, chunk=4096)
        stepper.submit("row", text, greedy(tokens, speculation=depth))
        stepper.finish()
        _alone[key] = stepper.runner.rounds["row"]
    return _alone[key]
