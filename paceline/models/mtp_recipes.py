"""Where the families have their MTP heads, and how each is put together.

All heads have the same parts: a norm for the embedding of the next token, one for the target's hidden state, a
projection of both to one state, a decoder layer of the family's own kind, and a norm in front of the output head. A
recipe says what a family calls them. The decoder layer is made by mlx-lm: its model of one layer converts the tensors
(experts, attention) as it converts those of the target's layers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.nn as nn
from mlx_lm.models.cache import make_prompt_cache

from paceline.models.files import MTP_PREFIXES, mtp_prefixes
from paceline.models.text_class import choose

Tensors = dict[str, mx.array]
SHARED_HEAD = "shared_head.head.weight"


@dataclass(frozen=True, slots=True)
class Recipe:
    """`names`: what the parts are called, by our name of each (models/mtp)."""

    names: Mapping[str, str]
    hidden_first: bool = False  # the projection reads the hidden state, then the embedding
    before_norm: bool = False  # it is the hidden state before the target's final norm
    one_centred: bool = True  # norms multiply by their weight; False: by 1 + weight, in Hugging Face's layout
    array_mask: bool = False  # the decoder layer needs its mask as an array
    arguments: Mapping[str, Any] = field(default_factory=dict)  # of a model whose only layer is the head's
    layer: str = ""  # where the decoder layer's tensors stand in the head


QWEN = {
    "pre_fc_norm_embedding": "pre_fc_norm_embedding",
    "pre_fc_norm_hidden": "pre_fc_norm_hidden",
    "fc": "fc",
    "norm": "norm",
}
DEEPSEEK = {
    "pre_fc_norm_embedding": "enorm",
    "pre_fc_norm_hidden": "hnorm",
    "fc": "eh_proj",
    "norm": "shared_head.norm",
}
MIMO = {
    "pre_fc_norm_embedding": "token_layernorm",
    "pre_fc_norm_hidden": "hidden_layernorm",
    "fc": "input_proj",
    "norm": "final_layernorm",
}
MIXED: Mapping[str, Any] = {"first_k_dense_replace": 0, "moe_layer_freq": 1}
RECIPES: Mapping[str, Recipe] = {
    "qwen3_next": Recipe(
        QWEN,
        one_centred=False,
        arguments={"full_attention_interval": 1, "decoder_sparse_step": 1, "mlp_only_layers": []},
        layer="layers.0.",
    ),
    "deepseek_v3": Recipe(DEEPSEEK, array_mask=True, arguments=MIXED),
    "glm4_moe": Recipe(DEEPSEEK, arguments=MIXED),
    "mimo": Recipe(MIMO, hidden_first=True, before_norm=True),
}


def take(tensors: Tensors, config: Mapping[str, Any]) -> Tensors:
    """The head's tensors, by their names without prefix. Those of a layer past the last one are taken out: mlx-lm
    would not know them."""
    found: Tensors = {}
    for name in list(tensors):
        prefix = next((each for each in mtp_prefixes(config) if name.startswith(each)), None)
        if prefix is None:
            continue
        found[name.removeprefix(prefix)] = tensors[name]
        if prefix not in MTP_PREFIXES:
            del tensors[name]
    return found


def sidecar(folder: Path, config: Mapping[str, Any]) -> tuple[Tensors, dict[str, Any], bool]:
    """A head in a file of its own beside the model: `mtp.safetensors`, or a folder `mtp` as mlx-vlm's split makes it.
    Returns its tensors, its own configuration, and whether they are in Hugging Face's layout. Raises what MLX raises.
    """
    for file in (folder / "mtp.safetensors", folder / "mtp" / "model.safetensors"):
        if file.is_file():
            stored: Any = mx.load(str(file), return_metadata=True)
            tensors: Tensors = dict(stored[0])
            metadata: dict[str, str] = dict(stored[1])
            own = file.with_name("config.json")
            described = json.loads(own.read_text()) if own.parent != folder and own.is_file() else {}
            named = take(dict(tensors), config)
            return named or tensors, described, metadata.get("format") != "mlx"
    return {}, {}, False


def missing(config: Mapping[str, Any]) -> str:
    """Why a checkpoint without such tensors has no head."""
    text = config.get("text_config") or config
    names = ("mtp_num_hidden_layers", "num_nextn_predict_layers")
    layers = next((text[name] for name in names if isinstance(text.get(name), int)), 0)
    if layers > 0:
        return "the checkpoint has no MTP head: its config.json promises one, which its conversion has dropped"
    return "the checkpoint has no MTP head"


def decoder_layer(recipe: Recipe, tensors: Tensors, config: dict[str, Any]) -> tuple[nn.Module, Any, Tensors]:
    """The family's decoder layer, its cache, and its tensors, which are taken out of the head's."""
    apart = {*(f"{name}." for name in recipe.names.values()), "shared_head.", "embed_tokens.", "rotary_emb."}
    names = [name for name in tensors if not any(name.startswith(each) for each in apart)]
    mine = {f"model.layers.0.{name.removeprefix(recipe.layer)}": tensors.pop(name) for name in names}
    model_class, args_class = choose(config)
    single = {**config, "num_hidden_layers": 1, "tie_word_embeddings": False, **recipe.arguments}
    single = {name: value for name, value in single.items() if name not in ("layer_types", "quantization")}
    donor: Any = model_class(args_class.from_dict(single))  # type: ignore[attr-defined]
    converted = donor.sanitize(mine) if hasattr(donor, "sanitize") else mine
    own = {
        name.removeprefix("model.layers.0."): array for name, array in converted.items() if "rotary_emb." not in name
    }
    return donor.layers[0], make_prompt_cache(donor)[0], own
