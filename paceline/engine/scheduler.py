"""Which sequences run in the next step. Plain Python: no MLX, no clock, no threads; tested by stepping it.

Sequences wait until there is a free slot and memory for them (engine/admission), in the order of the policy
(engine/policy). A starved sequence comes first whatever the policy says, and nothing overtakes it. When memory runs
low, prefill chunks shrink, then sequences are preempted: they wait again, and are recomputed later.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection
from functools import cache

from paceline.cache.shape_buckets import EXACT
from paceline.engine.admission import MEMORY_CHECK_PLANS, Admission
from paceline.engine.draft_choice import DraftChoice
from paceline.engine.draft_length import DraftLengths
from paceline.engine.fault_isolation import FaultIsolation
from paceline.engine.plan import Cause, PrefillChunk, StepPlan
from paceline.engine.policy import Fifo, Holding, Policy
from paceline.engine.prefill_budget import MIN_CHUNK, PrefillBudget, SparseBudget
from paceline.engine.sequence import Sequence
from paceline.types import RequestId

MAX_MISSES = 16  # sequences that do not fit, before the rest of the queue is left for later
RETRY_SECONDS = 0.1  # between two looks at the queue when nothing has changed
MAX_DRAFT_PREFILL = 512  # tokens that a draft model reads beside a step
MIN_PROGRESS = 16  # tokens that a sequence generates between two preemptions by policy


class Scheduler:
    """`running` sequences hold memory; `waiting` sequences hold none."""

    def __init__(
        self,
        max_num_seqs: int,
        prefill_budget: int,
        draft_lengths: DraftLengths | None = None,
        *,
        policy: Policy | None = None,
        starvation: float = 30.0,
    ) -> None:
        self.max_num_seqs = max_num_seqs
        self.draft_lengths = draft_lengths or DraftLengths()
        self.draft_choice = DraftChoice()  # among these and what the host's proposers offer
        self.prefill_budget = PrefillBudget(None, prefill_budget)
        self.policy = policy or Fifo()
        self.starvation = starvation  # seconds of waiting after which a sequence comes first
        self.admission: Admission | None = None  # None: memory is not limited
        self.buckets = EXACT  # the sizes that prefill passes are padded to
        self.isolation = FaultIsolation()
        self.waiting: list[Sequence] = []
        self.running: list[Sequence] = []
        self.max_running: int | None = None  # sequences that may run after an out-of-memory error; None: as many as fit
        self.preemptions: dict[Cause, int] = {"memory": 0, "policy": 0, "fault": 0}
        self._retry_at = 0.0  # when to look at the queue again if nothing changes before
        self._changed = True
        self._plans = 0
        self._now = 0.0  # time of the last plan
        self.sparse_budget = SparseBudget()
        self._scored = False  # the last step that could do both scored a prompt and prefilled none
        self._low_memory = False  # memory is checked before every step
        self._next_up: Sequence | None = None  # others were preempted for it
        self._chunk = prefill_budget  # the largest that memory allows

    def add(self, seq: Sequence, now: float = 0.0) -> None:
        seq.queue.arrived = seq.queue.waiting_since = now
        self.policy.arrived(seq, [*self.running, *self.waiting])
        self.waiting.append(seq)
        self._changed = True

    def remove(self, seq: Sequence) -> None:
        """The sequence has finished, whether it ran or waited."""
        if seq in self.running:
            self.running.remove(seq)
        elif seq in self.waiting:
            self.waiting.remove(seq)
        if self._next_up is seq:
            self._next_up = None
        self.isolation.remove(seq)
        self.draft_choice.finished(seq)
        self._on_departure()

    def preempt(self, seq: Sequence, cause: Cause) -> None:
        """The sequence waits again, in its old position of the queue."""
        self.running.remove(seq)
        self.waiting.append(seq)
        seq.queue.blocked_by, seq.queue.waiting_since = cause, self._now
        self.preemptions[cause] += 1
        self._on_departure()

    def _on_departure(self) -> None:
        self._changed = True
        if self.admission is not None and not self.running:  # there may be no plan for a while: nothing stays reserved
            self.admission.account((), 0)

    def overflow(self, max_queue: int) -> list[Sequence]:
        """One sequence of each request beyond the first `max_queue` in the queue, among those that never ran. The
        choices of a request count as one."""
        if len(self.waiting) <= max_queue:
            return []
        fresh = [seq for seq in self.policy.order(self.waiting) if not seq.siblings.started]
        requests = list({id(seq.siblings): seq for seq in reversed(fresh)}.values())[::-1]
        return requests[max_queue:]

    def queue(self, now: float) -> list[Sequence]:
        """The waiting sequences in the order of admission. For any thread: it may be a step old."""
        return list(self._ordered(now))

    def wants_tokens(self, seqs: Collection[Sequence]) -> bool:
        """Should the step in flight, of these sequences, be read before the next plan?"""
        if self.isolation.active:
            return True
        if not self.draft_choice.proposers or all(seq.speculation.draft_length == 0 for seq in seqs):
            return False
        return self.draft_choice.wants_tokens([seq for seq in seqs if seq.is_decoding], self.draft_lengths)

    def step_tokens(self, decoding: bool) -> int:
        """Prompt tokens that the next step may take."""
        return min(self.prefill_budget.chunk(decoding), max(self._chunk, min(MIN_CHUNK, self.prefill_budget.max_chunk)))

    def plan(self, now: float = 0.0) -> StepPlan:
        """The next step, or what must be done before it. Changes the queue, and nothing else."""
        self._now = now
        look = self._changed or (bool(self.waiting) and now >= self._retry_at)
        if (
            look
            or self._low_memory
            or self._plans % MEMORY_CHECK_PLANS == 0
            or any(seq.remaining for seq in self.running)
        ):
            memory_plan = self._check_memory()
            if memory_plan is not None:
                return memory_plan
        if look:
            first = self._admit_waiting(now)
            if not first.is_step:
                return first
        self._plans += 1
        decode = tuple(seq for seq in self.running if seq.is_decoding)
        encode = next((seq for seq in self.running if seq.media_left and not seq.prefix.waiting), None)
        sparse_spent = bool(decode) and self.sparse_budget.is_spent(now)
        prefill, score = self._prefill(bool(decode), sparse_spent), None if sparse_spent else self._score()
        if decode and prefill and score is not None:  # a stream waits for one chunk, not for two
            self._scored = not self._scored
            prefill, score = ((), score) if self._scored else (prefill, None)
        drafts = self.draft_choice.choose(decode, self.draft_lengths.choose(decode), self.draft_lengths)
        return StepPlan(
            _ids(decode),
            drafts,
            self.draft_lengths.paying if any(draft.length for draft in drafts) else (),
            prefill,
            None if encode is None else encode.id,
            None if score is None else score.id,
            self._draft_prefill(decode, sum(chunk.tokens for chunk in prefill)) if score is None else (),
        )

    # -- memory

    def _check_memory(self) -> StepPlan | None:
        """Shrink the chunk to what memory allows; if that is not enough, preempt."""
        admission = self.admission
        self._chunk = self.prefill_budget.ceiling
        if admission is None or not self.running:
            return None
        left, unread = admission.left(self.running), [seq for seq in self.running if seq.remaining]
        self._chunk = admission.chunk(unread, self._chunk, left)
        self._low_memory = admission.reading(unread, self._chunk) > left
        if self._low_memory:
            if len(self.running) > 1:
                able = [seq for seq in self.running if not self._is_protected(seq)]
                return StepPlan(preempt=(self.policy.lowest(able or self.running).id,))
            if admission.exceeds_memory(self.running[0], self._chunk):
                return StepPlan(exceeds_memory=self.running[0].id)
        self.account()
        return None

    def account(self) -> None:
        """Report to the budget what the running sequences need."""
        if self.admission is not None:
            self.admission.account(self.running, self._chunk)

    def recover(self) -> None:
        """Steps have succeeded for a while: relax the limits."""
        self.prefill_budget.grow()
        if self.max_running is not None:
            self.max_running = self.max_running + 1 if self.max_running < self.max_num_seqs else None
            self._changed = True

    # -- admission

    def _admit_waiting(self, now: float) -> StepPlan:
        """Admit sequences in order as long as they fit, or choose which to preempt for them."""
        self._changed, self._retry_at = False, now + RETRY_SECONDS
        admitted: list[Sequence] = []
        missed = 0
        stop_reason = ""
        ordered = self._ordered(now)
        next_up, self._next_up = self._next_up, None
        if next_up is not None and next_up in ordered:  # others were preempted for it
            ordered.remove(next_up)
            ordered.insert(0, next_up)
        for seq in ordered:
            if stop_reason or missed > MAX_MISSES:
                seq.queue.blocked_by = stop_reason or seq.queue.blocked_by
                continue
            blocked_by = self._blocked_by(seq, self.running)
            if blocked_by is None:
                self._admit(seq, now)
                admitted.append(seq)
                continue
            seq.queue.blocked_by = blocked_by
            missed += 1
            if blocked_by == "fault_isolation":
                continue
            if not self.running:  # it would run alone, and still does not fit
                self._changed = True
                return StepPlan(exceeds_memory=seq.id)
            candidates = self._preemption_candidates(seq, blocked_by, now)
            if candidates:
                self._changed, self._next_up = True, seq
                return StepPlan(admit=_ids(admitted), preempt=_ids(candidates), cause="policy")
            if blocked_by == "max_num_seqs":
                stop_reason = "max_num_seqs"
            elif self._is_starved(seq, now):
                stop_reason = "order"
        admission = self.admission
        if admission is not None and admitted:
            self._chunk = admission.chunk(self.running, self._chunk, admission.left(self.running))
            self.account()
        return StepPlan(admit=_ids(admitted))

    def _ordered(self, now: float) -> list[Sequence]:
        """Starved sequences by waiting time, then the others in the policy's order."""
        starved = [seq for seq in self.waiting if self._is_starved(seq, now)]
        if not starved:
            return self.policy.order(self.waiting)
        others = [seq for seq in self.waiting if not self._is_starved(seq, now)]
        return [*sorted(starved, key=lambda seq: (seq.queue.waiting_since, seq.number)), *self.policy.order(others)]

    def _is_starved(self, seq: Sequence, now: float) -> bool:
        return now - seq.queue.waiting_since >= self.starvation

    def _is_protected(self, seq: Sequence) -> bool:
        """A sequence that was starved may run for as long as it takes to starve another."""
        return seq.queue.was_starved and self._now - seq.queue.admitted < self.starvation

    def _is_preemptible(self, seq: Sequence) -> bool:
        """May the policy preempt it? Only after progress since its last preemption: two users who preempt each other
        all the time would never finish."""
        got_on = not seq.preemptions or seq.length >= len(seq.context) - 1 + MIN_PROGRESS
        return got_on and not self.isolation.is_suspect(seq) and not self._is_protected(seq)

    def _blocked_by(self, seq: Sequence, running: Collection[Sequence]) -> str | None:
        """What keeps `seq` from running beside these."""
        if not self.isolation.may_run(seq):
            return "fault_isolation"
        if len(running) >= self.max_num_seqs:
            return "max_num_seqs"
        if self.max_running is not None and len(running) >= self.max_running:
            return "memory"
        if self.admission is None or self.admission.fits(running, seq):
            return None
        return "memory"

    def _preemption_candidates(self, seq: Sequence, blocked_by: str, now: float) -> tuple[Sequence, ...]:
        """Which sequences to preempt for `seq`: by the policy, or because they have run long while `seq` starved. None
        if that would not be enough."""
        holding: Holding = _one
        if blocked_by == "memory" and self.admission is not None:
            holding = cache(self.admission.holding)
        may_go = [other for other in self.running if self._is_preemptible(other)]
        candidates = self._until_it_fits(seq, may_go, lambda rest: self.policy.preemption_candidate(seq, rest, holding))
        if not candidates and self._is_starved(seq, now):
            had = [other for other in self.running if self._has_had_its_turn(other, now)]
            candidates = self._until_it_fits(
                seq, had, lambda rest: min(rest, key=lambda other: (other.queue.admitted, other.number))
            )
        return candidates

    def _until_it_fits(
        self, seq: Sequence, may_go: list[Sequence], choose: Callable[[list[Sequence]], Sequence | None]
    ) -> tuple[Sequence, ...]:
        """The first candidates without which there is room for `seq`. Memory is looked at last, and seldom."""
        candidates: list[Sequence] = []
        able = list(may_go)
        while able and (candidate := choose(able)) is not None:
            candidates.append(candidate)
            able.remove(candidate)

        def fits_without(count: int) -> bool:
            gone = set(map(id, candidates[:count]))
            return self._blocked_by(seq, [other for other in self.running if id(other) not in gone]) is None

        if not candidates or not fits_without(len(candidates)):
            return ()
        counts = range(1, len(candidates))
        return tuple(candidates[: 1 + bisect_left(counts, True, key=fits_without)])

    def _has_had_its_turn(self, seq: Sequence, now: float) -> bool:
        """Has it run for long enough, and generated something? Then every sequence makes progress."""
        said = not seq.remaining and seq.length >= len(seq.context)
        return said and now - seq.queue.admitted >= self.starvation and not self.isolation.is_suspect(seq)

    def _admit(self, seq: Sequence, now: float) -> None:
        self.waiting.remove(seq)
        self.running.append(seq)
        seq.queue.was_starved = self._is_starved(seq, now)
        seq.queue.admitted, seq.queue.started, seq.queue.blocked_by = now, True, ""
        seq.siblings.started = True

    # -- prefill

    def _prefill(self, decoding: bool, sparse_spent: bool = False) -> tuple[PrefillChunk, ...]:
        """The first prompt by the policy gets at least half the budget, so that it always progresses; the rest goes to
        the shortest remainders, so that a short prompt does not wait for a long one. `sparse_spent`: sparse prefills
        leave this step to the streams."""
        seqs = [
            seq
            for seq in self.running
            if seq.remaining
            and seq.sparse.decided
            and not seq.media_left
            and not seq.prefix.waiting
            and seq.finished is None
            if seq.sparse.kept is None or not sparse_spent
        ]
        if not seqs:
            return ()
        budget = self.step_tokens(decoding)
        first_to_prefill = self.policy.first_to_prefill(seqs)
        half = max((budget + 1) // 2, self.buckets.width(1))  # it progresses in any case
        grants = {id(first_to_prefill): self._grant(first_to_prefill, 0, half)}
        budget -= self.buckets.width(grants[id(first_to_prefill)])
        for seq in sorted(seqs, key=lambda seq: seq.remaining):
            have = grants.get(id(seq), 0)
            tokens = self._grant(seq, have, budget)
            whole = tokens == seq.remaining or seq is first_to_prefill or not self.buckets.widths
            if tokens > have and whole:  # a GPU is slow at small parts of prompts
                grants[id(seq)] = tokens
                budget -= self.buckets.width(tokens) - self.buckets.width(have)
        return tuple(PrefillChunk(seq.id, grants[id(seq)]) for seq in seqs if id(seq) in grants)

    def _grant(self, seq: Sequence, have: int, budget: int) -> int:
        """The most tokens for a sequence that has `have` of the step already and may cost `budget` more."""
        budget += self.buckets.width(have)
        tokens = min(seq.remaining, budget)
        if self.buckets.width(tokens) > budget:
            tokens = min(seq.remaining, self.buckets.within(budget))
        return tokens if self.buckets.width(tokens) <= budget else have

    def _draft_prefill(self, decode: Collection[Sequence], taken: int) -> tuple[PrefillChunk, ...]:
        """What the draft model reads: of sequences that decode already, so that no first token waits for it, and from
        what prompts leave of the step's budget. A little in any case: prompts may come without end."""
        behind = [seq for seq in decode if seq.uses_draft_model and not seq.draft_is_ready]
        if not behind:
            return ()
        budget = self.step_tokens(decoding=True)
        least = min(MIN_CHUNK, budget)
        left = min(max(budget - taken, least), MAX_DRAFT_PREFILL)
        chunks = []
        for seq in behind:
            if left < least:
                break
            tokens = min(max(seq.length - seq.draft.read, 0), left)
            chunks.append(PrefillChunk(seq.id, tokens))
            left -= tokens
        return tuple(chunks)

    def _score(self) -> Sequence | None:
        """One prompt at a time, the oldest: memory for one scoring suffices."""
        able = (seq for seq in self.running if seq.remaining and not seq.sparse.decided and not seq.prefix.waiting)
        return next((seq for seq in able if seq.finished is None), None)


def _ids(seqs: Collection[Sequence]) -> tuple[RequestId, ...]:
    return tuple(seq.id for seq in seqs)


def _one(seq: Sequence) -> int:
    return 1
