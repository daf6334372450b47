"""examples/smollm2.py: a GGUF file, as llama.cpp writes it, becomes a folder that mlx-lm reads."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest
from tokenizers import Tokenizer

HEADS, KV_HEADS, WIDTH, HEAD = 4, 2, 32, 8
TOKENS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "h", "i", "Ġ", "1", "2", "hi"]


@pytest.fixture(scope="module")
def example() -> dict[str, Any]:
    return runpy.run_path(str(Path(__file__).parents[2] / "examples" / "smollm2.py"))


def interleaved(weight: mx.array, heads: int) -> mx.array:
    """As llama.cpp stores it: the rotary dimensions of a head are i, i + half, i + 1, i + 1 + half."""
    rows = []
    for head in range(heads):
        for i in range(HEAD // 2):
            rows += [head * HEAD + i, head * HEAD + i + HEAD // 2]
    return weight[mx.array(rows)]


def numbers() -> dict[str, mx.array]:
    llama = {
        "embedding_length": WIDTH,
        "feed_forward_length": 64,
        "block_count": 1,
        "attention.head_count": HEADS,
        "attention.head_count_kv": KV_HEADS,
        "context_length": 128,
        "vocab_size": len(TOKENS),
    }
    floats = {"attention.layer_norm_rms_epsilon": 1e-5, "rope.freq_base": 10000.0}
    ids = {"tokenizer.ggml.bos_token_id": 1, "tokenizer.ggml.eos_token_id": 2}
    return {
        **{f"llama.{key}": mx.array(value, mx.uint32) for key, value in llama.items()},
        **{f"llama.{key}": mx.array(value, mx.float32) for key, value in floats.items()},
        **{key: mx.array(value, mx.uint32) for key, value in ids.items()},
        "tokenizer.ggml.token_type": mx.array([3, 3, 3, 1, 1, 1, 1, 1, 1], mx.int32),
    }


def test_weights_have_mlx_lms_names_and_rows_and_the_tokenizer_reads_text(
    example: dict[str, Any], tmp_path: Path
) -> None:
    query, key = mx.random.normal((HEADS * HEAD, WIDTH)), mx.random.normal((KV_HEADS * HEAD, WIDTH))
    gate = mx.random.normal((64, WIDTH))
    tensors = {
        "token_embd.weight": mx.random.normal((len(TOKENS), WIDTH)),
        "blk.0.attn_q.weight": interleaved(query, HEADS),
        "blk.0.attn_k.weight": interleaved(key, KV_HEADS),
        "blk.0.ffn_gate.weight": gate,
    }
    texts: dict[str, mx.array | str | list[str]] = {
        "tokenizer.ggml.tokens": TOKENS,
        "tokenizer.ggml.merges": ["h i"],
        "tokenizer.chat_template": "{{ messages }}",
    }
    mx.save_gguf(str(tmp_path / "tiny.gguf"), tensors, {**numbers(), **texts})

    example["convert"](tmp_path / "tiny.gguf", tmp_path / "tiny")

    weights = mx.load(str(tmp_path / "tiny" / "model.safetensors"))
    assert isinstance(weights, dict) and len(weights) == 4
    for name, expected in {"self_attn.q_proj": query, "self_attn.k_proj": key, "mlp.gate_proj": gate}.items():
        assert mx.array_equal(weights[f"model.layers.0.{name}.weight"], expected)
    config = json.loads((tmp_path / "tiny" / "config.json").read_text())
    assert (config["num_attention_heads"], config["num_key_value_heads"], config["eos_token_id"]) == (4, 2, 2)
    defaults = json.loads((tmp_path / "tiny" / "generation_config.json").read_text())
    assert defaults == {"do_sample": False}
    about = json.loads((tmp_path / "tiny" / "tokenizer_config.json").read_text())
    assert about == {
        "bos_token": "<|im_start|>",
        "eos_token": "<|im_end|>",
        "tokenizer_class": "PreTrainedTokenizerFast",
        "chat_template": "{{ messages }}",
    }
    tokenizer = Tokenizer.from_file(str(tmp_path / "tiny" / "tokenizer.json"))
    ids = tokenizer.encode("<|im_start|>hi 12<|im_end|>").ids
    assert ids == [1, 8, 5, 6, 7, 2]
    assert tokenizer.decode(ids) == "hi 12"


def test_quantized_blocks_become_dense(example: dict[str, Any]) -> None:
    dense = mx.random.normal((64, WIDTH))
    config = {"num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS}
    for bits in (4, 8):
        packed, scales, biases = mx.quantize(dense, group_size=32, bits=bits)
        name = "blk.0.ffn_up"
        tensors = {f"{name}.weight": packed, f"{name}.scales": scales, f"{name}.biases": biases}
        (made,) = example["dense_weights"](tensors, config).values()
        assert mx.array_equal(made, mx.dequantize(packed, scales, biases, group_size=32, bits=bits))
