"""The files of the disk tier: an entry, the journal, the lock. Functions over paths; `disk` decides what is kept.

An entry is a safetensors file (8 bytes of header length, a JSON header, data): other tools can read it. Its first
tensor is `keys`, so that opening a store reads the head of each file and nothing else. Three checksums: the header's
own, the keys', and `sums_crc32` over the arrays, which is checked when they are read. A file describes itself in full:
the journal adds only when an entry was last used, and a store whose journal is lost has lost no entry.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import math
import os
import re
import sys
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from paceline.errors import PacelineError

LAYOUT = "1"  # of the files; another one is not read
SUFFIX = ".prefix"
TEMPORARY = ".tmp-"
JOURNAL = "manifest.jsonl"
LOCK = "lock"
READERS = 4  # threads that read one file: a single one is busy with page faults
BLOCK = 4096  # bytes that are summed up for the checksum: what disks and page caches lose, they lose in such blocks
CHUNK = 16 << 20  # bytes a system call: macOS refuses 2 GiB and more
PATIENCE = 0.5  # seconds to wait for the lock: looking whether a store is in use holds it for a moment
HEADER_LIMIT = 64 << 20  # a longer header is not one of ours

# The points of a write, in order, at which tests kill the process or look at the folder ("compacting": the journal's
# new version lies beside the old one).
Stage = Literal["writing", "written", "synced", "renamed", "compacting", "journaling", "journaled"]
STAGES: tuple[Stage, ...] = get_args(Stage)
Hook = Callable[[Stage], None]

# safetensors' names, and the numpy type that arrays of each are read back as.
DTYPES: dict[str, type[np.generic]] = {
    "BOOL": np.bool_,
    "U8": np.uint8,
    "I8": np.int8,
    "F8_E4M3": np.uint8,
    "F8_E5M2": np.uint8,
    "U16": np.uint16,
    "I16": np.int16,
    "F16": np.float16,
    "BF16": np.uint16,
    "U32": np.uint32,
    "I32": np.int32,
    "F32": np.float32,
    "U64": np.uint64,
    "I64": np.int64,
    "F64": np.float64,
    "C64": np.complex64,
}

Arrays = list[tuple[NDArray[Any], str]]  # each with safetensors' name of its type: numpy has no bfloat16


class DiskError(PacelineError):
    """The folder cannot be used at all; the text says why and what to do. A server then runs without a disk tier."""


class Damaged(Exception):
    """A file is not what was written under its name; the text says how."""


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    """What is known of a stored file without reading its arrays."""

    id: str  # hex digest, also the file's name
    parent: str | None  # the entry that must be there for this one to be of use
    keys: NDArray[np.int64]  # the whole prefix, from its first token to `stop`
    start: int  # the segment covers tokens [start, stop), which may be none
    root: str  # the tree that it belongs to
    has_checkpoint: bool
    nbytes: int  # of the file
    last_used: float

    @property
    def stop(self) -> int:
        return len(self.keys)


def is_id(name: str) -> bool:
    """Can it be an entry's id? Ids become file names."""
    return re.fullmatch(r"[0-9a-f]{1,128}", name) is not None


def is_fingerprint(name: str) -> bool:
    """Can it be a store's fingerprint? Fingerprints become folder names."""
    return re.fullmatch(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,199}", name) is not None


# -- one entry


class Encoded:
    """An entry in the form of its file: `nbytes` is the file's size, known before a byte is written.

    The arrays are not copied (unless one is not contiguous) and must not change until the file is written.
    """

    def __init__(self, keys: NDArray[np.int64], arrays: Arrays, metadata: Mapping[str, str]) -> None:
        data = [_raw(keys), *(_raw(array) for array, _ in arrays)]
        checksum = 0
        for part in data[1:]:
            checksum = _chained(_sums(part), checksum)
        checksums = {"keys_crc32": _hex(zlib.crc32(data[0])), "sums_crc32": _hex(checksum)}
        header: dict[str, Any] = {"__metadata__": {"header_crc32": _hex(0), **checksums, **metadata}}
        offset = 0
        shapes = [("keys", "I64", keys.shape), *((f"{i:04d}", name, a.shape) for i, (a, name) in enumerate(arrays))]
        for (key, name, shape), part in zip(shapes, data, strict=True):
            header[key] = {"dtype": name, "shape": list(shape), "data_offsets": [offset, offset + len(part)]}
            offset += len(part)
        text = json.dumps(header, separators=(",", ":")).encode()
        text += b" " * (-len(text) % 8)
        text = text.replace(_header_crc(0), _header_crc(zlib.crc32(text)), 1)
        self.parts = [memoryview(len(text).to_bytes(8, "little") + text), *data]
        self.nbytes = sum(map(len, self.parts))

    def write(self, path: Path, stage: Hook) -> None:
        """Write and sync `path`. Raises OSError; what was written until then is the caller's to delete."""
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            for part in self.parts:
                _write(file, part)
                stage("writing")
            stage("written")
            # Not macOS's F_FULLFSYNC, which costs far more: after a power cut the checksums find what was lost.
            os.fsync(file)
        finally:
            os.close(file)
        stage("synced")


def metadata_of(
    id: str, parent: str | None, start: int, root: str, has_checkpoint: bool, fingerprint: str, model: str
) -> dict[str, str]:
    """What a file says of itself; safetensors allows strings only."""
    return {
        "format": "paceline-prefix",
        "layout": LAYOUT,
        "fingerprint": fingerprint,
        "model": model,
        "id": id,
        "parent": parent or "",
        "start": str(start),
        "root": root,
        "has_checkpoint": "true" if has_checkpoint else "false",
    }


def check_arrays(arrays: Arrays) -> None:
    """Raises ValueError for arrays that cannot be stored: the caller's mistake, not the disk's."""
    for array, name in arrays:
        if name not in DTYPES:
            raise ValueError(f"{name} is not a type that can be stored; there are {', '.join(DTYPES)}")
        width = np.dtype(DTYPES[name]).itemsize
        if array.dtype.itemsize != width or not array.dtype.isnative or sys.byteorder != "little":
            raise ValueError(f"{name} takes little-endian elements of {width} bytes, not {array.dtype}")


def read_arrays(path: Path) -> Arrays:
    """All arrays of an entry, checked. Raises Damaged or OSError."""
    with path.open("rb", buffering=0) as file:
        head = _read_head(file.fileno(), path)
        place = os.lseek(file.fileno(), 0, os.SEEK_CUR)
        arrays: Arrays = []
        reads = []
        with ThreadPoolExecutor(READERS, "paceline-read") as readers:
            for name, shape in head.arrays:
                array = np.empty(shape, DTYPES[name])
                arrays.append((array, name))
                reads.append(readers.submit(_read_at, file.fileno(), _raw(array), place))
                place += array.nbytes
        checksum = 0
        for read in reads:
            checksum = _chained(read.result(), checksum)
    if _hex(checksum) != head.checksum:
        raise Damaged("the arrays' checksum is wrong")
    return arrays


class _Head(NamedTuple):
    """What a file says before its arrays."""

    entry: Entry  # last used when the file was made
    arrays: list[tuple[str, list[int]]]  # type name and shape of each
    checksum: str
    model: str


def _read_head(file: int, path: Path) -> _Head:
    """Read up to the first array, where the file's position is left. Raises Damaged or OSError."""
    status = os.fstat(file)
    prefix = bytearray(8)
    _read(file, memoryview(prefix))
    length = int.from_bytes(prefix, "little")
    if length > min(status.st_size - 8, HEADER_LIMIT):
        raise Damaged("its header is longer than the file")
    text = bytearray(length)
    _read(file, memoryview(text))
    found = re.search(rb'"header_crc32":"([0-9a-f]{8})"', text)
    if found is None or zlib.crc32(text.replace(found[0], _header_crc(0), 1)) != int(found[1], 16):
        raise Damaged("its header's checksum is wrong")
    try:
        header = json.loads(text)
        metadata = header.pop("__metadata__")
        if metadata["layout"] != LAYOUT:
            raise Damaged(f"its layout is {metadata['layout']}, not {LAYOUT}")
        if metadata["fingerprint"] != path.parent.name or metadata["id"] + SUFFIX != path.name:
            raise Damaged("it was written under another name")
        arrays: list[tuple[str, list[int]]] = []
        end = 0
        for tensor in header.values():
            name, shape, (first, last) = tensor["dtype"], tensor["shape"], tensor["data_offsets"]
            if first != end or last != first + math.prod(shape) * np.dtype(DTYPES[name]).itemsize:
                raise Damaged("its tensors do not follow each other")
            arrays.append((name, shape))
            end = last
        if status.st_size != 8 + length + end:
            raise Damaged(f"it has {status.st_size} bytes, not {8 + length + end}")
        _, (stop,) = arrays.pop(0)
        keys = np.empty(stop, np.int64)
        _read(file, _raw(keys))
        if _hex(zlib.crc32(_raw(keys))) != metadata["keys_crc32"]:
            raise Damaged("its keys' checksum is wrong")
        entry = Entry(
            id=metadata["id"],
            parent=metadata["parent"] or None,
            keys=keys,
            start=int(metadata["start"]),
            root=metadata["root"],
            has_checkpoint=metadata["has_checkpoint"] == "true",
            nbytes=status.st_size,
            last_used=status.st_mtime,
        )
        return _Head(entry, arrays, metadata["sums_crc32"], metadata["model"])
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise Damaged(f"its header is not understood: {error!r}") from error


# -- a folder of entries


@dataclass(frozen=True, slots=True)
class Survey:
    """What lies in a store's folder."""

    entries: list[Entry]  # complete and of use, parents before children
    useless: list[Path]  # entry files that are damaged, or whose parents are missing
    temporaries: list[Path]
    model: str


def survey(folder: Path) -> Survey:
    """Look at the heads of all files. Raises OSError only when the folder itself cannot be read."""
    about, used = read_journal(folder / JOURNAL)
    model = about["model"] if isinstance(about.get("model"), str) else ""
    now = time.time()  # a clock that was ahead once must not keep entries for ever
    found: dict[str, Entry] = {}
    useless, temporaries = [], []
    for path in sorted(folder.iterdir()):
        if TEMPORARY in path.name:
            temporaries.append(path)
        elif path.suffix == SUFFIX:
            try:
                with path.open("rb", buffering=0) as file:
                    head = _read_head(file.fileno(), path)
            except FileNotFoundError:
                continue  # deleted just now by the server whose folder it is
            except (Damaged, OSError):
                useless.append(path)
                continue
            last_used = used.get(head.entry.id, head.entry.last_used)
            found[head.entry.id] = replace(head.entry, last_used=min(last_used, now))
            model = model or head.model
    entries = _reachable(found)
    lost = found.keys() - {entry.id for entry in entries}
    useless += [folder / (id + SUFFIX) for id in sorted(lost)]
    return Survey(entries, useless, temporaries, model)


def _reachable(found: Mapping[str, Entry]) -> list[Entry]:
    """Those whose chain of parents is whole, parents first. A walk from the roots, so that a ring ends nowhere."""
    children: dict[str | None, list[Entry]] = {}
    for entry in found.values():
        children.setdefault(entry.parent, []).append(entry)
    order = list(children.get(None, []))
    for entry in order:  # grows while it is walked
        order += children.get(entry.id, [])
    return order


# -- the journal


class Journal:
    """The manifest: a line of JSON for each put, removal and use. One thread at a time.

    Contract: `size` is the file's size, also after an error. Lines that a reader does not understand (a torn one, or
    garbage) are as if they were not there.
    """

    def __init__(self, folder: Path, about: Mapping[str, str], stage: Hook) -> None:
        self._path = folder / JOURNAL
        self._about = about
        self._stage = stage
        self._file: int | None = None
        self.size = 0

    def open(self) -> None:
        self.close()
        self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self.size = os.fstat(self._file).st_size

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def truncate(self) -> None:
        os.truncate(self._path, 0)
        self.size = 0

    def append(self, text: bytes, *, sync: bool) -> None:
        if self._file is None:
            self.open()
        assert self._file is not None
        half = len(text) // 2
        try:
            # Two writes where one would do: a kill that tears the line must be possible to test.
            _write(self._file, memoryview(text)[:half])
            self._stage("journaling")
            _write(self._file, memoryview(text)[half:])
            if sync:
                os.fsync(self._file)
        except OSError:
            with contextlib.suppress(OSError):  # else the next line would be lost with the torn one
                os.ftruncate(self._file, self.size)
            self.size = os.fstat(self._file).st_size
            raise
        self.size += len(text)

    def rewrite(self, used: Iterable[tuple[str, float]]) -> None:
        """Replace the journal by the shortest one that says the same. The old one stays if that fails."""
        text = b"".join([line({"paceline": LAYOUT, **self._about}), *(line({"put": i, "used": t}) for i, t in used)])
        temporary = self._path.with_name(f"manifest{TEMPORARY}{os.getpid()}")
        try:
            file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            try:
                _write(file, memoryview(text))
                os.fsync(file)
            finally:
                os.close(file)
            self._stage("compacting")
            os.replace(temporary, self._path)
        except OSError:
            temporary.unlink(missing_ok=True)
            raise
        sync_folder(self._path.parent)
        self.open()


def line(fields: Mapping[str, Any]) -> bytes:
    """One record of the journal."""
    return json.dumps(fields, separators=(",", ":")).encode() + b"\n"


def read_journal(path: Path) -> tuple[dict[str, Any], dict[str, float]]:
    """Its first record, and when each entry was last used. Damage costs what it hit, and is no error."""
    about: dict[str, Any] = {}
    used: dict[str, float] = {}
    for record in _records(path):
        if "paceline" in record:
            about = record
        id = record.get("put") or record.get("touch")
        with contextlib.suppress(KeyError, TypeError, ValueError, OverflowError):
            if isinstance(id, str) and math.isfinite(moment := float(record["used"])):
                used[id] = moment
    return about, used


def _records(path: Path) -> Iterator[dict[str, Any]]:
    try:
        file = path.open("rb")
    except OSError:
        return
    with file, contextlib.suppress(OSError):
        for text in file:
            with contextlib.suppress(ValueError, RecursionError):
                if isinstance(record := json.loads(text), dict):
                    yield record


# -- the lock, and other small things


def take_lock(folder: Path, *, shared: bool = False, wait: float = 0.0) -> int | None:
    """Lock a store's folder until the returned descriptor is closed; None: a server has it. Raises OSError."""
    deadline = time.monotonic() + wait
    while True:
        file = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
            # `clear` deletes the file: a lock on a deleted file keeps nobody out.
            if os.fstat(file).st_ino == os.stat(folder / LOCK).st_ino:
                return file
        except FileNotFoundError:
            pass
        except OSError as error:
            if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                os.close(file)
                raise
            if time.monotonic() >= deadline:
                os.close(file)
                return None
        os.close(file)
        time.sleep(0.02)


def sync_folder(folder: Path) -> None:
    """Make renames in it last."""
    file = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def size_of(folder: Path) -> int:
    """The bytes of all files in it."""
    total = 0
    for path in folder.iterdir():
        with contextlib.suppress(FileNotFoundError):
            total += path.lstat().st_size
    return total


def _raw(array: NDArray[Any]) -> memoryview:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


def _hex(checksum: int) -> str:
    return f"{checksum:08x}"


def _sums(data: memoryview) -> bytes:
    """The sums of the data's blocks, and its odd end: a crc32 of all bytes would take longer than a good disk."""
    whole = len(data) - len(data) % BLOCK
    sums: NDArray[np.uint64] = np.frombuffer(data[:whole], np.uint64).reshape(-1, BLOCK // 8).sum(axis=1)
    return sums.tobytes() + bytes(data[whole:])


def _chained(sums: bytes, before: int) -> int:
    return zlib.crc32(sums, before)


def _header_crc(checksum: int) -> bytes:
    return f'"header_crc32":"{checksum:08x}"'.encode()


def _write(file: int, data: memoryview) -> None:
    done = 0
    while done < len(data):
        done += os.write(file, data[done : done + CHUNK])


def _read_at(file: int, into: memoryview, place: int) -> bytes:
    """Read from a place in the file; returns the data's sums. Several threads may read at once."""
    done = 0
    while done < len(into):
        count = os.preadv(file, [into[done : done + CHUNK]], place + done)
        if count == 0:
            raise Damaged("it ends too early")
        done += count
    return _sums(into)


def _read(file: int, into: memoryview) -> None:
    done = 0
    while done < len(into):
        count = os.readv(file, [into[done : done + CHUNK]])
        if count == 0:
            raise Damaged("it ends too early")
        done += count
