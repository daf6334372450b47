"""The engine core on several ranks: the same on all, but for who decides.

`RankCore` and `RankScheduler` ask (parallel/answers) where the plain ones decide by time, memory or text. A fault of
one rank's device cannot be isolated, because the other ranks have already done their part: it ends all ranks.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, NoReturn

from paceline.engine import delivery
from paceline.engine.core import EngineCore
from paceline.engine.faults import Faults
from paceline.engine.in_flight import InFlightStep, Token
from paceline.engine.plan import StepPlan
from paceline.engine.policy import OUTPUT_WEIGHT
from paceline.engine.sampler import NOT_A_NUMBER
from paceline.engine.scheduler import Scheduler
from paceline.engine.sequence import Sequence
from paceline.parallel import wire
from paceline.parallel.answers import Ask, AskedBudget, Following, Leading, RanksFailed
from paceline.types import FinishReason, RequestId

REASON_SECONDS = 1.0  # until it is known which rank is gone, after a collective has failed
Endings = dict[RequestId, tuple[FinishReason, int]]  # why a sequence ends, and with how many tokens


class RankScheduler(Scheduler):
    """Rank 0's plans, on every rank. Others only move their sequences between the same lists."""

    ask: Ask

    def wants_tokens(self, seqs: Collection[Sequence]) -> bool:
        return bool(self.ask("wants_tokens", partial(super().wants_tokens, seqs)))

    def overflow(self, max_queue: int) -> list[Sequence]:
        decide = super().overflow
        ids: list[str] = self.ask("overflow", lambda: [seq.id for seq in decide(max_queue)])
        known = {seq.id: seq for seq in self.waiting}
        return [known[RequestId(id)] for id in ids]

    def plan(self, now: float = 0.0) -> StepPlan:
        text, low = self.ask("plan", lambda: (self.decide(now).to_json(), self._is_low()))
        plan = StepPlan.from_json(text)
        if not self.ask.leads:
            known = {seq.id: seq for seq in self.waiting}
            for request_id in plan.admit:
                self._admit(known[request_id], now)
            if self.admission is not None:
                self.admission.low_memory = bool(low)
        return plan

    def decide(self, now: float) -> StepPlan:
        """Rank 0's plan, by its time, memory and measurements."""
        return super().plan(now)

    def _is_low(self) -> bool:
        return self.admission is not None and self.admission.low_memory


class RankFaults(Faults):
    """Whatever fails on one rank ends all."""

    def guard(self, seq: Sequence, work: Callable[[], None]) -> None:
        self.attempt(work)

    def run_for_one(self, seq: Sequence, work: Callable[[], None], *, waited: bool = False) -> None:
        self.attempt(work)

    def attempt(self, work: Callable[[], Any]) -> Any:
        try:
            return work()
        except Exception as error:
            self._end(error)

    def step_failed(self, seqs: Collection[Sequence], error: Exception, cause: BaseException | None = None) -> None:
        self._end(cause or error.__cause__ or error)

    def is_ambiguous(self, error: BaseException, seq: Sequence | None = None, *, waited: bool = False) -> bool:
        return False

    def check_tolerated(self) -> None:
        prefix = self._core.prefix
        if prefix is not None and prefix.tolerated_error is not None:
            self._end(prefix.tolerated_error)

    @staticmethod
    def _end(error: BaseException) -> NoReturn:
        raise RanksFailed(f"A step failed, which over several ranks cannot be retried: {error}") from error


class RankCore(EngineCore):
    """Made as any core is; `join` before its first sequence."""

    ask: Ask
    steps = 0
    _delivered: list[int]  # tokens of the step that was delivered last

    def join(self, ask: Ask) -> None:
        """The scheduler is a RankScheduler that has the same `ask`."""
        self.ask = ask
        self.faults = RankFaults(self)
        self._delivered = []
        if self.prefix is not None:
            cache, budget = self.prefix.cache, self.prefix.budget
            limit = cache.limit
            cache.limit = lambda: int(ask("bytes", limit))
            if budget is not None:
                self.prefix.budget = self.prefix.store.budget = AskedBudget(budget, ask)

    def digest(self) -> str:
        """Of all that must be the same on every rank: who runs, how far, what is cached, what was sampled."""
        batch, prefix = self.runner.batch, self.prefix
        held = {
            "running": [
                (seq.id, seq.computed.tokens, seq.scheduled, len(seq.generated), seq.draft.length, seq.prefix.waiting)
                for seq in self.scheduler.running
            ],
            "waiting": [seq.id for seq in self.scheduler.waiting],
            "rows": [None if seq is None else seq.id for seq in self.runner.rows],
            "lengths": None if batch is None else list(batch.lengths),
            "prefixes": None if prefix is None else (prefix.cache.entries, prefix.cache.memory),
            "delivered": self._delivered,
        }
        return hashlib.sha256(json.dumps(held).encode()).hexdigest()[:32]

    def on_idle(self) -> None:
        """Without waiting for the device: MLX's `synchronize` lets no other thread run, and would wait for ever if a
        rank is gone. What was submitted is computed all the same."""
        self.faults.attempt(self._sample_memory)

    def _must_release_finished(self) -> bool:
        return bool(self.ask("release", super()._must_release_finished))

    def _deliver(self, in_flight: InFlightStep) -> None:
        """All tokens first, then the sequences that end with them: their ends are one answer."""
        tokens = self._tokens_of(in_flight)
        in_flight.tokens = []
        self._delivered = [token.token_id for token in tokens]
        if in_flight.sampled is None:
            return
        for request_id, (reason, _) in self._endings(tokens).items():
            self.release(self.seqs[request_id], reason)

    def _endings(self, tokens: list[Token]) -> Endings:
        raise NotImplementedError


class LeaderCore(RankCore):
    ask: Leading

    def join(self, ask: Ask) -> None:
        super().join(ask)
        if self.prefix is not None:
            self.prefix.clearing = partial(self.ask.order, "clear", {})

    def add(self, seq: Sequence) -> None:
        if seq.finished is None:
            with self.ask.order("add", {"sequence": wire.record(seq)}):
                super().add(seq)

    def abort(self, request_id: RequestId) -> None:
        if request_id in self.seqs:
            with self.ask.order("abort", {"id": request_id}):
                super().abort(request_id)

    def step(self) -> None:
        link = self.ask.link
        link.begin_step()
        with self.ask.order("step", {}):
            super().step()
            self.steps += 1
            try:
                link.end_step(self.steps, self.digest())
            except Exception as error:
                raise RanksFailed(str(error)) from error

    def _endings(self, tokens: list[Token]) -> Endings:
        """Deliver to clients. What fails for one sequence, as its grammar may, ends that one."""
        endings: Endings = {}
        live = [token.seq for token in tokens if token.seq.finished is None]
        silent = {seq.id: seq for seq in live if not seq.first_delta_sent}
        for token in tokens:
            if token.seq.finished is None and token.seq.id not in endings:
                ended = self._delivered_to(token)
                if ended is not None:
                    endings[token.seq.id] = (ended, len(token.seq.generated))
        begun = [request_id for request_id, seq in silent.items() if seq.first_delta_sent]
        self.ask("ended", lambda: {"ended": {id: list(end) for id, end in endings.items()}, "begun": begun})
        return endings

    def _delivered_to(self, token: Token) -> FinishReason | None:
        seq = token.seq
        broken = "The model's logits are not numbers." if token.token_id == NOT_A_NUMBER else None
        if seq.failure or broken:
            return delivery.finish(seq, "error", error=seq.failure or broken)
        self.counters.generation_tokens += 1
        self.scheduler.policy.served(seq, OUTPUT_WEIGHT)
        try:
            return delivery.deliver_token(seq, token.token_id, token.logprob, drafted=token.drafted)
        except Exception as error:  # noqa: BLE001  of the host, and of this sequence alone
            return delivery.finish(seq, "error", error=str(error) or type(error).__name__)

    def fail(self, error: BaseException) -> None:
        if isinstance(error, RanksFailed) and self.failure is None:
            self.failure = self.ask.link.why(REASON_SECONDS) or str(error)
        super().fail(error)

    def close(self) -> None:
        """After a failure nothing of MLX is touched: to free what waits for a lost rank would take for ever, with all
        threads held up. The process ends."""
        if self.failure is None:
            super().close()
        else:
            for seq in list(self.seqs.values()):
                self._finally(partial(delivery.finish, seq, "error", error=self.failure))
            self._finally(self.on_step)
        self.ask.link.close(self.failure or "")


class FollowerCore(RankCore):
    ask: Following

    @contextmanager
    def order(self, now: float) -> Iterator[None]:
        """Carry out an order of rank 0's, given at this time."""
        self.ask.clock.set(now)
        self.ask.active = True
        try:
            yield
        finally:
            self.ask.active = False

    def _endings(self, tokens: list[Token]) -> Endings:
        answer = self.ask("ended", dict)
        endings: Endings = {RequestId(id): (end[0], end[1]) for id, end in answer["ended"].items()}
        for token in tokens:
            seq = token.seq
            if seq.finished is None and (seq.id not in endings or len(seq.generated) < endings[seq.id][1]):
                seq.generated.append(token.token_id)
        for request_id in answer["begun"]:
            self.seqs[request_id].first_delta_sent = True
        return endings
