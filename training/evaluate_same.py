"""What mlx-lm and mlx-vlm say, alone and greedy: the libraries' own models on their own caches, in float32."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import mlx.core as mx


@cache
def _text_model(folder: Path) -> Any:
    import mlx_lm

    model, _ = mlx_lm.load(str(folder))
    model.set_dtype(mx.float32)
    return model


@cache
def _image_model(folder: Path) -> Any:
    import mlx_vlm

    model, processor = mlx_vlm.load(str(folder))
    model.set_dtype(mx.float32)
    return model, processor


def greedy_text(folder: Path, prompt: list[int], count: int) -> list[int]:
    from mlx_lm.generate import generate_step

    return [int(token) for token, _ in generate_step(mx.array(prompt), _text_model(folder), max_tokens=count)]


def greedy_images(
    folder: Path, messages: Sequence[Mapping[str, Any]], pictures: Sequence[Any], count: int
) -> list[int]:
    """Its language model remembers positions from one call to the next, so every call passes its own."""
    from mlx_vlm.utils import prepare_inputs
    from PIL import Image

    model, processor = _image_model(folder)
    text = processor.tokenizer.apply_chat_template(list(messages), tokenize=False, add_generation_prompt=True)
    images = [Image.fromarray(picture) for picture in pictures]
    inputs = prepare_inputs(processor, images=images, prompts=text, image_token_index=model.config.image_token_index)
    ids = inputs["input_ids"]
    extras = {
        name: value for name, value in inputs.items() if name not in ("input_ids", "pixel_values", "attention_mask")
    }
    features = model.get_input_embeddings(ids, inputs.get("pixel_values"), mask=inputs.get("attention_mask"), **extras)
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
    tokens = [int(mx.argmax(logits[0, -1]).item())]
    while len(tokens) < count:
        position = ids.shape[1] + delta + len(tokens) - 1
        logits = language(
            mx.array([tokens[-1:]]),
            cache=layers,
            position_ids=mx.full((3, 1, 1), position, dtype=mx.int32),
            rope_deltas=features.rope_deltas,
        ).logits
        tokens.append(int(mx.argmax(logits[0, -1]).item()))
    return tokens
