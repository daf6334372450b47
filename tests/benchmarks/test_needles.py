from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.needles import KINDS, Fact, Kind, draw, manual, plain_text


def words(text: str) -> int:
    return len(text.split())


@given(kind=st.sampled_from(KINDS), tokens=st.integers(200, 3000), count=st.integers(1, 4), seed=st.integers(0, 99))
def test_prompts_have_the_wanted_length_and_tell_the_fact_that_they_ask_for(
    kind: Kind, tokens: int, count: int, seed: int
) -> None:
    needles = draw(kind, tokens, words, count, seed)
    assert needles == draw(kind, tokens, words, count, seed)
    for place, needle in enumerate(needles):
        assert 0.5 * tokens - 200 < words(needle.text) <= tokens
        assert place <= needle.depth * count < place + 1
        body, _, question = needle.text.rpartition("\n\n")
        fact = needle.fact
        assert fact.key in question and fact.attribute in question and fact.value not in question
        assert body.count(f"{fact.attribute} of {fact.key} is ") == 1
        assert f"{fact.attribute} of {fact.key} is {fact.value}." in body


def test_a_fact_stands_where_its_draft_length_says() -> None:
    for kind in KINDS:
        for needle in draw(kind, 4000, words, 5):
            place = needle.text.index(f"{needle.fact.attribute} of {needle.fact.key} is ")
            assert place / len(needle.text) == pytest.approx(needle.depth, abs=0.1)


def test_a_value_counts_as_words_of_its_own_only() -> None:
    fact = Fact("the jade bell", "room number", "412")
    assert fact.is_in("The room number of the jade bell is 412.") and fact.is_in("412")
    assert not fact.is_in("It is 4125.") and not fact.is_in("It is 1412.") and not fact.is_in("")
    assert Fact("the jade bell", "price", "12 dollars").is_in("is 12 dollars.")


def test_the_manual_is_prose() -> None:
    sentences = manual()
    assert len(sentences) > 500
    assert not any("::=" in sentence or "\n" in sentence for sentence in sentences)
    assert len(plain_text(100_000)) > 100_000
    assert plain_text(1000, 1) == plain_text(1000, 1) != plain_text(1000, 2)
