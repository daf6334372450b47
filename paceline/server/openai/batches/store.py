"""Files of clients in a local folder: content and a description beside it, the same after a restart.

`NAME.json` is written, then the content becomes `NAME.bin` by renaming: where one of them is missing the file was never
whole, and is removed at the next start. Every call blocks its thread.
"""

from __future__ import annotations

import errno
import itertools
import json
import os
import secrets
import threading
import time
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, TypeVar

from pydantic import ConfigDict, TypeAdapter

from paceline.errors import InvalidRequest
from paceline.server.http.errors import DiskFull, NotFound, StorageFailed

T = TypeVar("T")
DAY = 86400
PREFIX = "file-"
_made = itertools.count()  # two may have the same time


def new_id(prefix: str = PREFIX) -> str:
    """Ids of one second sort as they were made, also after a restart: the time, a count, and what nobody can guess."""
    return f"{prefix}{time.time_ns():016x}{next(_made) & 0xFFFF:04x}{secrets.token_hex(6)}"


class FileNotStored(NotFound):
    def __init__(self, file_id: str, field: str | None = None) -> None:
        super().__init__(
            f"The file {file_id!r} is not stored here: it never was, was deleted, has expired, or is not yours.",
            field=field,
        )


class StorageFull(InvalidRequest):
    code = "storage_full"


@dataclass(frozen=True, slots=True)
class StoredFile:
    __pydantic_config__: ClassVar = ConfigDict(extra="forbid")

    id: str
    owner: str | None  # the name of the key that may have it
    filename: str
    purpose: str
    bytes: int
    created_at: int
    expires_at: int

    def described(self) -> dict[str, Any]:
        """As OpenAI's clients read it."""
        fields = {name: value for name, value in asdict(self).items() if name != "owner"}
        return {**fields, "object": "file", "status": "processed", "status_details": None}


class FileStore:
    """Thread-safe. `clock` is in seconds, as time.time."""

    def __init__(self, folder: Path, limit_bytes: int, days: float, clock: Callable[[], float] = time.time) -> None:
        # What has expired stays: only the batches know which of it they still read.
        self.folder = folder
        self.limit_bytes = limit_bytes
        self.days = days
        self.clock = clock
        self._lock = threading.Lock()
        self._files: dict[str, StoredFile] = {}
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        for name, file in load_described(folder, f"{PREFIX}*.json", StoredFile).items():
            if (folder / f"{name}.bin").exists():
                self._files[name] = file
        for path in folder.glob(f"{PREFIX}*"):  # others may be somebody else's: the folder need not have been empty
            if path.suffix in (".json", ".bin", ".part") and path.stem not in self._files:
                path.unlink(missing_ok=True)

    @property
    def used_bytes(self) -> int:
        with self._lock:
            return sum(file.bytes for file in self._files.values())

    def check_room(self, more: int) -> None:
        if self.used_bytes + more > self.limit_bytes:
            raise StorageFull(
                f"Files here may have {self.limit_bytes / 1e9:g} GB together, and {more} bytes more are too many: "
                "delete some, or start the server with a larger --files-gb.",
                field="file",
            )

    def put(
        self, owner: str | None, filename: str, purpose: str, pieces: Iterator[bytes], seconds: int | None = None
    ) -> StoredFile:
        """Keep a file for so many seconds, or as long as the server keeps any."""
        id = new_id()
        part = self.folder / f"{id}.part"
        try:
            with part.open("wb") as written:
                for piece in pieces:
                    written.write(piece)
            return self.adopt(part, owner, filename, purpose, id=id, seconds=seconds)
        except OSError:
            for left in (part, self.folder / f"{id}.json"):
                left.unlink(missing_ok=True)
            raise

    def adopt(
        self, path: Path, owner: str | None, filename: str, purpose: str, *, id: str, seconds: int | None = None
    ) -> StoredFile:
        """Take a file that was written elsewhere on the same disk."""
        now = int(self.clock())
        longest = int(self.days * DAY)
        kept = longest if seconds is None else min(seconds, longest)
        file = StoredFile(id, owner, filename[:256], purpose, path.stat().st_size, now, now + kept)
        write_json(self.folder / f"{id}.json", asdict(file))
        os.replace(path, self.path(id))
        with self._lock:
            self._files[id] = file
        return file

    def path(self, id: str) -> Path:
        return self.folder / f"{id}.bin"

    def find(self, id: str, owner: str | None, field: str | None = None) -> StoredFile:
        with self._lock:
            file = self._files.get(id)
        if file is None or file.owner != owner or file.expires_at <= self.clock():
            raise FileNotStored(id, field)
        return file

    def of(self, owner: str | None) -> list[StoredFile]:
        """The owner's, the latest first."""
        with self._lock:
            files = [file for file in self._files.values() if file.owner == owner and file.expires_at > self.clock()]
        return sorted(files, key=lambda file: (file.created_at, file.id), reverse=True)

    def opened(self, id: str, owner: str | None) -> tuple[StoredFile, BinaryIO]:
        """To read it to its end, also when it is deleted meanwhile."""
        file = self.find(id, owner)
        try:
            return file, self.path(id).open("rb")
        except FileNotFoundError:
            raise FileNotStored(id) from None

    def forget(self, id: str) -> StoredFile | None:
        """From here on nobody finds it, though it is still there: on the event loop, so that no batch takes it."""
        with self._lock:
            return self._files.pop(id, None)

    def expired(self, used: Collection[str] = ()) -> list[StoredFile]:
        """Forget what has expired and is not used."""
        with self._lock:
            gone = [file for file in self._files.values() if file.expires_at <= self.clock() and file.id not in used]
            for file in gone:
                del self._files[file.id]
        return gone

    def remove(self, file: StoredFile) -> None:
        """A forgotten one. One that cannot be removed is there again."""
        described = self.folder / f"{file.id}.json"
        try:
            described.unlink(missing_ok=True)
            self.path(file.id).unlink(missing_ok=True)
        except OSError:
            if described.exists():
                with self._lock:
                    self._files[file.id] = file
            raise

    def remove_all(self, files: Iterable[StoredFile]) -> None:
        """Each, though another cannot be removed: raises what that raised."""
        problem = None
        for file in files:
            try:
                self.remove(file)
            except OSError as error:
                problem = error
        if problem is not None:
            raise problem


def write_json(path: Path, value: Any) -> None:
    """Whole or not at all."""
    part = path.with_suffix(f".{uuid.uuid4().hex}.tmp")
    try:
        part.write_text(json.dumps(value), encoding="utf-8")
        os.replace(part, path)
    except OSError:
        part.unlink(missing_ok=True)
        raise


@contextmanager
def storing() -> Iterator[None]:
    """What the disk does not take is an error that a client can read."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise DiskFull from None
        reason = (error.strerror or type(error).__name__).lower()  # its whole text would tell a path
        raise StorageFailed(reason) from None


def load_described(folder: Path, pattern: str, kind: type[T]) -> dict[str, T]:
    """By name: what such files describe. One that cannot be read, or describes no such thing, is left out."""
    adapter, found = TypeAdapter(kind), {}
    for path in folder.glob(pattern):
        with suppress(OSError, ValueError):
            found[path.stem] = adapter.validate_json(path.read_bytes())
    return found
