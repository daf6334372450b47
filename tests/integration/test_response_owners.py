"""Responses, conversations and their items are their key's own: for another key they are not there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from paceline.settings import Settings
from tests.server.fake_service import FakeService
from tests.server.harness import refused, serve
from tests.server.openai.responses.harness import respond
from tests.waiting import WAIT, until


@dataclass
class Keys:
    """Clients of two keys of one server."""

    service: FakeService
    mine: httpx.Client
    other: httpx.Client

    def item(self, text: str) -> str:
        """An item of an answer to this."""
        id: str = respond(self.mine, text).json()["output"][0]["id"]
        return id


@pytest.fixture(scope="module")
def keys() -> Iterator[Keys]:
    settings = Settings.load({"api_key": ["sk-one", "sk-two"]}, None, {})
    service = FakeService(settings)
    with (
        serve(service, settings) as address,
        httpx.Client(base_url=address, timeout=WAIT, headers={"authorization": "Bearer sk-one"}) as mine,
        httpx.Client(base_url=address, timeout=WAIT, headers={"authorization": "Bearer sk-two"}) as other,
    ):
        yield Keys(service, mine, other)


def message(text: str) -> Any:
    return {"type": "message", "role": "user", "content": text}


def reference(id: str) -> Any:
    return {"type": "item_reference", "id": id}


RESPONSE = [("GET", ""), ("GET", "/input_items"), ("POST", "/cancel"), ("DELETE", ""), ("GET", "?stream=true")]


@pytest.mark.parametrize(("method", "path"), RESPONSE)
def test_a_response_is_not_there_for_another_key(keys: Keys, method: str, path: str) -> None:
    id = respond(keys.mine).json()["id"]
    refused(keys.other.request(method, f"/v1/responses/{id}{path}"), 404, None, id)
    assert keys.mine.get(f"/v1/responses/{id}").json()["status"] == "completed"


@pytest.mark.parametrize(("method", "path"), RESPONSE)
@pytest.mark.parametrize("store", [True, False])
def test_nor_is_one_that_runs(keys: Keys, method: str, path: str, store: bool) -> None:
    keys.service.hanging.clear()
    body = {"input": "!hang 2", "stream": True, "store": store, "background": store}
    with keys.mine.stream("POST", "/v1/responses", json=body) as answer:
        lines = answer.iter_text()
        id = next(lines).split('"id":"')[1].split('"')[0]
        assert keys.service.hanging.wait(WAIT)
        refused(keys.other.request(method, f"/v1/responses/{id}{path}"), 404, None, id)
        refused(respond(keys.other, previous_response_id=id), 404, "previous_response_id")  # not a word that it runs
        assert keys.service.aborted == []
        keys.service.release()
        assert '"status":"completed"' in "".join(lines)


def test_another_key_cannot_go_on_from_it(keys: Keys) -> None:
    id = respond(keys.mine).json()["id"]
    for path in ("/v1/responses", "/v1/responses/input_tokens"):
        answer = keys.other.post(path, json={"input": "x", "previous_response_id": id})
        assert refused(answer, 404, "previous_response_id", id)["code"] == "previous_response_not_found"
    assert respond(keys.mine, previous_response_id=id).status_code == 200


def test_another_key_cannot_refer_to_its_items(keys: Keys) -> None:
    item = keys.item("one")
    refused(respond(keys.other, [message("x"), reference(item)]), 400, "input[1].id", item)
    refused(keys.other.post("/v1/conversations", json={"items": [reference(item)]}), 400, "items[0].id", item)
    assert respond(keys.mine, [message("x"), reference(item)]).status_code == 200
    assert keys.mine.post("/v1/conversations", json={"items": [reference(item)]}).status_code == 200


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "", None),
        ("POST", "", {"metadata": {"a": "b"}}),
        ("DELETE", "", None),
        ("GET", "/items", None),
        ("POST", "/items", {"items": [message("two")]}),
        ("GET", "/items/{item}", None),
        ("DELETE", "/items/{item}", None),
    ],
)
def test_a_conversation_is_not_there_for_another_key(keys: Keys, method: str, path: str, body: Any) -> None:
    made = keys.mine.post("/v1/conversations", json={"items": [message("one")]}).json()
    before = keys.mine.get(f"/v1/conversations/{made['id']}/items").json()
    target = f"/v1/conversations/{made['id']}{path.format(item=before['first_id'])}"
    refused(keys.other.request(method, target, json=body), 404, None, made["id"])
    refused(respond(keys.other, conversation=made["id"]), 404, "conversation", made["id"])
    assert keys.mine.get(f"/v1/conversations/{made['id']}").json() == made
    assert keys.mine.get(f"/v1/conversations/{made['id']}/items").json() == before
    assert keys.mine.request(method, target, json=body).status_code == 200


def test_what_is_left_of_a_conversation_is_still_its_keys(keys: Keys) -> None:
    made = keys.mine.post("/v1/conversations", json={"items": [message("one"), message("two")]}).json()["id"]
    first, second = keys.mine.get(f"/v1/conversations/{made}/items?order=asc").json()["data"]
    assert keys.mine.delete(f"/v1/conversations/{made}/items/{first['id']}").status_code == 200
    assert respond(keys.mine, conversation=made).status_code == 200
    assert respond(keys.mine, [reference(second["id"])]).status_code == 200
    refused(respond(keys.other, [reference(second["id"])]), 400, "input[0].id")


def test_a_background_response_is_its_keys_to_cancel(keys: Keys) -> None:
    keys.service.hanging.clear()
    id = respond(keys.mine, "!hang 2", background=True).json()["id"]
    assert keys.service.hanging.wait(WAIT)
    refused(keys.other.post(f"/v1/responses/{id}/cancel"), 404, None, id)
    assert keys.mine.post(f"/v1/responses/{id}/cancel").json()["status"] == "cancelled"
    until(lambda: keys.service.aborted == [id])
    keys.service.aborted.clear()
