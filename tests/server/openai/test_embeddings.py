"""/v1/embeddings and /v1/score: OpenAI's client, every form of input, and what is refused."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import openai
import pytest
from openai.types import CreateEmbeddingResponse

from paceline.service import Service
from paceline.settings import Settings
from tests.server.fake_service import FakeService
from tests.server.harness import Address, open_request, post_chat, refused, serve
from tests.waiting import WAIT


def post(http: httpx.Client, given: object, **fields: object) -> httpx.Response:
    return http.post("/v1/embeddings", json={"input": given, **fields})


# -- with a model


@pytest.fixture(scope="module")
def served(hybrid: Path) -> Service:
    """A model with pictures and an MTP head: it embeds texts like any other."""
    return Service(Settings(model=str(hybrid), served_model_name="tiny", prefill_chunk=16, context_length=512))


@pytest.fixture(scope="module")
def live(served: Service) -> Iterator[Address]:
    with serve(served, served.settings) as address:
        yield address


@pytest.fixture(scope="module")
def sdk(live: Address) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{live}/v1", api_key="none", max_retries=0, timeout=120) as client:
        yield client


@pytest.fixture(scope="module")
def web(live: Address) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=live, timeout=120) as client:
        yield client


def test_openais_client_gets_vectors_of_length_one_in_order(sdk: openai.OpenAI) -> None:
    texts = ["A pace line.", "The weather in the mountains changes quickly.", "A pace line."]
    answer = sdk.embeddings.create(model="tiny", input=texts)  # the client asks for base64 by itself
    assert isinstance(answer, CreateEmbeddingResponse) and answer.model == "tiny"
    assert [item.index for item in answer.data] == [0, 1, 2]
    vectors = np.array([item.embedding for item in answer.data])
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    np.testing.assert_allclose(vectors[0], vectors[2], atol=1e-5)
    assert np.abs(vectors[0] - vectors[1]).max() > 1e-2
    assert answer.usage.prompt_tokens == answer.usage.total_tokens > 0


def test_every_form_of_input_and_of_encoding_gives_the_same_numbers(web: httpx.Client, sdk: openai.OpenAI) -> None:
    ids = web.post("/tokenize", json={"prompt": "Nobody rides alone."}).json()["tokens"]
    alone = sdk.embeddings.create(model="tiny", input="Nobody rides alone.", encoding_format="float")
    (expected,) = [item.embedding for item in alone.data]
    assert alone.usage.prompt_tokens == len(ids)
    for given in (["Nobody rides alone."], ids, [ids], [ids, ids[:3]]):
        found = post(web, given, user="somebody").json()["data"][0]["embedding"]
        np.testing.assert_allclose(found, expected, atol=1e-5)
    coded = post(web, ids, encoding_format="base64").json()["data"][0]["embedding"]
    np.testing.assert_allclose(np.frombuffer(base64.b64decode(coded), "<f4"), expected, atol=1e-5)


def test_in_batch_with_streams_the_numbers_stay_and_the_streams_go_on(web: httpx.Client, sdk: openai.OpenAI) -> None:
    long = "The first rider pulls, the others follow close behind. " * 12
    alone = post(web, long).json()["data"][0]["embedding"]
    quiet = post_chat(web, "Hello", max_tokens=60, temperature=0, ignore_eos=True).json()
    stream = sdk.chat.completions.create(
        model="tiny",
        messages=[{"role": "user", "content": "Hello"}],
        max_tokens=60,
        temperature=0,
        stream=True,
        extra_body={"ignore_eos": True, "cache": False},
    )
    words, found = [], None
    for chunk in stream:
        words.append(chunk.choices[0].delta.content or "")
        if found is None:
            found = post(web, [long, "Hello"]).json()["data"][0]["embedding"]
    assert found is not None
    np.testing.assert_allclose(found, alone, atol=1e-5)
    assert "".join(words) == quiet["choices"][0]["message"]["content"]


def test_dimensions_cut_and_make_the_length_one_again(web: httpx.Client, sdk: openai.OpenAI) -> None:
    whole = np.array(post(web, "A bird.").json()["data"][0]["embedding"])
    cut = np.array(sdk.embeddings.create(model="tiny", input="A bird.", dimensions=7).data[0].embedding)
    np.testing.assert_allclose(cut, whole[:7] / np.linalg.norm(whole[:7]), atol=1e-5)
    refused(post(web, "A bird.", dimensions=len(whole) + 1), 400, "dimensions", str(len(whole)))
    refused(post(web, "A bird.", dimensions=0), 400, "dimensions")


def test_a_text_that_is_too_long_is_refused_and_nothing_is_held(web: httpx.Client) -> None:
    error = refused(post(web, [[1, 2], [1] * 600]), 400, "input", "512")
    assert error["code"] == "context_length_exceeded"
    refused(post(web, [[1, 100_000]]), 400, "input", "100000")
    refused(post(web, ["a", ""]), 400, "input", "empty")
    status = web.get("/v1/status").json()
    assert (status["num_requests_running"], status["num_requests_waiting"]) == (0, 0)
    assert status["model"]["embedding_size"] == len(post(web, "a").json()["data"][0]["embedding"])


def test_a_score_is_the_cosine_of_the_embeddings(web: httpx.Client) -> None:
    texts = ["A bird sings.", "A bird eats.", "42, 7, 13"]
    one, *others = (np.array(item["embedding"]) for item in post(web, texts).json()["data"])
    answer = web.post("/v1/score", json={"text_1": texts[0], "text_2": texts[1:]}).json()
    assert [item["object"] for item in answer["data"]] == ["score", "score"]
    np.testing.assert_allclose([item["score"] for item in answer["data"]], [one @ other for other in others], atol=1e-5)
    same = web.post("/v1/score", json={"text_1": texts, "text_2": texts}).json()
    np.testing.assert_allclose([item["score"] for item in same["data"]], 1, atol=1e-5)
    assert same["usage"]["prompt_tokens"] == same["usage"]["total_tokens"] > 0
    refused(web.post("/v1/score", json={"text_1": texts[:2], "text_2": texts}), 400, "text_1", "2", "3")
    refused(web.post("/v1/score", json={"text_1": texts[:2]}), 400, "text_2")


def test_a_model_whose_states_cannot_be_had_says_so(
    web: httpx.Client, served: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(served._get_runtime().startup, "embedding_size", None)
    refused(post(web, "a"), 400, "model", "no embeddings")
    refused(web.post("/v1/score", json={"text_1": "a", "text_2": "b"}), 400, "model", "no embeddings")


# -- without one


@pytest.mark.parametrize("given", [[], [[]], [1, "a"], ["a", [1]], None, 3, {"text": "a"}, [1.5], [True]])
def test_other_inputs_are_refused_by_name(http: httpx.Client, given: object) -> None:
    refused(post(http, given), 400, "input")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("encoding_format", "int8"),
        ("dimensions", 5),
        ("dimensions", "4"),
        ("truncate_prompt_tokens", 10),
        ("use_activation", False),
        ("embed_dtype", "float16"),
        ("endianness", "big"),
        ("messages", []),
        ("stream", True),
        ("user", 3),
    ],
)
def test_a_field_that_cannot_be_honoured_is_refused(http: httpx.Client, field: str, value: object) -> None:
    refused(post(http, "a", **{field: value}), 400, field)


def test_too_many_inputs_are_refused(http: httpx.Client) -> None:
    refused(post(http, ["a"] * 2049), 400, "input", "2048")
    assert len(post(http, ["a"] * 2048).json()["data"]) == 2048


def test_another_model_is_not_found(http: httpx.Client) -> None:
    refused(post(http, "a", model="text-embedding-3-small"), 404, "model", "fake/model")


def test_one_that_fails_ends_them_all(http: httpx.Client, service: FakeService) -> None:
    assert post(http, ["a", "!hang 0", "!fail 0"]).status_code == 500
    assert service.idle.wait(WAIT)


def test_a_client_that_goes_away_ends_its_rows(address: Address, service: FakeService) -> None:
    with open_request(address, "/v1/embeddings", {"input": ["!hang 0", "a"]}):
        assert service.hanging.wait(WAIT)
    assert service.idle.wait(WAIT)


def test_embeddings_are_counted(http: httpx.Client) -> None:
    def counted() -> dict[str, float]:
        lines = (line for line in http.get("/metrics").text.splitlines() if not line.startswith("#"))
        return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines)}

    before = counted()
    post(http, ["abc", "de"])
    after = counted()
    tokens, ended = 'paceline_prompt_tokens_total{model_name="fake/model"}', "paceline_request_success_total"
    stopped = f'{ended}{{finished_reason="stop",model_name="fake/model"}}'
    assert after[tokens] - before[tokens] == 7 and after[stopped] - before[stopped] == 2


def score(http: httpx.Client, **fields: Any) -> httpx.Response:
    return http.post("/v1/score", json=fields)


def test_one_text_is_compared_with_each_and_as_many_in_pairs(http: httpx.Client) -> None:
    one = score(http, text_1="abc", text_2=["abc", "other"]).json()
    assert [entry["index"] for entry in one["data"]] == [0, 1]
    assert one["data"][0]["score"] == pytest.approx(1)
    pairs = score(http, text_1=["abc", "other"], text_2=["abc", "other"]).json()
    assert [entry["score"] for entry in pairs["data"]] == pytest.approx([1, 1])
    assert one["usage"]["total_tokens"] == one["usage"]["prompt_tokens"] > 0


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"text_1": [], "text_2": "a"}, "text_1"),
        ({"text_1": "a", "text_2": []}, "text_2"),
        ({"text_1": ["a", "b"], "text_2": ["a", "b", "c"]}, "text_1"),
        ({"text_1": "a"}, "text_2"),
        ({"text_1": "a", "text_2": "b", "stream": True}, "stream"),
    ],
)
def test_what_cannot_be_compared_is_refused_by_name(http: httpx.Client, fields: dict[str, Any], param: str) -> None:
    refused(score(http, **fields), 400, param)
