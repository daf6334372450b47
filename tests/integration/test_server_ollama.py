"""Ollama's API and batches over the real service: the answers are the engine's, the same as by other ways."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import jsonschema
import openai
import pytest

from paceline.service import Service
from paceline.settings import Settings
from tests.conftest import Tiny
from tests.prefixes import SMALLEST
from tests.server.harness import post_chat, serve, user
from tests.server.ollama.harness import lines
from tests.server.openai.batches.harness import asking, results, start, wait

GREEDY = {"temperature": 0, "num_predict": 8}


@pytest.fixture(scope="module")
def http(tiny: Tiny, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    model: Path = tiny("hybrid", **SMALLEST)
    folder = tmp_path_factory.mktemp("files")
    settings = Settings(model=str(model), served_model_name="tiny", max_num_seqs=4, files_dir=folder)
    with serve(Service(settings), settings) as address, httpx.Client(base_url=address, timeout=120) as http:
        yield http


def ask(http: httpx.Client, path: str = "/api/chat", **fields: Any) -> httpx.Response:
    return http.post(path, json={"model": "tiny", "options": GREEDY, **fields})


def test_an_answer_is_the_one_that_openais_api_gives(http: httpx.Client) -> None:
    expected = post_chat(http, "Hello", temperature=0, max_tokens=8).json()
    whole = ask(http, messages=user("Hello"), stream=False).json()
    said = expected["choices"][0]["message"]
    assert whole["message"]["content"] == said["content"]
    assert whole["message"].get("thinking", "") == said.get("reasoning_content", "")
    assert whole["prompt_eval_count"] == expected["usage"]["prompt_tokens"]
    assert whole["eval_count"] == expected["usage"]["completion_tokens"]
    streamed = lines(ask(http, messages=user("Hello")))
    assert "".join(line["message"]["content"] for line in streamed) == said["content"]
    generated = ask(http, "/api/generate", prompt="Hello", stream=False).json()
    assert generated["response"] == said["content"]


def test_a_schema_is_kept_to(http: httpx.Client) -> None:
    schema: dict[str, Any] = {"type": "object", "properties": {"yes": {"type": "boolean"}}, "required": ["yes"]}
    schema["additionalProperties"] = False
    answer = ask(http, messages=user("Well?"), format=schema, options={"temperature": 0}, stream=False).json()
    jsonschema.validate(json.loads(answer["message"]["content"]), schema)


def test_a_batch_gives_what_its_requests_give_alone(http: httpx.Client) -> None:
    alone = [post_chat(http, text, temperature=0, max_tokens=8).json() for text in ("one", "two")]
    with openai.OpenAI(base_url=f"{http.base_url}/v1", api_key="none", max_retries=0) as client:
        batch = wait(client, start(client, asking("one", "two", temperature=0, max_tokens=8)))
        found = results(client, batch.output_file_id)
    for place, expected in enumerate(alone):
        body = found[f"r{place}"]["response"]["body"]
        assert body["choices"][0]["message"] == expected["choices"][0]["message"]
