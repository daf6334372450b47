"""How a model's batches are laid out on this device: groups, buckets of shapes, quantized keys and values. Checked
before it is used."""

from __future__ import annotations

import logging
from collections.abc import Collection
from dataclasses import replace
from typing import TYPE_CHECKING

import mlx.core as mx

from paceline import platform
from paceline.cache.kv_quantization import GROUP_SIZES, KVQuantization
from paceline.cache.layers import AttentionCache
from paceline.cache.slot_plan import AUTO, LAYOUTS, ROWS, Grouping
from paceline.engine.forward import DEVICES
from paceline.errors import LoadError
from paceline.models import attention_cuda, check, kv_lines_cuda
from paceline.models.adapter import Adapted, buckets_for
from paceline.models.files import one_line
from paceline.models.loader import LoadedModel

if TYPE_CHECKING:
    from paceline.setting_values import ShapeBucketing

log = logging.getLogger("paceline")
LARGEST_ERROR = 0.5  # of the largest logit: what no quantization explains


def choose(model: LoadedModel, layout: str = "auto", bucketing: ShapeBucketing = "auto") -> Grouping:
    """`layout`: a name, or what was measured to be best on this device. `bucketing`: by default on a GPU only."""
    choices = (LAYOUTS[layout],) if layout != "auto" else AUTO[platform.device_kind()]
    grouping = check.choose_layout(model.language, choices)
    if grouping is not choices[0]:
        model.notes.append(f"{model.config['model_type']} needs the padded layout.")
    if not wants_buckets(bucketing):
        return grouping
    bucketed = replace(grouping, buckets=buckets_for(model.language))
    try:
        wrong = [check.batched_error(model.language, form) for form in check.forms(bucketed)]
    except Exception as error:  # noqa: BLE001  any failure rules padding out
        log.warning("shapes are exact: padding fails with this model: %s", error)
        return grouping
    if any(wrong):
        worst = max(error for error in wrong if error is not None)
        log.warning("shapes are exact: with padding this model's logits differ by %.2g of the largest", worst)
        return grouping
    return bucketed


def assumed(model: LoadedModel, layout: str = "auto", bucketing: ShapeBucketing = "auto") -> Grouping:
    """What `choose` tries first, unchecked: for benches of models that have passed before."""
    grouping = LAYOUTS[layout] if layout != "auto" else AUTO[platform.device_kind()][0]
    return replace(grouping, buckets=buckets_for(model.language)) if wants_buckets(bucketing) else grouping


def wants_buckets(bucketing: ShapeBucketing) -> bool:
    return bucketing == "on" or (bucketing == "auto" and platform.device_kind() in DEVICES)


def quantize_kv(model: LoadedModel, grouping: Grouping, kv: KVQuantization) -> float:
    """From here on, keys and values of this model's batches are quantized. Raises LoadError if they cannot be. Returns
    the share of the largest logit by which logits differ."""
    language, family = model.language, model.config["model_type"]
    refused = f"--kv-bits {kv.bits} cannot be used with {family}"
    sizes = _head_sizes(language)
    if not sizes:
        raise LoadError(f"{refused}: it has no attention layers, and so no keys and values.")
    if wrong := sorted(size for size in sizes if size % kv.group_size):
        others = [size for size in GROUP_SIZES if not any(each % size for each in sizes)]
        instead = f"Use --kv-group-size {others[-1]}." if others else "Leave it out."
        raise LoadError(
            f"{refused}: its heads have {', '.join(map(str, wrong))} numbers, which groups of {kv.group_size} do not "
            f"divide. {instead}"
        )
    kv = language.kv = in_lines(language, kv, sizes)
    try:
        apart = max(check.company_error(language, form) for form in check.forms(grouping))
        error = max(check.batched_error(language, form) or 0.0 for form in check.forms(grouping))
    except Exception as problem:
        language.kv = None
        raise LoadError(
            f"{refused}: its attention does not take quantized keys ({one_line(problem)}). Leave it out."
        ) from problem
    # A sum that is rounded otherwise in company may round a number to the next level: less than all levels matter.
    if error > LARGEST_ERROR or apart > max(error / 2, check.TOLERANCE.get(language.dtype, LARGEST_ERROR)):
        language.kv = None
        raise LoadError(
            f"{refused}: logits differ by {error:.2g} of the largest from those without it, and in a batch by "
            f"{apart:.2g} from those alone. Leave it out."
        )
    _say(model, kv, error)
    return error


def use_quantized_kv(model: LoadedModel, kv: KVQuantization, error: float) -> None:
    """As checked before."""
    language = model.language
    language.kv = None  # or the sizes would be those of what is packed
    language.kv = in_lines(language, kv, _head_sizes(language))
    _say(model, language.kv, error)


def _say(model: LoadedModel, kv: KVQuantization, error: float) -> None:
    family = model.config["model_type"]
    log.info("keys and values of %s have %s: logits differ by %.2g of the largest", family, kv, error)


def in_lines(language: Adapted, kv: KVQuantization, sizes: Collection[int]) -> KVQuantization:
    """For our kernels, where heads are of one size that they take and they give what plain operations give. `kv` may be
    that of another model, whose lines are not this one's."""
    kv = replace(kv, lines=None)
    dtype, size = language.dtype, max(sizes, default=0)
    if not language.ragged or len(sizes) != 1 or not attention_cuda.fits_packed(dtype, size, kv):
        return kv
    if not kv_lines_cuda.agrees(dtype, size, kv):
        log.warning("our kernels for keys and values of %s disagree with plain operations, and are not used", kv)
        return kv
    return replace(kv, lines=kv_lines_cuda.CudaLines(dtype))


def _head_sizes(language: Adapted) -> set[int]:
    """How many numbers keys and values of a token and head have, over all attention layers."""
    row = language.batch(ROWS)
    row.begin(1)
    language.module(mx.array([[0]]), cache=row.layers)
    return {part.shape[3] for cache in row.flat if isinstance(cache, AttentionCache) for part in cache.arrays()}
