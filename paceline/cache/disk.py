"""The disk tier of the prefix cache: a bounded store of entries that survives a kill at any moment.

Threads: one owner calls (any thread may call `stats`), one worker does all reading and writing. What the owner removes
is gone for it at once; its files follow. The files themselves say what is stored: an entry exists from the moment its
complete, synced file has its final name, and its modification time is when it was last used (see `disk_files`).

Bound: all files together never exceed `limit_bytes`, at any moment. Room is made before a write, by evicting the
least recently used of the entries that no other entry builds on.
"""

from __future__ import annotations

import errno
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np

from paceline.cache import disk_files as files
from paceline.cache.disk_files import Arrays, DiskError, Entry, Hook
from paceline.cache.disk_index import Index, Known
from paceline.stats import DiskCacheStats

logger = logging.getLogger("paceline.cache")

QUEUE_LIMIT: Final = 1 << 30  # bytes that may wait to be written
WARNING_INTERVAL: Final = 60.0  # seconds between two warnings


@dataclass(frozen=True, slots=True)
class Written:
    """A put has ended. Not ok: an error, no room, its parent gone, or removed meanwhile; it leaves nothing behind."""

    id: str
    ok: bool


@dataclass(frozen=True, slots=True, eq=False)
class Read:
    """A get has ended. None: the entry is missing, or was damaged and is now removed with all that built on it."""

    id: str
    arrays: Arrays | None


@dataclass(frozen=True, slots=True)
class Evicted:
    """Entries that the owner did not name: evicted for room, or built on an entry that was removed or damaged."""

    ids: list[str]


Result = Written | Read | Evicted


@dataclass(slots=True, eq=False)
class _Put:
    entry: Entry
    arrays: Arrays
    nbytes: int
    cancelled: bool = False  # read by the worker when it starts, and again when the file has its name


class Disk:
    """A store in `folder/fingerprint/`. It is opened once; before `open` and after `close` it holds nothing."""

    def __init__(
        self,
        folder: Path,
        fingerprint: str,
        limit_bytes: int,
        model: str = "",
        *,
        on_done: Callable[[], None] | None = None,
        pending_limit: int = QUEUE_LIMIT,
    ) -> None:
        """`on_done` is called by the worker whenever `done` has something new."""
        if not files.is_fingerprint(fingerprint):
            raise ValueError(f"{fingerprint!r} cannot name a folder")
        self.folder = folder / fingerprint
        self.limit_bytes = limit_bytes
        self.pending_bytes = 0
        self.stage: Hook = lambda stage: None  # called at each point of a write, by the thread that writes
        self._model = model[:200]
        self._on_done = on_done
        self._pending_limit = pending_limit
        self._lock_file: int | None = None
        self._thread: threading.Thread | None = None
        self._warned = -WARNING_INTERVAL

        # Guarded by `_changed`, which is never held during I/O.
        self._changed = threading.Condition()
        self._index = Index()
        self._leaving: dict[str, int] = {}  # bytes of files that are to be deleted
        self._stuck: dict[Path, int] = {}  # bytes of files that could not be deleted
        self._stored = 0  # bytes of all of these
        self._touched: set[str] = set()  # entries whose file does not have their last use yet
        self._gets: deque[str] = deque()
        self._puts: deque[_Put] = deque()
        self._current: _Put | str | Callable[[], None] | None = None  # a put, the id of a get, or another job
        self._results: list[Result] = []
        self._running = False
        self._writes = 0
        self._write_errors = 0

    # -- the owner's side

    def open(self) -> list[Entry]:
        """Lock the folder, clean it up, and start the worker. Returns what is stored, parents before children.

        Reads the heads of files only. Whatever is damaged, incomplete, or builds on something missing is deleted.
        Raises DiskError when the folder cannot be used: not writable, or another server has it.
        """
        if self._thread is not None:
            raise RuntimeError("a Disk is opened once")
        try:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)  # prompts are in there
            self._lock_file = files.take_lock(self.folder, wait=files.LOCK_TIMEOUT)
            if self._lock_file is None:
                raise DiskError(
                    f"{self.folder} is in use by another server. Give this one a cache folder of its own, "
                    "or stop the other one."
                )
            if not os.access(self.folder, os.W_OK | os.X_OK):
                raise PermissionError(errno.EACCES, "Permission denied")
            entries = self._recover()
        except OSError as error:
            self._release()
            raise DiskError(
                f"The cache folder {self.folder} cannot be used: {error.strerror or error}. "
                "Choose a folder that this user can write to."
            ) from error
        self._running = True
        self._thread = threading.Thread(target=self._main, name="paceline-disk", daemon=True)
        self._thread.start()
        return entries

    def accepts(self, nbytes: int) -> bool:
        """Is there room in the queue for a put of this size? An empty queue takes any."""
        return not self.pending_bytes or self.pending_bytes + nbytes <= self._pending_limit

    def put(self, entry: Entry, arrays: Arrays) -> None:
        """Store an entry later; `Written` reports the outcome. Never blocks. The arrays must not change any more.

        A put that the queue does not accept is not ok. A put whose id is stored already is ok, and does nothing.
        """
        files.check_arrays(arrays)
        if not files.is_id(entry.id):
            raise ValueError(f"{entry.id!r} is not a hex digest")
        if not 0 <= entry.start <= entry.stop:
            raise ValueError(f"a segment that starts at {entry.start} does not fit a prefix of {entry.stop} tokens")
        nbytes = sum(array.nbytes for array, _ in arrays)
        put = _Put(replace(entry, key=np.asarray(entry.key, np.int64), last_used=time.time()), arrays, nbytes)
        with self._changed:
            if not self._running:
                self._results.append(Written(entry.id, False))
                return
            if not self.accepts(nbytes):
                put = _Put(entry, [], 0, cancelled=True)
            self.pending_bytes += put.nbytes
            self._puts.append(put)
            self._changed.notify_all()

    def get(self, id: str) -> None:
        """Read an entry's arrays, ahead of all puts that wait; `Read` brings them.

        An entry whose put is still waiting can be read already. Each array has the numpy type of its type name.
        """
        with self._changed:
            if not self._running:
                self._results.append(Read(id, None))
                return
            self._gets.append(id)
            self._changed.notify_all()

    def touch(self, id: str) -> None:
        """The entry was used now. The worker writes that to the file's time; a kill may forget the latest uses."""
        with self._changed:
            known = self._index.get(id)
            if known is None:
                return
            known.last_used = time.time()
            self._touched.add(id)
            self._changed.notify_all()

    def remove(self, id: str) -> None:
        """Forget an entry, also one that waits to be written, and all that build on it."""
        with self._changed:
            self._cancel(put for put in self._waiting() if put.entry.id == id)
            gone = self._detach([id])
            if gone[1:]:
                self._results.append(Evicted(gone[1:]))
            self._changed.notify_all()

    def clear(self) -> tuple[int, int]:
        """Forget all entries, also those that wait to be written. Returns how many were stored, and their bytes."""
        with self._changed:
            self._cancel(self._waiting())
            count, size = len(self._index), sum(known.nbytes for known in self._index.values())
            self._detach(list(self._index))
            self._changed.notify_all()
        return count, size

    def give_up_writes(self) -> list[str]:
        """Drop the puts that have not begun, and their arrays: the memory is needed. Returns their ids; no `Written`
        follows for them."""
        with self._changed:
            given_up = list(self._puts)
            self._puts.clear()
            self.pending_bytes -= sum(put.nbytes for put in given_up)
            self._changed.notify_all()
        return [put.entry.id for put in given_up]

    def done(self) -> list[Result]:
        """What has finished since the last call, in order. Never blocks."""
        with self._changed:
            results, self._results = self._results, []
        return results

    def flush(self, timeout: float = 30.0) -> bool:
        """Wait until the worker has nothing to do. False: it took too long."""
        with self._changed:
            return self._changed.wait_for(self._is_idle, timeout)

    def close(self, timeout: float = 30.0) -> None:
        """Finish what waits, as far as time allows; stop the worker; release the lock. A second call does nothing."""
        if self._thread is None:
            return
        deadline = time.monotonic() + timeout
        self.flush(timeout)
        with self._changed:
            self._running = False
            self._cancel(self._waiting())
            self._changed.notify_all()
        # The worker releases the lock itself: while it writes, no other server may use the folder.
        self._thread.join(max(deadline - time.monotonic(), 1.0))

    def stats(self) -> DiskCacheStats:
        """For any thread."""
        with self._changed:
            return DiskCacheStats(
                folder=str(self.folder),
                bytes=self._stored,
                limit_bytes=self.limit_bytes,
                entries=len(self._index),
                writes=self._writes,
                write_errors=self._write_errors,
                pending=len(self._gets) + len(self._puts) + isinstance(self._current, _Put | str),
            )

    # -- what is stored; all of these with `_changed` held

    def _is_idle(self) -> bool:
        if self._thread is None or not self._thread.is_alive():
            return True
        return not (self._gets or self._puts or self._leaving or self._touched or self._current)

    def _waiting(self) -> list[_Put]:
        return [*self._puts, *([self._current] if isinstance(self._current, _Put) else [])]

    def _cancel(self, puts: Iterable[_Put]) -> None:
        for put in puts:
            put.cancelled = True

    def _detach(self, ids: list[str]) -> list[str]:
        """Take entries and all that build on them out of the index; their files are deleted later."""
        gone = self._index.with_descendants(ids)
        for id in gone:
            self._leaving[id] = self._index.pop(id).nbytes
            self._touched.discard(id)
        return gone

    # -- the worker's side

    def _main(self) -> None:
        try:
            while (job := self._next()) is not None:
                if isinstance(job, _Put):
                    self._do_put(job)
                elif isinstance(job, str):
                    self._do_get(job)
                else:
                    job()
                self._tell()
        finally:
            self._release()
            with self._changed:
                self._running = False
                self._results += [Read(id, None) for id in self._gets]
                self._results += [Written(put.entry.id, False) for put in self._puts]
                for store in (self._index, self._leaving, self._touched, self._gets, self._puts):
                    store.clear()
                self._stored = sum(self._stuck.values())
                self.pending_bytes, self._current = 0, None
                self._changed.notify_all()

    def _next(self) -> _Put | str | Callable[[], None] | None:
        """Wait for the next job: a read comes first, because a request waits for it; a write comes last."""
        with self._changed:
            while True:
                self._current = None
                if self._gets:
                    self._current = self._gets.popleft()
                elif self._leaving:
                    self._current = self._sweep
                elif self._touched:
                    self._current = self._write_touches
                elif self._puts:
                    self._current = self._puts.popleft()
                elif self._running:
                    self._changed.notify_all()  # for `flush`
                    self._changed.wait()
                    continue
                return self._current

    def _tell(self) -> None:
        if self._on_done is None or not self._results:
            return
        try:
            self._on_done()
        except Exception:
            logger.exception("the disk cache's owner could not be told")

    def _do_put(self, put: _Put) -> None:
        try:
            ok = self._write(put)
        except Exception as error:
            ok = False
            self._write_errors += 1
            self._warn(error)
        with self._changed:
            self.pending_bytes -= put.nbytes
            self._results.append(Written(put.entry.id, ok))

    def _write(self, put: _Put) -> bool:
        entry = put.entry
        with self._changed:
            if put.cancelled:
                return False
            if (known := self._index.get(entry.id)) is not None:
                known.last_used = entry.last_used
                return True
            if entry.parent is not None and entry.parent not in self._index:
                return False
        encoded = files.Encoded(entry.key, put.arrays, files.metadata_of(entry, self.folder.name, self._model))
        if not self._make_room(encoded.nbytes, entry.parent):
            return False
        path = self._path(entry.id)
        temporary = path.with_name(f"{entry.id}{files.TEMPORARY}{os.getpid()}")
        try:
            encoded.write(temporary, entry.last_used, self.stage)
            os.replace(temporary, path)
            files.sync_folder(self.folder)
            self.stage("renamed")
            with self._changed:
                self._stored -= self._stuck.pop(path, 0)
                wanted = not put.cancelled and (entry.parent is None or entry.parent in self._index)
                if wanted:
                    self._index[entry.id] = Known(entry.parent, encoded.nbytes, entry.last_used)
                    self._stored += encoded.nbytes
            if not wanted:
                self._delete(path)
                return False
            self._writes += 1
            self.stage("stored")
        except BaseException:
            with self._changed:
                if self._index.pop(entry.id, None) is not None:
                    self._stored -= encoded.nbytes
            self._delete(temporary)
            self._delete(path)
            raise
        return True

    def _make_room(self, nbytes: int, parent: str | None) -> bool:
        """Evict until a file of this size fits. Evicts nothing if that cannot be reached."""
        while True:
            with self._changed:
                victims = self._index.victims(self._stored + nbytes - self.limit_bytes, parent)
                if victims is None:
                    return False
                if victims:
                    self._detach(victims)
                    self._results.append(Evicted(victims))
                stuck = len(self._stuck)
            if not self._leaving:
                return True
            self._sweep()
            if len(self._stuck) > stuck:  # evicting more would only forget more
                raise OSError(errno.EIO, "old entries cannot be deleted")

    def _do_get(self, id: str) -> None:
        with self._changed:
            stored = id in self._index
            waiting = next((put for put in self._puts if put.entry.id == id and not put.cancelled), None)
        arrays: Arrays | None = None
        gone: list[str] = []
        if waiting is not None:
            arrays = [(array.view(files.DTYPES[name]), name) for array, name in waiting.arrays]
        elif stored:
            try:
                arrays = files.read_arrays(self._path(id))
            except Exception as error:
                logger.warning("a cached prefix is dropped: %s: %s", self._path(id).name, error)
                with self._changed:
                    gone = self._detach([id])
                self._sweep()
        with self._changed:
            self._results.append(Read(id, arrays))
            if gone[1:]:
                self._results.append(Evicted(gone[1:]))

    def _sweep(self) -> None:
        """Delete the files of entries that are no longer in the index."""
        with self._changed:
            leaving = dict(self._leaving)
        for id in leaving:
            self._delete(self._path(id))
        with self._changed:
            for id in leaving:
                self._stored -= self._leaving.pop(id)

    def _write_touches(self) -> None:
        with self._changed:
            touched = [(id, self._index[id].last_used) for id in self._touched if id in self._index]
            self._touched.clear()
        for id, last_used in touched:
            try:
                os.utime(self._path(id), (last_used, last_used))
            except OSError as error:
                self._warn(error)

    def _delete(self, path: Path) -> None:
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            self._warn(error)
            nbytes = path.lstat().st_size if os.path.lexists(path) else 0
            with self._changed:
                self._stored += nbytes - self._stuck.get(path, 0)
                self._stuck[path] = nbytes

    def _path(self, id: str) -> Path:
        return self.folder / (id + files.SUFFIX)

    def _warn(self, error: Exception) -> None:
        now = time.monotonic()
        if now - self._warned >= WARNING_INTERVAL:
            self._warned = now
            text = "the prefix cache cannot write to %s: %s (said once a minute at most)"
            logger.warning(text, self.folder, error, exc_info=None if isinstance(error, OSError) else error)

    def _release(self) -> None:
        if self._lock_file is not None:
            os.close(self._lock_file)
            self._lock_file = None

    # -- opening

    def _recover(self) -> list[Entry]:
        found = files.survey(self.folder)
        for path in (*found.leftovers, *found.useless):
            self._delete(path)
        if found.useless:
            logger.warning("%d damaged prefixes were deleted from %s", len(found.useless), self.folder)
        self._index.update((entry.id, Known(entry.parent, entry.nbytes, entry.last_used)) for entry in found.entries)
        self._stored += sum(entry.nbytes for entry in found.entries)
        if not self._make_room(0, None):
            self._detach(list(self._index))
            self._sweep()
        self._results.clear()
        return [entry for entry in found.entries if entry.id in self._index]
