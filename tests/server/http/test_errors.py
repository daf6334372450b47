from __future__ import annotations

import threading
from typing import Any

import httpx
import pytest
from pydantic import ValidationError
from starlette.exceptions import HTTPException

from paceline.errors import (
    DeadlineExceeded,
    EngineUnavailable,
    InvalidRequest,
    NeverFits,
    PromptTooLong,
    QueueFull,
    QueueTimeout,
    Refused,
    RequestFailed,
    SlowReader,
    UnknownLora,
    Unsupported,
)
from paceline.server.app import create_app
from paceline.server.http.errors import (
    BodyTooLarge,
    Cancelled,
    Forbidden,
    HeadTooLarge,
    ModelNotFound,
    NotRunning,
    TooSlow,
    Unauthorized,
    error_object,
    error_response,
    field_path,
    invalid_fields,
)
from paceline.server.openai.schema import ChatBody
from paceline.settings import Settings
from tests.server.fake_service import FakeService
from tests.server.harness import refused


@pytest.mark.parametrize(
    ("error", "status", "kind"),
    [
        (InvalidRequest("bad", field="n", code="c"), 400, "invalid_request_error"),
        (Unsupported.at("n", "is not taken."), 400, "invalid_request_error"),
        (PromptTooLong(10, 5), 400, "invalid_request_error"),
        (NeverFits(9000, 2_000_000_000, 1_000_000_000), 400, "invalid_request_error"),
        (NotRunning("chatcmpl-1"), 404, "invalid_request_error"),
        (Cancelled(), 499, "invalid_request_error"),
        (QueueFull("full", 3), 429, "rate_limit_error"),
        (QueueTimeout("late", 3), 503, "service_unavailable"),
        (SlowReader("slow", 3), 503, "service_unavailable"),
        (DeadlineExceeded("late", 3), 504, "timeout_error"),
        (Unauthorized("no key"), 401, "invalid_request_error"),
        (Forbidden("no"), 403, "invalid_request_error"),
        (ModelNotFound("a", ["b"]), 404, "invalid_request_error"),
        (UnknownLora("a", ["b"]), 404, "invalid_request_error"),
        (TooSlow(30), 408, "invalid_request_error"),
        (BodyTooLarge(2**20), 413, "invalid_request_error"),
        (HeadTooLarge(2**15), 431, "invalid_request_error"),
        (RequestFailed("broke"), 500, "server_error"),
        (EngineUnavailable("busy"), 503, "service_unavailable"),
        (HTTPException(405), 405, "invalid_request_error"),
        (ValueError("internal"), 500, "server_error"),
    ],
)
def test_each_error_has_its_status_and_openais_object(error: Exception, status: int, kind: str) -> None:
    response = error_response(error)
    assert response.status_code == status
    assert ("retry-after" in response.headers) == (status in (429, 503, 504))
    if isinstance(error, Refused):
        assert response.headers["retry-after"] == "3"
        assert error_object(error)["error"]["code"] == error.cause
    assert ("www-authenticate" in response.headers) == (status == 401)
    body = error_object(error)["error"]
    assert body["type"] == kind
    assert set(body) == {"message", "type", "param", "code"}


def test_what_never_fits_is_told_with_its_numbers() -> None:
    message = error_object(NeverFits(9000, 2_000_000_000, 1_000_000_000))["error"]["message"]
    assert all(number in message for number in ("9000 tokens", "2.00 GB", "1.00 GB"))


def test_an_error_that_nobody_wrote_for_the_user_is_not_shown() -> None:
    assert "internal" not in error_object(ValueError("internal"))["error"]["message"]


def test_a_fields_path_is_written_as_a_client_writes_it() -> None:
    assert field_path(("messages", 0, "content", 2, "type")) == "messages[0].content[2].type"
    assert field_path(()) == ""


def test_a_validation_error_does_not_quote_what_the_client_said() -> None:
    with pytest.raises(ValidationError) as caught:
        ChatBody.model_validate({"messages": [], "temperature": "a private matter"})
    error = invalid_fields(caught.value)
    assert error.field == "temperature"
    assert "private" not in str(error)


def test_an_unknown_path_and_method_have_openais_error_object(http: httpx.Client) -> None:
    refused(http.get("/v1/nothing"), 404, None)
    refused(http.get("/v1/chat/completions"), 405, None, "/v1/chat/completions takes POST, not GET")


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("/v1/responses/input_tokens", "POST"),  # of its own, though it may look like an id
        ("/v1/responses/resp_1", "DELETE, GET, HEAD"),
        ("/v1/models", "GET, HEAD"),
    ],
)
def test_a_path_lists_the_methods_that_it_takes(http: httpx.Client, path: str, allowed: str) -> None:
    answer = http.put(path)
    refused(answer, 405, None, f"{path} takes {allowed}, not PUT")
    assert answer.headers["allow"] == allowed


async def test_the_schema_that_knows_all_paths_is_not_made_on_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every stream would stand still meanwhile."""
    app = create_app(FakeService(), Settings())
    threads: list[int] = []
    make = app.openapi

    def noted() -> dict[str, Any]:
        threads.append(threading.get_ident())
        return make()

    monkeypatch.setattr(app, "openapi", noted)
    transport = httpx.ASGITransport(app, client=("127.0.0.1", 1234))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8000") as http:
        refused(await http.get("/v1/chatt/completions"), 404, None, "did you mean /v1/chat/completions?")
        refused(await http.put("/v1/models"), 405, None)
    assert len(threads) == 2 and threading.get_ident() not in threads
