"""Which of mlx-lm's classes holds a checkpoint's language model.

mlx-lm has classes for some vision-language families. For the others the class of their `text_config` is used, with the
tensors renamed to where that class has them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import mlx.core as mx
import mlx.nn as nn
from mlx.utils import tree_flatten
from mlx_lm.utils import load_model

Classes = tuple[type[nn.Module], type]
# Where checkpoints have the language model, the first match counts, and what the class calls it.
PLACES = (
    ("model.language_model.model.", "model."),
    ("model.language_model.lm_head.", "lm_head."),
    ("model.language_model.", "model."),
    ("model.text_model.", "model."),
    ("language_model.model.", "model."),
    ("language_model.lm_head.", "lm_head."),
    ("language_model.", "model."),
    ("llm.model.", "model."),
    ("llm.lm_head.", "lm_head."),
)
# Text types whose class has another name.
TEXT_TYPES = {"glm4v_moe_text": "glm4_moe", "glm4v_moe": "glm4_moe", "glm4v_text": "glm4"}
BY_TEXT = ("kimi_vl",)  # mlx-lm's class does not split `kv_b_proj`; that of the text model does
OWN_NAMES = ("gemma3", "pixtral")  # mlx-lm's classes know only the older of two layouts


def choose(config: dict[str, Any]) -> Classes:
    """Model and arguments class. Raises what mlx-lm raises for a family that it does not have."""
    if config["model_type"] in BY_TEXT and (text := text_config(config)) is not None:
        return _text_classes(config, text)
    try:
        model_class, args_class = _library(config=config)
    except ValueError:
        text = text_config(config)
        if text is None:
            raise
        return _text_classes(config, text)
    if config["model_type"] in OWN_NAMES:
        model_class = _renamed(model_class, lambda name: _nested(name))
    return model_class, args_class


def text_config(config: Mapping[str, Any]) -> dict[str, Any] | None:
    """The configuration of a vision-language model's text model; None: there is none of its own."""
    for name in ("text_config", "llm_config", "language_config"):
        text = config.get(name)
        if isinstance(text, dict) and isinstance(text.get("model_type"), str):
            return {**{key: config[key] for key in ("tie_word_embeddings", "vocab_size") if key in config}, **text}
    return None


def _library(config: dict[str, Any]) -> Classes:
    """mlx-lm's own choice."""
    choice: Callable[..., Classes] = inspect.signature(load_model).parameters["get_model_classes"].default
    return choice(config=config)


def _text_classes(config: dict[str, Any], text: dict[str, Any]) -> Classes:
    kind = text["model_type"]
    text = {**text, "model_type": TEXT_TYPES.get(kind, kind)}
    try:
        model_class, args_class = _library(config=text)
    except ValueError:
        text = {**text, "model_type": kind.removesuffix("_text")}
        model_class, args_class = _library(config=text)

    def from_dict(_: Mapping[str, Any]) -> Any:
        return args_class.from_dict(text)  # type: ignore[attr-defined]

    first = merged if config["model_type"] == "granite4_vision" else None
    return _renamed(model_class, text_name, first), type("TextArgs", (), {"from_dict": staticmethod(from_dict)})


def merged(weights: dict[str, mx.array]) -> dict[str, mx.array]:
    """Granite 4 Vision is a language model and an adapter; mlx-vlm merges them."""
    from mlx_vlm.models.granite4_vision import Model

    made: dict[str, mx.array] = Model.sanitize(dict(weights))
    return made


def text_name(name: str) -> str:
    """A tensor's name in a text model."""
    for place, own in PLACES:
        if name.startswith(place):
            return own + name.removeprefix(place)
    return name


def _nested(name: str) -> str:
    own = text_name(name)
    return f"language_model.{own}" if own != name or name.startswith("lm_head.") else name


def _renamed(
    model_class: type[nn.Module],
    rename: Callable[[str], str],
    first: Callable[[dict[str, mx.array]], dict[str, mx.array]] | None = None,
) -> type[nn.Module]:
    """The class with a `sanitize` that renames first, and drops what is none of the model's parts."""

    def sanitize(self: nn.Module, weights: dict[str, mx.array]) -> dict[str, mx.array]:
        weights = first(weights) if first else weights
        parts = {_part(name) for name, _ in tree_flatten(self.parameters())}
        weights = {rename(name): array for name, array in weights.items()}
        weights = {name: array for name, array in weights.items() if _part(name) in parts}
        inherited = getattr(super(made, self), "sanitize", None)
        return inherited(weights) if inherited else weights

    made = type(model_class.__name__, (model_class,), {"sanitize": sanitize})
    return made


def _part(name: str) -> tuple[str, ...]:
    """A tensor's part of the model: `model.layers`, `lm_head`."""
    names = name.removeprefix("language_model.").split(".")
    return tuple(names[: 2 if names[0] == "model" else 1])
