"""How many tokens a model was made for, by its config.json. No MLX: it is asked before anything is loaded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

UNDECLARED = 32768  # of a model that says nothing: recurrent ones need no limit
NAMES = ("max_position_embeddings", "max_seq_len", "seq_length", "n_positions")
GEMMA = ("gemma3", "gemma3_text", "gemma3n", "gemma3n_text")
YARN = ("yarn", "deepseek_yarn", "telechat3-yarn")


def context_length(config: Mapping[str, Any]) -> int:
    """Prompt and answer together. YaRN says what it was stretched from, and its product counts; other kinds of scaling
    (Llama 3's, LongRoPE's) declare what they have been stretched to."""
    return _stretched(config) or UNDECLARED


def longest_context(config: Mapping[str, Any]) -> int | None:
    """The most that may be set; None: any. Linear and dynamic scaling do not say whether the declared number counts
    their factor already, so it may be set to the product too, as in vLLM. Gemma 3's declares the product."""
    most = _stretched(config)
    scaling = _scaling(config)
    if most is None or _type(scaling) not in ("linear", "dynamic") or str(_text(config).get("model_type")) in GEMMA:
        return most
    return max(most, int(most * _factor(scaling)))


def _stretched(config: Mapping[str, Any]) -> int | None:
    declared = _declared(config)
    scaling = _scaling(config)
    original = scaling.get("original_max_position_embeddings")
    if declared is None or _type(scaling) not in YARN or not isinstance(original, int):
        return declared
    return max(declared, int(original * _factor(scaling)))


def _declared(config: Mapping[str, Any]) -> int | None:
    text = _text(config)
    for name in NAMES:
        value = text.get(name, config.get(name))
        if isinstance(value, int) and value > 0:
            return value
    return None


def _text(config: Mapping[str, Any]) -> Mapping[str, Any]:
    text = config.get("text_config")
    return text if isinstance(text, Mapping) and text else config


def _scaling(config: Mapping[str, Any]) -> Mapping[str, Any]:
    for name in ("rope_scaling", "rope_parameters"):
        found = _text(config).get(name, config.get(name))
        if isinstance(found, Mapping):
            return found
    return {}


def _type(scaling: Mapping[str, Any]) -> Any:
    return scaling.get("rope_type") or scaling.get("type")


def _factor(scaling: Mapping[str, Any]) -> float:
    factor = scaling.get("factor")
    return float(factor) if isinstance(factor, (int, float)) and factor >= 1 else 1.0
