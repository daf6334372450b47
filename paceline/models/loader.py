"""One load per checkpoint: every weight file is read once, for the language model, the vision tower and the MTP head.

mlx-lm builds the language model and drops tensors that it does not know. A subclass of its model class, made through
`load_model`'s `get_model_classes`, keeps those of the vision tower and the MTP head.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.nn as nn
from mlx.utils import tree_flatten, tree_map_with_path
from mlx_lm.utils import load_model

from paceline.errors import LoadError
from paceline.models.adapter import Adapted, adapt
from paceline.models.families import REQUIRED
from paceline.models.files import check_weights, context_length, one_line, other_purpose, read_config, resolve
from paceline.models.inlets import Inlets
from paceline.models.mtp import MTPHead, build
from paceline.models.mtp_recipes import sidecar, take
from paceline.models.quantization import Quantization, dense_bytes, dense_tensor_bytes, dequantize, dtype_name
from paceline.models.sharding import Sharding
from paceline.models.text_class import Classes, choose
from paceline.models.tower import Tower
from paceline.models.vision import Vision

log = logging.getLogger("paceline")
Progress = Callable[[str, int, int], None]  # stage, bytes done, bytes in all
TEXT_ONLY = "The model is served as a text model."
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
    quantization: Quantization | None = None
    no_rollback: str | None = None  # why a step must keep all of its tokens, so that nothing is drafted

    def note(self, text: str, level: int = logging.WARNING) -> None:
        _note(self.notes, text, level)

    @property
    def nbytes(self) -> int:
        total = sum(array.nbytes for _, array in tree_flatten(self.language.module.parameters()))
        total += 0 if isinstance(self.head, str) else self.head.nbytes
        return total + self.language.loras.nbytes + (self.vision.tower_bytes if self.vision else 0)


@dataclass(slots=True)
class _Kept:
    """Tensors that mlx-lm's model drops."""

    tower: Tower | None = None  # says which are its own
    vision: dict[str, mx.array] = field(default_factory=dict)
    mtp: dict[str, mx.array] = field(default_factory=dict)
    hugging_face: bool = False  # in Hugging Face's layout, not converted to MLX's


def load(
    source: str,
    dtype: str = "auto",
    progress: Progress | None = None,
    dequantize_within: int | None = None,
    sharding: Sharding | None = None,
) -> LoadedModel:
    """Load a folder or a Hugging Face id. Must run on the thread that owns MLX. Raises LoadError.

    `dequantize_within`: quantized weights become dense if all weights then have at most so many bytes. None: they stay.
    `sharding`: only this rank's part of the language model is loaded.
    """
    folder = resolve(source)
    config = read_config(folder)
    files = check_weights(folder)
    check_family(folder, config)
    notes: list[str] = []
    kept = _Kept(_tower(config, notes))
    try:
        module, config = load_model(folder, lazy=True, get_model_classes=_keeping(kept))
    except LoadError:
        raise
    except Exception as error:  # the library may raise anything on a strange config
        raise LoadError(f"{folder} ({config['model_type']}) cannot be loaded: {one_line(error)}") from error
    described = _sidecar(folder, config, kept, notes)
    wanted = _dtype(dtype)
    if wanted is not None:
        _cast_module(module, wanted)
        kept.vision = {name: _cast(array, wanted) for name, array in kept.vision.items()}
        kept.mtp = {name: _cast(array, wanted) for name, array in kept.mtp.items()}
    quantization = Quantization.of(module)
    if quantization is not None and wanted is not None and dequantize_within is not None:
        quantization = _dequantize(module, kept, config, quantization, wanted, dequantize_within, notes)
    if sharding is not None:
        sharding.split(module, config, notes)
    try:
        _evaluate(module, kept, progress)
    except RuntimeError as error:
        raise LoadError(f"The weights in {files[0].parent} cannot be read: {one_line(error)}") from error
    if sharding is not None:
        sharding.check(module)
    vision = _vision(folder, config, module, kept, notes, whole=sharding is None)
    language = adapt(module, config)
    if vision is not None:
        language.inlets = Inlets.of(module, vision.residual_layers)
    head = build(kept.mtp, language, {**config, **described}, kept.hugging_face)
    if quantization is not None and quantization.dense is not None:
        others = vision.tower.parts if vision is not None else []
        for part in others if isinstance(head, str) else [*others, head.module]:
            _make_dense(part, quantization.dense)
            mx.eval(part.parameters())
    return LoadedModel(folder, config, language, vision, head, context_length(config), notes, quantization)


def check_family(folder: Path, config: dict[str, Any]) -> None:
    """Raises LoadError if mlx-lm does not have this family, or the model writes no text."""
    if (refusal := other_purpose(config)) is not None:
        raise LoadError(f"{folder} is {refusal}.")
    try:
        choose(config)
    except Exception as error:  # the library may raise anything on a strange config
        raise LoadError(f"{folder} ({config['model_type']}) cannot be loaded: {one_line(error)}") from error


def _keeping(kept: _Kept) -> Callable[..., Classes]:
    """The model's classes, with a `sanitize` that keeps what the model drops."""

    def classes(config: dict[str, Any]) -> Classes:
        model_class, args_class = choose(config)

        def sanitize(self: nn.Module, weights: dict[str, mx.array]) -> dict[str, mx.array]:
            if kept.tower is not None:
                kept.vision = kept.tower.take(weights)
            kept.mtp.update(take(weights, config))
            for name, array in weights.items():
                # mlx-lm's own test for the layout that it has to convert
                kept.hugging_face |= name.endswith("conv1d.weight") and array.shape[-1] != 1
            inherited = getattr(super(keeping, self), "sanitize", None)
            return inherited(weights) if inherited else weights

        keeping = type(model_class.__name__, (model_class,), {"sanitize": sanitize})
        return keeping, args_class

    return classes


def _sidecar(folder: Path, config: dict[str, Any], kept: _Kept, notes: list[str]) -> dict[str, Any]:
    """An MTP head beside the model's own files, if these have none. Returns how it is quantized, if it says so."""
    if kept.mtp:
        return {}
    try:
        kept.mtp, described, kept_raw = sidecar(folder, config)
    except Exception as error:  # noqa: BLE001  the model itself can still be served
        _note(notes, f"The MTP head beside the model cannot be read: {one_line(error)}", logging.WARNING)
        return {}
    if kept.mtp:
        kept.hugging_face = kept_raw
    return {"quantization": described["quantization"]} if described.get("quantization") else {}


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


def _dequantize(
    module: nn.Module,
    kept: _Kept,
    config: dict[str, Any],
    stored: Quantization,
    dtype: mx.Dtype,
    most: int,
    notes: list[str],
) -> Quantization:
    tensors = {**kept.vision, **kept.mtp}
    total = sum(array.nbytes for _, array in tree_flatten(module.parameters()))
    total += sum(array.nbytes for array in tensors.values()) + dense_bytes(module, dtype)
    total += dense_tensor_bytes(tensors, (config.get("quantization") or {}).get("group_size", 64), dtype)
    if total > most:
        _note(
            notes,
            f"The {stored} weights stay quantized, which is slow on a CPU: as {dtype_name(dtype)} they would take "
            f"{total / 1e9:.2f} GB, and {most / 1e9:.2f} GB are for weights if sequences are to have room too.",
            logging.WARNING,
        )
        return stored
    return replace(stored, dense=dtype, left=_make_dense(module, dtype))


def _make_dense(module: nn.Module, dtype: mx.Dtype) -> int:
    left = dequantize(module)
    _cast_module(module, dtype)  # of the kinds without floating scales, mx.dequantize makes bfloat16
    return left


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


def _note(notes: list[str], note: str, level: int = logging.INFO) -> None:
    """For /v1/status and the log."""
    notes.append(note)
    log.log(level, note)


def _tower(config: dict[str, Any], notes: list[str]) -> Tower | None:
    """The parts of a model that are not its language model; None: it has none, or mlx-vlm does not know them."""
    if not config.get("vision_config"):
        return None
    try:
        return Tower(config)
    except Exception as error:  # noqa: BLE001  the library may raise anything on a strange config
        _note(notes, f"The vision tower of {config['model_type']} cannot be built: {one_line(error)}. {TEXT_ONLY}")
        return None


def _vision(
    folder: Path, config: dict[str, Any], module: nn.Module, kept: _Kept, notes: list[str], *, whole: bool
) -> Vision | None:
    if kept.tower is None:
        return None
    if not kept.vision:
        _note(notes, f"{folder.name} has no vision weights: text only.")
        return None
    try:
        return Vision.build(folder, config, module, kept.tower, kept.vision, whole=whole)
    except LoadError as error:
        if kept.tower.family in REQUIRED:
            raise
        _note(notes, f"{error}. {TEXT_ONLY}", logging.WARNING)
        return None
