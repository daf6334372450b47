"""A batch's input, its results, and its description."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from openai.types import Batch

from paceline.server.openai.batches import job as module
from paceline.server.openai.batches.job import BadLine, Job, finished, problems_of, read_line
from paceline.server.openai.batches.store import load_described

CHAT = "/v1/chat/completions"


def line(id: Any = "a", **fields: Any) -> bytes:
    return json.dumps({"custom_id": id, "method": "POST", "url": CHAT, "body": {}, **fields}).encode() + b"\n"


def test_a_job_is_openais_batch_and_outlives_the_process(tmp_path: Path) -> None:
    job = Job("key-1", CHAT, "file-1", {"a": "b"}, total=3, completed=1, failed=1)
    job.become("in_progress")
    shown = Batch.model_validate(job.described(), strict=True)
    assert (shown.status, shown.completion_window, shown.metadata) == ("in_progress", "24h", {"a": "b"})
    assert shown.request_counts is not None and shown.request_counts.total == 3
    assert shown.expires_at == job.created_at + 86400 and shown.in_progress_at is not None
    job.save(tmp_path)
    assert load_described(tmp_path, "*.json", Job) == {job.id: job}


@pytest.mark.parametrize(
    "text",
    [
        *("{", "[]", "{}", '{"unknown": 1}', '{"owner": null, "endpoint": "x"}'),
        '{"owner": null, "endpoint": "x", "input_file_id": "y", "unknown": 1}',
        '{"owner": null, "endpoint": "x", "input_file_id": "y", "created_at": "yesterday", "expires_at": 1}',
    ],
)
def test_what_describes_no_batch_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "other.json").write_text(text)
    assert load_described(tmp_path, "*.json", Job) == {}


def test_an_input_is_read_line_by_line(tmp_path: Path) -> None:
    path = tmp_path / "in"
    path.write_bytes(line("a") + b"\n" + line("b", method=None))
    assert problems_of(path, CHAT) == (2, [])


@pytest.mark.parametrize(
    ("text", "code", "param"),
    [
        (b"{", "invalid_json_line", None),
        (b"[]", "invalid_json_line", None),
        (line(None), "missing_required_parameter", "custom_id"),
        (line("x" * 513), "missing_required_parameter", "custom_id"),
        (line(method="GET"), "invalid_method", "method"),
        (line(url="/v1/embeddings"), "mismatched_endpoint", "url"),
        (line(body="x"), "missing_required_parameter", "body"),
        (line(body={"stream": True}), "invalid_request", "body.stream"),
        (line(body={"background": True}), "invalid_request", "body.background"),
    ],
)
def test_a_bad_line_says_what_is_wrong(text: bytes, code: str, param: str | None) -> None:
    with pytest.raises(BadLine) as caught:
        read_line(text, CHAT)
    assert (caught.value.code, caught.value.param) == (code, param)


def test_every_problem_of_an_input_has_its_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "in"
    path.write_bytes(line("a") + b"{\n" + line("a"))
    count, problems = problems_of(path, CHAT)
    assert count == 3
    assert [(problem["line"], problem["code"]) for problem in problems] == [
        (2, "invalid_json_line"),
        (3, "duplicate_custom_id"),
    ]
    monkeypatch.setattr(module, "MAX_REQUESTS", 2)
    assert problems_of(path, CHAT)[1][-1]["code"] == "too_many_requests"
    path.write_bytes(b"\n")
    assert problems_of(path, CHAT)[1][0]["code"] == "empty_file"


def test_half_a_result_is_forgotten(tmp_path: Path) -> None:
    path = tmp_path / "out"
    assert finished(path) == {}
    whole = b'{"custom_id":"a"}\n{"custom_id":"b","error":{}}\n'
    for half in (b'{"cus', b"\0\0\n", b'[]\n{"custom_id":"c"}\n'):
        path.write_bytes(whole + half)
        assert finished(path) == {"a": True, "b": False}, "no answer is an error of the batch, not of the request"
        assert path.read_bytes() == whole
