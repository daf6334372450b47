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
from paceline.cache.layers import CacheGroup
from paceline.cache.slot_plan import Grouping
from paceline.errors import LoadError
from paceline.models.adapter import MROPE_FAMILIES, Adapted, plan_of, stored_quantization, switch_kernels, wrap_layers
from paceline.models.files import one_line
from paceline.models.mtp_recipes import RECIPES, SHARED_HEAD, Recipe, decoder_layer, missing

log = logging.getLogger("paceline")
SMALLEST = 1e-6  # a weight of a norm that is taken for 0
PROBED, ALIKE = 64, 0.1  # rows of an output head that are compared, and how far they may be apart
NORMS = ("norm.weight", "norm_embedding.weight", "norm_hidden.weight")


class MTPModule(nn.Module):  # type: ignore[misc]
    """Named after Qwen's tensors. `layers` are the family's own; `before`: the target's final norm, if the head was
    trained on states before it."""

    def __init__(
        self,
        size: int,
        eps: float,
        layers: list[nn.Module],
        *,
        hidden_first: bool = False,
        array_mask: bool = False,
        before: mx.array | None = None,
    ) -> None:
        super().__init__()
        self.pre_fc_norm_embedding = nn.RMSNorm(size, eps=eps)
        self.pre_fc_norm_hidden = nn.RMSNorm(size, eps=eps)
        self.fc = nn.Linear(2 * size, size, bias=False)
        self.layers = layers
        self.norm = nn.RMSNorm(size, eps=eps)
        self.hidden_first, self.array_mask = hidden_first, array_mask
        self._before = before  # no parameter of the head

    def __call__(self, embeddings: mx.array, hidden: mx.array, cache: Any) -> mx.array:
        if self._before is not None:  # up to a factor, which the next norm takes away
            hidden = hidden / mx.where(mx.abs(self._before) < SMALLEST, 1, self._before).astype(hidden.dtype)
        parts = [self.pre_fc_norm_embedding(embeddings), self.pre_fc_norm_hidden(hidden)]
        h = self.fc(mx.concatenate(parts[::-1] if self.hidden_first else parts, axis=-1))
        first: Any = cache[0][0] if isinstance(cache[0], CacheGroup) else cache[0]
        mask = first.make_mask(h.shape[1], **({"return_array": True} if self.array_mask else {}))
        for layer, layer_cache in zip(self.layers, cache, strict=True):
            h = layer(h, mask=mask, cache=layer_cache)
        return self.norm(h)


@dataclass(slots=True)
class MTPHead:
    """`hidden` takes pairs and gives the head's hidden states; `logits` turns them into draft logits."""

    module: MTPModule
    language: Adapted
    plan: LayerPlan = LayerPlan("attention")  # of each of its layers
    output: nn.Module | None = None  # its own output head; None: the language model's
    blank: mx.array = field(init=False)  # a hidden state of zeros, (1, 1, hidden)

    def __post_init__(self) -> None:
        self.blank = mx.zeros_like(self.language.embed(mx.array([[0]])))

    def batch(self, grouping: Grouping, rows: int = 1) -> Batch:
        plans = (self.plan,) * len(self.module.layers)
        return Batch(plans, grouping, rows, ragged=self.language.ragged, kv=self.language.kv)

    def hidden(self, embeddings: mx.array, hidden: mx.array, batch: Batch) -> mx.array:
        return self.module(embeddings, hidden, batch.layers)

    def logits(self, hidden: mx.array) -> mx.array:
        return self.language.logits(hidden) if self.output is None else self.output(hidden)

    def use_kernels(self, on: bool) -> None:
        """The start-up check of the language model's kernels covers the head's, which are the same."""
        switch_kernels(self.module, on)

    @property
    def nbytes(self) -> int:
        parts = [self.module] if self.output is None else [self.module, self.output]
        return sum(array.nbytes for part in parts for _, array in tree_flatten(part.parameters()))


def build(tensors: dict[str, mx.array], language: Adapted, config: dict[str, Any], hugging_face: bool) -> MTPHead | str:
    """The head, or the reason why there is none: a model that cannot draft is served without."""
    if not tensors:
        return missing(config)
    family = config["model_type"]
    recipe = RECIPES.get(family)
    if recipe is None and family not in MROPE_FAMILIES:
        return f"Paceline builds no MTP head for {family} yet"
    text = config.get("text_config", config)
    if text.get("mtp_use_dedicated_embeddings"):
        return "the MTP head has embeddings of its own, which Paceline does not know yet"
    try:
        if recipe is not None:
            return _by_recipe(recipe, dict(tensors), language, config, hugging_face)
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
    return _filled(qwen_module(inner.args, layers), weights, config, inner)


def qwen_module(args: Any, layers: int) -> MTPModule:
    """Qwen3.5's head. `args` are mlx-lm's arguments of the language model."""
    attending = replace(args, num_hidden_layers=layers, full_attention_interval=1)
    made = [DecoderLayer(attending, index) for index in range(layers)]
    return MTPModule(args.hidden_size, args.rms_norm_eps, made)


def _filled(module: MTPModule, weights: dict[str, mx.array], config: dict[str, Any], inner: Any) -> MTPModule:
    _quantize(module, weights, config, inner)
    module.load_weights(list(weights.items()), strict=True)
    module.eval()
    mx.eval(module.parameters())
    wrap_layers(module, config)
    return module


def _by_recipe(
    recipe: Recipe, tensors: dict[str, mx.array], language: Adapted, config: dict[str, Any], hugging_face: bool
) -> MTPHead:
    layer, cache, weights = decoder_layer(recipe, tensors, config)
    weights = {f"layers.0.{name}": array for name, array in weights.items()}
    for ours, theirs in recipe.names.items():
        parts = {name.removeprefix(f"{theirs}."): name for name in tensors if name.startswith(f"{theirs}.")}
        weights |= {f"{ours}.{part}": tensors[name] for part, name in parts.items()}
    if hugging_face and not recipe.one_centred:
        for ours in recipe.names:
            if ours != "fc":
                weights[f"{ours}.weight"] = weights[f"{ours}.weight"] + 1
    inner = language.inner
    module = MTPModule(
        config["hidden_size"],
        config["rms_norm_eps"],
        [layer],
        hidden_first=recipe.hidden_first,
        array_mask=recipe.array_mask,
        before=inner.model.norm.weight if recipe.before_norm else None,
    )
    module = _filled(module, weights, config, inner)
    output = _own_output(tensors.get(SHARED_HEAD), language)
    return MTPHead(module, language, plan_of(cache, config["model_type"]), output)


def _own_output(weight: mx.array | None, language: Adapted) -> nn.Module | None:
    """The head's own output head. Most checkpoints have a copy of the language model's there: then that one serves."""
    if weight is None:
        return None
    probe = mx.random.normal((1, 1, weight.shape[-1]), key=mx.random.key(0)).astype(weight.dtype)
    own, theirs = ((probe @ weight[:PROBED].T)[0, 0], language.logits(probe)[0, 0, :PROBED])
    if float(mx.abs(own - theirs).max()) <= ALIKE * float(mx.abs(own).max()):  # the language model's may be quantized
        return None
    output = nn.Linear(*weight.shape[::-1], bias=False)
    output.weight = weight
    return output


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
