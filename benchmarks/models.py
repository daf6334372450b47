"""The models that benches measure: shapes of random weights, `paceline-tiny`, or whatever `paceline serve` takes."""

from __future__ import annotations

from typing import Any

from benchmarks import tiny
from benchmarks.shapes import SHAPES, random_model
from paceline.bench import offline
from paceline.bench.wire import BenchError
from paceline.models.loader import LoadedModel, load


def model_of(source: str, layers: int | None = None) -> LoadedModel:
    """A shape by name, with so many layers if given, or whatever `paceline serve` takes."""
    if source in SHAPES:
        return random_model(source, layers=layers)
    if layers is not None:
        raise BenchError(f"{source} has the layers that it has: only shapes take another number of them.")
    return load(str(tiny.folder())) if source == tiny.NAME else load(source)


class Bench(offline.Bench):
    """The bench of `paceline bench offline`, which also takes shapes and `paceline-tiny`."""

    def __init__(self, *args: Any, layers: int | None = None, **more: Any) -> None:
        super().__init__(*args, **more)
        self.layers = layers

    def _load(self) -> LoadedModel:
        return model_of(self.source, self.layers)
