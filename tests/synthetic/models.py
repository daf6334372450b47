"""Small checkpoints with random weights in Hugging Face layout.

Needs numpy and tokenizers only; nothing is downloaded. `build("hybrid", folder)` writes a model of one or two
million parameters in a second; overrides of `Shape` make it as large as a bench wants.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from tests.synthetic import tokenizer
from tests.synthetic.tokenizer import END_OF_TEXT, END_OF_TURN
from tests.synthetic.weights import Shape, ShardWriter, Weights, write_json

Config = dict[str, Any]


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


def hybrid(weights: Weights, folder: Path) -> Config:
    """Qwen3.5: GatedDeltaNet and gated attention, vision, an MTP head; a mixture when `experts` > 0."""
    shape, ids = weights.shape, weights.vocabulary.ids
    kind = "qwen3_5_moe" if shape.experts else "qwen3_5"
    weights.zero_centred = True
    prefix = "model.language_model"
    weights.words(f"{prefix}.embed_tokens", f"{prefix}.norm")
    for layer in range(shape.layers):
        _hybrid_layer(weights, f"{prefix}.layers.{layer}", attention=(layer + 1) % shape.attention_every == 0)
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
    write_json(folder / "generation_config.json", {"eos_token_id": [ids[END_OF_TURN]]})
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


def qwen3_moe(weights: Weights, folder: Path) -> Config:
    shape = weights.shape
    return _dense(weights, folder, "qwen3_moe", "Qwen3MoeForCausalLM", normed=True) | {
        "num_experts": shape.experts,
        "num_experts_per_tok": shape.experts_per_token,
        "moe_intermediate_size": shape.expert_intermediate,
        "norm_topk_prob": True,
        "decoder_sparse_step": 1,
        "mlp_only_layers": [],
    }


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
        if shape.experts:
            weights.plain_experts(f"{prefix}.mlp")
        else:
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


def _hybrid_layer(weights: Weights, prefix: str, *, attention: bool) -> None:
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
    listening = weights.normal(hidden, hidden, scale=0.4 / math.sqrt(hidden))
    listening[0] = 0
    weights.writer.put("mtp.fc.weight", np.concatenate([passing, listening], axis=1))
    for name in ("pre_fc_norm_embedding", "pre_fc_norm_hidden", "norm"):
        weights.norm(f"mtp.{name}", hidden)
    _hybrid_layer(weights, "mtp.layers.0", attention=True)


def _vision_tower(weights: Weights, kind: str) -> Config:
    shape = weights.shape
    width, text_width, prefix = shape.vision_hidden, shape.hidden, "model.visual"
    patch, frames, positions = 16, 2, 256
    fan_in = 3 * frames * patch * patch
    kernel = weights.normal(width, 3, frames, patch, patch, scale=1 / math.sqrt(fan_in))
    weights.writer.put(f"{prefix}.patch_embed.proj.weight", kernel)
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
    image = {"image_processor_type": "Qwen2VLImageProcessorFast"}
    write_json(folder / "preprocessor_config.json", common | image)
    video = {"video_processor_type": "Qwen3VLVideoProcessor", "fps": 2, "min_frames": 4, "max_frames": 16}
    write_json(folder / "video_preprocessor_config.json", common | video)


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
    write_json(folder / "generation_config.json", {"eos_token_id": ends})


FAMILIES: dict[str, tuple[Callable[[Weights, Path], Config], Shape]] = {
    "hybrid": (hybrid, Shape(layers=8, intermediate=256, head_dim=64, max_position=32768, end_bias=3.0)),
    "hybrid_moe": (hybrid, Shape(layers=8, head_dim=64, max_position=32768, experts=8, end_bias=2.5)),
    "llama": (llama, Shape()),
    "qwen3": (qwen3, Shape()),
    "qwen3_moe": (qwen3_moe, Shape(experts=8)),
    "window": (window, Shape(layers=6)),
    "window_llama": (window_llama, Shape(layers=6, end_bias=1.0)),
}


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
        vocabulary = tokenizer.write(draft, vocab=shape.vocab, max_length=shape.max_position)
        writer = ShardWriter(draft, shape.dtype)
        config = fill(Weights(writer, shape, vocabulary), draft)
        writer.close()
        write_json(draft / "config.json", config)
        draft.chmod(0o755)
        draft.rename(target)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise
    return target


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Write a synthetic checkpoint; unset options are the family's own.")
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
    totals = json.loads((path / "model.safetensors.index.json").read_text())["metadata"]
    print(f"{path}: {family}, {totals['total_parameters'] / 1e6:.1f}M parameters")
