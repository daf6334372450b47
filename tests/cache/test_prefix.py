"""The prefix cache: what it keeps, what it finds, and what it evicts first."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.cache.prefix import Hit, PrefixCache
from paceline.cache.radix import Node
from paceline.stats import CachedPrefix
from tests.cache.test_radix import Said, Text, key
from tests.lengths import examples

ROOT = "root"


@dataclass(frozen=True)
class State:
    nbytes: int


def cache_of(limit: int, *, anywhere: bool = False) -> PrefixCache:
    return PrefixCache(lambda: limit, anywhere)


def keep(cache: PrefixCache, text: Text, checkpoint: int | None = 1, root: str = ROOT, *, held: bool = False) -> Node:
    have, _ = cache.covered(root, key(text))
    segment = Said(text[have:]) if have < len(text) else None
    node = cache.store(root, key(text), segment, None if checkpoint is None else State(checkpoint))
    if not held:
        cache.release(node)
    return node


def length(cache: PrefixCache, text: Text, root: str = ROOT) -> int:
    return cache.peek(root, key(text)).length


def lengths(cache: PrefixCache) -> list[int]:
    return sorted(node.stop for node in cache.nodes())


def run(seed: int, size: int) -> Text:
    """Texts of different seeds differ from the first token on."""
    return (100 + seed, *range(size - 1))


# -- finding


def test_a_prefix_is_found_as_far_as_there_is_a_checkpoint() -> None:
    cache = cache_of(1000)
    keep(cache, (1, 2, 3, 4), None)
    assert cache.peek(ROOT, key((1, 2, 3, 4, 5))) == Hit((), 0, 4)
    node = keep(cache, (1, 2), 1)
    hit = cache.find(ROOT, key((1, 2, 3, 9)))
    assert (hit.nodes, hit.length, hit.known, node.pins) == ((node,), 2, 3, 1)
    cache.release(node)


def test_without_states_a_prefix_is_found_up_to_any_token() -> None:
    cache = cache_of(1000, anywhere=True)
    node = keep(cache, (1, 2, 3, 4), None)
    for size in range(1, 5):
        hit = cache.find(ROOT, key((1, 2, 3, 4)[:size] + (9,)))
        assert (hit.length, hit.known, hit.nodes) == (size, size, (node,))
    assert node.pins == 4


def test_another_root_finds_nothing() -> None:
    cache = cache_of(1000)
    keep(cache, (1, 2), 1, "salted")
    assert length(cache, (1, 2)) == 0 and length(cache, (1, 2), "salted") == 2
    assert cache.covered(ROOT, key((1, 2))) == (0, False)


def test_what_is_there_is_not_replaced() -> None:
    cache = cache_of(1000)
    first = keep(cache, (1, 2, 3), 5)
    assert keep(cache, (1, 2, 3), 7) is first
    assert first.checkpoint == State(5) and cache.memory == 8
    assert cache.covered(ROOT, key((1, 2, 3))) == (3, True)
    assert cache.covered(ROOT, key((1, 2))) == (2, False)


# -- evicting


def test_many_small_prefixes_are_evicted_though_their_bytes_would_fit() -> None:
    cache = PrefixCache(lambda: 1_000_000, most_entries=40)
    for seed in range(40):
        keep(cache, run(seed, 10))
    assert (cache.entries, cache.counts.evictions) == (40, 0)
    keep(cache, run(40, 10))
    assert (cache.entries, cache.counts.evictions) == (38, 3)
    assert length(cache, run(40, 10)) == 10


def test_the_least_benefit_for_its_bytes_goes_first() -> None:
    """A checkpoint is worth the tokens it saves, for the bytes that it and its segment take."""
    cache = cache_of(1000)
    keep(cache, run(1, 40), 60)  # 40 tokens for 100 bytes
    keep(cache, run(2, 50), 10)  # 50 for 60
    keep(cache, run(3, 30), 270)  # 30 for 300
    keep(cache, run(4, 20), 20)  # 20 for 40
    order = []
    for limit in range(500, -1, -20):
        before = set(lengths(cache))
        cache.limit = lambda limit=limit: limit  # type: ignore[misc]
        cache.shrink()
        order += sorted(before - set(lengths(cache)))
    assert order == [30, 40, 20, 50] and cache.memory == 0 and cache.counts.evictions == 4


def test_what_is_used_often_stays_longer() -> None:
    cache = cache_of(100)
    keep(cache, run(1, 20), 20)
    keep(cache, run(2, 20), 20)
    hit = cache.find(ROOT, key(run(1, 20)))
    cache.use(hit)
    cache.release(hit.nodes[-1])
    keep(cache, run(3, 20), 20)
    assert length(cache, run(1, 20)) == 20 and length(cache, run(2, 20)) == 0


def test_what_was_popular_once_does_not_stay_for_ever() -> None:
    cache = cache_of(100)
    keep(cache, run(1, 20), 20)
    for _ in range(50):
        cache.use(Hit(tuple(cache.nodes()), 20, 20))
    for seed in range(2, 60):
        keep(cache, run(seed, 20), 20)
    assert length(cache, run(1, 20)) == 0


def test_a_checkpoint_in_between_may_go_while_what_follows_stays() -> None:
    cache = cache_of(1000)
    upper = keep(cache, (1, 2, 3), 500)
    lower = keep(cache, (1, 2, 3, 4, 5, 6), 10)
    cache.limit = lambda: 100
    cache.shrink()
    assert upper.checkpoint is None and upper.segment == Said((1, 2, 3)) and upper.alive
    assert length(cache, (1, 2, 3, 4, 5, 6)) == 6 and length(cache, (1, 2, 3)) == 0
    assert cache.memory == 16 == lower.nbytes + upper.nbytes


def test_a_segment_that_leads_nowhere_goes_before_anything_else() -> None:
    cache = cache_of(100)
    keep(cache, run(1, 30), None)
    keep(cache, run(2, 5), 60)
    keep(cache, run(3, 5), 1)
    assert lengths(cache) == [5, 5]


def test_what_is_in_use_is_never_evicted() -> None:
    cache = cache_of(50)
    held = keep(cache, run(1, 40), 40, held=True)
    other = keep(cache, (*run(1, 40), 5), 40, held=True)
    assert cache.memory == 121 and held.alive and other.alive
    cache.release(other)
    cache.shrink()
    assert lengths(cache) == [40] and held.checkpoint is not None
    cache.release(held)
    cache.shrink()
    assert lengths(cache) == [] and cache.memory == 0


def test_the_bound_holds_as_soon_as_nothing_is_in_use() -> None:
    cache = cache_of(0)
    keep(cache, (1, 2, 3), 4)
    assert cache.memory == 0 and lengths(cache) == []


def test_a_node_on_disk_stays_when_its_memory_goes() -> None:
    cache = cache_of(1000)
    node = keep(cache, (1, 2, 3), 4)
    assert cache.add_file(ROOT, key((1, 2, 3)), 0, "file", True) == [node]
    cache.limit = lambda: 0
    cache.shrink()
    hit = cache.peek(ROOT, key((1, 2, 3)))
    assert node.alive and node.nbytes == cache.memory == 0 and hit.length == 3 and hit.files == {"file"}
    cache.load(node, Said((1, 2, 3)), State(4))
    assert cache.memory == 7 and cache.peek(ROOT, key((1, 2, 3))).files == frozenset()
    cache.shrink()
    cache.remove_file(node, "file")
    assert not node.alive and length(cache, (1, 2, 3)) == 0


# -- forgetting


def test_what_went_wrong_is_forgotten_with_all_that_was_built_on_it() -> None:
    cache = cache_of(1000)
    gone: list[Node] = []
    cache.on_gone = gone.append
    first = keep(cache, (1, 2))
    wrong = keep(cache, (1, 2, 3), held=True)
    later = keep(cache, (1, 2, 3, 4))
    other = keep(cache, (1, 2, 9))
    cache.forget([wrong, later])
    assert set(cache.nodes()) == {first, other} and gone == [later, wrong]
    assert wrong.invalid and later.invalid and not first.invalid
    assert cache.memory == sum(node.nbytes for node in cache.nodes())
    cache.release(wrong)
    cache.forget([wrong])  # once more is nothing


def test_what_went_wrong_is_forgotten_also_where_it_was_split() -> None:
    cache = cache_of(1000, anywhere=True)
    wrong = keep(cache, (1, 2, 3, 4), None, held=True)
    keep(cache, (1, 2, 7), None)  # somebody else leaves it in the middle
    cache.forget([wrong])
    assert length(cache, (1, 2, 3, 4)) == 0


def test_clear_forgets_everything_and_says_how_much_that_was() -> None:
    cache = cache_of(1000)
    held = keep(cache, (1, 2), held=True)
    keep(cache, (1, 2, 3))
    keep(cache, (5,), root="other")
    assert cache.clear() == (3, 7)
    assert list(cache.nodes()) == [] and cache.memory == 0 and not held.alive and held.nbytes == 0
    cache.release(held)
    cache.load(held, Said((1, 2)), None)  # what comes too late is nothing
    assert cache.memory == 0
    keep(cache, (1, 2))
    assert length(cache, (1, 2)) == 2


# -- what the disk knows


def test_a_file_is_known_by_every_node_that_is_made_of_it() -> None:
    cache = cache_of(1000)
    assert cache.add_file(ROOT, key((1, 2, 3, 4)), 0, "a", True)
    (below,) = cache.add_file(ROOT, key((1, 2, 8, 9)), 2, "b", False)
    upper, lower = cache.peek(ROOT, key((1, 2, 3, 4))).nodes
    assert (upper.segment_file, lower.segment_file, below.segment_file) == ("a", "a", "b")
    assert (upper.checkpoint_file, lower.checkpoint_file, below.checkpoint_file) == (None, "a", None)
    assert cache.add_file(ROOT, key((7, 8, 9)), 2, "c", True) == []  # what it builds on is not there
    assert cache.add_file(ROOT, key((1, 2)), 2, "d", True) == [upper] and upper.checkpoint_file == "d"
    cache.remove_file(upper, "d")
    assert upper.alive and not upper.restorable
    cache.remove_file(upper, "a")
    assert list(cache.nodes()) == [] and not below.alive


# -- numbers


def test_a_snapshot_is_plain_numbers() -> None:
    cache = cache_of(1000)
    node = keep(cache, (1, 2, 3), 4)
    keep(cache, (9,), 1, "other")
    cache.use(cache.find(ROOT, key((1, 2, 3, 4))))
    shot = cache.stats(largest=1)
    (largest,) = shot.largest
    assert largest.idle_seconds >= 0
    assert largest == CachedPrefix(3, 7, 1, "memory", in_use=True, idle_seconds=largest.idle_seconds)
    assert (shot.hits, shot.hit_tokens, shot.stored, shot.entries) == (1, 3, 2, 2)
    assert (shot.memory_bytes, shot.memory_limit_bytes, node.pins) == (9, 1000, 1)


def test_others_may_look_while_the_owner_works() -> None:
    cache = cache_of(400)
    over, errors = threading.Event(), []

    def look(seed: int) -> None:
        random = np.random.default_rng(seed)
        try:
            while not over.is_set():
                text = key(tuple(random.integers(0, 3, 20).tolist()))
                hit = cache.peek(ROOT, text)
                assert 0 <= hit.length <= hit.known <= 20
                assert cache.stats().memory_bytes >= 0
        except BaseException as error:  # noqa: BLE001  for the test's own thread
            errors.append(error)

    threads = [threading.Thread(target=look, args=(seed,)) for seed in range(3)]
    for thread in threads:
        thread.start()
    random = np.random.default_rng(9)
    for _ in range(2000):
        text = tuple(random.integers(0, 3, random.integers(1, 20)).tolist())
        node = keep(cache, text, int(random.integers(1, 30)))
        if random.random() < 0.05:
            cache.forget([node])
        if random.random() < 0.01:
            cache.clear()
    over.set()
    for thread in threads:
        thread.join()
    assert errors == []


# -- any script


TEXT = st.lists(st.integers(0, 2), min_size=1, max_size=8).map(tuple)
DONE = st.one_of(
    st.tuples(st.just("keep"), TEXT, st.integers(0, 20)),
    st.tuples(st.just("keep"), TEXT, st.integers(0, 20)),
    st.tuples(st.just("find"), TEXT, st.just(0)),
    st.tuples(st.just("release"), st.just((0,)), st.integers(0, 9)),
    st.tuples(st.just("limit"), st.just((0,)), st.integers(0, 120)),
    st.tuples(st.just("forget"), TEXT, st.just(0)),
)


@pytest.mark.parametrize("anywhere", [False, True])
@settings(max_examples=examples(60))
@given(script=st.lists(DONE, max_size=30))
def test_whatever_happens_bytes_are_counted_and_paths_are_whole(
    anywhere: bool, script: list[tuple[str, Any, int]]
) -> None:
    limit = [60]
    cache = PrefixCache(lambda: limit[0], anywhere)
    pinned: list[Node] = []
    for kind, text, number in script:
        if kind == "keep":
            pinned.append(keep(cache, text, number or None, held=True))
        elif kind == "find":
            hit = cache.find(ROOT, key(text))
            assert hit.length <= hit.known <= len(text)
            said = sum((part_of(node) for node in hit.nodes), ())
            assert said[: hit.length] == text[: hit.length]
            assert anywhere or not hit.nodes or hit.nodes[-1].checkpoint is not None
            pinned += hit.nodes[-1:]
        elif kind == "release" and pinned:
            cache.release(pinned.pop(number % len(pinned)))
        elif kind == "limit":
            limit[0] = number
            cache.shrink()
        elif kind == "forget":
            cache.forget(cache.peek(ROOT, key(text)).nodes[-1:])
        nodes = list(cache.nodes())
        check_counts(cache)
        assert all(part_of(node) == tuple(node.key.tolist()) for node in nodes)
        assert all(node.segment is not None for node in pinned if node.alive)
    for node in pinned:
        cache.release(node)
    cache.shrink()
    assert cache.memory <= limit[0] and not any(node.pins for node in cache.nodes())


def check_counts(cache: PrefixCache) -> None:
    """The running counts are equal to those of a walk over all nodes."""
    nodes = list(cache.nodes())
    assert cache.memory == sum(node.nbytes for node in nodes)
    held = [node.nbytes for node in nodes if node.segment is not None or node.checkpoint is not None]
    assert cache.entries == len(held)
    listed = [entry.bytes for entry in cache.stats(largest=3).largest]
    assert listed == sorted((nbytes for nbytes in held if nbytes), reverse=True)[:3]


@pytest.mark.parametrize("seed", range(5))
def test_whatever_goes_to_disk_and_comes_back_is_counted(seed: int) -> None:
    random, limit, made, files = np.random.default_rng(seed), [60], [], 0
    cache = PrefixCache(lambda: limit[0])
    for _ in range(300):
        text = tuple(random.integers(0, 3, random.integers(1, 12)).tolist())
        match random.integers(6):
            case 0 | 1:
                made.append(keep(cache, text, int(random.integers(0, 9)) or None))
            case 2:
                files += 1
                cache.add_file(ROOT, key(text), cache.covered(ROOT, key(text))[0], f"file {files}", bool(files % 2))
            case 3:
                for node in [node for node in cache.nodes() if node.segment is None and node.segment_file][:2]:
                    cache.load(node, Said(tuple(node.key.tolist())), State(3) if files % 3 else None)
            case 4:
                for node in [node for node in cache.nodes() if node.segment_file][:1]:
                    cache.remove_file(node, str(node.segment_file))
            case 5:
                limit[0] = int(random.integers(0, 120))
                cache.shrink()
        if random.random() < 0.02:
            cache.clear()
        check_counts(cache)


def test_a_snapshot_looks_at_a_few_nodes_however_many_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = [0]
    nbytes = Node.nbytes

    def counted(node: Node) -> int:
        looks[0] += 1
        return nbytes.__get__(node)  # type: ignore[no-any-return]

    def never(cache: PrefixCache) -> Any:
        raise AssertionError("a walk over all nodes")

    seen = []
    for count in (50, 2000):
        cache = cache_of(1 << 30)
        for place in range(count):
            keep(cache, run(place, 2 + place % 7), 5)
        with monkeypatch.context() as patch:
            patch.setattr(Node, "nbytes", property(counted))
            patch.setattr(PrefixCache, "nodes", never)
            for _ in range(3):
                looks[0] = 0
                assert cache.stats().entries == count
            seen.append(looks[0])
    assert seen[0] == seen[1] <= 30


def part_of(node: Node) -> Text:
    assert isinstance(node.segment, Said)
    return node.segment.tokens


def test_roots_that_were_only_asked_for_leave_nothing_behind() -> None:
    cache = cache_of(0)
    for salt in range(100):
        keep(cache, (1, 2, 3), 1, f"salt {salt}")
    assert len(cache._trees) <= 1
