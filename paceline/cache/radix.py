"""A radix tree over token keys: which prefixes are known, and what is kept of each. No MLX, no locks, no clock.

A node is an edge of keys that leads to it, with the segment (keys and values) of just these tokens, and, where one was
taken, a checkpoint of everything that cannot be cut by tokens (recurrent states, sliding windows) at its end.
Invariant: of every node in the tree, the segment is in memory or on disk; so a path's attention cache is always whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray

PrefixKey = NDArray[np.int64]


class Segment(Protocol):
    """Keys and values of a run of tokens. Immutable."""

    @property
    def nbytes(self) -> int: ...
    def split(self, at: int) -> tuple[Self, Self]: ...


class Checkpoint(Protocol):
    @property
    def nbytes(self) -> int: ...


@dataclass(slots=True, eq=False)
class Node:
    """`stop` counts the tokens from the root to its end. Pins are held by rows that use it."""

    key: PrefixKey
    start: int = 0
    parent: Node | None = None
    children: dict[int, Node] = field(default_factory=dict)
    segment: Segment | None = None
    checkpoint: Checkpoint | None = None
    segment_file: str | None = None  # on disk, in a file that may hold more than this segment
    checkpoint_file: str | None = None
    maker: object = None  # who computed it
    pins: int = 0
    hits: int = 0
    base: float = 0.0  # of its value when it was last used (cache/prefix)
    used: float = 0.0
    alive: bool = True  # still in the tree
    spoiled: bool = False  # must not be used, nor written
    refused: bool = False  # the disk had no room for it

    @property
    def stop(self) -> int:
        return self.start + len(self.key)

    @property
    def restorable(self) -> bool:
        """Is there a checkpoint at its end, here or on disk?"""
        return self.checkpoint is not None or self.checkpoint_file is not None

    @property
    def nbytes(self) -> int:
        parts = (self.segment, self.checkpoint)
        return sum(part.nbytes for part in parts if part is not None)

    @property
    def in_memory(self) -> bool:
        return self.segment is not None or self.checkpoint is not None

    def path(self) -> list[Node]:
        """From the root's child down to this node."""
        nodes: list[Node] = []
        node: Node | None = self
        while node is not None and node.parent is not None:
            nodes.append(node)
            node = node.parent
        return nodes[::-1]

    def prefix(self) -> PrefixKey:
        """All keys from the root to its end."""
        parts = [node.key for node in self.path()]
        return np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)

    def below(self) -> Iterator[Node]:
        """This node and all under it, children before parents."""
        stack = [self]
        order = []
        while stack:
            node = stack.pop()
            order.append(node)
            stack.extend(node.children.values())
        yield from reversed(order)


@dataclass(frozen=True, slots=True)
class Match:
    """Nodes whose keys all match, and of one more node the first `into` keys."""

    nodes: tuple[Node, ...]
    rest: Node | None = None
    into: int = 0

    @property
    def length(self) -> int:
        return (self.nodes[-1].stop if self.nodes else 0) + self.into


def shared(a: PrefixKey, b: PrefixKey) -> int:
    """How many keys two sequences have in common from the start."""
    size = min(len(a), len(b))
    differ = np.nonzero(a[:size] != b[:size])[0]
    return int(differ[0]) if len(differ) else size


class Tree:
    def __init__(self) -> None:
        self.root = Node(np.empty(0, dtype=np.int64))

    def match(self, key: PrefixKey) -> Match:
        """The longest known prefix of `keys`."""
        nodes: list[Node] = []
        node, at = self.root, 0
        while at < len(key):
            child = node.children.get(int(key[at]))
            if child is None:
                break
            into = shared(child.key, key[at:])
            if into < len(child.key):
                return Match(tuple(nodes), child, into)
            nodes.append(child)
            node, at = child, child.stop
        return Match(tuple(nodes))

    def end(self, match: Match) -> Node:
        """The node that ends where the match ends; one is split if it must be."""
        if match.rest is not None:
            return self.split(match.rest, match.into)
        return match.nodes[-1] if match.nodes else self.root

    def split(self, node: Node, at: int) -> Node:
        """Cut a node's edge; returns the new upper part. The lower part stays the same object."""
        parent = node.parent
        assert parent is not None and 0 < at < len(node.key)
        upper = Node(node.key[:at], node.start, parent, segment_file=node.segment_file)
        upper.base, upper.used, upper.maker = node.base, node.used, node.maker
        if node.segment is not None:
            upper.segment, node.segment = node.segment.split(at)
        parent.children[int(upper.key[0])] = upper
        node.key, node.start, node.parent = node.key[at:], node.start + at, upper
        upper.children[int(node.key[0])] = node
        return upper

    def grow(self, parent: Node, key: PrefixKey) -> Node:
        """A new node under `parent`, where no child begins with the same key."""
        assert len(key) and int(key[0]) not in parent.children
        node = Node(key, parent.stop, parent)
        parent.children[int(key[0])] = node
        return node

    def nodes(self) -> Iterator[Node]:
        """All but the root, children before parents."""
        for node in self.root.below():
            if node is not self.root:
                yield node
