"""Gemma's configurations, processor files and names, as its checkpoints have them."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.synthetic.vision_parts import HALF, SIGLIP, TEXT, Config, Family, Ids


def _gemma3(ids: Ids) -> Config:
    text = TEXT | {"model_type": "gemma3_text", "sliding_window": 24, "sliding_window_pattern": 2}
    text |= {"query_pre_attn_scalar": 16, "rope_local_base_freq": 10000.0, "num_hidden_layers": 3}
    text |= {"mm_tokens_per_image": 4, "rope_theta": 1_000_000.0, "tie_word_embeddings": True}
    return {
        "model_type": "gemma3",
        "text_config": text,
        "vision_config": SIGLIP | {"model_type": "siglip_vision_model"},
        "image_token_index": ids["<image_soft_token>"],
        "mm_tokens_per_image": 4,
        "hidden_size": 64,
        "pad_token_id": ids["<|endoftext|>"],
    }


def _gemma3_files(ids: Ids) -> dict[str, Config]:
    size = {"height": 56, "width": 56}
    image = HALF | {"image_processor_type": "Gemma3ImageProcessor", "size": size, "do_resize": True}
    return {"preprocessor_config.json": image, "processor_config.json": {"image_seq_length": 4}}


GEMMA4 = {
    "boi_token": "<|image>",
    "eoi_token": "<image|>",
    "image_token": "<|image|>",
    "boa_token": "<|audio>",
    "eoa_token": "<audio|>",
    "audio_token": "<|audio|>",
}


GEMMA4_NAMES = (
    ("language_model.model.", "model.language_model."),
    ("vision_tower.", "model.vision_tower."),
    ("embed_vision.", "model.embed_vision."),
)


def _gemma4(ids: Ids, **more: Any) -> Config:
    text: Config = TEXT | {
        "model_type": "gemma4_text",
        "sliding_window": 24,
        "num_hidden_layers": 4,
        "global_head_dim": 16,
    }
    text |= {"layer_types": ["sliding_attention", "full_attention"] * 2, "num_kv_shared_layers": 2}
    text |= {"hidden_size_per_layer_input": 8, "vocab_size_per_layer_input": ids[""], "tie_word_embeddings": True}
    text |= {"use_double_wide_mlp": False, "final_logit_softcapping": 30.0, "sliding_window_pattern": 2}
    whole = {"partial_rotary_factor": 0.25, "rope_theta": 1_000_000.0, "rope_type": "proportional"}
    near = {"partial_rotary_factor": 1.0, "rope_theta": 10_000.0, "rope_type": "default"}
    text |= {"rope_parameters": {"full_attention": whole, "sliding_attention": near}, **more}
    tower = {"model_type": "gemma4_vision", "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2}
    tower |= {"num_attention_heads": 2, "num_key_value_heads": 2, "head_dim": 16, "global_head_dim": 16}
    tower |= {"patch_size": 8, "position_embedding_size": 64, "pooling_kernel_size": 3, "default_output_length": 8}
    return {
        "model_type": "gemma4",
        "text_config": text,
        "vision_config": tower,
        "image_token_id": ids["<|image|>"],
        "audio_token_id": ids["<|audio|>"],
        "boi_token_id": ids["<|image>"],
        "eoi_token_id": ids["<image|>"],
        "hidden_size": 64,
        "vision_soft_tokens_per_image": 8,
    }


def _gemma4_files(ids: Ids) -> dict[str, Config]:
    image = {"image_processor_type": "Gemma4ImageProcessor", "patch_size": 8, "max_soft_tokens": 8}
    return {"processor_config.json": {"image_processor": image | {"pooling_kernel_size": 3}}}


TWO_SIDED = {"use_bidirectional_attention": "vision", "hidden_size_per_layer_input": 0, "num_kv_shared_layers": 0}


def _gemma4_audio(ids: Ids, **more: Any) -> Config:
    tower = {"model_type": "gemma4_audio", "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    tower |= {"subsampling_conv_channels": [8, 4], "conv_kernel_size": 3, "output_proj_dims": 24}
    return _gemma4(ids, **more) | {"audio_config": tower | {"attention_chunk_size": 4, "attention_context_left": 5}}


def _audio_weights(weights: dict[str, Any]) -> None:
    for name, values in weights.items():
        if name.endswith(("_min", "_max")):  # of values that are clipped
            weights[name] = np.float32(4 if name.endswith("_max") else -4)
        elif "depthwise_conv1d" in name:
            weights[name] = values.transpose(0, 2, 1)


FAMILIES = {
    "gemma3": Family(
        _gemma3,
        _gemma3_files,
        ("<start_of_image>", "<end_of_image>", "<image_soft_token>"),
        "<start_of_image>",
        convert=lambda weights: weights.pop("language_model.lm_head.weight"),  # tied
        tokenizer={
            "boi_token": "<start_of_image>",
            "eoi_token": "<end_of_image>",
            "image_token": "<image_soft_token>",
            "extra_special_tokens": {
                "boi_token": "<start_of_image>",
                "eoi_token": "<end_of_image>",
                "image_token": "<image_soft_token>",
            },
        },
    ),
    "gemma4": Family(
        _gemma4,
        _gemma4_files,
        (*GEMMA4.values(), "<|video|>"),
        "<|image|>",
        GEMMA4_NAMES,
        tokenizer=GEMMA4 | {"extra_special_tokens": GEMMA4},
        padded=True,
    ),
    "gemma4_two_sided": Family(  # as the larger models: no inputs per layer, pictures are read in both directions
        lambda ids: _gemma4(ids, **TWO_SIDED),
        _gemma4_files,
        (*GEMMA4.values(), "<|video|>"),
        "<|image|>",
        GEMMA4_NAMES,
        tokenizer=GEMMA4 | {"extra_special_tokens": GEMMA4},
    ),
    "gemma4_audio": Family(
        _gemma4_audio,
        _gemma4_files,
        (*GEMMA4.values(), "<|video|>"),
        "<|image|>",
        (*GEMMA4_NAMES, ("audio_tower.", "model.audio_tower."), ("embed_audio.", "model.embed_audio.")),
        _audio_weights,
        tokenizer=GEMMA4 | {"extra_special_tokens": GEMMA4},
        padded=True,
        sound="<|audio|>",
    ),
    "gemma4_audio_two_sided": Family(  # audio is read in one direction
        lambda ids: _gemma4_audio(ids, **TWO_SIDED),
        _gemma4_files,
        (*GEMMA4.values(), "<|video|>"),
        "<|image|>",
        (*GEMMA4_NAMES, ("audio_tower.", "model.audio_tower."), ("embed_audio.", "model.embed_audio.")),
        _audio_weights,
        tokenizer=GEMMA4 | {"extra_special_tokens": GEMMA4},
        sound="<|audio|>",
    ),
}
