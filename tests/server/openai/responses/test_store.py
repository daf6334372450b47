from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from paceline.server.http.response import encode_json
from paceline.server.openai.responses.store import ResponseStore, Segment, StoredResponse


def segment(id: str, size: int = 0) -> Segment:
    return Segment([{"id": f"item {id}", "text": "x" * size}])


def kept(id: str, *segments: Segment) -> StoredResponse:
    return StoredResponse({"id": id, "output": []}, segments)


def test_the_least_recently_used_goes_first() -> None:
    store = ResponseStore(most_responses=2)
    for id in "ab":
        store.put(kept(id, segment(id)))
    assert store.get("a") is not None
    store.put(kept("c", segment("c")))
    assert store.get("b") is None and store.item("item b") is None
    assert store.get("a") is not None and store.item("item a") is not None and len(store) == 2


def test_a_shared_segment_counts_once_and_lives_as_long_as_it_is_held() -> None:
    store = ResponseStore()
    shared = segment("shared", 1000)
    store.put(kept("a", shared))
    before = store.bytes
    store.put(kept("b", shared, segment("b")))
    assert store.bytes < before + 1000
    assert store.delete("a") and not store.delete("a")
    assert store.item("item shared") is not None
    store.delete("b")
    assert store.bytes == 0 and store.item("item shared") is None


def test_what_is_larger_than_all_is_not_kept() -> None:
    store = ResponseStore(most_bytes=500)
    assert store.put(kept("a", segment("a")))
    assert not store.put(kept("b", segment("b", 1000)))
    assert store.get("a") is not None and store.get("b") is None
    assert not ResponseStore(most_responses=0).put(kept("a"))


def test_the_first_item_of_an_id_is_the_one_referred_to() -> None:
    store = ResponseStore()
    first, second = segment("x", 1), segment("x", 2)
    store.put(kept("a", first))
    store.put(kept("b", second))
    assert store.item("item x") is first.items[0]
    store.delete("b")
    assert store.item("item x") is first.items[0]


def test_what_is_kept_is_for_its_owner_only() -> None:
    store = ResponseStore()
    segments = {owner: Segment([{"id": "item x", "of": owner}], owner) for owner in ("one", "two", None)}
    for owner, mine in segments.items():
        store.put(StoredResponse({"id": f"of {owner}", "output": []}, (mine,), owner))
    for owner, mine in segments.items():
        assert store.item("item x", owner) is mine.items[0]
        assert [store.get(f"of {other}", owner) is not None for other in segments] == [o == owner for o in segments]
        store.delete(f"of {owner}")
        assert store.item("item x", owner) is None
    assert store.item("item x", "three") is None and store.bytes == 0


operations = st.tuples(
    st.sampled_from(["put", "put", "get", "delete"]), st.integers(0, 9), st.integers(0, 400), st.integers(0, 9)
)


@given(st.lists(operations, max_size=60), st.integers(1, 6), st.integers(100, 2000))
def test_the_store_never_holds_more_than_it_may(lives: list[Any], most: int, bytes: int) -> None:
    store = ResponseStore(most, bytes)
    alive: dict[str, StoredResponse] = {}
    for what, number, size, base in lives:
        id = str(number)
        if what == "put":
            before = alive.get(str(base))
            new = kept(id, *(before.segments if before else ()), segment(f"{id}.{size}", size))
            alive[id] = new
            assert store.put(new) == (store.get(id) is new)
        elif what == "get":
            found = store.get(id)
            assert found is None or found.response["id"] == id
        else:
            store.delete(id)
        held = {id: entry for id in alive if (entry := store._kept.get(id)) is not None}
        distinct = {segment for found, _ in held.values() for segment in found.segments}
        counted = sum(each.bytes for each in distinct) + sum(
            len(encode_json({**found.response, "output": []})) for found, _ in held.values()
        )
        assert len(store) == len(held) <= most and store.bytes == counted <= bytes
        assert set(store._items) <= {(None, item["id"]) for each in distinct for item in each.items}
