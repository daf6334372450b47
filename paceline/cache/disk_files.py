"""The files of the disk tier: entries and the lock. Functions over paths; `disk` decides what is kept.

An entry is a safetensors file (8 bytes of header length, a JSON header, data): other tools can read it. Its first
tensor is `key`, so that opening a store reads the head of each file and nothing else. Three checksums: the header's
own, the key's, and `sums_crc32` over the arrays, which is checked when they are read. The file's modification time is
when the entry was last used. The code is our own because the safetensors library reorders tensors.
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
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from paceline.errors import PacelineError

LAYOUT = "2"  # version of the file format; files of another version are deleted
SUFFIX = ".prefix"
TEMPORARY = ".tmp-"
LOCK = "lock"
READERS = 4  # threads that read one file: page faults keep a single thread busy
BLOCK = 4096  # bytes summed up for the checksum: disks and page caches lose whole blocks of this size
CHUNK = 16 << 20  # bytes a system call: macOS refuses 2 GiB and more
LOCK_TIMEOUT = 0.5  # seconds: `is the store in use` takes the lock for a moment
HEADER_LIMIT = 64 << 20  # a longer header is not one of ours

# The points of a write, in order, at which tests kill the process or look at the folder.
Stage = Literal["writing", "written", "synced", "renamed", "stored"]
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
    parent: str | None  # the entry that this one extends; without it this one is useless
    key: NDArray[np.int64]  # the whole prefix, from its first token to `stop`
    start: int  # the segment covers tokens [start, stop), which may be none
    root: str  # the tree that it belongs to
    has_checkpoint: bool
    nbytes: int = 0  # of the file
    last_used: float = 0.0

    @property
    def stop(self) -> int:
        return len(self.key)


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

    def __init__(self, key: NDArray[np.int64], arrays: Arrays, metadata: Mapping[str, str]) -> None:
        data = [_raw(key), *(_raw(array) for array, _ in arrays)]
        checksum = 0
        for part in data[1:]:
            checksum = zlib.crc32(_sums(part), checksum)
        checksums = {"key_crc32": _hex(zlib.crc32(data[0])), "sums_crc32": _hex(checksum)}
        header: dict[str, Any] = {"__metadata__": {"header_crc32": _hex(0), **checksums, **metadata}}
        offset = 0
        shapes = [("key", "I64", key.shape), *((f"{i:04d}", name, a.shape) for i, (a, name) in enumerate(arrays))]
        for (tensor, name, shape), part in zip(shapes, data, strict=True):
            header[tensor] = {"dtype": name, "shape": list(shape), "data_offsets": [offset, offset + len(part)]}
            offset += len(part)
        text = json.dumps(header, separators=(",", ":")).encode()
        text += b" " * (-len(text) % 8)
        text = text.replace(_header_crc(0), _header_crc(zlib.crc32(text)), 1)
        self.parts = [memoryview(len(text).to_bytes(8, "little") + text), *data]
        self.nbytes = sum(map(len, self.parts))

    def write(self, path: Path, last_used: float, stage: Hook) -> None:
        """Write and sync `path`. Raises OSError; the caller deletes what was written until then."""
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            for part in self.parts:
                done = 0
                while done < len(part):
                    done += os.write(file, part[done : done + CHUNK])
                stage("writing")
            stage("written")
            os.utime(file, (last_used, last_used))
            # Not macOS's F_FULLFSYNC, which costs far more: after a power cut the checksums find what was lost.
            os.fsync(file)
        finally:
            os.close(file)
        stage("synced")


def metadata_of(entry: Entry, fingerprint: str, model: str) -> dict[str, str]:
    """What a file says of itself; safetensors allows strings only."""
    return {
        "format": "paceline-prefix",
        "layout": LAYOUT,
        "fingerprint": fingerprint,
        "model": model,
        "id": entry.id,
        "parent": entry.parent or "",
        "start": str(entry.start),
        "root": entry.root,
        "has_checkpoint": "true" if entry.has_checkpoint else "false",
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
        place = head.end
        arrays: Arrays = []
        reads = []
        with ThreadPoolExecutor(READERS, "paceline-read") as readers:
            for name, shape in head.arrays:
                array = np.empty(shape, DTYPES[name])
                arrays.append((array, name))
                reads.append(readers.submit(_read_summed, file.fileno(), _raw(array), place))
                place += array.nbytes
        checksum = 0
        for read in reads:
            checksum = zlib.crc32(read.result(), checksum)
    if _hex(checksum) != head.checksum:
        raise Damaged("the arrays' checksum is wrong")
    return arrays


class _Head(NamedTuple):
    """What a file says before its arrays."""

    entry: Entry
    arrays: list[tuple[str, list[int]]]  # type name and shape of each
    end: int  # where the first array begins
    checksum: str
    model: str


def _read_head(file: int, path: Path) -> _Head:
    """Read up to the first array. Raises Damaged or OSError."""
    status = os.fstat(file)
    prefix = bytearray(8)
    _read(file, memoryview(prefix), 0)
    length = int.from_bytes(prefix, "little")
    if length > min(status.st_size - 8, HEADER_LIMIT):
        raise Damaged("its header is longer than the file")
    text = bytearray(length)
    _read(file, memoryview(text), 8)
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
        key = np.empty(stop, np.int64)
        _read(file, _raw(key), 8 + length)
        if _hex(zlib.crc32(_raw(key))) != metadata["key_crc32"]:
            raise Damaged("its key's checksum is wrong")
        entry = Entry(
            id=metadata["id"],
            parent=metadata["parent"] or None,
            key=key,
            start=int(metadata["start"]),
            root=metadata["root"],
            has_checkpoint=metadata["has_checkpoint"] == "true",
            nbytes=status.st_size,
            last_used=min(status.st_mtime, time.time()),  # a clock that was ahead once must not keep it for ever
        )
        return _Head(entry, arrays, 8 + length + key.nbytes, metadata["sums_crc32"], metadata["model"])
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise Damaged(f"its header is not understood: {error!r}") from error


# -- a folder of entries


@dataclass(frozen=True, slots=True)
class Survey:
    """What lies in a store's folder."""

    entries: list[Entry]  # complete and of use, parents before children
    useless: list[Path]  # entry files that are damaged, or whose parents are missing
    leftovers: list[Path]
    model: str


def survey(folder: Path) -> Survey:
    """Look at the heads of all files. Raises OSError only when the folder itself cannot be read."""
    found: dict[str, Entry] = {}
    useless, leftovers, model = [], [], ""
    for path in sorted(folder.iterdir()):
        if is_leftover(path):
            leftovers.append(path)
        elif path.suffix == SUFFIX:
            try:
                with path.open("rb", buffering=0) as file:
                    head = _read_head(file.fileno(), path)
            except FileNotFoundError:
                continue  # the server that owns the folder has just deleted it
            except (Damaged, OSError):
                useless.append(path)
                continue
            found[head.entry.id] = head.entry
            model = model or head.model
    entries = _reachable(found)
    lost = found.keys() - {entry.id for entry in entries}
    useless += [folder / (id + SUFFIX) for id in sorted(lost)]
    return Survey(entries, useless, leftovers, model)


def is_leftover(path: Path) -> bool:
    """Is it a file of ours that no store needs: an unfinished write, or layout 1's journal?"""
    return TEMPORARY in path.name or path.name == "manifest.jsonl"


def _reachable(found: Mapping[str, Entry]) -> list[Entry]:
    """The entries whose chain of parents is complete, parents first. A walk from the roots never reaches a cycle."""
    children: dict[str | None, list[Entry]] = {}
    for entry in found.values():
        children.setdefault(entry.parent, []).append(entry)
    order = list(children.get(None, []))
    for entry in order:  # grows while it is walked
        order += children.get(entry.id, [])
    return order


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


def _header_crc(checksum: int) -> bytes:
    return f'"header_crc32":"{checksum:08x}"'.encode()


def _read(file: int, into: memoryview, place: int) -> None:
    done = 0
    while done < len(into):
        count = os.preadv(file, [into[done : done + CHUNK]], place + done)
        if count == 0:
            raise Damaged("it ends too early")
        done += count


def _read_summed(file: int, into: memoryview, place: int) -> bytes:
    """Read from a place in the file; returns the data's sums. Several threads may read at once."""
    _read(file, into, place)
    return _sums(into)
