"""What /v1/responses keeps for later requests: in memory, so many responses and bytes, the latest used ones."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from fastapi import Depends, Query
from fastapi.responses import JSONResponse

from paceline.errors import InvalidRequest
from paceline.server.http.errors import NotFound
from paceline.server.http.response import encode_json

Item = Mapping[str, Any]
MAX_RESPONSES = 1024
MAX_BYTES = 128 << 20


class Segment:
    """Items of one turn. Later turns of a conversation hold the same segment, which counts once."""

    __slots__ = ("bytes", "items", "owner")

    def __init__(self, items: Sequence[Item], owner: str | None = None) -> None:
        self.items = tuple(items)
        self.owner = owner  # the name of the key that sent or caused them
        self.bytes = len(encode_json(self.items).encode())


@dataclass(frozen=True, slots=True)
class StoredResponse:
    """A finished response. `segments`: all the input that it saw, and last of all its output."""

    response: Mapping[str, Any]
    segments: tuple[Segment, ...]
    owner: str | None = None  # the name of the key that may have it

    @property
    def input(self) -> list[Item]:
        return [item for segment in self.segments[:-1] for item in segment.items]


class NotStored(NotFound):
    def __init__(self, response_id: str, field: str | None = None, code: str | None = None) -> None:
        super().__init__(
            f"The response {response_id!r} is not stored here: it never was, was deleted, or made room for newer ones.",
            field=field,
            code=code,
        )


class ResponseStore:
    """Used on the event loop only."""

    def __init__(self, most_responses: int = MAX_RESPONSES, most_bytes: int = MAX_BYTES) -> None:
        self.most_responses = most_responses
        self.most_bytes = most_bytes
        self.bytes = 0
        self._kept: OrderedDict[str, tuple[StoredResponse, int]] = OrderedDict()  # each with the bytes of its response
        self._holders: Counter[Segment] = Counter()
        self._items: dict[tuple[str | None, str], Item] = {}  # of all segments, by owner and id; the first counts

    def __len__(self) -> int:
        return len(self._kept)

    def put(self, kept: StoredResponse) -> bool:
        """False: it alone is larger than all that may be kept."""
        id = kept.response["id"]
        own = len(encode_json({**kept.response, "output": []}).encode())
        if own + sum(segment.bytes for segment in set(kept.segments)) > self.most_bytes or not self.most_responses:
            return False
        self.delete(id)
        self._kept[id] = (kept, own)
        self.bytes += own
        for segment in kept.segments:
            self._hold(segment)
        while len(self._kept) > self.most_responses or self.bytes > self.most_bytes:
            self.delete(next(iter(self._kept)))
        return True

    def get(self, id: str, owner: str | None = None) -> StoredResponse | None:
        if id not in self._kept or self._kept[id][0].owner != owner:
            return None
        self._kept.move_to_end(id)
        return self._kept[id][0]

    def find(self, id: str, owner: str | None = None) -> StoredResponse:
        kept = self.get(id, owner)
        if kept is None:
            raise NotStored(id)
        return kept

    def delete(self, id: str) -> bool:
        if id not in self._kept:
            return False
        kept, own = self._kept.pop(id)
        self.bytes -= own
        for segment in kept.segments:
            self._let_go(segment)
        return True

    def item(self, id: str, owner: str | None = None) -> Item | None:
        return self._items.get((owner, id))

    def _hold(self, segment: Segment) -> None:
        self._holders[segment] += 1
        if self._holders[segment] == 1:
            self.bytes += segment.bytes
            for item in segment.items:
                self._items.setdefault((segment.owner, item["id"]), item)

    def _let_go(self, segment: Segment) -> None:
        self._holders[segment] -= 1
        if not self._holders[segment]:
            del self._holders[segment]
            self.bytes -= segment.bytes
            for item in segment.items:
                if self._items.get((segment.owner, item["id"])) is item:
                    del self._items[segment.owner, item["id"]]


@dataclass(frozen=True, slots=True)
class Page:
    """The part of a list of items that a request asks for."""

    limit: Annotated[int, Query(ge=1, le=100)] = 20
    order: Literal["asc", "desc"] = "desc"
    after: str | None = None

    def of(self, items: Sequence[Item]) -> JSONResponse:
        return JSONResponse(page(items if self.order == "asc" else items[::-1], self.limit, self.after))


AskedPage = Annotated[Page, Depends()]


def page(items: Sequence[Item], limit: int, after: str | None) -> dict[str, Any]:
    start = 0
    if after is not None:
        places = [place for place, item in enumerate(items) if item["id"] == after]
        if not places:
            raise InvalidRequest.at("after", f"names {after!r}, which is not in this list.")
        start = places[0] + 1
    data = list(items[start : start + limit])
    ids = [item["id"] for item in data] or [""]
    more = start + limit < len(items)
    return {"object": "list", "data": data, "first_id": ids[0], "last_id": ids[-1], "has_more": more}
