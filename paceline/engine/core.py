"""The engine without its thread: `step` plans, executes and delivers. Complete when constructed.

Errors are handled in engine/faults: one of a sequence ends that sequence, one of a step is isolated by retrying.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection
from functools import partial
from typing import Any

import mlx.core as mx

from paceline.engine import delivery, prompt_results
from paceline.engine.faults import Faults, drop_frames
from paceline.engine.in_flight import AmbiguousFault, InFlightStep, PromptWork, Token
from paceline.engine.memory import free
from paceline.engine.plan import Cause, StepPlan
from paceline.engine.policy import OUTPUT_WEIGHT
from paceline.engine.prefix_manager import PrefixManager
from paceline.engine.queueing import DepartureRate, Timeouts
from paceline.engine.runner import Runner
from paceline.engine.sampler import NOT_A_NUMBER
from paceline.engine.scheduler import Scheduler
from paceline.engine.sequence import Sequence
from paceline.engine.sparse_prefill import SparsePrefill
from paceline.engine.stats import Counters, Monitor, snapshot
from paceline.engine.step_timer import StepTimer
from paceline.errors import InvalidRequest, QueueFull, Refused
from paceline.stats import Stats
from paceline.types import FinishReason, RequestId

log = logging.getLogger("paceline")
PREFIX_WAIT_SECONDS = 0.05  # between two polls while all sequences wait for the disk, in case its wake-up was lost
TIDY_STEPS = 2048  # steps between two clearings of MLX's buffer cache; each takes 35 ms on an H200
RECOVERY_STEPS = 32  # steps between two relaxations of limits
LOOKUP_SECONDS = 1.0  # between two prefix lookups of a waiting sequence
DEADLINE_SECONDS = 0.05  # between two checks of deadlines
Launched = tuple[InFlightStep | None, Exception | None]  # and what went wrong


class EngineCore:
    """`seqs` are all that were added and have not finished, by id. `in_flight` is the step that the device works on."""

    def __init__(
        self,
        runner: Runner,
        scheduler: Scheduler,
        *,
        prefix: PrefixManager | None = None,
        sparse: SparsePrefill | None = None,
        timeouts: Timeouts | None = None,
        on_step: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.runner = runner
        self.scheduler = scheduler
        self.prefix = prefix  # None: prefixes are not cached
        self.sparse = sparse  # None: no draft scores prompts
        self.timeouts = timeouts or Timeouts()
        self.clock = clock
        self.seqs: dict[RequestId, Sequence] = {}
        self.in_flight: InFlightStep | None = None
        self.counters = Counters()
        self.monitor = Monitor()
        self.departures = DepartureRate()
        self.arrivals = delivery.Arrivals()
        self.faults = Faults(self)
        self.failure: str | None = None  # why the engine gave up
        self.on_step = on_step
        self._deadlines_checked = 0.0
        self.timer = StepTimer(scheduler)

    # -- adding and finishing

    def add(self, seq: Sequence) -> None:
        if seq.finished is None:  # or it was rejected with another choice of its request
            self.seqs[seq.id] = seq
            self.arrivals.add(seq)
            self.faults.guard(seq, partial(self._enqueue, seq))

    def abort(self, request_id: RequestId) -> None:
        """Unknown ids are ignored."""
        if request_id in self.seqs:
            self.finish(self.seqs[request_id], "abort")

    def finish(
        self,
        seq: Sequence,
        reason: FinishReason,
        *,
        error: str | None = None,
        refusal: Refused | InvalidRequest | None = None,
    ) -> None:
        """The sequence ends, and releases everything."""
        ended = delivery.finish(seq, reason, error=error, refusal=refusal)
        self.release(seq, ended, refusal)

    def preempt(self, seqs: Collection[Sequence], cause: Cause, *, keep: bool = True) -> None:
        """These sequences are recomputed later; `keep`: their caches can be trusted. Nothing is in flight."""
        if self.prefix is not None:
            for seq in seqs:
                self.prefix.on_preempt(seq, keep=keep)
        members = [seq for seq in seqs if seq in self.runner.seqs]
        if members:  # or the sampler would be rearranged for nothing
            self.runner.remove(members)
        for seq in seqs:
            seq.reset_for_recompute()
            self.scheduler.preempt(seq, cause)

    def _enqueue(self, seq: Sequence) -> None:
        if self.sparse is not None:
            self.sparse.on_arrival(seq)
        if self.prefix is not None:
            self.prefix.on_arrival(seq)
        self._look_up(seq)
        if seq.finished is not None:  # the lookup failed
            return
        self.scheduler.add(seq, seq.queue.arrived)
        if seq.remaining == 0 and seq.max_tokens == 0:  # a prompt of one token with max_tokens 0
            self.finish(seq, "length")

    def _look_up(self, seq: Sequence) -> None:
        """How much of the prompt would have to be computed now?"""
        seq.queue.looked_up = self.clock()
        if self.prefix is not None:
            self.faults.guard(seq, partial(self.prefix.look_up, seq))

    def _admit(self, seq: Sequence) -> None:
        """An admitted sequence starts at the end of the longest cached prefix of its prompt."""
        if not seq.preemptions:
            seq.queue.seconds = seq.queue.admitted - seq.queue.arrived
        if self.prefix is not None:
            self.scheduler.account()  # what is restored must fit beside the others admitted just now
            self.faults.run_for_one(seq, partial(self.prefix.on_admit, seq))
        if self.sparse is not None and seq in self.scheduler.running:
            self.sparse.on_admit(seq)

    def _refuse(self, seq: Sequence, refusal: Refused) -> None:
        self.counters.refused[refusal.cause] += not seq.siblings.refused  # a request, not its choices
        seq.siblings.refused = True
        self.finish(seq, "error", error=str(refusal), refusal=refusal)

    def release(self, seq: Sequence, reason: FinishReason, refusal: Refused | InvalidRequest | None = None) -> None:
        seq.finished = reason
        if self.prefix is not None:  # what a request computed that ran out of time can be trusted
            self.prefix.on_finish(seq, "abort" if isinstance(refusal, Refused) else reason)
        seq.free()
        self.scheduler.remove(seq)
        self.seqs.pop(seq.id, None)
        if seq.queue.started:
            self.departures.departed(self.clock())
        if reason in ("stop", "length") and self.scheduler.admission is not None:
            self.scheduler.admission.output_estimate.observe(len(seq.generated))
        if refusal is None or seq.queue.started:  # one that never ran was refused, not finished
            self.counters.finished[reason] += 1

    # -- a step

    def step(self) -> None:
        """Plan and submit a step, and deliver the previous one while the device works.

        A speculative step is read before the next is planned, because its lengths are unknown until then; unless the
        next one repeats it. While a fault is isolated, every step is read before the next.
        """
        in_flight, self.in_flight = self.in_flight, None
        try:
            self.in_flight = self._step(in_flight)
        except AmbiguousFault as fault:
            self.faults.recompute_all(fault.__cause__ or fault)
        self.on_step()
        self.monitor.tick(self.in_flight, self.runner.new_shapes)

    def pause(self) -> float | None:
        """Seconds to wait for a message before the next step; None: until one comes."""
        scheduler = self.scheduler
        if self.in_flight is not None or (scheduler.waiting and not scheduler.running):
            return 0.0
        if any(not seq.prefix.waiting for seq in scheduler.running):
            return 0.0
        pause = None if self.prefix is None else self.prefix.pause
        return PREFIX_WAIT_SECONDS if pause is None and scheduler.running else pause

    def _step(self, in_flight: InFlightStep | None) -> InFlightStep | None:
        runner, faults = self.runner, self.faults
        if in_flight is not None and (in_flight.needs_sync or self.scheduler.wants_tokens(in_flight.seqs)):
            self.complete(in_flight)
            in_flight = None
        elif in_flight is not None and in_flight.result_pending and not runner.can_run_ahead:
            in_flight = self._read(in_flight)
        self._check_deadlines()
        if self._must_release_finished():
            if in_flight is not None:
                self.complete(in_flight)
                in_flight = None
            runner.remove([seq for seq in runner.seqs if seq.finished is not None])
        plan = self.scheduler.plan(self.clock())
        while not plan.is_step:
            if in_flight is not None and (plan.preempt or plan.exceeds_memory is not None):
                self.complete(in_flight)
                in_flight = None
            self._carry_out(plan)
            plan = self.scheduler.plan(self.clock())
        decode = self._decoding(plan)
        self._reject_overflow()
        self.arrivals.announce()
        if self.scheduler.admission is not None:
            runner.low_memory = self.scheduler.admission.low_memory
        for cache in (self.prefix, self.sparse):
            if cache is not None:
                faults.attempt(cache.enforce_budget)
        unread = in_flight if in_flight is not None and in_flight.result_pending else None
        follows = unread is None or runner.can_follow(unread, decode, plan.draft_length)
        if unread is not None and not follows and self._read(unread) is None:
            return None  # the plan's sequences are recomputed: they have no caches to decode from
        following, trouble = self._launch(plan, decode, in_flight)
        faults.check_tolerated()
        if trouble is not None and in_flight is not None and faults.is_ambiguous(trouble):
            raise AmbiguousFault from trouble
        if in_flight is not None and not self.complete(in_flight):
            if following is not None:
                prompt_results.complete(self, following)
            following = None  # its tokens depend on what is lost
        elif trouble is not None:
            faults.step_failed(decode, trouble)
        drop_frames(trouble)
        faults.check_tolerated()
        self._tidy(plan)
        return following

    def _must_release_finished(self) -> bool:
        """Would sequences be admitted while finished ones still hold too much memory? They leave with the next step."""
        admission = self.scheduler.admission if self.scheduler.waiting else None
        return admission is not None and admission.must_release([seq for seq in self.runner.seqs if seq.finished])

    def _carry_out(self, plan: StepPlan) -> None:
        """Do what the plan demands before the next step. Sequences may have ended since it was made."""
        for seq in (self.seqs[request_id] for request_id in plan.admit if request_id in self.seqs):
            self._admit(seq)
        large = None if plan.exceeds_memory is None else self.seqs.get(plan.exceeds_memory)
        if large is not None and large.generated:
            log.warning("request %s exceeds the memory, and ends here", large.id)
            self.finish(large, "length")
        elif large is not None:
            self.finish(large, "error", error="The memory does not suffice for this request.")
        seqs = [self.seqs[request_id] for request_id in plan.preempt if request_id in self.seqs]
        self.preempt([seq for seq in seqs if seq in self.scheduler.running], plan.cause)

    def _decoding(self, plan: StepPlan) -> list[Sequence]:
        """The sequences that decode, each with its draft set."""
        seqs = [self.seqs[request_id] for request_id in plan.decode]
        for seq, draft in zip(seqs, plan.drafts, strict=True):
            seq.draft.plan(draft)
        return seqs

    def _check_deadlines(self) -> None:
        """Between two steps: prefixes may have arrived, and deadlines may have passed."""
        if self.prefix is not None:
            self.faults.attempt(partial(self.prefix.poll, self.scheduler.running))
        now = self.clock()
        if now - self._deadlines_checked < DEADLINE_SECONDS:
            return
        self._deadlines_checked = now
        retry_after = self.departures.retry_after(len(self.scheduler.waiting), now)
        for seq in list(self.seqs.values()):
            refusal = self.timeouts.exceeded(seq, now, retry_after)
            if refusal is not None:
                self._refuse(seq, refusal)
            elif seq.queue.blocked_by and now - seq.queue.looked_up >= LOOKUP_SECONDS:
                self._look_up(seq)

    def _reject_overflow(self) -> None:
        """The queue is bounded: the newest requests are refused, with a Retry-After."""
        max_queue = self.timeouts.max_queue
        if max_queue is None or len(self.scheduler.waiting) <= max_queue:
            return
        for seq in self.scheduler.overflow(max_queue):
            retry_after = self.departures.retry_after(len(self.scheduler.waiting), self.clock())
            refusal = QueueFull(f"{max_queue} requests wait already.", retry_after)
            self._refuse(seq, refusal)
            for each in seq.siblings:
                if each.finished is None:  # the request was counted with its first choice
                    self.finish(each, "error", error=str(refusal), refusal=refusal)

    # -- execute

    def _launch(self, plan: StepPlan, decode: Collection[Sequence], before: InFlightStep | None) -> Launched:
        """Submit a step after the one `before`. Decoding comes first: no token waits for another sequence's prefill."""
        runner, faults = self.runner, self.faults
        trouble = None
        try:
            undelivered = None if before is None else partial(self.undelivered, before)
            launched = runner.decode(decode, plan.draft_length, undelivered, plan.shorter)
            launched.waited = before is None or bool(before.kept)
            if launched.draft_length < plan.draft_length:
                self.scheduler.draft_lengths.recount(plan.draft_length, launched.draft_length)
            if faults.serial:
                runner.await_step(launched)
        except AmbiguousFault:
            raise
        except Exception as error:  # noqa: BLE001
            launched, trouble = InFlightStep(), error
        if plan.empty:
            self.timer.reset()
            return None, trouble
        launched.decode_only = not (plan.prefill or plan.draft_prefill or plan.encode or plan.score)
        # Where grammars have read the step before, its faults may have ended or preempted sequences of this plan.
        live = {seq.id: seq for seq in self.scheduler.running}
        chunks = [(live[chunk.id], chunk.tokens) for chunk in plan.prefill if chunk.id in live]
        together = set() if faults.serial else self._prefill_together(chunks, launched)
        for seq, tokens in [each for each in chunks if each[0].id not in together]:
            begun = time.perf_counter()
            faults.run_for_one(seq, partial(self._prefill, seq, tokens, launched))
            if seq.sparse.kept is not None:
                launched.count_sparse_work(time.perf_counter() - begun, self.scheduler.sparse_budget)
        if plan.encode is not None and plan.encode in live:
            faults.run_for_one(live[plan.encode], partial(runner.encode, live[plan.encode]))
        if plan.score is not None and plan.score in live:
            self._score(live[plan.score], launched)
        runner.read_drafts((live.get(chunk.id), chunk.tokens) for chunk in plan.draft_prefill)
        self.counters.steps += 1
        self.counters.decode_steps += bool(plan.decode)
        return launched, trouble

    def _prefill_together(self, chunks: list[tuple[Sequence, int]], launched: InFlightStep) -> set[RequestId]:
        """Prefill what can share a pass; returns whose chunks are done. After an error each is prefilled alone."""
        done: set[RequestId] = set()
        for group in self.runner.shared(chunks):
            try:
                waits = self.runner.prefill_together(*map(list, zip(*group, strict=True)))
            except Exception as error:  # noqa: BLE001
                if self.faults.is_ambiguous(error):
                    raise AmbiguousFault from error
                continue
            for (seq, tokens), arrays in zip(group, waits, strict=True):
                self._count_prefill(seq, tokens, arrays, launched)
            done |= {seq.id for seq, _ in group}
        return done

    def _prefill(self, seq: Sequence, tokens: int, launched: InFlightStep) -> None:
        arrays = self.runner.prefill(seq, tokens)
        if self.faults.serial:
            self.runner.wait(arrays)
        self._count_prefill(seq, tokens, arrays, launched)

    def _count_prefill(self, seq: Sequence, tokens: int, arrays: list[mx.array], launched: InFlightStep) -> None:
        launched.prefills.append(PromptWork(seq, arrays))
        launched.prompt_tokens += self.scheduler.buckets.width(tokens)
        self.counters.prompt_tokens += tokens
        self.scheduler.policy.served(seq, tokens)
        if seq.remaining == 0 and seq.prompt.pooling is not None:
            launched.pooled.append(PromptWork(seq, []))  # read with the step: a read here would stall every stream
        elif seq.remaining == 0 and seq.max_tokens == 0:  # only prompt logprobs were requested
            self.finish(seq, "length")

    def _score(self, seq: Sequence, launched: InFlightStep) -> None:
        """The draft scores the next chunk of a prompt, or the tokens to keep are chosen."""
        assert self.sparse is not None  # or no sequence would be undecided
        begun = time.perf_counter()
        with self.faults.or_dense(seq):
            work = PromptWork(seq, self.sparse.advance(seq))
            if self.faults.serial:
                self.sparse.wait(work.arrays)
            launched.scored.append(work)
        launched.count_sparse_work(time.perf_counter() - begun, self.scheduler.sparse_budget)

    # -- deliver

    def complete(self, in_flight: InFlightStep) -> bool:
        """Read and deliver a step, if that was not done yet. False: it was lost, and its sequences are recomputed."""
        if in_flight.delivered is None:
            in_flight.delivered = self._complete(in_flight)
        return in_flight.delivered

    def undelivered(self, in_flight: InFlightStep) -> list[Token] | None:
        """Tokens of a step that are not delivered yet, though the next masks depend on them. None: it was lost."""
        if in_flight.delivered is None and not self._finish_reading(in_flight, self._tokens_of):
            in_flight.delivered = False
        return None if in_flight.delivered is False else in_flight.tokens

    def _complete(self, in_flight: InFlightStep) -> bool:
        if not self._finish_reading(in_flight, self._deliver):
            return False
        if in_flight.sampled is not None:
            self.faults.step_succeeded(in_flight.seqs)
        prompt_results.complete(self, in_flight)
        if any(prompt.seq.finished == "stop" for prompt in in_flight.pooled):
            self.faults.device_works()
        return True

    def _finish_reading(self, in_flight: InFlightStep, work: Callable[[InFlightStep], Any]) -> bool:
        """False: the step was lost."""
        if in_flight.result_pending and self._read(in_flight) is None:
            return False
        try:
            work(in_flight)
        except Exception as error:  # noqa: BLE001
            if self.faults.is_ambiguous(error, waited=True):
                raise AmbiguousFault from error
            self._lose_step(in_flight, error)
            return False
        return True

    def _read(self, in_flight: InFlightStep) -> InFlightStep | None:
        """Read the lengths of a speculative step. None: it was lost, and its sequences are recomputed."""
        try:
            self.runner.read(in_flight)
        except Exception as error:  # noqa: BLE001
            if self.faults.is_ambiguous(error, waited=True):
                raise AmbiguousFault from (error.__cause__ or error)
            self._lose_step(in_flight, error.__cause__ or error)
            return None
        self.timer.read(in_flight, time.perf_counter())
        for seq, draft_length, method, kept in in_flight.verified():
            if draft_length and seq.finished is None:
                self.scheduler.draft_lengths.verified(seq, draft_length, kept - 1, method)
                seq.rejected += draft_length  # until delivered: a stop may come before an accepted token
        return in_flight

    def _lose_step(self, in_flight: InFlightStep, cause: BaseException) -> None:
        """A step's tokens are lost: the sequences that decoded are recomputed. Prefills have batches of their own."""
        self.faults.step_lost(in_flight, cause)
        prompt_results.complete(self, in_flight)

    def _tokens_of(self, in_flight: InFlightStep) -> list[Token]:
        if in_flight.tokens is None:
            in_flight.tokens = self.runner.collect(in_flight)
            if not in_flight.kept:
                self.timer.read(in_flight, time.perf_counter())
        return in_flight.tokens

    def _deliver(self, in_flight: InFlightStep) -> None:
        for token in self._tokens_of(in_flight):
            if token.seq.finished is None:
                self.faults.guard(token.seq, partial(self._deliver_token, token))
        in_flight.tokens = []

    def _deliver_token(self, token: Token) -> None:
        seq = token.seq
        broken = "The model's logits are not numbers." if token.token_id == NOT_A_NUMBER else None
        if seq.failure or broken:
            self.finish(seq, "error", error=seq.failure or broken)
            return
        self.counters.generation_tokens += 1
        self.scheduler.policy.served(seq, OUTPUT_WEIGHT)
        ended = delivery.deliver_token(seq, token.token_id, token.logprob, drafted=token.drafted)
        if ended is not None:
            self.release(seq, ended)

    # -- memory and the end

    def _tidy(self, plan: StepPlan) -> None:
        steps = 1 if plan.empty else self.counters.steps
        if steps % RECOVERY_STEPS == 0:
            self.scheduler.recover()
        if steps % TIDY_STEPS == 0:
            mx.clear_cache()
        if self.monitor.is_due(self.clock()):
            self.faults.attempt(self._sample_memory)

    def on_idle(self) -> None:
        """Nothing is running. Copies for the prefix cache must be evaluated, or they would keep whole buffers alive."""
        self.faults.attempt(mx.synchronize)
        self.faults.attempt(self._sample_memory)

    def _sample_memory(self) -> None:
        self.monitor.sample(self.scheduler.admission, self.scheduler.running, self.clock(), self.counters)

    def fail(self, error: BaseException) -> None:
        """An error that nothing handles: the engine ends and says why."""
        reason = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        log.critical("the engine stops after an error that it cannot handle: %s", reason, exc_info=error)
        self.failure = self.failure or f"The engine stopped after an unexpected error: {reason}"

    def close(self) -> None:
        """End everything and free the model. Whatever fails on the way, the rest is still done."""
        reason: FinishReason = "abort" if self.failure is None else "error"
        for seq in list(self.seqs.values()):
            self._finally(partial(self.finish, seq, reason, error=self.failure))
        self._finally(self.on_step)
        if self.prefix is not None:
            self._finally(self.prefix.close)
        if self.sparse is not None:
            self._finally(self.sparse.clear)
        self.in_flight = self.prefix = self.sparse = None
        del self.runner
        self._finally(free)

    def _finally(self, work: Callable[[], Any]) -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001  nothing is left to handle it
            self.fail(error)

    def stats(self) -> Stats:
        """For any thread; numbers may be a step old."""
        return snapshot(self, self.clock())
