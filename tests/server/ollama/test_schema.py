"""Every field is honoured, or refused by name."""

from __future__ import annotations

import logging
from typing import Any

import httpx
import pytest

from paceline.types import Sampling
from tests.server.anthropic.harness import Scripted
from tests.server.fake_service import FakeService
from tests.server.harness import user
from tests.server.ollama.harness import post, refused, whole


def asked(http: httpx.Client, service: FakeService, **options: Any) -> Sampling:
    whole(http, options=options)
    return service.requests[-1].sampling


def test_options_are_sampling(http: httpx.Client, service: FakeService) -> None:
    sampling = asked(
        http,
        service,
        **{"temperature": 0, "top_p": 0.9, "top_k": 40, "min_p": 0.05, "seed": 7, "num_predict": 9, "stop": ["x"]},
        **{"repeat_penalty": 1.1, "presence_penalty": 0.5, "frequency_penalty": 0.25},
    )
    assert sampling == Sampling(
        temperature=0,
        top_p=0.9,
        top_k=40,
        min_p=0.05,
        seed=7,
        max_tokens=9,
        stop=("x",),
        repetition_penalty=1.1,
        presence_penalty=0.5,
        frequency_penalty=0.25,
    )


def test_ollamas_words_for_nothing_are_understood(http: httpx.Client, service: FakeService) -> None:
    for nothing in ({}, {"seed": -1, "num_predict": -1, "top_k": -1}, {"num_predict": -2, "stop": None}):
        assert asked(http, service, **nothing) == Sampling()
    assert asked(http, service, num_predict=10**9).max_tokens == service.context_length
    assert asked(http, service, repeat_last_n=0, repeat_penalty=1.5) == Sampling()
    assert asked(http, service, repeat_last_n=-1, repeat_penalty=1.5) == Sampling(repetition_penalty=1.5)
    assert asked(http, service, repeat_last_n=64) == Sampling()


def test_a_whole_number_may_be_written_with_a_point(http: httpx.Client, service: FakeService) -> None:
    assert asked(http, service, num_predict=5.0, num_ctx=4096.0).max_tokens == 5
    refused(post(http, options={"num_predict": 5.5}), 400, "options.num_predict")


def test_what_the_server_decides_is_accepted(http: httpx.Client) -> None:
    whole(http, options={"num_ctx": 2048, "num_gpu": 99, "num_thread": 8, "num_batch": 512, "num_keep": 4})
    whole(http, options={"mirostat": 0, "typical_p": 1.0, "tfs_z": 1}, keep_alive="5m")


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"options": {"num_ctx": 5000}}, ("options.num_ctx", "4096", "--context-length")),
        ({"options": {"mirostat": 1}}, ("options.mirostat",)),
        ({"options": {"repeat_last_n": 64, "repeat_penalty": 1.1}}, ("options.repeat_last_n", "-1")),
        ({"options": {"repeat_penalty": -1}}, ("options.repeat_penalty", "above 0")),
        ({"options": {"temperature": "hot"}}, ("options.temperature",)),
        ({"options": {"temperature": -1}}, ("temperature",)),
        ({"options": []}, ("options",)),
        ({"template": "{{ .Prompt }}"}, ("template",)),
        ({"context": [1, 2]}, ("context",)),
        ({"logprobs": True}, ("logprobs",)),
        ({"truncate": True}, ("truncate",)),
        ({"suffix": "x"}, ("suffix",)),
        ({"think": "deeply"}, ("think", "deeply")),
        ({"think": True}, ("think", "does not support thinking")),
        ({"tools": [{"function": {}}]}, ("tools[0].function.name",)),
    ],
)
def test_what_would_change_the_answer_is_refused_by_name(
    http: httpx.Client, fields: dict[str, Any], words: tuple[str, ...]
) -> None:
    refused(post(http, **fields), 400, *words)


def test_an_unknown_option_is_in_the_log_once(http: httpx.Client, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "paceline.server"):
        for _ in range(2):
            whole(http, options={"temprature": 0.5})
    assert [record.getMessage().count("options.temprature") for record in caplog.records] == [1]


def test_an_unknown_option_is_named_in_the_answers_header(http: httpx.Client) -> None:
    answer = post(http, stream=False, options={"temprature": 0.5, "num_thread": 2}, sufix="x")
    told = answer.headers["x-paceline-ignored-fields"]
    assert told == "sufix (did you mean suffix?), options.temprature (did you mean options.temperature?)"


def template_options(actor: Scripted) -> Any:
    request: Any = actor.requests[-1]
    return request.template_options


def test_a_level_of_thinking_is_thinking_where_the_template_has_none(stage: httpx.Client, actor: Scripted) -> None:
    actor.says = "x"
    for think, options in ((True, {"enable_thinking": True}), (False, {"enable_thinking": False}), (None, {})):
        whole(stage, think=think)
        assert template_options(actor) == options
    actor.tokenizer.chat_template = "{{ enable_thinking }}"
    whole(stage, think="high")
    assert template_options(actor) == {"enable_thinking": True}
    actor.tokenizer.chat_template = "{{ reasoning_effort }}"
    whole(stage, think="high")
    assert template_options(actor) == {"reasoning_effort": "high"}


def test_a_model_has_the_tag_latest_too(http: httpx.Client) -> None:
    for name in ("fake/model", "fake/model:latest"):
        assert http.post("/api/chat", json={"model": name, "messages": user("hi")}).status_code == 200
    refused(post(http, model="llama3.2"), 404, "not found", "llama3.2", "fake/model")
