"""LLaVA and Granite Vision, as their checkpoints have them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.synthetic.vision_parts import HALF, SIGLIP, TEXT, Config, Family, Ids

PINPOINTS = [[56, 56], [56, 112], [112, 56], [112, 112]]
LARGE = [[112, 112], [112, 224], [224, 112], [224, 224]]
PLAIN = {key: value for key, value in TEXT.items() if key != "head_dim"}
CLIP = SIGLIP | {"model_type": "clip_vision_model", "num_hidden_layers": 3, "projection_dim": 32}


def _llava(ids: Ids) -> Config:
    return {
        "model_type": "llava",
        "text_config": PLAIN | {"model_type": "llama"},
        "vision_config": CLIP,
        "image_token_index": ids["<image>"],
        "vision_feature_layer": -2,
        "vision_feature_select_strategy": "default",
    }


def _llava_files(ids: Ids) -> dict[str, Config]:
    image: Config = {"size": {"shortest_edge": 56}, "crop_size": {"height": 56, "width": 56}, "do_center_crop": True}
    image |= HALF | {"image_processor_type": "CLIPImageProcessor", "do_resize": True, "do_convert_rgb": True}
    more = {"patch_size": 14, "vision_feature_select_strategy": "default", "num_additional_image_tokens": 1}
    return {"preprocessor_config.json": image, "processor_config.json": more | {"image_token": "<image>"}}


def _llava_next(ids: Ids) -> Config:
    return _llava(ids) | {
        "model_type": "llava_next",
        "text_config": PLAIN | {"model_type": "mistral"},
        "image_grid_pinpoints": PINPOINTS,
        "use_image_newline_parameter": True,
    }


def _next_files(
    strategy: str, additional: int, tile: int = 56, pinpoints: Any = PINPOINTS
) -> Callable[[Ids], dict[str, Config]]:
    image = _llava_files({})["preprocessor_config.json"]
    image |= {"image_processor_type": "LlavaNextImageProcessor", "image_grid_pinpoints": pinpoints, "do_pad": True}
    image |= {"size": {"shortest_edge": tile}, "crop_size": {"height": tile, "width": tile}}
    more: Config = {"patch_size": 14, "vision_feature_select_strategy": strategy, "image_token": "<image>"}
    more |= {"num_additional_image_tokens": additional}
    return lambda ids: {"preprocessor_config.json": image, "processor_config.json": more}


GRANITE: Config = {"embedding_multiplier": 1.5, "attention_multiplier": 0.2, "residual_multiplier": 0.7}
GRANITE |= {"logits_scaling": 2.0, "attention_bias": False, "mlp_bias": False, "tie_word_embeddings": True}


def _granite_vision(ids: Ids) -> Config:
    return _llava_next(ids) | {
        "model_type": "granite_vision",
        "text_config": PLAIN | GRANITE | {"model_type": "granite"},
        "vision_config": SIGLIP | {"model_type": "siglip_vision_model", "num_hidden_layers": 4},
        "vision_feature_layer": [-4, -2, -1],
        "vision_feature_select_strategy": "full",
        "tie_word_embeddings": True,
    }


def _tied(weights: dict[str, Any]) -> None:
    weights.pop("language_model.lm_head.weight")


def _granite4_vision(ids: Ids) -> Config:
    text = {"model_type": "granitemoehybrid", "num_hidden_layers": 6, "layer_types": ["attention"] * 6}
    text |= {"shared_intermediate_size": 96, "num_local_experts": 0, "num_experts_per_tok": 0}
    tower = SIGLIP | {"model_type": "siglip_vision_model", "num_hidden_layers": 4, "hidden_size": 64}
    return {
        "model_type": "granite4_vision",
        "text_config": PLAIN | GRANITE | text,
        "vision_config": tower | {"image_size": 112},
        "image_token_index": ids["<image>"],
        "image_grid_pinpoints": LARGE,
        "downsample_rate": "4/8",
        "deepstack_layer_map": [[-3, 3], [-1, 0]],
        "use_spatial_sampling": True,
        "spatial_target_layers": [1, 2, 4, 5],
        "tie_word_embeddings": True,
    }


def _granite4_weights(weights: dict[str, Any]) -> None:
    """One tensor gates and goes up, and an adapter is part of the checkpoint."""
    _tied(weights)
    for name in [name for name in weights if name.endswith("mlp.gate_proj.weight")]:
        place = name.removesuffix("mlp.gate_proj.weight")
        gate, up = weights.pop(name), weights.pop(f"{place}mlp.up_proj.weight")
        weights[f"{place}shared_mlp.input_linear.weight"] = np.concatenate([gate, up])
        weights[f"{place}shared_mlp.output_linear.weight"] = weights.pop(f"{place}mlp.down_proj.weight")
        rng, adapted = np.random.default_rng(len(name)), place.replace("language_model.model.", "language_model.")
        for part, shape in (("lora_A", (2, 64)), ("lora_B", (64, 2))):
            values = 0.3 * rng.standard_normal(shape).astype(np.float32)
            weights[f"base_model.model.model.{adapted}self_attn.q_proj.{part}.weight"] = values


def _onevision(ids: Ids) -> Config:
    return {
        "model_type": "llava_onevision",
        "text_config": PLAIN | {"model_type": "qwen2"},
        "vision_config": SIGLIP | {"model_type": "siglip_vision_model"},
        "image_token_index": ids["<image>"],
        "video_token_index": ids["<video>"],
        "image_grid_pinpoints": PINPOINTS,
        "vision_aspect_ratio": "anyres_max_9",
        "vision_feature_layer": -1,
        "vision_feature_select_strategy": "full",
    }


def _onevision_files(ids: Ids) -> dict[str, Config]:
    image = HALF | {"image_processor_type": "LlavaOnevisionImageProcessor", "image_grid_pinpoints": PINPOINTS}
    image |= {"size": {"height": 56, "width": 56}, "do_resize": True, "do_pad": True}
    more = {"num_image_tokens": 16, "vision_feature_select_strategy": "full"}
    return {"preprocessor_config.json": image, "processor_config.json": more}


IMAGE = ("<image>",)
GRANITE4_NAMES = (
    ("language_model.model.", "model.language_model."),
    *((name, f"model.{name}") for name in ("vision_tower.", "layerwise_projectors.", "spatial_projectors.")),
    ("image_newline", "model.image_newline"),
)
FAMILIES = {
    "llava": Family(_llava, _llava_files, IMAGE, "<image>"),
    "llava_onevision": Family(_onevision, _onevision_files, ("<image>", "<video>"), "<image>"),
    "llava_next": Family(_llava_next, _next_files("default", 1), IMAGE, "<image>\n"),
    "granite_vision": Family(_granite_vision, _next_files("full", 0), IMAGE, "<image>\n", convert=_tied),
    "granite4_vision": Family(
        _granite4_vision, _next_files("full", 0, 112, LARGE), IMAGE, "<image>\n", GRANITE4_NAMES, _granite4_weights
    ),
}
