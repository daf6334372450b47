"""A server that reads long prompts sparsely by itself reads their instructions whole, and keeps them for others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from paceline.types import Prompt
from tests.integration.test_sparse_exactness import FAMILIES, chosen, compare, prompt
from tests.reference import greedy_text
from tests.sparse.stepper import SparseStepper, kept

TOKENS = 12
PLENTY = 1 << 30
SYSTEM = 150


def instructed(question: int, count: int = 400, *, system: int = SYSTEM) -> Prompt:
    """All of them begin with the same instructions."""
    tokens = (*prompt(system, 9), *prompt(count, question))
    return Prompt(tokens, boundaries=(system, len(tokens) - 20), system=system)


def ids(question: int, count: int = 400) -> list[int]:
    return list(instructed(question, count).token_ids)


@pytest.fixture(params=FAMILIES)
def folder(request: pytest.FixtureRequest) -> Path:
    found: Path = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def stepper(folder: Path) -> Callable[..., SparseStepper]:
    def make(**more: Any) -> SparseStepper:
        return SparseStepper(folder, "similar", **{"chunk": 40, "cache": PLENTY, **more})

    return make


@pytest.mark.thin(6, first=2)
@pytest.mark.parametrize("speculation", ["off", 2])
def test_they_are_read_whole_once_and_cached_for_the_next(
    folder: Path, stepper: Callable[..., SparseStepper], speculation: object
) -> None:
    made = stepper(speculation=speculation)
    first = made.scored("first", instructed(1), TOKENS)
    made.finish()
    compare(first, folder, ids(1), chosen(ids(1), whole=SYSTEM))
    second = made.scored("second", instructed(2), TOKENS)
    whole = made.scored("whole", instructed(3, 60), TOKENS)
    made.finish()
    assert (first.cached, second.cached, whole.cached) == (0, SYSTEM, SYSTEM)
    compare(second, folder, ids(2), chosen(ids(2), whole=SYSTEM))
    assert whole.tokens == greedy_text(folder, ids(3, 60), TOKENS)
    assert kept(whole) == SYSTEM + 60
    usage = whole.deltas[-1].usage
    assert usage is not None and (usage.accepted_tokens > 0 or speculation == "off" or folder.name[:6] != "hybrid")


@pytest.mark.thin(3, first=1)
def test_whoever_asks_for_it_has_all_of_the_prompt_read_sparsely(
    folder: Path, stepper: Callable[..., SparseStepper]
) -> None:
    made = stepper()
    asked = made.scored("asked", instructed(1), TOKENS, specprefill=True)
    made.finish()
    compare(asked, folder, ids(1), chosen(ids(1)))
    assert made.reuse.cache.memory == 0


@pytest.mark.slow
@pytest.mark.thin(2)
@pytest.mark.parametrize("speculation", ["off", 2])
def test_they_are_read_whole_too_where_nothing_may_be_cached(hybrid: Path, speculation: object) -> None:
    for cache in (None, PLENTY):
        options: dict[str, Any] = {} if cache is None else {"cache": cache}
        made = SparseStepper(hybrid, chunk=40, speculation=speculation, **options)
        heard = made.scored("no cache", replace(instructed(1), cached=False), TOKENS)
        made.finish()
        compare(heard, hybrid, ids(1), chosen(ids(1), whole=SYSTEM))
        assert not options or made.reuse.cache.memory == 0


@pytest.mark.slow
def test_what_is_long_by_its_instructions_alone_is_read_whole(hybrid: Path) -> None:
    made = SparseStepper(hybrid, cache=PLENTY, chunk=64)
    agent = made.scored("agent", instructed(1, 100, system=400), TOKENS)
    made.finish()
    again = made.scored("again", instructed(2, 100, system=400), TOKENS)
    made.finish()
    assert kept(agent) == kept(again) == 500 and again.cached == 400
    assert made.sparse.counts.outcomes["short"] == 2
    assert again.tokens == greedy_text(hybrid, list(instructed(2, 100, system=400).token_ids), TOKENS)


@pytest.mark.slow
@pytest.mark.thin(3)
def test_sequences_that_come_together_compute_them_once(folder: Path, stepper: Callable[..., SparseStepper]) -> None:
    made = stepper()
    first = made.scored("first", instructed(1), TOKENS)
    made.step(2)
    second = made.scored("second", instructed(2), TOKENS)
    third = made.scored("third", instructed(3, 60), TOKENS, specprefill=False)
    made.finish()
    compare(first, folder, ids(1), chosen(ids(1), whole=SYSTEM))
    compare(second, folder, ids(2), chosen(ids(2), whole=SYSTEM))
    assert (second.cached, third.cached) == (SYSTEM, SYSTEM)
    assert third.tokens == greedy_text(folder, ids(3, 60), TOKENS)


@pytest.mark.slow
@pytest.mark.parametrize("steps", range(8, 17))
@pytest.mark.parametrize("speculation", ["off", 2])
def test_a_sequence_that_is_preempted_while_it_reads_them_goes_on(
    hybrid: Path, steps: int, speculation: object
) -> None:
    made = SparseStepper(hybrid, "similar", cache=PLENTY, chunk=40, speculation=speculation)
    heard = made.scored("row", instructed(1), TOKENS)
    made.step(steps)
    row = made.set_back()
    made.finish()
    assert row.preemptions == 1
    compare(heard, hybrid, ids(1), chosen(ids(1), whole=SYSTEM))
    after = made.scored("after", instructed(2, 60), TOKENS)
    made.finish()
    assert after.cached == SYSTEM
    assert after.tokens == greedy_text(hybrid, ids(2, 60), TOKENS)
    assert all(node.pins == 0 for node in made.reuse.cache.nodes())
