"""The stores of a cache folder, for the command line: what they hold, and how to delete them. No server needed."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path

from paceline.cache import disk_files as files


@dataclass(frozen=True, slots=True)
class Summary:
    """One store of a cache folder."""

    model: str
    fingerprint: str
    entries: int
    bytes: int  # of all files
    tokens: int  # the longest prefix
    last_used: float  # 0: never
    damaged: int  # entries that the next start will delete
    in_use: bool


def summaries(folder: Path) -> list[Summary]:
    """What is stored in a cache folder, by model name. A folder that is not there has nothing in it."""
    found = []
    for store in _stores(folder):
        try:
            in_use = _is_in_use(store)
            survey = files.survey(store)
            size = files.size_of(store)
        except OSError as error:
            raise files.DiskError(f"The cache folder {store} cannot be read: {error.strerror or error}.") from error
        longest = max((entry.stop for entry in survey.entries), default=0)
        last_used = max((entry.last_used for entry in survey.entries), default=0.0)
        counts = (len(survey.entries), size, longest, last_used, len(survey.useless))
        found.append(Summary(survey.model, store.name, *counts, in_use))
    return sorted(found, key=lambda summary: (summary.model, summary.fingerprint))


def clear(folder: Path, fingerprint: str | None = None) -> tuple[int, int]:
    """Delete one store or all. Returns the number of entries, and the bytes of all their files.

    Raises DiskError, before anything is deleted, when a running server has one of them.
    """
    stores = _stores(folder)
    if fingerprint is not None:
        stores = [store for store in stores if store.name == fingerprint]
        if not stores:
            raise files.DiskError(f"There is no {fingerprint} in {folder}; `paceline cache ls` lists what there is.")
    entries = size = 0
    with contextlib.ExitStack() as locks:
        try:
            for store in stores:
                lock = files.take_lock(store, wait=files.LOCK_TIMEOUT)
                if lock is None:
                    raise files.DiskError(f"{store} is in use by a running server. Stop it first, or clear it there.")
                locks.callback(os.close, lock)
            for store in stores:
                ours = [path for path in store.iterdir() if _is_ours(path)]
                entries += sum(path.suffix == files.SUFFIX for path in ours)
                size += sum(path.lstat().st_size for path in ours)
                # The lock goes last: until then no server can open the store.
                for path in sorted(ours, key=lambda path: path.name == files.LOCK):
                    path.unlink()
                with contextlib.suppress(OSError):  # files that are not ours stay
                    store.rmdir()
        except OSError as error:
            raise files.DiskError(f"{folder} cannot be cleared: {error.strerror or error}.") from error
    return entries, size


def _stores(folder: Path) -> list[Path]:
    try:
        return [path for path in sorted(folder.iterdir()) if path.is_dir() and _is_store(path)]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise files.DiskError(f"The cache folder {folder} cannot be read: {error.strerror or error}.") from error


def _is_store(path: Path) -> bool:
    return any(_is_ours(file) and file.name != files.LOCK for file in path.glob("*"))


def _is_in_use(store: Path) -> bool:
    if not (store / files.LOCK).exists():  # `take_lock` would create it
        return False
    lock = files.take_lock(store, shared=True)
    if lock is not None:
        os.close(lock)
    return lock is None


def _is_ours(path: Path) -> bool:
    return path.suffix == files.SUFFIX or path.name == files.LOCK or files.is_leftover(path)
