"""Paths with and without /v1 are the same to everything behind."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from http.client import HTTPConnection

import anthropic
import httpx
import openai
import pytest

from paceline.settings import Settings
from tests.server.fake_service import REPLY, FakeService
from tests.server.harness import Address, serve, user
from tests.waiting import WAIT

MESSAGE = {"messages": user("hi"), "max_tokens": 50}
POSTS = {
    "/chat/completions": {"messages": user("hi")},
    "/completions": {"prompt": "hi"},
    "/responses": {"input": "hi"},
    "/messages": MESSAGE,
    "/messages/count_tokens": {"messages": user("hi")},
    "/embeddings": {"input": "hi"},
    "/score": {"text_1": "a", "text_2": "b"},
}


@pytest.mark.parametrize("path", POSTS)
@pytest.mark.parametrize("before", ["", "/v1/v1", "//v1", "/v1/", "//v1//v1/"])
@pytest.mark.parametrize("behind", ["", "/"])
def test_a_base_address_may_lack_its_version_or_have_it_twice(
    http: httpx.Client, path: str, before: str, behind: str
) -> None:
    answer = http.post(f"{before}{path}{behind}", json=POSTS[path])
    assert answer.status_code == 200 and answer.history == []
    assert ("request-id" in answer.headers) == path.startswith("/messages")


def test_what_is_only_looked_at_too(http: httpx.Client) -> None:
    assert http.get("/models").json() == http.get("/v1/models").json()
    assert http.get("/models/fake%2Fmodel").json()["id"] == "fake/model"
    assert http.get("/status").json()["state"]
    assert http.post("/audio/speech").json()["error"]["message"].endswith("(POST /v1/audio/speech).")
    wrong = http.get("/chat/completions")
    assert (wrong.status_code, wrong.headers["allow"]) == (405, "POST")


@pytest.mark.parametrize(
    "path", ["/v1/models", "/models/", "/v1/models/fake%2Fmodel", "/v1/status", "/metrics", "/api/tags", "/", "/ping"]
)
def test_head_is_answered_wherever_get_is_without_a_body(http: httpx.Client, path: str) -> None:
    got, looked = http.get(path), http.head(path)
    assert looked.status_code == got.status_code == 200
    assert looked.content == b"" and looked.headers["content-type"] == got.headers["content-type"]
    assert http.get("/health").json() == {"status": "ok"}  # the connection is still good


def test_head_of_what_is_not_there_or_not_to_be_read_is_refused(http: httpx.Client) -> None:
    assert http.head("/v1/models/other").status_code == http.head("/v1/audio/speech").status_code == 404
    wrong = http.head("/v1/chat/completions")
    assert (wrong.status_code, wrong.headers["allow"]) == (405, "POST")


def test_head_of_a_stream_ends_and_leaves_its_connection_usable(address: Address) -> None:
    with contextlib.closing(HTTPConnection(address.removeprefix("http://"), timeout=WAIT)) as connection:
        connection.request("HEAD", "/v1/status/stream")
        answer = connection.getresponse()
        assert answer.status == 200 and answer.read() == b""
        connection.request("GET", "/health")
        assert connection.getresponse().status == 200


def test_a_path_may_have_its_origin_in_front(address: Address) -> None:
    with contextlib.closing(HTTPConnection(address.removeprefix("http://"), timeout=WAIT)) as connection:
        connection.request("GET", f"{address}/v1/models")
        assert connection.getresponse().status == 200


def test_paths_of_their_own_stay_where_they_are(http: httpx.Client) -> None:
    assert http.get("/health").json() == {"status": "ok"}
    assert http.get("/").json()["openai"] == "/v1"
    for path in ("/v1/health", "/v1", "/modelsx", "/v1/v1"):
        assert http.get(path).status_code == 404


def test_the_sdks_take_either_base_address(address: Address) -> None:
    for url in (address, f"{address}/v1"):
        with openai.OpenAI(base_url=url, api_key="x", max_retries=0) as client:
            answer = client.chat.completions.create(model="fake/model", messages=[{"role": "user", "content": "hi"}])
            assert answer.choices[0].message.content == REPLY
        with anthropic.Anthropic(base_url=url, api_key="x", max_retries=0) as claude:
            message = claude.messages.create(
                model="fake/model", max_tokens=50, messages=[{"role": "user", "content": "hi"}]
            )
            assert message.content[0].type == "text" and message.content[0].text == REPLY


@pytest.fixture(scope="module")
def locked() -> Iterator[httpx.Client]:
    settings = Settings.load({"api_key": "sk-one"}, None, {})
    with serve(FakeService(settings), settings) as address, httpx.Client(base_url=address, timeout=WAIT) as http:
        yield http


def test_another_way_to_write_a_path_opens_no_door(locked: httpx.Client) -> None:
    for path in ("/models", "/v1/v1/models", "/status", "/models/"):
        assert locked.get(path).status_code == 401
    refused = locked.post("/messages", json=MESSAGE)
    assert refused.status_code == 401 and refused.json()["type"] == "error"
    assert locked.get("/models", headers={"authorization": "Bearer sk-one"}).status_code == 200
