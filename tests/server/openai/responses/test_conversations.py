"""/v1/conversations with OpenAI's own client, and responses that continue them."""

from __future__ import annotations

from typing import Any

import httpx
import openai
import pytest

from paceline.server.openai.responses.conversations import ConversationItems, Conversations, NoConversation
from paceline.server.openai.responses.store import Segment
from tests.server.fake_service import FakeService
from tests.server.harness import refused
from tests.server.openai.responses.harness import respond, response_of


def message(text: str) -> Any:
    return {"type": "message", "role": "user", "content": text}


def test_a_conversation_is_made_changed_and_deleted(client: openai.OpenAI) -> None:
    made = client.conversations.create(metadata={"a": "b"}, items=[message("one")])
    assert made.id.startswith("conv_") and made.metadata == {"a": "b"}
    assert client.conversations.retrieve(made.id) == made
    assert client.conversations.update(made.id, metadata={"c": "d"}).metadata == {"c": "d"}
    added = client.conversations.items.create(made.id, items=[message("two"), message("three")])
    assert len(added.data) == 2
    listed: list[Any] = list(client.conversations.items.list(made.id, order="asc"))
    assert [item.content[0].text for item in listed] == ["one", "two", "three"]
    second = listed[1]
    assert client.conversations.items.retrieve(str(second.id), conversation_id=made.id) == second
    assert client.conversations.items.delete(str(second.id), conversation_id=made.id).id == made.id
    assert len(list(client.conversations.items.list(made.id, limit=1))) == 2
    assert client.conversations.delete(made.id).deleted
    with pytest.raises(openai.NotFoundError, match="not here"):
        client.conversations.retrieve(made.id)


def test_a_response_continues_a_conversation_and_adds_to_it(
    client: openai.OpenAI, http: httpx.Client, service: FakeService, says: Any
) -> None:
    says("Yes.")
    made = client.conversations.create(items=[message("one")])
    first = response_of(respond(http, "two", conversation=made.id))
    assert first.conversation is not None and first.conversation.id == made.id
    assert client.responses.create(model="fake/model", input="three", conversation={"id": made.id}, store=False)
    request: Any = service.requests[-1]
    assert [said["content"][0]["text"] for said in request.messages] == ["one", "two", "Yes.", "three"]
    assert len(list(client.conversations.items.list(made.id))) == 5
    client.conversations.delete(made.id)
    refused(respond(http, "four", conversation=made.id), 404, "conversation")


def test_an_id_that_the_conversation_has_already_becomes_another(client: openai.OpenAI) -> None:
    same: Any = {**message("x"), "id": "msg_same"}
    made = client.conversations.create(items=[same])
    client.conversations.items.create(made.id, items=[same, message("last")])
    listed: list[Any] = list(client.conversations.items.list(made.id, order="asc", limit=1))
    assert [item.content[0].text for item in listed] == ["x", "x", "last"]
    client.conversations.items.delete("msg_same", conversation_id=made.id)
    assert len(list(client.conversations.items.list(made.id))) == 2


def test_a_failed_response_adds_nothing(client: openai.OpenAI, http: httpx.Client) -> None:
    made = client.conversations.create()
    assert respond(http, "!fail 1", conversation=made.id).status_code == 500
    assert list(client.conversations.items.list(made.id)) == []


def test_what_is_wrong_is_named(client: openai.OpenAI, http: httpx.Client) -> None:
    made, other = client.conversations.create(), response_of(respond(http))
    refused(respond(http, conversation=made.id, previous_response_id=other.id), 400, "conversation")
    refused(http.post("/v1/conversations", json={"items": [{"type": "robot"}]}), 400, "items[0].type")
    refused(http.post("/v1/conversations", json={"items": [message("x")] * 21}), 400, "items", "20")
    refused(http.post(f"/v1/conversations/{made.id}/items", json={}), 400, "items")
    refused(http.post(f"/v1/conversations/{made.id}", json={}), 400, "metadata")
    refused(http.get(f"/v1/conversations/{made.id}/items/msg_x"), 404, None, "msg_x")


@pytest.mark.parametrize(
    ("metadata", "fits"),
    [
        ({"n" * 64: "v" * 512}, True),
        ({str(number): "v" for number in range(16)}, True),
        ({"n" * 65: "v"}, False),
        ({"n": "v" * 513}, False),
        ({str(number): "v" for number in range(17)}, False),
        ({"n": 1}, False),
    ],
)
def test_metadata_has_openais_limits(http: httpx.Client, metadata: Any, fits: bool) -> None:
    made = http.post("/v1/conversations", json={}).json()["id"]
    answers = [
        http.post("/v1/conversations", json={"metadata": metadata}),
        http.post(f"/v1/conversations/{made}", json={"metadata": metadata}),
        respond(http, metadata=metadata),
    ]
    assert [answer.status_code for answer in answers] == [200 if fits else 400] * 3
    for answer in answers:
        if fits:
            assert answer.json()["metadata"] == metadata
        else:
            assert answer.json()["error"]["param"].startswith("metadata")


def segment(text: str) -> Segment:
    return Segment([{"id": text, "text": text}])


def test_the_latest_used_conversations_are_kept() -> None:
    kept = Conversations(most=2)
    made = [ConversationItems() for _ in range(3)]
    kept.put(made[0])
    kept.put(made[1])
    kept.find(made[0].id)
    kept.put(made[2])
    with pytest.raises(NoConversation):
        kept.find(made[1].id)
    assert kept.find(made[0].id) and kept.find(made[2].id)


def test_bytes_are_limited_and_the_oldest_items_go_first() -> None:
    size = segment("a").bytes
    kept = Conversations(most_bytes=2 * size)
    one, two = ConversationItems(segments=(segment("a"),)), ConversationItems(segments=(segment("b"),))
    kept.put(one)
    kept.put(two)
    kept.add(two, segment("c"), Segment([]), segment("d"))
    assert [item["id"] for item in two.items] == ["c", "d"]
    with pytest.raises(NoConversation):
        kept.find(one.id)
    kept.delete(two.id)
    kept.add(two, segment("e"))
    with pytest.raises(NoConversation):
        kept.find(two.id)
