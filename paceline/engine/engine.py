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
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from paceline.engine.depth import bucket
from paceline.engine.request import Delta, FinishReason, PromptInfo, RequestId
from paceline.engine.reuse import Reuse
from paceline.engine.row import Row
from paceline.engine.runner import Launched, Runner, StepLost, Token
from paceline.engine.sampler import NOT_A_NUMBER
from paceline.engine.scheduler import Chunk, Plan, Scheduler
from paceline.errors import EngineUnavailable

log = logging.getLogger("paceline")
PATIENCE = 10  # failing steps in a row before the engine gives up
HELD = 0.05  # seconds between two looks when all rows wait for the disk, should its word get lost
NOBODY = RequestId("")  # a word for the engine that is about no request
TIDY_STEPS = 256  # decode steps between two clearings of MLX's pool of freed buffers


@dataclass(slots=True)
class Counters:
    """What the engine has done since it started; written by its thread, read by anyone."""

    steps: int = 0
    decode_steps: int = 0
    prompt_tokens: int = 0
    generated_tokens: int = 0
    finished: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Errand:
    """Work that another thread wants done between two steps."""

    work: Callable[[], Any]
    result: Future[Any]

    def run(self) -> None:
        try:
            self.result.set_result(self.work())
        except BaseException as error:  # noqa: BLE001  for the thread that asked
            self.result.set_exception(error)


class Engine:
    """`setup` runs on the engine's thread and builds the runner there: MLX belongs to one thread, loading included."""

    def __init__(
        self,
        setup: Callable[[], Runner],
        scheduler: Scheduler,
        after_step: Callable[[], None] = lambda: None,
    ) -> None:
        self._setup = setup
        self.scheduler = scheduler
        scheduler.on_enter = self._enter
        self.end_ids: frozenset[int] = frozenset()  # set by `setup`, with the model
        self._after_step = after_step
        self._inbox: queue.SimpleQueue[Row | RequestId | Errand | None] = queue.SimpleQueue()
        self._rows: dict[RequestId, Row] = {}
        self._thread: threading.Thread | None = None
        self._runner: Runner | None = None
        self.reuse: Reuse | None = None  # set by `setup`, where prefixes are cached
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
        finally:
            self._close()

    def _loop(self, runner: Runner) -> None:
        launched: Launched | None = None
        while self._admit(wait=launched is None) and self.failure is None:
            launched = self.step(runner, launched)

    def step(self, runner: Runner, launched: Launched | None) -> Launched | None:
        """Plan, submit, and, while the device works, deliver the step before (`launched`). Returns the new one.

        A round is read first, for where its rows go on is not known before; unless the next one just follows it.
        """
        if launched is not None and launched.unread and not runner.runs_ahead:
            launched = self._attempt(partial(self._read, runner, launched))
        if launched is not None and launched.binding:
            self._finish(runner, launched)
            launched = None
        if self.reuse is not None:
            self._attempt(partial(self.reuse.poll, self.scheduler.running))
        plan = self.scheduler.plan()
        if launched is not None and launched.unread and not runner.follows(launched, plan.decode, plan.depth):
            launched = self._attempt(partial(self._read, runner, launched))
        following: Launched | None = self._attempt(partial(self._launch, runner, plan))
        if launched is not None and launched.unread:
            launched = self._attempt(partial(self._read, runner, launched))
        if launched is not None:
            self._finish(runner, launched)
        self._tidy(plan)
        self._after_step()
        return following

    def _enter(self, row: Row) -> None:
        """A row that comes in begins where the longest known prefix of its prompt ends."""
        if self.reuse is not None:
            self._guarded(row, partial(self.reuse.enter, row))

    def _finish(self, runner: Runner, launched: Launched) -> None:
        if self._attempt(partial(self._deliver, runner, launched)) is None:
            self._fail_step(launched)
        elif launched.sampled is not None:
            self._failing = 0

    def _attempt(self, work: Callable[[], Any]) -> Any:
        """Whatever a step raises must not end the thread; but a step that keeps failing must not go on for ever."""
        try:
            result = work()
        except Exception as error:  # noqa: BLE001
            self._failing += 1
            log.exception("step failed (%d in a row)", self._failing)
            if isinstance(error, StepLost):
                self._fail_step(error.launched)
            if self._failing >= PATIENCE:
                cause = error.__cause__ or error
                self.failure = f"The engine stopped after {PATIENCE} failing steps in a row: {cause}"
            return None
        return result

    def _read(self, runner: Runner, launched: Launched) -> Launched:
        runner.read(launched)
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
        like = like + 1 if kind is not None and kind == before else 0
        if kind is not None and like >= 2:
            self.scheduler.depths.timed(*kind, now - began)
        self._clocked = (now, kind, like)

    def _admit(self, wait: bool) -> bool:
        """Take in arrivals and cancellations; sleep when there is nothing at all to do. False: stop."""
        pause = self._pause() if wait else 0.0
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
                self._rows[word.id] = word
                self.scheduler.add(word)
                if self.reuse is not None:
                    self._guarded(word, partial(self.reuse.arrive, word))
                if word.remaining == 0 and word.limit == 0:  # a prompt of one token, only to be scored
                    self._end(word, "length")
            elif word in self._rows:
                self._end(self._rows[word], "abort")
        return True

    def _pause(self) -> float | None:
        """How long to wait for a word when no step is under way; None: until one comes."""
        if self.scheduler.waiting or any(not row.held for row in self.scheduler.running):
            return 0.0
        pause = None if self.reuse is None else self.reuse.pause
        return HELD if pause is None and self.scheduler.running else pause

    def _launch(self, runner: Runner, plan: Plan) -> Launched | None:
        """Submit a step: decoding first, so that nobody's next token waits for another's prompt."""
        launched = runner.decode(plan.decode, plan.depth)
        if plan.empty:
            self._clocked = (0.0, None, 0)
            return None
        launched.alone = not plan.prefill and plan.encode is None
        for chunk in plan.prefill:
            self._guarded(chunk.row, partial(self._prefill, runner, chunk, launched))
        if plan.encode is not None:
            self._guarded(plan.encode, partial(runner.encode, plan.encode))
        self.counters.steps += 1
        self.counters.decode_steps += bool(plan.decode)
        return launched

    def _prefill(self, runner: Runner, chunk: Chunk, launched: Launched) -> None:
        launched.wait += runner.prefill(chunk)
        self.counters.prompt_tokens += chunk.tokens
        row = chunk.row
        if row.remaining == 0 and row.limit == 0:  # only the prompt's own scores were asked for
            self._end(row, "length")

    def _guarded(self, row: Row, work: Callable[[], None]) -> None:
        """Work of one row alone: its failure is its own."""
        try:
            work()
        except Exception as error:  # noqa: BLE001
            log.warning("request %s failed: %s", row.id, error)
            self._end(row, "error", error=str(error) or type(error).__name__)

    # -- delivering

    def _deliver(self, runner: Runner, launched: Launched) -> bool:
        tokens = runner.collect(launched)
        if not launched.kept:
            self._clock_step(launched)
        for token in tokens:
            if token.row.finished is None:
                self._guarded(token.row, partial(self._deliver_token, token))
        return True

    def _deliver_token(self, token: Token) -> None:
        row, token_id = token.row, token.token_id
        if row.failure is not None:
            self._end(row, "error", error=row.failure)
            return
        if token_id == NOT_A_NUMBER:
            self._end(row, "error", error="The model's logits are not numbers.")
            return
        row.generated.append(token_id)
        row.accepted += token.guessed
        row.rejected -= token.guessed
        if row.grammar is not None:
            row.grammar.accept(token_id)
        self.counters.generated_tokens += 1
        count = len(row.generated)
        may_stop = count > row.sampling.min_tokens
        if may_stop and token_id in self.ends(row):
            row.text.silent(token_id, token.logprob)
            self._end(row, "stop", stop_reason=token_id if token_id in row.sampling.stop_token_ids else None)
            return
        piece = row.text.push(token_id, token.logprob, may_stop=may_stop)
        if piece.stop is not None:
            self._send(row, Delta(piece.text, piece.token_ids, piece.logprobs, "stop", piece.stop))
            self._forget(row, "stop")
        elif count >= row.limit:
            self._send(row, Delta(piece.text, piece.token_ids, piece.logprobs))
            self._end(row, "length")
        elif piece.token_ids or piece.text:
            self._send(row, Delta(piece.text, piece.token_ids, piece.logprobs))

    def ends(self, row: Row) -> frozenset[int]:
        """The tokens that end this row."""
        own = frozenset(row.sampling.stop_token_ids)
        return own if row.sampling.ignore_eos else self.end_ids | own

    def _end(
        self,
        row: Row,
        reason: FinishReason,
        *,
        stop_reason: str | int | None = None,
        error: str | None = None,
    ) -> None:
        """The row is over: what its text still holds goes out with the reason, and it leaves everything."""
        piece = None
        if reason in ("stop", "length"):
            piece = row.text.finish(may_stop=len(row.generated) > row.sampling.min_tokens)
            if piece.stop is not None:
                reason, stop_reason = "stop", piece.stop
        if piece is None:
            self._send(row, Delta(finish_reason=reason, error=error))
        else:
            self._send(row, Delta(piece.text, piece.token_ids, piece.logprobs, reason, stop_reason, error))
        self._forget(row, reason)

    def _send(self, row: Row, delta: Delta) -> None:
        prompt = None
        if not row.greeted:
            row.greeted = True
            scores = row.prompt_logprobs
            known = None if scores is None else tuple(scores)
            prompt = PromptInfo(row.prompt.token_ids, known, row.route.reason, row.cached, row.prompt.tail)
        usage = row.usage if delta.finish_reason is not None else None
        if prompt is not None or usage is not None:
            delta = Delta(
                delta.text,
                delta.token_ids,
                delta.logprobs,
                delta.finish_reason,
                delta.stop_reason,
                delta.error,
                usage,
                prompt,
            )
        row.sink(delta)

    def _forget(self, row: Row, reason: FinishReason) -> None:
        row.finished = reason
        if self.reuse is not None:
            self.reuse.end(row, reason)
        row.batch, row.encoded, row.places = None, [], None
        row.head, row.carry = None, None
        self.scheduler.remove(row)
        self._rows.pop(row.id, None)
        self.counters.finished[reason] = self.counters.finished.get(reason, 0) + 1

    # -- when things go wrong, and at the end

    def _fail_step(self, launched: Launched) -> None:
        """The tokens of a step that broke after it was submitted are lost: its rows cannot go on."""
        for row in launched.rows:
            if row.finished is None:
                self._end(row, "error", error="A step of the engine failed.")

    def _tidy(self, plan: Plan) -> None:
        if plan.decode and self.counters.decode_steps % TIDY_STEPS == 0:
            import mlx.core as mx

            mx.clear_cache()

    def _close(self) -> None:
        import mlx.core as mx

        with self._lock:
            self._open = False
        while not self._inbox.empty():  # arrivals that nobody will serve
            word = self._inbox.get()
            if isinstance(word, Row):
                self._rows[word.id] = word
            elif isinstance(word, Errand):
                word.result.set_exception(EngineUnavailable("The engine has stopped."))
        for row in list(self._rows.values()):
            if self.failure is not None:
                self._end(row, "error", error=self.failure)
            else:
                self._end(row, "abort")
        self._after_step()
        if self.reuse is not None:
            self._attempt(self.reuse.close)
        self._runner = self.reuse = None
        self._setup = _gone
        gc.collect()
        mx.clear_cache()
        mx.clear_streams()  # this thread's: left to the interpreter's end, they abort the process

    def stats(self) -> dict[str, Any]:
        """A look at the engine from outside; numbers may be a step old."""
        running = list(self.scheduler.running)
        return {
            "running": len(running),
            "waiting": len(self.scheduler.waiting),
            "decoding": sum(row.decodes for row in running),
            "prefilling": sum(not row.decodes for row in running),
            "steps": self.counters.steps,
            "decode_steps": self.counters.decode_steps,
            "prompt_tokens": self.counters.prompt_tokens,
            "generated_tokens": self.counters.generated_tokens,
            "finished": dict(self.counters.finished),
            "speculation": self.scheduler.depths.stats(),
            "prefix_cache": None if self.reuse is None else self.reuse.stats(),
            "time": time.time(),
        }


def _gone() -> Runner:
    raise EngineUnavailable("This engine was stopped; start a new one.")
