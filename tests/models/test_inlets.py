"""Media enter a language model for one call, by any of its inlets, and leave nothing behind."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from mlx.utils import tree_flatten
from mlx_lm.models.cache import make_prompt_cache

from paceline.models.inlets import Inlets

IDS = mx.array([[5, 6, 7, 8]])


def model(family: str) -> Any:
    """mlx-lm's Llama takes embeddings as an argument, its GPT-NeoX-like GLM 4 does not."""
    module = importlib.import_module(f"mlx_lm.models.{family}")
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "intermediate_size": 48, "num_attention_heads": 2}
    more = {"num_key_value_heads": 2, "head_dim": 16, "vocab_size": 64, "rms_norm_eps": 1e-5, "rope_theta": 1e4}
    rest = {"attention_bias": False, "partial_rotary_factor": 0.5, "max_position_embeddings": 512}
    mx.random.seed(0)
    return module.Model(module.ModelArgs.from_dict({"model_type": family} | sizes | more | rest))


@pytest.mark.parametrize("family", ["llama", "glm4"])
def test_embeddings_take_the_place_of_tokens_for_one_call(family: str) -> None:
    made = model(family)
    names = [name for name, _ in tree_flatten(made.parameters())]
    expected, other = (np.array(made(ids, cache=make_prompt_cache(made))) for ids in (IDS, IDS + 9))
    inlets = Inlets.of(made)
    assert [name for name, _ in tree_flatten(made.parameters())] == names
    with inlets.given(made.model.embed_tokens(IDS + 9)) as options:
        found = np.array(made(IDS, cache=make_prompt_cache(made), **options))
    assert np.array_equal(found, other) and not np.array_equal(found, expected)
    assert np.array_equal(np.array(made(IDS, cache=make_prompt_cache(made))), expected)


def test_residuals_are_added_before_their_layers() -> None:
    made = model("llama")
    embeddings = made.model.embed_tokens(IDS)
    plain = np.array(made(IDS, cache=make_prompt_cache(made)))
    seen: list[np.ndarray[Any, Any]] = []
    second = made.layers[1]

    class Watched(type(second)):  # type: ignore[misc]
        def __call__(self, x: mx.array, *arguments: Any, **options: Any) -> Any:
            seen.append(np.array(x))
            return super().__call__(x, *arguments, **options)

    second.__class__ = Watched
    inlets = Inlets.of(made, [1])
    shift = mx.zeros_like(embeddings).at[:, 2].add(1.0)
    for residual in (mx.zeros_like(shift), shift):
        with inlets.given(embeddings, [residual]) as options:
            found = np.array(made(IDS, cache=make_prompt_cache(made), **options))
    assert np.allclose(seen[1] - seen[0], np.array(shift), atol=1e-6)
    assert not np.array_equal(found[0, -1], plain[0, -1])
    assert np.array_equal(np.array(made(IDS, cache=make_prompt_cache(made))), plain)


def test_an_error_in_the_call_leaves_nothing_behind(seeing: Callable[[str], Path]) -> None:
    made = model("glm4")
    inlets = Inlets.of(made, [1])
    with pytest.raises(RuntimeError), inlets.given(mx.zeros((1, 4, 32)), [mx.zeros((1, 4, 32))]):
        raise RuntimeError("the call failed")
    assert inlets.residuals[0].value is None
    assert np.array(made(IDS, cache=make_prompt_cache(made))).std() > 0
