"""The engine without its thread: `step` plans, executes and delivers. Whole when it is constructed.

Errors are handled in engine/faults: a fault of one row ends that row, a fault of a step is isolated by trying.
"""

from __future__ import annotations

import gc
import logging
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import mlx.core as mx

from paceline.engine import delivery, overview, pooling
from paceline.engine.account import Account
from paceline.engine.counters import Counters
from paceline.engine.depth import bucket
from paceline.engine.faults import AmbiguousFault, Faults, drop_frames
from paceline.engine.patience import Patience
from paceline.engine.plan import Cause, StepPlan
from paceline.engine.policy import OUTPUT_WEIGHT
from paceline.engine.rate import Rate
from paceline.engine.reuse import Reuse
from paceline.engine.row import Row
from paceline.engine.runner import Launched, PromptWork, Runner, Token
from paceline.engine.sampler import NOT_A_NUMBER
from paceline.engine.scheduler import Scheduler
from paceline.engine.sparse_prefill import SparsePrefill
from paceline.errors import InvalidRequest, QueueFull, Refused
from paceline.types import Delta, FinishReason, RequestId

log = logging.getLogger("paceline")
HELD_SECONDS = 0.05  # between two looks when all rows wait for the disk, in case its wake-up was lost
TIDY_STEPS = 256  # decode steps between two clearings of MLX's pool of freed buffers
RECOVERY_STEPS = 32  # decode steps without trouble after which a little more is tried again
LOOKUP_SECONDS = 1.0  # between two looks at how much of a waiting prompt is cached
DEADLINE_SECONDS = 0.05  # between two looks at the rows' deadlines


class EngineCore:
    """`rows` are all that were added and have not ended, by id. `in_flight` is the step that the device works on."""

    def __init__(
        self,
        runner: Runner,
        scheduler: Scheduler,
        *,
        reuse: Reuse | None = None,
        sparse: SparsePrefill | None = None,
        patience: Patience | None = None,
        on_step: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.runner = runner
        self.scheduler = scheduler
        self.reuse = reuse  # None: prefixes are not cached
        self.sparse = sparse  # None: no draft scores prompts
        self.patience = patience or Patience()
        self.clock = clock
        self.rows: dict[RequestId, Row] = {}
        self.in_flight: Launched | None = None
        self.counters = Counters()
        self.account = Account()
        self.rate = Rate()
        self.faults = Faults(self)
        self.failure: str | None = None  # why the engine gave up
        self._on_step = on_step
        self._deadlines_checked = 0.0
        # When the last step ended, its kind, and how many of that kind came before it.
        self._clocked: tuple[float, tuple[int, int] | None, int] = (0.0, None, 0)

    # -- rows come and go

    def add(self, row: Row) -> None:
        if row.finished is None:  # or it was rejected with another choice of its request
            self.rows[row.id] = row
            self.faults.guard(row, partial(self._arrive, row))

    def abort(self, request_id: RequestId) -> None:
        """Ids that are not known are ignored."""
        if request_id in self.rows:
            self.finish(self.rows[request_id], "abort")

    def finish(
        self,
        row: Row,
        reason: FinishReason,
        *,
        error: str | None = None,
        refusal: Refused | InvalidRequest | None = None,
    ) -> None:
        """The row is over, and leaves everything."""
        said = delivery.last_words(row, reason, error=error, refusal=refusal)
        self._forget(row, said, refused=refusal is not None)

    def preempt(self, rows: Sequence[Row], cause: Cause, *, keep: bool = True) -> None:
        """These rows begin again, later; `keep`: what they have computed may be trusted. Nothing is in flight."""
        if self.reuse is not None:
            for row in rows:
                self.reuse.set_back(row, keep=keep)
        riding = [row for row in rows if row in self.runner.rows]
        if riding:  # the sampler must not be disturbed for the sake of others
            self.runner.take_out(riding)
        for row in rows:
            row.restart()
            self.scheduler.set_back(row, cause)

    def _arrive(self, row: Row) -> None:
        if self.sparse is not None:
            self.sparse.arrive(row)
        if self.reuse is not None:
            self.reuse.arrive(row)
        self._look_up(row)
        if row.finished is not None:  # to look it up has failed
            return
        self.scheduler.add(row, row.arrived)
        if row.remaining == 0 and row.limit == 0:  # a prompt of one token, only to be scored
            self.finish(row, "length")

    def _look_up(self, row: Row) -> None:
        """How much of its prompt would have to be computed now?"""
        row.looked = self.clock()
        if self.reuse is not None:
            self.faults.guard(row, partial(self.reuse.look_up, row))

    def _admit(self, row: Row) -> None:
        """A row that begins to run does so where the longest cached prefix of its prompt ends."""
        if not row.setbacks:
            row.queued = row.entered - row.arrived
            self.counters.queue_seconds += row.queued
            self.counters.queued += 1
        if self.reuse is not None:
            self.scheduler.account()  # what is restored must fit beside those that came in just now
            self.faults.run_for_one(row, partial(self.reuse.enter, row))
        if self.sparse is not None:
            self.sparse.enter(row)

    def _refuse(self, row: Row, refusal: Refused) -> None:
        self.counters.refused[refusal.cause] = self.counters.refused.get(refusal.cause, 0) + 1
        self.finish(row, "error", error=str(refusal), refusal=refusal)

    def _forget(self, row: Row, reason: FinishReason, *, refused: bool = False) -> None:
        row.finished = reason
        if self.reuse is not None:
            self.reuse.end(row, reason)
        row.batch, row.encoded, row.places = None, [], None
        row.head, row.carry, row.pooled, row.scout = None, None, None, None
        self.scheduler.remove(row)
        self.rows.pop(row.id, None)
        if row.started:
            self.rate.left(self.clock())
        if reason in ("stop", "length") and self.scheduler.admission is not None:
            self.scheduler.admission.outputs.learn(len(row.generated))
        if not refused or row.started:  # one that never ran has not ended either
            self.counters.finished[reason] = self.counters.finished.get(reason, 0) + 1

    # -- a step

    def step(self) -> None:
        """Plan and submit a step, and, while the device works, deliver the one before.

        A speculative step is read first, for where its rows go on is not known before; unless the next one just
        follows it. While a fault is isolated, every step is read before the next is built.
        """
        in_flight, self.in_flight = self.in_flight, None
        try:
            self.in_flight = self._step(in_flight)
        except AmbiguousFault as fault:
            self.faults.restart_all(fault.__cause__ or fault)
        self._on_step()

    def pause(self) -> float | None:
        """Seconds that may be waited for a message before the next step; None: until one comes."""
        scheduler = self.scheduler
        if self.in_flight is not None or (scheduler.waiting and not scheduler.running):
            return 0.0
        if any(not row.held for row in scheduler.running):
            return 0.0
        pause = None if self.reuse is None else self.reuse.pause
        return HELD_SECONDS if pause is None and scheduler.running else pause

    def _step(self, in_flight: Launched | None) -> Launched | None:
        runner, faults = self.runner, self.faults
        if in_flight is not None and (in_flight.binding or self.scheduler.suspects.active):
            self.settle(in_flight)
            in_flight = None
        elif in_flight is not None and in_flight.unread and not runner.runs_ahead:
            in_flight = self._read(in_flight)
        self._check_waiting()
        if self._must_clear_out():
            if in_flight is not None:
                self.settle(in_flight)
                in_flight = None
            runner.take_out([row for row in runner.rows if row.finished is not None])
        plan = self.scheduler.plan(self.clock())
        while not plan.is_step:
            if in_flight is not None and (plan.preempt or plan.exceeds_memory is not None):
                self.settle(in_flight)
                in_flight = None
            self._prepare(plan)
            plan = self.scheduler.plan(self.clock())
        decode = self._decoding(plan)
        self._reject_overflow()
        if self.scheduler.admission is not None:
            runner.low_memory = self.scheduler.admission.low_memory
        for cache in (self.reuse, self.sparse):
            if cache is not None:
                faults.attempt(cache.give_way)
        if in_flight is not None and in_flight.unread and not runner.follows(in_flight, decode, plan.draft_length):
            in_flight = self._read(in_flight)
        following, trouble = self._launch(plan, decode)
        faults.check_forgiven()
        if trouble is not None and in_flight is not None and faults.is_ambiguous(trouble):
            raise AmbiguousFault from trouble
        if in_flight is not None and not self.settle(in_flight):
            if following is not None:
                self._settle_prompts(following)
            following = None  # its tokens were built on what is lost
        elif trouble is not None:
            faults.step_failed(decode, trouble)
        drop_frames(trouble)
        faults.check_forgiven()
        self._tidy(plan)
        return following

    def _must_clear_out(self) -> bool:
        """Would rows come in while others that have ended still hold too much? They leave with the next step only."""
        admission = self.scheduler.admission
        if admission is None or not self.scheduler.waiting:
            return False
        return admission.lingers([row for row in self.runner.rows if row.finished is not None])

    def _prepare(self, plan: StepPlan) -> None:
        """Do what the plan asks for before there can be a step. Rows may have ended since it was made."""
        for request_id in plan.admit:
            if request_id in self.rows:
                self._admit(self.rows[request_id])
        if plan.exceeds_memory is not None and (row := self.rows.get(plan.exceeds_memory)) is not None:
            if row.generated:
                log.warning("request %s exceeds the memory, and ends here", row.id)
                self.finish(row, "length")
            else:
                self.finish(row, "error", error="The memory does not suffice for this request.")
        rows = [self.rows[request_id] for request_id in plan.preempt if request_id in self.rows]
        self.preempt([row for row in rows if row in self.scheduler.running], plan.cause)

    def _decoding(self, plan: StepPlan) -> list[Row]:
        """The rows that decode, told how many tokens to draft."""
        rows = [self.rows[request_id] for request_id in plan.decode]
        for row, length in zip(rows, plan.draft_lengths, strict=True):
            row.depth = length
        return rows

    def _check_waiting(self) -> None:
        """Between two steps: what rows wait for may have come, or their time may be over."""
        if self.reuse is not None:
            self.faults.attempt(partial(self.reuse.poll, self.scheduler.running))
        now = self.clock()
        if now - self._deadlines_checked < DEADLINE_SECONDS:
            return
        self._deadlines_checked = now
        retry_after = self.rate.retry_after(len(self.scheduler.waiting), now)
        for row in list(self.rows.values()):
            refusal = self.patience.overdue(row, now, retry_after)
            if refusal is not None:
                self._refuse(row, refusal)
            elif row.waits and now - row.looked >= LOOKUP_SECONDS:
                self._look_up(row)

    def _reject_overflow(self) -> None:
        """The queue is bounded: rows that came last go at once, with a word when to come back."""
        most = self.patience.queue
        if most is None or len(self.scheduler.waiting) <= most:
            return
        for row in self.scheduler.overflow(most):
            retry_after = self.rate.retry_after(len(self.scheduler.waiting), self.clock())
            refusal = QueueFull(f"{most} requests wait already.", retry_after)
            self._refuse(row, refusal)
            for each in row.company:
                if each.finished is None:  # the request was counted with the first
                    self.finish(each, "error", error=str(refusal), refusal=refusal)

    # -- execute

    def _launch(self, plan: StepPlan, decode: Sequence[Row]) -> tuple[Launched | None, Exception | None]:
        """Submit a step: decoding first, so that nobody's next token waits for another's prompt."""
        runner, faults = self.runner, self.faults
        trouble = None
        try:
            launched = runner.decode(decode, plan.draft_length)
            if faults.serial:
                runner.await_step(launched)
        except Exception as error:  # noqa: BLE001
            launched, trouble = Launched(), error
        if plan.empty:
            self._clocked = (0.0, None, 0)
            return None, trouble
        launched.alone = not plan.prefill and plan.encode is None and plan.score is None
        for chunk in plan.prefill:
            if (row := self.rows.get(chunk.id)) is None:
                continue
            begun = time.perf_counter()
            faults.run_for_one(row, partial(self._prefill, row, chunk.tokens, launched))
            if row.chosen is not None:
                self._count_side_work(launched, time.perf_counter() - begun)
        if plan.encode is not None and (row := self.rows.get(plan.encode)) is not None:
            faults.run_for_one(row, partial(runner.encode, row))
        if plan.score is not None and (row := self.rows.get(plan.score)) is not None:
            self._score(row, launched)
        self.counters.steps += 1
        self.counters.decode_steps += bool(plan.decode)
        return launched, trouble

    def _prefill(self, row: Row, tokens: int, launched: Launched) -> None:
        work = PromptWork(row, self.runner.prefill(row, tokens))
        if self.faults.serial:
            self.runner.wait(work.arrays)
        launched.waits.append(work)
        launched.prompt_tokens += tokens
        self.counters.prompt_tokens += tokens
        self.scheduler.policy.served(row, tokens)
        if row.remaining == 0 and row.prompt.pooling is not None:
            launched.pooled.append(PromptWork(row, []))  # read when the step is: a read here would hold up everybody
        elif row.remaining == 0 and row.limit == 0:  # only the prompt's own scores were asked for
            self.finish(row, "length")

    def _score(self, row: Row, launched: Launched) -> None:
        """The draft reads on in a row's prompt, or the row learns which tokens of it to read."""
        assert self.sparse is not None  # or nobody would be undecided
        begun = time.perf_counter()
        with self.faults.or_dense(row):
            work = PromptWork(row, self.sparse.advance(row))
            if self.faults.serial:
                self.sparse.wait(work.arrays)
            launched.scouted.append(work)
        self._count_side_work(launched, time.perf_counter() - begun)

    def _count_side_work(self, launched: Launched, seconds: float) -> None:
        """A chunk that streams have to be repaid for is in flight; `seconds` of it are over."""
        if launched.rows:
            if launched.side is None:
                launched.side = 0.0
                self.scheduler.duty.begun()
            launched.side += seconds

    # -- deliver

    def settle(self, in_flight: Launched) -> bool:
        """Read and deliver a step. False: it was lost, and its rows begin again."""
        if in_flight.unread and self._read(in_flight) is None:
            return False
        try:
            self._deliver(in_flight)
        except Exception as error:  # noqa: BLE001
            if self.faults.is_ambiguous(error, waited=True):
                raise AmbiguousFault from error
            self._lose(in_flight, error)
            return False
        if in_flight.sampled is not None:
            self.faults.step_succeeded(in_flight.rows)
        self._settle_prompts(in_flight)
        return True

    def _read(self, in_flight: Launched) -> Launched | None:
        """Learn the outcome of a speculative step. None: it was lost, and its rows begin again."""
        try:
            self.runner.read(in_flight)
        except Exception as error:  # noqa: BLE001
            if self.faults.is_ambiguous(error, waited=True):
                raise AmbiguousFault from (error.__cause__ or error)
            self._lose(in_flight, error.__cause__ or error)
            return None
        self._clock_step(in_flight)
        for row, depth, kept in zip(in_flight.rows, in_flight.depths, in_flight.kept, strict=True):
            if depth and row.finished is None:
                self.scheduler.depths.verified(row, depth, kept - 1)
                row.rejected += depth  # until they are delivered: a stop may come before a draft token that was right
        return in_flight

    def _lose(self, in_flight: Launched, cause: BaseException) -> None:
        """A step's tokens are lost: the rows that decoded begin again. Prompts have batches of their own."""
        self.faults.step_lost(in_flight, cause)
        self._settle_prompts(in_flight)

    def _settle_prompts(self, in_flight: Launched) -> None:
        """Wait for what a step did for rows that do not decode yet, and deliver the vectors that are ready."""
        begun = time.perf_counter()
        faults = self.faults
        for prompt in in_flight.waits:
            if prompt.stands:
                faults.run_for_one(prompt.row, partial(self.runner.wait, prompt.arrays), waited=True)
        for prompt in in_flight.scouted:
            if prompt.stands and prompt.row.scout is not None and self.sparse is not None:
                with faults.or_dense(prompt.row, waited=True):
                    self.sparse.wait(prompt.arrays)
        if in_flight.side is not None:
            self.scheduler.duty.took(in_flight.side + time.perf_counter() - begun, self.clock())
        for prompt in in_flight.pooled:
            if prompt.stands:
                faults.run_for_one(prompt.row, partial(self._deliver_vector, prompt.row), waited=True)

    def _deliver(self, in_flight: Launched) -> None:
        tokens = self.runner.collect(in_flight)
        if not in_flight.kept:
            self._clock_step(in_flight)
        for token in tokens:
            if token.row.finished is None:
                self.faults.guard(token.row, partial(self._deliver_token, token))

    def _deliver_vector(self, row: Row) -> None:
        vector = pooling.unit(row.pooled)
        if vector is None:
            self.finish(row, "error", error="The model's hidden states are not numbers.")
            return
        delivery.send(row, Delta(finish_reason="stop", vector=vector))
        self._forget(row, "stop")

    def _deliver_token(self, token: Token) -> None:
        row = token.row
        broken = "The model's logits are not numbers." if token.token_id == NOT_A_NUMBER else None
        if row.failure or broken:
            self.finish(row, "error", error=row.failure or broken)
            return
        self.counters.generated_tokens += 1
        self.scheduler.policy.served(row, OUTPUT_WEIGHT)
        ended = delivery.word(row, token.token_id, token.logprob, guessed=token.guessed)
        if ended is not None:
            self._forget(row, ended)

    def _clock_step(self, in_flight: Launched) -> None:
        """Tell how long a step took, if it and the two before were of a kind and did nothing but decode."""
        now = time.perf_counter()
        kind = (bucket(len(in_flight.rows)), in_flight.depth) if in_flight.alone and in_flight.steady else None
        began, before, like = self._clocked
        if began and in_flight.rows and in_flight.steady and (in_flight.alone or in_flight.prompt_tokens):
            self.scheduler.pace.timed(in_flight.prompt_tokens, now - began)
        like = like + 1 if kind is not None and kind == before else 0
        if kind is not None and like >= 2:
            self.scheduler.depths.timed(*kind, now - began)
        self._clocked = (now, kind, like)

    # -- memory and the end

    def _tidy(self, plan: StepPlan) -> None:
        if plan.decode and self.counters.decode_steps % RECOVERY_STEPS == 0:
            self.scheduler.recover()
        if plan.decode and self.counters.decode_steps % TIDY_STEPS == 0:
            mx.clear_cache()
        if self.account.due(self.clock()):
            self.faults.attempt(self._sample_memory)

    def on_idle(self) -> None:
        """Nobody is there: what is left is what idleness costs. What was submitted last must be over, or it would count
        for ever: copies for the prefix cache hold on to all that they are cut from."""
        self.faults.attempt(mx.synchronize)
        self.faults.attempt(self._sample_memory)

    def _sample_memory(self) -> None:
        scheduler, tokens = self.scheduler, (self.counters.prompt_tokens, self.counters.generated_tokens)
        self.account.look(scheduler.admission, scheduler.running, self.clock(), *tokens)

    def crashed(self, error: BaseException) -> None:
        """Something failed that nobody is there to handle: the engine ends, and says so."""
        reason = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        log.critical("the engine stops after an error that it cannot handle: %s", reason, exc_info=error)
        self.failure = self.failure or f"The engine stopped after an unexpected error: {reason}"

    def close(self) -> None:
        """End everything and free the model. Whatever fails on the way, the rest is still done."""
        reason: FinishReason = "abort" if self.failure is None else "error"
        for row in list(self.rows.values()):
            self._at_last(partial(self.finish, row, reason, error=self.failure))
        self._at_last(self._on_step)
        if self.reuse is not None:
            self._at_last(self.reuse.close)
        if self.sparse is not None:
            self._at_last(self.sparse.clear)
        self.in_flight = self.reuse = self.sparse = None
        del self.runner
        self._at_last(_free)

    def _at_last(self, work: Callable[[], Any]) -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001  there is nobody left to handle it
            self.crashed(error)

    def stats(self) -> dict[str, Any]:
        """A look at the engine from outside; numbers may be a step old."""
        return overview.engine(self, self.clock())


def _free() -> None:
    gc.collect()
    mx.clear_cache()
    mx.clear_streams()  # this thread's: left to the interpreter's end, they abort the process
