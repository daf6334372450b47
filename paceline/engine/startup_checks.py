"""The checks and measurements of a start. What has passed at an earlier one, and depends on nothing that has changed
since, is not run again (`models/verdicts`). On the engine's thread.

What fails is never kept: a model that is served without something says why at every start.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any, TypeVar

import mlx.core as mx

from paceline import platform
from paceline.cache.kv_quantization import KVQuantization
from paceline.cache.memory_model import AttentionCost, MemoryModel
from paceline.cache.slot_plan import LAYOUTS, NAMES, Grouping
from paceline.engine import layout, memory, warmup
from paceline.engine.forward import DEVICES
from paceline.engine.media_check import check_media
from paceline.engine.runner import Runner
from paceline.models import check
from paceline.models.adapter import buckets_for
from paceline.models.loader import LoadedModel
from paceline.models.prefill_chunk import overhead_tokens, prefill_chunk
from paceline.models.verdicts import Verdicts
from paceline.setting_values import ShapeBucketing

log = logging.getLogger("paceline")
T = TypeVar("T")
COMPILES = ": the first time, kernels are compiled, which takes minutes"


class StartupChecks:
    def __init__(self, verdicts: Verdicts) -> None:
        self.verdicts = verdicts

    def layout(self, model: LoadedModel, wanted: str = "auto", bucketing: ShapeBucketing = "auto") -> Grouping:
        name = _name("layout", model, wanted, bucketing)
        language = model.language
        if (found := self.verdicts.recall(name)) is not None:
            grouping = LAYOUTS[found["layout"]]
            language.vocab_size = found["vocab_size"]
            if found["buckets"]:
                grouping = replace(grouping, buckets=buckets_for(language))
            _warm(model, grouping)
            return grouping
        log.info("checking %s on this machine%s", model.folder.name, COMPILES if _on_gpu() else "")
        kernels, notes = language.uses_kernels, len(model.notes)
        grouping = layout.choose(model, wanted, bucketing)
        padded = layout.wants_buckets(bucketing) == bool(grouping.buckets.rows)
        if padded and kernels == language.uses_kernels and notes == len(model.notes):
            found = {"layout": NAMES[grouping.skew], "buckets": bool(grouping.buckets.rows)}
            self.verdicts.keep(name, found | {"vocab_size": language.vocab_size})
        return grouping

    def media(self, model: LoadedModel, grouping: Grouping) -> None:
        vision = model.vision
        if vision is None:
            return
        name, audio = _name("media", model, grouping), vision.audio_processor
        if self.verdicts.recall(name) is None:
            check_media(model, grouping)
            if model.vision is vision and vision.audio_processor is audio:
                self.verdicts.keep(name, True)

    def quantize_kv(self, model: LoadedModel, grouping: Grouping, kv: KVQuantization | None) -> None:
        if kv is None:
            return
        name = _name("keys and values", model, grouping, kv)
        if (error := self.verdicts.recall(name)) is not None:
            layout.use_quantized_kv(model, kv, error)
        else:
            self.verdicts.keep(name, layout.quantize_kv(model, grouping, kv))

    def hidden_size(self, model: LoadedModel) -> int | None:
        return self._measured(_name("hidden size", model), lambda: check.hidden_size(model.language))

    def prefill_chunk(self, model: LoadedModel, grouping: Grouping, most: int) -> int:
        name = _name("prefill chunk", model, grouping, most)
        return self._measured(name, lambda: prefill_chunk(model.language, grouping, most=most))

    def steps(self, model: LoadedModel, grouping: Grouping, *, may_trace: bool = True) -> bool:
        name = _name("steps", model, grouping, may_trace)
        found: bool | None = self.verdicts.recall(name)
        if found is not None:
            warmup.take_steps(model)
            return found
        language, kernels = model.language, model.language.uses_kernels
        found = warmup.check_steps(model, grouping, may_trace=may_trace)
        traced = found == warmup.may_be_traced(language, may_trace)
        if traced and kernels == language.uses_kernels and model.no_rollback == warmup.no_rollback(language):
            self.verdicts.keep(name, found)
        return found

    def memory(self, runner: Runner, *, head: bool) -> MemoryModel:
        name = _name("memory", runner.model, runner.grouping, head)
        if (found := self.verdicts.recall(name)) is not None:
            attention = tuple(AttentionCost(**cost) for cost in found["attention"])
            return MemoryModel(**{**found, "attention": attention, "grouping": runner.grouping})
        measured = memory.profile_memory(runner, head=head)
        found = asdict(measured)
        del found["grouping"]
        self.verdicts.keep(name, found)
        return measured

    def overhead(self, runner: Runner, chunk: int) -> int:
        name = _name("overhead", runner.model, runner.grouping, chunk)
        return self._measured(name, lambda: overhead_tokens(runner.read_blank, chunk))

    def _measured(self, name: str, measure: Callable[[], T]) -> T:
        """What an earlier start has measured, or else what is measured now; None is not kept."""
        found: T | None = self.verdicts.recall(name)
        if found is not None:
            return found
        measured = measure()
        if measured is not None:
            self.verdicts.keep(name, measured)
        return measured


def _name(what: str, model: LoadedModel, *of: Any) -> str:
    """A verdict's name: the check, and what the start has made of the model until then."""
    language = model.language
    form = {
        "folder": model.folder,
        "dtype": language.dtype,
        "quantization": model.quantization,
        "kernels": language.uses_kernels,
        "kv": language.kv,
        "head": not isinstance(model.head, str),
        "vision": model.vision is not None,
        "adapters": [(lora.rank, lora.layers) for lora in language.loras.loaded],
    }
    return f"{what} {[*map(str, of)]} of {' '.join(f'{name}={value}' for name, value in form.items())}"


def _on_gpu() -> bool:
    return platform.device_kind() in DEVICES


def _warm(model: LoadedModel, grouping: Grouping) -> None:
    """MLX compiles for a CPU too, in the first pass. On a GPU there is a warm-up."""
    if not _on_gpu():
        form = check.forms(grouping)[0]
        check.decode(model.language, check.two_rows(model.language, form, piece=max(check.PROMPTS)), mx.array([0, 0]))
