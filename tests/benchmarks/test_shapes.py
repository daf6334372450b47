"""Models of a given shape."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from benchmarks import shapes
from benchmarks.specprefill import (
    SparseBench,
    whole_run,
)
from paceline.errors import LoadError

if TYPE_CHECKING:
    pass


@pytest.mark.slow
def test_a_shape_has_a_shape_for_its_draft(monkeypatch: pytest.MonkeyPatch) -> None:
    small = dict(hidden_size=64, intermediate_size=128, num_attention_heads=2, num_key_value_heads=1, head_dim=64)
    small |= dict(linear_num_key_heads=1, linear_num_value_heads=1, vocab_size=512, tie_word_embeddings=False)
    for name, layers in ("target", 8), ("draft", 4):
        monkeypatch.setitem(shapes.SHAPES, name, shapes._hybrid(**small, num_hidden_layers=layers))
    with SparseBench("target", "draft", prefill_chunk=256, draft_chunk=256) as bench:
        assert bench.relative_size == pytest.approx(0.5, abs=0.01)
        [line] = whole_run(bench, [512], 0.5, 1)
        assert line.sparse[0].kept < 512
    with pytest.raises(LoadError, match="no tokenizer to share"):
        SparseBench("target", "paceline-mini-draft")


def test_the_draft_of_the_gpu_bench_costs_a_twentieth_of_its_target() -> None:
    """By its sizes: in weights, and in heads that attend."""
    target, draft = shapes.SHAPES["qwen3.5-4b"]["text_config"], shapes.SHAPES["qwen3.5-draft"]
    assert draft["vocab_size"] == target["vocab_size"]

    def attending(shape: dict[str, int], layers: int) -> int:
        return layers * shape["num_attention_heads"] * shape["head_dim"]

    def feeding(shape: dict[str, int]) -> int:
        return shape["num_hidden_layers"] * shape["hidden_size"] * shape["intermediate_size"]

    assert 20 * feeding(draft) <= feeding(target)
    assert 20 * attending(draft, draft["num_hidden_layers"]) <= attending(target, target["num_hidden_layers"] // 4)
