"""What MLX holds, as a test may compare it: with nothing under way, and without the garbage of earlier tests."""

from __future__ import annotations

import gc

import mlx.core as mx


def held() -> int:
    """Bytes of arrays."""
    gc.collect()
    mx.synchronize()
    mx.clear_cache()
    return int(mx.get_active_memory())
