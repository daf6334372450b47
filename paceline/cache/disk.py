"""The disk tier of the prefix cache: a bounded store of entries that survives a kill at any moment.

Threads: one owner calls (`stats` alone may be called by anybody), one worker does all reading and writing. What the
owner removes is gone for it at once; its files follow. The truth about what is stored is the files themselves:
an entry exists from the moment its complete, synced file has its final name (see `disk_files`).

Bound: all files together never exceed `limit_bytes`, at any moment. Room is made before a write, by evicting the
least recently used of the entries that no other entry builds on.
"""

from __future__ import annotations

import contextlib
import errno
import heapq
import logging
import os
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from paceline.cache import disk_files as files
from paceline.cache.disk_files import PATIENCE, Arrays, DiskError, Entry, Hook
from paceline.cache.disk_summary import Summary, clear, summaries
from paceline.stats import DiskCacheStats

__all__ = ["Arrays", "Disk", "DiskError", "Entry", "Evicted", "Read", "Result", "Written"]
__all__ += ["Summary", "clear", "summaries"]  # for the command line

logger = logging.getLogger("paceline.cache")

PENDING: Final = 1 << 30  # bytes that may wait to be written
TOUCH_DELAY: Final = 5.0  # seconds until a use is journaled: many share a write
QUIET: Final = 60.0  # seconds between two complaints
# The journal's share of the bound: it is rewritten when it exceeds twice HEAD + LINE * entries, and while it is, a
# third of that lies beside it.
HEAD: Final = 8192
LINE: Final = 256


@dataclass(frozen=True, slots=True)
class Written:
    """A put has ended. Not ok: an error, no room, its parent gone, or removed meanwhile; nothing is left of it."""

    id: str
    ok: bool


@dataclass(frozen=True, slots=True, eq=False)
class Read:
    """A get has ended. None: the entry is missing or was damaged, and is gone now, and what built on it too."""

    id: str
    arrays: Arrays | None


@dataclass(frozen=True, slots=True)
class Evicted:
    """Entries that left without being named: for room, or because what they built on was removed or damaged."""

    ids: list[str]


Result = Written | Read | Evicted


@dataclass(slots=True)
class _Known:
    """What the worker needs of an entry; its keys are the owner's to remember."""

    parent: str | None
    nbytes: int
    last_used: float


@dataclass(slots=True, eq=False)
class _Put:
    id: str
    parent: str | None
    keys: NDArray[np.int64]
    start: int
    root: str
    has_checkpoint: bool
    arrays: Arrays
    nbytes: int
    last_used: float
    cancelled: bool = False  # read by the worker when it starts, and again when the file has its name


@dataclass(frozen=True, slots=True)
class _Get:
    id: str


@dataclass(frozen=True, slots=True)
class _Chore:
    """Delete the files of removed entries, or journal uses."""

    run: Callable[[], None]


class Disk:
    """A store in `folder/fingerprint/`. Open it once; after `close`, or before `open`, it holds nothing."""

    def __init__(
        self,
        folder: Path,
        fingerprint: str,
        limit_bytes: int,
        model: str = "",
        *,
        on_done: Callable[[], None] | None = None,
        pending_limit: int = PENDING,
    ) -> None:
        """`on_done` is called by the worker whenever `done` has something new."""
        if not files.is_fingerprint(fingerprint):
            raise ValueError(f"{fingerprint!r} cannot name a folder")
        self.folder = folder / fingerprint
        self.limit_bytes = limit_bytes
        self.pending_bytes = 0
        self.stage: Hook = lambda stage: None  # called at each point of a write, by the thread that writes
        self._fingerprint = fingerprint
        self._model = model[:200]
        self._on_done = on_done
        self._pending_limit = pending_limit
        self._journal_file = files.Journal(
            self.folder, {"fingerprint": fingerprint, "model": self._model}, lambda stage: self.stage(stage)
        )
        self._lock_file: int | None = None
        self._thread: threading.Thread | None = None
        self._complained = -QUIET

        # Guarded by `_changed`, which is never held during I/O.
        self._changed = threading.Condition()
        self._index: dict[str, _Known] = {}
        self._leaving: dict[str, int] = {}  # bytes of files that are to be deleted
        self._stuck: dict[Path, int] = {}  # bytes of files that could not be deleted
        self._stored = 0  # bytes of all of these
        self._touched: set[str] = set()
        self._touch_due = 0.0
        self._gets: deque[_Get] = deque()
        self._puts: deque[_Put] = deque()
        self._current: _Put | _Get | _Chore | None = None
        self._results: list[Result] = []
        self._running = False
        self._writes = 0
        self._write_errors = 0

    # -- the owner's side

    def open(self) -> list[Entry]:
        """Lock the folder, put it in order, and start the worker. Returns what is stored, parents before children.

        Reads the heads of files only. Whatever is damaged, incomplete, or builds on something missing is deleted.
        Raises DiskError when the folder cannot be used: not writable, or another server has it.
        """
        if self._thread is not None:
            raise RuntimeError("a Disk is opened once")
        try:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)  # prompts are in there
            self._lock_file = files.take_lock(self.folder, wait=PATIENCE)
            if self._lock_file is None:
                raise DiskError(
                    f"{self.folder} is in use by another server. Give this one a cache folder of its own, "
                    "or stop the other one."
                )
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

    def put(
        self,
        id: str,
        parent: str | None,
        keys: NDArray[np.int64],
        start: int,
        root: str,
        has_checkpoint: bool,
        arrays: Arrays,
    ) -> None:
        """Store an entry, later; `Written` tells how it went. Never blocks. The arrays must not change any more.

        A put that the queue does not accept is not ok. One whose id is stored already is ok, and no work.
        """
        files.check_arrays(arrays)
        if not files.is_id(id):
            raise ValueError(f"{id!r} is not a hex digest")
        if not 0 <= start <= len(keys):
            raise ValueError(f"a segment that starts at {start} does not fit a prefix of {len(keys)} tokens")
        nbytes = sum(array.nbytes for array, _ in arrays)
        keys = np.asarray(keys, np.int64)
        put = _Put(id, parent, keys, start, root, has_checkpoint, arrays, nbytes, time.time())
        with self._changed:
            if not self._running:
                self._results.append(Written(id, False))
                return
            if not self.accepts(nbytes):
                put = replace(put, arrays=[], nbytes=0, cancelled=True)
            self.pending_bytes += put.nbytes
            self._puts.append(put)
            self._changed.notify_all()

    def get(self, id: str) -> None:
        """Read an entry's arrays, before anything that waits to be written; `Read` brings them.

        An entry whose put is still waiting is there already. Each array comes as the numpy type of its type name.
        """
        with self._changed:
            if not self._running:
                self._results.append(Read(id, None))
                return
            self._gets.append(_Get(id))
            self._changed.notify_all()

    def touch(self, id: str) -> None:
        """The entry was used now. A kill forgets the uses of the last few seconds."""
        with self._changed:
            known = self._index.get(id)
            if known is None:
                return
            known.last_used = time.time()
            if not self._touched:
                self._touch_due = time.monotonic() + TOUCH_DELAY
                self._changed.notify_all()
            self._touched.add(id)

    def remove(self, id: str) -> None:
        """Forget an entry, also one that waits to be written, and all that build on it."""
        with self._changed:
            self._cancel(put for put in self._waiting() if put.id == id)
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
        """Forget the puts that have not begun, and their arrays: the memory is needed. Returns their ids; nothing else
        tells of them."""
        with self._changed:
            given_up = list(self._puts)
            self._puts.clear()
            self.pending_bytes -= sum(put.nbytes for put in given_up)
            self._changed.notify_all()
        return [put.id for put in given_up]

    def done(self) -> list[Result]:
        """What has finished since the last call, in order. Never blocks."""
        with self._changed:
            results, self._results = self._results, []
        return results

    def flush(self, timeout: float = 30.0) -> bool:
        """Wait until nothing waits any more. False: it took too long."""
        with self._changed:
            return self._changed.wait_for(self._is_idle, timeout)

    def close(self, timeout: float = 30.0) -> None:
        """Finish what waits, as far as the time allows; stop the worker; release the lock. A second call is nothing."""
        if self._thread is None:
            return
        deadline = time.monotonic() + timeout
        self.flush(timeout)
        with self._changed:
            self._running = False
            self._cancel(self._waiting())
            self._changed.notify_all()
        # The worker releases the lock itself: as long as it writes, no other server may come in.
        self._thread.join(max(deadline - time.monotonic(), 1.0))

    def stats(self) -> DiskCacheStats:
        """For any thread."""
        with self._changed:
            return DiskCacheStats(
                folder=str(self.folder),
                bytes=self._stored + self._journal_file.size,
                limit_bytes=self.limit_bytes,
                entries=len(self._index),
                writes=self._writes,
                write_errors=self._write_errors,
                pending=len(self._gets) + len(self._puts) + isinstance(self._current, _Put | _Get),
            )

    # -- what is stored; all of these with `_changed` held

    def _is_idle(self) -> bool:
        if self._thread is None or not self._thread.is_alive():
            return True
        return not (self._gets or self._puts or self._leaving or self._current)

    def _waiting(self) -> list[_Put]:
        return [*self._puts, *([self._current] if isinstance(self._current, _Put) else [])]

    def _cancel(self, puts: Iterable[_Put]) -> None:
        for put in puts:
            put.cancelled = True

    def _detach(self, ids: list[str]) -> list[str]:
        """Take entries and all that build on them out of the index; their files are deleted later. Those first."""
        children: dict[str | None, list[str]] = {}
        for id, known in self._index.items():
            children.setdefault(known.parent, []).append(id)
        gone = [id for id in ids if id in self._index]
        seen = set(gone)
        for id in gone:  # grows while it is walked
            new = [child for child in children.get(id, []) if child not in seen]
            seen.update(new)
            gone += new
        for id in gone:
            self._leaving[id] = self._index.pop(id).nbytes
            self._touched.discard(id)
        return gone

    def _journal_share(self, entries: int) -> int:
        share = HEAD + LINE * entries
        return max(self._journal_file.size, 2 * share) + share

    def _victims(self, new: list[int], parent: str | None) -> list[str] | None:
        """The entries that must go before files of the sizes `new` fit, least recently used first; None: they cannot.

        Only entries that nothing builds on, and never `parent`: so its own chain is safe as well.
        """
        stored, count = self._stored + sum(new), len(self._index) + len(new)
        if stored + self._journal_share(count) <= self.limit_bytes:
            return []
        children = Counter(known.parent for known in self._index.values())
        leaves = [(known.last_used, id) for id, known in self._index.items() if not children[id] and id != parent]
        heapq.heapify(leaves)
        victims: list[str] = []
        while stored + self._journal_share(count) > self.limit_bytes:
            if not leaves:
                return None
            _, id = heapq.heappop(leaves)
            victims.append(id)
            known = self._index[id]
            stored, count = stored - known.nbytes, count - 1
            above = known.parent
            children[above] -= 1
            if above is not None and not children[above] and above != parent:
                heapq.heappush(leaves, (self._index[above].last_used, above))
        return victims

    # -- the worker's side

    def _main(self) -> None:
        try:
            while (job := self._next()) is not None:
                if isinstance(job, _Put):
                    self._do_put(job)
                elif isinstance(job, _Get):
                    self._do_get(job)
                else:
                    job.run()
                self._tell()
        finally:
            self._write_touches()
            self._release()
            with self._changed:
                self._running = False
                self._results += [Read(get.id, None) for get in self._gets]
                self._results += [Written(put.id, False) for put in self._puts]
                for store in (self._index, self._leaving, self._gets, self._puts):
                    store.clear()
                self._stored = sum(self._stuck.values())
                self.pending_bytes, self._current = 0, None
                self._changed.notify_all()

    def _next(self) -> _Put | _Get | _Chore | None:
        """Wait for the next job: somebody waits for a read, deleting makes room, a write can wait."""
        with self._changed:
            while True:
                self._current = None
                now = time.monotonic()
                if self._gets:
                    self._current = self._gets.popleft()
                elif self._leaving:
                    self._current = _Chore(self._sweep)
                elif self._touched and now >= self._touch_due:
                    self._current = _Chore(self._write_touches)
                elif self._puts:
                    self._current = self._puts.popleft()
                elif self._running:
                    self._changed.notify_all()  # those who flush
                    self._changed.wait(self._touch_due - now if self._touched else None)
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
            self._complain(error)
        with self._changed:
            self.pending_bytes -= put.nbytes
            self._results.append(Written(put.id, ok))

    def _write(self, put: _Put) -> bool:
        with self._changed:
            if put.cancelled:
                return False
            if (known := self._index.get(put.id)) is not None:
                known.last_used = put.last_used
                return True
            if put.parent is not None and put.parent not in self._index:
                return False
        metadata = files.metadata_of(
            put.id, put.parent, put.start, put.root, put.has_checkpoint, self._fingerprint, self._model
        )
        encoded = files.Encoded(put.keys, put.arrays, metadata)
        if not self._make_room(encoded.nbytes, put.parent):
            return False
        path = self._path(put.id)
        temporary = path.with_name(f"{put.id}{files.TEMPORARY}{os.getpid()}")
        try:
            encoded.write(temporary, self.stage)
            os.replace(temporary, path)
            files.sync_folder(self.folder)
            self.stage("renamed")
            with self._changed:
                self._stored -= self._stuck.pop(path, 0)
                wanted = not put.cancelled and (put.parent is None or put.parent in self._index)
                if wanted:
                    self._index[put.id] = _Known(put.parent, encoded.nbytes, put.last_used)
                    self._stored += encoded.nbytes
            if not wanted:
                self._delete(path, encoded.nbytes)
                return False
            self._journal(files.line({"put": put.id, "used": put.last_used}), sync=True)
            self._writes += 1
            self.stage("journaled")
        except BaseException:
            with self._changed:
                if self._index.pop(put.id, None) is not None:
                    self._stored -= encoded.nbytes
            self._delete(temporary, encoded.nbytes)
            self._delete(path, encoded.nbytes)
            raise
        return True

    def _make_room(self, nbytes: int, parent: str | None) -> bool:
        """Evict until a file of this size fits. Evicts nothing if that cannot be reached."""
        while True:
            with self._changed:
                victims = self._victims([nbytes] if nbytes else [], parent)
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

    def _do_get(self, get: _Get) -> None:
        with self._changed:
            stored = get.id in self._index
            waiting = next((put for put in self._puts if put.id == get.id and not put.cancelled), None)
        arrays: Arrays | None = None
        gone: list[str] = []
        if waiting is not None:
            arrays = [(array.view(files.DTYPES[name]), name) for array, name in waiting.arrays]
        elif stored:
            try:
                arrays = files.read_arrays(self._path(get.id))
            except Exception as error:
                logger.warning("a cached prefix is dropped: %s: %s", self._path(get.id).name, error)
                with self._changed:
                    gone = self._detach([get.id])
                self._sweep()
        with self._changed:
            self._results.append(Read(get.id, arrays))
            if gone[1:]:
                self._results.append(Evicted(gone[1:]))

    def _sweep(self) -> None:
        """Delete the files of entries that are no longer in the index."""
        with self._changed:
            leaving = dict(self._leaving)
        for id, nbytes in leaving.items():
            self._delete(self._path(id), nbytes)
        with self._changed:
            for id in leaving:
                self._stored -= self._leaving.pop(id)
        with self._may_fail():
            self._journal(b"".join(files.line({"remove": id}) for id in leaving), sync=False)

    def _write_touches(self) -> None:
        with self._changed:
            touched = [(id, self._index[id].last_used) for id in sorted(self._touched) if id in self._index]
            self._touched.clear()
        if touched:
            with self._may_fail():
                self._journal(b"".join(files.line({"touch": id, "used": used}) for id, used in touched), sync=False)

    def _journal(self, text: bytes, *, sync: bool) -> None:
        """Append, or rewrite the journal where it has grown too long: what `text` says is in the index already."""
        if self._journal_file.size + len(text) > 2 * (HEAD + LINE * len(self._index)):
            with self._changed:
                used = [(id, known.last_used) for id, known in self._index.items()]
            self._journal_file.rewrite(used)
        else:
            self._journal_file.append(text, sync=sync)

    def _delete(self, path: Path, nbytes: int) -> None:
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            self._complain(error)
            with self._changed:
                self._stored += nbytes - self._stuck.get(path, 0)
                self._stuck[path] = nbytes

    def _path(self, id: str) -> Path:
        return self.folder / (id + files.SUFFIX)

    @contextlib.contextmanager
    def _may_fail(self) -> Any:
        """For what costs nothing but a little memory of uses."""
        try:
            yield
        except OSError as error:
            self._complain(error)

    def _complain(self, error: Exception) -> None:
        now = time.monotonic()
        if now - self._complained >= QUIET:
            self._complained = now
            trace = None if isinstance(error, OSError) else error
            logger.warning(
                "the prefix cache cannot write to %s: %s (said once a minute at most)",
                self.folder,
                error,
                exc_info=trace,
            )

    def _release(self) -> None:
        self._journal_file.close()
        if self._lock_file is not None:
            os.close(self._lock_file)
            self._lock_file = None

    # -- opening

    def _recover(self) -> list[Entry]:
        found = files.survey(self.folder)
        for path in (*found.temporaries, *found.useless):
            nbytes = 0
            with contextlib.suppress(OSError):
                nbytes = path.lstat().st_size
            self._delete(path, nbytes)
        if found.useless:
            logger.warning("%d damaged prefixes were deleted from %s", len(found.useless), self.folder)
        self._index = {entry.id: _Known(entry.parent, entry.nbytes, entry.last_used) for entry in found.entries}
        self._stored += sum(entry.nbytes for entry in found.entries)
        self._journal_file.open()
        try:
            if self._journal_file.size > 2 * (HEAD + LINE * len(self._index)):
                self._journal_file.truncate()  # garbage: there may be no room for a new one beside it
            if not self._make_room(0, None):
                self._detach(list(self._index))
                self._sweep()
            self._journal_file.rewrite([(id, known.last_used) for id, known in self._index.items()])
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            self._complain(error)  # what is there can still be read
        self._results.clear()
        return [entry for entry in found.entries if entry.id in self._index]
