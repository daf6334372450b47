"""The attention call that models are given: the library's, but where rows look only nearby, and on a CPU."""

from __future__ import annotations

from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from mlx_lm.models import llama

from paceline import platform
from paceline.models import adapter

ROWS, HEADS, SHARED, LENGTH, SIZE = 2, 6, 2, 40, 16
NEAR = 4
BLOCK = adapter.NEARBY_BLOCK * NEAR


def normal(*shape: int) -> mx.array:
    return mx.array(np.random.default_rng(len(shape) + shape[2]).standard_normal(shape, np.float32))


def seen(place: int) -> range:
    """The tokens that the one at `place` looks at: its block up to itself, and `NEAR` before."""
    return range(max(place // BLOCK * BLOCK - NEAR, 0), place + 1)


@pytest.mark.parametrize("chunk", [1, 5, BLOCK, 30])
def test_a_token_sees_its_block_and_some_before_it_whatever_the_chunks_are(chunk: int) -> None:
    length, heads, size = 30, 2, 8
    queries, keys, values = (
        normal(1, heads, length, size),
        normal(1, heads, length, size),
        normal(1, heads, length, size),
    )
    outputs = []
    for start in range(0, length, chunk):
        stop = min(start + chunk, length)
        read = keys[:, :, :stop], values[:, :, :stop]
        outputs.append(adapter.nearby_attention(queries[:, :, start:stop], *read, NEAR, 0.3))
    found = np.array(mx.concatenate(outputs, axis=2))[0]
    q, k, v = (np.array(array)[0] for array in (queries, keys, values))
    for place in range(length):
        scores = 0.3 * np.einsum("hd,hkd->hk", q[:, place], k[:, seen(place)])
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        expected = np.einsum("hk,hkd->hd", weights / weights.sum(-1, keepdims=True), v[:, seen(place)])
        np.testing.assert_allclose(found[:, place], expected, atol=1e-5)


def test_other_caches_get_the_librarys_own_attention() -> None:
    queries, keys, values = normal(1, 4, 3, 8), normal(1, 2, 9, 8), normal(1, 2, 9, 8)
    ours = adapter.batched_attention(queries, keys, values, None, 0.3, "causal")
    theirs = adapter.library_attention(queries, keys, values, cache=None, scale=0.3, mask="causal")
    assert np.array_equal(np.array(ours), np.array(theirs))


def test_models_call_it_once_it_is_installed_however_often() -> None:
    adapter.install_attention()
    adapter.install_attention()
    assert llama.scaled_dot_product_attention is adapter.batched_attention


def masks(width: int) -> dict[str, Any]:
    seen = normal(ROWS, HEADS, width, LENGTH) > -1
    return {
        "none": None,
        "causal": "causal",
        "one": seen[0, 0],
        "rows": seen[:, :1],
        "rows, all tokens": seen[:, :1, :1],
        "heads": seen,
        "added": mx.where(seen[:, :1], 0.0, -5.0),
    }


@pytest.mark.parametrize("width", [1, 5])
@pytest.mark.parametrize("name", masks(1))
@pytest.mark.parametrize("sinks", [False, True])
def test_shared_keys_are_attended_as_by_mlx(name: str, width: int, sinks: bool) -> None:
    queries, keys, values = (normal(ROWS, n, w, SIZE) for n, w in ((HEADS, width), (SHARED, LENGTH), (SHARED, LENGTH)))
    more = {"scale": 0.2, "mask": masks(width)[name], "sinks": normal(1, 1, HEADS)[0, 0] if sinks else None}
    found = adapter.attention(queries, keys, values[..., :8], **more)
    expected = mx.fast.scaled_dot_product_attention(queries, keys, values[..., :8], **more)
    assert found.shape == expected.shape == (ROWS, HEADS, width, 8)
    assert mx.allclose(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("kind", "calls"), [("cpu", 0), ("metal", 1), ("cuda", 1)])
def test_mlx_attends_where_it_has_kernels(monkeypatch: pytest.MonkeyPatch, kind: str, calls: int) -> None:
    seen = []

    def watched(queries: mx.array, *rest: Any, **more: Any) -> mx.array:
        seen.append(queries)
        return queries

    monkeypatch.setattr(mx.fast, "scaled_dot_product_attention", watched)
    monkeypatch.setattr(platform, "device_kind", lambda: kind)
    adapter.attention(normal(1, HEADS, 1, 8), normal(1, SHARED, 4, 8), normal(1, SHARED, 4, 8), scale=1.0, mask=None)
    assert len(seen) == calls
