"""Models of a given shape with random weights, made in memory: for benches, which need a cost and no meaning."""

from __future__ import annotations

import importlib
from functools import partial
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.nn as nn
import numpy as np
from mlx.utils import tree_map_with_path
from numpy.typing import NDArray

from paceline.cache.slot_plan import PADDED
from paceline.errors import LoadError
from paceline.models.adapter import Adapted, adapt, wrap_layers
from paceline.models.files import context_length
from paceline.models.loader import LoadedModel
from paceline.models.mtp import MTPHead, MTPModule, qwen_module

AGREEMENT = 0.7
PUSH, MIXERS = "down_proj", ("o_proj", "out_proj")  # what a layer adds by the token itself, and by what came before
STILL = 0.02  # of what layers add, where they are to add next to nothing
STEADY, NOISE = 8.0, 0.02  # `prefer`: what every token has in common, and what is left of the rest
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
        tie_word_embeddings=False,
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
        tie_word_embeddings=False,
    ),
    "qwen3-4b": dict(
        model_type="qwen3",
        hidden_size=2560,
        num_hidden_layers=36,
        intermediate_size=9728,
        num_attention_heads=32,
        num_key_value_heads=8,
        head_dim=128,
        rms_norm_eps=1e-6,
        vocab_size=151936,
        max_position_embeddings=40960,
        rope_theta=1e6,
        tie_word_embeddings=True,
    ),
    # Scores prompts for qwen3.5-4b: less than a twentieth of it, in weights and in heads that attend. Attention only:
    # states cost a GPU many small launches, however narrow they are.
    "qwen3.5-draft": dict(
        model_type="qwen3",
        hidden_size=1024,
        num_hidden_layers=3,
        intermediate_size=3072,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=128,
        rms_norm_eps=1e-6,
        vocab_size=248320,
        max_position_embeddings=262144,
        rope_theta=1e7,
        tie_word_embeddings=True,
    ),
}


def random_model(
    shape: str, dtype: mx.Dtype | None = None, *, drafts: bool = True, layers: int | None = None
) -> LoadedModel:
    """mlx-lm's own module of that shape, its weights random. float32 on CPU, bfloat16 elsewhere.

    A hybrid gets an MTP head, and weights with a plan: the output head walks once through the vocabulary, and the
    layers push the text off that walk. The MTP head knows the walk and not the push; how strong that is decides how
    often the two agree (`AGREEMENT`, found by trying). The head's cost is that of a real one. Without `drafts` there is
    no head, which saves the trying. `layers`: so many instead of the shape's own.
    """
    config = SHAPES[shape] if layers is None else _with_layers(SHAPES[shape], layers)
    library = importlib.import_module(f"mlx_lm.models.{config['model_type']}")
    mx.random.seed(0)
    module = library.Model(library.ModelArgs.from_dict(config))
    wanted = dtype or (mx.float32 if mx.default_device() == mx.cpu else mx.bfloat16)
    planned = config["model_type"] == "qwen3_5"
    module.update(tree_map_with_path(partial(_drawn, dtype=wanted, planned=planned), module.parameters()))
    if planned:
        inner = module.language_model
        order = walk(inner.args.vocab_size)
        before = mx.array(order[np.argsort(np.roll(order, -1))])  # of each token, the one it follows
        inner.lm_head.weight = inner.model.embed_tokens.weight[before]
        _scale(module, 0.2, MIXERS)
    module.eval()
    mx.eval(module.parameters())
    mx.clear_cache()
    language = adapt(module, config)
    head: MTPHead | str = "this shape has no MTP head"
    if planned and drafts:
        head = MTPHead(_head(language, config, wanted), language)
        _agree(head)
    return LoadedModel(Path(shape), config, language, None, head, context_length(config))


def _with_layers(config: dict[str, Any], layers: int) -> dict[str, Any]:
    if "text_config" in config:
        return {**config, "text_config": {**config["text_config"], "num_hidden_layers": layers}}
    return {**config, "num_hidden_layers": layers}


def prefer(model: LoadedModel, scores: NDArray[np.float32]) -> None:
    """Weights that say the token with the highest score among those allowed, whatever was said before; nearly equal
    scores are decided by noise. For shapes whose weights have a plan. Raises LoadError for others."""
    inner = _planned(model)
    still(model)
    embedding, head = inner.model.embed_tokens.weight, inner.lm_head.weight
    first = mx.arange(embedding.shape[1]) == 0
    inner.model.embed_tokens.weight = mx.where(first, mx.array(STEADY, embedding.dtype), embedding)
    wanted = mx.array(scores)[:, None].astype(head.dtype)
    inner.lm_head.weight = mx.where(first, wanted, (head * NOISE).astype(head.dtype))
    mx.eval(model.language.module.parameters())


def still(model: LoadedModel) -> None:
    """The layers add next to nothing: the text follows the walk through the vocabulary (`walk`)."""
    _planned(model)
    _scale(model.language.module, STILL, (*MIXERS, PUSH))
    mx.eval(model.language.module.parameters())


def walk(vocab_size: int) -> NDArray[np.int64]:
    """The vocabulary in the order in which a shape with a plan says it."""
    return np.random.default_rng(0).permutation(vocab_size)


def _planned(model: LoadedModel) -> Any:
    if model.config["model_type"] != "qwen3_5":
        raise LoadError(f"{model.folder} has random weights without a plan: take qwen3.5-4b or hybrid-120m.")
    return model.language.inner


def _drawn(name: str, array: mx.array, *, dtype: mx.Dtype, planned: bool) -> mx.array:
    if not planned:
        return array.astype(dtype) if array.ndim < 2 else (mx.random.normal(array.shape) * 0.02).astype(dtype)
    if name.endswith("A_log"):
        decays: mx.array = mx.log(mx.linspace(0.01, 2.0, array.shape[0]))
        return decays
    if name.endswith("dt_bias"):
        return mx.zeros(array.shape, dtype=dtype)
    if name.endswith("embed_tokens.weight"):
        return mx.random.normal(array.shape).astype(dtype)
    if array.ndim < 2:
        return array.astype(dtype)
    inputs = array.shape[1] if name.endswith("conv1d.weight") else array.shape[-1]
    values: mx.array = mx.random.normal(array.shape) * inputs**-0.5
    return values.astype(dtype)


def _head(language: Adapted, config: dict[str, Any], dtype: mx.Dtype) -> MTPModule:
    module = qwen_module(language.inner.args, 1)
    module.update(tree_map_with_path(partial(_drawn, dtype=dtype, planned=True), module.parameters()))
    size = language.inner.args.hidden_size
    passing = mx.concatenate([mx.eye(size), 0.01 * mx.random.normal((size, size))], axis=1)
    module.fc.weight = passing.astype(dtype)
    _scale(module, 0.05, (*MIXERS, PUSH))
    module.eval()
    mx.eval(module.parameters())
    wrap_layers(module, config)
    return module


def _scale(module: nn.Module, factor: float, names: str | tuple[str, ...]) -> None:
    """What these projections add to the residual stream."""
    for name, part in module.named_modules():
        if name.endswith(names):
            part.weight = part.weight * factor


def _agree(head: MTPHead) -> None:
    """Scale the layers' push until head and model agree about as often as wanted, on random text."""
    language = head.language
    tokens = mx.random.randint(0, language.vocab_size, (2, 32))
    push, low, high = 1.0, 0.0, 32.0
    for _ in range(8):
        middle = (low + high) / 2
        _scale(language.module, middle / push, PUSH)
        push = middle
        batch, guessing = language.batch(PADDED, 2), head.batch(PADDED, 2)
        batch.begin(32)
        hidden = language.hidden(tokens, batch.layers)
        guessing.begin(31)
        guesses = head.hidden(language.embed(tokens[:, 1:]), hidden[:, :-1], guessing)
        right = mx.argmax(language.logits(guesses), axis=-1) == mx.argmax(language.logits(hidden[:, 1:]), axis=-1)
        share: Any = right.mean().item()
        low, high = (middle, high) if share > AGREEMENT else (low, middle)
    mx.clear_cache()
