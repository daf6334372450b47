"""Recurrent layers for batches, other than GatedDeltaNet: short convolutions, Mamba and Mamba2.

Each is adopted by mlx-lm's module at load (same parameters). Plain steps run mlx-lm's own code. Two kinds of step do
not: in a tentative step tokens may be rejected, so what the state needs of them stays pending until their number is
known; and in a padded prompt only the first tokens of a row count. A state is small beside the weights, so it is
updated a second time with the accepted tokens; the layer's projections are not repeated.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mlx.core as mx
import mlx.nn as nn
from mlx_lm.models import falcon_h1, granitemoehybrid, jamba, lfm2, lfm2_moe, mamba2, nemotron_h
from mlx_lm.models.ssm import ssm_attn

from paceline.cache.layers import StateCache


class RowState(nn.Module):  # type: ignore[misc]
    """A layer whose state takes in only the accepted tokens of a tentative step, and skips padding."""

    records = False  # whether it can record the state after any token of a prompt

    def apply_accepted(
        self,
        current: Sequence[mx.array | None],
        pending: Sequence[mx.array],
        kept: mx.array,
        *,
        now: bool = False,
    ) -> list[mx.array] | None:
        """The state after the first `kept[i]` tokens of a tentative step; None: the next step computes it."""
        raise NotImplementedError


class RowRecurrent(RowState):
    """The steps that are not mlx-lm's own; `_outputs` and `apply_accepted` are the family's."""

    def __call__(self, *arguments: Any, **named: Any) -> mx.array:
        values = dict(zip(self._arguments, arguments, strict=False)) | named
        cache = values.get("cache")
        if not isinstance(cache, StateCache) or not (cache.tentative or cache.valid is not None):
            return super().__call__(*arguments, **named)
        current = [cache[index] for index in range(len(cache.current))]
        inputs = values[self._arguments[0]]
        if cache.tentative:
            out, pending = self._outputs(inputs, current)
            cache.set_pending(pending)
        else:
            assert cache.valid is not None
            out, states = self._padded(inputs, current, cache.valid)
            for index, array in enumerate(states):
                cache[index] = array
        return out

    _arguments: tuple[str, ...] = ("x", "mask", "cache")  # of mlx-lm's call

    def _outputs(self, inputs: mx.array, current: Sequence[mx.array | None]) -> tuple[mx.array, list[mx.array]]:
        """Outputs of all tokens, and what `apply_accepted` needs."""
        raise NotImplementedError

    def _padded(
        self, inputs: mx.array, current: Sequence[mx.array | None], count: mx.array
    ) -> tuple[mx.array, list[mx.array]]:
        """Outputs of all tokens, and the state after the first `count[i]` of them."""
        out, pending = self._outputs(inputs, current)
        return out, self.apply_accepted(current, pending, count) or []


def windowed(past: mx.array | None, new: mx.array, size: int) -> mx.array:
    """The inputs of a causal convolution that looks at `size` tokens: some before, then the new ones."""
    if past is None:
        past = mx.zeros((new.shape[0], size - 1, new.shape[-1]), new.dtype)
    return mx.concatenate([past, new], axis=1)


def ended(window: mx.array, size: int, count: mx.array) -> mx.array:
    """What such a convolution has to remember after the first `count[i]` new tokens of row i."""
    return mx.take_along_axis(window, (count[:, None] + mx.arange(size - 1))[..., None], axis=1)


class RowConv(RowRecurrent):
    """LFM2's gated short convolution: its state is its last inputs."""

    def _outputs(self, inputs: mx.array, current: Sequence[mx.array | None]) -> tuple[mx.array, list[mx.array]]:
        before, after, values = mx.split(self.in_proj(inputs), 3, axis=-1)
        window = windowed(current[0], before * values, self.L_cache)
        return self.out_proj(after * self.conv(window)), [window]

    def apply_accepted(
        self,
        current: Sequence[mx.array | None],
        pending: Sequence[mx.array],
        kept: mx.array,
        *,
        now: bool = False,
    ) -> list[mx.array]:
        return [ended(pending[0], self.L_cache, kept)]


class RowMamba2(RowRecurrent):
    """Mamba2: a convolution, and a state that decays by one number a head. mlx-lm's chunked form computes all tokens at
    once, and the state after the first ones of each row."""

    _arguments = ("hidden_states", "mask", "cache")

    def _outputs(self, inputs: mx.array, current: Sequence[mx.array | None]) -> tuple[mx.array, list[mx.array]]:
        gate, window, steps = self._projected(inputs, current)
        out, _ = self._scanned(window, steps, current[1])
        return self.out_proj(self._gated(out.flatten(2), gate)), [window, steps]

    def _padded(
        self, inputs: mx.array, current: Sequence[mx.array | None], count: mx.array
    ) -> tuple[mx.array, list[mx.array]]:
        """One scan for both. Two would split the same array twice and leave a part of it unused: `mx.compile` fails on
        that (IndexError `_Map_base::at`, MLX 0.32)."""
        gate, window, steps = self._projected(inputs, current)
        out, state = self._scanned(window, steps, current[1], count)
        return self.out_proj(self._gated(out.flatten(2), gate)), [ended(window, self.conv_kernel_size, count), state]

    def _projected(self, inputs: mx.array, current: Sequence[mx.array | None]) -> tuple[mx.array, mx.array, mx.array]:
        """The gate, the convolution's inputs, and the time steps."""
        ends = [self.intermediate_size, self.intermediate_size + self.conv_dim]
        gate, mixed, steps = mx.split(self.in_proj(inputs), ends, axis=-1)
        return gate, windowed(current[0], mixed, self.conv_kernel_size), steps

    def apply_accepted(
        self,
        current: Sequence[mx.array | None],
        pending: Sequence[mx.array],
        kept: mx.array,
        *,
        now: bool = False,
    ) -> list[mx.array]:
        window, steps = pending
        _, state = self._scanned(window, steps, current[1], kept)
        return [ended(window, self.conv_kernel_size, kept), state]

    def _scanned(
        self, window: mx.array, steps: mx.array, state: mx.array | None, count: mx.array | None = None
    ) -> tuple[mx.array, mx.array]:
        """Outputs (rows, tokens, heads, dim), and the state after the first `count[i]` tokens, after all by default."""
        size = self.n_groups * self.ssm_state_size
        parts = mx.split(nn.silu(self.conv1d(window)), [self.intermediate_size, self.intermediate_size + size], axis=-1)
        values, keys, queries = (
            part.reshape(*part.shape[:2], -1, dim)
            for part, dim in zip(parts, (self.head_dim, self.ssm_state_size, self.ssm_state_size), strict=True)
        )
        mask = None if count is None else mx.arange(steps.shape[1]) < count[:, None]
        return ssm_attn(
            values,
            self.A_log,
            keys,
            queries,
            self._skip(values.dtype),
            steps,
            self.dt_bias,
            state,
            self.time_step_limit,
            mask,
            count,
        )

    def _skip(self, dtype: mx.Dtype) -> mx.array:
        """What an input adds to its own output, as the family computes it."""
        return self.D

    def _gated(self, out: mx.array, gate: mx.array) -> mx.array:
        return self.norm(out, gate)


class RowMamba(RowRecurrent):
    """Jamba's Mamba layer: every element of the state has a decay of its own."""

    _arguments = ("x", "cache")

    def _outputs(self, inputs: mx.array, current: Sequence[mx.array | None]) -> tuple[mx.array, list[mx.array]]:
        values, gate = mx.split(self.in_proj(inputs), 2, axis=-1)
        window = windowed(current[0], values, self.conv_kernel_size)
        convolved = nn.silu(self.conv1d(window))
        out, _ = self.ssm_step(convolved, -mx.exp(self.A_log), current[1])
        return self.out_proj(nn.silu(gate) * out), [window]

    def apply_accepted(
        self,
        current: Sequence[mx.array | None],
        pending: Sequence[mx.array],
        kept: mx.array,
        *,
        now: bool = False,
    ) -> list[mx.array]:
        window = pending[0]
        convolved = nn.silu(self.conv1d(window))
        steps, keys, _ = mx.split(
            self.x_proj(convolved), [self.time_step_rank, self.time_step_rank + self.ssm_state_size], axis=-1
        )
        steps = nn.softplus(self.dt_proj(self.dt_layernorm(steps)))
        added = (steps * convolved)[..., None] * self.b_layernorm(keys)[..., None, :]
        decays = mx.exp(steps[..., None] * -mx.exp(self.A_log))
        taken = (mx.arange(added.shape[1]) < kept[:, None])[..., None, None]
        added, decays = mx.where(taken, added, 0), mx.where(taken, decays, 1)
        state = current[1]
        for token in range(added.shape[1]):
            state = added[:, token] if state is None else state * decays[:, token] + added[:, token]
        assert state is not None
        return [ended(window, self.conv_kernel_size, kept), state]


class RowConvLFM2(RowConv, lfm2.ShortConv):  # type: ignore[misc]
    """LFM2's."""


class RowConvLFM2Moe(RowConv, lfm2_moe.ShortConv):  # type: ignore[misc]
    """LFM2 MoE's: the same in a module of its own."""


class RowMamba2Plain(RowMamba2, mamba2.Mamba2Block):  # type: ignore[misc]
    """Mamba2's own."""


class RowMamba2Nemotron(RowMamba2, nemotron_h.NemotronHMamba2Mixer):  # type: ignore[misc]
    """Nemotron-H's."""

    def _skip(self, dtype: mx.Dtype) -> mx.array:
        return self.D.astype(dtype)


class RowMamba2Granite(RowMamba2, granitemoehybrid.GraniteMoeHybridMamba2Mixer):  # type: ignore[misc]
    """Granite 4's."""

    def _skip(self, dtype: mx.Dtype) -> mx.array:
        return self.D.astype(dtype)


class RowMamba2Falcon(RowMamba2, falcon_h1.FalconH1Mixer):  # type: ignore[misc]
    """Falcon-H1's: beside attention in the same layer, and without a norm in some sizes."""

    _arguments = ("input_states", "cache", "mask")

    def _gated(self, out: mx.array, gate: mx.array) -> mx.array:
        return self.norm(out, gate) if self.mamba_rms_norm else nn.silu(gate) * out


class RowMambaJamba(RowMamba, jamba.JambaMambaMixer):  # type: ignore[misc]
    """Jamba's."""


ROW_CLASSES: dict[type[nn.Module], type[RowRecurrent]] = {
    made.__bases__[1]: made
    for made in (
        RowConvLFM2,
        RowConvLFM2Moe,
        RowMamba2Plain,
        RowMamba2Nemotron,
        RowMamba2Granite,
        RowMamba2Falcon,
        RowMambaJamba,
    )
}
