"""Small checkpoints with random weights in Hugging Face layout: what the tests and benches run on.

Needs numpy and tokenizers only; nothing is downloaded. `build("hybrid", folder)` writes a model of about a million
parameters in a second; overrides of `Shape` make it as large as a bench wants.

The weights are random with a plan, because plainly random ones repeat one token for ever:
- Row `next(t)` of the output head is the embedding of `t`, where `next` walks once through all the words. Without
  layers the model would recite that walk; `mix` is how far the layers push it off, by what they read before.
- The MTP head passes the token's embedding through, so it knows the walk and not the push: it is right about half
  of the time, which is what a test of speculation wants.
- Channel 0 of the residual stream is 1 for every input and no layer writes to it. The head reads it as a bias:
  down for ids that must not be said (markup, padding), a little up for the two end tokens.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paceline.models import synthetic_tokenizer
from paceline.models.synthetic_tokenizer import END_OF_TEXT, END_OF_TURN, Vocabulary

Array = NDArray[np.float32]
Config = dict[str, Any]

SHARD_BYTES = 1 << 30


@dataclass(frozen=True)
class Shape:
    """The size of a model and the strength of what it does; a family ignores what it has no use for."""

    layers: int = 4
    hidden: int = 128
    intermediate: int = 384
    vocab: int = synthetic_tokenizer.SIZE
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
    # hybrid_moe
    experts: int = 0
    experts_per_token: int = 2
    expert_intermediate: int = 64
    # window, window_llama
    sliding_window: int = 64
    window_pattern: int = 3  # every third layer sees everything
    # the numbers themselves
    dtype: str = "float32"  # or bfloat16
    seed: int = 0
    mix: float = 1.0  # how much the layers add to the embedding
    focus: float = 3.0  # spread of the attention scores: high enough that a long context does not average out
    sharpness: float = 4.0  # standard deviation of the logits
    end_bias: float = 0.0  # in standard deviations, for the end tokens


def scaled_rope(kind: str, *, window: int = 256, factor: float = 4.0, head_dim: int = 32) -> dict[str, Any]:
    """Overrides that give `llama` or `qwen3` a scaled RoPE trained, so to speak, on `window` positions."""
    scaling: dict[str, Any] = {"rope_type": kind}
    longest = int(window * factor)
    if kind == "longrope":
        # mlx-lm reads the long factors only, at every length.
        steps = head_dim // 2
        scaling["short_factor"] = [1.0] * steps
        scaling["long_factor"] = [1.0 + (factor - 1.0) * step / (steps - 1) for step in range(steps)]
    elif kind in ("linear", "dynamic", "yarn", "llama3"):
        scaling["factor"] = factor
    else:
        raise ValueError(f"unknown RoPE scaling {kind!r}; know linear, dynamic, yarn, llama3 and longrope")
    if kind in ("yarn", "llama3", "longrope"):
        scaling["original_max_position_embeddings"] = window
    if kind == "llama3":
        scaling.update(low_freq_factor=1.0, high_freq_factor=4.0)
    if kind == "dynamic":
        longest = window  # the scaling starts where the configured length ends
    return {"rope_scaling": scaling, "max_position": longest}


class ShardWriter:
    """Writes tensors into as many safetensors files as they need, and the index over them."""

    def __init__(self, folder: Path, dtype: str) -> None:
        if dtype not in ("float32", "bfloat16"):
            raise ValueError(f"dtype is {dtype!r}; expected float32 or bfloat16")
        self.folder = folder
        self.dtype = dtype
        self.parameters = 0
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
        self.parameters += values.size
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
        index = {"metadata": {"total_size": self._total_bytes}, "weight_map": weight_map}
        _write_json(self.folder / "model.safetensors.index.json", index)

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
        values = self.random.standard_normal(size, dtype=np.float32)
        values *= np.float32(scale)
        return values

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
            table[ends, 0] += shape.end_bias / 6
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
        self.linear(
            f"{prefix}.q_proj", queries * (2 if gated else 1), shape.hidden, 1.0 if normed else shape.focus
        )
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


# ---------------------------------------------------------------------------------------------------------- families


def hybrid(weights: Weights, folder: Path) -> Config:
    """Qwen3.5: GatedDeltaNet and gated attention, a vision tower, an MTP head; a mixture when `experts` > 0."""
    shape, ids = weights.shape, weights.vocabulary.ids
    kind = "qwen3_5_moe" if shape.experts else "qwen3_5"
    weights.zero_centred = True
    prefix = "model.language_model"
    weights.words(f"{prefix}.embed_tokens", f"{prefix}.norm")
    for layer in range(shape.layers):
        _hybrid_layer(
            weights, f"{prefix}.layers.{layer}", attention=(layer + 1) % shape.attention_every == 0
        )
    vision = _vision_tower(weights, kind)
    if shape.mtp:
        _mtp_head(weights)
    _processor_files(folder)

    rotated_pairs = shape.head_dim // 8  # a quarter of each head is rotated
    section = -(-rotated_pairs // 3)
    text: Config = _sizes(shape) | {
        "model_type": f"{kind}_text",
        "rms_norm_eps": 1e-6,
        "hidden_act": "silu",
        "attention_bias": False,
        "attn_output_gate": True,
        "full_attention_interval": shape.attention_every,
        "layer_types": [
            "full_attention" if (layer + 1) % shape.attention_every == 0 else "linear_attention"
            for layer in range(shape.layers)
        ],
        "linear_num_key_heads": shape.state_key_heads,
        "linear_num_value_heads": shape.state_value_heads,
        "linear_key_head_dim": shape.state_head_dim,
        "linear_value_head_dim": shape.state_head_dim,
        "linear_conv_kernel_dim": shape.conv_kernel,
        "mamba_ssm_dtype": "float32",
        "mtp_num_hidden_layers": int(shape.mtp),
        "mtp_use_dedicated_embeddings": False,
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": shape.rope_theta,
            "partial_rotary_factor": 0.25,
            "mrope_interleaved": True,
            "mrope_section": [section, section, rotated_pairs - 2 * section],
        },
        # As in Qwen's own files: this end is not the one that ends a turn. Readers must take the union.
        "eos_token_id": ids[END_OF_TEXT],
    }
    if shape.experts:
        text |= {
            "num_experts": shape.experts,
            "num_experts_per_tok": shape.experts_per_token,
            "moe_intermediate_size": shape.expert_intermediate,
            "shared_expert_intermediate_size": shape.expert_intermediate,
            "norm_topk_prob": True,
        }
    _write_json(folder / "generation_config.json", {"eos_token_id": [ids[END_OF_TURN]], "do_sample": False})
    return {
        "architectures": [f"{'Qwen3_5Moe' if shape.experts else 'Qwen3_5'}ForConditionalGeneration"],
        "model_type": kind,
        "text_config": text,
        "vision_config": vision,
        "vocab_size": shape.vocab,
        "tie_word_embeddings": shape.tied,
        "dtype": shape.dtype,
        "image_token_id": ids["<|image_pad|>"],
        "video_token_id": ids["<|video_pad|>"],
        "vision_start_token_id": ids["<|vision_start|>"],
        "vision_end_token_id": ids["<|vision_end|>"],
    }


def llama(weights: Weights, folder: Path) -> Config:
    return _dense(weights, folder, "llama", "LlamaForCausalLM", normed=False)


def qwen3(weights: Weights, folder: Path) -> Config:
    return _dense(weights, folder, "qwen3", "Qwen3ForCausalLM", normed=True)


def window_llama(weights: Weights, folder: Path) -> Config:
    """A Llama with sliding layers, which mlx-lm knows and Hugging Face's own Llama does not."""
    config = llama(weights, folder)
    return config | {
        "sliding_window": weights.shape.sliding_window,
        "layer_types": _window_layer_types(weights.shape),
    }


def window(weights: Weights, folder: Path) -> Config:
    """Gemma 3, text only: sliding and global layers, a norm before and after every branch."""
    shape = weights.shape
    if shape.tied:
        raise ValueError("the window family is built with its own head; drop `tied`")
    weights.zero_centred = True
    # The model multiplies its embeddings by sqrt(hidden).
    weights.words("model.embed_tokens", "model.norm", embedding_scale=1 / math.sqrt(shape.hidden))
    branch = shape.mix / math.sqrt(2 * shape.layers)
    for layer in range(shape.layers):
        prefix = f"model.layers.{layer}"
        weights.norm(f"{prefix}.input_layernorm", shape.hidden)
        weights.attention(f"{prefix}.self_attn", normed=True)
        weights.norm(f"{prefix}.post_attention_layernorm", shape.hidden, 2 * branch, spare_channel_0=True)
        weights.norm(f"{prefix}.pre_feedforward_layernorm", shape.hidden)
        weights.gated_mlp(f"{prefix}.mlp", shape.intermediate)
        weights.norm(f"{prefix}.post_feedforward_layernorm", shape.hidden, branch, spare_channel_0=True)
    _plain_generation_config(weights, folder)
    return _sizes(shape) | {
        "architectures": ["Gemma3ForCausalLM"],
        "model_type": "gemma3_text",
        "rms_norm_eps": 1e-6,
        "hidden_activation": "gelu_pytorch_tanh",
        "rope_theta": 1_000_000.0,
        "rope_local_base_freq": shape.rope_theta,
        "query_pre_attn_scalar": shape.head_dim,
        "sliding_window": shape.sliding_window,
        "sliding_window_pattern": shape.window_pattern,
        "layer_types": _window_layer_types(shape),
        "eos_token_id": weights.vocabulary.ids[END_OF_TURN],
    }


def _dense(weights: Weights, folder: Path, model_type: str, architecture: str, *, normed: bool) -> Config:
    shape = weights.shape
    weights.words("model.embed_tokens", "model.norm")
    for layer in range(shape.layers):
        prefix = f"model.layers.{layer}"
        weights.norm(f"{prefix}.input_layernorm", shape.hidden)
        weights.norm(f"{prefix}.post_attention_layernorm", shape.hidden)
        weights.attention(f"{prefix}.self_attn", normed=normed)
        weights.gated_mlp(f"{prefix}.mlp", shape.intermediate)
    _plain_generation_config(weights, folder)
    return _sizes(shape) | {
        "architectures": [architecture],
        "model_type": model_type,
        "rms_norm_eps": 1e-6,
        "hidden_act": "silu",
        "attention_bias": False,
        "mlp_bias": False,
        "rope_theta": shape.rope_theta,
        "rope_scaling": dict(shape.rope_scaling) if shape.rope_scaling else None,
        "eos_token_id": weights.vocabulary.ids[END_OF_TURN],
    }


def _hybrid_layer(weights: Weights, prefix: str, *, attention: bool, quiet: float = 1.0) -> None:
    shape = weights.shape
    weights.norm(f"{prefix}.input_layernorm", shape.hidden)
    weights.norm(f"{prefix}.post_attention_layernorm", shape.hidden)
    if attention:
        weights.attention(f"{prefix}.self_attn", normed=True, gated=True)
    else:
        weights.delta_net(f"{prefix}.linear_attn")
    if shape.experts:
        weights.experts(f"{prefix}.mlp")
    else:
        weights.gated_mlp(f"{prefix}.mlp", shape.intermediate)


def _mtp_head(weights: Weights) -> None:
    hidden = weights.shape.hidden
    passing = np.eye(hidden, dtype=np.float32)
    listening = weights.normal(hidden, hidden, scale=0.15 / math.sqrt(hidden))
    listening[0] = 0
    weights.writer.put("mtp.fc.weight", np.concatenate([passing, listening], axis=1))
    for name in ("pre_fc_norm_embedding", "pre_fc_norm_hidden", "norm"):
        weights.norm(f"mtp.{name}", hidden)
    _hybrid_layer(weights, "mtp.layers.0", attention=True)


def _vision_tower(weights: Weights, kind: str) -> Config:
    shape = weights.shape
    width, text_width, prefix = shape.vision_hidden, shape.hidden, "model.visual"
    patch, frames, positions = 16, 2, 256
    weights.noise(
        f"{prefix}.patch_embed.proj.weight", width, 3, frames, patch, patch, scale=1 / math.sqrt(3 * frames) / patch
    )
    weights.noise(f"{prefix}.patch_embed.proj.bias", width)
    weights.noise(f"{prefix}.pos_embed.weight", positions, width, scale=0.5)
    for layer in range(shape.vision_layers):
        block = f"{prefix}.blocks.{layer}"
        weights.layer_norm(f"{block}.norm1", width)
        weights.layer_norm(f"{block}.norm2", width)
        weights.affine(f"{block}.attn.qkv", 3 * width, width)
        weights.affine(f"{block}.attn.proj", width, width)
        weights.affine(f"{block}.mlp.linear_fc1", 2 * width, width)
        weights.affine(f"{block}.mlp.linear_fc2", width, 2 * width)
    weights.layer_norm(f"{prefix}.merger.norm", width)
    weights.affine(f"{prefix}.merger.linear_fc1", 4 * width, 4 * width)
    # Its output stands where embeddings stand: about as large, and 1 in channel 0.
    merged = weights.normal(text_width, 4 * width, scale=1.5 / math.sqrt(4 * width))
    merged[0] = 0
    weights.writer.put(f"{prefix}.merger.linear_fc2.weight", merged)
    weights.writer.put(f"{prefix}.merger.linear_fc2.bias", np.eye(1, text_width, dtype=np.float32)[0])
    return {
        "model_type": kind,
        "depth": shape.vision_layers,
        "hidden_size": width,
        "intermediate_size": 2 * width,
        "num_heads": 4,
        "in_channels": 3,
        "patch_size": patch,
        "temporal_patch_size": frames,
        "spatial_merge_size": 2,
        "out_hidden_size": text_width,
        "num_position_embeddings": positions,
        "deepstack_visual_indexes": [],
        "hidden_act": "gelu_pytorch_tanh",
        "initializer_range": 0.02,
    }


def _processor_files(folder: Path) -> None:
    common = {
        "patch_size": 16,
        "temporal_patch_size": 2,
        "merge_size": 2,
        "do_convert_rgb": True,
        "do_resize": True,
        "do_rescale": True,
        "rescale_factor": 1 / 255,
        "do_normalize": True,
        "image_mean": [0.5, 0.5, 0.5],
        "image_std": [0.5, 0.5, 0.5],
        "size": {"shortest_edge": 1024, "longest_edge": 262144},
        "processor_class": "Qwen3VLProcessor",
    }
    _write_json(folder / "preprocessor_config.json", common | {"image_processor_type": "Qwen2VLImageProcessorFast"})
    video = {"video_processor_type": "Qwen3VLVideoProcessor", "fps": 2, "min_frames": 4, "max_frames": 16}
    _write_json(folder / "video_preprocessor_config.json", common | video)


def _sizes(shape: Shape) -> Config:
    return {
        "num_hidden_layers": shape.layers,
        "hidden_size": shape.hidden,
        "intermediate_size": shape.intermediate,
        "vocab_size": shape.vocab,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "head_dim": shape.head_dim,
        "max_position_embeddings": shape.max_position,
        "tie_word_embeddings": shape.tied,
        "dtype": shape.dtype,
    }


def _window_layer_types(shape: Shape) -> list[str]:
    return [
        "full_attention" if (layer + 1) % shape.window_pattern == 0 else "sliding_attention"
        for layer in range(shape.layers)
    ]


def _plain_generation_config(weights: Weights, folder: Path) -> None:
    ends = list(weights.vocabulary.ends)
    _write_json(folder / "generation_config.json", {"eos_token_id": ends, "do_sample": False})


FAMILIES: dict[str, tuple[Callable[[Weights, Path], Config], Shape]] = {
    "hybrid": (hybrid, Shape(layers=8, intermediate=256, head_dim=64, max_position=32768)),
    "hybrid_moe": (hybrid, Shape(layers=8, head_dim=64, max_position=32768, experts=8)),
    "llama": (llama, Shape()),
    "qwen3": (qwen3, Shape()),
    "window": (window, Shape(layers=6)),
    "window_llama": (window_llama, Shape(layers=6)),
}

# ---------------------------------------------------------------------------------------------------------- building


def build(family: str, folder: str | os.PathLike[str], **overrides: Any) -> Path:
    """Writes a checkpoint. The folder appears whole or not at all; one that is already there is an error."""
    if family not in FAMILIES:
        raise ValueError(f"unknown family {family!r}; know {', '.join(FAMILIES)}")
    fill, default = FAMILIES[family]
    shape = replace(default, **overrides)
    target = Path(folder).absolute()
    if target.exists():
        raise FileExistsError(f"{target} exists; remove it or choose another folder")
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    try:
        vocabulary = synthetic_tokenizer.write(draft, vocab=shape.vocab, max_length=shape.max_position)
        writer = ShardWriter(draft, shape.dtype)
        config = fill(Weights(writer, shape, vocabulary), draft)
        writer.close()
        _write_json(draft / "config.json", config | {"paceline_parameters": writer.parameters})
        draft.chmod(0o755)
        draft.rename(target)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise
    return target


def _to_bfloat16(values: Array) -> bytes:
    """Rounds to nearest, ties to even, as every framework does."""
    bits = values.view(np.uint32)
    rounded = (bits + (0x7FFF + ((bits >> 16) & 1))) >> 16
    return rounded.astype(np.uint16).tobytes()


def _write_json(path: Path, value: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=1))


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Write a synthetic checkpoint. Unset options are the family's own.")
    parser.add_argument("family", choices=FAMILIES)
    parser.add_argument("folder", type=Path)
    for field in fields(Shape):
        option = "--" + field.name.replace("_", "-")
        if isinstance(field.default, bool):
            parser.add_argument(option, action=argparse.BooleanOptionalAction, default=None)
        elif field.default is None:
            parser.add_argument(option, type=json.loads, metavar="JSON")
        else:
            parser.add_argument(option, type=type(field.default))
    options = vars(parser.parse_args(arguments))
    family, folder = options.pop("family"), options.pop("folder")
    path = build(family, folder, **{name: value for name, value in options.items() if value is not None})
    config = json.loads((path / "config.json").read_text())
    print(f"{path}: {family}, {config['paceline_parameters'] / 1e6:.1f}M parameters")


if __name__ == "__main__":
    main()
