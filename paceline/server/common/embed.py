"""Texts to vectors, for every API alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paceline.errors import InvalidRequest
from paceline.requests import EmbedRequest
from paceline.server.common.deltas import collect, follow
from paceline.server.http.identity import current
from paceline.server.state import AppState
from paceline.types import RequestId

MAX_INPUTS = 2048  # OpenAI's
Vector = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Asker:
    """For whom all prompts of a request run."""

    request_id: RequestId
    user: str | None = None
    priority: int | None = None
    lora: str | None = None

    def fields(self, place: int) -> dict[str, Any]:
        """Of the prompt at this place, what the engine's requests have in common."""
        context = current()
        context.add_ids(self.request_id)
        id = RequestId(f"{self.request_id}-{place}")
        return {
            "request_id": id,
            "tenant": context.tenant(self.user),
            "priority": self.priority or 0,
            "lora": self.lora,
        }


async def embed(
    state: AppState, asker: Asker, inputs: Sequence[tuple[str, str | list[int]]]
) -> tuple[list[Vector], dict[str, Any]]:
    """The inputs' vectors in order, and the usage. All ride together; the first that fails ends the others.

    Each input comes with the name of its field.
    """
    requests = [EmbedRequest(given, field=field, **asker.fields(place)) for place, (field, given) in enumerate(inputs)]
    stream = state.backend.stream_embed
    streams = [follow(state, stream(asked), 1, asked.request_id) for asked in requests]
    vectors, usage = await collect(state, streams, lambda delta: delta.vector)
    return [vectors[place] for place in range(len(inputs))], usage


def check_count(field: str, count: int) -> None:
    if count > MAX_INPUTS:
        raise InvalidRequest.at(field, f"holds {count} texts, and at most {MAX_INPUTS} are allowed.")


def checked_size(state: AppState, dimensions: int | None) -> int | None:
    most = state.backend.embedding_size
    if dimensions is not None and most is not None and not 1 <= dimensions <= most:
        raise InvalidRequest.at(
            "dimensions", f"is {dimensions}; this model's embeddings have {most}, so it must lie between 1 and {most}."
        )
    return dimensions


def cut(vector: Vector, size: int | None) -> Vector:
    """The first numbers, of length 1 again."""
    if size is None or size == len(vector):
        return vector
    first = vector[:size].astype(np.float64)
    return (first / (np.linalg.norm(first) or 1.0)).astype(np.float32)
