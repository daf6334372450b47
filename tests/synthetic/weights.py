"""The tensors of synthetic checkpoints: their sizes, how they are drawn, and the files they go to.

The weights are random with a plan, because plainly random ones repeat one token for ever:
- Row `next(t)` of the output head is the embedding of `t`, where `next` walks once through all the words.
  Without layers the model would recite that walk; `mix` is how far the layers push it off, by what they read.
- The MTP head passes the token's embedding through, so it knows the walk and not the push: it is right about
  half of the time, which is what a test of speculation wants.
- Channel 0 of the residual stream is 1 for every input and no layer writes to it. The head reads it as a
  bias: down for ids that must not be said (markup, padding), a little up for the two end tokens.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.synthetic import tokenizer
from tests.synthetic.tokenizer import Vocabulary

Array = NDArray[np.float32]

SHARD_BYTES = 1 << 30
DRAWN = 4194301  # numbers of a tensor; a larger one repeats them, which is quicker. A prime: its lines differ


@dataclass(frozen=True)
class Shape:
    """The size of a model and the strength of what it does; a family ignores what it has no use for."""

    layers: int = 4
    hidden: int = 128
    intermediate: int = 384
    vocab: int = tokenizer.SIZE
    heads: int = 4
    kv_heads: int = 2
    head_dim: int = 32
    tied: bool = False  # the head is the embedding table (not for `window`)
    max_position: int = 8192
    rope_theta: float = 10000.0
    rope_scaling: Mapping[str, Any] | None = None  # llama and qwen3; see `scaled_rope`
    # hybrid
    attention_every: int = 4
    state_key_heads: int = 2
    state_value_heads: int = 4
    state_head_dim: int = 32
    conv_kernel: int = 4
    mtp: bool = True
    vision_layers: int = 2
    vision_hidden: int = 64
    # hybrid_moe, qwen3_moe
    experts: int = 0
    experts_per_token: int = 2
    expert_intermediate: int = 64
    # window, window_llama
    sliding_window: int = 64
    window_pattern: int = 3  # every third layer sees everything
    # the numbers themselves
    dtype: str = "float32"  # or bfloat16
    seed: int = 0
    mix: float = 2.0  # how much the layers add to the embedding; more varied text has more near ties
    focus: float = 3.0  # spread of the attention scores: high enough that a long context does not average out
    sharpness: float = 6.0  # standard deviation of the logits
    end_bias: float = 2.0  # an answer ends by itself after some hundred tokens


class ShardWriter:
    """Writes tensors into as many safetensors files as they need, and the index over them."""

    def __init__(self, folder: Path, dtype: str) -> None:
        if dtype not in ("float32", "bfloat16"):
            raise ValueError(f"dtype is {dtype!r}; expected float32 or bfloat16")
        self.folder = folder
        self.dtype = dtype
        self._parameters = 0
        self._pending: dict[str, tuple[str, tuple[int, ...], bytes]] = {}
        self._pending_bytes = 0
        self._shards: list[list[str]] = []
        self._total_bytes = 0

    def put(self, name: str, values: Array, *, keep_float32: bool = False) -> None:
        values = np.ascontiguousarray(values, dtype=np.float32)
        narrow = self.dtype == "bfloat16" and not keep_float32
        data = _to_bfloat16(values) if narrow else values.tobytes()
        self._pending[name] = ("BF16" if narrow else "F32", values.shape, data)
        self._pending_bytes += len(data)
        self._parameters += values.size
        if self._pending_bytes >= SHARD_BYTES:
            self._flush()

    def close(self) -> None:
        if self._pending:
            self._flush()
        count = len(self._shards)
        weight_map = {}
        for number, names in enumerate(self._shards, 1):
            final = "model.safetensors" if count == 1 else f"model-{number:05}-of-{count:05}.safetensors"
            self._part(number).rename(self.folder / final)
            weight_map.update(dict.fromkeys(names, final))
        totals = {"total_size": self._total_bytes, "total_parameters": self._parameters}
        index = {"metadata": totals, "weight_map": weight_map}
        write_json(self.folder / "model.safetensors.index.json", index)

    def _part(self, number: int) -> Path:
        return self.folder / f"part-{number}"

    def _flush(self) -> None:
        header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
        position = 0
        for name, (dtype, shape, data) in self._pending.items():
            end = position + len(data)
            header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [position, end]}
            position = end
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        self._shards.append(list(self._pending))
        with open(self._part(len(self._shards)), "wb") as file:
            file.write(len(text).to_bytes(8, "little") + text)
            file.writelines(data for _, _, data in self._pending.values())
        self._total_bytes += position
        self._pending.clear()
        self._pending_bytes = 0


class Weights:
    """Draws tensors under their checkpoint names. One generator in one order: a seed is one checkpoint."""

    def __init__(
        self, writer: ShardWriter, shape: Shape, vocabulary: Vocabulary, *, zero_centred: bool = False
    ) -> None:
        self.writer = writer
        self.shape = shape
        self.vocabulary = vocabulary
        self.zero_centred = zero_centred  # the family's RMSNorm multiplies by 1 + weight
        self.random = np.random.default_rng(shape.seed)

    def normal(self, *size: int, scale: float = 1.0) -> Array:
        count = math.prod(size)
        values = self.random.standard_normal(min(count, DRAWN), dtype=np.float32) * np.float32(scale)
        return values.reshape(size) if count <= DRAWN else np.resize(values, size)

    def noise(self, name: str, *size: int, scale: float = 0.02, around: float = 0.0) -> None:
        self.writer.put(name, self.normal(*size, scale=scale) + np.float32(around))

    def linear(self, name: str, outputs: int, inputs: int, gain: float = 1.0) -> None:
        self.writer.put(f"{name}.weight", self.normal(outputs, inputs, scale=gain / math.sqrt(inputs)))

    def residual(self, name: str, inputs: int, gain: float, *, experts: int = 0) -> None:
        """A projection back into the residual stream. It leaves channel 0 alone."""
        size = (experts, self.shape.hidden, inputs) if experts else (self.shape.hidden, inputs)
        depth_scale = self.shape.mix / math.sqrt(2 * self.shape.layers)
        values = self.normal(*size, scale=gain * depth_scale / math.sqrt(inputs))
        values[..., 0, :] = 0
        self.writer.put(name, values)

    def norm(self, name: str, size: int, value: float = 1.0, *, spare_channel_0: bool = False) -> None:
        values = self.normal(size, scale=0.02 * value) + np.float32(value)
        if spare_channel_0:
            values[0] = 0
        self.writer.put(f"{name}.weight", values - np.float32(self.zero_centred))

    def words(self, embedding: str, final_norm: str, *, embedding_scale: float = 1.0) -> None:
        """The embedding, the final norm, and the head that reads one through the other."""
        shape, vocabulary = self.shape, self.vocabulary
        sayable = np.array([*range(vocabulary.words), *vocabulary.ends])
        ends = list(vocabulary.ends)
        table = self.normal(shape.vocab, shape.hidden)
        gain = np.float32(shape.sharpness / math.sqrt(shape.hidden))
        if shape.tied:
            # Random signs in the final norm keep a token from being its own best successor.
            table[:, 0] = 0
            table[sayable, 0] = 1
            table[ends, 0] += shape.end_bias / 12
            signs = self.random.choice(np.array([-1.0, 1.0], np.float32), shape.hidden) * gain
            signs[0] = 6 * shape.sharpness
            self.writer.put(f"{final_norm}.weight", signs - np.float32(self.zero_centred))
        else:
            table[:, 0] = 1
            self.norm(final_norm, shape.hidden)
            head = np.zeros_like(table)
            walk = self.random.permutation(sayable)
            head[np.roll(walk, -1)] = table[walk] * gain
            head[:, 0] = -6 * shape.sharpness
            head[sayable, 0] = 0
            head[ends, 0] = shape.end_bias * shape.sharpness
            self.writer.put("lm_head.weight", head)
        self.writer.put(f"{embedding}.weight", table * np.float32(embedding_scale))

    def attention(self, prefix: str, *, normed: bool, gated: bool = False, gain: float = 3.0) -> None:
        shape = self.shape
        queries = shape.heads * shape.head_dim
        self.linear(f"{prefix}.q_proj", queries * (2 if gated else 1), shape.hidden, 1.0 if normed else shape.focus)
        self.linear(f"{prefix}.k_proj", shape.kv_heads * shape.head_dim, shape.hidden)
        self.linear(f"{prefix}.v_proj", shape.kv_heads * shape.head_dim, shape.hidden)
        self.residual(f"{prefix}.o_proj.weight", queries, gain * (2 if gated else 1))
        if normed:
            self.norm(f"{prefix}.q_norm", shape.head_dim, shape.focus)
            self.norm(f"{prefix}.k_norm", shape.head_dim)

    def gated_mlp(self, prefix: str, intermediate: int, gain: float = 2.0) -> None:
        self.linear(f"{prefix}.gate_proj", intermediate, self.shape.hidden)
        self.linear(f"{prefix}.up_proj", intermediate, self.shape.hidden)
        self.residual(f"{prefix}.down_proj.weight", intermediate, gain)

    def experts(self, prefix: str) -> None:
        shape = self.shape
        inner = shape.expert_intermediate
        # A steep router: near ties between experts would make fp32 comparisons fragile.
        self.linear(f"{prefix}.gate", shape.experts, shape.hidden, gain=4.0)
        fused = self.normal(shape.experts, 2 * inner, shape.hidden, scale=1 / math.sqrt(shape.hidden))
        self.writer.put(f"{prefix}.experts.gate_up_proj", fused)
        self.residual(f"{prefix}.experts.down_proj", inner, 2.0, experts=shape.experts)
        self.gated_mlp(f"{prefix}.shared_expert", inner)
        self.linear(f"{prefix}.shared_expert_gate", 1, shape.hidden)

    def plain_experts(self, prefix: str) -> None:
        """Each with names of its own, and no shared one."""
        shape = self.shape
        self.linear(f"{prefix}.gate", shape.experts, shape.hidden, gain=4.0)
        for expert in range(shape.experts):
            self.gated_mlp(f"{prefix}.experts.{expert}", shape.expert_intermediate)

    def delta_net(self, prefix: str) -> None:
        shape = self.shape
        keys = shape.state_key_heads * shape.state_head_dim
        values = shape.state_value_heads * shape.state_head_dim
        self.linear(f"{prefix}.in_proj_qkv", 2 * keys + values, shape.hidden)
        self.linear(f"{prefix}.in_proj_z", values, shape.hidden)
        self.linear(f"{prefix}.in_proj_b", shape.state_value_heads, shape.hidden)
        self.linear(f"{prefix}.in_proj_a", shape.state_value_heads, shape.hidden)
        self.noise(f"{prefix}.conv1d.weight", 2 * keys + values, 1, shape.conv_kernel, scale=0.5)
        self.noise(f"{prefix}.dt_bias", shape.state_value_heads, scale=0.5)
        # From heads that forget within a token to heads that remember hundreds.
        decay = np.geomspace(0.005, 2.0, shape.state_value_heads)
        self.writer.put(f"{prefix}.A_log", np.log(decay).astype(np.float32), keep_float32=True)
        self.noise(f"{prefix}.norm.weight", shape.state_head_dim, around=1.0)  # not zero-centred
        self.residual(f"{prefix}.out_proj.weight", values, 3.0)

    def affine(self, name: str, outputs: int, inputs: int, gain: float = 1.0) -> None:
        self.linear(name, outputs, inputs, gain)
        self.noise(f"{name}.bias", outputs)

    def layer_norm(self, name: str, size: int) -> None:
        self.noise(f"{name}.weight", size, around=1.0)
        self.noise(f"{name}.bias", size)


def _to_bfloat16(values: Array) -> bytes:
    """Rounds to nearest, ties to even, as every framework does."""
    bits = values.view(np.uint32)
    rounded = (bits + (0x7FFF + ((bits >> 16) & 1))) >> 16
    return rounded.astype(np.uint16).tobytes()


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=1))
