"""The vision cache: bounded by bytes, the least recently used evicted first."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from paceline.cache.features import Features
from paceline.stats import VisionCacheStats


def of(size: int) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    return np.zeros(size, dtype=np.uint8)


def test_what_was_put_is_found_and_counted() -> None:
    features = Features(100)
    made = of(60)
    features.put("a", made)
    assert features.get("a") is made and features.get("b") is None
    assert features.stats() == VisionCacheStats(hits=1, misses=1, bytes=60, limit_bytes=100)
    features.put("a", of(10))  # the same pixels: nothing new
    assert features.get("a") is made and features.nbytes == 60


def test_the_least_recently_used_goes_first() -> None:
    features = Features(100)
    for name in "abc":
        features.put(name, of(30))
    features.get("a")
    features.put("d", of(30))
    assert [name for name in "abcd" if features.get(name) is not None] == ["a", "c", "d"]


def test_what_does_not_fit_pushes_nobody_out() -> None:
    features = Features(100)
    features.put("a", of(100))
    features.put("b", of(101))
    assert features.get("a") is not None and features.get("b") is None and features.nbytes == 100
    nothing = Features(0)
    nothing.put("a", of(1))
    assert nothing.get("a") is None and nothing.nbytes == 0


def test_clear_forgets_all() -> None:
    features = Features(100)
    features.put("a", of(50))
    features.clear()
    assert features.get("a") is None and features.nbytes == 0


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 60), st.booleans()), max_size=40))
def test_the_bound_is_never_exceeded(script: list[tuple[int, int, bool]]) -> None:
    features, recent = Features(100), dict[str, int]()  # a naive twin: names in order of use
    for name, size, put in script:
        key = str(name)
        if put and key not in recent and size <= 100:
            recent[key] = size
            while sum(recent.values()) > 100:
                del recent[next(iter(recent))]
        elif not put and key in recent:
            recent[key] = recent.pop(key)
        if put:
            features.put(key, of(size))
        else:
            assert (features.get(key) is not None) == (key in recent)
        assert features.nbytes == sum(recent.values()) <= 100
