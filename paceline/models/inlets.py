"""How media get into a language model: embeddings in place of tokens', and residuals that some layers add (deepstack).

mlx-lm's classes that take no `input_embeddings` get them through their embedding layer. Values are set for one call on
the thread that owns MLX, so steps without media, and traced ones, run mlx-lm's code unchanged.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import mlx.core as mx
import mlx.nn as nn


class Given:
    """What a layer uses in the current call. Not a module's attribute: those count as parameters."""

    def __init__(self) -> None:
        self.value: mx.array | None = None


class Inlets:
    def __init__(self, embeddings: Given | None = None, residuals: Sequence[Given] = ()) -> None:
        self._embeddings = embeddings  # None: the model takes them as an argument
        self.residuals = tuple(residuals)

    @classmethod
    def of(cls, module: nn.Module, layers: Sequence[int] = ()) -> Inlets:
        """Inlets of a model in which media have residuals before some `layers`."""
        embeddings = None
        if "input_embeddings" not in inspect.signature(type(module).__call__).parameters:
            inner = getattr(module, "language_model", module)
            embeddings = _wrapped(inner.model.embed_tokens, _GivenEmbedding)
        return cls(embeddings, [_wrapped(module.layers[layer], _WithResidual) for layer in layers])

    @contextmanager
    def given(self, embeddings: mx.array | None, residuals: Sequence[mx.array] = ()) -> Iterator[dict[str, Any]]:
        """For one call of the model: the arguments that it needs."""
        if embeddings is None:
            yield {}
            return
        if self._embeddings is not None:
            self._embeddings.value = embeddings
        for inlet, residual in zip(self.residuals, residuals, strict=False):
            inlet.value = residual
        try:
            yield {"input_embeddings": embeddings} if self._embeddings is None else {}
        finally:
            for inlet in (*self.residuals, *filter(None, [self._embeddings])):
                inlet.value = None


class _GivenEmbedding:
    inlet: Given

    def __call__(self, tokens: mx.array) -> mx.array:
        return self.inlet.value if self.inlet.value is not None else super().__call__(tokens)  # type: ignore[misc]


class _WithResidual:
    inlet: Given

    def __call__(self, states: mx.array, *arguments: Any, **options: Any) -> Any:
        if self.inlet.value is not None:
            states = states + self.inlet.value
        return super().__call__(states, *arguments, **options)  # type: ignore[misc]


def _wrapped(part: nn.Module, mixin: type) -> Given:
    """The instance becomes one of a subclass with the same parameters, as RowGatedDelta does."""
    part.__class__ = type(type(part).__name__, (mixin, type(part)), {})
    part.inlet = Given()
    return part.inlet
