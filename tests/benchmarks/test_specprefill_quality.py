from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from benchmarks.needles import KINDS
from benchmarks.specprefill import SparseBench
from benchmarks.specprefill_quality import (
    Blind,
    Cell,
    Remembering,
    answers,
    at_random,
    by_recency,
    judge,
    questions,
    still_right,
)
from paceline.models.loader import load
from paceline.sparse.scorer import Draft
from paceline.types import Prompt

if TYPE_CHECKING:
    from tests.conftest import Tiny

TOKENS = [1, 2, 3, 4, 5]


def test_random_scores_are_those_of_the_prompt_and_the_seed() -> None:
    first = at_random(TOKENS)
    assert (first == at_random(TOKENS)).all() and len(first) == len(TOKENS)
    assert (first != at_random(TOKENS, seed=1)).any() and (first != at_random([*TOKENS[:-1], 9])).any()


def test_recency_prefers_what_comes_last() -> None:
    assert (np.diff(by_recency(TOKENS)) > 0).all()


def test_a_draft_that_looks_at_nothing_gives_its_rules_scores(tiny: Tiny) -> None:
    draft = Draft(load(str(tiny("llama"))).language)
    scorer = Blind(draft, by_recency).scorer(TOKENS)
    assert (scorer.restored, scorer.left) == (0, 5)
    assert scorer.read(3) == [] and scorer.left == 2
    scorer.read(3)
    assert scorer.left == 0 and (scorer.scores() == by_recency(TOKENS)).all()


def test_what_was_scored_once_is_not_scored_again(tiny: Tiny) -> None:
    draft = Remembering(Draft(load(str(tiny("llama"))).language))
    first = draft.scorer(TOKENS)
    first.read(8)
    known = first.scores()
    again = draft.scorer(TOKENS)
    assert again.read(8) == [] and (again.scores() == known).all()
    assert draft.scorer([9, 8, 7]).read(8) != []


def test_a_share_is_of_the_prompts_that_are_right_when_read_whole() -> None:
    cells = [
        Cell("retrieval", 2048, None, 1.0, (True, True, False)),
        Cell("retrieval", 2048, "draft", 0.3, (True, False, True)),
        Cell("notes", 2048, None, 1.0, (True, True, True)),
        Cell("notes", 2048, "draft", 0.3, (True, True, True)),
        Cell("notes", 2048, "random", 0.3, (False, False, False)),
    ]
    assert still_right(cells, "draft", 0.3) == (4, 5)
    assert still_right(cells, "random", 0.3) == (0, 3)
    assert still_right(cells, "draft", 0.5) == (0, 0)
    assert cells[0].accuracy == pytest.approx(2 / 3)


@pytest.mark.slow
def test_every_way_to_choose_reads_the_same_prompts(tiny: Tiny) -> None:
    with SparseBench(str(tiny("llama")), str(tiny("llama")), prefill_chunk=256, draft_chunk=256) as bench:
        true = bench.sparse.draft
        cells = judge(bench, [900], [1.0, 0.5], 2)
        assert bench.sparse.draft is true
        assert bench.sparse.counts.outcomes["sparse"] == len(KINDS) * 3 * 2
        assert bench.engine.core.stats().num_requests_running == 0
    assert [(cell.kind, cell.choice, cell.keep) for cell in cells] == [
        (kind, choice, keep)
        for kind in KINDS
        for choice, keep in ((None, 1.0), ("draft", 0.5), ("random", 0.5), ("recency", 0.5))
    ]
    assert all(len(cell.right) == 2 for cell in cells)


@pytest.mark.slow
def test_the_embedded_pair_finds_a_fact_in_a_third_of_the_text() -> None:
    with SparseBench("paceline-mini", "paceline-mini-draft", prefill_chunk=256, draft_chunk=512) as bench:
        assert bench.tokenizer is not None
        [asked] = questions(bench.tokenizer, "retrieval", 1024, 1)
        assert len(asked.prompt.token_ids) <= 1024 and asked.prompt.boundaries
        [whole] = answers(bench, [asked.prompt], 1.0)
        [said] = answers(bench, [Prompt(asked.prompt.token_ids, boundaries=asked.prompt.boundaries)], 0.34)
    assert asked.needle.fact.is_in(whole) and asked.needle.fact.is_in(said)
