"""Which families hand out their hidden states: tried through the output head, never guessed."""

from __future__ import annotations

import pytest

from paceline.models.adapter import adapt
from paceline.models.states import hidden_size
from tests.models.families import FAMILIES, build


@pytest.mark.parametrize("name", ["llama", "gemma2", "granite", "cohere2", "qwen3_next", "lfm2", "gpt_oss", "mistral3"])
def test_states_that_choose_the_models_own_tokens_are_taken(name: str) -> None:
    assert hidden_size(adapt(build(FAMILIES[name]), FAMILIES[name])) == 64


@pytest.mark.parametrize("name", ["gpt_neox", "mamba2", "gpt_bigcode"])
def test_a_family_whose_text_model_ends_otherwise_has_none(name: str) -> None:
    assert hidden_size(adapt(build(FAMILIES[name]), FAMILIES[name])) is None
