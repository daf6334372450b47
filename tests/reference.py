"""What the exactness suite compares with: mlx-lm and mlx-vlm, one request at a time, greedy, no end tokens.

Models and results stay in memory for the session: off Metal, mlx-lm prefills a hybrid in a Python loop.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np

# Families whose features mlx-vlm 0.7.10 puts at wrong places.
MISPLACED = ("llava_next", "granite_vision")
Folder = str | os.PathLike[str]

# Per model (kept alive, so that its id stays its own), prompt and chunk: the longest continuation so far.
_continuations: dict[tuple[int, tuple[int, ...], int], tuple[Any, list[int]]] = {}


def greedy_text(model: Any, token_ids: Sequence[int], n: int, chunk: int = 2048) -> list[int]:
    """The `n` tokens that mlx-lm continues `token_ids` with. `model` is a folder or a loaded mlx-lm model."""
    from mlx_lm.generate import generate_step

    loaded = load_text(model)[0] if isinstance(model, (str, os.PathLike)) else model
    key = (id(loaded), tuple(token_ids), chunk)
    known = _continuations.get(key)
    if known is None or len(known[1]) < n:
        steps = generate_step(mx.array(list(token_ids)), loaded, max_tokens=n, prefill_step_size=chunk)
        known = loaded, [int(token) for token, _ in steps]
        _continuations[key] = known
    return known[1][:n]


def load_text(folder: Folder) -> tuple[Any, Any]:
    """mlx-lm's model and tokenizer."""
    return _load_text(str(Path(folder).resolve()))


def load_images(folder: Folder) -> tuple[Any, Any]:
    """mlx-vlm's model and processor."""
    return _load_images(str(Path(folder).resolve()))


@dataclass(frozen=True)
class ImageResult:
    prompt: list[int]  # with every image's placeholder repeated as often as the image has tokens
    tokens: list[int]


def greedy_images(
    folder: Folder,
    messages: Sequence[Mapping[str, Any]],
    images: Sequence[Any],
    n: int,
    **template_options: Any,
) -> ImageResult:
    """What mlx-vlm answers to `messages`, whose image parts are `images` (PIL) in order.

    Its language model remembers positions from one call to the next, so every call here passes its own.
    """
    from mlx_vlm.utils import prepare_inputs

    model, processor = load_images(folder)
    text = processor.tokenizer.apply_chat_template(
        list(messages), tokenize=False, add_generation_prompt=True, **template_options
    )
    inputs = prepare_inputs(
        processor,
        images=list(images) or None,
        prompts=text,
        image_token_index=model.config.image_token_index,
    )
    ids = inputs["input_ids"]
    extras = {
        name: value for name, value in inputs.items() if name not in ("input_ids", "pixel_values", "attention_mask")
    }
    features = model.get_input_embeddings(ids, inputs.get("pixel_values"), mask=inputs.get("attention_mask"), **extras)
    length = ids.shape[1]
    delta = int(features.rope_deltas.reshape(-1)[0].item())
    language = model.language_model
    layers = language.make_cache()
    logits = language(
        ids,
        inputs_embeds=features.inputs_embeds,
        cache=layers,
        position_ids=features.position_ids,
        rope_deltas=features.rope_deltas,
    ).logits
    tokens = [_best(logits)]
    while len(tokens) < n:
        position = length + delta + len(tokens) - 1
        logits = language(
            mx.array([tokens[-1:]]),
            cache=layers,
            position_ids=mx.full((3, 1, 1), position, dtype=mx.int32),
            rope_deltas=features.rope_deltas,
        ).logits
        tokens.append(_best(logits))
    return ImageResult([int(token) for token in ids[0].tolist()], tokens)


def _best(logits: mx.array) -> int:
    choice: Any = mx.argmax(logits[0, -1]).item()
    return int(choice)


@cache
def _load_text(folder: str) -> tuple[Any, Any]:
    import mlx_lm

    model, tokenizer = mlx_lm.load(folder)
    model.set_dtype(mx.float32)
    return model, tokenizer


@cache
def _load_images(folder: str) -> tuple[Any, Any]:
    import mlx_vlm
    from mlx_vlm.models import llava_onevision

    model, processor = mlx_vlm.load(folder)
    model.set_dtype(mx.float32)
    if model.config.model_type in MISPLACED:  # embeds as mlx-vlm's own class of LLaVA-OneVision does
        model.config.image_grid_pinpoints = processor.image_processor.image_grid_pinpoints
        own = {"max_num_patches": 1 << 30}
        model.__class__ = type("Model", (llava_onevision.Model, type(model)), own)
    if model.config.model_type == "granite4_vision":
        model.__class__ = type("Model", (_OneByOne, type(model)), {})
    return model, processor


class _OneByOne:
    """mlx-vlm 0.7.10 reads only the first picture of Granite 4 Vision's prompts: here it reads one after the other,
    each as if it were the only one."""

    def get_input_embeddings(self, input_ids: mx.array, pixel_values: Any = None, **options: Any) -> Any:
        from mlx_vlm.models.llava_onevision.llava_onevision import image_size_to_num_patches

        own = super().get_input_embeddings  # type: ignore[misc]
        sizes = options.pop("image_sizes", None)
        if pixel_values is None or len(pixel_values) == 1:
            return own(input_ids, pixel_values, image_sizes=sizes, **options)
        config: Any = self.config  # type: ignore[attr-defined]
        mask = np.array(input_ids[0]) == config.image_token_index
        number = np.cumsum(mask & ~np.concatenate([[False], mask[:-1]])) * mask
        whole = None
        for place, size in enumerate(np.array(sizes).tolist()):
            mine = mx.array(number == place + 1)[None]
            count = image_size_to_num_patches(size, config.image_grid_pinpoints, config.vision_config.image_size)
            ids = mx.where(mx.array(mask)[None] & ~mine, 0, input_ids)
            found = own(ids, pixel_values[place : place + 1, :count], image_sizes=sizes[place : place + 1])
            if whole is None:
                whole = found
                continue
            whole.inputs_embeds = mx.where(mine[..., None], found.inputs_embeds, whole.inputs_embeds)
            whole.deepstack_visual_embeds = whole.deepstack_visual_embeds + found.deepstack_visual_embeds
            whole.visual_pos_masks = whole.visual_pos_masks | found.visual_pos_masks
        return whole
