"""Small checkpoints with MTP heads in the layouts that the families publish, whose heads agree with the model.

A model of one layer more than the checkpoint has is made with mlx-lm. Its last layer is the head's; the tensors are
written as Hugging Face has them: experts one by one, DeepSeek's attention joined, Qwen's norms around 0.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
from mlx.utils import tree_flatten
from mlx_lm.utils import load_model  # noqa: F401  mlx-lm's modules are found through it
from numpy.typing import NDArray

from paceline.models.text_class import choose

Floats = NDArray[np.float32]
Config = dict[str, Any]
LAYERS, HIDDEN, VOCAB, EXPERTS = 3, 64, 256, 4
SHARP = 4.0

COMMON: Config = {
    "hidden_size": HIDDEN,
    "intermediate_size": 96,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "vocab_size": VOCAB,
    "rms_norm_eps": 1e-6,
    "rope_theta": 10000.0,
    "max_position_embeddings": 4096,
    "rope_scaling": None,
    "tie_word_embeddings": False,
}
MIXTURE: Config = {
    "moe_intermediate_size": 32,
    "n_routed_experts": EXPERTS,
    "n_shared_experts": 1,
    "num_experts_per_tok": 2,
    "routed_scaling_factor": 1.0,
    "norm_topk_prob": True,
    "n_group": 1,
    "topk_group": 1,
    "first_k_dense_replace": 1,
    "num_nextn_predict_layers": 1,
}
MLA: Config = {
    "q_lora_rank": 32,
    "kv_lora_rank": 32,
    "qk_rope_head_dim": 16,
    "qk_nope_head_dim": 16,
    "v_head_dim": 16,
    "moe_layer_freq": 1,
}


@dataclass(frozen=True, slots=True)
class Family:
    config: Config
    place: str  # of the head's layer
    parts: dict[str, str]  # of the head, by what they are
    hidden_first: bool = False
    centre: float = 0.0  # what a stored norm lacks


DEEPSEEK = {"embedding": "enorm", "hidden": "hnorm", "both": "eh_proj", "last": "shared_head.norm"}
FAMILIES: dict[str, Family] = {
    "deepseek_v3": Family({**COMMON, **MIXTURE, **MLA}, f"model.layers.{LAYERS}.", DEEPSEEK),
    "glm4_moe": Family(
        {
            **COMMON,
            **MIXTURE,
            "head_dim": 16,
            "partial_rotary_factor": 0.5,
            "use_qk_norm": True,
            "attention_bias": False,
        },
        f"model.layers.{LAYERS}.",
        DEEPSEEK,
    ),
    "mimo": Family(
        {**COMMON, "num_nextn_predict_layers": 1},
        "model.mtp_layers.0.",
        {
            "embedding": "token_layernorm",
            "hidden": "hidden_layernorm",
            "both": "input_proj",
            "last": "final_layernorm",
        },
        hidden_first=True,
    ),
    "qwen3_next": Family(
        {
            **COMMON,
            "head_dim": 16,
            "partial_rotary_factor": 0.5,
            "num_key_value_heads": 2,
            "linear_num_value_heads": 4,
            "linear_num_key_heads": 2,
            "linear_key_head_dim": 16,
            "linear_value_head_dim": 16,
            "linear_conv_kernel_dim": 4,
            "full_attention_interval": (LAYERS + 1) // 2,
            "num_experts": EXPERTS,
            "num_experts_per_tok": 2,
            "decoder_sparse_step": 1,
            "shared_expert_intermediate_size": 32,
            "mlp_only_layers": [],
            "moe_intermediate_size": 32,
            "norm_topk_prob": True,
            "mtp_num_hidden_layers": 1,
        },
        "mtp.layers.0.",
        {
            "embedding": "pre_fc_norm_embedding",
            "hidden": "pre_fc_norm_hidden",
            "both": "fc",
            "last": "norm",
        },
        centre=1.0,
    ),
}


def build(name: str, folder: Path, seed: int = 0) -> tuple[Path, Any, dict[str, Floats]]:
    """Writes the checkpoint; returns its folder, mlx-lm's model with the head's layer as its last, and the other parts
    of the head by what they are."""
    family = FAMILIES[name]
    config: Config = {**family.config, "model_type": name}
    model = _model(config, seed)
    parts = _parts(family, seed)
    stored = _published(name, config, model)
    last = f"model.layers.{LAYERS}."
    tensors = {
        key.replace(last, family.place, 1) if key.startswith(last) else key: value for key, value in stored.items()
    }
    base = family.place.removesuffix("layers.0.") if family.place.startswith("mtp.") else family.place
    for what, part in family.parts.items():
        tensors[f"{base}{part}.weight"] = parts[what] - (family.centre if what != "both" else 0)
    if name != "mimo" and name != "qwen3_next":
        tensors[f"{base}shared_head.head.weight"] = stored["lm_head.weight"]
        tensors[f"{base}embed_tokens.weight"] = stored["model.embed_tokens.weight"]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    arrays = {key: mx.array(np.ascontiguousarray(value, dtype=np.float32)) for key, value in tensors.items()}
    mx.save_safetensors(str(folder / "model.safetensors"), arrays, metadata={"format": "pt"})
    return folder, model, parts


def _model(config: Config, seed: int) -> Any:
    """Its text walks through the vocabulary in an order of its own, now and then disturbed by its layers."""
    model_class, args_class = choose(config)
    model: Any = model_class(args_class.from_dict({**config, "num_hidden_layers": LAYERS + 1}))  # type: ignore[attr-defined]
    random = np.random.default_rng(seed)
    weights = {}
    for key, value in tree_flatten(model.parameters()):
        drawn = random.standard_normal(value.shape).astype(np.float32)
        if "norm" in key.split(".")[-2]:
            drawn = 1 + 0.02 * drawn
        elif key.endswith(("o_proj.weight", "down_proj.weight", "out_proj.weight")):
            drawn *= 0.4 / np.sqrt(value.shape[-1])
        elif key.endswith(("A_log", "dt_bias", "bias")):
            drawn *= 0.1
        else:
            drawn *= 1 / np.sqrt(value.shape[-1])
        weights[key] = drawn
    table = random.standard_normal((VOCAB, HIDDEN)).astype(np.float32)
    walk = random.permutation(VOCAB)
    head = np.empty_like(table)
    head[np.roll(walk, -1)] = table[walk] * (SHARP / np.sqrt(HIDDEN))
    weights |= {"model.embed_tokens.weight": table, "lm_head.weight": head}
    model.load_weights([(key, mx.array(value)) for key, value in weights.items()])
    return model


def _parts(family: Family, seed: int) -> dict[str, Floats]:
    """The projection passes the embedding on, and hears a little of the hidden state."""
    random = np.random.default_rng([seed, 1])
    halves = [np.eye(HIDDEN), 0.1 / np.sqrt(HIDDEN) * random.standard_normal((HIDDEN, HIDDEN))]
    both = np.concatenate(halves[::-1] if family.hidden_first else halves, axis=1)
    norms = {what: 1 + 0.02 * random.standard_normal(HIDDEN) for what in ("embedding", "hidden", "last")}
    return {key: value.astype(np.float32) for key, value in {**norms, "both": both}.items()}


def _published(name: str, config: Config, model: Any) -> dict[str, Floats]:
    """The model's tensors as they are published."""
    rules: dict[str, Callable[[dict[str, Floats], Config], None]] = {
        "deepseek_v3": _join_attention,
        "qwen3_next": _centre_norms,
    }
    tensors = {key: np.array(value) for key, value in tree_flatten(model.parameters())}
    for key in [key for key in tensors if ".switch_mlp." in key]:
        stack = tensors.pop(key)
        for expert, values in enumerate(stack):
            tensors[key.replace(".switch_mlp.", f".experts.{expert}.")] = values
    if name in rules:
        rules[name](tensors, config)
    return tensors


def _join_attention(tensors: dict[str, Floats], config: Config) -> None:
    for key in [key for key in tensors if key.endswith(".embed_q.weight")]:
        base = key.removesuffix("embed_q.weight")
        keys, values = tensors.pop(key).swapaxes(-1, -2), tensors.pop(f"{base}unembed_out.weight")
        tensors[f"{base}kv_b_proj.weight"] = np.concatenate([keys, values], axis=1).reshape(-1, config["kv_lora_rank"])


def _centre_norms(tensors: dict[str, Floats], config: Config) -> None:
    names = (
        "input_layernorm.weight",
        "post_attention_layernorm.weight",
        "model.norm.weight",
        "q_norm.weight",
        "k_norm.weight",
    )
    for key, value in tensors.items():
        if key.endswith(names):
            tensors[key] = value - 1
        elif "conv1d.weight" in key:
            tensors[key] = np.moveaxis(value, 1, 2)
