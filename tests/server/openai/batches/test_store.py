"""Files in a folder: found again after a restart, gone when they expire."""

from __future__ import annotations

import errno
from collections.abc import Collection, Iterator
from pathlib import Path

import pytest

from paceline.server.http.errors import DiskFull, StorageFailed, status_of
from paceline.server.openai.batches.store import DAY, FileNotStored, FileStore, StorageFull, storing


class Clock:
    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


def opened(folder: Path, clock: Clock | None = None, limit: int = 1000, days: float = 30) -> FileStore:
    return FileStore(folder, limit, days, clock or Clock())


def put(store: FileStore, content: bytes = b"abc", owner: str | None = None, seconds: int | None = None) -> str:
    return store.put(owner, "in.jsonl", "batch", iter([content]), seconds).id


def delete(store: FileStore, id: str) -> None:
    file = store.forget(id)
    assert file is not None
    store.remove(file)


def clean(store: FileStore, used: Collection[str] = ()) -> None:
    store.remove_all(store.expired(used))


def test_a_file_is_there_after_a_restart(tmp_path: Path) -> None:
    id = put(opened(tmp_path))
    again = opened(tmp_path)
    assert again.find(id, None).described() == {
        "id": id,
        "object": "file",
        "filename": "in.jsonl",
        "purpose": "batch",
        "bytes": 3,
        "created_at": 1_000_000,
        "expires_at": 1_000_000 + 30 * DAY,
        "status": "processed",
        "status_details": None,
    }
    assert again.path(id).read_bytes() == b"abc"


def test_half_a_file_is_removed_at_the_next_start(tmp_path: Path) -> None:
    id = put(opened(tmp_path))
    (tmp_path / "file-1.part").write_bytes(b"half")
    (tmp_path / "file-2.bin").write_bytes(b"without a description")
    (tmp_path / "file-3.json").write_text("{")
    opened(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted((f"{id}.bin", f"{id}.json"))


def test_files_that_are_not_the_servers_are_left_alone(tmp_path: Path) -> None:
    names = ("notes.json", "model.bin", "movie.part", "file.json", "file.bin")
    for name in names:
        (tmp_path / name).write_text('{"mine": true}')
    store = opened(tmp_path)
    assert store.of(None) == [] and sorted(path.name for path in tmp_path.iterdir()) == sorted(names)


def test_a_description_of_something_else_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "file-1.json").write_text('{"mine": true}')
    (tmp_path / "file-1.bin").write_bytes(b"abc")
    assert opened(tmp_path).of(None) == []


def test_a_file_is_its_owners(tmp_path: Path) -> None:
    store = opened(tmp_path)
    mine, theirs = put(store, owner="key-1"), put(store, owner="key-2")
    assert [file.id for file in store.of("key-1")] == [mine]
    assert store.find(theirs, "key-2").owner == "key-2"
    with pytest.raises(FileNotStored):
        store.find(theirs, "key-1")


def test_files_of_one_second_keep_their_order_after_a_restart(tmp_path: Path) -> None:
    made = [put(opened(tmp_path)) for _ in range(20)]
    assert [file.id for file in opened(tmp_path).of(None)] == made[::-1]


def test_files_expire_and_are_cleaned_up(tmp_path: Path) -> None:
    clock = Clock()
    store = opened(tmp_path, clock)
    short, long = put(store, seconds=3600), put(store, seconds=10**9)
    clock.now += 3600
    with pytest.raises(FileNotStored):
        store.find(short, None)
    assert [file.id for file in store.of(None)] == [long]
    clean(store, {short})
    assert store.path(short).exists()  # a batch still reads it
    clean(store)
    assert not store.path(short).exists() and store.path(long).exists()
    clock.now += 30 * DAY
    again = opened(tmp_path, clock)
    assert again.of(None) == [] and again.path(long).exists()  # a batch may still read it
    clean(again)
    assert list(tmp_path.iterdir()) == []


def test_there_is_a_limit_on_bytes(tmp_path: Path) -> None:
    store = opened(tmp_path, limit=5)
    id = put(store)
    store.check_room(2)
    with pytest.raises(StorageFull, match="--files-gb"):
        store.check_room(3)
    delete(store, id)
    store.check_room(5)


def test_half_a_file_is_removed_when_the_rest_cannot_be_written(tmp_path: Path) -> None:
    def pieces() -> Iterator[bytes]:
        yield b"half"
        raise OSError(errno.ENOSPC, "No space left on device")

    store = opened(tmp_path)
    with pytest.raises(OSError, match="No space left"):
        store.put(None, "in.jsonl", "batch", pieces())
    assert list(tmp_path.iterdir()) == [] and store.used_bytes == 0


@pytest.mark.parametrize("written", ["description", "content"])
def test_nothing_is_left_of_a_file_whose_description_or_content_cannot_be_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: str
) -> None:
    def replace(source: Path, target: Path) -> None:
        if (target.suffix == ".json") == (written == "description"):
            raise OSError(errno.ENOSPC, "No space left on device")
        Path(source).rename(target)

    store = opened(tmp_path)
    monkeypatch.setattr("os.replace", replace)
    with pytest.raises(OSError, match="No space left"):
        put(store)
    assert list(tmp_path.iterdir()) == [] and store.of(None) == []


@pytest.mark.parametrize(
    ("number", "kind", "status", "line"),
    [
        (errno.ENOSPC, DiskFull, 507, "The server cannot store this: its disk is full."),
        (errno.EDQUOT, DiskFull, 507, "The server cannot store this: its disk is full."),
        (errno.EIO, StorageFailed, 500, "The server cannot store this: input/output error."),
    ],
)
def test_what_the_disk_does_not_take_is_one_line_without_a_path(
    number: int, kind: type[StorageFailed], status: int, line: str
) -> None:
    with pytest.raises(StorageFailed) as raised, storing():
        raise OSError(number, "Input/output error", "/secret/path")
    assert type(raised.value) is kind and status_of(raised.value) == status and str(raised.value) == line


def test_a_file_that_was_opened_is_read_to_its_end_and_one_that_is_gone_is_not_found(tmp_path: Path) -> None:
    store = opened(tmp_path)
    id = put(store)
    _, content = store.opened(id, None)
    delete(store, id)
    with content:
        assert content.read() == b"abc"
    with pytest.raises(FileNotStored):
        store.opened(id, None)
    lost = put(store)
    store.path(lost).unlink()
    with pytest.raises(FileNotStored):
        store.opened(lost, None)


def test_what_cannot_be_removed_is_still_there_and_keeps_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unlink(path: Path, missing_ok: bool = False) -> None:
        if path.stem == stuck:
            raise OSError(errno.EIO, "Input/output error")
        unlinked(path, missing_ok=missing_ok)

    unlinked = Path.unlink
    clock = Clock()
    store = opened(tmp_path, clock)
    stuck, other = put(store), put(store)
    clock.now += 31 * DAY
    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", unlink)
        with pytest.raises(OSError, match="Input/output"):
            clean(store)
    assert store.path(stuck).exists() and not store.path(other).exists() and store.used_bytes == 3
    clean(store)
    assert list(tmp_path.iterdir()) == []
