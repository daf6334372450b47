"""How the draft ranks a prompt's chunks: does it keep the chunk that holds the fact? By the engine's own scorer."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import mlx.core as mx
import numpy as np

from paceline.cache.prefix import PrefixCache
from paceline.models import loader
from paceline.sparse import scorer
from paceline.sparse.rules import CHUNK, select

KEPT = 0.2
STEP = 1024  # prompt tokens a forward pass


class Draft:
    def __init__(self, folder: Path, window: int | None = None) -> None:
        cache = PrefixCache(lambda: 1 << 28)  # several questions are about one text
        self.draft = scorer.Draft(loader.load(str(folder), "float32").language, cache, window)

    def kept(self, prompt: Sequence[int]) -> set[int]:
        """The chunks of the prompt that are among the best fifth, by score alone: nothing is kept by force."""
        scorer = self.draft.scorer(prompt, (len(prompt) - 256,))  # its question is what differs
        while scorer.left:
            mx.eval(scorer.read(STEP))
        chosen = select(scorer.scores(), np.zeros(len(prompt), np.bool_), KEPT)
        return set((chosen // CHUNK).tolist())


def chunks_of(first: int, last: int) -> set[int]:
    """The chunks that hold the tokens [first, last)."""
    return set(range(first // CHUNK, (last - 1) // CHUNK + 1))
