"""`python -m benchmarks speculate --trace rewrite`: the model computes every step, and what it says is given.

A small model rewrites a file badly: it leaves lines out, and soon writes one line for ever. So its own answers say
little about those of the models that people edit with. Here every step costs what it costs, and the most likely token
is always the changed file's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mlx.core as mx
import numpy as np

from benchmarks.edits import edit
from benchmarks.speculate import TextBench
from paceline.bench.offline import Trace
from paceline.bench.wire import BenchError
from paceline.cache.batch import Batch
from paceline.engine.runner import Runner

CERTAIN = 1e9  # the logit of the token that is said


class GivenWords(Runner):
    """`text`: what every sequence has said and will say, from the first token of its prompt on."""

    text: Sequence[int] = ()

    def _logits(self, inputs: list[mx.array], batch: Batch) -> list[mx.array]:
        return [self._given(super()._logits(inputs, batch)[0], batch)]

    def _states_and_logits(self, inputs: list[mx.array], batch: Batch) -> list[mx.array]:
        logits, hidden = super()._states_and_logits(inputs, batch)
        return [self._given(logits, batch), hidden]

    def _given(self, logits: mx.array, batch: Batch) -> mx.array:
        if self.forward.traces or not self.text:
            return logits
        places = np.array(batch.lengths)[:, None] + np.arange(1, logits.shape[1] + 1)
        tokens = np.array(self.text)[np.minimum(places, len(self.text) - 1)]
        certain = mx.full((*tokens.shape, 1), CERTAIN, dtype=logits.dtype)
        given: mx.array = mx.put_along_axis(logits, mx.array(tokens)[..., None], certain, axis=-1)
        return given


class RewriteBench(TextBench):
    runner_type = GivenWords
    runner: GivenWords

    def prompts(self, count: int, seed: int) -> list[tuple[int, ...]]:
        """Called while the engine is idle."""
        if self.runner.forward.traces:
            raise BenchError("trace rewrite does without traced steps: on a GPU give --no-compile.")
        asked, changed = edit(self._encode, seed)
        self.runner.text = (*asked, *changed)
        return super().prompts(count, seed)

    def engine_run(
        self, prompts: Sequence[tuple[int, ...]], tokens: int, *mode: Any, **more: Any
    ) -> tuple[Trace, float]:
        left = len(self.runner.text) - max(map(len, prompts))
        if tokens > left:
            raise BenchError(f"--output-tokens is {tokens}: a file has only {left} left to write.")
        return super().engine_run(prompts, tokens, *mode, **more)
