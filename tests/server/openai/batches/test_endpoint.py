"""/v1/files and /v1/batches with OpenAI's own client."""

from __future__ import annotations

import errno
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from paceline.errors import SettingsError
from paceline.server.app import create_app
from paceline.server.common.unknown_fields import HEADER
from paceline.server.openai.batches import endpoint as module
from paceline.server.openai.batches.store import FileStore, StoredFile
from paceline.settings import Settings
from tests.server.fake_service import REPLY, FakeService
from tests.server.harness import refused, user
from tests.server.openai.batches.harness import asking, results, serving, start, wait
from tests.waiting import WAIT


def test_a_file_is_stored_listed_read_and_deleted(sdk: openai.OpenAI) -> None:
    file = sdk.files.create(file=("in.jsonl", b"one\n"), purpose="batch")
    assert (file.object, file.bytes, file.filename, file.purpose) == ("file", 4, "in.jsonl", "batch")
    other = sdk.files.create(
        file=("b.jsonl", b"two"), purpose="batch", expires_after={"anchor": "created_at", "seconds": 3600}
    )
    assert other.expires_at == other.created_at + 3600
    assert {file.id, other.id} <= {each.id for each in sdk.files.list(purpose="batch")}
    assert len(sdk.files.list(limit=1).data) == 1
    assert sdk.files.retrieve(file.id) == file
    assert sdk.files.content(file.id).content == b"one\n"
    assert sdk.files.delete(file.id).deleted
    with pytest.raises(openai.NotFoundError, match="not stored"):
        sdk.files.retrieve(file.id)


def test_what_no_batch_needs_is_refused(sdk: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError, match="purpose"):
        sdk.files.create(file=("a.txt", b"x"), purpose="assistants")
    address = str(sdk.base_url)
    assert httpx.post(f"{address}files", json={}).json()["error"]["param"] == "file"
    assert httpx.post(f"{address}files", data={"purpose": "batch"}, files={}).status_code == 400


def upload(client: openai.OpenAI, **fields: str) -> httpx.Response:
    return httpx.post(f"{client.base_url}files", data={"purpose": "batch", **fields}, files={"file": ("a", b"x")})


def test_the_expiry_of_an_upload_may_be_json(sdk: openai.OpenAI) -> None:
    file = upload(sdk, expires_after='{"anchor": "created_at", "seconds": 3600}').json()
    assert file["expires_at"] == file["created_at"] + 3600


@pytest.mark.parametrize(
    "fields",
    [
        *({"expires_after": text} for text in ("", "x", "{", "[]", "3600", '{"seconds": 3600}')),
        {"expires_after": '{"anchor": "created_at", "seconds": "3600"}'},
        {"expires_after": '{"anchor": "created_at", "seconds": 3599}'},
        {"expires_after": '{"anchor": "created_at", "seconds": 3600, "more": 1}'},
        {"expires_after": '{"anchor": "last_active_at", "seconds": 3600}'},
        {"expires_after[anchor]": "created_at", "expires_after[seconds]": "9"},
        {"expires_after[anchor]": "created_at", "expires_after[seconds]": "٣٦٠٠"},
        {"expires_after[anchor]": "created_at", "expires_after[seconds]": "9" * 5000},
        {"expires_after[anchor]": "created_at", "expires_after[seconds]": "3600", "expires_after[more]": "1"},
        {"expires_after[anchor]": "created_at"},
        {"expires_after[]": "created_at"},
        {"expires_after[seconds]": "3600", "expires_after": '{"anchor": "created_at", "seconds": 3600}'},
    ],
)
def test_any_other_expiry_is_refused_by_its_name(sdk: openai.OpenAI, fields: dict[str, str]) -> None:
    error = refused(upload(sdk, **fields), 400, "expires_after")
    assert len(error["message"]) < 200


def test_an_unknown_field_of_an_upload_is_named_and_with_strict_fields_refused(
    sdk: openai.OpenAI, tmp_path: Path
) -> None:
    answer = upload(sdk, bogus="1", purposes="batch")
    assert answer.status_code == 200
    assert answer.headers[HEADER] == "bogus, purposes (did you mean purpose?)"
    assert (
        HEADER not in upload(sdk, **{"expires_after[anchor]": "created_at", "expires_after[seconds]": "3600"}).headers
    )
    with serving(tmp_path, strict_fields=True) as client:
        refused(upload(client, bogus="1"), 400, "bogus", "unknown field")
        assert client.files.list().data == []


def test_an_upload_to_a_full_disk_is_a_507_and_one_line_of_the_log(
    sdk: openai.OpenAI, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*arguments: object, **named: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(FileStore, "put", refuse)
    files, line = {"file": ("in.jsonl", b"one")}, "The server cannot store this: its disk is full."
    answer = httpx.post(f"{sdk.base_url}files", data={"purpose": "batch"}, files=files)
    assert answer.status_code == 507
    assert answer.json()["error"] == {"message": line, "type": "server_error", "param": None, "code": "disk_full"}
    [record] = [record for record in caplog.records if record.levelname == "ERROR"]
    assert record.getMessage() == f"POST /v1/files failed: {line}" and record.exc_info is None


def test_a_download_that_has_begun_ends_whole_though_the_file_is_deleted(sdk: openai.OpenAI) -> None:
    content = b"0123456789abcdef" * (1 << 20)  # more than a connection holds
    file = sdk.files.create(file=("in.jsonl", content), purpose="batch")
    with httpx.stream("GET", f"{sdk.base_url}files/{file.id}/content") as answer:
        assert sdk.files.delete(file.id).deleted
        assert answer.read() == content
    assert answer.status_code == 200 and answer.headers["content-length"] == str(len(content))
    with pytest.raises(openai.NotFoundError, match="not stored"):
        sdk.files.content(file.id)


def test_a_part_of_a_file_can_be_asked_for(sdk: openai.OpenAI) -> None:
    file = sdk.files.create(file=("in.jsonl", b"0123456789"), purpose="batch")
    address = f"{sdk.base_url}files/{file.id}/content"
    part = httpx.get(address, headers={"range": "bytes=2-4"})
    assert (part.status_code, part.content) == (206, b"234")
    assert httpx.get(address, headers={"range": "bytes=2-3,5-6"}).content.count(b"\r\n23\r\n") == 1
    assert httpx.get(address, headers={"range": "bytes=90-"}).status_code == 416
    assert httpx.head(address).headers["content-length"] == "10"


def test_a_file_that_is_being_deleted_becomes_no_batchs_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    removing, go_on = threading.Event(), threading.Event()

    def remove(store: FileStore, file: StoredFile) -> None:
        removing.set()
        assert go_on.wait(WAIT)
        removed(store, file)

    removed = FileStore.remove
    monkeypatch.setattr(FileStore, "remove", remove)
    with serving(tmp_path) as client, ThreadPoolExecutor() as pool:
        file = client.files.create(file=("in.jsonl", b"{}"), purpose="batch")
        deleting = pool.submit(client.files.delete, file.id)
        assert removing.wait(WAIT)
        try:
            for call in (client.files.content, client.files.delete):
                with pytest.raises(openai.NotFoundError):
                    call(file.id)
            with pytest.raises(openai.NotFoundError) as caught:
                client.batches.create(input_file_id=file.id, endpoint="/v1/embeddings", completion_window="24h")
            assert caught.value.param == "input_file_id"
        finally:
            go_on.set()
        assert deleting.result().deleted
        assert client.batches.list().data == []


def test_a_batch_has_an_output_file_and_an_error_file(sdk: openai.OpenAI, worker: FakeService) -> None:
    bad = {"custom_id": "bad", "method": "POST", "url": "/v1/chat/completions", "body": {"messages": "x"}}
    batch = wait(sdk, start(sdk, [*asking("one", "two", "!fail 1"), bad], metadata={"a": "b"}))
    assert batch.status == "completed" and batch.metadata == {"a": "b"}
    assert batch.request_counts is not None and batch.request_counts.to_dict() == {
        "total": 4,
        "completed": 2,
        "failed": 2,
    }
    good = results(sdk, batch.output_file_id)
    assert set(good) == {"r0", "r1"}
    reply = good["r0"]["response"]
    assert reply["status_code"] == 200 and reply["request_id"].startswith("req_") and good["r0"]["error"] is None
    assert reply["body"]["choices"][0]["message"]["content"] == REPLY
    errors = results(sdk, batch.error_file_id)
    assert (errors["r2"]["response"]["status_code"], errors["bad"]["response"]["status_code"]) == (500, 400)
    assert errors["bad"]["response"]["body"]["error"]["param"] == "messages"
    assert {(request.priority, request.tenant) for request in worker.requests[-3:]} == {(1000, "batches/all")}
    assert batch.id in [each.id for each in sdk.batches.list()]


@pytest.mark.parametrize(
    ("endpoint", "body"),
    [
        ("/v1/chat/completions", {"messages": user("hi")}),
        ("/v1/completions", {"prompt": "x"}),
        ("/v1/embeddings", {"input": "x"}),
        ("/v1/responses", {"input": "x"}),
    ],
)
def test_a_wrong_priority_of_a_request_is_an_error_of_this_request(
    sdk: openai.OpenAI, worker: FakeService, endpoint: str, body: dict[str, Any]
) -> None:
    given = ["zzz", 1001, True, 0.5, [], 7, None]
    lines = [{"custom_id": str(i), "url": endpoint, "body": {**body, "priority": each}} for i, each in enumerate(given)]
    before = len(worker.requests)
    batch = wait(sdk, start(sdk, lines, endpoint))
    errors = results(sdk, batch.error_file_id)
    assert set(errors) == {"0", "1", "2", "3", "4"} and set(results(sdk, batch.output_file_id)) == {"5", "6"}
    for result in errors.values():
        assert result["response"]["status_code"] == 400
        assert result["response"]["body"]["error"]["param"] == "priority"
    if endpoint != "/v1/embeddings":  # the fake service notes no priority of those
        assert [request.priority for request in worker.requests[before:]] == [1000, 1000]


def test_an_unknown_key_of_a_line_is_logged_and_with_strict_fields_an_error_of_this_line(
    sdk: openai.OpenAI, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lines = [{**line, "boddy": 1} if line["custom_id"] == "r1" else line for line in asking("one", "two")]
    assert set(results(sdk, wait(sdk, start(sdk, lines)).output_file_id)) == {"r0", "r1"}
    assert "a line of a batch: a field that this server does not know was ignored: boddy" in caplog.text
    with serving(tmp_path, strict_fields=True) as client:
        batch = wait(client, start(client, lines))
        assert batch.status == "completed" and set(results(client, batch.output_file_id)) == {"r0"}
        response = results(client, batch.error_file_id)["r1"]["response"]
    assert response["status_code"] == 400 and response["request_id"].startswith("req_")
    assert response["body"]["error"]["param"] == "boddy"


def test_every_endpoint_has_batches(sdk: openai.OpenAI) -> None:
    for endpoint, body in (
        ("/v1/completions", {"prompt": "x"}),
        ("/v1/embeddings", {"input": "x"}),
        ("/v1/responses", {"input": "x"}),
    ):
        lines = [{"custom_id": "a", "method": "POST", "url": endpoint, "body": body}]
        batch = wait(sdk, start(sdk, lines, endpoint))
        assert results(sdk, batch.output_file_id)["a"]["response"]["status_code"] == 200


def test_a_batch_with_a_bad_line_fails_and_says_which(sdk: openai.OpenAI) -> None:
    batch = wait(sdk, start(sdk, [*asking("one"), "{", *asking("x", stream=True)]))
    assert batch.status == "failed" and batch.errors is not None and batch.errors.data is not None
    found = [(error.line, error.code, error.param) for error in batch.errors.data]
    assert found == [(2, "invalid_json_line", None), (3, "invalid_request", "body.stream")]
    with pytest.raises(openai.BadRequestError, match="nothing is left"):
        sdk.batches.cancel(batch.id)


def test_what_a_batch_needs_is_checked(sdk: openai.OpenAI) -> None:
    file = sdk.files.create(file=("in.jsonl", b"x"), purpose="batch")
    for fields, param in (
        ({"endpoint": "/v1/moderations"}, "endpoint"),
        ({"completion_window": "1h"}, "completion_window"),
        ({"metadata": {"n": "v" * 513}}, "metadata.n"),
        ({"output_expires_after": {"anchor": "created_at", "seconds": 3600}}, "output_expires_after"),
    ):
        body = {"input_file_id": file.id, "endpoint": "/v1/embeddings", "completion_window": "24h", **fields}
        with pytest.raises(openai.BadRequestError) as caught:
            sdk.post("/batches", body=body, cast_to=object)
        assert caught.value.param == param
    with pytest.raises(openai.NotFoundError, match="file-none"):
        sdk.batches.create(input_file_id="file-none", endpoint="/v1/embeddings", completion_window="24h")
    with pytest.raises(openai.NotFoundError, match="batch_none"):
        sdk.batches.retrieve("batch_none")


def test_a_batch_is_cancelled_and_says_what_was_not_answered(sdk: openai.OpenAI, worker: FakeService) -> None:
    worker.hanging.clear()
    started = start(sdk, asking("one", "!hang 1", "!hang 1"))
    assert worker.hanging.wait(60)
    with pytest.raises(openai.BadRequestError, match="cancel the batch first"):
        sdk.files.delete(started.input_file_id)
    assert sdk.batches.cancel(started.id).status in ("cancelling", "cancelled")
    batch = wait(sdk, started)
    assert batch.status == "cancelled" and batch.cancelled_at is not None
    assert set(results(sdk, batch.output_file_id)) <= {"r0"}
    errors = results(sdk, batch.error_file_id)
    assert {"r1", "r2"} <= set(errors) and errors["r1"]["error"]["code"] == "batch_cancelled"
    assert worker.idle.wait(60)


def test_a_batch_that_is_cancelled_while_it_waits_for_another_is_cancelled_at_once(
    sdk: openai.OpenAI, worker: FakeService
) -> None:
    worker.hanging.clear()
    first = start(sdk, asking("!hang 1"))
    assert worker.hanging.wait(WAIT)
    second = start(sdk, asking("one"))
    cancelled = sdk.batches.cancel(second.id)
    assert cancelled.status == "cancelled" and cancelled.cancelling_at and cancelled.cancelled_at
    assert sdk.batches.cancel(second.id).status == "cancelled"
    assert sdk.files.delete(second.input_file_id).deleted
    assert sdk.batches.retrieve(first.id).status == "in_progress"
    sdk.batches.cancel(first.id)
    assert wait(sdk, first).status == "cancelled" and wait(sdk, start(sdk, asking("one"))).status == "completed"
    assert sdk.batches.retrieve(second.id).errors is None
    assert worker.idle.wait(WAIT)


def test_files_and_batches_are_their_keys_own(tmp_path: Path) -> None:
    with serving(tmp_path, api_key="secret,other") as client:
        batch = wait(client, start(client, asking("one")))
        other = client.with_options(api_key="other")
        for call in (
            lambda: other.batches.retrieve(batch.id),
            lambda: other.batches.cancel(batch.id),
            lambda: other.files.retrieve(batch.input_file_id),
            lambda: other.files.content(str(batch.output_file_id)),
        ):
            with pytest.raises(openai.NotFoundError):
                call()
        assert other.batches.list().data == [] and other.files.list().data == []


def test_what_a_batch_makes_is_its_keys_own(tmp_path: Path) -> None:
    service = FakeService()
    with serving(tmp_path, service, api_key="secret,other") as client:
        line = {"custom_id": "a", "method": "POST", "url": "/v1/responses", "body": {"input": "x"}}
        batch = wait(client, start(client, [line], "/v1/responses"))
        made = results(client, batch.output_file_id)["a"]["response"]["body"]["id"]
        assert client.responses.retrieve(made).output_text == REPLY
        with pytest.raises(openai.NotFoundError):
            client.with_options(api_key="other").responses.retrieve(made)
    assert service.requests[0].tenant == "batches/key-1"


def test_a_key_has_so_many_batches_and_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_JOBS", 2)
    with serving(tmp_path, api_key="secret,other") as client:
        for _ in range(2):
            wait(client, start(client, asking("one")))  # that they have ended is no help
        with pytest.raises(openai.BadRequestError, match="2 batches here already: the oldest goes 30 days") as caught:
            start(client, asking("one"))
        assert caught.value.code == "too_many_batches"
        assert start(client.with_options(api_key="other"), asking("one")).id


def test_the_limit_on_all_files_is_one_on_uploads(tmp_path: Path) -> None:
    with serving(tmp_path, files_gb=1e-8) as client, pytest.raises(openai.BadRequestError, match="--files-gb"):
        client.files.create(file=("in.jsonl", b"x" * 100), purpose="batch")


def test_a_folder_that_cannot_be_made_is_said_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SettingsError, match="^The files folder .* cannot be used: Not a directory"):
        create_app(FakeService(), Settings(files_dir=tmp_path / "file" / "x"))


def test_a_folder_is_one_servers_while_it_runs(tmp_path: Path) -> None:
    settings = Settings(files_dir=tmp_path)
    with serving(tmp_path), pytest.raises(SettingsError, match=f"^The files folder {tmp_path} is in use by another"):
        create_app(FakeService(), settings)
    with serving(tmp_path) as client:
        assert client.batches.list().data == []


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "files/..%2f..%2fetc", 404),
        ("GET", "files/file-1/content/more", 404),
        ("GET", "batches/batch_1/none", 404),
        ("PUT", "files", 405),
        ("DELETE", "batches", 405),
        ("PATCH", "batches/batch_1", 404),
    ],
)
def test_a_server_with_a_folder_for_files_does_not_say_it_has_none(
    sdk: openai.OpenAI, method: str, path: str, status: int
) -> None:
    answer = httpx.request(method, f"{sdk.base_url}{path}")
    assert answer.status_code == status and "--files-dir" not in answer.text
    if status == 405:
        assert answer.headers["allow"] == "GET, HEAD, POST"
    else:
        assert answer.json()["error"]["message"].startswith("There is no /v1/")
