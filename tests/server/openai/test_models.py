from __future__ import annotations

import httpx
import openai
import pytest

from paceline.settings import Settings
from tests.server.fake_service import BEGIN, FakeService
from tests.server.harness import post_chat, refused, serve, user


def test_the_model_list_validates_as_openais_type(client: openai.OpenAI) -> None:
    [model] = client.models.list().data
    assert (model.id, model.object) == ("fake/model", "model")
    assert client.models.retrieve("fake/model").id == "fake/model"
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("other/model")


def test_a_model_is_known_by_its_served_name_and_its_own() -> None:
    settings = Settings(served_model_name="pretty")
    with serve(FakeService(), settings) as address, httpx.Client(base_url=address) as http:
        assert http.get("/v1/models").json()["data"][0]["id"] == "pretty"
        for name in ("pretty", "fake/model"):
            assert post_chat(http, model=name).json()["model"] == "pretty"
        refused(post_chat(http, model="prett"), 404, "model")


def test_text_is_tokenized_with_and_without_special_tokens(http: httpx.Client) -> None:
    answer = http.post("/tokenize", json={"model": "fake/model", "prompt": "ab"}).json()
    assert answer == {"count": 3, "max_model_len": 4096, "tokens": [BEGIN, 97, 98], "token_strs": None}
    bare = {"prompt": "ab", "add_special_tokens": False, "return_token_strs": True}
    assert http.post("/tokenize", json=bare).json()["token_strs"] == ["a", "b"]


def test_messages_are_tokenized_as_the_template_renders_them(http: httpx.Client) -> None:
    body = {"messages": user("hi"), "add_generation_prompt": False}
    tokens = http.post("/tokenize", json=body).json()["tokens"]
    assert http.post("/detokenize", json={"tokens": tokens}).json() == {"prompt": "<begin>user: hi"}


TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}


def test_tools_are_tokenized_as_chat_offers_them(http: httpx.Client) -> None:
    def count(**fields: object) -> int:
        answer = http.post("/tokenize", json={"messages": user("hi"), **fields})
        assert answer.status_code == 200, answer.text
        return int(answer.json()["count"])

    asked = post_chat(http, "hi", tools=[TOOL], max_tokens=1).json()["usage"]["prompt_tokens"]
    assert count(tools=[TOOL]) == asked > count() == count(tools=[]) == count(tools=[TOOL], tool_choice="none")
    refused(http.post("/tokenize", json={"messages": user("hi"), "tools": [{}]}), 400, "tools[0]")
    refused(http.post("/tokenize", json={"prompt": "hi", "tools": [TOOL]}), 400, "tools", "messages")


@pytest.mark.parametrize("body", [{}, {"prompt": "a", "messages": user("a")}])
def test_tokenize_takes_either_a_prompt_or_messages(http: httpx.Client, body: dict[str, object]) -> None:
    refused(http.post("/tokenize", json=body), 400, "prompt")


def test_a_token_that_does_not_exist_cannot_be_detokenized(http: httpx.Client) -> None:
    refused(http.post("/detokenize", json={"tokens": [97, 258]}), 400, "tokens", "258")
