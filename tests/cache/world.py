"""A batch of rows whose tokens are known: after every step, the layers must hold just these tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import count

import mlx.core as mx
import numpy as np

from paceline.cache.batch import Batch, LayerPlan
from paceline.cache.kv_quantization import dense
from paceline.cache.layers import AttentionCache, CacheGroup, LayerCache, StateCache
from paceline.cache.shape_buckets import ShapeBuckets
from paceline.cache.slot_plan import LAYOUTS, ROWS, Grouping, Placement

PRIME = 10_007  # states stay small integers
FULL = LayerPlan("attention")


def taken_in(
    current: Sequence[mx.array | None],
    pending: Sequence[mx.array],
    kept: mx.array | None = None,
    *,
    now: bool = True,
) -> list[mx.array]:
    """The two states of a layer after the first `kept[i]` of row i's pending tokens (None: after all)."""
    tokens = pending[0]
    rows, width = tokens.shape
    counts = mx.full((rows,), width) if kept is None else kept
    states = [mx.zeros((rows, 3), mx.int32) if state is None else state for state in current]
    for place in range(width):
        taken = (place < counts)[:, None]
        after = [(31 * state + tokens[:, place, None] + 1 + n) % PRIME for n, state in enumerate(states)]
        states = [mx.where(taken, new, old) for new, old in zip(after, states, strict=True)]
    return states


def later(
    current: Sequence[mx.array | None], pending: Sequence[mx.array], kept: mx.array, *, now: bool = False
) -> list[mx.array] | None:
    """As a kernel does it: the layer's next step applies the pending tokens, unless they are needed now."""
    return taken_in(current, pending, kept) if now else None


STATE = LayerPlan("state", size=2)  # whose steps cannot be taken back
FOLDS = LayerPlan("state", size=2, apply_accepted=taken_in)
DEFERS = LayerPlan("state", size=2, apply_accepted=later)
FOLDABLE = {
    "folding": (FOLDS, FULL, FOLDS),
    "deferring": (DEFERS, FULL, DEFERS),
    "both": (DEFERS, LayerPlan("list", parts=(FOLDS, LayerPlan("attention", window=7))), FULL),
    "states": (FOLDS, DEFERS),
}
MODELS = {
    **FOLDABLE,
    "full": (FULL, FULL),
    "windows": (LayerPlan("attention", window=5), FULL, LayerPlan("attention", window=11), LayerPlan("attention", 5)),
    "narrow": (LayerPlan("attention", window=1),),
    "hybrid": (STATE, FULL, STATE),
    "state": (STATE,),
    "list": (LayerPlan("list", parts=(STATE, LayerPlan("attention", window=7))), FULL),
}
HEADS, SIZE = 2, 4
BUCKETS = ShapeBuckets(rows=(1, 2, 4, 6), widths=(4, 8), prompts=(1, 2, 4), geometric=True)
EVERY_LAYOUT = [*LAYOUTS, "similar+buckets", "padded+buckets"]


def grouping(layout: str, plans: Sequence[LayerPlan]) -> Grouping:
    """A layout by its name, with `+buckets` where shapes come from small buckets: those that a model of these layers
    gets (`models/adapter.buckets_for`)."""
    name, _, bucketed = layout.partition("+")
    if not bucketed:
        return LAYOUTS[name]
    skips = all(cache.can_roll_back for cache in Batch(plans, ROWS).flat if isinstance(cache, StateCache))
    return replace(LAYOUTS[name], buckets=BUCKETS if skips else replace(BUCKETS, widths=(), prompts=()))


def vectors(tokens: Sequence[Sequence[int]]) -> mx.array:
    """(rows, heads, width, size): each entry says its token, head and channel."""
    ids = np.asarray(tokens, dtype=np.float32)[:, None, :, None]
    return mx.array(ids * 100 + np.arange(HEADS)[:, None, None] * 10 + np.arange(SIZE))


def folded(index: int, tokens: Sequence[int]) -> int:
    """The naive twin of `taken_in`."""
    state = 0
    for token in tokens:
        state = (31 * state + token + 1 + index) % PRIME
    return state


@dataclass(slots=True)
class Person:
    """The naive model of a row; one that is not `active` is padding."""

    tokens: list[int] = field(default_factory=list)
    delta: int = 0
    active: bool = True

    def visible(self, new: Sequence[int], window: int | None) -> list[list[int]]:
        text = [*self.tokens, *new]
        ends = range(len(self.tokens) + 1, len(text) + 1)
        return [text[0 if window is None else max(0, end - window) : end] for end in ends]


class World:
    """A batch and its naive twin, moved together and compared at every step."""

    def __init__(self, plans: Sequence[LayerPlan], grouping: Grouping, rows: int = 1) -> None:
        self.plans, self.grouping = plans, grouping
        self.batch = Batch(plans, grouping, rows)
        self.people = [Person() for _ in range(rows)]
        self.names = count(1)

    # -- moves

    def step(
        self, width: int, kept: Sequence[int] | None = None, *, fixed: bool = False, valid: Sequence[int] | None = None
    ) -> None:
        """`kept`: the step is tentative, and row i keeps its first `kept[i]` tokens. `valid`: row i's first `valid[i]`
        tokens are no padding."""
        new = self.attempt(width, tentative=kept is not None, fixed=fixed, valid=valid)
        before = list(self.batch.lengths)
        sizes = kept or valid or [width] * len(new)
        if kept is None and not fixed:
            self.batch.commit()
        else:
            self.batch.close()
            if kept is not None:
                self.batch.apply_accepted(mx.array(list(kept), dtype=mx.int32))
            assert self.batch.lengths == before  # the host may not know yet
            self.batch.advance(sizes)
        self.take(new, sizes)
        self.check_rest()

    def take(self, new: list[list[int]], sizes: Sequence[int]) -> None:
        for person, tokens, size in zip(self.people, new, sizes, strict=True):
            if person.active:
                person.tokens += tokens[:size]

    def attempt(
        self, width: int, *, tentative: bool = False, fixed: bool = False, valid: Sequence[int] | None = None
    ) -> list[list[int]]:
        """A step up to its close; a `fixed` one as `engine/forward` traces it."""
        new, batch = self.new(width), self.batch
        if fixed:
            batch.reserve(width)
            ends = {
                window: mx.array(batch.ends(slot_plan), dtype=mx.int32)
                for window, slot_plan in batch.slot_plans.items()
            }
            places = mx.array(batch.next_positions, dtype=mx.int32)
            for kept in batch.unsynced:
                ends, places = {window: end + kept for window, end in ends.items()}, places + kept
            counts = None if valid is None else mx.array(list(valid), dtype=mx.int32)
            batch.begin_fixed(width, places, ends, batch.active_flags, tentative=tentative, valid=counts)
            offsets = zip(self.people, np.array(batch.step.offset).tolist(), strict=True)
            assert all(not person.active or len(person.tokens) + person.delta == found for person, found in offsets)
        else:
            batch.begin(width, tentative=tentative, valid=valid)
            self.check_positions()
        assert batch.step.tentative == tentative
        self.forward(new)
        return new

    def advance_on_device(self, width: int, kept: Sequence[int]) -> None:
        """A tentative step that the host has not read yet; the steps before it may be unread too."""
        new, counts = self.attempt(width, tentative=True, fixed=True), mx.array(list(kept), dtype=mx.int32)
        self.batch.close()
        self.batch.apply_accepted(counts)
        self.batch.advance_on_device(counts, width)
        self.take(new, kept)

    def join(self, chunks: Sequence[int], delta: int = 0, at: Placement | None = None) -> Placement:
        """A row arrives that was prefilled in chunks of these sizes."""
        other = World(self.plans, self.grouping)
        other.names = self.names
        for width in chunks:
            other.step(self.grouping.buckets.width(width), valid=[width])
        other.people[0].delta = other.batch.deltas[0] = delta
        return self.take_row(other, at)

    def take_row(self, other: World, at: Placement | None = None) -> Placement:
        """The only row of another world joins."""
        place = self.batch.join(other.batch, at)
        padding = [Person(active=False) for _ in range(place.added - 1)]
        self.people[place.row : place.row + (not place.added)] = [other.people[0], *padding]
        self.check_rest()
        return place

    def keep(self, rows: Sequence[int]) -> None:
        before = []  # groups that nobody leaves: one of their rows, its place in the group, and their buffers
        for cache in self.attention():
            for index, group in enumerate(cache.slot_plan.groups if cache.stores[0] else []):
                inside = [row for row in range(self.batch.rows)[group.rows] if self.people[row].active]
                if all(row in rows for row in inside):
                    keys, values = (store[index] for store in cache.stores)
                    before.append((cache, inside[0], inside[0] - group.first, keys, values))
        order = self.batch.keep(rows)
        assert [row for row in order if row is not None] == [row for row in rows if self.people[row].active]
        self.people = [Person(active=False) if row is None else self.people[row] for row in order]
        for cache, row, local, keys, values in before:  # such a group keeps its buffers: the same objects
            first = order.index(row) - local
            index = next(i for i, group in enumerate(cache.slot_plan.groups) if group.first == first)
            if cache.slot_plan.groups[index].capacity == keys.shape[2]:
                assert cache.stores[0][index] is keys and cache.stores[1][index] is values
        self.check_rest()

    # -- looks

    @property
    def can_roll_back(self) -> bool:
        return all(cache._apply_accepted is not None for cache in self.batch.flat if isinstance(cache, StateCache))

    def new(self, width: int) -> list[list[int]]:
        return [[next(self.names) for _ in range(width)] for _ in self.people]

    def attention(self) -> list[AttentionCache]:
        return [cache for cache in self.batch.flat if isinstance(cache, AttentionCache)]

    def forward(self, new: list[list[int]]) -> None:
        for layer in self.batch.layers:
            for cache in layer.parts if isinstance(layer, CacheGroup) else [layer]:
                self.layer(cache, new)

    def layer(self, cache: LayerCache, new: list[list[int]]) -> None:
        if isinstance(cache, StateCache):
            tokens = mx.array(new, dtype=mx.int32)
            assert cache.active.tolist() == [person.active for person in self.people]
            states: Sequence[mx.array | None] = [cache[0], cache[1]]
            if cache.pending:  # a deferring layer applies now what the step before left pending
                assert cache.kept is not None
                cache[0], cache[1] = states = taken_in(states, cache.pending, cache.kept)
            for index, state in enumerate(states):
                found = [0] * len(new) if state is None else np.array(state)[:, 0].tolist()
                pairs = zip(self.people, found, strict=True)
                assert all(not person.active or folded(index, person.tokens) == value for person, value in pairs)
            if cache.tentative and cache._apply_accepted is not None:
                cache.set_pending([tokens])
            else:
                real = cache.active[:, None] != 0
                cache[0], cache[1] = (mx.where(real, after, -1) for after in taken_in(states, [tokens], cache.valid))
            return
        assert isinstance(cache, AttentionCache)
        keys, values = cache.update_and_fetch(vectors(new), -vectors(new))
        mask = cache.make_mask(len(new[0]))
        if len(cache.slot_plan.groups) == 1:  # the library's own attention gets these
            for returned, view in zip((keys, values), cache._view(0), strict=True):
                assert_same(dense(returned), dense(view))
            assert mask is self.batch.mask(cache.slot_plan, 0)
        valid = self.batch.step.valid
        sizes = [len(new[0])] * len(new) if valid is None else np.array(valid).tolist()
        for person, text, found, size in zip(self.people, new, seen(cache, sizes), sizes, strict=True):
            assert not person.active or found == person.visible(text, cache.slot_plan.window)[:size]

    def check_positions(self) -> None:
        expected = [len(person.tokens) + person.delta for person in self.people]
        offset = self.batch.step.offset
        assert ([offset] * len(expected) if isinstance(offset, int) else offset.tolist()) == expected
        assert isinstance(offset, int) or len(set(expected)) > 1

    def check_rest(self) -> None:
        batch = self.batch
        assert batch.rows == len(self.people)
        assert batch.lengths == [len(person.tokens) for person in self.people]
        assert batch.deltas == [person.delta for person in self.people]
        assert batch.active == [person.active for person in self.people]
        row_count = self.grouping.buckets.row_count
        if not batch.slot_plans:
            assert batch.rows <= row_count(sum(batch.active))
        for slot_plan in batch.slot_plans.values():
            first = 0
            for group in slot_plan.groups:
                assert group.first == first
                assert 0 < sum(batch.active[group.rows]) <= group.count <= row_count(sum(batch.active[group.rows]))
                first += group.count
            assert first == batch.rows
            if self.grouping.skew == 0:
                assert all(group.count == 1 for group in slot_plan.groups)
        for cache in self.attention():
            for buffers in cache.stores:
                shapes = [(group.count, HEADS, group.capacity, SIZE) for group in cache.slot_plan.groups]
                assert not buffers or [buffer.shape for buffer in buffers] == shapes
        deferred = [cache for cache in batch.flat if isinstance(cache, StateCache) and cache.pending]
        assert all(cache._apply_accepted is later for cache in deferred)
        assert (batch.kept is not None) == bool(deferred)


def seen(cache: AttentionCache, valid: Sequence[int]) -> list[list[list[int]]]:
    """For every row and each of its new tokens but padding, the tokens whose keys and values it can attend to."""
    found: list[list[list[int]]] = []
    width = cache.batch.step.width
    for index, group in enumerate(cache.slot_plan.groups):
        keys, values = (np.array(part) for part in cache._view(index))
        mask = cache.batch.mask(cache.slot_plan, index)
        slots = keys.shape[2]
        shape = (group.count, 1, width, slots)
        if mask is None:
            allowed = np.ones(shape, dtype=bool)
        elif isinstance(mask, str):
            allowed = np.broadcast_to(np.tri(width, slots, slots - width, dtype=bool), shape)
        else:
            allowed = np.broadcast_to(np.array(mask), shape)
        ids = keys[:, 0, :, 0] / 100
        for row in range(group.count):
            looks = []
            place = group.first + row
            for query in range(valid[place] if cache.batch.active[place] else 0):
                places = np.flatnonzero(allowed[row, 0, query])
                tokens = [int(n) for n in ids[row, places]]
                whole = np.array(vectors([tokens]))[0]
                assert np.array_equal(keys[row][:, places], whole) and np.array_equal(values[row][:, places], -whole)
                looks.append(tokens)
            found.append(looks)
    return found


def assert_same(one: mx.array, other: mx.array) -> None:
    assert np.array_equal(np.array(one), np.array(other))
