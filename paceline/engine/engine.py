"""The engine: the one thread that owns MLX. It admits, plans, runs a step, delivers; nothing else.

Others speak to it through `submit`, `abort` and `stop`, which only put a word into its inbox, and hear from it
through each row's sink, called on the engine's thread.
"""

from __future__ import annotations

import gc
import logging
import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from paceline.engine import delivery, overview, pooling
from paceline.engine.account import Account
from paceline.engine.counters import Counters
from paceline.engine.depth import bucket
from paceline.engine.patience import Patience
from paceline.engine.policy import OUTPUT_WEIGHT
from paceline.engine.pressure import is_out_of_memory
from paceline.engine.rate import Rate
from paceline.engine.request import Delta, FinishReason, RequestId
from paceline.engine.reuse import Reuse
from paceline.engine.row import Row
from paceline.engine.runner import Launched, PromptWork, Runner, StepLost, Token
from paceline.engine.sampler import NOT_A_NUMBER
from paceline.engine.scheduler import Cause, Chunk, Plan, Scheduler
from paceline.errors import EngineUnavailable, InvalidRequest, QueueFull, Refused
from paceline.sparse.prefill import SparsePrefill

log = logging.getLogger("paceline")
PATIENCE = 16  # failing steps in a row before the engine gives up: more than it takes to find one row among 1,000
HELD = 0.05  # seconds between two looks when all rows wait for the disk, should its word get lost
NOBODY = RequestId("")  # a word for the engine that is about no request
TIDY_STEPS = 256  # decode steps between two clearings of MLX's pool of freed buffers
STUBBORN = 3  # times that a row may run out of memory by itself before it is given up
RECOVERY = 32  # decode steps without trouble after which a little more is tried again
LOOK_AGAIN = 1.0  # seconds between two looks at how much of a waiting prompt is cached
GLANCE = 0.05  # seconds between two looks at the rows' deadlines


@dataclass(frozen=True, slots=True)
class Errand:
    """Work that another thread wants done between two steps."""

    work: Callable[[], Any]
    result: Future[Any]

    def run(self) -> None:
        if not self.result.set_running_or_notify_cancel():  # from here on, it cannot be cancelled any more
            return
        try:
            result = self.work()
        except BaseException as error:  # noqa: BLE001  for the thread that asked
            self.result.set_exception(error)
        else:
            self.result.set_result(result)

    def refuse(self, reason: str) -> None:
        if self.result.set_running_or_notify_cancel():
            self.result.set_exception(EngineUnavailable(reason))


class InDoubt(Exception):
    """Something under way went wrong, and nobody knows whose work it was (its cause says what)."""


class Engine:
    """`setup` runs on the engine's thread and builds the runner there: MLX belongs to one thread, loading included."""

    def __init__(
        self,
        setup: Callable[[], Runner],
        scheduler: Scheduler,
        after_step: Callable[[], None] = lambda: None,
        *,
        patience: Patience | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._setup = setup
        self.scheduler = scheduler
        self.patience = patience or Patience()
        self._clock = clock
        self.rate = Rate()
        self._glanced = 0.0
        self.account = Account()
        scheduler.on_enter = self._enter
        self.end_ids: frozenset[int] = frozenset()  # set by `setup`, with the model
        self._after_step = after_step
        self._inbox: queue.SimpleQueue[Row | RequestId | Errand | None] = queue.SimpleQueue()
        self._rows: dict[RequestId, Row] = {}
        self._thread: threading.Thread | None = None
        self._runner: Runner | None = None
        self.reuse: Reuse | None = None  # set by `setup`, where prefixes are cached
        self.sparse: SparsePrefill | None = None  # set by `setup`, where a draft scores prompts
        self._lock = threading.Lock()  # between a submit and the engine's last look into its inbox
        self._open = False
        self.counters = Counters()
        self.failure: str | None = None
        self._failing = 0
        # When the last step ended, its kind, and how many of that kind came before it.
        self._clocked: tuple[float, tuple[int, int] | None, int] = (0.0, None, 0)

    # -- for other threads

    def start(self) -> None:
        """Returns when the engine is ready to step; raises what `setup` raised."""
        started: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._main, args=(started,), name="paceline-engine", daemon=True)
        self._thread.start()
        error = started.get()
        if error is not None:
            self._thread.join()
            raise error

    def stop(self) -> None:
        """Ends what is running (finish reason "abort"), frees the model, and returns when the thread is gone."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._inbox.put(None)
            thread.join()

    def submit(self, row: Row) -> None:
        row.arrived = self._clock()
        with self._lock:
            if not self._open:
                raise EngineUnavailable(self.failure or "The engine is not running.")
            self._inbox.put(row)

    def abort(self, request_id: RequestId) -> None:
        self._inbox.put(request_id)

    def wake(self) -> None:
        """Something has changed that the engine may be waiting for."""
        self._inbox.put(NOBODY)

    def run_between_steps(self, work: Callable[[], Any]) -> Future[Any]:
        """Have `work` done on the engine's thread."""
        with self._lock:
            if not self._open:
                raise EngineUnavailable(self.failure or "The engine is not running.")
            errand = Errand(work, Future())
            self._inbox.put(errand)
        return errand.result

    # -- the engine's thread

    def _main(self, started: queue.SimpleQueue[BaseException | None]) -> None:
        try:
            self._runner = self._setup()
        except BaseException as error:  # noqa: BLE001  handed to the thread that asked
            started.put(error)
            return
        with self._lock:
            self._open = True
        started.put(None)
        try:
            self._loop(self._runner)
        except BaseException as error:  # noqa: BLE001  whatever it is: a thread that ends in silence leaves all waiting
            self._crashed(error)
        self._close()

    def _crashed(self, error: BaseException) -> None:
        """Something failed that nobody is there to handle: the engine ends, and says so."""
        reason = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        log.critical("the engine stops after an error that it cannot handle: %s", reason, exc_info=error)
        self.failure = self.failure or f"The engine stopped after an unexpected error: {reason}"

    def _loop(self, runner: Runner) -> None:
        launched: Launched | None = None
        while self.failure is None and self._admit(wait=launched is None):
            launched = self.step(runner, launched)

    def step(self, runner: Runner, launched: Launched | None) -> Launched | None:
        """Plan, submit, and, while the device works, deliver the step before (`launched`). Returns the new one.

        A round is read first, for where its rows go on is not known before; unless the next one just follows it. While
        a culprit is looked for, every step is read before the next is built.
        """
        try:
            following = self._step(runner, launched)
        except InDoubt as doubt:
            self._doubted(runner, doubt.__cause__ or doubt)
            following = None
        self._after_step()
        return following

    def _step(self, runner: Runner, launched: Launched | None) -> Launched | None:
        if launched is not None and (launched.binding or self.scheduler.suspects.active):
            self._settle(runner, launched)
            launched = None
        elif launched is not None and launched.unread and not runner.runs_ahead:
            launched = self._read(runner, launched)
        self._look_after()
        if self._must_clear_out(runner):
            if launched is not None:
                self._settle(runner, launched)
                launched = None
            runner.take_out([row for row in runner.rows if row.finished is not None])
        plan = self.scheduler.plan(self._clock())
        while plan.preempt or plan.outgrown is not None:
            if launched is not None:
                self._settle(runner, launched)
                launched = None
            self._make_room(plan)
            plan = self.scheduler.plan(self._clock())
        self._turn_away()
        if self.scheduler.admission is not None:
            runner.frugal = self.scheduler.admission.frugal
        if self.reuse is not None:
            self._attempt(self.reuse.give_way)
        if self.sparse is not None:
            self._attempt(self.sparse.give_way)
        if launched is not None and launched.unread and not runner.follows(launched, plan.decode, plan.depth):
            launched = self._read(runner, launched)
        following, trouble = self._launch(runner, plan)
        self._check_forgiven()
        if trouble is not None and launched is not None and self._in_doubt(trouble):
            raise InDoubt from trouble
        if launched is not None and not self._settle(runner, launched):
            if following is not None:
                self._settle_prompts(runner, following)
            following = None  # its tokens were built on what is lost
        elif trouble is not None:
            self._failed(runner, plan.decode, trouble)
        _drop_frames(trouble)
        self._check_forgiven()
        self._tidy(plan)
        return following

    def _must_clear_out(self, runner: Runner) -> bool:
        """Would rows come in while others that have ended still hold too much? They leave with the next step only."""
        admission = self.scheduler.admission
        if admission is None or not self.scheduler.waiting:
            return False
        return admission.lingers([row for row in runner.rows if row.finished is not None])

    def _settle(self, runner: Runner, launched: Launched) -> bool:
        """Read and deliver a step. False: it was lost, and its rows begin again."""
        if launched.unread and self._read(runner, launched) is None:
            return False
        try:
            self._deliver(runner, launched)
        except Exception as error:  # noqa: BLE001
            if self._in_doubt(error, waited=True):
                raise InDoubt from error
            self._lost(runner, launched, error)
            return False
        if launched.sampled is not None:
            self._failing = 0
            self.scheduler.suspects.succeeded(launched.rows)
        self._settle_prompts(runner, launched)
        return True

    def _lost(self, runner: Runner, launched: Launched, cause: BaseException) -> None:
        """A step's tokens are lost: the rows that decoded begin again. Prompts have batches of their own."""
        self._failed(runner, launched.rows, StepLost(launched), cause)
        self._settle_prompts(runner, launched)

    def _settle_prompts(self, runner: Runner, launched: Launched) -> None:
        """Wait for what a step did for rows that do not decode yet, and deliver the vectors that are ready."""
        begun = time.perf_counter()
        for prompt in launched.waits:
            if prompt.stands:
                self._own_work(prompt.row, partial(runner.wait, prompt.arrays), waited=True)
        for prompt in launched.scouted:
            if prompt.stands and prompt.row.scout is not None and self.sparse is not None:
                with self._or_whole(self.sparse, prompt.row, waited=True):
                    self.sparse.wait(prompt.arrays)
        if launched.side is not None:
            self.scheduler.duty.took(launched.side + time.perf_counter() - begun, self._clock())
        for prompt in launched.pooled:
            if prompt.stands:
                self._own_work(prompt.row, partial(self._deliver_vector, prompt.row), waited=True)

    def _enter(self, row: Row) -> None:
        """A row that comes in begins where the longest known prefix of its prompt ends."""
        if not row.setbacks:
            row.queued = row.entered - row.arrived
            self.counters.queue_seconds += row.queued
            self.counters.queued += 1
        if self.reuse is not None:
            self.scheduler.account()  # what is restored must fit beside those that came in just now
            self._own_work(row, partial(self.reuse.enter, row))
        if self.sparse is not None:
            self.sparse.enter(row)

    def _attempt(self, work: Callable[[], Any]) -> Any:
        """Work between steps: what it raises must not end the thread, but must not go on for ever either."""
        try:
            return work()
        except Exception as error:  # noqa: BLE001
            self._count_failure(error)
            return None

    def _count_failure(self, error: BaseException) -> None:
        self._failing += 1
        self.counters.failed_steps += 1
        log.error("step failed (%d in a row): %s", self._failing, error, exc_info=error)
        if self._failing >= PATIENCE:
            self.failure = f"The engine stopped after {PATIENCE} failing steps in a row: {error}"

    def _read(self, runner: Runner, launched: Launched) -> Launched | None:
        """Learn a round's outcome. None: it was lost, and its rows begin again."""
        try:
            runner.read(launched)
        except Exception as error:  # noqa: BLE001
            if self._in_doubt(error, waited=True):
                raise InDoubt from (error.__cause__ or error)
            self._lost(runner, launched, error.__cause__ or error)
            return None
        self._clock_step(launched)
        for row, depth, kept in zip(launched.rows, launched.depths, launched.kept, strict=True):
            if depth and row.finished is None:
                self.scheduler.depths.verified(row, depth, kept - 1)
                row.rejected += depth  # until they are delivered: a stop may come before a guess that was right
        return launched

    def _clock_step(self, launched: Launched) -> None:
        """Tell how long a step took, if it and the two before were of a kind and did nothing but decode."""
        now = time.perf_counter()
        kind = (bucket(len(launched.rows)), launched.depth) if launched.alone and launched.steady else None
        began, before, like = self._clocked
        if began and launched.rows and launched.steady and (launched.alone or launched.prompt_tokens):
            self.scheduler.pace.timed(launched.prompt_tokens, now - began)
        like = like + 1 if kind is not None and kind == before else 0
        if kind is not None and like >= 2:
            self.scheduler.depths.timed(*kind, now - began)
        self._clocked = (now, kind, like)

    def _admit(self, wait: bool) -> bool:
        """Take in arrivals and cancellations; sleep when there is nothing at all to do. False: stop."""
        pause = self._pause() if wait else 0.0
        if pause is None:
            self._attempt(self._come_to_rest)
        while pause != 0 or not self._inbox.empty():
            try:
                word = self._inbox.get(timeout=pause)
            except queue.Empty:
                return True
            pause = 0.0
            if word is None:
                return False
            if isinstance(word, Errand):
                word.run()
            elif isinstance(word, Row):
                if word.finished is None:  # or it was turned away with another choice of its request
                    self._rows[word.id] = word
                    self._guarded(word, partial(self._arrive, word))
            elif word in self._rows:
                self._end(self._rows[word], "abort")
        return True

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
            self._end(row, "length")

    def _pause(self) -> float | None:
        """How long to wait for a word when no step is under way; None: until one comes."""
        scheduler = self.scheduler
        if (scheduler.waiting and not scheduler.running) or any(not row.held for row in scheduler.running):
            return 0.0
        pause = None if self.reuse is None else self.reuse.pause
        return HELD if pause is None and scheduler.running else pause

    def _launch(self, runner: Runner, plan: Plan) -> tuple[Launched | None, Exception | None]:
        """Submit a step: decoding first, so that nobody's next token waits for another's prompt."""
        trouble = None
        try:
            launched = runner.decode(plan.decode, plan.depth)
            if self._one_by_one:
                runner.await_step(launched)
        except Exception as error:  # noqa: BLE001
            launched, trouble = Launched(), error
        if plan.empty:
            self._clocked = (0.0, None, 0)
            return None, trouble
        launched.alone = not plan.prefill and plan.encode is None and plan.score is None
        for chunk in plan.prefill:
            begun = time.perf_counter()
            self._own_work(chunk.row, partial(self._prefill, runner, chunk, launched))
            if chunk.row.chosen is not None:
                self._sided(launched, time.perf_counter() - begun)
        if plan.encode is not None:
            self._own_work(plan.encode, partial(runner.encode, plan.encode))
        if plan.score is not None:
            self._score(plan.score, launched)
        self.counters.steps += 1
        self.counters.decode_steps += bool(plan.decode)
        return launched, trouble

    def _prefill(self, runner: Runner, chunk: Chunk, launched: Launched) -> None:
        work = PromptWork(chunk.row, runner.prefill(chunk))
        if self._one_by_one:
            runner.wait(work.arrays)
        launched.waits.append(work)
        launched.prompt_tokens += chunk.tokens
        self.counters.prompt_tokens += chunk.tokens
        row = chunk.row
        self.scheduler.policy.served(row, chunk.tokens)
        if row.remaining == 0 and row.prompt.pooling is not None:
            launched.pooled.append(PromptWork(row, []))  # read when the step is: a read here would hold up everybody
        elif row.remaining == 0 and row.limit == 0:  # only the prompt's own scores were asked for
            self._end(row, "length")

    def _score(self, row: Row, launched: Launched) -> None:
        """The draft reads on in a row's prompt, or the row learns which tokens of it to read."""
        assert self.sparse is not None  # or nobody would be undecided
        begun = time.perf_counter()
        with self._or_whole(self.sparse, row):
            work = PromptWork(row, self.sparse.advance(row))
            if self._one_by_one:
                self.sparse.wait(work.arrays)
            launched.scouted.append(work)
        self._sided(launched, time.perf_counter() - begun)

    def _sided(self, launched: Launched, seconds: float) -> None:
        """A chunk that streams have to be repaid for is under way; `seconds` of it are over."""
        if launched.rows:
            if launched.side is None:
                launched.side = 0.0
                self.scheduler.duty.begun()
            launched.side += seconds

    @contextmanager
    def _or_whole(self, sparse: SparsePrefill, row: Row, *, waited: bool = False) -> Iterator[None]:
        """Where scoring fails, the row reads all of its prompt."""
        try:
            yield
        except Exception as error:  # noqa: BLE001
            if self._in_doubt(error, row, waited=waited):
                raise InDoubt from error
            if is_out_of_memory(error):
                self._relieve(error)
            sparse.give_up(row, error)

    def _own_work(self, row: Row, work: Callable[[], None], *, waited: bool = False) -> None:
        """Work of one row alone, before it decodes. If it runs out of memory, it makes room and begins again.
        `waited`: it was submitted before."""
        try:
            work()
        except Exception as error:  # noqa: BLE001
            if self._in_doubt(error, row, waited=waited):
                raise InDoubt from error
            if not is_out_of_memory(error) or row.troubles == STUBBORN or row not in self.scheduler.running:
                self._fail(row, error)
                if self._runner is not None:
                    self._attempt(self._runner.probe)  # was it the row, or is the device gone?
                return
            row.troubles += 1
            self._relieve(error)
            if row not in self._riders:  # if it has joined, a step of it is under way, and will tell of its trouble
                self._set_back([row], "memory", keep=False)

    # -- whose fault it is, where the device tells of errors later

    def _in_doubt(self, error: BaseException, row: Row | None = None, *, waited: bool = False) -> bool:
        """May this be an error of work that was submitted before, by anybody? (`row`: whose work raised it.) An error
        of the host's own, and memory that was not there when work was submitted, are what they seem."""
        runner = self._runner
        if runner is None or not runner.reports_late or self._one_by_one or self.scheduler.running == [row]:
            return False
        return waited or (type(error) is RuntimeError and not is_out_of_memory(error))

    @property
    def _one_by_one(self) -> bool:
        """Is each piece of work waited for before the next is submitted? Then an error is of the piece that it came
        with. So it is as long as a fault is looked into."""
        runner = self._runner
        return runner is not None and runner.reports_late and self.scheduler.suspects.active

    def _check_forgiven(self) -> None:
        """An error that cost a row no more than a prefix may have been another's, whom it costs its tokens."""
        if self.reuse is not None and self.reuse.forgiven is not None:
            error, self.reuse.forgiven = self.reuse.forgiven, None
            if self._in_doubt(error):
                raise InDoubt from error

    def _doubted(self, runner: Runner, cause: BaseException) -> None:
        """Nothing that was computed lately can be trusted: all that run begin again, and are looked into."""
        self.scheduler.duty.under_way = 0  # nobody waits for that any more
        self._failed(runner, tuple(self.scheduler.running), StepLost(Launched()), cause)
        _drop_frames(cause)

    def _guarded(self, row: Row, work: Callable[[], None]) -> None:
        """Work of one row alone: its failure is its own."""
        try:
            work()
        except Exception as error:  # noqa: BLE001
            self._fail(row, error)

    def _fail(self, row: Row, error: Exception) -> None:
        log.warning("request %s failed: %s", row.id, str(error))
        refusal = error if isinstance(error, InvalidRequest) else None
        self._end(row, "error", error=str(error) or type(error).__name__, refusal=refusal)

    # -- time and memory

    def _look_after(self) -> None:
        """Between two steps: what rows wait for may have come, or their time may be over."""
        if self.reuse is not None:
            self._attempt(partial(self.reuse.poll, self.scheduler.running))
        now = self._clock()
        if now - self._glanced >= GLANCE:
            self._glanced = now
            again = self.rate.retry_after(len(self.scheduler.waiting), now)
            for row in list(self._rows.values()):
                refusal = self.patience.overdue(row, now, again)
                if refusal is not None:
                    self._refuse(row, refusal)
                elif row.waits and now - row.looked >= LOOK_AGAIN:
                    self._look_up(row)

    def _look_up(self, row: Row) -> None:
        """How much of its prompt would have to be computed now?"""
        row.looked = self._clock()
        if self.reuse is not None:
            self._guarded(row, partial(self.reuse.look_up, row))

    def _turn_away(self) -> None:
        """The queue is bounded: rows that came last go at once, with a word when to come back."""
        most = self.patience.queue
        if most is None or len(self.scheduler.waiting) <= most:
            return
        for row in self.scheduler.overflow(most):
            again = self.rate.retry_after(len(self.scheduler.waiting), self._clock())
            refusal = QueueFull(f"{most} requests wait already.", again)
            self._refuse(row, refusal)
            for each in row.company:
                if each.finished is None:  # the request was counted with the first
                    self._end(each, "error", error=str(refusal), refusal=refusal)

    def _refuse(self, row: Row, refusal: Refused) -> None:
        self.counters.refused[refusal.cause] = self.counters.refused.get(refusal.cause, 0) + 1
        self._end(row, "error", error=str(refusal), refusal=refusal)

    def _make_room(self, plan: Plan) -> None:
        """Do what the plan asks for before there can be a step."""
        outgrown = plan.outgrown
        if outgrown is not None and outgrown.finished is None:
            if outgrown.generated:
                log.warning("request %s has outgrown the memory, and ends here", outgrown.id)
                self._end(outgrown, "length")
            else:
                self._end(outgrown, "error", error="The memory does not suffice for this request.")
        rows = [row for row in plan.preempt if row.finished is None and row in self.scheduler.running]
        if rows:
            self._set_back(rows, plan.cause)

    def _set_back(self, rows: Sequence[Row], cause: Cause, *, keep: bool = True) -> None:
        """These rows begin again, later; `keep`: what they have computed may be trusted. Nothing is under way."""
        if self.reuse is not None:
            for row in rows:
                self.reuse.set_back(row, keep=keep)
        riding = [row for row in rows if row in self._riders]
        if riding and self._runner is not None:  # the sampler must not be disturbed for the sake of others
            self._runner.take_out(riding)
        for row in rows:
            row.restart()
            self.scheduler.set_back(row, cause)

    @property
    def _riders(self) -> Sequence[Row]:
        """Those that are in the common batch."""
        return self._runner.rows if self._runner is not None else ()

    def _relieve(self, error: BaseException) -> None:
        """MLX has run out of memory: give back what can be, and take less from now on."""
        import mlx.core as mx

        self.counters.out_of_memory += 1
        log.warning("out of memory: prefixes are dropped and chunks shrink (%s)", error)
        self.scheduler.pace.squeeze()
        if self.reuse is not None:
            self._attempt(self.reuse.evict)
        if self.sparse is not None:
            self._attempt(partial(self.sparse.give_way, everything=True))
        mx.clear_cache()

    # -- delivering

    def _deliver(self, runner: Runner, launched: Launched) -> None:
        tokens = runner.collect(launched)
        if not launched.kept:
            self._clock_step(launched)
        for token in tokens:
            if token.row.finished is None:
                self._guarded(token.row, partial(self._deliver_token, token))

    def _deliver_vector(self, row: Row) -> None:
        vector = pooling.unit(row.pooled)
        if vector is None:
            self._end(row, "error", error="The model's hidden states are not numbers.")
            return
        delivery.send(row, Delta(finish_reason="stop", vector=vector))
        self._forget(row, "stop")

    def _deliver_token(self, token: Token) -> None:
        row = token.row
        broken = "The model's logits are not numbers." if token.token_id == NOT_A_NUMBER else None
        if row.failure or broken:
            self._end(row, "error", error=row.failure or broken)
            return
        self.counters.generated_tokens += 1
        self.scheduler.policy.served(row, OUTPUT_WEIGHT)
        ended = delivery.word(row, token.token_id, token.logprob, self.ends(row), guessed=token.guessed)
        if ended is not None:
            self._forget(row, ended)

    def ends(self, row: Row) -> frozenset[int]:
        """The tokens that end this row."""
        own = frozenset(row.sampling.stop_token_ids)
        return own if row.sampling.ignore_eos else self.end_ids | own

    def _end(
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

    def _forget(self, row: Row, reason: FinishReason, *, refused: bool = False) -> None:
        row.finished = reason
        if self.reuse is not None:
            self.reuse.end(row, reason)
        row.batch, row.encoded, row.places = None, [], None
        row.head, row.carry, row.pooled, row.scout = None, None, None, None
        self.scheduler.remove(row)
        self._rows.pop(row.id, None)
        if row.started:
            self.rate.left(self._clock())
        if reason in ("stop", "length") and self.scheduler.admission is not None:
            self.scheduler.admission.outputs.learn(len(row.generated))
        if not refused or row.started:  # one that never ran has not ended either
            self.counters.finished[reason] = self.counters.finished.get(reason, 0) + 1

    # -- when things go wrong, and at the end

    def _failed(
        self, runner: Runner, rows: Sequence[Row], error: Exception, cause: BaseException | None = None
    ) -> None:
        """A step of these rows failed. Whoever is to blame is found by trying (engine/suspects); the others go on.

        After a StepLost nothing in the common batch can be trusted: all its rows begin again, from what they have said.
        """
        scheduler = self.scheduler
        lost = isinstance(error, StepLost)
        cause = cause or (error.__cause__ if lost else None) or error
        pressed = is_out_of_memory(cause)
        if not pressed:
            self._count_failure(cause)
        if lost:
            self._set_back([row for row in runner.rows if row in scheduler.running], "fault", keep=False)
            runner.reset()
            unsettled = [row for row in rows if row in scheduler.running]  # they had not joined yet
            self._set_back(unsettled, "fault", keep=False)
        else:
            runner.sampler.forget()  # it may have counted what never came
        if self.failure is not None:
            return
        rows = [row for row in rows if row.finished is None]
        if pressed:
            self._pressed(rows, cause)
            return
        verdict = scheduler.suspects.failed(rows)
        if verdict.culprit is not None:
            self._end(verdict.culprit, "error", error=f"A step of the engine failed: {cause}")
        self._set_back([row for row in verdict.apart if row in scheduler.running], "fault")

    def _pressed(self, rows: Sequence[Row], error: BaseException) -> None:
        """A step of these rows ran out of memory: fewer of them go on, after everything else has given way."""
        self._relieve(error)
        scheduler = self.scheduler
        scheduler.crowd = max(len(rows) // 2, 1)
        while len(scheduler.running) > scheduler.crowd:
            self._set_back([scheduler.policy.least(scheduler.running)], "memory")
        if len(rows) == 1:
            rows[0].troubles += 1
            if rows[0].troubles > STUBBORN:
                self._end(rows[0], "error", error="The memory does not suffice for this request.")

    def _tidy(self, plan: Plan) -> None:
        if plan.decode and self.counters.decode_steps % RECOVERY == 0:
            self.scheduler.recover()
        if plan.decode and self.counters.decode_steps % TIDY_STEPS == 0:
            import mlx.core as mx

            mx.clear_cache()
        if self.account.due(self._clock()):
            self._attempt(self._take_stock)

    def _come_to_rest(self) -> None:
        """Nobody is there: what is left is what idleness costs. What was submitted last must be over, or it would count
        for ever: copies for the prefix cache hold on to all that they are cut from."""
        import mlx.core as mx

        mx.synchronize()
        self._take_stock()

    def _take_stock(self) -> None:
        counters, scheduler = self.counters, self.scheduler
        rows, now = scheduler.running, self._clock()
        self.account.look(scheduler.admission, rows, now, counters.prompt_tokens, counters.generated_tokens)

    def _close(self) -> None:
        """End everything. Whatever fails on the way, the rest is still done: callers wait for their last word."""
        with self._lock:
            self._open = False
        while not self._inbox.empty():  # arrivals that nobody will serve
            word = self._inbox.get()
            if isinstance(word, Row) and word.finished is None:
                self._rows[word.id] = word
            elif isinstance(word, Errand):
                word.refuse(self.failure or "The engine has stopped.")
        for row in list(self._rows.values()):
            self._at_last(partial(self._end, row, "abort" if self.failure is None else "error", error=self.failure))
        self._at_last(self._after_step)
        if self.reuse is not None:
            self._at_last(self.reuse.close)
        if self.sparse is not None:
            self._at_last(self.sparse.clear)
        self._runner = self.reuse = self.sparse = None
        self._setup = _gone
        self._at_last(_free)

    def _at_last(self, work: Callable[[], Any]) -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001  there is nobody left to handle it
            self._crashed(error)

    def stats(self) -> dict[str, Any]:
        """A look at the engine from outside; numbers may be a step old."""
        return overview.engine(self, self._clock())


def _drop_frames(error: BaseException | None) -> None:
    """Of an error that was handled: frames that hold it, and that its traceback holds, would hold all their rows."""
    for _ in range(8):
        if error is None:
            return
        error.__traceback__ = None
        error = error.__cause__ or error.__context__


def _free() -> None:
    import mlx.core as mx

    gc.collect()
    mx.clear_cache()
    mx.clear_streams()  # this thread's: left to the interpreter's end, they abort the process


def _gone() -> Runner:
    raise EngineUnavailable("This engine was stopped; start a new one.")
