"""A model without a chat template: it takes prompts of text, and says what is missing where a conversation comes."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from paceline.server.app import announce
from paceline.service import Service
from paceline.settings import Settings
from tests.server.fake_service import FakeService
from tests.server.harness import post_completion, serve, user


@pytest.fixture(scope="module")
def folder(llama: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = Path(shutil.copytree(llama, tmp_path_factory.mktemp("base") / "base-model"))
    (folder / "chat_template.jinja").unlink()
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    del settings["chat_template"]
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return folder


@pytest.fixture(scope="module")
def base(folder: Path) -> Iterator[httpx.Client]:
    settings = Settings(model=str(folder), max_num_seqs=4)
    with serve(Service(settings), settings) as address, httpx.Client(base_url=address, timeout=60) as client:
        yield client


def test_text_is_completed_embedded_scored_and_tokenized(base: httpx.Client) -> None:
    answer = post_completion(base, "Hello", max_tokens=5, ignore_eos=True)
    assert answer.status_code == 200 and answer.json()["usage"]["completion_tokens"] == 5
    free = {"type": "json_object"}
    assert post_completion(base, "Hello", max_tokens=5, response_format=free).status_code == 200
    assert base.post("/v1/embeddings", json={"input": "Hello"}).status_code == 200
    assert base.post("/v1/score", json={"text_1": "Hello", "text_2": "there"}).status_code == 200
    assert base.post("/tokenize", json={"prompt": "Hello"}).json()["count"] > 0


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/chat/completions", {"messages": user("hi")}),
        ("/v1/chat/completions", {"messages": user("hi"), "stream": True}),
        ("/v1/responses", {"input": "hi"}),
        ("/v1/messages", {"messages": user("hi"), "max_tokens": 5}),
        ("/v1/messages/count_tokens", {"messages": user("hi")}),
        ("/tokenize", {"messages": user("hi")}),
    ],
)
def test_a_conversation_is_a_400_that_says_what_gives_a_template(
    base: httpx.Client, path: str, body: dict[str, Any]
) -> None:
    answer = base.post(path, json=body)
    assert answer.status_code == 400
    message = answer.json()["error"]["message"]
    assert "no chat template" in message and "--chat-template" in message


def test_the_status_notes_it(base: httpx.Client) -> None:
    assert any("no chat template" in note for note in base.get("/v1/status").json()["model"]["notes"])


def test_the_announcement_shows_a_command_that_works(capsys: pytest.CaptureFixture[str]) -> None:
    service = FakeService()
    service.takes_chat = False
    announce(Settings(port=8123), service)
    assert "http://127.0.0.1:8123/v1/completions " in capsys.readouterr().out
