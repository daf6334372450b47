"""An engine without a model: it keeps `EngineCore.step`'s contract with the scheduler, on a clock of its own.

A script (`random_script`) says who comes when, how long prompts and answers are, who leaves early, and which steps
fail. Sequences advance as a runner would advance them, and join groups as a batch would place them.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from paceline.cache.budget import Budget
from paceline.cache.memory_model import AttentionCost, MemoryModel
from paceline.cache.shape_buckets import EXACT, GPU
from paceline.cache.slot_plan import LAYOUTS
from paceline.conversation.text import ByteDetokenizer, TextStream
from paceline.engine.admission import Admission
from paceline.engine.core import RECOVERY_STEPS
from paceline.engine.faults import MAX_OOM_RETRIES
from paceline.engine.plan import Cause
from paceline.engine.policy import OUTPUT_WEIGHT, POLICIES, PolicyName
from paceline.engine.scheduler import Scheduler
from paceline.engine.sequence import EngineRequest, Sequence
from paceline.errors import NeverFits
from paceline.types import Media, Prompt, RequestId, Sampling
from tests.engine.planned import Planned, planned

LONGEST = 0.1  # seconds of the longest step
GIVEN = (1, 2, 3, 4)  # priorities and tenants
NEVER = 1_000_000
NUMBERS = itertools.count()


def picture(cost: int) -> Media:
    return Media("picture", 1, 9, (9,), cost=cost)


def seq(
    prompt: int,
    *,
    limit: int = 1000,
    tenant: str = "",
    priority: int = 0,
    patches: Iterable[int] = (),
    name: str = "guest",
) -> Sequence:
    text = TextStream(ByteDetokenizer(lambda token: b""))
    images = tuple(picture(size) for size in patches)
    made = Sequence(
        EngineRequest(RequestId(f"{name} {next(NUMBERS)}"), Prompt((0,) * prompt, images), Sampling(seed=0), limit),
        text,
        lambda delta: None,
    )
    made.request = replace(made.request, tenant=tenant, priority=priority)
    return made


def admission(usable: int, *, token: int = 1, width: int = 1, weights: int = 0, **memory_model: float) -> Admission:
    """Plain prices: so many bytes a slot, and nothing else unless it is said."""
    budget = Budget(usable + weights)
    budget.hold("weights", weights)
    return Admission(budget, MemoryModel((AttentionCost(None, token),), **memory_model), width=width)  # type: ignore[arg-type]


@dataclass(slots=True)
class Guest:
    """A request of a script. `says`: tokens after which it ends by itself; `leaves`: steps until its caller goes."""

    seq: Sequence
    comes: float
    says: int
    leaves: int = NEVER
    poisoned: int = NEVER  # every step fails in which it has this many tokens or more


@dataclass(slots=True)
class Script:
    scheduler: Scheduler
    guests: list[Guest]
    tokens: int = 1  # most tokens that a sequence gets in a step
    queue: int | None = None  # how many may wait
    faults: float = 0.0  # share of the steps that fail for no reason that lasts
    lost: float = 0.0  # of those: the batch cannot be trusted any more
    presses: float = 0.0  # share of the steps that run out of memory


@dataclass(slots=True)
class Simulator:
    script: Script
    dice: random.Random
    now: float = 0.0
    plans: int = 0
    steps: int = 0
    failures: int = 0  # of steps
    endings: dict[int, list[str]] = field(default_factory=dict)  # by the sequence's number: how it ended, each time
    ended_at: dict[int, float] = field(default_factory=dict)
    spells: list[tuple[float, Sequence]] = field(default_factory=list)  # how long sequences waited at a stretch
    most: int = 0  # bytes in use at most
    refused: list[Sequence] = field(default_factory=list)

    @property
    def scheduler(self) -> Scheduler:
        return self.script.scheduler

    @property
    def idle(self) -> bool:
        return not self.scheduler.running and not self.scheduler.waiting

    def run(self, most_plans: int = 20_000) -> None:
        """To the end of the script, and of all its sequences."""
        coming = sorted(self.script.guests, key=lambda guest: guest.comes)
        guests: dict[int, Guest] = {}
        while coming or not self.idle:
            if self.idle and coming:
                self.now = max(self.now, coming[0].comes)
            while coming and coming[0].comes <= self.now:
                guest = coming.pop(0)
                guests[guest.seq.number] = guest
                self._arrive(guest.seq)
            self.step(guests)
            assert self.plans < most_plans, "livelock"

    def _arrive(self, new: Sequence) -> None:
        self.endings[new.number] = []
        if self.scheduler.admission is not None:
            try:
                self.scheduler.admission.check(len(new.prompt.token_ids), new.media_costs)
            except NeverFits:
                self.end(new, "never fits")
                return
        self.scheduler.add(new, self.now)

    def step(self, guests: dict[int, Guest]) -> None:
        """As `EngineCore.step`: plan, make room as long as the plan asks for it, run, deliver."""
        plan = self._plan()
        rounds = 0
        while plan.preempt or plan.exceeds_memory is not None:
            rounds += 1
            assert rounds <= 2 * (len(self.scheduler.running) + len(self.scheduler.waiting)) + 8, "planning never ends"
            if plan.exceeds_memory is not None:
                self.end(plan.exceeds_memory, "outgrown")
            self.set_back(plan.preempt, plan.cause)
            plan = self._plan()
        if self.script.queue is not None:
            for each in self.scheduler.overflow(self.script.queue):
                self.refused.append(each)
                self.end(each, "queue full")
        self._check(plan)
        self._ride(plan, guests)
        self._check(plan)
        self.steps += 1
        if plan.decode and self.steps % RECOVERY_STEPS == 0:
            self.scheduler.recover()
        self.now += self.dice.uniform(0.2, 1.0) * LONGEST
        for number, guest in list(guests.items()):
            guest.leaves -= 1
            if guest.seq.finished is not None:
                del guests[number]
            elif guest.leaves <= 0:
                self.end(guest.seq, "cancelled")

    def _plan(self) -> Planned:
        self.plans += 1
        plan = planned(self.scheduler, self.now)
        self.spells += [(self.now - seq.queue.waiting_since, seq) for seq in plan.admitted]
        return plan

    def _check(self, plan: Planned) -> None:
        """What the sequences hold, with all that is read in this step, is never more than there is."""
        admission = self.scheduler.admission
        if admission is not None:
            chunk = sum(chunk.tokens for chunk in plan.prefill)
            used = admission.used(self.scheduler.running, chunk)
            assert used <= admission.budget.usable, (used, admission.budget.usable)
            self.most = max(self.most, used)

    def _ride(self, plan: Planned, guests: dict[int, Guest]) -> None:
        scheduler, script = self.scheduler, self.script
        for chunk in plan.prefill:
            chunk.seq.computed.tokens += chunk.tokens
            scheduler.policy.served(chunk.seq, chunk.tokens)
        if plan.encode is not None:
            plan.encode.computed.media += 1
        seqs = list(plan.decode)
        if not seqs:
            return
        poisoned = any(guests[seq.number].poisoned <= len(seq.generated) for seq in seqs)
        if script.presses and self.dice.random() < script.presses:
            self._pressed(seqs)
        elif poisoned or (script.faults and self.dice.random() < script.faults):
            self._failed(seqs)
        else:
            self._join(seqs)
            for each in seqs:
                count = min(self.dice.randint(1, script.tokens), each.max_tokens - each.scheduled)
                each.generated += [0] * count
                each.scheduled += count
                scheduler.policy.served(each, OUTPUT_WEIGHT * count)
            scheduler.isolation.succeeded(seqs)
            for each in seqs:
                if len(each.generated) >= min(guests[each.number].says, each.max_tokens):
                    self.end(each, "answered")

    def _join(self, seqs: list[Sequence]) -> None:
        """As a batch places sequences: in the first group that accepts them, at the length that they come with."""
        present = [each for each in self.scheduler.running if each.computed.group is not None]
        for new in seqs:
            if new.computed.group is None:
                grouping = self._memory_model().grouping
                groups: dict[int, list[int]] = {}
                for each in present:
                    assert each.computed.group is not None
                    groups.setdefault(each.computed.group, []).append(each.length)
                fitting = (name for name, lengths in groups.items() if grouping.accepts(lengths, new.length))
                new.computed.group = next(fitting, new.number)
                present.append(new)

    def _memory_model(self) -> MemoryModel:
        return MemoryModel() if self.scheduler.admission is None else self.scheduler.admission.memory_model

    def _failed(self, seqs: list[Sequence]) -> None:
        self.failures += 1
        if self.dice.random() < self.script.lost:
            self.set_back(seqs, "fault")
        verdict = self.scheduler.isolation.failed(seqs)
        if verdict.culprit is not None:
            self.end(verdict.culprit, "failed")
        self.set_back(verdict.isolate, "fault")

    def _pressed(self, seqs: list[Sequence]) -> None:
        scheduler = self.scheduler
        self.failures += 1
        scheduler.prefill_budget.shrink()
        scheduler.max_running = max(len(seqs) // 2, 1)
        while len(scheduler.running) > scheduler.max_running:
            self.set_back([scheduler.policy.lowest(scheduler.running)], "memory")
        if len(seqs) == 1:
            seqs[0].oom_retries += 1
            if seqs[0].oom_retries > MAX_OOM_RETRIES:
                self.end(seqs[0], "failed")

    def set_back(self, seqs: Iterable[Sequence], cause: Cause) -> None:
        for each in seqs:
            if each in self.scheduler.running:
                each.reset_for_recompute()
                self.scheduler.preempt(each, cause)

    def end(self, seq: Sequence, how: str) -> None:
        if seq.finished is None:
            self.endings[seq.number].append(how)
            self.ended_at[seq.number] = self.now
        seq.finished = "stop"
        self.scheduler.remove(seq)
        if how == "answered" and self.scheduler.admission is not None:
            self.scheduler.admission.output_estimate.observe(len(seq.generated))


def random_script(dice: random.Random, policy: PolicyName) -> Script:
    """Small, so that there can be many: a few sequences that contend for a little memory."""
    longest = dice.choice((300, 1000, 3000))
    attention = [AttentionCost(None, dice.randint(1, 8))]
    if dice.random() < 0.4:
        attention.append(AttentionCost(dice.choice((24, 300, 1024)), dice.randint(1, 8)))
    if dice.random() < 0.1:
        del attention[0]
    width = dice.choice((1, 4, 8))
    memory_model = MemoryModel(
        tuple(attention),
        state=dice.choice((0, 0, 3000)),
        fixed=dice.choice((0, 100)),
        chunk_token=dice.choice((0.0, 2.0, 10.0)),
        chunk_pair=dice.choice((0.0, 0.01)),
        decode_token=dice.choice((0.0, 20.0)),
        media_byte=dice.choice((0.0, 4.0)),
        encode_byte=8.0,
        encode_pair=0.01,
        grouping=replace(dice.choice(list(LAYOUTS.values())), buckets=dice.choice((EXACT, EXACT, GPU))),
    )
    weights = dice.choice((0, 5000))
    alone = memory_model.row(longest + 100)
    budget = Budget(weights + int(alone * dice.choice((0.3, 0.6, 1.1, 2.5))) + 2000, dice.choice((0, 1000)))
    budget.hold("weights", weights)
    scheduler = Scheduler(
        dice.choice((1, 2, 4, 16)),
        dice.choice((16, 64, 256, 512)),
        policy=POLICIES[policy](),
        starvation=dice.choice((0.5, 2.0, 30.0)),
    )
    scheduler.buckets = memory_model.grouping.buckets
    scheduler.admission = Admission(budget, memory_model, width=width)
    if dice.random() < 0.5:  # sequences say more than is expected
        for _ in range(64):
            scheduler.admission.output_estimate.observe(1)
    troubled = dice.random() < 0.4
    guests = []
    for _ in range(dice.randint(1, 10)):
        guest = seq(
            int(longest ** dice.random()) + 1,
            limit=dice.choice((1, 8, 64, 500)),
            tenant=str(dice.choice(GIVEN)),
            priority=dice.choice(GIVEN),
            patches=[dice.randint(1, 60) for _ in range(dice.choice((0, 0, 0, 0, 1, 2)))],
        )
        guest.queue.uncached_tokens = dice.randint(1, len(guest.prompt.token_ids))
        guests.append(
            Guest(
                guest,
                dice.choice((0.0, 0.0, 0.5, 2.0)) * dice.random(),
                int(500 ** dice.random()),
                dice.randint(1, 60) if dice.random() < 0.2 else NEVER,
                dice.randint(0, 20) if troubled and dice.random() < 0.15 else NEVER,
            )
        )
    return Script(
        scheduler,
        guests,
        tokens=width,
        queue=dice.choice((None, None, 0, 3)),
        faults=0.05 if troubled else 0.0,
        lost=0.5,
        presses=0.03 if troubled else 0.0,
    )
