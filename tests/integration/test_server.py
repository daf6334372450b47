"""The server over the real service: what only an engine can show."""

from __future__ import annotations

import concurrent.futures
from collections.abc import Iterator
from pathlib import Path

import httpx
import openai
import pytest
from openai.types import Completion
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from paceline.conversation.messages import AUDIO_PARTS, VIDEO_PARTS
from paceline.server.state import Backend
from paceline.service import Service
from paceline.settings import Settings
from tests.integration.test_server_images import png, url
from tests.server.harness import events, open_request, post_chat, post_completion, refused, serve, user
from tests.server.openai.test_completions import lm_eval_parse, score
from tests.server.sdk_types import TypedClient
from tests.waiting import until


@pytest.fixture(scope="module")
def http(hybrid: Path) -> Iterator[httpx.Client]:
    settings = Settings(model=str(hybrid), served_model_name="tiny", max_num_seqs=4)
    backend: Backend = Service(settings)
    with serve(backend, settings) as address, TypedClient(base_url=address, timeout=120) as client:
        yield client


@pytest.fixture(scope="module")
def blind(llama: Path) -> Iterator[httpx.Client]:
    """A model without vision."""
    settings = Settings(model=str(llama), max_num_seqs=4)
    with serve(Service(settings), settings) as address, TypedClient(base_url=address, timeout=120) as client:
        yield client


def text_of(chunks: list[dict[str, object]]) -> str:
    parsed = [ChatCompletionChunk.model_validate(chunk) for chunk in chunks]
    return "".join(chunk.choices[0].delta.content or "" for chunk in parsed if chunk.choices)


def until_idle(http: httpx.Client) -> None:
    """The row leaves at its next step, of which nobody tells the client that left."""
    until(lambda: counts(http) == (0, 0))


def counts(http: httpx.Client) -> tuple[int, int]:
    status = http.get("/v1/status").json()
    return status["num_requests_running"], status["num_requests_waiting"]


def test_the_service_is_ready_when_it_has_started(http: httpx.Client) -> None:
    assert http.get("/ready").status_code == 200
    status = http.get("/v1/status").json()
    assert type(status["num_requests_running"]) is int and type(status["num_requests_waiting"]) is int


def test_a_stream_adds_up_to_the_whole_answer(http: httpx.Client) -> None:
    for fields in ({"temperature": 0}, {"seed": 7}, {"seed": -7, "top_p": 0.9, "stop": ["e", "zz"]}):
        whole = post_chat(http, "Tell me", max_tokens=20, **fields)
        completion = ChatCompletion.model_validate(whole.json(), strict=True)
        options = {"include_usage": True}
        streamed = events(post_chat(http, "Tell me", max_tokens=20, stream=True, stream_options=options, **fields))
        assert text_of(streamed) == completion.choices[0].message.content
        usages = [streamed[-1]["usage"], whole.json()["usage"]]
        for usage in usages:  # how much is drafted and cached depends on what ran before, what comes out does not
            drafted = usage.pop("completion_tokens_details")
            assert 0 <= drafted["accepted_prediction_tokens"] <= usage["completion_tokens"]
            assert 0 <= usage.pop("prompt_tokens_details")["cached_tokens"] < usage["prompt_tokens"]
        assert usages[0] == usages[1]


def test_requests_in_batch_answer_as_alone(http: httpx.Client) -> None:
    def ask(place: int) -> str:
        response = post_chat(http, f"Question {place}", max_tokens=10 + place, temperature=0, stream=place % 2 == 0)
        if place % 2 == 0:
            return text_of(events(response))
        return str(response.json()["choices"][0]["message"]["content"])

    alone = [ask(place) for place in range(4)]
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        assert list(pool.map(ask, range(4))) == alone


def test_lm_eval_finds_the_likeliest_token_greedy_and_another_not(http: httpx.Client) -> None:
    def tokens(text: str) -> list[int]:
        ids: list[int] = http.post("/tokenize", json={"prompt": text}).json()["tokens"]
        return ids

    for prompt in (tokens(f"Once upon a {word}") for word in ("time", "day", "tree", "house")):
        answer = post_completion(http, prompt, max_tokens=1, temperature=0, ignore_eos=True, logprobs=2)
        Completion.model_validate(answer.json(), strict=True)
        [labels] = answer.json()["choices"][0]["logprobs"]["top_logprobs"]
        best, second = (tokens(label) for label in labels)
        if len(best) == len(second) == 1:  # each label is a token by itself: not so for a part of a character
            break
    ids = [prompt + best, prompt + second]
    response = http.post("/v1/completions", json=score(ids)).json()
    [(likely, greedy), (unlikely, other)] = lm_eval_parse(response, [len(prompt)] * 2)
    assert (greedy, other) == (True, False)
    assert [likely, unlikely] == pytest.approx(list(labels.values()), abs=1e-4)
    only_scored = http.post("/v1/completions", json=score(ids, max_tokens=0)).json()
    for choice, longer in zip(only_scored["choices"], response["choices"], strict=True):
        assert choice["logprobs"]["tokens"] == longer["logprobs"]["tokens"][:-1]
        assert choice["logprobs"]["token_logprobs"][0] is None


def test_an_image_is_answered(http: httpx.Client) -> None:
    parts = [{"type": "text", "text": "What?"}, {"type": "image_url", "image_url": {"url": url(png(64, 64))}}]
    with_picture = post_chat(http, parts, max_tokens=5, temperature=0).json()
    without = post_chat(http, "What?", max_tokens=5, temperature=0).json()
    assert with_picture["usage"]["prompt_tokens"] > without["usage"]["prompt_tokens"]


def test_a_bad_image_is_refused_and_named(http: httpx.Client) -> None:
    parts = [{"type": "image_url", "image_url": {"url": url(b"no picture")}}]
    refused(post_chat(http, parts), 400, "messages[0].content[0].image_url", "messages[0].content[0].image_url")


@pytest.mark.parametrize(
    ("server", "kind"),
    [("blind", kind) for kind in VIDEO_PARTS] + [(s, k) for s in ("http", "blind") for k in AUDIO_PARTS],
)
def test_sound_and_film_are_refused_and_named(request: pytest.FixtureRequest, server: str, kind: str) -> None:
    word = "audio" if "audio" in kind else "video"
    parts = [{"type": "text", "text": "What?"}, {"type": kind, kind: {"url": "data:,x"}}]
    response = post_chat(request.getfixturevalue(server), parts)
    refused(response, 400, "messages[0].content[1]", "messages[0].content[1]", f"takes no {word}")


def test_a_model_without_eyes_refuses_images(blind: httpx.Client) -> None:
    parts = [{"type": "image_url", "image_url": {"url": url(png())}}]
    refused(post_chat(blind, parts), 400, "messages[0].content[0]", "takes no images")


def test_limits_hold(http: httpx.Client) -> None:
    context = http.get("/v1/models").json()["data"][0]["max_model_len"]
    refused(post_completion(http, [5] * context), 400, "prompt", str(context))
    refused(post_completion(http, [10**6]), 400, "prompt")
    refused(post_chat(http, max_tokens=10**12), 400, "max_tokens", str(10**12))
    refused(post_chat(http, n=1000), 400, "n")
    refused(post_chat(http, stop=["x"] * 10_000), 400, "stop")
    refused(post_chat(http, logit_bias={"1000000": 1}), 400, "logit_bias")
    refused(post_completion(http, ""), 400, "prompt")
    refused(post_chat(http, speculation=9), 400, "speculation", "9")


@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_goes_away_frees_its_sequence(http: httpx.Client, stream: bool) -> None:
    body = {"messages": user("Go on"), "stream": stream, "ignore_eos": True}
    before = http.get("/v1/status").json()["requests_finished"].get("abort", 0)
    with open_request(str(http.base_url), "/v1/chat/completions", body):
        until(lambda: counts(http) == (1, 0))
    until_idle(http)
    assert http.get("/v1/status").json()["requests_finished"]["abort"] == before + 1


def test_the_openai_client_speaks_to_it(http: httpx.Client) -> None:
    with openai.OpenAI(base_url=f"{http.base_url}/v1", api_key="none") as client:
        answer = client.chat.completions.create(
            model="tiny", messages=[{"role": "user", "content": "Hi"}], max_completion_tokens=5, n=2
        )
        assert [choice.index for choice in answer.choices] == [0, 1]
        with pytest.raises(openai.NotFoundError):
            client.chat.completions.create(model="huge", messages=[{"role": "user", "content": "Hi"}])
