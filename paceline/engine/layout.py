"""How a model's batches are laid out on this device: groups, and buckets of shapes. Checked before it is used."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from paceline import platform
from paceline.cache.slot_plan import AUTO, LAYOUTS, Grouping
from paceline.engine.forward import DEVICES
from paceline.models import check
from paceline.models.adapter import buckets_for
from paceline.models.loader import LoadedModel

if TYPE_CHECKING:
    from paceline.setting_values import ShapeBucketing

log = logging.getLogger("paceline")


def choose(model: LoadedModel, layout: str = "auto", bucketing: ShapeBucketing = "auto") -> Grouping:
    """`layout`: a name, or what was measured to be best on this device. `bucketing`: by default on a GPU only."""
    choices = (LAYOUTS[layout],) if layout != "auto" else AUTO[platform.device_kind()]
    grouping = check.choose_layout(model.language, choices)
    if grouping is not choices[0]:
        model.notes.append(f"{model.config['model_type']} needs the padded layout.")
    if bucketing == "off" or (bucketing == "auto" and platform.device_kind() not in DEVICES):
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
