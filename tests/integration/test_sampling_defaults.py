"""Sampling where a request is silent: the model's own defaults, in every API."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from paceline.requests import ChatRequest
from paceline.service import Service
from paceline.settings import Settings
from paceline.types import Sampling
from tests.server.fake_service import FakeService
from tests.server.harness import post_chat, serve, user
from tests.server.sdk_types import TypedClient
from tests.waiting import until

APIS: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"messages": user("Tell me")},
    "/v1/completions": {"prompt": "Tell me"},
    "/v1/responses": {"input": "Tell me", "store": False},
    "/v1/messages": {"messages": user("Tell me"), "max_tokens": 12},
}
DOCS = Path(__file__).parents[2] / "docs" / "embedded-model.md"
SAMPLES = re.findall(r"^> \*\*(.+)\*\*\n>\n> (.+)$", DOCS.read_text(), re.MULTILINE)
SERVED = re.compile(r"is served at (http://\S+)")
LENGTH = {"/v1/responses": "max_output_tokens"}
DEFAULTS = {"temperature": 0.5, "top_p": 0.75, "top_k": 9, "min_p": 0.25, "repetition_penalty": 1.25}


@pytest.mark.parametrize("path", APIS)
def test_a_request_overrides_the_defaults_field_by_field(
    http: httpx.Client, service: FakeService, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    monkeypatch.setattr(service, "sampling_defaults", DEFAULTS)

    def sampled(**fields: Any) -> dict[str, Any]:
        response = http.post(path, json={**APIS[path], **fields})
        assert response.status_code == 200, response.text
        if path == "/v1/responses":
            assert response.json()["temperature"] == service.requests[-1].sampling.temperature
            assert response.json()["top_p"] == service.requests[-1].sampling.top_p
        return {name: getattr(service.requests[-1].sampling, name) for name in DEFAULTS}

    assert sampled() == DEFAULTS
    assert sampled(temperature=None, top_k=None) == DEFAULTS
    for name, value in {"temperature": 0, "top_p": 1, "top_k": 0}.items():
        assert sampled(**{name: value}) == {**DEFAULTS, name: value}
    if path != "/v1/messages":  # Anthropic's API has not these
        for name, value in {"min_p": 0, "repetition_penalty": 1}.items():
            assert sampled(**{name: value}) == {**DEFAULTS, name: value}


def test_a_default_length_is_for_requests_without_one(
    http: httpx.Client, service: FakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "sampling_defaults", {"max_tokens": 3})
    assert post_chat(http).json()["usage"]["completion_tokens"] == 3
    assert post_chat(http, max_tokens=5).json()["usage"]["completion_tokens"] == 5
    assert http.post("/v1/completions", json={"prompt": "hi"}).json()["usage"]["completion_tokens"] == 16


@pytest.fixture(scope="module")
def model(llama: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint that wants to be sampled, with one value that nobody can use."""
    folder = tmp_path_factory.mktemp("sampled") / "model"
    shutil.copytree(llama, folder)
    path = folder / "generation_config.json"
    given = {"do_sample": True, "temperature": 0.6, "top_k": 20, "top_p": 7, "max_new_tokens": 2}
    path.write_text(json.dumps({**json.loads(path.read_text()), **given}))
    return folder


@pytest.fixture(scope="module")
def sampled(model: Path) -> Iterator[httpx.Client]:
    settings = Settings.load({"model": str(model), "default_min_p": "0.125", "max_tokens": "9"}, None, {})
    with serve(Service(settings), settings) as address, TypedClient(base_url=address, timeout=120) as client:
        yield client


def test_status_and_models_show_what_applies_and_where_it_is_from(sampled: httpx.Client) -> None:
    shown = sampled.get("/v1/status").json()["model"]
    assert shown["sampling_defaults"] == {
        "temperature": 0.6,
        "top_p": 1.0,
        "top_k": 20,
        "min_p": 0.125,
        "repetition_penalty": 1.0,
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
        "max_tokens": 9,
    }
    assert shown["sampling_defaults_from"] == {
        "temperature": "generation_config.json",
        "top_k": "generation_config.json",
        "min_p": "override_generation_config",
        "max_tokens": "override_generation_config",
    }
    assert any("top_p must be above 0" in note for note in shown["notes"])
    [card] = sampled.get("/v1/models").json()["data"]
    assert card["sampling_defaults"] == shown["sampling_defaults"]


@pytest.mark.thin(4)
@pytest.mark.parametrize("path", APIS)
def test_a_silent_request_is_sampled_as_one_that_says_it_all(sampled: httpx.Client, path: str) -> None:
    def answer(**fields: Any) -> Any:
        length = {LENGTH.get(path, "max_tokens"): 9}
        body = sampled.post(path, json={**APIS[path], **length, "cache": False, **fields}).json()
        return body.get("choices") or body.get("content") or [item["content"] for item in body["output"]]

    explicit = {"temperature": 0.6, "top_k": 20}
    greedy = strip(answer(temperature=0))
    silent = [strip(answer(seed=seed)) for seed in range(6)]
    assert [strip(answer(seed=seed, **explicit)) for seed in range(6)] == silent
    assert any(said != greedy for said in silent), "one of them may be greedy by chance"


def strip(value: Any) -> Any:
    """Without what is new in every answer."""
    if isinstance(value, dict):
        return {key: strip(inner) for key, inner in value.items() if key != "id"}
    return [strip(inner) for inner in value] if isinstance(value, list) else value


async def test_python_users_have_the_defaults_too(model: Path) -> None:
    settings = Settings(model=str(model), generation_config=model, override_generation_config={"top_k": 3})
    async with Service(settings.model_copy(update={"generation_config": "none"})) as service:
        assert service.sampling() == Sampling(top_k=3)
        assert service.sampling(top_k=None, temperature=0, max_tokens=4) == Sampling(0, top_k=3, max_tokens=4)
        answer = await service.chat(ChatRequest(user("hi"), service.sampling(max_tokens=4)))
        assert len(answer.choices[0].token_ids) <= 4


def test_a_plain_request_to_the_embedded_model_gets_the_answer_that_the_docs_show() -> None:
    settings = Settings()
    with serve(Service(settings), settings) as address, TypedClient(base_url=address, timeout=120) as http:
        question, shown = SAMPLES[1]
        answer = post_chat(http, question, max_tokens=100).json()["choices"][0]["message"]["content"]
        assert answer.strip() == shown


@pytest.mark.slow
def test_a_vllm_command_line_serves_the_embedded_model_as_the_docs_show_it(tmp_path: Path) -> None:
    """From a real process, with a vLLM command line: paceline-mini says that it is greedy."""
    flags = ["--port", "0", "--max-model-len", "1k", "--enable-auto-tool-choice", "--trust-remote-code"]
    flags += ["--served-model-name", "mini", "claude-sonnet-4-5", "--enable-prefix-caching", "--disable-log-requests"]
    command = [sys.executable, "-m", "paceline", "serve", "paceline-mini", *flags]
    env = {name: value for name, value in os.environ.items() if not name.startswith("PACELINE_")}
    log = tmp_path / "log"
    with log.open("w") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, env=env)
    try:
        until(lambda: process.poll() is not None or SERVED.search(log.read_text()))
        address = SERVED.search(log.read_text())
        assert address is not None, log.read_text()
        with httpx.Client(base_url=address[1], timeout=120) as http:
            for question, shown in SAMPLES[:3]:
                answer = post_chat(http, question, max_tokens=100).json()["choices"][0]
                assert answer["message"]["content"].strip() == shown
            assert post_chat(http, model="claude-sonnet-4-5", max_tokens=1).json()["model"] == "mini"
            status = http.get("/v1/status").json()["model"]
            assert (status["sampling_defaults"]["temperature"], status["context_length"]) == (0.0, 1000)
            assert status["sampling_defaults_from"] == {"temperature": "generation_config.json"}
    finally:
        process.terminate()
        process.wait(60)
    said = log.read_text()
    assert "--enable-auto-tool-choice, --trust-remote-code: accepted" in said
    assert "sampling where a request is silent: temperature 0 (generation_config.json)" in said
