"""The models that benches measure: shapes of random weights, `paceline-tiny`, or whatever `paceline serve` takes."""

from __future__ import annotations

from benchmarks import tiny
from benchmarks.shapes import SHAPES, random_model
from paceline.bench import offline
from paceline.models.loader import LoadedModel, load


def model_of(source: str) -> LoadedModel:
    """A shape by name, or whatever `paceline serve` takes."""
    if source == tiny.NAME:
        return load(str(tiny.folder()))
    return random_model(source) if source in SHAPES else load(source)


class Bench(offline.Bench):
    """The bench of `paceline bench offline`, which also takes shapes and `paceline-tiny`."""

    def _load(self) -> LoadedModel:
        return model_of(self.source)
