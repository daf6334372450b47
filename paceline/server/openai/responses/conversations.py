"""/v1/conversations: items that responses continue and add to. In memory, the latest used ones."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel

from paceline.errors import InvalidRequest
from paceline.server.common.fields import Lenient, Metadata, read_other
from paceline.server.http.errors import NotFound
from paceline.server.http.identity import current
from paceline.server.http.openapi import body_schema, returns
from paceline.server.openai.objects import ItemList
from paceline.server.openai.responses.input import input_items, new_id, with_unique_ids
from paceline.server.openai.responses.store import AskedPage, Item, Segment, page
from paceline.server.state import AppState

MAX_CONVERSATIONS = 1024
MAX_BYTES = 64 << 20
MAX_ITEMS = 20  # OpenAI's, for one request


class NoConversation(NotFound):
    def __init__(self, id: str, field: str | None = None) -> None:
        super().__init__(
            f"The conversation {id!r} is not here: it never was, was deleted, or made room for newer ones.", field=field
        )


@dataclass(slots=True)
class ConversationItems:
    owner: str | None = None  # the name of the key that may have it
    id: str = field(default_factory=lambda: new_id("conv"))
    created: int = field(default_factory=lambda: int(time.time()))
    metadata: Mapping[str, str] = field(default_factory=dict)
    segments: tuple[Segment, ...] = ()

    @property
    def items(self) -> list[Item]:
        return [item for segment in self.segments for item in segment.items]

    @property
    def bytes(self) -> int:
        return sum(segment.bytes for segment in self.segments)

    def described(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "object": "conversation",
            "created_at": self.created,
            "metadata": dict(self.metadata),
        }

    def without(self, item_id: str) -> tuple[Segment, ...]:
        kept = []
        for segment in self.segments:
            items = [item for item in segment.items if item["id"] != item_id]
            kept.append(segment if len(items) == len(segment.items) else Segment(items, segment.owner))
        return tuple(kept)


class Conversations:
    """Used on the event loop only."""

    def __init__(self, most: int = MAX_CONVERSATIONS, most_bytes: int = MAX_BYTES) -> None:
        self.most = most
        self.most_bytes = most_bytes
        self._kept: OrderedDict[str, ConversationItems] = OrderedDict()

    def put(self, conversation: ConversationItems) -> None:
        """Keep it, changed or new. Others make room; one that is larger than all may be loses its oldest items."""
        while conversation.segments and conversation.bytes > self.most_bytes:
            conversation.segments = conversation.segments[1:]
        self._kept[conversation.id] = conversation
        self._kept.move_to_end(conversation.id)
        total = sum(each.bytes for each in self._kept.values())
        while len(self._kept) > self.most or (total > self.most_bytes and len(self._kept) > 1):
            _, dropped = self._kept.popitem(last=False)
            total -= dropped.bytes

    def find(self, id: str, owner: str | None = None, field: str | None = None) -> ConversationItems:
        if id not in self._kept or self._kept[id].owner != owner:
            raise NoConversation(id, field)
        self._kept.move_to_end(id)
        return self._kept[id]

    def delete(self, id: str) -> None:
        self._kept.pop(id, None)

    def add(self, conversation: ConversationItems, *segments: Segment) -> None:
        """What a turn has added, unless the conversation was deleted meanwhile."""
        if conversation.id in self._kept:
            conversation.segments = (*conversation.segments, *(segment for segment in segments if segment.items))
            self.put(conversation)

    def named(self, given: Any, owner: str | None = None) -> ConversationItems | None:
        """What the field `conversation` of a response names: an id, or an object with one."""
        if given is None:
            return None
        id = given.get("id") if isinstance(given, Mapping) else given
        if not isinstance(id, str):
            raise InvalidRequest.at("conversation", "must be a conversation's id, or an object with its id.")
        return self.find(id, owner, "conversation")


class ItemsBody(Lenient):
    items: list[Any] | None = None


class ConversationBody(ItemsBody):
    metadata: Metadata | None = None


class MetadataBody(Lenient):
    metadata: Metadata


class ConversationObject(BaseModel):
    id: str
    object: Literal["conversation"]
    created_at: int
    metadata: dict[str, str]


class DeletedConversation(BaseModel):
    id: str
    object: Literal["conversation.deleted"]
    deleted: Literal[True]


def add_routes(
    state: AppState, router: APIRouter, conversations: Conversations, find_item: Callable[..., Item | None]
) -> None:
    def find(id: str) -> ConversationItems:
        return conversations.find(id, current().owner)

    def read_items(given: Sequence[Any] | None, inside: Sequence[Item] = ()) -> Segment:
        """`inside`: the items that the conversation has already."""
        owner = current().owner
        if given is not None and len(given) > MAX_ITEMS:
            raise InvalidRequest.at("items", f"has {len(given)} items; at most {MAX_ITEMS} are taken at once.")
        try:
            items = input_items(list(given or ()), partial(find_item, owner=owner))
            return Segment(with_unique_ids(items, inside), owner)
        except InvalidRequest as error:  # the same items have another name in a response
            field = (error.field or "").replace("input", "items", 1)
            raise InvalidRequest(str(error).replace("input", "items", 1), field=field, code=error.code) from None

    @router.post(
        "/v1/conversations", openapi_extra=body_schema(ConversationBody), responses=returns(ConversationObject)
    )
    async def create_conversation(request: Request) -> Response:
        body, _ = await read_other(state, request, ConversationBody)
        first = read_items(body.items)
        segments = (first,) if first.items else ()
        made = ConversationItems(current().owner, metadata=body.metadata or {}, segments=segments)
        conversations.put(made)
        return JSONResponse(made.described())

    @router.get("/v1/conversations/{conversation_id}", responses=returns(ConversationObject))
    async def retrieve_conversation(conversation_id: str) -> Response:
        return JSONResponse(find(conversation_id).described())

    @router.post(
        "/v1/conversations/{conversation_id}",
        openapi_extra=body_schema(MetadataBody),
        responses=returns(ConversationObject),
    )
    async def update_conversation(request: Request, conversation_id: str) -> Response:
        body, _ = await read_other(state, request, MetadataBody)
        found = find(conversation_id)
        found.metadata = body.metadata
        return JSONResponse(found.described())

    @router.delete("/v1/conversations/{conversation_id}", responses=returns(DeletedConversation))
    async def delete_conversation(conversation_id: str) -> Response:
        find(conversation_id)
        conversations.delete(conversation_id)
        return JSONResponse({"id": conversation_id, "object": "conversation.deleted", "deleted": True})

    @router.get("/v1/conversations/{conversation_id}/items", responses=returns(ItemList))
    async def list_conversation_items(conversation_id: str, page: AskedPage) -> Response:
        return page.of(find(conversation_id).items)

    @router.post(
        "/v1/conversations/{conversation_id}/items", openapi_extra=body_schema(ItemsBody), responses=returns(ItemList)
    )
    async def create_conversation_items(request: Request, conversation_id: str) -> Response:
        body, _ = await read_other(state, request, ItemsBody)
        found = find(conversation_id)
        if not body.items:
            raise InvalidRequest.at("items", "must have at least one item.")
        more = read_items(body.items, found.items)
        conversations.add(found, more)
        return JSONResponse(page(list(more.items), len(more.items), None))

    @router.get("/v1/conversations/{conversation_id}/items/{item_id}", responses=returns(dict[str, Any]))
    async def retrieve_conversation_item(conversation_id: str, item_id: str) -> Response:
        return JSONResponse(dict(_item(find(conversation_id), item_id)))

    @router.delete("/v1/conversations/{conversation_id}/items/{item_id}", responses=returns(ConversationObject))
    async def delete_conversation_item(conversation_id: str, item_id: str) -> Response:
        found = find(conversation_id)
        _item(found, item_id)
        found.segments = found.without(item_id)
        return JSONResponse(found.described())


def _item(conversation: ConversationItems, item_id: str) -> Item:
    for item in conversation.items:
        if item["id"] == item_id:
            return item
    raise NotFound(f"The conversation {conversation.id!r} has no item {item_id!r}.")
