"""What a step has done for prompts: prefills and scores are awaited when the step is read, embeddings delivered."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING

from paceline.engine import delivery, pooling
from paceline.engine.in_flight import InFlightStep
from paceline.engine.sequence import Sequence

if TYPE_CHECKING:
    from paceline.engine.core import EngineCore


def complete(core: EngineCore, in_flight: InFlightStep) -> None:
    begun = time.perf_counter()
    faults = core.faults
    for prompt in in_flight.prefills:
        if prompt.is_current:
            faults.run_for_one(prompt.seq, partial(core.runner.wait, prompt.arrays), waited=True)
    for prompt in in_flight.scored:
        if prompt.is_current and prompt.seq.sparse.scorer is not None and core.sparse is not None:
            with faults.or_dense(prompt.seq, waited=True):
                core.sparse.wait(prompt.arrays)
    if in_flight.sparse_seconds is not None:
        core.scheduler.sparse_budget.finished(in_flight.sparse_seconds + time.perf_counter() - begun, core.clock())
    for prompt in in_flight.pooled:
        if prompt.is_current:
            faults.run_for_one(prompt.seq, partial(_deliver_vector, core, prompt.seq), waited=True)


def _deliver_vector(core: EngineCore, seq: Sequence) -> None:
    if delivery.deliver_vector(seq, pooling.unit(seq.computed.pooled)):
        core.release(seq, "stop")
    else:
        core.finish(seq, "error", error="The model's hidden states are not numbers.")
