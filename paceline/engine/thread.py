"""The one thread that owns MLX: it builds the engine core, steps it, and runs calls from other threads.

Other threads use `submit`, `abort`, `call` and `stop`, which only put a message into the inbox; results reach them
through each sequence's sink, which is called on the engine's thread.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from paceline.engine import delivery
from paceline.engine.core import EngineCore
from paceline.engine.sequence import Sequence
from paceline.errors import EngineUnavailable
from paceline.types import Delta, RequestId

ABANDON_SECONDS = 0.5  # for a thread to end by itself
NO_REQUEST = RequestId("")  # a message that only wakes the engine


@dataclass(frozen=True, slots=True)
class EngineCall:
    """Work that another thread wants done between two steps."""

    work: Callable[[], Any]
    result: Future[Any]

    def run(self) -> None:
        if not self.result.set_running_or_notify_cancel():  # from here on it cannot be cancelled
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


class EngineThread:
    """`build` runs on the engine's thread, with a function that wakes it: MLX belongs to one thread, loading
    included."""

    def __init__(
        self, build: Callable[[Callable[[], None]], EngineCore], *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._build: Callable[[Callable[[], None]], EngineCore] = build
        self._clock = clock
        self._inbox: queue.SimpleQueue[Sequence | RequestId | EngineCall | None] = queue.SimpleQueue()
        self._lock = threading.Lock()  # between a submit and the engine's last look into its inbox
        self._open = False
        self._thread: threading.Thread | None = None
        self._core: EngineCore | None = None

    # -- for other threads

    @property
    def core(self) -> EngineCore:
        if self._core is None:
            raise EngineUnavailable("The engine is not running.")
        return self._core

    @property
    def failure(self) -> str | None:
        """Why the engine gave up, if it did."""
        return None if self._core is None else self._core.failure

    def start(self) -> None:
        """Returns when the engine is ready to step; raises what `build` raised."""
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

    def submit(self, seq: Sequence) -> None:
        seq.queue.arrived = self._clock()
        with self._lock:
            self._check_open()
            self._inbox.put(seq)

    def abort(self, request_id: RequestId) -> None:
        self._inbox.put(request_id)

    def wake(self) -> None:
        """Something has changed that the engine may be waiting for."""
        self._inbox.put(NO_REQUEST)

    def call(self, work: Callable[[], Any]) -> Future[Any]:
        """Run `work` on the engine's thread, between two steps."""
        with self._lock:
            self._check_open()
            call = EngineCall(work, Future())
            self._inbox.put(call)
        return call.result

    def abandon(self, reason: str) -> None:
        """The engine cannot go on, and its thread may never come back: its clients hear why in any case. On any other
        thread."""
        core, thread = self._core, self._thread
        if core is None or thread is None:
            return
        core.failure = core.failure or reason
        self.wake()
        thread.join(ABANDON_SECONDS)
        if thread.is_alive():
            self._thread = None  # nobody waits for it
            self._refuse_messages(core)
            for seq in list(core.seqs.values()):
                if seq.finished is None:
                    delivery.send(seq, Delta(finish_reason="error", error=core.failure))
            core.on_step()

    def _check_open(self) -> None:
        if not self._open:
            raise EngineUnavailable(self.failure or "The engine is not running.")

    # -- the engine's thread

    def _main(self, started: queue.SimpleQueue[BaseException | None]) -> None:
        try:
            core = self._core = self._build(self.wake)
            self._build = _built  # what builds an engine may hold parts of the model
        except BaseException as error:  # noqa: BLE001  handed to the thread that asked
            started.put(error)
            return
        with self._lock:
            self._open = True
        started.put(None)
        try:
            while core.failure is None and self._drain_inbox(core):
                core.step()
        except BaseException as error:  # noqa: BLE001  a thread that ends silently would leave all clients waiting
            core.fail(error)
        # Whatever fails on the way, the rest is still done: callers wait for their last delta.
        self._refuse_messages(core)
        core.close()

    def _drain_inbox(self, core: EngineCore) -> bool:
        """Handle messages; sleep while there is nothing to do. False: stop."""
        pause = core.pause()
        if pause is None:
            core.on_idle()
        while pause != 0 or not self._inbox.empty():
            try:
                message = self._inbox.get(timeout=pause)
            except queue.Empty:
                return True
            pause = 0.0
            if message is None:
                return False
            if isinstance(message, EngineCall):
                message.run()
            elif isinstance(message, Sequence):
                core.add(message)
            else:
                core.abort(message)
        return True

    def _refuse_messages(self, core: EngineCore) -> None:
        with self._lock:
            self._open = False
        while not self._inbox.empty():  # requests that will not be served
            message = self._inbox.get()
            if isinstance(message, Sequence) and message.finished is None:
                core.seqs[message.id] = message
            elif isinstance(message, EngineCall):
                message.refuse(core.failure or "The engine has stopped.")


def _built(wake: Callable[[], None]) -> EngineCore:
    raise EngineUnavailable("This engine was started before; make a new one.")
