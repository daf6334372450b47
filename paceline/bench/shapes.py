"""Models of a given shape with random weights, made in memory: for benches, which need a cost and no meaning."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import mlx.core as mx
from mlx.utils import tree_map

from paceline.models.adapter import adapt
from paceline.models.loader import LoadedModel, context_length

_ROPE = {"type": "default", "rope_theta": 1e7, "partial_rotary_factor": 0.25, "mrope_section": [11, 11, 10]}


def _hybrid(**sizes: int | bool) -> dict[str, Any]:
    text = dict(
        model_type="qwen3_5_text",
        rms_norm_eps=1e-6,
        max_position_embeddings=262144,
        linear_conv_kernel_dim=4,
        linear_key_head_dim=128,
        linear_value_head_dim=128,
        full_attention_interval=4,
        rope_parameters=dict(_ROPE),
        **sizes,
    )
    return {"model_type": "qwen3_5", "text_config": text}


SHAPES: dict[str, dict[str, Any]] = {
    "llama-120m": dict(
        model_type="llama",
        hidden_size=768,
        num_hidden_layers=12,
        intermediate_size=2048,
        num_attention_heads=12,
        num_key_value_heads=4,
        rms_norm_eps=1e-5,
        vocab_size=49152,
        max_position_embeddings=32768,
        tie_word_embeddings=True,
    ),
    "hybrid-120m": _hybrid(
        hidden_size=768,
        num_hidden_layers=12,
        intermediate_size=2048,
        num_attention_heads=6,
        num_key_value_heads=2,
        head_dim=128,
        linear_num_key_heads=4,
        linear_num_value_heads=4,
        vocab_size=49152,
        tie_word_embeddings=True,
    ),
    "qwen3.5-4b": _hybrid(
        hidden_size=2560,
        num_hidden_layers=32,
        intermediate_size=9216,
        num_attention_heads=16,
        num_key_value_heads=4,
        head_dim=256,
        linear_num_key_heads=16,
        linear_num_value_heads=32,
        vocab_size=248320,
        tie_word_embeddings=True,
    ),
}


def random_model(shape: str, dtype: mx.Dtype | None = None) -> LoadedModel:
    """mlx-lm's own module of that shape, its weights small and random. float32 on CPU, bfloat16 elsewhere."""
    config = SHAPES[shape]
    library = importlib.import_module(f"mlx_lm.models.{config['model_type']}")
    mx.random.seed(0)
    module = library.Model(library.ModelArgs.from_dict(config))
    wanted = dtype or (mx.float32 if mx.default_device() == mx.cpu else mx.bfloat16)

    def small(array: mx.array) -> mx.array:
        if array.ndim < 2:
            return array.astype(wanted)
        return (mx.random.normal(array.shape) * 0.02).astype(wanted)

    module.update(tree_map(small, module.parameters()))
    module.eval()
    mx.eval(module.parameters())
    mx.clear_cache()
    return LoadedModel(
        Path(shape), config, adapt(module, config), None, "a random model has no MTP head", context_length(config)
    )
