"""Which prompts are read sparsely."""

from __future__ import annotations

from pathlib import Path

from paceline.sparse.rules import Rules
from paceline.types import Sampling
from tests.engine.test_sparse_prefill import PLENTY, TOKENS, outcomes
from tests.integration.test_sparse_exactness import chosen, prompt
from tests.reference import greedy_text
from tests.sparse.stepper import SparseStepper, kept


def test_auto_reads_sparsely_from_the_threshold_on(llama: Path) -> None:
    stepper = SparseStepper(llama, rules=Rules("auto", threshold=300, keep=0.4))
    rows = {count: stepper.scored(str(count), prompt(count), 3) for count in (299, 300, 500)}
    stepper.finish()
    assert [kept(rows[count]) == count for count in rows] == [True, False, False]
    assert outcomes(stepper) == {"sparse": 2, "short": 1}


def test_a_prompt_that_is_too_long_is_read_whole_and_counted(llama: Path) -> None:
    stepper = SparseStepper(llama, rules=Rules("auto", threshold=260, most=400))
    long = stepper.scored("long", prompt(401), TOKENS)
    stepper.scored("fits", prompt(400), 2)
    stepper.finish()
    assert long.tokens == greedy_text(llama, prompt(401), TOKENS)
    assert outcomes(stepper) == {"sparse": 1, "long": 1}


def test_the_requests_word_is_stronger_than_the_servers(llama: Path) -> None:
    stepper = SparseStepper(llama, rules=Rules("off", threshold=10_000))
    asked = stepper.scored("asked", prompt(), 3, specprefill=True)
    silent = stepper.scored("silent", prompt(), 3)
    stepper.finish()
    assert (kept(asked) or 0) < 420 and kept(silent) is None
    stepper = SparseStepper(llama)
    refuses = stepper.scored("refuses", prompt(), 3, specprefill=False)
    more = stepper.scored("more", prompt(), 3, specprefill_keep=0.8)
    stepper.finish()
    assert kept(refuses) is None and len(chosen(prompt(), keep_ratio=0.8)) == kept(more)


def test_what_needs_the_whole_prompt_gets_it(llama: Path) -> None:
    stepper = SparseStepper(llama)
    scores = stepper.submit("scores", prompt(), Sampling(temperature=0, max_tokens=2, prompt_logprobs=0))
    stepper.finish()
    assert kept(scores) is None and outcomes(stepper) == {}


def test_only_what_is_not_cached_counts(hybrid: Path) -> None:
    stepper = SparseStepper(hybrid, cache=PLENTY, chunk=100)
    first = stepper.scored("first", prompt(400), 2, specprefill=False)
    stepper.finish()
    again = stepper.scored("again", [*prompt(400), *prompt(200, 5)], 2)
    stepper.finish()
    assert first.finish_reason == "length" and again.cached >= 399 and kept(again) == 600
    assert outcomes(stepper) == {"short": 1}
