"""Batches run below the others' requests, and go on after a restart."""

from __future__ import annotations

import asyncio
import errno
import json
import threading
import time
import uuid
from dataclasses import asdict, replace
from pathlib import Path

import openai
import pytest

from paceline.errors import QueueFull
from paceline.requests import GenerateRequest
from paceline.server.http.drain import DrainGate
from paceline.server.http.requests import Requests
from paceline.server.metrics import Metrics
from paceline.server.openai.batches import runner
from paceline.server.openai.batches.job import Job, Status
from paceline.server.openai.batches.runner import Batches
from paceline.server.openai.batches.store import FileStore, StoredFile, new_id, write_json
from paceline.server.state import AppState
from paceline.settings import Settings
from paceline.stats import Stats
from tests.server.fake_service import FakeService
from tests.server.harness import user
from tests.server.openai.batches.harness import CHAT, asking, results, serving, start, wait
from tests.waiting import until_async


def test_a_batch_goes_on_after_a_restart(tmp_path: Path) -> None:
    first = FakeService()
    with serving(tmp_path, first) as client:
        batch = start(client, asking("one", "!hang 1", "three"))
        assert first.hanging.wait(60)
        while wait(client, batch, "in_progress").request_counts.completed < 2:  # type: ignore[union-attr]
            pass
    second = FakeService()
    with serving(tmp_path, second) as client:
        assert second.hanging.wait(60)
        second.aborted.clear()
        second.release()
        batch = wait(client, batch)
        assert batch.status == "completed" and set(results(client, batch.output_file_id)) == {"r0", "r1", "r2"}
    assert len(second.requests) == 1  # only what was not answered before


def test_a_batch_that_was_cancelled_before_a_restart_is_cancelled_after_it(tmp_path: Path) -> None:
    files = FileStore(tmp_path / "files", 10**6, 30)
    input = files.put(None, "in", "batch", iter([json.dumps(asking("one")[0]).encode()]))
    job = Job(None, CHAT, input.id)
    (tmp_path / "batches").mkdir()
    job.become("cancelling")
    job.save(tmp_path / "batches")
    late = Job(None, CHAT, input.id, created_at=1000)
    late.save(tmp_path / "batches")
    with serving(tmp_path) as client:
        shown = wait(client, client.batches.retrieve(job.id))
        assert shown.status == "cancelled" and shown.output_file_id is None
        expired = wait(client, client.batches.retrieve(late.id))
        assert expired.status == "expired"
        assert results(client, expired.error_file_id)["r0"]["error"]["code"] == "batch_expired"


@pytest.mark.parametrize("status", ["finalizing", "cancelling"])
@pytest.mark.parametrize("adopted", ["", "output", "output error"])
def test_a_batch_that_was_answered_before_a_restart_is_not_answered_again(
    tmp_path: Path, status: Status, adopted: str
) -> None:
    files = FileStore(tmp_path / "files", 10**6, 30)
    requests = asking("one", "two", "three")
    input = files.put(None, "in", "batch", iter([json.dumps(line).encode() + b"\n" for line in requests]))
    job = Job(None, CHAT, input.id, total=3, completed=2, failed=1, output_file_id=new_id(), error_file_id=new_id())
    folder = tmp_path / "batches"
    folder.mkdir()
    for kind, ids in (("output", ("r0", "r1")), ("error", ("r2",))):
        part = folder / f"{job.id}.{kind}"
        part.write_text("".join(json.dumps({"custom_id": id}) + "\n" for id in ids))
        if kind in adopted:
            files.adopt(part, None, "x", "batch_output", id=getattr(job, f"{kind}_file_id"))
    job.become("in_progress")
    job.become(status)
    assert job.described()["output_file_id"] is None, "it is not there for the client yet"
    job.save(folder)
    service = FakeService()
    with serving(tmp_path, service) as client:
        batch = wait(client, client.batches.retrieve(job.id))
        assert batch.status == ("completed" if status == "finalizing" else "cancelled")
        assert set(results(client, batch.output_file_id)) == {"r0", "r1"}
        assert set(results(client, batch.error_file_id)) == {"r2"}
    assert not service.requests and not list(folder.glob("*.output")) and not list(folder.glob("*.error"))


def test_a_batch_whose_output_cannot_be_kept_has_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def adopt(*arguments: object, **named: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(FileStore, "adopt", adopt)
    (tmp_path / "batches").mkdir()
    files = FileStore(tmp_path / "files", 10**6, 30)
    (tmp_path / "files" / "file-in.bin").write_text(json.dumps(asking("one")[0]))
    write_json(tmp_path / "files" / "file-in.json", asdict(StoredFile("file-in", None, "in", "batch", 1, 0, 2**40)))
    job = Job(None, CHAT, "file-in")
    job.save(tmp_path / "batches")
    assert not files.of(None)
    with serving(tmp_path) as client:
        batch = wait(client, client.batches.retrieve(job.id))
        assert batch.status == "failed" and batch.output_file_id is None and batch.error_file_id is None


def test_a_batch_with_a_line_that_is_not_allowed_any_more_says_so(tmp_path: Path) -> None:
    files = FileStore(tmp_path / "files", 10**6, 30)
    [line] = asking("one")
    line["body"]["stream"] = True
    input = files.put(None, "in", "batch", iter([json.dumps(line).encode()]))
    job = Job(None, CHAT, input.id, total=1)
    job.become("in_progress")
    (tmp_path / "batches").mkdir()
    job.save(tmp_path / "batches")
    with serving(tmp_path) as client:
        batch = wait(client, client.batches.retrieve(job.id))
        assert batch.status == "failed" and batch.errors is not None and batch.errors.data is not None
        assert [error.message for error in batch.errors.data] == ["A request of a batch cannot ask for stream."]


def interrupted(folder: Path, *, days: float = 30, seconds: int | None = None) -> tuple[Job, FileStore]:
    """What a server leaves that was killed after one of two requests."""
    files = FileStore(folder / "files", 10**6, days, lambda: time.time() - (0 if seconds is None else seconds + 1))
    text = "\n".join(map(json.dumps, asking("one", "two"))).encode()
    input = files.put(None, "in", "batch", iter([text]), seconds)
    job = Job(None, CHAT, input.id, total=2)
    job.become("in_progress")
    (folder / "batches").mkdir()
    (folder / "batches" / f"{job.id}.output").write_text('{"custom_id": "r0", "error": null}\n{"cus')
    job.save(folder / "batches")
    return job, files


def test_a_batch_goes_on_though_its_input_expired_while_the_server_was_down(tmp_path: Path) -> None:
    job, files = interrupted(tmp_path, seconds=3600)
    with serving(tmp_path) as client:
        batch = wait(client, client.batches.retrieve(job.id))
        assert batch.status == "completed" and set(results(client, batch.output_file_id)) == {"r0", "r1"}
        with pytest.raises(openai.NotFoundError):
            client.files.retrieve(job.input_file_id)
    with serving(tmp_path):
        assert not files.path(job.input_file_id).exists()  # nothing needs it any more


def test_what_was_answered_before_a_restart_counts_from_its_start(tmp_path: Path) -> None:
    job, _ = interrupted(tmp_path)
    assert batches_of(FakeService(), tmp_path).jobs[job.id].completed == 1


def test_what_was_answered_before_a_batch_failed_is_its_output(tmp_path: Path) -> None:
    job, files = interrupted(tmp_path)
    files.path(job.input_file_id).unlink()
    with serving(tmp_path) as client:
        batch = wait(client, client.batches.retrieve(job.id))
        assert batch.status == "failed" and batch.errors is not None
        assert batch.request_counts is not None
        assert (batch.request_counts.completed, batch.request_counts.failed) == (1, 0)
        assert set(results(client, batch.output_file_id)) == {"r0"} and batch.error_file_id is None
    assert not list((tmp_path / "batches").glob("*.output"))


def test_what_was_answered_is_kept_until_it_can_be_handed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def adopt(*arguments: object, **named: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    job, files = interrupted(tmp_path)
    files.path(job.input_file_id).unlink()
    with monkeypatch.context() as patch:
        patch.setattr(FileStore, "adopt", adopt)
        with serving(tmp_path) as client:
            batch = wait(client, client.batches.retrieve(job.id))
            assert batch.status == "failed" and batch.output_file_id is None
    with serving(tmp_path) as client:
        batch = wait(client, client.batches.retrieve(job.id))
        assert batch.status == "failed" and batch.errors is not None and batch.errors.data is not None
        assert [error.message for error in batch.errors.data] == ["No such file or directory"]
        assert set(results(client, batch.output_file_id)) == {"r0"}


def test_a_batch_without_its_input_fails(tmp_path: Path) -> None:
    (tmp_path / "batches").mkdir()
    job = Job(None, CHAT, "file-gone")
    job.save(tmp_path / "batches")
    with serving(tmp_path) as client:
        batch = wait(client, client.batches.retrieve(job.id))
        assert batch.status == "failed" and batch.errors is not None and batch.errors.data is not None
        assert [error.message for error in batch.errors.data] == ["No such file or directory"]  # and no path


def test_a_batch_whose_end_cannot_be_saved_holds_up_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def save(job: Job, folder: Path) -> None:
        if job.status == "failed":
            raise OSError(errno.ENOSPC, "No space left on device")
        saved(job, folder)

    saved = Job.save
    monkeypatch.setattr(Job, "save", save)
    (tmp_path / "batches").mkdir()
    lost = Job(None, CHAT, "file-gone")
    lost.save(tmp_path / "batches")
    with serving(tmp_path) as client:
        assert wait(client, client.batches.retrieve(lost.id)).status == "failed"
        assert wait(client, start(client, asking("one"))).status == "completed"


def test_no_request_of_a_batch_starts_while_another_waits(tmp_path: Path) -> None:
    service = FakeService()
    service.statistics = replace(service.statistics, num_requests_waiting=1)
    with serving(tmp_path, service) as client:
        batch = start(client, asking("one"))
        wait(client, batch, "in_progress")
        chat = client.chat.completions.create(model="fake/model", messages=user("hi"))  # type: ignore[arg-type]
        assert chat.choices and len(service.requests) == 1
        service.statistics = replace(service.statistics, num_requests_waiting=0)
        assert wait(client, batch).status == "completed"


def batches_of(service: FakeService, folder: Path) -> Batches:
    service.ready = True
    settings = Settings(max_num_seqs=16)
    state = AppState(service, settings, Metrics("m", service.stats), DrainGate(), Requests(service.abort))
    return Batches(state, folder / "batches", FileStore(folder / "files", 1000, 1))


async def test_few_of_a_batch_run_beside_others(tmp_path: Path) -> None:
    service = FakeService()
    batches = batches_of(service, tmp_path)
    assert await batches._has_room(7) and not await batches._has_room(8)
    service.stats = lambda: replace(service.statistics, num_requests_running=5)  # type: ignore[method-assign]
    assert await batches._has_room(1) and not await batches._has_room(2)
    batches.state.gate.closed = True
    assert not await batches._has_room(0)


async def test_the_engines_locks_hold_up_no_event_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[int] = []

    def count() -> Stats:
        threads.append(threading.get_ident())
        return Stats()

    service = FakeService()
    monkeypatch.setattr(service, "stats", count)
    assert await batches_of(service, tmp_path)._has_room(0)
    assert len(threads) == 1 and threading.get_ident() not in threads


async def test_old_files_are_removed_again_and_again_but_no_running_batchs_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cleaned: list[set[str]] = []

    def expired(used: set[str]) -> list[StoredFile]:
        cleaned.append(used)
        if len(cleaned) == 1:
            raise OSError(errno.EIO, "Input/output error")
        return []

    monkeypatch.setattr(runner, "CLEAN_SECONDS", 0.0)
    batches = batches_of(FakeService(), tmp_path)
    monkeypatch.setattr(batches.files, "expired", expired)
    ended, runs, old = Job(None, CHAT, "file-1", status="failed"), Job(None, CHAT, "file-2"), Job(None, CHAT, "file-3")
    old.status, old.created_at = "completed", 1000
    for job in (ended, runs, old):
        await batches.add(job)
    cleaning = asyncio.create_task(batches._clean_now_and_then())
    await until_async(lambda: len(cleaned) > 2)
    cleaning.cancel()
    await asyncio.gather(cleaning, return_exceptions=True)
    assert cleaned[0] == cleaned[-1] == {"file-2"}
    assert set(batches.jobs) == {ended.id, runs.id} and not (batches.folder / f"{old.id}.json").exists()


async def test_the_state_that_is_saved_last_is_the_latest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inside, most, saved = 0, list[int](), Job.save

    def save(job: Job, folder: Path) -> None:
        nonlocal inside
        inside += 1
        most.append(inside)
        saved(job, folder)
        inside -= 1

    batches = batches_of(FakeService(), tmp_path)
    monkeypatch.setattr(Job, "save", save)
    job = Job(None, CHAT, "file-1")
    await asyncio.gather(batches.add(job), *(batches._save(job) for _ in range(8)), batches.cancel(job))
    assert set(most) == {1}
    assert json.loads((tmp_path / "batches" / f"{job.id}.json").read_text())["status"] == "cancelled"


async def test_batches_of_one_second_keep_their_order_after_a_restart(tmp_path: Path) -> None:
    older = Job(None, CHAT, "file-1", id=f"batch_{uuid.uuid4().hex}", created_at=1000)  # as ids were once
    made = [older, *(Job(None, CHAT, "file-1", created_at=2000) for _ in range(20))]
    batches = batches_of(FakeService(), tmp_path)
    for job in made:
        await batches.add(job)
    assert list(batches_of(FakeService(), tmp_path).jobs) == list(batches.jobs) == [job.id for job in made]


def test_a_file_that_describes_no_batch_is_skipped_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "batches").mkdir()
    (tmp_path / "batches" / "batch_1.json").write_text('{"id": "batch_1"}')
    with serving(tmp_path) as client:
        assert client.batches.list().data == []


class Full(FakeService):
    """The queue is full once."""

    asked = False

    def _text(self, request: GenerateRequest, field: str = "prompt") -> list[int]:
        if not self.asked:
            self.asked = True
            raise QueueFull("not now", 1)
        return super()._text(request, field)


def test_a_request_that_is_refused_for_now_is_sent_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "RETRY_SECONDS", 0.01)
    line = {"custom_id": "a", "method": "POST", "url": "/v1/completions", "body": {"prompt": "x"}}
    with serving(tmp_path, Full()) as client:
        batch = wait(client, start(client, [line], "/v1/completions"))
        assert results(client, batch.output_file_id)["a"]["response"]["status_code"] == 200
