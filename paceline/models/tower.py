"""mlx-vlm's model around the arrays that the language model already holds: towers, projectors and a reference.

mlx-vlm is imported only here and in models/vision, when a checkpoint has a tower: the import alone takes seconds.
"""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.nn as nn
from mlx.utils import tree_flatten

from paceline.models.adapter import stored_quantization

LANGUAGE = "language_model."
SILENT = ("gemma4",)  # families that can be built without their audio tower, which many conversions leave out
AUDIO = ("audio_tower", "embed_audio")


class Tower:
    """Built from the configuration alone; `take` picks its tensors from a checkpoint, and `load` makes it usable."""

    def __init__(self, config: dict[str, Any]) -> None:
        from mlx_vlm.utils import get_model_and_args, update_module_configs

        config = copy.deepcopy(config)  # some families write into it
        if (config["model_type"], (config.get("text_config") or {}).get("model_type")) == ("llava_next", "granite"):
            config["model_type"] = "granite_vision"  # mlx-vlm's name of it
        if config["model_type"] == "granite4_vision":  # mlx-lm splits what gates and goes up, and calls it `mlp`
            config["text_config"].pop("shared_intermediate_size", None)
        # Without the checkpoint's path, code that a checkpoint carries is never imported.
        self._family, self.family = get_model_and_args(config)
        config.setdefault("text_config", config.pop("llm_config", {}))
        if self.family in SILENT:
            config.setdefault("audio_config", None)
        made = self._family.ModelConfig.from_dict(config)
        modules = ["text", "vision", "perceiver", "projector", "audio"]
        self.config = update_module_configs(made, self._family, config, modules)
        self.view: nn.Module = self._family.Model(self.config)
        self.whole = True

    def take(self, weights: dict[str, mx.array]) -> dict[str, mx.array]:
        """A checkpoint's tensors that are not the language model's, by mlx-vlm's names."""
        from mlx_vlm.utils import sanitize_weights

        # Some families add to an array in place: they get handles of their own on the same buffers.
        weights = sanitize_weights(self.view, {name: mx.stop_gradient(array) for name, array in weights.items()})
        for kind in ("vision", "audio"):
            part, config = (
                getattr(self._family, f"{kind.title()}Model", None),
                getattr(self.config, f"{kind}_config", 0),
            )
            if part is not None and config:
                weights = sanitize_weights(part, weights, config)
        return {name: array for name, array in weights.items() if not name.startswith(LANGUAGE)}

    def load(
        self, language: nn.Module, weights: dict[str, mx.array], config: dict[str, Any], *, whole: bool = True
    ) -> None:
        """With mlx-lm's language model and the tensors that `take` gave. Raises whatever is wrong with them. Not
        `whole`: this rank has a part of the language model, so that mlx-vlm's cannot run, and only embeds."""
        if self.family in SILENT and not any(name.startswith(AUDIO) for name in weights):
            self.config.audio_config = None
            for name in AUDIO:
                setattr(self.view, name, None)
        shared = self._shared(language)
        self.whole = whole
        if not whole:
            shared = {name: array for name, array in shared.items() if ".embed_tokens." in name}
        everything = {**shared, **weights}
        if any(name.endswith(".scales") for name in everything):
            _quantize(self.view, config, everything)
        known = {name for name, _ in tree_flatten(self.view.parameters())}
        found = [(name, array) for name, array in everything.items() if name in known]
        self.view.load_weights(found, strict=whole)
        self.view.eval()
        mx.eval(list(self.tensors.values()))

    def _shared(self, language: nn.Module) -> dict[str, mx.array]:
        """The language model's arrays under mlx-vlm's names. Where its head is tied, mlx-vlm's may have a head of its
        own."""
        nested = "model" in self.view.language_model
        shared = {}
        for name, array in tree_flatten(language.parameters()):
            name = name.removeprefix(LANGUAGE)
            shared[LANGUAGE + (name if nested else name.removeprefix("model."))] = array
        for path, module in language.named_modules():
            if "embed_q" in module:  # mlx-lm has in two parts what mlx-vlm has in one; a copy, if the check needs it
                shared[f"{LANGUAGE}{path.removeprefix(LANGUAGE)}.kv_b_proj.weight"] = _latent(module)
        names = [name for name in shared if ".embed_tokens." in name]
        if not any(".lm_head." in name for name in shared) and "lm_head" in self.view.language_model:
            shared |= {f"{LANGUAGE}lm_head.{name.rpartition('.')[2]}": shared[name] for name in names}
        return shared

    @property
    def parts(self) -> list[nn.Module]:
        """Towers and projectors: all but the language model."""
        found = []
        for name, child in self.view.children().items():
            if name != LANGUAGE[:-1]:
                found += [child] if isinstance(child, nn.Module) else [part for part in child if part]
        return [part for part in found if isinstance(part, nn.Module)]

    @property
    def tensors(self) -> dict[str, mx.array]:
        return {name: array for name, array in tree_flatten(self.view.parameters()) if not name.startswith(LANGUAGE)}

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self.tensors.values())


def load_processor(folder: Path) -> Any:
    """mlx-vlm's processor, or transformers' one. Code in the checkpoint is never run (mlx-vlm would allow it)."""
    from mlx_vlm.utils import load_processor as load

    processor = load(folder, add_detokenizer=False, trust_remote_code=False)
    kinds = type(getattr(processor, "image_processor", None)).__mro__
    if any(kind.__name__ == "TorchvisionBackend" for kind in kinds):  # it gives other pixels than Pillow
        from transformers import AutoImageProcessor

        options = {"backend": "pil", "trust_remote_code": False}
        processor.image_processor = AutoImageProcessor.from_pretrained(folder, **options)
    return processor


def _latent(attention: nn.Module) -> mx.array:
    """`kv_b_proj` of DeepSeek's attention."""

    def dense(part: nn.Module) -> mx.array:
        if "scales" not in part:
            return part.weight
        options = {"group_size": part.group_size, "bits": part.bits, "mode": part.mode}
        return mx.dequantize(part.weight, part.scales, part.get("biases"), **options)

    keys, values = dense(attention.embed_q).swapaxes(-1, -2), dense(attention.unembed_out)
    return mx.concatenate([keys, values], axis=1).reshape(-1, keys.shape[-1])


def _quantize(view: nn.Module, config: dict[str, Any], weights: dict[str, mx.array]) -> None:
    quantization = config.get("quantization") or {}

    def predicate(path: str, module: nn.Module) -> bool | dict[str, Any]:
        stored = stored_quantization(path, module, weights)
        if stored is None:
            return False
        special = quantization.get(path)
        return special if isinstance(special, dict) else {**stored, "mode": quantization.get("mode", "affine")}

    nn.quantize(
        view,
        group_size=quantization.get("group_size", 64),
        bits=quantization.get("bits", 4),
        class_predicate=predicate,
    )
