"""One rank of a test: `python -m tests.parallel.rank_process FOLDER REPORT`, with what mlx.launch sets in its
environment. Rank 0 plays a script, compares the answers with those of one process, and writes a report."""

from __future__ import annotations

import json
import os
import random
import sys
from collections.abc import Collection, Mapping
from collections.abc import Sequence as Many
from dataclasses import replace
from pathlib import Path
from typing import Any

import mlx.core as mx

from paceline.cache.budget import Budget
from paceline.cache.features import Features
from paceline.cache.prefix import PrefixCache
from paceline.cache.slot_plan import ROWS
from paceline.conversation.text import ByteDetokenizer, TextStream
from paceline.engine.draft_choice import DraftChoice
from paceline.engine.lookup import LookupProposer
from paceline.engine.plan import StepPlan
from paceline.engine.prefix_manager import PrefixManager
from paceline.engine.proposer import Draft
from paceline.engine.runner import Runner
from paceline.engine.sequence import EngineRequest, Sequence
from paceline.engine.speculation_policy import SpeculationMode
from paceline.models import check
from paceline.models.loader import LoadedModel, load
from paceline.models.sharding import Sharding
from paceline.parallel.answers import Following, Leading, StepClock
from paceline.parallel.cores import FollowerCore, LeaderCore, RankCore, RankScheduler
from paceline.parallel.follower import obey
from paceline.parallel.roles import group
from paceline.ranks.handshake import Identity
from paceline.ranks.leaving import DONE, LOST, leave
from paceline.ranks.links import Follower, Leader
from paceline.types import Delta, Prompt, RequestId, Sampling
from tests.engine.stepper import EVERYTHING
from tests.waiting import until

SECRET = b"a secret of the tests, and long enough"
WAIT = 3600.0  # a machine may be very busy
CHUNK = 24
VOCABULARY = 400  # of prompts
CACHE = 8 << 20  # bytes of prefixes
LONGEST_DRAFT = 3
PREEMPT_EVERY = 9  # plans
TIE = 1e-4  # of the largest logit: two tokens that are closer may be taken for each other
GREEDY = Sampling(temperature=0.0, ignore_eos=True)


class Restless(RankScheduler):
    """Rank 0 preempts now and then, and drafts from 0 to 3 tokens at random: with the MTP head, or anything at all."""

    random: random.Random
    vocabulary: int
    plans = 0
    drafted: list[int]

    def wants_tokens(self, seqs: Collection[Sequence]) -> bool:
        """Tokens of the host can be drafted only where the step before was read."""
        return bool(self.ask("wants_tokens", lambda: self.random.random() < 0.5))

    def decide(self, now: float) -> StepPlan:
        plan = super().decide(now)
        if not plan.is_step:
            return plan
        running = [seq for seq in self.running if seq.is_decoding]
        self.plans += 1
        if running and self.plans % PREEMPT_EVERY == 0:
            return StepPlan(preempt=(self.random.choice(running).id,), cause="policy")
        known = {seq.id: seq for seq in self.running}
        drafts = []
        for request_id, draft in zip(plan.decode, plan.drafts, strict=True):
            seq = known[request_id]
            length = max(min(self.random.randint(0, LONGEST_DRAFT), seq.max_draft_length), 0)
            if draft.tokens or not seq.speculation.drafts:
                pass
            elif "mtp" in seq.speculation.methods:
                draft = Draft("mtp", length)
            elif seq.scheduled == len(seq.generated):
                draft = Draft("lookup", length, tuple(self.random.randrange(self.vocabulary) for _ in range(length)))
            self.drafted.append(draft.length)
            drafts.append(draft)
        return replace(plan, drafts=tuple(drafts))


def core_of(kind: type[RankCore], model: LoadedModel, sharding: Sharding, ask: Any, cache: int) -> RankCore:
    runner = Runner(model, ROWS, features=Features(0))
    runner.sampler.agree = sharding.agree
    budget = Budget(1 << 40)
    prefixes = PrefixCache(lambda: min(cache, budget.room("prefixes")))
    manager = PrefixManager(prefixes, runner, feeds_head=True, budget=budget, worth=EVERYTHING)
    scheduler = Restless(8, CHUNK)
    scheduler.vocabulary = min(model.language.vocab_size, VOCABULARY)
    scheduler.random, scheduler.drafted = random.Random(os.environ.get("PACELINE_TEST_SEED", "0")), []
    scheduler.draft_choice = DraftChoice([LookupProposer(answers=True)], LONGEST_DRAFT)
    scheduler.ask = ask
    core = kind(runner, scheduler, prefix=manager, clock=ask.clock)
    core.join(ask)
    return core


class Script:
    """Requests join at random steps, some are aborted, and later ones repeat the beginnings of earlier ones, or all."""

    def __init__(self, core: LeaderCore, requests: int, seed: int, *, head: bool) -> None:
        self.core = core
        self.random = random.Random(seed)
        self.said: dict[str, list[int]] = {}
        self.prompts: dict[str, tuple[int, ...]] = {}
        self.ended: dict[str, str] = {}
        self.joined = self.left = 0  # while others ran
        self.restored = self.accepted = 0
        self.aborted: set[str] = set()
        self.methods = ("mtp", "lookup") if head else ("lookup",)
        for number in range(requests):
            name, length = f"request {number}", self.random.randint(2, 90)
            prompt = [self.random.randrange(VOCABULARY) for _ in range(length)]
            if number > 2 and self.random.random() < 0.2:
                prompt = list(self.prompts[f"request {self.random.randrange(number)}"])
            elif number > 2 and self.random.random() < 0.6:
                before = self.prompts[f"request {self.random.randrange(number)}"]
                shared = before[: self.random.randint(-(-len(before) // 2), len(before))]
                prompt = [*shared, *prompt[: self.random.randint(1, 30)]]
            self.prompts[name] = tuple(prompt)

    def play(self) -> None:
        waiting = list(self.prompts)
        core = self.core
        while waiting or core.seqs or core.in_flight is not None:
            while waiting and self.random.random() < 0.25 and len(core.seqs) < 8:
                self.add(waiting.pop(0))
            if core.seqs and self.random.random() < 0.1:
                name = self.random.choice(list(core.seqs))
                self.aborted.add(str(name))
                core.abort(name)
            core.step()

    def add(self, name: str) -> None:
        self.said[name] = []
        self.joined += bool(self.core.scheduler.running)

        def hear(delta: Delta) -> None:
            self.said[name] += delta.token_ids
            if delta.finish_reason is not None:
                self.ended[name] = delta.finish_reason
                assert delta.usage is not None
                self.restored += delta.usage.cached_tokens > 0
                self.accepted += delta.usage.accepted_tokens
                self.left += len(self.core.scheduler.running) > 1

        number = int(name.split()[1])
        sampling = GREEDY if number % 4 else replace(GREEDY, repetition_penalty=1.1)
        mode = SpeculationMode(None if number % 5 else 0, "test", self.methods)  # type: ignore[arg-type]
        most = self.random.randint(1, 24)
        text = TextStream(ByteDetokenizer(lambda token: b"<%d>" % token))
        request = EngineRequest(RequestId(name), Prompt(self.prompts[name]), sampling, most, mode)
        self.core.add(Sequence(request, text, hear))


def alone(model: LoadedModel, prompt: Many[int], said: Many[int]) -> str | None:
    """Is this what one process says, greedily? It may take another token where the two best are closer than TIE. None:
    it is."""
    row = model.language.batch(ROWS)
    tokens = [*prompt, *said]
    row.begin(len(tokens))
    logits = model.language.module(mx.array([tokens]), cache=row.layers)[0, len(prompt) - 1 : -1].astype(mx.float32)
    best = mx.argmax(logits, axis=-1)
    short = logits.max(axis=-1) - mx.take_along_axis(logits, mx.array(list(said))[:, None], axis=-1)[:, 0]
    worst: Any = (short.max() / mx.abs(logits).max()).item()
    return None if worst <= TIE else f"{list(said)} where one process says {best.tolist()} ({worst:.2g})"


class Comparing(Leader):
    """Counts the digests of the other rank that were its own."""

    compared = 0

    def _compare(self, rank: int, body: Mapping[str, Any]) -> None:
        super()._compare(rank, body)
        self.compared += self._digests[body["step"]] == body["digest"]


def lead(folder: str, report: Path, link: Comparing) -> None:
    link.gather(WAIT, lambda reason: leave(LOST))
    sharding = Sharding(group())
    model = load(folder, "float32", sharding=sharding)
    check.choose_layout(model.language, (ROWS,))
    core = core_of(LeaderCore, model, sharding, Leading(link, StepClock()), CACHE)
    assert isinstance(core, LeaderCore) and isinstance(core.scheduler, Restless)
    requests = int(os.environ.get("PACELINE_TEST_REQUESTS", "24"))
    script = Script(core, requests, seed=1, head=not isinstance(model.head, str))
    script.play()
    until(lambda: link.compared == core.steps, WAIT)  # the other rank may be behind
    found = {
        "error": sharding.error,
        "steps": core.steps,
        "compared_digests": link.compared,
        "joined": script.joined,
        "left": script.left,
        "ended": script.ended,
        "aborted": sorted(script.aborted),
        "preempted": core.scheduler.preemptions["policy"],
        "restored": script.restored,
        "accepted": script.accepted,
        "drafted": sorted(set(core.scheduler.drafted)),
        "evicted": core.prefix.cache.counts.evictions if core.prefix is not None else 0,
    }
    link.close()  # the core stays open: its end would be that of MLX on this thread
    whole = load(folder, "float32")
    greedy = {name: said for name, said in script.said.items() if int(name.split()[1]) % 4 and said}
    wrong = {name: alone(whole, script.prompts[name], said) for name, said in greedy.items()}
    found |= {"compared": len(wrong), "wrong": {name: why for name, why in wrong.items() if why is not None}}
    report.write_text(json.dumps(found))


def main() -> None:
    folder, report = sys.argv[1:]
    rank, port = int(os.environ["MLX_RANK"]), int(os.environ["PACELINE_TEST_PORT"])
    identity = Identity(rank, 2, "test", "test", "test", {})
    if rank == 0:
        link = Comparing(identity, SECRET, WAIT)
        link.listen("127.0.0.1", port)
        lead(folder, Path(report), link)
        return
    mine = Follower(identity, SECRET, WAIT)
    mine.connect("127.0.0.1", port, WAIT, lambda reason: leave(LOST if reason else DONE))
    sharding = Sharding(group())
    model = load(folder, "float32", sharding=sharding)
    check.choose_layout(model.language, (ROWS,))
    obey(core_of(FollowerCore, model, sharding, Following(mine, StepClock()), CACHE), mine)


if __name__ == "__main__":
    main()
