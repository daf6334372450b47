"""The MTP head: a checkpoint's own draft model, one decoder layer deep.

From the target's hidden state at a token (after the final norm) and the embedding of the next token, it predicts the
token after that. With its own hidden state it predicts further. Embedding and output head are the language model's, by
reference. It has keys and values of its own for every pair, so it must read the whole prompt.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace
from typing import Any

import mlx.core as mx
import mlx.nn as nn
from mlx.utils import tree_flatten
from mlx_lm.models.qwen3_5 import DecoderLayer

from paceline.cache.batch import Batch, LayerPlan
from paceline.cache.slot_plan import Grouping
from paceline.errors import LoadError
from paceline.models.adapter import MROPE_FAMILIES, Adapted, stored_quantization, switch_kernels, wrap_layers
from paceline.models.files import one_line

log = logging.getLogger("paceline")
NORMS = ("norm.weight", "norm_embedding.weight", "norm_hidden.weight")


class MTPModule(nn.Module):  # type: ignore[misc]
    """Named after its tensors. `args` are mlx-lm's arguments of the language model."""

    def __init__(self, args: Any, layers: int) -> None:
        super().__init__()
        size, eps = args.hidden_size, args.rms_norm_eps
        self.pre_fc_norm_embedding = nn.RMSNorm(size, eps=eps)
        self.pre_fc_norm_hidden = nn.RMSNorm(size, eps=eps)
        self.fc = nn.Linear(2 * size, size, bias=False)
        attending = replace(args, num_hidden_layers=layers, full_attention_interval=1)
        self.layers = [DecoderLayer(attending, index) for index in range(layers)]
        self.norm = nn.RMSNorm(size, eps=eps)

    def __call__(self, embeddings: mx.array, hidden: mx.array, cache: Any) -> mx.array:
        parts = [self.pre_fc_norm_embedding(embeddings), self.pre_fc_norm_hidden(hidden)]
        h = self.fc(mx.concatenate(parts, axis=-1))
        mask = cache[0].make_mask(h.shape[1])
        for layer, layer_cache in zip(self.layers, cache, strict=True):
            h = layer(h, mask=mask, cache=layer_cache)
        return self.norm(h)


@dataclass(slots=True)
class MTPHead:
    """`hidden` takes pairs and gives the head's hidden states; `language.logits` turns them into draft logits."""

    module: MTPModule
    language: Adapted
    blank: mx.array = field(init=False)  # a hidden state of zeros, (1, 1, hidden)

    def __post_init__(self) -> None:
        self.blank = mx.zeros_like(self.language.embed(mx.array([[0]])))

    def batch(self, grouping: Grouping, rows: int = 1) -> Batch:
        return Batch([LayerPlan("attention")] * len(self.module.layers), grouping, rows, ragged=self.language.ragged)

    def hidden(self, embeddings: mx.array, hidden: mx.array, batch: Batch) -> mx.array:
        return self.module(embeddings, hidden, batch.layers)

    def use_kernels(self, on: bool) -> None:
        """The start-up check of the language model's kernels covers the head's, which are the same."""
        switch_kernels(self.module, on)

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for _, array in tree_flatten(self.module.parameters()))


def build(tensors: dict[str, mx.array], language: Adapted, config: dict[str, Any], hugging_face: bool) -> MTPHead | str:
    """The head, or the reason why there is none: a model that cannot draft is served without."""
    if not tensors:
        return "the checkpoint has no MTP head"
    family = config["model_type"]
    if family not in MROPE_FAMILIES:
        return f"Paceline builds no MTP head for {family} yet"
    text = config.get("text_config", config)
    if text.get("mtp_use_dedicated_embeddings"):
        return "the MTP head has embeddings of its own, which Paceline does not know yet"
    try:
        return MTPHead(_module(tensors, language, config, hugging_face), language)
    except Exception as error:  # noqa: BLE001  the model itself can still be served
        return f"the MTP head cannot be built: {one_line(error)}"


def _module(tensors: dict[str, mx.array], language: Adapted, config: dict[str, Any], hugging_face: bool) -> MTPModule:
    inner = language.inner
    weights = _renamed(tensors)
    if hugging_face:  # their norms multiply by 1 + weight
        weights = {
            name: value + 1 if value.ndim == 1 and name.endswith(NORMS) else value for name, value in weights.items()
        }
    layers = 1 + max((int(name.split(".")[1]) for name in weights if name.startswith("layers.")), default=-1)
    if layers < 1:
        raise LoadError("it has no layer")
    module = MTPModule(inner.args, layers)
    _quantize(module, weights, config, inner)
    module.load_weights(list(weights.items()), strict=True)
    module.eval()
    mx.eval(module.parameters())
    wrap_layers(module, config)
    return module


def _renamed(tensors: dict[str, mx.array]) -> dict[str, mx.array]:
    """A mixture's experts as mlx-lm has them: three stacks. Hugging Face joins gate and up."""
    weights = dict(tensors)
    for name in [name for name in weights if name.endswith("experts.gate_up_proj")]:
        place = name.removesuffix("experts.gate_up_proj")
        joined = weights.pop(name)
        middle = joined.shape[-2] // 2
        weights[f"{place}switch_mlp.gate_proj.weight"] = joined[..., :middle, :]
        weights[f"{place}switch_mlp.up_proj.weight"] = joined[..., middle:, :]
        weights[f"{place}switch_mlp.down_proj.weight"] = weights.pop(f"{place}experts.down_proj")
    return weights


def _quantize(module: MTPModule, weights: dict[str, mx.array], config: dict[str, Any], inner: nn.Module) -> None:
    """Quantize as the file is, or by the model's rule if the file is in full precision.

    `fc` stays as in the file: it is small, and every draft token goes through it.
    """
    quantization = config.get("quantization")
    if not quantization:
        return
    rule = {name: quantization[name] for name in ("group_size", "bits", "mode") if name in quantization}
    stored = any(name.endswith(".scales") for name in weights)
    special = getattr(inner, "quant_predicate", None)

    def predicate(path: str, part: nn.Module) -> bool | dict[str, Any]:
        if stored:
            found = stored_quantization(path, part, weights)
            return False if found is None else {**rule, **found}
        if not hasattr(part, "to_quantized") or path == "fc" or part.weight.shape[-1] % rule["group_size"]:
            return False
        chosen: bool | dict[str, Any] = special(path, part) if special else True
        return chosen if isinstance(chosen, dict) else rule if chosen else False

    if not stored:
        module.load_weights(list(weights.items()), strict=True)
    nn.quantize(module, **rule, class_predicate=predicate)
    if not stored:
        weights.clear()
        weights.update(tree_flatten(module.parameters()))
