"""GatedDeltaNet for batches: chunked prefill in plain ops where there is no kernel.

Without Metal, mlx-lm loops over tokens in Python. Inside a chunk of C tokens the recurrence is a triangular
system, so a chunk costs a few matrix products (the WY form). With c_t the running sum of the log decays:

    (I + A) U = beta * (V - exp(c) K S^T),   A[t, i] = beta_t exp(c_t - c_i) k_t.k_i   for i < t
    Y = exp(c) Q S^T + (Q K^T * decay) U,    S' = exp(c_C) S + U^T (exp(c_C - c) K)
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

import mlx.core as mx
import mlx.nn as nn
from mlx_lm.models.gated_delta import gated_delta_update, normalize_qk
from mlx_lm.models.qwen3_5 import GatedDeltaNet
from mlx_lm.models.qwen3_next import Qwen3NextGatedDeltaNet

from paceline.cache.layers import StateCache
from paceline.models import gated_delta_cuda, gated_delta_prefill_cuda, norm_cuda
from paceline.models.recurrent import RowState, ended, windowed

CHUNK = 32  # by measurement on CPU: 32 beats 64, and 128 is bad


class RowDelta(RowState):
    """Adopted by mlx-lm's module at load (same parameters): prefill in chunks, decoding as upstream, or by kernels.

    A tentative step does not change the state: what `apply_accepted` needs is pending in the cache.
    """

    sharding_group: Any = None  # set by mlx-lm's shard()
    fused = False  # whether steps run as kernels: set by the adapter, checked at start-up
    records = not mx.metal.is_available()  # the state after any token of a prompt: Metal's kernel gives the last only

    def __call__(self, inputs: mx.array, mask: mx.array | None = None, cache: Any = None) -> mx.array:
        width = inputs.shape[1]
        if not isinstance(cache, StateCache):
            return super().__call__(inputs, mask, cache)
        tentative, valid, checkpoints = cache.tentative, cache.valid, cache.checkpoints
        decodes = not checkpoints and valid is None and width <= gated_delta_cuda.WIDEST
        if self.fused and decodes and cache[1] is not None:
            return self._fused_step(inputs, cache, tentative)
        if self.fused and not tentative and not checkpoints and gated_delta_prefill_cuda.fits(self):
            return self._fused_prefill(inputs, cache)
        if not tentative and not checkpoints and valid is None and (width == 1 or mx.metal.is_available()):
            return super().__call__(inputs, mask, cache)
        rows = inputs.shape[0]
        mixed, gates, a, b = self._projected(inputs)
        window = windowed(cache[0], mixed, self.conv_kernel_size)
        queries, keys, values = self._heads(nn.silu(self.conv1d(window)))
        state = self._state(cache, rows)
        if tentative and inputs.dtype == mx.float32:
            # sigmoid in the native type: in float32 a bf16 state would drift from upstream's.
            out, pending = tried(queries, keys, values, log_decay(self.A_log, a, self.dt_bias), mx.sigmoid(b), state)
            cache.set_pending([window, *pending])
        elif tentative:
            out, _ = gated_delta_update(queries, keys, values, a, b, self.A_log, self.dt_bias, state)
            cache.set_pending([window, keys, values, a, b])
        else:
            cache[0] = self._ended(window, valid)
            if valid is not None and mx.metal.is_available():
                real = mx.arange(width) < valid[:, None]
                out, cache[1] = gated_delta_update(queries, keys, values, a, b, self.A_log, self.dt_bias, state, real)
            else:
                decay = log_decay(self.A_log, a, self.dt_bias)
                tokens = (queries, keys, values, decay, mx.sigmoid(b))
                out, cache[1], states = chunked(*tokens, state, valid, checkpoints)
                for count, inside in zip(checkpoints, states, strict=True):
                    last = mx.arange(count, count + self.conv_kernel_size - 1)
                    cache.record(count, [mx.take(window, last, axis=1), inside])  # `take` copies, a slice might not
        return self._joined(self.norm(out.astype(inputs.dtype), gates).reshape(rows, width, -1))

    def _projected(self, inputs: mx.array) -> tuple[mx.array, mx.array, mx.array, mx.array]:
        """Queries, keys and values in one array, the output's gates, and both gates of the state."""
        raise NotImplementedError

    def apply_accepted(
        self,
        current: Sequence[mx.array | None],
        pending: Sequence[mx.array],
        kept: mx.array,
        *,
        now: bool = False,
    ) -> list[mx.array] | None:
        """The window and state after the first `kept[i]` tokens of a tentative step; None: the next kernel does it.
        By algebra in float32, else by replaying upstream's steps, which is bitwise plain decoding."""
        if self.fused and len(pending) == 3:
            return self._fused_apply(current, pending, kept) if now else None
        window, *rest = pending
        width = window.shape[1] - self.conv_kernel_size + 1
        ended = self._ended(window, kept)
        state = current[1]
        if state is None:
            state = self._zeros(window.shape[0])
        if len(rest) == 3:
            keys, updates, decays = rest
            return [ended, folded(state, keys, updates, decays, kept)]
        keys, values, a, b = rest
        taken = mx.arange(width) < kept[:, None]
        _, state = gated_delta_update(keys, keys, values, a, b, self.A_log, self.dt_bias, state, taken)
        return [ended, state]

    def _fused_apply(
        self, current: Sequence[mx.array | None], pending: Sequence[mx.array], kept: mx.array
    ) -> list[mx.array]:
        """By the kernel of a tentative step: the pending tokens are applied, its own leave no trace and may be any."""
        window, state = current
        assert window is not None and state is not None
        mixed, a, b = pending
        _, window, state = gated_delta_cuda.step(self, mixed, a, b, window, state, pending, kept, eager=False)
        return [window, state]

    def _fused_step(self, inputs: mx.array, cache: Any, tentative: bool) -> mx.array:
        rows, width = inputs.shape[:2]
        mixed, gates, a, b = self._projected(inputs)
        out, cache[0], cache[1] = gated_delta_cuda.step(
            *(self, mixed, a, b, cache[0], cache[1], cache.pending, cache.kept, cache.active),
            eager=not tentative,
            gates=gates,
        )
        if tentative:
            cache.set_pending([mixed, a, b])
        return self._joined(out.reshape(rows, width, -1))

    def _fused_prefill(self, inputs: mx.array, cache: Any) -> mx.array:
        rows, width = inputs.shape[:2]
        every = self._side_by_side(inputs)
        mixed, gates, a, b = self._projected(inputs) if every is None else (every,) * 4
        window, state = cache[0], cache[1]
        if cache.pending and cache.kept is not None:
            window, state = self._fused_apply((window, state), cache.pending, cache.kept)
        if window is None:
            window = mx.zeros((rows, self.conv_kernel_size - 1, self.conv_dim), mixed.dtype)
        state = self._zeros(rows) if state is None else state
        tokens = (self, mixed, a, b, window, state, cache.valid)
        if every is None:
            out, cache[0], cache[1] = gated_delta_prefill_cuda.prefill(*tokens)
            normed = norm_cuda.gated_norm(out, gates, self.norm)
        else:  # as `linear_cuda.SAME_INPUT` has them
            first_b = self.conv_dim + self.value_dim
            first = (first_b + self.num_v_heads, first_b)
            out, cache[0], cache[1] = gated_delta_prefill_cuda.prefill(*tokens, first=first)
            normed = norm_cuda.gated_norm(out, gates, self.norm, self.conv_dim)
        return self._joined(normed.reshape(rows, width, -1))

    def _side_by_side(self, inputs: mx.array) -> mx.array | None:
        """What `_projected` gives, as one array of a product: queries, keys and values, gates, b, a; None: there is no
        such product."""
        return None

    def _joined(self, out: mx.array) -> mx.array:
        """The output projection of all heads; over several ranks, each has some of them."""
        out = self.out_proj(out)
        return out if self.sharding_group is None else mx.distributed.all_sum(out, group=self.sharding_group)

    def _ended(self, window: mx.array, count: mx.array | None) -> mx.array:
        """The window after the first `count[i]` tokens of row i, after all by default."""
        if count is None:
            return mx.contiguous(window[:, 1 - self.conv_kernel_size :])
        return ended(window, self.conv_kernel_size, count)

    def _state(self, cache: Any, rows: int) -> mx.array:
        state: mx.array | None = cache[1]
        return self._zeros(rows) if state is None else state

    def _zeros(self, rows: int) -> mx.array:
        return mx.zeros((rows, self.num_v_heads, self.head_v_dim, self.head_k_dim), mx.float32)

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


class RowGatedDelta(RowDelta, GatedDeltaNet):  # type: ignore[misc]
    """Qwen3.5's."""

    def _projected(self, inputs: mx.array) -> tuple[mx.array, mx.array, mx.array, mx.array]:
        gates = self.in_proj_z(inputs).reshape(*inputs.shape[:2], self.num_v_heads, self.head_v_dim)
        return self.in_proj_qkv(inputs), gates, self.in_proj_a(inputs), self.in_proj_b(inputs)

    def _side_by_side(self, inputs: mx.array) -> mx.array | None:
        siblings = getattr(self.in_proj_qkv, "siblings", None)
        if siblings is None or inputs.dtype != mx.bfloat16 or not siblings.merges(inputs.size // inputs.shape[-1]):
            return None
        found: mx.array = siblings.side_by_side(inputs)
        return found


class RowGatedDeltaNext(RowDelta, Qwen3NextGatedDeltaNet):  # type: ignore[misc]
    """Qwen3-Next's: the same with joined projections."""

    def _projected(self, inputs: mx.array) -> tuple[mx.array, mx.array, mx.array, mx.array]:
        rows, width = inputs.shape[:2]
        queries, keys, values, gates, b, a = self.fix_query_key_value_ordering(
            self.in_proj_qkvz(inputs), self.in_proj_ba(inputs)
        )
        mixed = mx.concatenate([part.reshape(rows, width, -1) for part in (queries, keys, values)], axis=-1)
        return mixed, gates, a, b


def log_decay(a_log: mx.array, a: mx.array, dt_bias: mx.array) -> mx.array:
    return -mx.exp(a_log.astype(mx.float32)) * nn.softplus(a + dt_bias).astype(mx.float32)


def chunked(
    queries: mx.array,
    keys: mx.array,
    values: mx.array,
    decay: mx.array,
    beta: mx.array,
    state: mx.array,
    valid: mx.array | None = None,
    checkpoints: tuple[int, ...] = (),
) -> tuple[mx.array, mx.array, list[mx.array]]:
    """All tokens of a chunk at once. Shapes (rows, tokens, heads, dim); decay is a logarithm; state (rows, heads,
    value dim, key dim) in float32. Only the first `valid[i]` tokens of row i change its state. Returns outputs in
    float32, the new state, and the states after these numbers of `checkpoints` tokens."""
    tokens = queries.shape[1]
    if valid is not None:
        real = (mx.arange(tokens) < valid[:, None])[..., None]
        decay, beta = mx.where(real, decay, 0), mx.where(real, beta, 0)
    repeat = values.shape[2] // keys.shape[2]
    q, k, v = _lay(queries, repeat), _lay(keys, repeat), _lay(values)
    c, b = _lay(decay[..., None])[..., 0], _lay(beta[..., None])[..., 0]
    w, u, reads, attention, writes, carry = _within(q, k, v, c, b)
    outputs, states = [], []
    inside = deque(checkpoints)
    for index in range(q.shape[2]):
        while inside and inside[0] <= (index + 1) * CHUNK:
            kept = mx.array([inside.popleft() - index * CHUNK])
            states.append(_inside(state, w[:, :, index], u[:, :, index], k[:, :, index], c[:, :, index], kept))
        out, state = _across(state, *(part[:, :, index] for part in (w, u, reads, attention, writes, carry)))
        outputs.append(out)
    joined = outputs[0] if len(outputs) == 1 else mx.concatenate(outputs, axis=2)
    return joined[:, :, :tokens].transpose(0, 2, 1, 3), state, states


def tried(
    queries: mx.array, keys: mx.array, values: mx.array, decay: mx.array, beta: mx.array, state: mx.array
) -> tuple[mx.array, list[mx.array]]:
    """A few tentative tokens: outputs (rows, tokens, heads, dim), and what `folded` needs."""
    repeat = values.shape[2] // keys.shape[2]

    def lay(x: mx.array, times: int = 1) -> mx.array:
        x = x.astype(mx.float32).transpose(0, 2, 1, 3)
        return mx.repeat(x, times, axis=1) if times > 1 else x

    q, k, v = lay(queries, repeat), lay(keys, repeat), lay(values)
    c = mx.cumsum(decay.astype(mx.float32).transpose(0, 2, 1), axis=-1)
    out, u = _tried(q, k, v, c, beta.astype(mx.float32).transpose(0, 2, 1), state)
    return out.transpose(0, 2, 1, 3), [k, u, c]


@mx.compile
def _tried(
    q: mx.array, k: mx.array, v: mx.array, c: mx.array, beta: mx.array, state: mx.array
) -> tuple[mx.array, mx.array]:
    """The WY form of one short chunk, by forward substitution."""
    tokens = q.shape[2]
    lower = mx.tril(mx.ones((tokens, tokens), dtype=mx.bool_))
    between = mx.exp(mx.where(lower, c[..., :, None] - c[..., None, :], -mx.inf))
    transposed = k.swapaxes(-1, -2)
    a = (k @ transposed) * between * beta[..., None]
    scale = mx.exp(c)[..., None]
    both = mx.concatenate([k, q], axis=2) @ state.swapaxes(-1, -2)  # the state is read once
    right = beta[..., None] * (v - scale * both[:, :, :tokens])
    lines = [right[:, :, 0]]
    for t in range(1, tokens):
        lines.append(right[:, :, t] - (a[:, :, t, :t, None] * mx.stack(lines, axis=2)).sum(axis=2))
    u = mx.stack(lines, axis=2)
    return scale * both[:, :, tokens:] + ((q @ transposed) * between) @ u, u


@mx.compile
def folded(state: mx.array, k: mx.array, u: mx.array, c: mx.array, kept: mx.array) -> mx.array:
    """The state after the first `kept[i]` tokens of row i: zeros in `u` have no effect."""
    count = kept[:, None, None]
    started = mx.concatenate([mx.zeros_like(c[..., :1]), c], axis=-1)
    end = mx.take_along_axis(started, mx.broadcast_to(count, (*c.shape[:2], 1)), axis=-1)
    weight = mx.exp(mx.where(mx.arange(c.shape[-1]) < count, end - c, -mx.inf))
    return mx.exp(end)[..., None] * state + (u * weight[..., None]).swapaxes(-1, -2) @ k


def _lay(x: mx.array, repeat: int = 1) -> mx.array:
    """(rows, tokens, heads, dim) -> float32 (rows, heads, chunks, CHUNK, dim), padded with zeros.

    A padded token has decay 0 (a factor of one) and beta 0, so it changes nothing.
    """
    x = x.astype(mx.float32).transpose(0, 2, 1, 3)
    if repeat > 1:
        x = mx.repeat(x, repeat, axis=1)
    short = -x.shape[2] % CHUNK
    if short:
        x = mx.pad(x, [(0, 0), (0, 0), (0, short), (0, 0)])
    return x.reshape(x.shape[0], x.shape[1], -1, CHUNK, x.shape[-1])


@mx.compile
def _within(
    q: mx.array, k: mx.array, v: mx.array, decay: mx.array, beta: mx.array
) -> tuple[mx.array, mx.array, mx.array, mx.array, mx.array, mx.array]:
    """The parts of each chunk that do not depend on the state before it, for all chunks in parallel."""
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


@mx.compile
def _inside(state: mx.array, w: mx.array, u: mx.array, k: mx.array, decay: mx.array, kept: mx.array) -> mx.array:
    """The state after the first `kept` tokens of one chunk."""
    return folded(state, k, u - w @ state.swapaxes(-1, -2), mx.cumsum(decay, axis=-1), kept)


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
