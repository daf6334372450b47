"""Many requests of all kinds at once: sparse, full, cached, pictured, cancelled. Nothing is left, and what full
rows say is what they say alone."""

from __future__ import annotations

import random
from pathlib import Path

import mlx.core as mx
import pytest

from paceline.sparse.rules import Rules
from paceline.types import Prompt, Sampling
from tests.engine.stepper import Heard
from tests.integration.test_images import CONVERSATIONS
from tests.integration.test_sparse_exactness import prompt
from tests.memory import held
from tests.models.test_vision import built
from tests.reference import greedy_text
from tests.sparse.stepper import SparseStepper, kept

PLENTY = 1 << 30
REQUESTS = 100


@pytest.mark.slow
def test_many_mixed_requests_leave_nothing_behind(hybrid: Path) -> None:
    rng = random.Random(8)
    stepper = SparseStepper(
        hybrid,
        "similar",
        draft=hybrid,
        rules=Rules("auto", threshold=256, keep=0.3),
        read=96,
        chunk=64,
        max_rows=12,
        cache=PLENTY,
        draft_cache=PLENTY,
        features=PLENTY,
        speculation="auto",
    )
    pictures = [built(hybrid, conversation) for conversation in CONVERSATIONS.values()]
    systems = [prompt(160, 20 + place) for place in range(3)]
    stepper.greedy("warm", prompt(30, 1), 3)
    stepper.finish()
    _clear(stepper)
    greedy_text(hybrid, prompt(5, 1), 1)  # loads the reference
    before = held()
    heard: dict[str, tuple[str, Heard, list[int]]] = {}
    for number in range(REQUESTS):
        kind = rng.choice(("sparse", "sparse", "full", "cached", "pictured", "cancelled"))
        name = f"{number} {kind}"
        tokens = prompt(rng.randint(280, 420), number)
        if kind == "full":
            tokens = tokens[: rng.randint(20, 150)]
        elif kind == "cached":
            tokens = [*rng.choice(systems), *tokens[: rng.randint(20, 300)]]
        asked = Prompt(tuple(tokens), boundaries=(160,) if kind == "cached" else ())
        if kind == "pictured":
            seen = rng.choice(pictures)
            asked = Prompt((*tokens, *seen.token_ids), seen.media)
        sampling = Sampling(temperature=0, max_tokens=rng.randint(3, 12), ignore_eos=True)
        heard[name] = (kind, stepper.submit(name, asked, sampling), tokens)
        stepper.step(rng.randint(0, 6))
        if kind == "cancelled":
            stepper.abort(name)
    stepper.finish()
    for name, (kind, each, tokens) in heard.items():
        if kind == "full":
            assert each.tokens == greedy_text(hybrid, tokens, len(each.tokens)), name
        assert (each.finish_reason == "length") or kind == "cancelled", name
        if kind == "sparse":
            assert (kept(each) or 0) < len(tokens), name
    counts = stepper.sparse.counts
    assert counts.outcomes["sparse"] > REQUESTS // 5 and counts.outcomes["failed"] == 0 and counts.restored > 0
    caches = (stepper.reuse.cache, stepper.sparse.draft.cache)
    assert all(node.pins == 0 for cache in caches if cache is not None for node in cache.nodes())
    kept_bytes = sum(cache.memory for cache in caches if cache is not None) + stepper.runner.features.nbytes
    # MLX may put an array into a freed buffer that is somewhat larger: that much of the caches' own is not theirs.
    assert abs(held() - before - kept_bytes) < 0.06 * kept_bytes, "bytes that nobody accounts for"
    _clear(stepper)
    assert abs(held() - before) < 100_000


def _clear(stepper: SparseStepper) -> None:
    stepper.reuse.clear()
    stepper.sparse.clear()
    mx.clear_cache()
