"""A radix tree over tokens: which prefixes are known, and what is kept of each. No MLX, no locks, no clock.

A node is an edge of tokens that leads to it, with the segment (keys and values) of just these tokens. It may have a
checkpoint of everything that cannot be cut by tokens (recurrent states, sliding windows) at its end.
Invariant: every node's segment is in memory or on disk, so a path's attention cache is always complete.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray

PrefixKey = NDArray[np.int64]  # one number a token: its id, or a hash of the image that it is a part of
EMPTY: PrefixKey = np.empty(0, dtype=np.int64)


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
    """A tree is its root, a node without a parent and without tokens. `stop` counts the tokens from there to a node's
    end. A request that uses a node pins it."""

    key: PrefixKey
    start: int = 0
    parent: Node | None = None
    children: dict[int, Node] = field(default_factory=dict)
    segment: Segment | None = None
    checkpoint: Checkpoint | None = None
    segment_file: str | None = None  # on disk, in a file that may hold more than this segment
    checkpoint_file: str | None = None
    maker: object = None  # the request that computed it
    pins: int = 0
    hits: int = 0
    base: float = 0.0  # the cache's clock when it was last used (cache/prefix)
    used: float = 0.0
    alive: bool = True  # still in the tree
    invalid: bool = False  # must be neither used nor written
    refused: bool = False  # the disk had no room for it

    @property
    def stop(self) -> int:
        return self.start + len(self.key)

    @property
    def restorable(self) -> bool:
        """Is there a checkpoint at its end, in memory or on disk?"""
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
        node = self
        while node.parent is not None:
            nodes.append(node)
            node = node.parent
        return nodes[::-1]

    def prefix(self) -> PrefixKey:
        """All tokens from the root to its end."""
        return np.concatenate([EMPTY, *(node.key for node in self.path())])

    def subtree(self) -> Iterator[Node]:
        """This node and all under it, children before parents."""
        stack, order = [self], []
        while stack:
            node = stack.pop()
            order.append(node)
            stack.extend(node.children.values())
        yield from reversed(order)

    def match(self, key: PrefixKey, near: Node | None = None) -> Match:
        """Of a root: the longest known prefix of `key`. `near`: a node whose parent's tokens are known to begin `key`;
        if its own go on, the search starts there, and what is above it is left out of the match."""
        nodes: list[Node] = []
        node, at = self, 0
        if near is not None and near.alive and np.array_equal(near.key, key[near.start : near.stop]):
            nodes, node, at = [near], near, near.stop
        while at < len(key):
            child = node.children.get(int(key[at]))
            if child is None:
                break
            into = common_length(child.key, key[at:])
            if into < len(child.key):
                return Match(tuple(nodes), child, into)
            nodes.append(child)
            node, at = child, child.stop
        return Match(tuple(nodes))

    def split(self, at: int) -> Node:
        """Cut a node's edge; returns the new upper part. The lower part stays the same object."""
        parent = self.parent
        assert parent is not None and 0 < at < len(self.key)
        upper = Node(self.key[:at], self.start, parent, segment_file=self.segment_file)
        upper.base, upper.used, upper.maker = self.base, self.used, self.maker
        if self.segment is not None:
            upper.segment, self.segment = self.segment.split(at)
        parent.children[int(upper.key[0])] = upper
        self.key, self.start, self.parent = self.key[at:], self.start + at, upper
        upper.children[int(self.key[0])] = self
        return upper

    def grow(self, key: PrefixKey) -> Node:
        """A new child. No other child begins with the same token."""
        assert len(key) and int(key[0]) not in self.children
        node = Node(key, self.stop, self)
        self.children[int(key[0])] = node
        return node


@dataclass(frozen=True, slots=True)
class Match:
    """Nodes whose tokens all match, and the first `into` tokens of one more node."""

    nodes: tuple[Node, ...]
    rest: Node | None = None
    into: int = 0

    @property
    def length(self) -> int:
        return (self.nodes[-1].stop if self.nodes else 0) + self.into


def common_length(a: PrefixKey, b: PrefixKey) -> int:
    """How many tokens two prefixes have in common from the start."""
    size = min(len(a), len(b))
    differ = np.nonzero(a[:size] != b[:size])[0]
    return int(differ[0]) if len(differ) else size
