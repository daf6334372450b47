from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from PIL import Image

from tests import synthetic
from tests.reference import greedy_images, greedy_text, load_images, load_text

Tiny = Callable[..., Path]
FAMILIES = list(synthetic.FAMILIES)


def prompt(folder: Path, text: str) -> list[int]:
    _, tokenizer = load_text(folder)
    messages = [{"role": "user", "content": text}]
    ids = tokenizer.apply_chat_template(messages, add_generation_prompt=True, enable_thinking=False)
    return [int(token) for token in ids]


def shortest_cycle(tokens: list[int]) -> int | None:
    """The period with which the second half of `tokens` repeats, if it does."""
    tail = len(tokens) // 2
    for period in range(1, tail):
        if tokens[-tail:] == tokens[-tail - period : -period]:
            return period
    return None


@pytest.mark.thin(6)
@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_loads_in_mlx_lm_and_its_text_varies_with_context(tiny: Tiny, family: str) -> None:
    folder = tiny(family)
    first = greedy_text(folder, prompt(folder, "What is the weather?"), 60)
    second = greedy_text(folder, prompt(folder, "Tell me about riders."), 60)
    # Both prompts end in the same tokens, so only what came before can tell them apart.
    assert first != second
    for tokens in (first, second):
        assert len(set(tokens)) > 20
        assert shortest_cycle(tokens) is None


@pytest.mark.parametrize("family", ["hybrid", "hybrid_moe"])
def test_a_hybrid_checkpoint_loads_in_both_libraries(tiny: Tiny, family: str) -> None:
    folder = tiny(family)
    ids = prompt(folder, "The line opens a gap.")
    text_model, _ = load_text(folder)
    image_model, _ = load_images(folder)
    theirs = image_model.language_model(mx.array([ids]), cache=image_model.language_model.make_cache()).logits
    ours = text_model(mx.array([ids]))
    assert float(np.abs(np.array(ours) - np.array(theirs)).max()) < 1e-3


def test_another_image_gives_another_answer(hybrid: Path) -> None:
    part = [{"type": "image"}, {"type": "text", "text": "What is this?"}]
    messages = [{"role": "user", "content": part}]
    noise = np.random.default_rng(0).integers(0, 256, (64, 96, 3), dtype=np.uint8)
    pictures = [Image.fromarray(noise), Image.new("RGB", (96, 64), (200, 30, 30))]
    results = [greedy_images(hybrid, messages, [picture], 24) for picture in pictures]
    placeholder = json.loads((hybrid / "config.json").read_text())["image_token_id"]
    assert results[0].prompt == results[1].prompt
    assert results[0].prompt.count(placeholder) == 6  # 96 x 64 pixels in merged patches of 32 x 32
    assert results[0].tokens != results[1].tokens


def test_without_images_both_references_agree(hybrid: Path) -> None:
    messages = [{"role": "user", "content": "What is the weather?"}]
    result = greedy_images(hybrid, messages, [], 24, enable_thinking=False)
    assert result.prompt == prompt(hybrid, "What is the weather?")
    assert result.tokens == greedy_text(hybrid, result.prompt, 24)


@pytest.mark.slow
@pytest.mark.parametrize("family", ["hybrid", "hybrid_moe"])
def test_the_mtp_head_agrees_with_the_model_about_half_of_the_time(tiny: Tiny, family: str) -> None:
    folder = tiny(family)
    model = load_text(folder)[0].language_model
    head = mtp_head(folder, model.args)
    hits: list[bool] = []
    for text in ("What is the weather?", "def read(path):"):
        ids = prompt(folder, text)
        sequence = ids + greedy_text(folder, ids, 100)
        tokens = mx.array([sequence])
        hidden = model.model(tokens)[:, :-1]
        embedded = model.model.embed_tokens(tokens[:, 1:])
        halves = [head.pre_fc_norm_embedding(embedded), head.pre_fc_norm_hidden(hidden)]
        joined = mx.concatenate(halves, axis=-1)
        drafts = mx.argmax(model.lm_head(head.norm(head.layers[0](head.fc(joined), mask="causal"))), axis=-1)
        drafted = np.array(drafts)[0, len(ids) - 1 : -1]
        hits += list(drafted == np.array(sequence[len(ids) + 1 :]))
    assert 0.3 < float(np.mean(hits)) < 0.8


def mtp_head(folder: Path, arguments: Any) -> Any:
    """The head in plain MLX: Hugging Face's norms are zero-centred, its experts fused."""
    from mlx_lm.models.qwen3_5 import DecoderLayer

    nn: Any = importlib.import_module("mlx.nn")  # its stubs re-export nothing in strict mode
    head = nn.Module()
    size = arguments.hidden_size
    head.fc = nn.Linear(2 * size, size, bias=False)
    for name in ("pre_fc_norm_embedding", "pre_fc_norm_hidden", "norm"):
        setattr(head, name, nn.RMSNorm(size, eps=arguments.rms_norm_eps))
    head.layers = [DecoderLayer(replace(arguments, num_hidden_layers=1, full_attention_interval=1), 0)]
    stored: Any = mx.load(str(folder / "model.safetensors"))
    weights: dict[str, mx.array] = {}
    for key, value in stored.items():
        if not key.startswith("mtp."):
            continue
        name = key.removeprefix("mtp.")
        if "norm" in name:
            weights[name] = value + 1
        elif name.endswith("experts.gate_up_proj"):
            base = name.replace("experts.gate_up_proj", "switch_mlp")
            gate, up = mx.split(value, 2, axis=-2)
            weights[f"{base}.gate_proj.weight"], weights[f"{base}.up_proj.weight"] = gate, up
        elif name.endswith("experts.down_proj"):
            weights[name.replace("experts.down_proj", "switch_mlp.down_proj.weight")] = value
        else:
            weights[name] = value
    head.load_weights(list(weights.items()))
    return head


def test_the_top_two_logits_are_further_apart_than_rounding(llama: Path) -> None:
    model, _ = load_text(llama)
    ids = prompt(llama, "What is the weather?")
    tokens = ids + greedy_text(llama, ids, 200)
    best = np.sort(np.array(model(mx.array([tokens])))[0, len(ids) - 1 :], axis=-1)[:, -2:]
    assert float((best[:, 1] - best[:, 0]).min()) > 1e-4


@pytest.mark.slow
def test_an_answer_ends_by_itself_now_and_then(tiny: Tiny) -> None:
    llama = tiny("llama", layers=4)
    ends = set(json.loads((llama / "generation_config.json").read_text())["eos_token_id"])
    texts = ("What is the weather?", "Tell me about riders.", "one two three")
    answers = [greedy_text(llama, prompt(llama, text), 200) for text in texts]
    assert any(ends & set(answer) for answer in answers)
    assert all(len(ends & set(answer[:5])) == 0 for answer in answers)


@pytest.mark.thin(4)
@pytest.mark.parametrize("kind", ["linear", "dynamic", "yarn", "llama3", "longrope"])
def test_a_scaled_rope_changes_what_is_said(tiny: Tiny, kind: str) -> None:
    plain, scaled = tiny("llama"), tiny("llama", **synthetic.scaled_rope(kind, window=64))
    ids = prompt(plain, "The weather in the mountains changes quickly. " * 6)
    assert len(ids) > 64
    assert greedy_text(scaled, ids, 40) != greedy_text(plain, ids, 40)


def test_a_tied_llama_does_not_repeat_itself(tiny: Tiny) -> None:
    folder = tiny("llama", tied=True)
    tokens = greedy_text(folder, prompt(folder, "What is the weather?"), 80)
    assert shortest_cycle(tokens) is None
    assert len(set(tokens)) > 20


def test_a_failed_build_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="float16"):
        synthetic.build("llama", tmp_path / "model", dtype="float16")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_exists_is_not_overwritten(tmp_path: Path) -> None:
    with pytest.raises(FileExistsError, match="exists"):
        synthetic.build("llama", tmp_path)


def test_the_command_line_sets_the_shape(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    synthetic.main(["qwen3", str(tmp_path / "model"), "--layers", "1", "--tied"])
    config = json.loads((tmp_path / "model" / "config.json").read_text())
    assert (config["num_hidden_layers"], config["tie_word_embeddings"]) == (1, True)
    assert "qwen3" in capsys.readouterr().out
