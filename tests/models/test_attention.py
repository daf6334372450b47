"""Attention with keys that query heads share: on a CPU those heads are one, and nothing else changes."""

from __future__ import annotations

from typing import Any

import mlx.core as mx
import pytest

from paceline import platform
from paceline.models.adapter import attention

ROWS, HEADS, SHARED, LENGTH, SIZE = 2, 6, 2, 40, 16


def normal(*shape: int) -> mx.array:
    return mx.random.normal(shape, key=mx.random.key(sum(shape)))


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
    more = {"scale": 0.2, "mask": masks(width)[name], "sinks": normal(HEADS) if sinks else None}
    found = attention(queries, keys, values[..., :8], **more)
    expected = mx.fast.scaled_dot_product_attention(queries, keys, values[..., :8], **more)
    assert found.shape == expected.shape == (ROWS, HEADS, width, 8)
    assert mx.allclose(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("kind", "heads"), [("cpu", SHARED), ("metal", HEADS), ("cuda", HEADS)])
def test_a_cpu_reads_shared_keys_once(monkeypatch: pytest.MonkeyPatch, kind: str, heads: int) -> None:
    seen = []

    def watched(queries: mx.array, *rest: Any, **more: Any) -> mx.array:
        seen.append(queries.shape[1])
        return queries

    monkeypatch.setattr(mx.fast, "scaled_dot_product_attention", watched)
    monkeypatch.setattr(platform, "device_kind", lambda: kind)
    attention(normal(1, HEADS, 1, 8), normal(1, SHARED, 4, 8), normal(1, SHARED, 4, 8), scale=1.0, mask=None)
    assert seen == [heads]
