"""The configurations, processor files and names of vision-language families, as their checkpoints have them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.synthetic.gemma_families import FAMILIES as GEMMA_FAMILIES
from tests.synthetic.llava_families import FAMILIES as LLAVA_FAMILIES
from tests.synthetic.vision_parts import HALF, SIGLIP, TEXT, Config, Family, Ids

# -- Qwen


QWEN = ("<|vision_start|>", "<|vision_end|>", "<|vision_pad|>", "<|image_pad|>", "<|video_pad|>")
QWEN_MARK = "<|vision_start|><|image_pad|><|vision_end|>"


def _qwen_ids(ids: Ids) -> Config:
    return {
        "image_token_id": ids["<|image_pad|>"],
        "video_token_id": ids["<|video_pad|>"],
        "vision_start_token_id": ids["<|vision_start|>"],
        "vision_end_token_id": ids["<|vision_end|>"],
        "vision_token_id": ids["<|vision_pad|>"],
    }


def _qwen_files(patch: int) -> Callable[[Ids], dict[str, Config]]:
    common = HALF | {"patch_size": patch, "temporal_patch_size": 2, "merge_size": 2}
    limits = {"min_pixels": 4 * patch**2, "max_pixels": 200 * patch**2}
    return lambda ids: {"preprocessor_config.json": common | limits | {"image_processor_type": "Qwen2VLImageProcessor"}}


def _qwen2(kind: str, vision: Config) -> Callable[[Ids], Config]:
    def config(ids: Ids) -> Config:
        rope = {"type": "mrope", "mrope_section": [2, 3, 3]}
        # As on Hugging Face: the text model's settings are not nested.
        text = {key: value for key, value in TEXT.items() if key != "head_dim"}
        tower = {"depth": 2, "num_heads": 2, "patch_size": 14, "spatial_patch_size": 14} | vision
        return text | {"model_type": kind, "rope_scaling": rope, "vision_config": tower} | _qwen_ids(ids)

    return config


def _qwen3(kind: str, more: Config) -> Callable[[Ids], Config]:
    def config(ids: Ids) -> Config:
        rope = {"rope_type": "default", "mrope_interleaved": True, "mrope_section": [4, 2, 2]}
        tower = {
            "model_type": kind,
            "depth": 3,
            "hidden_size": 32,
            "intermediate_size": 48,
            "out_hidden_size": 64,
            "num_heads": 2,
            "patch_size": 16,
            "num_position_embeddings": 64,
            "deepstack_visual_indexes": [0, 1],
        }
        text = TEXT | {"model_type": f"{kind}_text", "rope_scaling": rope, "num_hidden_layers": 3} | more
        return {"model_type": kind, "text_config": text, "vision_config": tower} | _qwen_ids(ids)

    return config


def _fused_experts(weights: dict[str, Any]) -> None:
    for name in [name for name in weights if name.endswith("switch_mlp.gate_proj.weight")]:
        place = name.removesuffix("switch_mlp.gate_proj.weight")
        gate, up = (weights.pop(f"{place}switch_mlp.{part}.weight") for part in ("gate_proj", "up_proj"))
        weights[f"{place}experts.gate_up_proj"] = np.concatenate([gate, up], axis=1).swapaxes(1, 2)
        down = weights.pop(f"{place}switch_mlp.down_proj.weight")
        weights[f"{place}experts.down_proj"] = down.swapaxes(1, 2)


QWEN2_NAMES = (
    ("language_model.model.", "model."),
    ("language_model.lm_head.", "lm_head."),
    ("vision_tower.", "visual."),
)
QWEN3_NAMES = (
    ("language_model.model.", "model.language_model."),
    ("language_model.lm_head.", "lm_head."),
    ("vision_tower.", "model.visual."),
)
MOE: Config = {
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "decoder_sparse_step": 1,
    "mlp_only_layers": [],
    "moe_intermediate_size": 32,
    "norm_topk_prob": True,
}


# -- Mistral


MISTRAL = ("[IMG]", "[IMG_BREAK]", "[IMG_END]")


def _mistral(kind: str) -> Callable[[Ids], Config]:
    def config(ids: Ids) -> Config:
        tower = SIGLIP | {"model_type": "pixtral", "image_size": 224, "head_dim": 16, "rope_theta": 10000.0}
        return {
            "model_type": kind,
            "text_config": TEXT | {"model_type": "mistral"},
            "vision_config": tower,
            "image_token_index": ids["[IMG]"],
            "vision_feature_layer": -1,
            "spatial_merge_size": 2,
            "multimodal_projector_bias": False,
        }

    return config


def _pixtral_files(merge: int) -> Callable[[Ids], dict[str, Config]]:
    edge = 224
    image = HALF | {"image_processor_type": "PixtralImageProcessor", "size": {"longest_edge": edge}, "do_resize": True}
    tokens = dict(zip(("image_token", "image_break_token", "image_end_token"), MISTRAL, strict=True))
    processor: Config = {"patch_size": 14, "spatial_merge_size": merge} | tokens
    patch = {"patch_size": {"height": 14, "width": 14}}
    return lambda ids: {"preprocessor_config.json": image | patch, "processor_config.json": processor}


MISTRAL_NAMES = (("vision_tower.vision_model.", "vision_tower."),)


# -- others


LFM2 = ("<image>", "<|image_start|>", "<|image_end|>", "<|img_thumbnail|>")
LFM2_TILES = tuple(f"<|img_row_{row}_col_{column}|>" for row in range(1, 4) for column in range(1, 4))


def _lfm2_vl(ids: Ids) -> Config:
    text = TEXT | {"model_type": "lfm2", "layer_types": ["conv", "full_attention", "conv"], "num_hidden_layers": 3}
    text |= {"norm_eps": 1e-5, "conv_L_cache": 3, "conv_bias": False, "block_dim": 64, "block_ff_dim": 96}
    text |= {"block_multiple_of": 16, "block_ffn_dim_multiplier": 1.0, "block_auto_adjust_ff_dim": False}
    text |= {"tie_word_embeddings": True}
    tower = SIGLIP | {"model_type": "siglip2_vision_model", "patch_size": 16, "num_patches": 64}
    return {
        "model_type": "lfm2_vl",
        "text_config": text,
        "vision_config": tower | {"vision_use_head": False},
        "image_token_id": ids["<image>"],
        "projector_hidden_size": 48,
        "downsample_factor": 2,
        "tile_size": 64,
    }


def _lfm2_files(ids: Ids) -> dict[str, Config]:
    tiles = {"tile_size": 64, "min_image_tokens": 2, "max_image_tokens": 4, "max_num_patches": 16}
    image = HALF | tiles | {"image_processor_type": "Lfm2VlImageProcessorFast", "encoder_patch_size": 16}
    return {"preprocessor_config.json": image | {"downsample_factor": 2, "max_pixels_tolerance": 2.0}}


IDEFICS = ("<image>", "<fake_token_around_image>", "<global-img>", "<end_of_utterance>")
IDEFICS_TILES = tuple(f"<row_{row}_col_{column}>" for row in range(1, 7) for column in range(1, 7))
IDEFICS_NAMES = (
    ("language_model.lm_head.", "lm_head."),
    ("language_model.", "model.text_model."),
    ("vision_model.", "model.vision_model."),
    ("connector.", "model.connector."),
)


def _idefics3(kind: str, tower: str) -> Callable[[Ids], Config]:
    def config(ids: Ids) -> Config:
        return {
            "model_type": kind,
            "text_config": TEXT | {"model_type": "llama"},
            "vision_config": SIGLIP | {"model_type": tower, "image_size": 64, "patch_size": 16},
            "scale_factor": 2,
            "image_token_id": ids["<image>"],
        }

    return config


def _idefics3_files(name: str) -> Callable[[Ids], dict[str, Config]]:
    sizes = {"size": {"longest_edge": 128}, "max_image_size": {"longest_edge": 64}, "do_image_splitting": True}
    image = HALF | sizes | {"image_processor_type": f"{name}ImageProcessor", "do_resize": True, "do_pad": True}
    return lambda ids: {"preprocessor_config.json": image, "processor_config.json": {"image_seq_len": 4}}


INTERNVL = ("<img>", "</img>", "<IMG_CONTEXT>")


def _internvl(ids: Ids) -> Config:
    tower = SIGLIP | {"model_type": "intern_vit_6b", "norm_type": "layer_norm", "qkv_bias": True}
    return {
        "model_type": "internvl_chat",
        "llm_config": TEXT | {"model_type": "qwen2", "attention_bias": True},
        "vision_config": tower | {"qk_normalization": False},
        "downsample_ratio": 0.5,
        "force_image_size": 56,
        "max_dynamic_patch": 4,
        "min_dynamic_patch": 1,
        "use_thumbnail": True,
        "image_token_index": ids["<IMG_CONTEXT>"],
    }


GLM = ("<|image|>", "<|video|>", "<|begin_of_image|>", "<|end_of_image|>", "<|begin_of_video|>", "<|end_of_video|>")


def _glm4v_moe(ids: Ids) -> Config:
    text = TEXT | {"model_type": "glm4v_moe_text", "num_hidden_layers": 2, "attention_bias": True, "n_group": 1}
    text |= {"moe_intermediate_size": 32, "norm_topk_prob": True, "topk_group": 1, "n_shared_experts": 1}
    text |= {"n_routed_experts": 4, "routed_scaling_factor": 1.0, "num_experts_per_tok": 2, "use_qk_norm": False}
    text |= {"first_k_dense_replace": 1, "partial_rotary_factor": 0.5}
    text |= {"rope_scaling": {"rope_type": "default", "mrope_section": [2, 1, 1]}}
    tower = {"model_type": "glm4v_moe_vision", "depth": 2, "hidden_size": 32, "intermediate_size": 48, "num_heads": 2}
    return {
        "model_type": "glm4v_moe",
        "text_config": text,
        "vision_config": tower | {"patch_size": 14, "out_hidden_size": 64, "image_size": 56},
        "image_token_id": ids["<|image|>"],
        "video_token_id": ids["<|video|>"],
        "image_start_token_id": ids["<|begin_of_image|>"],
        "image_end_token_id": ids["<|end_of_image|>"],
        "vision_start_token_id": ids["<|begin_of_image|>"],
        "vision_end_token_id": ids["<|end_of_image|>"],
    }


def _glm4v(ids: Ids) -> Config:
    text = TEXT | {"model_type": "glm4v_text", "attention_bias": True, "partial_rotary_factor": 0.5}
    text |= {"eos_token_id": [ids["<|im_end|>"]]}
    text |= {"rope_scaling": {"rope_type": "default", "mrope_section": [2, 1, 1]}}
    moe = _glm4v_moe(ids)
    tower = moe["vision_config"] | {"model_type": "glm4v"}
    return moe | {"model_type": "glm4v", "text_config": text, "vision_config": tower}


def _glm_files(ids: Ids) -> dict[str, Config]:
    image = HALF | {"image_processor_type": "Glm4vImageProcessor", "patch_size": 14, "temporal_patch_size": 2}
    size = {"shortest_edge": 784 * 2, "longest_edge": 784 * 2 * 24}
    return {"preprocessor_config.json": image | {"merge_size": 2, "size": size}}


def _split_experts(weights: dict[str, Any]) -> None:
    for name in [name for name in weights if ".switch_mlp." in name]:
        stacked = weights.pop(name)
        for expert, values in enumerate(stacked):
            weights[name.replace("switch_mlp", f"experts.{expert}")] = values


KIMI = ("<|media_start|>", "<|media_content|>", "<|media_pad|>", "<|media_end|>")


def _kimi_vl(ids: Ids) -> Config:
    text = {key: value for key, value in TEXT.items() if key != "head_dim"}
    text |= {"model_type": "deepseek_v3", "num_hidden_layers": 3, "num_key_value_heads": 4, "first_k_dense_replace": 1}
    text |= {"kv_lora_rank": 32, "q_lora_rank": None, "qk_rope_head_dim": 8, "qk_nope_head_dim": 16, "v_head_dim": 16}
    text |= {"moe_intermediate_size": 32, "n_routed_experts": 4, "num_experts_per_tok": 2, "n_shared_experts": 1}
    text |= {"n_group": 1, "topk_group": 1, "routed_scaling_factor": 1.5, "norm_topk_prob": True}
    tower = {"model_type": "moonvit", "patch_size": 14, "num_attention_heads": 2, "num_hidden_layers": 2}
    tower |= {"num_heads": 2, "depth": 2, "embed_dim": 32, "hidden_size": 32, "intermediate_size": 48}
    return {
        "model_type": "kimi_vl",
        "text_config": text,
        "vision_config": tower | {"init_pos_emb_height": 8, "init_pos_emb_width": 8, "merge_kernel_size": [2, 2]},
        "media_placeholder_token_id": ids["<|media_pad|>"],
    }


def _kimi_weights(weights: dict[str, Any]) -> None:
    _split_experts(weights)
    for name in [name for name in weights if name.startswith("vision_tower.") and ".blocks." in name]:
        weights[name.replace(".blocks.", ".encoder.blocks.").replace(".attn.", ".")] = weights.pop(name)


MINICPM = ("<image>", "</image>", "<slice>", "</slice>", "<image_id>", "</image_id>", "<|image_pad|>", "<|video_pad|>")


def _minicpm(ids: Ids) -> Config:
    text = TEXT | {"model_type": "qwen3_5_text", "num_hidden_layers": 4, "full_attention_interval": 2}
    text |= {"linear_num_value_heads": 4, "linear_num_key_heads": 2, "linear_key_head_dim": 16}
    text |= {"linear_value_head_dim": 16, "linear_conv_kernel_dim": 4, "attention_bias": False}
    rope = {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5, "mrope_interleaved": True}
    text |= {"rope_parameters": rope | {"mrope_section": [2, 1, 1]}}
    return {
        "model_type": "minicpmv4_6",
        "text_config": text,
        "vision_config": SIGLIP | {"model_type": "minicpmv4_6_vision", "num_hidden_layers": 3},
        "insert_layer_id": 1,
        "image_size": 56,
        "patch_size": 14,
    }


def _minicpm_files(ids: Ids) -> dict[str, Config]:
    return {"preprocessor_config.json": {"patch_size": 14, "scale_resolution": 112, "max_slice_nums": 4}}


def _minicpm_weights(weights: dict[str, Any]) -> None:
    for name, values in weights.items():
        if name.endswith("conv1d.weight"):
            weights[name] = values.transpose(0, 2, 1)
        elif name.startswith("language_model.") and "norm" in name and "linear_attn" not in name:
            weights[name] = values - 1  # stored as what is added to one


FAMILIES = {
    "minicpmv4_6": Family(
        _minicpm,
        _minicpm_files,
        MINICPM,
        "<|image_pad|>",
        (
            ("language_model.model.", "model.language_model."),
            ("language_model.lm_head.", "lm_head."),
            ("vision_tower.", "model.vision_tower."),
            ("vit_merger.", "model.vision_tower.vit_merger."),
            ("merger.", "model.merger."),
        ),
        _minicpm_weights,
    ),
    "kimi_vl": Family(
        _kimi_vl,
        lambda ids: {},
        KIMI,
        "<|media_start|>image<|media_content|><|media_pad|><|media_end|>",
        convert=_kimi_weights,
        padded=True,
    ),
    "glm4v": Family(_glm4v, _glm_files, GLM, "<|begin_of_image|><|image|><|end_of_image|>", QWEN3_NAMES),
    "glm4v_moe": Family(
        _glm4v_moe,
        _glm_files,
        GLM,
        "<|begin_of_image|><|image|><|end_of_image|>",
        QWEN3_NAMES,
        _split_experts,
    ),
    "qwen2_vl": Family(
        _qwen2("qwen2_vl", {"embed_dim": 32, "hidden_size": 64}), _qwen_files(14), QWEN, QWEN_MARK, QWEN2_NAMES
    ),
    "qwen2_5_vl": Family(
        _qwen2(
            "qwen2_5_vl",
            {"hidden_size": 32, "intermediate_size": 48, "out_hidden_size": 64, "fullatt_block_indexes": [1]},
        ),
        _qwen_files(14),
        QWEN,
        QWEN_MARK,
        QWEN2_NAMES,
    ),
    "qwen3_vl": Family(_qwen3("qwen3_vl", {}), _qwen_files(16), QWEN, QWEN_MARK, QWEN3_NAMES),
    "qwen3_vl_moe": Family(_qwen3("qwen3_vl_moe", MOE), _qwen_files(16), QWEN, QWEN_MARK, QWEN3_NAMES, _fused_experts),
    "mistral3": Family(_mistral("mistral3"), _pixtral_files(2), MISTRAL, "[IMG]", MISTRAL_NAMES),
    "pixtral": Family(_mistral("pixtral"), _pixtral_files(1), MISTRAL, "[IMG]", MISTRAL_NAMES),
    "lfm2_vl": Family(
        _lfm2_vl,
        _lfm2_files,
        LFM2 + LFM2_TILES,
        "<image>",
        (
            ("language_model.model.", "model.language_model."),
            ("vision_tower.", "model.vision_tower.vision_model."),
            ("multi_modal_projector.", "model.multi_modal_projector."),
        ),
        tokenizer={
            "extra_special_tokens": {
                "image_token": "<image>",
                "image_start_token": "<|image_start|>",
                "image_end_token": "<|image_end|>",
                "image_thumbnail": "<|img_thumbnail|>",
            }
        },
    ),
    "smolvlm": Family(
        _idefics3("smolvlm", "siglip_vision_model"),
        _idefics3_files("SmolVLM"),
        IDEFICS + IDEFICS_TILES,
        "<image>",
        IDEFICS_NAMES,
    ),
    "idefics3": Family(
        _idefics3("idefics3", "idefics3"),
        _idefics3_files("Idefics3"),
        IDEFICS + IDEFICS_TILES,
        "<image>",
        IDEFICS_NAMES,
    ),
    "internvl_chat": Family(_internvl, lambda ids: {}, INTERNVL, "<image>\n"),
}
FAMILIES |= GEMMA_FAMILIES | LLAVA_FAMILIES
