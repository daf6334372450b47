"""Estimates beside the truth: what we think is held, what MLX says is held, and how fast tokens come.

Taken on the engine's thread now and then, between two steps; read by any thread, a moment old.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import mlx.core as mx

from paceline.engine.admission import Admission
from paceline.engine.sequence import Sequence

EVERY = 0.5  # seconds between two looks
SAMPLES = 20  # looks over which a rate is taken
RECENT = 10.0  # seconds


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes at one moment. `estimate` is ours, by the price list; the others are MLX's."""

    estimate: int
    active: int
    peak: int
    cache: int  # freed, and not given back to the system

    @property
    def error(self) -> float:
        """How far the estimate is off: 0.05 is a twentieth too much, -0.05 a twentieth too little."""
        return (self.estimate - self.active) / self.active if self.active else 0.0

    def stats(self) -> dict[str, Any]:
        return {
            "estimate_bytes": self.estimate,
            "active_bytes": self.active,
            "peak_bytes": self.peak,
            "cache_bytes": self.cache,
            "error_ratio": round(self.error, 4),
        }


class Account:
    """`memory` is None before the first look."""

    def __init__(self) -> None:
        self.memory: Memory | None = None
        self._looked = 0.0
        self._samples: tuple[tuple[float, int, int], ...] = ()  # time, prompt tokens, generated tokens

    def due(self, now: float) -> bool:
        return now - self._looked >= EVERY

    def look(
        self, admission: Admission | None, seqs: Collection[Sequence], now: float, prompt: int, generated: int
    ) -> None:
        """`prompt` and `generated`: tokens since the start."""
        self._looked = now
        self._samples = (*self._samples[1 - SAMPLES :], (now, prompt, generated))
        if admission is not None:
            self.memory = Memory(
                admission.held(seqs), mx.get_active_memory(), mx.get_peak_memory(), mx.get_cache_memory()
            )

    def rates(self, now: float, prompt: int, generated: int) -> dict[str, float]:
        """Tokens a second, over the latest looks."""
        recent = [sample for sample in self._samples if now - sample[0] <= RECENT]
        if not recent or now <= recent[0][0]:
            return {"prompt_tokens_per_second": 0.0, "generated_tokens_per_second": 0.0}
        began, prompt_then, generated_then = recent[0]
        return {
            "prompt_tokens_per_second": round((prompt - prompt_then) / (now - began), 2),
            "generated_tokens_per_second": round((generated - generated_then) / (now - began), 2),
        }
