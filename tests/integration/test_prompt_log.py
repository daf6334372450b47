"""No text of a request is logged, whatever it is and at any level, unless `--log-prompts` asks for it."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from paceline.logs import FIELDS
from paceline.service import Service
from paceline.settings import Settings
from tests.models.test_vision import picture, url
from tests.server.harness import serve, user
from tests.server.openai.batches.harness import asking, start, wait
from tests.waiting import WAIT

SECRET = "xyzzy plugh"
SHORT = {"max_tokens": 2, "temperature": 0}
CLIENTS = ("httpx", "httpcore", "openai", "asyncio")
ASKED: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"messages": user(SECRET), **SHORT},
    "/v1/completions": {"prompt": SECRET, **SHORT},
    "/v1/responses": {"input": SECRET, "max_output_tokens": 2},
    "/v1/embeddings": {"input": SECRET},
    "/v1/rerank": {"query": "q", "documents": [SECRET]},
    "/v1/messages": {"messages": user(SECRET), "max_tokens": 2},
    "/api/chat": {"messages": user(SECRET), "options": {"num_predict": 2}},
    "/api/generate": {"prompt": SECRET, "options": {"num_predict": 2}},
    "/api/embed": {"input": SECRET},
}


@contextmanager
def server(model: Path, files: Path, caplog: pytest.LogCaptureFixture, **more: Any) -> Iterator[httpx.Client]:
    caplog.set_level("DEBUG")
    settings = Settings(model=str(model), served_model_name="tiny", max_num_seqs=4, files_dir=files, **more)
    with serve(Service(settings), settings) as address, httpx.Client(base_url=address, timeout=WAIT) as http:
        caplog.clear()
        yield http


def ask(http: httpx.Client, path: str, body: dict[str, Any]) -> httpx.Response:
    return http.post(path, json={"model": "tiny", **body})


def run_batch(http: httpx.Client) -> None:
    with openai.OpenAI(base_url=f"{http.base_url}/v1", api_key="none", timeout=WAIT) as client:
        batch = wait(client, start(client, asking(SECRET, max_tokens=2)))
    assert batch.status == "completed"


def prompts(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    return [record for record in caplog.records if record.name == "paceline.prompts"]


def test_no_text_of_a_request_is_logged(hybrid: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with server(hybrid, tmp_path, caplog) as http:
        for path, body in ASKED.items():
            assert ask(http, path, body).status_code == 200, path
        assert ask(http, "/v1/chat/completions", {"messages": user(SECRET), "max_tokens": -1}).status_code == 400
        assert ask(http, "/v1/chat/completions", {"messages": SECRET}).status_code == 400
        assert ask(http, "/v1/completions", {"prompt": SECRET * 100_000}).status_code == 400
        assert http.post("/v1/completions", content=SECRET).status_code == 400
        run_batch(http)
    ours = [record for record in caplog.records if record.name.partition(".")[0] not in CLIENTS]
    said = [f"{record.getMessage()} {record.__dict__}" for record in ours]
    assert len(said) > len(ASKED) and not any(SECRET in line for line in said)


@pytest.mark.slow
def test_every_prompt_is_logged_where_that_is_asked(
    hybrid: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with server(hybrid, tmp_path, caplog, log_prompts=True) as http:
        for path, body in ASKED.items():
            caplog.clear()
            answer = ask(http, path, body)
            found = prompts(caplog)
            assert sum(SECRET in record.getMessage() for record in found) == 1, path
            name = answer.headers.get("x-request-id") or answer.headers["request-id"]
            assert all(record.getMessage().startswith(f"{name} ") for record in found), path
        caplog.clear()
        run_batch(http)
        assert sum(SECRET in record.getMessage() for record in prompts(caplog)) == 1


@pytest.mark.slow
def test_a_line_is_one_line_is_bounded_and_has_no_picture(
    hybrid: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    shown = picture(0)
    hostile = "one\ntwo\r\x1b[31mred\x9b0m\u2028\u202e"
    parts = [{"type": "image_url", "image_url": {"url": url(shown)}}, {"type": "text", "text": hostile + "word " * 200}]
    with server(hybrid, tmp_path, caplog, log_prompts=True, max_log_len=300) as http:
        answer = ask(http, "/v1/chat/completions", {"messages": user(parts), **SHORT}).json()
    [record] = prompts(caplog)
    line, fields = record.getMessage(), getattr(record, FIELDS)
    assert line.isprintable() and line.endswith("…'") and line.count("word") < 60
    assert hostile in fields["prompt"] and len(fields["prompt"]) == 301
    assert fields["prompt"].count("image_pad") == 1
    assert (fields["id"], fields["prompt_tokens"]) == (answer["id"], answer["usage"]["prompt_tokens"])
