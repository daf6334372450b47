"""The tensors of synthetic checkpoints, and their files."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest

from tests import synthetic
from tests.reference import greedy_text, load_text
from tests.synthetic.test_models import Tiny, prompt


def test_ids_without_a_word_are_never_said(tiny: Tiny) -> None:
    folder = tiny("llama", vocab=2048)
    _, tokenizer = load_text(folder)
    tokens = greedy_text(folder, prompt(folder, "What is the weather?"), 150)
    markup = {tokenizer.convert_tokens_to_ids(text) for text in ("<think>", "<tool_call>", "<|im_start|>")}
    assert max(tokens) < synthetic.tokenizer.SIZE
    assert not markup & set(tokens)


def test_a_seed_is_one_checkpoint(tmp_path: Path) -> None:
    first = synthetic.build("hybrid", tmp_path / "first", layers=4)
    second = synthetic.build("hybrid", tmp_path / "second", layers=4)
    other = synthetic.build("hybrid", tmp_path / "other", layers=4, seed=1)
    names = sorted(path.name for path in first.iterdir())
    assert [(first / name).read_bytes() for name in names] == [(second / name).read_bytes() for name in names]
    assert (first / "model.safetensors").read_bytes() != (other / "model.safetensors").read_bytes()


def test_bfloat16_is_the_float32_checkpoint_rounded(tiny: Tiny) -> None:
    wide: Any = mx.load(str(tiny("hybrid") / "model.safetensors"))
    narrow: Any = mx.load(str(tiny("hybrid", dtype="bfloat16") / "model.safetensors"))
    assert wide.keys() == narrow.keys()
    for name, value in narrow.items():
        expected = wide[name] if name.endswith("A_log") else wide[name].astype(mx.bfloat16)
        assert value.dtype == expected.dtype
        assert mx.array_equal(value, expected).item()


def test_a_large_checkpoint_is_sharded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = synthetic.build("qwen3", tmp_path / "whole")
    monkeypatch.setattr(synthetic.weights, "SHARD_BYTES", 1 << 20)
    parts = synthetic.build("qwen3", tmp_path / "parts")
    index = json.loads((parts / "model.safetensors.index.json").read_text())["weight_map"]
    assert len(set(index.values())) > 1
    assert set(index.values()) == {path.name for path in parts.glob("*.safetensors")}
    for path in parts.glob("*.safetensors"):
        assert struct.unpack("<Q", path.read_bytes()[:8])[0] % 8 == 0
    ids = prompt(whole, "one two three")
    assert greedy_text(parts, ids, 10) == greedy_text(whole, ids, 10)
