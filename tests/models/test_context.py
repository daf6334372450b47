"""How long a context a model was made for, and how long it may be set."""

from __future__ import annotations

from typing import Any

import pytest

from paceline.models.context import context_length, longest_context


def test_the_context_is_as_long_as_the_configuration_says() -> None:
    assert context_length({"max_position_embeddings": 100}) == 100
    assert context_length({"text_config": {"max_position_embeddings": 200}, "max_position_embeddings": 100}) == 200
    assert context_length({"text_config": {"hidden_size": 5}, "max_position_embeddings": 100}) == 100
    assert context_length({"n_positions": 300}) == 300
    assert context_length({"max_position_embeddings": None}) == 32768


def test_a_model_that_declares_no_length_has_no_longest() -> None:
    assert longest_context({"model_type": "mamba"}) is None
    assert longest_context({"max_position_embeddings": 100}) == 100


QWEN = {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}
DEEPSEEK = {"type": "yarn", "factor": 40, "original_max_position_embeddings": 4096}
LLAMA = {"rope_type": "llama3", "factor": 32.0, "original_max_position_embeddings": 8192}
PHI = {"type": "longrope", "original_max_position_embeddings": 4096, "long_factor": [1.0], "short_factor": [1.0]}
LINEAR = {"type": "linear", "factor": 4.0}


@pytest.mark.parametrize(
    ("declared", "scaling", "length", "longest"),
    [
        (32768, QWEN, 131072, 131072),  # declares what it was stretched from
        (163840, DEEPSEEK, 163840, 163840),  # and these what they were stretched to
        (131072, LLAMA, 131072, 131072),
        (131072, PHI, 131072, 131072),
        (16384, LINEAR, 16384, 65536),  # this one does not say which
        (16384, {"rope_type": "dynamic", "factor": 2}, 16384, 32768),
        (16384, {"rope_type": "default", "rope_theta": 1e6}, 16384, 16384),
        (16384, {"rope_type": "yarn", "factor": "4", "original_max_position_embeddings": None}, 16384, 16384),
    ],
)
@pytest.mark.parametrize("name", ["rope_scaling", "rope_parameters"])
@pytest.mark.parametrize("nested", [False, True])
def test_scaling_that_stretches_the_context_counts(
    declared: int, scaling: dict[str, Any], length: int, longest: int, name: str, nested: bool
) -> None:
    text = {"max_position_embeddings": declared, name: scaling}
    config = {"text_config": text, "model_type": "frob"} if nested else text
    assert (context_length(config), longest_context(config)) == (length, longest)


def test_gemma_declares_the_length_that_its_scaling_gives() -> None:
    text = {"model_type": "gemma3_text", "max_position_embeddings": 131072, "rope_scaling": LINEAR}
    assert longest_context({"model_type": "gemma3", "text_config": text}) == 131072
