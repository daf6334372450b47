"""Batches run below the others' requests, and go on after a restart."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from paceline.errors import QueueFull
from paceline.requests import GenerateRequest
from paceline.server.http.drain import DrainGate
from paceline.server.http.requests import Requests
from paceline.server.metrics import Metrics
from paceline.server.openai.batches import runner
from paceline.server.openai.batches.job import Job
from paceline.server.openai.batches.runner import Batches
from paceline.server.openai.batches.store import FileStore
from paceline.server.state import AppState
from paceline.settings import Settings
from tests.server.fake_service import FakeService
from tests.server.harness import user
from tests.server.openai.batches.harness import CHAT, asking, results, serving, start, wait


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


def test_a_batch_without_its_input_fails(tmp_path: Path) -> None:
    (tmp_path / "batches").mkdir()
    job = Job(None, CHAT, "file-gone")
    job.save(tmp_path / "batches")
    with serving(tmp_path) as client:
        batch = wait(client, client.batches.retrieve(job.id))
        assert batch.status == "failed" and batch.errors is not None


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


def test_few_of_a_batch_run_beside_others(tmp_path: Path) -> None:
    service = FakeService()
    service.ready = True
    settings = Settings(max_num_seqs=16)
    state = AppState(service, settings, Metrics("m", service.stats), DrainGate(), Requests(service.abort))
    batches = Batches(state, tmp_path / "batches", FileStore(tmp_path / "files", 1, 1))
    assert batches._has_room(7) and not batches._has_room(8)
    service.stats = lambda: replace(service.statistics, num_requests_running=5)  # type: ignore[method-assign]
    assert batches._has_room(1) and not batches._has_room(2)
    state.gate.closed = True
    assert not batches._has_room(0)


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
