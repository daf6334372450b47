"""The attention call that models are given: the library's, but where rows look only nearby."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest
from mlx_lm.models import llama

from paceline.models import adapter

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
