"""Which models are loaded, loading or unloaded, and why. Used on the event loop only.

A model is loaded for the request that needs it. It leaves when it has been idle for long enough, or when another needs
the memory and it is the one that was used least recently. A model that answers never leaves, and a pinned one never
makes room.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import tempfile
import time
from collections.abc import AsyncIterator, Coroutine, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from paceline.errors import EngineUnavailable, LoadError, QueueFull, QueueTimeout, Refused
from paceline.front.catalog import Catalog, Entry
from paceline.front.machine import Machine
from paceline.front.worker_process import COMMAND, WorkerProcess, ended_by
from paceline.models.estimate import Estimate, estimate
from paceline.settings import Settings

State = Literal["unloaded", "loading", "resident", "unloading", "failed"]
FEW = 3  # models of a folder for which memory is left, beside those that were given
MANY = 64  # models of a folder: of more, only those that were asked for are looked at
RETRY_SECONDS = 10  # for those who find no memory
LOAD_BACKOFF = 5.0  # seconds after a load that failed; doubled with every further one
MAX_BACKOFF = 60.0
LONGEST_FOLDER = 70  # characters: the path of a socket has at most 103 on macOS
STABLE_SECONDS = 60.0  # a process that has run for so long has not crashed at its start

logger = logging.getLogger("paceline.front")


class NoMemory(Refused):
    cause = "no_memory_for_model"


class Unavailable(Refused):
    """The model could not be loaded a moment ago, or crashes again and again."""

    cause = "model_unavailable"


@dataclass(slots=True, eq=False)
class Slot:
    """One model: its process, if it has one, and how it came to be as it is."""

    entry: Entry
    state: State = "unloaded"
    why: str = "nobody has asked for it yet"
    since: float = 0.0  # wall clock
    worker: WorkerProcess | None = None
    active: int = 0  # requests that use it or wait for it
    waiting: int = 0  # of those, which wait until it is loaded
    last_used: float = 0.0  # monotonic
    started_at: float = 0.0  # monotonic
    loaded_at: float = 0.0  # monotonic
    estimate: Estimate | None = None
    granted: int = 0  # bytes of memory that its process may use
    loads: int = 0
    crashes: int = 0
    failures: int = 0  # in a row
    retry_at: float = 0.0  # monotonic
    unloading: asyncio.Task[bool] | None = None

    @property
    def name(self) -> str:
        return self.entry.name

    @property
    def evictable(self) -> bool:
        return self.state == "resident" and not self.active and not self.entry.pinned

    def become(self, state: State, why: str) -> None:
        self.state, self.why, self.since = state, why, time.time()
        level = logging.WARNING if state == "failed" else logging.INFO
        logger.log(level, "%s: %s (%s)", self.name, state, why)


class Pool:
    def __init__(
        self, catalog: Catalog, settings: Settings, machine: Machine, command: Sequence[str] = COMMAND
    ) -> None:
        self.catalog = catalog
        self.settings = settings
        self.machine = machine
        self._command = command
        self._slots: dict[str, Slot] = {}
        self._placing = asyncio.Lock()  # one at a time looks for memory
        self._folder: tempfile.TemporaryDirectory[str] | None = None  # of sockets; only this user can look into it
        self._started = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self.closed = False

    # -- what there is

    def slots(self) -> list[Slot]:
        """All models, also those that have left the folders but are still loaded."""
        named = [self.slot(entry) for entry in self.catalog.entries()]
        return named + [slot for slot in self._slots.values() if slot not in named and slot.worker is not None]

    def slot(self, entry: Entry) -> Slot:
        slot = self._slots.setdefault(entry.name, Slot(entry, since=time.time()))
        if slot.entry is not entry and slot.worker is None:  # another model of this name is in the folder now
            slot.entry, slot.estimate = entry, None
        return slot

    def resident(self) -> list[Slot]:
        return [slot for slot in self._slots.values() if slot.state == "resident"]

    @property
    def held(self) -> int:
        return sum(slot.granted for slot in self._slots.values() if slot.worker is not None)

    async def refresh(self) -> None:
        """Notice models that came or left."""
        await asyncio.to_thread(self.catalog.scan)

    def expires_in(self, slot: Slot) -> float | None:
        """Seconds until it is unloaded if nobody uses it; None: it stays until its memory is needed."""
        if self.settings.idle_unload is None or slot.entry.pinned:
            return None
        used = time.monotonic() if slot.active else max(slot.last_used, slot.loaded_at)
        return max(used + self.settings.idle_unload - time.monotonic(), 0.0)

    # -- lifecycle

    async def start(self) -> None:
        """Load the pinned models. Raises what prevents that."""
        self._run(self._unload_idle())
        pinned = [self.slot(entry) for entry in self.catalog.entries() if entry.pinned]
        for slot in pinned:
            await self._ensure(slot, "pinned")
        await asyncio.gather(*(self._loaded(slot) for slot in pinned))

    async def stop(self) -> None:
        """End all processes: what runs in them gets an error. Idempotent."""
        self.closed = True
        for task in self._tasks:
            task.cancel()
        workers = [slot.worker for slot in self._slots.values() if slot.worker is not None]
        await asyncio.gather(*(worker.stop() for worker in workers), *self._tasks, return_exceptions=True)
        if self._folder is not None:
            self._folder.cleanup()

    # -- using a model

    @contextlib.asynccontextmanager
    async def using(
        self, slot: Slot, why: str = "a request", *, may_load: bool = False
    ) -> AsyncIterator[WorkerProcess]:
        """The model's process; meanwhile the model does not leave. `may_load`: do not wait until it is loaded."""
        slot.active += 1
        try:
            worker = await self._ensure(slot, why)
            if not may_load:
                worker = await self._loaded(slot)
            yield worker
        finally:
            slot.active -= 1
            slot.last_used = time.monotonic()

    async def load(self, slot: Slot) -> None:
        async with self.using(slot, "asked for by an administrator"):
            pass

    async def unload(self, slot: Slot, why: str) -> bool:
        """False: it answers, or something runs in it."""
        if slot.unloading is not None:
            return await asyncio.shield(slot.unloading)
        if slot.state != "resident" or slot.active or slot.worker is None:
            return slot.worker is None
        slot.unloading = asyncio.create_task(self._unload(slot, slot.worker, why))
        return await asyncio.shield(slot.unloading)

    async def _unload(self, slot: Slot, worker: WorkerProcess, why: str) -> bool:
        slot.become("unloading", why)
        try:
            left = await worker.leave()
            if not left and not worker.ended.done():
                slot.last_used = time.monotonic()
                slot.become("resident", "something runs in it")
            while left and slot.worker is worker and not self.closed:
                await asyncio.sleep(0)  # its end is being noted
            return left
        finally:
            slot.unloading = None

    async def _ensure(self, slot: Slot, why: str) -> WorkerProcess:
        """The model's process, which may still load."""
        while True:
            if self.closed:
                raise EngineUnavailable("The server is shutting down.")
            if slot.unloading is not None:
                await asyncio.shield(slot.unloading)
            elif slot.worker is not None and not slot.worker.ended.done() and not slot.worker.stopping:
                return slot.worker
            elif slot.worker is not None:
                await asyncio.wait([slot.worker.ended])
                await asyncio.sleep(0)  # its end is being noted
            else:
                self._check_backoff(slot)
                async with self._placing:
                    if slot.worker is None:
                        await self._place(slot, why)

    def _check_backoff(self, slot: Slot) -> None:
        seconds = slot.retry_at - time.monotonic()
        if seconds > 0:
            raise Unavailable(f"The model {slot.name!r} is not available: {slot.why}.", max(1, round(seconds + 0.5)))

    async def _loaded(self, slot: Slot) -> WorkerProcess:
        worker = slot.worker
        if worker is None:
            raise EngineUnavailable(f"The model {slot.name!r} is not available: {slot.why}.")
        if not worker.loaded.done():
            if slot.waiting >= max(self.settings.max_queue, 1):
                raise QueueFull(f"{slot.waiting} requests wait for the model {slot.name!r} to be loaded already.")
            slot.waiting += 1
            try:
                async with asyncio.timeout(self.settings.queue_timeout):
                    await asyncio.wait([worker.loaded])
            except TimeoutError:
                raise QueueTimeout(f"The model {slot.name!r} is still loading.", RETRY_SECONDS) from None
            finally:
                slot.waiting -= 1
        if (failure := worker.loaded.exception()) is not None:
            raise Unavailable(f"The model {slot.name!r} cannot be loaded: {failure}", round(LOAD_BACKOFF))
        self._note_loaded(slot, worker)
        return worker

    # -- memory

    async def _place(self, slot: Slot, why: str) -> None:
        """Find memory for a model, and start its process."""
        need = await self._need(slot)
        memory = self.machine.memory
        if need > memory:
            raise NoMemory(
                f"The model {slot.name!r} needs about {_gb(need)}, and all models together may use {_gb(memory)} "
                f"({self.machine.source}).",
                RETRY_SECONDS,
            )
        await self._make_room(slot, need)
        slot.granted = self._grant(slot, need)
        limits = {} if slot.entry.settings.memory_limit_gb else {"memory_limit_gb": slot.granted / 1e9}
        slot.become("loading", f"{why}; about {_gb(need)}")
        settings = Settings.model_validate({**slot.entry.settings.given, **limits})
        try:
            slot.worker = await WorkerProcess.start(settings, self._socket(), slot.name, self._command)
        except OSError as error:  # no more processes, files, memory
            slot.granted, slot.retry_at = 0, time.monotonic() + LOAD_BACKOFF
            slot.become("failed", f"its process cannot be started: {error.strerror or error}")
            raise Unavailable(f"The model {slot.name!r} is not available: {slot.why}.", round(LOAD_BACKOFF)) from error
        slot.loads += 1
        slot.started_at = time.monotonic()
        self._run(self._follow(slot, slot.worker))

    def _socket(self) -> Path:
        """A path that no process had before."""
        if self._folder is None:
            temporary = tempfile.gettempdir()
            self._folder = tempfile.TemporaryDirectory(
                prefix="paceline-", dir=temporary if len(temporary) <= LONGEST_FOLDER else "/tmp"
            )
        self._started += 1
        return Path(self._folder.name) / f"{self._started}.sock"

    async def _make_room(self, slot: Slot, need: int) -> None:
        """Unload what was used least recently, until there is memory. Raises NoMemory if all of it would not do."""
        busy: set[Slot] = set()
        while (missing := need - (self.machine.memory - self.held)) > 0:
            idle = [other for other in self.resident() if other.evictable and other not in busy]
            idle.sort(key=lambda other: other.last_used)
            if sum(other.granted for other in idle) < missing:
                raise NoMemory(self._who_holds(slot, need), RETRY_SECONDS)
            if not await self.unload(idle[0], f"makes room for {slot.name}"):
                busy.add(idle[0])

    def _who_holds(self, slot: Slot, need: int) -> str:
        holders = []
        for other in self._slots.values():
            if other.worker is not None:
                what = f"answers {other.active}" if other.active else "pinned" if other.entry.pinned else other.state
                holders.append(f"{other.name!r} {_gb(other.granted)} ({what})")
        free = _gb(max(self.machine.memory - self.held, 0))
        return (
            f"The model {slot.name!r} needs about {_gb(need)}, and {free} are free: {', '.join(holders)} hold the rest."
        )

    def _grant(self, slot: Slot, need: int) -> int:
        """How much of the free memory the model's process may use: what it needs, and its share of what is left when
        those that may be loaded beside it have what they need."""
        if slot.entry.settings.memory_limit_gb is not None:
            return need
        left = self.machine.memory - self.held - need
        needs, found = need, 0
        for other in sorted(self._known(), key=lambda other: (-other.last_used, not other.entry.given, _least(other))):
            if other is slot or other.worker is not None or not 0 < _least(other) <= left:
                continue
            if other.entry.given or found < FEW:
                left, needs = left - _least(other), needs + _least(other)
                found += not other.entry.given
        return need + max(left, 0) * need // needs

    def _known(self) -> list[Slot]:
        """Models whose size counts when memory is shared: all, unless there are very many."""
        entries = self.catalog.entries()
        return [
            self.slot(entry) for entry in entries if entry.given or len(entries) <= MANY or entry.name in self._slots
        ]

    async def _need(self, slot: Slot) -> int:
        """Bytes without which it is not loaded. Before it is downloaded they are not known: then half of all."""
        for other in self._known():
            await self._estimated(other)
        await self._estimated(slot)
        if slot.entry.settings.memory_limit_gb is not None:
            return int(slot.entry.settings.memory_limit_gb * 1e9)
        return self.machine.memory // 2 if slot.estimate is None else slot.estimate.least

    async def _estimated(self, slot: Slot) -> None:
        if slot.estimate is None:
            slot.estimate = await asyncio.to_thread(estimated, slot.entry, self.machine)

    # -- processes

    async def _follow(self, slot: Slot, worker: WorkerProcess) -> None:
        """From the start of a process to its end."""
        await asyncio.wait([worker.loaded])
        self._note_loaded(slot, worker)
        code = await asyncio.shield(worker.ended)
        slot.worker, slot.granted = None, 0
        if worker.stopping or self.closed:
            why = "the server ends" if self.closed else "it was asked to, and was slow to answer"
            slot.become("unloaded", slot.why if slot.state == "unloading" else why)
            return
        loaded = worker.loaded.exception() is None
        if loaded and time.monotonic() - slot.loaded_at > STABLE_SECONDS:
            slot.failures = 0
        slot.failures += 1
        slot.crashes += loaded or worker.failure is None  # or it said why it cannot be loaded
        first = 0.0 if loaded else LOAD_BACKOFF
        wait = min(first if slot.failures == 1 else max(first, 1.0) * 2 ** (slot.failures - 2), MAX_BACKOFF)
        slot.retry_at = time.monotonic() + wait
        slot.become("failed", worker.failure or ended_by(code))

    def _note_loaded(self, slot: Slot, worker: WorkerProcess) -> None:
        """By the first of those who waited for it."""
        if slot.state == "loading" and slot.worker is worker and worker.loaded.exception() is None:
            slot.loaded_at = time.monotonic()
            slot.become("resident", f"loaded in {slot.loaded_at - slot.started_at:.1f} s")

    async def _unload_idle(self) -> None:
        seconds = self.settings.idle_unload
        while seconds is not None:
            await asyncio.sleep(min(max(seconds / 10, 0.05), 5.0))
            for slot in self.resident():
                if slot.evictable and self.expires_in(slot) == 0:
                    await self.unload(slot, f"idle for {seconds:g} s")

    def _run(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def estimated(entry: Entry, machine: Machine) -> Estimate | None:
    """None: its files are not here yet, or are damaged, which loading it will tell."""
    folder = entry.folder()
    try:
        own = entry.settings.memory_limit_gb
        memory = machine.memory if own is None else int(own * 1e9)
        if folder is None:
            return None
        settings = entry.settings
        return estimate(
            folder, cpu=machine.kind == "cpu", dtype=settings.dtype, memory=memory, kv=settings.kv_quantization
        )
    except LoadError:
        return None


def _least(slot: Slot) -> int:
    own = slot.entry.settings.memory_limit_gb
    if own is not None:
        return int(own * 1e9)
    return 0 if slot.estimate is None else slot.estimate.least


def _gb(size: int) -> str:
    return f"{size / 1e9:.2f} GB"
