"""Nothing that the model is judged by was in what it learned from."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from tokenizers import Tokenizer

from training import data_long, facts_find, facts_questions, facts_talk, heldout, pictures
from training.data import corpus_tokens, read_corpus
from training.data_chat import Phrases, held
from training.data_kinds import DRAWS
from training.data_long import Corpus

COMBINED = ("scene", "json", "persona", "picture", "picture_position", "picture_word")


@pytest.mark.thin(2)
@pytest.mark.parametrize("kind", COMBINED)
def test_combinations_are_on_one_side_only(kind: str, data: Path) -> None:
    trained = {DRAWS[kind](Random(seed), "train").combination for seed in range(400)}
    asked = {DRAWS[kind](Random(seed), "held").combination for seed in range(200)}
    assert not trained & asked


def test_facts_are_on_one_side_only() -> None:
    rng = Random(4)
    trained = {(fact.key, fact.attribute) for _ in range(200) for fact in facts_find.draw_facts(rng, "train", 12)}
    asked = {(fact.key, fact.attribute) for _ in range(50) for fact in facts_find.draw_facts(rng, "held", 12)}
    assert not trained & asked
    assert all(held("fact", *pair) for pair in asked)


def test_images_never_show_a_held_out_combination_in_training(data: Path) -> None:
    rng = Random(5)
    groups = [pictures.draw_group(rng, "train") for _ in range(3000)]
    assert not any(group.is_held for group in groups)
    assert any(pictures.draw_group(rng, "held").is_held for _ in range(3))


def test_phrases_are_on_one_side_only() -> None:
    for module in (facts_questions, facts_talk, facts_find):
        for name, value in vars(module).items():
            if isinstance(value, Phrases):
                assert not set(value.trained) & set(value.held), name


def test_documents_are_on_one_side_only(data: Path) -> None:
    trained = {text for _, text in read_corpus(data, "train")}
    asked = {text for _, text in read_corpus(data, "held")}
    assert trained and asked and not trained & asked


def test_the_right_answer_counts_as_right(data: Path) -> None:
    sets = [heldout.chat(60), heldout.lookup(40), heldout.json_answers(40), heldout.tool_answers(40)]
    sets += [heldout.pictures_one(40), heldout.pictures_two(40), heldout.pictures_other("position", 40)]
    for prompts in sets:
        assert all(prompt.right(prompt.chat.turns[-1].text) for prompt in prompts)


def test_an_answer_of_another_prompt_counts_as_wrong(data: Path) -> None:
    one, other = (Random(seed) for seed in (1, 2))
    first, second = facts_find.lookup(one, "held", 5, 1), facts_find.lookup(other, "held", 5, 1)
    assert not heldout.says(first.expect)(second.turns[-1].text)
    assert not heldout.is_json({"a": 1})('{"a": 2}')


def test_a_hidden_fact_is_in_the_text_once(data: Path, words: Tokenizer) -> None:
    corpus = Corpus.of(corpus_tokens(data, "train", words)[0], words)
    chat, haystack, told = data_long.hidden(corpus, words, 900, Random(6), "train", count=4, questions=2)
    text = words.decode(haystack.tolist(), skip_special_tokens=False)
    assert len(told) == 4 and all(text.count(sentence) == 1 for sentence in told.values())
    assert words.encode(text, add_special_tokens=False).ids == haystack.tolist()
    assert sum(chat.expect in sentence for sentence in told.values()) >= 1
