"""Which ways to run a step this machine may use: rounds, our kernels, traced steps. Each is compared first."""

from __future__ import annotations

import logging
from collections.abc import Callable

import mlx.core as mx

from paceline import platform
from paceline.cache.batch import Batch
from paceline.cache.slot_plan import Grouping
from paceline.engine.forward import DEVICES, Forward
from paceline.models import check
from paceline.models.adapter import Adapted
from paceline.models.loader import LoadedModel

log = logging.getLogger("paceline")


def prepare_steps(model: LoadedModel, grouping: Grouping) -> bool:
    """Check rounds and traced steps against plain decoding on this machine, and drop what disagrees.

    Returns whether steps are traced; a model whose rounds disagree loses its head.
    """
    language = model.language
    if not isinstance(model.head, str) and not _rounds_agree(language, grouping):
        with_kernels = language.use_kernels(False)
        if with_kernels and _rounds_agree(language, grouping):
            log.warning("our kernels disagree with their plain forms in rounds, and are not used")
        else:
            model.head = "rounds do not give what plain decoding gives on this machine"
            if with_kernels:  # in plain steps they were right
                language.use_kernels(True)
    if not isinstance(model.head, str):
        model.head.use_kernels(language.uses_kernels)
    if platform.device_kind() not in DEVICES or language.dynamic_rope:
        return False
    forward = Forward(lambda inputs, batch: [language.module(inputs[0], cache=batch.layers)], traces=True, patience=1)

    def step(tokens: mx.array, batch: Batch, tentative: bool) -> tuple[mx.array, Callable[[], None]]:
        (logits,), close = forward(batch, tokens.shape[1], [tokens], tentative=tentative)
        return logits, close

    try:
        same = check.agrees(language, grouping, step)
        if same and not isinstance(model.head, str):
            same = check.rolls_back(language, grouping, step)
        if same and forward.traced_calls:
            return True
        log.warning("the traced decode step disagrees with the plain one, and is not used")
    except Exception as error:  # noqa: BLE001  a model that cannot be traced is served without
        log.warning("the decode step of this model cannot be traced, and runs as it is: %s", error)
    return False


def _rounds_agree(language: Adapted, grouping: Grouping) -> bool:
    try:
        return check.rolls_back(language, grouping, check.plain_step(language))
    except Exception as error:  # noqa: BLE001  any failure means: no rounds
        log.warning("a round failed at start-up: %s", error)
        return False
