"""The radix tree against a plain dictionary of prefixes; segments that know which tokens they are made of."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.cache.radix import EMPTY, Match, Node, PrefixKey, common_length
from tests.lengths import examples

Text = tuple[int, ...]
TEXTS = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=9).map(tuple), min_size=1, max_size=12)


@dataclass(frozen=True)
class Said:
    """A segment whose content is its tokens."""

    tokens: Text

    @property
    def nbytes(self) -> int:
        return len(self.tokens)

    def split(self, at: int) -> tuple[Said, Said]:
        return Said(self.tokens[:at]), Said(self.tokens[at:])


def key(text: Text) -> PrefixKey:
    return np.asarray(text, dtype=np.int64)


def insert(tree: Node, text: Text) -> Node:
    match = tree.match(key(text))
    node = match.nodes[-1] if match.nodes else tree
    if match.rest is not None:
        node = match.rest.split(match.into)
    if match.length < len(text):
        node = node.grow(key(text[match.length :]))
        node.segment = Said(text[match.length :])
    return node


def nodes_of(tree: Node) -> list[Node]:
    return [node for node in tree.subtree() if node is not tree]


def check(tree: Node) -> None:
    for node in nodes_of(tree):
        assert node.parent is not None and node.parent.stop == node.start
        assert node.parent.children[int(node.key[0])] is node
        assert node.segment == Said(tuple(node.key.tolist()))
        assert [part.stop for part in node.path()] == sorted({part.stop for part in node.path()})
        assert node.path()[-1] is node and node.path()[0].parent is tree
        assert len(node.prefix()) == node.stop


@settings(max_examples=examples(60))
@given(texts=TEXTS, asked=TEXTS)
def test_the_longest_known_prefix_is_found(texts: list[Text], asked: list[Text]) -> None:
    tree = Node(EMPTY)
    known: set[Text] = {()}
    for text in texts:
        node = insert(tree, text)
        assert tuple(node.prefix().tolist()) == text and node.stop == len(text)
        known |= {text[:size] for size in range(len(text) + 1)}
        check(tree)
    for text in [*asked, *texts]:
        longest = max(size for size in range(len(text) + 1) if text[:size] in known)
        match = tree.match(key(text))
        assert match.length == longest
        parts = [tuple(node.key.tolist()) for node in match.nodes]
        if match.rest is not None:
            assert 0 < match.into < len(match.rest.key)
            parts.append(tuple(match.rest.key[: match.into].tolist()))
        assert sum(parts, ()) == text[:longest]
    assert {tuple(node.prefix().tolist()) for node in nodes_of(tree)} <= known


@settings(max_examples=examples(60))
@given(texts=TEXTS, places=st.lists(st.tuples(st.integers(0, 99), st.integers(0, 99)), max_size=6))
def test_a_split_anywhere_keeps_every_token_in_its_segment(texts: list[Text], places: list[tuple[int, int]]) -> None:
    tree = Node(EMPTY)
    ends = {text: insert(tree, text) for text in texts}
    for which, at in places:
        nodes = [node for node in nodes_of(tree) if len(node.key) > 1]
        if not nodes:
            break
        node = nodes[which % len(nodes)]
        whole = tuple(node.prefix().tolist())
        upper = node.split(1 + at % (len(node.key) - 1))
        assert node.parent is upper and list(upper.children.values()) == [node]
        assert tuple(node.prefix().tolist()) == whole
        check(tree)
    for text, node in ends.items():  # whoever holds a node still holds the end of the same text
        assert tuple(node.prefix().tolist()) == text


def test_what_stands_at_a_nodes_end_stays_there_when_it_is_split() -> None:
    tree = Node(EMPTY)
    node = insert(tree, (1, 2, 3, 4))
    node.checkpoint, node.segment_file, node.checkpoint_file = Said((0,)), "file", "file"
    node.pins, node.hits, node.base, node.used = 2, 3, 0.5, 7.0
    upper = node.split(3)
    assert (upper.checkpoint, upper.segment_file, upper.checkpoint_file) == (None, "file", None)
    assert (upper.pins, upper.hits, upper.base, upper.used) == (0, 0, 0.5, 7.0)
    assert (node.checkpoint, node.segment_file, node.checkpoint_file, node.pins) == (Said((0,)), "file", "file", 2)
    assert node.restorable and not upper.restorable


def test_a_checkpoint_in_memory_or_on_disk_is_enough_to_restore_and_its_bytes_count_with_the_segments() -> None:
    tree = Node(EMPTY)
    node = insert(tree, (1, 2, 3, 4))
    assert (node.restorable, node.in_memory, node.nbytes) == (False, True, 4)
    node.checkpoint = Said((0, 0))
    assert (node.restorable, node.in_memory, node.nbytes) == (True, True, 6)
    node.segment = None
    assert (node.restorable, node.in_memory, node.nbytes) == (True, True, 2)
    node.checkpoint, node.checkpoint_file = None, "file"
    assert (node.restorable, node.in_memory, node.nbytes) == (True, False, 0)


def test_a_search_may_start_at_a_node_on_the_way() -> None:
    tree = Node(EMPTY)
    near = insert(tree, (1, 2, 3))
    end = insert(tree, (1, 2, 3, 4, 5))
    assert tree.match(key((1, 2, 3, 4, 5, 6)), near) == Match((near, end))
    assert tree.match(key((1, 2, 3, 4, 7)), near) == Match((near,), end, 1)
    assert tree.match(key((1, 2, 9)), near) == tree.match(key((1, 2, 9)))  # it goes another way
    assert tree.match(key((1, 2)), near) == tree.match(key((1, 2)))  # it goes too far
    near.alive = False
    assert tree.match(key((1, 2, 3, 4, 5)), near) == tree.match(key((1, 2, 3, 4, 5)))


def test_children_come_before_their_parents() -> None:
    tree = Node(EMPTY)
    for text in ((1, 2, 3), (1, 2, 4, 5), (1, 2, 4, 6), (7,)):
        insert(tree, text)
    seen: set[int] = set()
    for node in nodes_of(tree):
        assert not any(id(above) in seen for above in node.path()[:-1])
        seen.add(id(node))
    assert len(seen) == 6
    branch = tree.match(key((1, 2))).nodes[-1]
    assert [node.stop for node in branch.subtree()][-1] == 2 and len(list(branch.subtree())) == 5


def test_nothing_matches_in_an_empty_tree_nor_an_empty_text() -> None:
    tree = Node(EMPTY)
    assert tree.match(key((1,))) == Match(()) and tree.match(key((1,))).length == 0
    insert(tree, (1,))
    assert insert(tree, ()) is tree
    assert list(tree.prefix()) == []


def test_a_node_cannot_grow_where_one_begins_with_the_same_token() -> None:
    tree = Node(EMPTY)
    insert(tree, (1, 2))
    with pytest.raises(AssertionError):
        tree.grow(key((1, 3)))


@settings(max_examples=examples(50))
@given(a=st.lists(st.integers(0, 1)), b=st.lists(st.integers(0, 1)))
def test_the_common_length_counts_equal_tokens_from_the_start(a: list[int], b: list[int]) -> None:
    size = common_length(key(tuple(a)), key(tuple(b)))
    assert a[:size] == b[:size]
    assert size == min(len(a), len(b)) or a[size] != b[size]
