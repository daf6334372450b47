"""A path with a slash behind it is the path without."""

from __future__ import annotations

import re
from collections.abc import Iterator

import httpx
import pytest

from paceline.settings import Settings
from tests.server.fake_service import FakeService
from tests.server.harness import Address, refused, serve, user
from tests.waiting import WAIT


@pytest.fixture(scope="module")
def http(address: Address) -> Iterator[httpx.Client]:
    """Not the one that checks answers by their path as it is written."""
    with httpx.Client(base_url=address, timeout=WAIT) as client:
        yield client


@pytest.fixture(scope="module")
def keyed() -> Iterator[httpx.Client]:
    settings = Settings.load({"api_key": "sk-one"}, None, {})
    with serve(FakeService(settings), settings) as address, httpx.Client(base_url=address, timeout=WAIT) as http:
        yield http


def test_every_route_is_served_with_a_slash_behind_it(http: httpx.Client) -> None:
    document = http.get("/openapi.json/").json()
    assert document == http.get("/openapi.json").json()
    for path, operations in document["paths"].items():
        for method in operations:
            place = re.sub(r"\{[^}]*\}", "none", path)
            body: dict[str, object] | None = {} if method == "post" else None
            plain = http.request(method, place, json=body)
            slashed = http.request(method, f"{place}/", json=body)
            assert slashed.status_code == plain.status_code and slashed.headers.get("location") is None, path


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/chat/completions", {"messages": user("hi")}),
        ("/v1/completions", {"prompt": "hi"}),
        ("/v1/messages", {"messages": user("hi"), "max_tokens": 5}),
        ("/tokenize", {"prompt": "hi"}),
    ],
)
@pytest.mark.parametrize("behind", ["/", "//", "/?query=1"])
def test_a_post_with_a_slash_behind_its_path_is_answered(
    http: httpx.Client, path: str, body: dict[str, object], behind: str
) -> None:
    answer = http.post(path + behind, json=body)
    assert answer.status_code == 200 and answer.history == []
    assert ("request-id" in answer.headers) == (path == "/v1/messages")


def test_an_unknown_path_is_a_404_with_and_without(http: httpx.Client) -> None:
    for path in ("/v1/nothing", "/v1/nothing/", "/nothing//", "/v1/chat/completions/x/"):
        refused(http.get(path), 404, None)
    wrong = http.get("/v1/chat/completions/")
    assert wrong.status_code == 405 and wrong.headers["allow"] == "POST"
    assert http.get("/v1/messages/nothing/").json()["type"] == "error"


def test_a_slash_neither_opens_nor_closes_a_door(keyed: httpx.Client) -> None:
    assert keyed.get("/health/").status_code == 200
    for path in ("/v1/models/", "/metrics/", "/v1/models//"):
        assert keyed.get(path).status_code == 401
    assert keyed.get("/v1/models/", headers={"authorization": "Bearer sk-one"}).status_code == 200
