"""GatedDeltaNet for rows: prefill in chunks with plain ops where no kernel exists.

mlx-lm's own form off Metal is a Python loop over tokens. Inside a chunk of C tokens the recurrence is a triangular
system, so a chunk costs a few matrix products (the WY form). With c_t the running sum of the log decays:

    (I + A) U = beta * (V - exp(c) K S^T),   A[t, i] = beta_t exp(c_t - c_i) k_t.k_i   for i < t
    Y = exp(c) Q S^T + (Q K^T * decay) U,    S' = exp(c_C) S + U^T (exp(c_C - c) K)
"""

from __future__ import annotations

from functools import partial
from typing import Any

import mlx.core as mx
import mlx.nn as nn
from mlx_lm.models.gated_delta import normalize_qk
from mlx_lm.models.qwen3_5 import GatedDeltaNet

from paceline.cache.layers import StateCache
from paceline.models import gated_delta_cuda

CHUNK = 32  # by measurement on CPU: 32 beats 64, and 128 is bad


class RowGatedDelta(GatedDeltaNet):  # type: ignore[misc]
    """Adopted by mlx-lm's module at load (same parameters): prefill in chunks, decoding as upstream or by a kernel."""

    fused = False  # may a decode step run as one kernel? Set by the adapter, and checked at start-up

    def __call__(self, inputs: mx.array, mask: mx.array | None = None, cache: Any = None) -> mx.array:
        width = inputs.shape[1]
        if not isinstance(cache, StateCache):
            return super().__call__(inputs, mask, cache)
        if width == 1 and self.fused and cache[1] is not None:
            return self._fused_step(inputs, cache)
        if width == 1 or mx.metal.is_available():
            return super().__call__(inputs, mask, cache)
        rows = inputs.shape[0]
        gates = self.in_proj_z(inputs).reshape(rows, width, self.num_v_heads, self.head_v_dim)
        convolved = self._convolve(self.in_proj_qkv(inputs), cache)
        queries, keys, values = self._heads(convolved)
        state = cache[1]
        if state is None:
            state = mx.zeros((rows, self.num_v_heads, self.head_v_dim, self.head_k_dim), mx.float32)
        decay = log_decay(self.A_log, self.in_proj_a(inputs), self.dt_bias)
        # sigmoid in the native type: taking it in float32 makes a bf16 state drift from upstream's.
        out, cache[1] = chunked(queries, keys, values, decay, mx.sigmoid(self.in_proj_b(inputs)), state)
        out = self.norm(out.astype(inputs.dtype), gates)
        return self.out_proj(out.reshape(rows, width, -1))

    def _fused_step(self, inputs: mx.array, cache: Any) -> mx.array:
        rows = inputs.shape[0]
        gates = self.in_proj_z(inputs).reshape(rows, 1, self.num_v_heads, self.head_v_dim)
        a, b = self.in_proj_a(inputs), self.in_proj_b(inputs)
        out, cache[0], cache[1] = gated_delta_cuda.step(self, self.in_proj_qkv(inputs), a, b, cache[0], cache[1])
        return self.out_proj(self.norm(out, gates).reshape(rows, 1, -1))

    def _convolve(self, mixed: mx.array, cache: Any) -> mx.array:
        keep = self.conv_kernel_size - 1
        past = cache[0]
        if past is None:
            past = mx.zeros((mixed.shape[0], keep, self.conv_dim), mixed.dtype)
        window = mx.concatenate([past, mixed], axis=1)
        cache[0] = mx.contiguous(window[:, -keep:])
        return nn.silu(self.conv1d(window))

    def _heads(self, convolved: mx.array) -> tuple[mx.array, mx.array, mx.array]:
        rows, width, _ = convolved.shape
        parts = mx.split(convolved, [self.key_dim, 2 * self.key_dim], axis=-1)
        shapes = (
            (self.num_k_heads, self.head_k_dim),
            (self.num_k_heads, self.head_k_dim),
            (self.num_v_heads, self.head_v_dim),
        )
        queries, keys, values = (p.reshape(rows, width, *s) for p, s in zip(parts, shapes, strict=True))
        queries, keys = normalize_qk(queries, keys, inv_scale=self.head_k_dim**-0.5, eps=1e-6)
        return queries, keys, values


def log_decay(a_log: mx.array, a: mx.array, dt_bias: mx.array) -> mx.array:
    return -mx.exp(a_log.astype(mx.float32)) * nn.softplus(a + dt_bias).astype(mx.float32)


def chunked(
    queries: mx.array, keys: mx.array, values: mx.array, decay: mx.array, beta: mx.array, state: mx.array
) -> tuple[mx.array, mx.array]:
    """All tokens of a chunk at once. Shapes (rows, tokens, heads, dim); decay is a logarithm; state (rows, heads,
    value dim, key dim) in float32. Returns outputs in float32 and the new state."""
    rows, tokens = queries.shape[:2]
    repeat = values.shape[2] // keys.shape[2]
    lay = partial(_lay, tokens=tokens, repeat=repeat)
    q, k, v = lay(queries), lay(keys), _lay(values, tokens=tokens, repeat=1)
    c, b = _lay(decay[..., None], tokens=tokens, repeat=1), _lay(beta[..., None], tokens=tokens, repeat=1)
    w, u, reads, attention, writes, carry = _within(q, k, v, c[..., 0], b[..., 0])
    outputs = []
    for index in range(q.shape[2]):
        out, state = _across(state, *(part[:, :, index] for part in (w, u, reads, attention, writes, carry)))
        outputs.append(out)
    joined = outputs[0] if len(outputs) == 1 else mx.concatenate(outputs, axis=2)
    return joined[:, :, :tokens].transpose(0, 2, 1, 3), state


def _lay(x: mx.array, *, tokens: int, repeat: int) -> mx.array:
    """(rows, tokens, heads, dim) -> float32 (rows, heads, chunks, CHUNK, dim), padded with zeros.

    A padded token has decay 0 (a factor of one) and beta 0, so it changes nothing.
    """
    x = x.astype(mx.float32).transpose(0, 2, 1, 3)
    if repeat > 1:
        x = mx.repeat(x, repeat, axis=1)
    short = -tokens % CHUNK
    if short:
        x = mx.pad(x, [(0, 0), (0, 0), (0, short), (0, 0)])
    return x.reshape(x.shape[0], x.shape[1], -1, CHUNK, x.shape[-1])


@mx.compile
def _within(
    q: mx.array, k: mx.array, v: mx.array, decay: mx.array, beta: mx.array
) -> tuple[mx.array, mx.array, mx.array, mx.array, mx.array, mx.array]:
    """What each chunk needs that does not depend on the state before it, for all chunks in parallel."""
    c = mx.cumsum(decay, axis=-1)
    lower = mx.tril(mx.ones((CHUNK, CHUNK), dtype=mx.bool_))
    between = mx.exp(mx.where(lower, c[..., :, None] - c[..., None, :], -mx.inf))
    transposed = k.swapaxes(-1, -2)
    strict = mx.tril(mx.ones((CHUNK, CHUNK)), -1)
    inverse = _inverse((k @ transposed) * between * beta[..., None] * strict)
    scale = mx.exp(c)[..., None]
    u = inverse @ (beta[..., None] * v)
    w = inverse @ (beta[..., None] * scale * k)
    last = c[..., -1:]
    return (
        w,
        u,
        q * scale,
        (q @ transposed) * between,
        k * mx.exp(last - c)[..., None],
        mx.exp(last)[..., None],
    )


@mx.compile
def _across(
    state: mx.array,
    w: mx.array,
    u: mx.array,
    reads: mx.array,
    attention: mx.array,
    writes: mx.array,
    carry: mx.array,
) -> tuple[mx.array, mx.array]:
    """One chunk's outputs and the state after it."""
    turned = state.swapaxes(-1, -2)
    fresh = u - w @ turned
    return reads @ turned + attention @ fresh, carry * state + fresh.swapaxes(-1, -2) @ writes


def _inverse(a: mx.array) -> mx.array:
    """(I + a)^-1 for strictly lower a, by inverting diagonal blocks of doubling size.

    Products of powers of `a` (Neumann) would be shorter to write, and overflow when keys repeat.
    """
    lead, size = a.shape[:-2], a.shape[-1]
    inverse = mx.ones((*lead, size, 1, 1), a.dtype)
    block = 1
    while block < size:
        pairs = size // (2 * block)
        tiles = a.reshape(*lead, pairs, 2, block, pairs, 2, block)
        below = mx.stack([tiles[..., p, 1, :, p, 0, :] for p in range(pairs)], axis=-3)
        halves = inverse.reshape(*lead, pairs, 2, block, block)
        upper, lower = halves[..., 0, :, :], halves[..., 1, :, :]
        corner = -(lower @ below @ upper)
        top = mx.concatenate([upper, mx.zeros_like(upper)], axis=-1)
        inverse = mx.concatenate([top, mx.concatenate([corner, lower], axis=-1)], axis=-2)
        block *= 2
    return inverse.reshape(*lead, size, size)
