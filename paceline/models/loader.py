"""One load per checkpoint: every weight file is read once, for the language model, the vision tower and the MTP head.

mlx-lm builds the language model and drops tensors that it does not know. A subclass of its model class, made through
`load_model`'s `get_model_classes`, keeps those of the vision tower and the MTP head.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.nn as nn
from mlx.utils import tree_flatten, tree_map_with_path
from mlx_lm.utils import load_model

from paceline.errors import LoadError
from paceline.models.adapter import Adapted, adapt
from paceline.models.files import check_weights, context_length, one_line, read_config, resolve
from paceline.models.mtp import MTPHead, build
from paceline.models.vision import VISION_FAMILIES, Vision

log = logging.getLogger("paceline")
Progress = Callable[[str, int, int], None]  # stage, bytes done, bytes in all
SLICE = 256 << 20  # bytes evaluated at a time: bounds what a conversion holds twice


@dataclass(slots=True)
class LoadedModel:
    """A checkpoint in memory. `head` is the MTP head, or the reason why there is none."""

    folder: Path
    config: dict[str, Any]
    language: Adapted
    vision: Vision | None
    head: MTPHead | str
    context_length: int
    notes: list[str] = field(default_factory=list)

    @property
    def nbytes(self) -> int:
        total = sum(array.nbytes for _, array in tree_flatten(self.language.module.parameters()))
        total += 0 if isinstance(self.head, str) else self.head.nbytes
        return total + (self.vision.tower_bytes if self.vision else 0)


@dataclass(slots=True)
class _Kept:
    """Tensors that mlx-lm's model drops."""

    vision: dict[str, mx.array] = field(default_factory=dict)
    mtp: dict[str, mx.array] = field(default_factory=dict)
    hugging_face: bool = False  # in Hugging Face's layout, not converted to MLX's


def load(source: str, dtype: str = "auto", progress: Progress | None = None) -> LoadedModel:
    """Load a folder or a Hugging Face id. Must run on the thread that owns MLX. Raises LoadError."""
    folder = resolve(source)
    config = read_config(folder)
    files = check_weights(folder)
    check_family(folder, config)
    kept = _Kept()
    try:
        module, config = load_model(folder, lazy=True, get_model_classes=_keeping(kept))
    except LoadError:
        raise
    except Exception as error:  # the library may raise anything on a strange config
        raise LoadError(f"{folder} ({config['model_type']}) cannot be loaded: {one_line(error)}") from error
    wanted = _dtype(dtype)
    if wanted is not None:
        _cast_module(module, wanted)
        kept.vision = {name: _cast(array, wanted) for name, array in kept.vision.items()}
        kept.mtp = {name: _cast(array, wanted) for name, array in kept.mtp.items()}
    try:
        _evaluate(module, kept, progress)
    except RuntimeError as error:
        raise LoadError(f"The weights in {files[0].parent} cannot be read: {one_line(error)}") from error
    notes: list[str] = []
    vision = _vision(folder, config, module, kept.vision, notes)
    for note in notes:
        log.info(note)
    language = adapt(module, config)
    head = build(kept.mtp, language, config, kept.hugging_face)
    return LoadedModel(folder, config, language, vision, head, context_length(config), notes)


def check_family(folder: Path, config: dict[str, Any]) -> None:
    """Raises LoadError if mlx-lm does not have this family."""
    try:
        _classes()(config=config)
    except Exception as error:  # the library may raise anything on a strange config
        raise LoadError(f"{folder} ({config['model_type']}) cannot be loaded: {one_line(error)}") from error


def _classes() -> Callable[..., tuple[type[nn.Module], type]]:
    """mlx-lm's own choice of classes for a configuration."""
    return inspect.signature(load_model).parameters["get_model_classes"].default


def _keeping(kept: _Kept) -> Callable[..., tuple[type[nn.Module], type]]:
    """mlx-lm's choice of classes, with a `sanitize` that keeps what the model drops."""
    choose = _classes()

    def classes(config: dict[str, Any]) -> tuple[type[nn.Module], type]:
        model_class, args_class = choose(config=config)

        def sanitize(self: nn.Module, weights: dict[str, mx.array]) -> dict[str, mx.array]:
            for name, array in weights.items():
                if name.startswith(("model.visual.", "visual.", "vision_tower.", "model.language_model.visual.")):
                    kept.vision[name] = array
                elif name.startswith(("mtp.", "language_model.mtp.", "model.mtp.")):
                    kept.mtp[name[name.index("mtp.") + 4 :]] = array
                # mlx-lm's own test for the layout that it has to convert
                kept.hugging_face |= name.endswith("conv1d.weight") and array.shape[-1] != 1
            inherited = getattr(super(keeping, self), "sanitize", None)
            return inherited(weights) if inherited else weights

        keeping = type(model_class.__name__, (model_class,), {"sanitize": sanitize})
        return keeping, args_class

    return classes


def _dtype(name: str) -> mx.Dtype | None:
    """None: as in the checkpoint. On CPU the other types run in slow loops, so "auto" means float32 there."""
    if name == "auto":
        return mx.float32 if mx.default_device() == mx.cpu else None
    dtype: mx.Dtype = getattr(mx, name)
    return dtype


def _cast(array: mx.array, dtype: mx.Dtype) -> mx.array:
    return array.astype(dtype) if mx.issubdtype(array.dtype, mx.floating) else array


def _cast_module(module: nn.Module, dtype: mx.Dtype) -> None:
    """All of the model, except what it always keeps in float32 (GatedDeltaNet's decays)."""
    casts = getattr(module, "cast_predicate", lambda name: True)

    def cast(name: str, array: mx.array) -> mx.array:
        return _cast(array, dtype if casts(name) else mx.float32)

    module.update(tree_map_with_path(cast, module.parameters()))


def _evaluate(module: nn.Module, kept: _Kept, progress: Progress | None) -> None:
    """Read the weights in slices, so that a conversion never holds two copies of more than a slice."""
    arrays = [array for _, array in tree_flatten(module.parameters())]
    arrays += [*kept.vision.values(), *kept.mtp.values()]
    arrays.sort(key=lambda array: array.nbytes, reverse=True)  # the largest are converted while memory is still free
    total, done, pending = sum(array.nbytes for array in arrays), 0, []
    size = 0
    for array in arrays:
        pending.append(array)
        size += array.nbytes
        if size >= min(SLICE, max(total // 32, 1)):
            mx.eval(pending)
            mx.clear_cache()
            done, size, pending = done + size, 0, []
            if progress:
                progress("reading weights", done, total)
    mx.eval(pending)
    mx.clear_cache()
    if progress:
        progress("reading weights", total, total)


def _vision(
    folder: Path, config: dict[str, Any], module: nn.Module, weights: dict[str, mx.array], notes: list[str]
) -> Vision | None:
    if "vision_config" not in config:
        return None
    if config["model_type"] not in VISION_FAMILIES:
        notes.append(f"{config['model_type']} has a vision tower that Paceline does not serve yet: text only.")
        return None
    if not weights:
        notes.append(f"{folder.name} has no vision weights: text only.")
        return None
    return Vision.build(folder, config, module, weights)
