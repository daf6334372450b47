"""The MTP head against its formula, written out in NumPy from the tensors of the file."""

from __future__ import annotations

import contextlib
import io
import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from mlx.utils import tree_flatten
from numpy.typing import NDArray

from paceline.cache.slot_plan import LAYOUTS, PADDED
from paceline.models.loader import LoadedModel, load
from paceline.models.mtp import MTPHead, build
from paceline.types import Speculation
from tests import synthetic
from tests.engine.stepper import Stepper, loaded
from tests.memory import held
from tests.reference import greedy_text

Tiny = Callable[..., Path]
Floats = NDArray[np.float64]
FAMILIES = ["hybrid", "hybrid_moe"]


# -- the formula


class Formula:
    """The head as its authors define it: every norm multiplies by 1 + its weight, gate and up are one tensor."""

    def __init__(self, folder: Path, tensors: Mapping[str, mx.array] | None = None) -> None:
        found = stored(folder) if tensors is None else tensors
        self.tensors = {name: np.array(array.astype(mx.float32), dtype=np.float64) for name, array in found.items()}
        self.text = json.loads((folder / "config.json").read_text())["text_config"]

    def __call__(self, embeddings: mx.array, hidden: mx.array) -> Floats:
        """Of one row from its beginning: (tokens, hidden) twice -> (tokens, hidden)."""
        parts = [
            self.norm("pre_fc_norm_embedding", np.array(embeddings, dtype=np.float64)),
            self.norm("pre_fc_norm_hidden", np.array(hidden, dtype=np.float64)),
        ]
        x = self.linear("fc", np.concatenate(parts, axis=-1))
        x = x + self.attention(self.norm("layers.0.input_layernorm", x))
        x = x + self.mlp(self.norm("layers.0.post_attention_layernorm", x))
        return self.norm("norm", x)

    def norm(self, name: str, x: Floats) -> Floats:
        scale = np.sqrt((x**2).mean(axis=-1, keepdims=True) + self.text["rms_norm_eps"])
        normed: Floats = x / scale * (1 + self.tensors[f"{name}.weight"])
        return normed

    def linear(self, name: str, x: Floats) -> Floats:
        return x @ self.tensors[f"{name}.weight"].T

    def attention(self, x: Floats) -> Floats:
        place, size = "layers.0.self_attn", self.text["head_dim"]
        heads, shared = self.text["num_attention_heads"], self.text["num_key_value_heads"]
        queries, gate = np.split(self.linear(f"{place}.q_proj", x).reshape(len(x), heads, 2 * size), 2, axis=-1)
        keys = self.linear(f"{place}.k_proj", x).reshape(len(x), shared, size)
        values = self.linear(f"{place}.v_proj", x).reshape(len(x), shared, size)
        queries = self.rotated(self.norm(f"{place}.q_norm", queries))
        keys = np.repeat(self.rotated(self.norm(f"{place}.k_norm", keys)), heads // shared, axis=1)
        values = np.repeat(values, heads // shared, axis=1)
        scores = np.einsum("qhd,khd->hqk", queries, keys) / np.sqrt(size)
        scores = np.where(np.tri(len(x), dtype=bool), scores, -np.inf)
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        weights /= weights.sum(axis=-1, keepdims=True)
        out = np.einsum("hqk,khd->qhd", weights, values) * sigmoid(gate)
        return self.linear(f"{place}.o_proj", out.reshape(len(x), -1))

    def rotated(self, x: Floats) -> Floats:
        """A share of each head is rotated, first half against second."""
        rope = self.text["rope_parameters"]
        half = int(x.shape[-1] * rope["partial_rotary_factor"]) // 2
        angles = np.arange(len(x))[:, None] * rope["rope_theta"] ** (-np.arange(half) / half)
        cos, sin = np.cos(angles)[:, None], np.sin(angles)[:, None]
        first, second, rest = x[..., :half], x[..., half : 2 * half], x[..., 2 * half :]
        return np.concatenate([first * cos - second * sin, first * sin + second * cos, rest], axis=-1)

    def mlp(self, x: Floats) -> Floats:
        place = "layers.0.mlp"
        if f"{place}.gate_proj.weight" in self.tensors:
            return self.gated(place, x)
        joined, down = self.tensors[f"{place}.experts.gate_up_proj"], self.tensors[f"{place}.experts.down_proj"]
        chances = self.linear(f"{place}.gate", x)
        chances = np.exp(chances - chances.max(axis=-1, keepdims=True))
        out = sigmoid(self.linear(f"{place}.shared_expert_gate", x)) * self.gated(f"{place}.shared_expert", x)
        for token, chance in enumerate(chances):
            best = np.argsort(-chance)[: self.text["num_experts_per_tok"]]
            for expert in best:
                gate, up = np.split(joined[expert] @ x[token], 2)
                out[token] += chance[expert] / chance[best].sum() * (down[expert] @ (gate * sigmoid(gate) * up))
        return out

    def gated(self, place: str, x: Floats) -> Floats:
        gate = self.linear(f"{place}.gate_proj", x)
        return self.linear(f"{place}.down_proj", gate * sigmoid(gate) * self.linear(f"{place}.up_proj", x))


def sigmoid(x: Floats) -> Floats:
    return 1 / (1 + np.exp(-x))


def stored(folder: Path, prefix: str = "mtp.") -> dict[str, mx.array]:
    """The head's tensors as the file has them."""
    everything: Any = mx.load(str(folder / "model.safetensors"))
    return {name.removeprefix(prefix): array for name, array in everything.items() if name.startswith(prefix)}


# -- what a head is asked


def head_of(model: LoadedModel) -> MTPHead:
    assert isinstance(model.head, MTPHead), model.head
    return model.head


def parameters(head: MTPHead) -> dict[str, mx.array]:
    flat: Any = tree_flatten(head.module.parameters())
    return dict(flat)


def pairs(head: MTPHead, rows: int, width: int, seed: int = 0) -> tuple[mx.array, mx.array]:
    rng = np.random.default_rng(seed)
    tokens = mx.array(rng.integers(0, 400, (rows, width)))
    embeddings = head.language.embed(tokens)
    return embeddings, mx.array(rng.standard_normal(embeddings.shape).astype(np.float32))


def in_steps(
    head: MTPHead, embeddings: mx.array, hidden: mx.array, widths: list[int], layout: str = "padded"
) -> mx.array:
    """The head's hidden states, fed in steps of these widths, all rows together."""
    batch = head.batch(LAYOUTS[layout], len(embeddings))
    outputs, start = [], 0
    for width in widths:
        batch.begin(width)
        outputs.append(head.hidden(embeddings[:, start : start + width], hidden[:, start : start + width], batch))
        batch.commit()
        start += width
    return mx.concatenate(outputs, axis=1)


def far(ours: mx.array, expected: Floats) -> float:
    return float(np.abs(np.array(ours, dtype=np.float64) - expected).max() / np.abs(expected).max())


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("family", FAMILIES)
def test_the_head_is_its_formula(tiny: Tiny, family: str, layout: str) -> None:
    head, formula = head_of(loaded(tiny(family))), Formula(tiny(family))
    embeddings, hidden = pairs(head, 2, 12)
    out = in_steps(head, embeddings, hidden, [7, 1, 1, 3], layout)
    for row in (0, 1):
        assert far(out[row], formula(embeddings[row], hidden[row])) < 1e-5


@pytest.mark.parametrize("family", FAMILIES)
def test_its_draft_tokens_go_through_the_language_models_output_head(tiny: Tiny, family: str) -> None:
    head, formula = head_of(loaded(tiny(family))), Formula(tiny(family))
    embeddings, hidden = pairs(head, 1, 5)
    expected = formula(embeddings[0], hidden[0]) @ np.array(stored(tiny(family), "lm_head.")["weight"]).T
    assert far(head.language.logits(in_steps(head, embeddings, hidden, [5]))[0], expected) < 1e-5


def test_with_tied_embeddings_its_draft_tokens_go_through_those(tiny: Tiny) -> None:
    folder = tiny("hybrid", layers=4, tied=True)
    head, formula = head_of(loaded(folder)), Formula(folder)
    embeddings, hidden = pairs(head, 1, 5)
    table = np.array(stored(folder, "model.language_model.embed_tokens.")["weight"])
    expected = formula(embeddings[0], hidden[0]) @ table.T
    assert far(head.language.logits(in_steps(head, embeddings, hidden, [5]))[0], expected) < 1e-5


def test_its_draft_tokens_are_often_the_models_own_next_tokens(hybrid: Path) -> None:
    """The formula above may be the wrong one; a head that guesses well is fed what it was made for."""
    model = loaded(hybrid)
    head, prompt = head_of(model), list(range(30, 60))
    text = prompt + greedy_text(hybrid, prompt, 80)
    batch = model.language.batch(PADDED)
    batch.begin(len(text))
    hidden = model.language.hidden(mx.array([text]), batch.layers)
    batch.commit()
    after: Any = mx.argmax(model.language.logits(hidden)[0, 1:], axis=-1).tolist()
    guesses = in_steps(head, model.language.embed(mx.array([text[1:]])), hidden[:, :-1], [len(text) - 1])
    found: Any = mx.argmax(head.language.logits(guesses)[0], axis=-1).tolist()
    right = [guess == token for guess, token in zip(found, after, strict=True)][len(prompt) :]
    assert sum(right) > 0.3 * len(right)


# -- what it shares


@pytest.mark.parametrize("family", FAMILIES)
def test_the_head_has_no_embedding_and_no_output_head_of_its_own(tiny: Tiny, family: str) -> None:
    model = loaded(tiny(family))
    head = head_of(model)
    assert head.language is model.language
    assert not any("embed_tokens" in name or "lm_head" in name for name in parameters(head))
    assert head.nbytes == sum(array.nbytes for array in stored(tiny(family)).values())
    theirs: Any = tree_flatten(model.language.module.parameters())
    tower = model.vision.tower_bytes if model.vision else 0
    assert model.nbytes == head.nbytes + tower + sum(array.nbytes for _, array in theirs)


@pytest.mark.thin(2)
@pytest.mark.parametrize("family", FAMILIES)
def test_loading_a_head_holds_its_own_weights_and_no_copy_of_others(tmp_path: Path, family: str) -> None:
    def grown(**options: Any) -> int:
        folder = synthetic.build(family, tmp_path / str(len(options)), layers=4, vocab=8192, **options)
        before = held()
        models.append(load(str(folder)))
        return held() - before

    models: list[LoadedModel] = []
    without, with_head = grown(mtp=False), grown()
    assert with_head - without < 1.1 * head_of(models[1]).nbytes < 0.5 * models[0].nbytes


def test_a_blank_hidden_state_has_the_models_size_and_type(hybrid: Path) -> None:
    head = head_of(loaded(hybrid))
    assert head.blank.shape == (1, 1, 128) and head.blank.dtype == mx.float32
    assert not np.array(head.blank).any()


# -- converted and quantized checkpoints


def rewrite(folder: Path, change: Callable[[dict[str, mx.array]], None]) -> None:
    """Change the tensors of a checkpoint."""
    [path] = folder.glob("model*.safetensors")
    tensors: Any = mx.load(str(path))
    mx.eval(tensors)
    change(tensors)
    mx.eval(tensors)
    mx.save_safetensors(str(path), tensors, metadata={"format": "mlx"})


def in_mlx_layout(source: Path) -> dict[str, mx.array]:
    """A head's tensors as a converter would write them that knows heads: norms are shifted, experts apart."""
    tensors = {}
    for name, array in stored(source).items():
        if name.endswith("experts.gate_up_proj"):
            place, middle = name.removesuffix("experts.gate_up_proj"), array.shape[1] // 2
            tensors[f"{place}switch_mlp.gate_proj.weight"] = mx.contiguous(array[:, :middle])
            tensors[f"{place}switch_mlp.up_proj.weight"] = mx.contiguous(array[:, middle:])
        elif name.endswith("experts.down_proj"):
            tensors[name.replace("experts.down_proj", "switch_mlp.down_proj.weight")] = array
        else:
            tensors[name] = array + 1 if "norm" in name else array
    return tensors


def converted(source: Path, folder: Path, head: Mapping[str, mx.array], **options: Any) -> Path:
    """mlx-lm's conversion, which drops the head, with this one put back."""
    import mlx_lm

    with contextlib.redirect_stdout(io.StringIO()):
        mlx_lm.convert(str(source), str(folder), **options)
    rewrite(folder, lambda tensors: tensors.update({f"language_model.mtp.{name}": a for name, a in head.items()}))
    return folder


def quantized(tensors: Mapping[str, mx.array], bits: int = 4) -> dict[str, mx.array]:
    result: dict[str, mx.array] = {}
    for name, array in tensors.items():
        if array.ndim > 1 and name != "fc.weight":
            place = name.removesuffix(".weight")
            parts = mx.quantize(array, group_size=64, bits=bits)
            result |= dict(zip((f"{place}.weight", f"{place}.scales", f"{place}.biases"), parts, strict=True))
        else:
            result[name] = array
    return result


def rounded(tensors: Mapping[str, mx.array]) -> dict[str, mx.array]:
    """What quantization leaves of the tensors, under the names of the file. A router keeps eight bits."""
    result = {}
    for name, array in tensors.items():
        if array.ndim > 1 and name != "fc.weight":
            bits = 8 if name.endswith(("mlp.gate.weight", "shared_expert_gate.weight")) else 4
            packed, scales, biases = mx.quantize(array, group_size=64, bits=bits)
            result[name] = mx.dequantize(packed, scales, biases, group_size=64, bits=bits)
        else:
            result[name] = array
    return result


def serves_and_drafts(folder: Path) -> None:
    """A round's text is plain decoding's."""
    texts = []
    choices: tuple[Speculation, ...] = ("off", 3)
    for speculation in choices:
        stepper = Stepper(folder, "similar", speculation=speculation)
        rows = [stepper.greedy(str(length), range(30, 30 + length), 12) for length in (9, 17)]
        stepper.finish()
        texts.append([row.tokens for row in rows])
        assert {len(row.tokens) for row in rows} == {12}
    assert texts[0] == texts[1]


@pytest.mark.parametrize("family", FAMILIES)
def test_a_head_that_was_converted_is_taken_as_it_is(tiny: Tiny, tmp_path: Path, family: str) -> None:
    source = tiny(family)
    folder = converted(source, tmp_path / "converted", in_mlx_layout(source))
    model = loaded(folder)
    theirs, ours = parameters(head_of(loaded(source))), parameters(head_of(model))
    assert theirs.keys() == ours.keys()
    assert all(mx.array_equal(ours[name], theirs[name]) for name in theirs)
    serves_and_drafts(folder)


@pytest.mark.thin(3)
@pytest.mark.parametrize("kept", ["in full", "quantized"])
@pytest.mark.parametrize("family", FAMILIES)
def test_the_head_of_a_quantized_model_is_quantized_like_it(tiny: Tiny, tmp_path: Path, family: str, kept: str) -> None:
    source = tiny(family)
    full = in_mlx_layout(source)
    options = {"quantize": True, "q_bits": 4, "q_group_size": 64, "dtype": "float32"}
    folder = converted(source, tmp_path / "small", full if kept == "in full" else quantized(full), **options)
    head = head_of(loaded(folder))
    layer = head.module.layers[0]
    inner = loaded(folder).language.inner.model.layers[3]
    quantizable = [name for name, array in full.items() if array.ndim > 1 and name != "fc.weight"]
    mine = parameters(head)
    assert all(f"{name.removesuffix('weight')}scales" in mine for name in quantizable)
    assert "fc.scales" not in mine
    assert type(layer.self_attn.q_proj) is type(inner.self_attn.q_proj)
    assert (layer.self_attn.q_proj.bits, layer.self_attn.q_proj.group_size) == (4, 64)
    if family == "hybrid_moe":
        assert layer.mlp.gate.bits == (inner.mlp.gate.bits if kept == "in full" else 4)
        assert layer.mlp.switch_mlp.up_proj.bits == 4
    if kept == "quantized":
        assert all(mx.array_equal(mine[name], array) for name, array in quantized(full).items())
    serves_and_drafts(folder)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_head_that_is_quantized_at_load_is_its_formula_over_rounded_weights(
    tiny: Tiny, tmp_path: Path, family: str
) -> None:
    source = tiny(family)
    options = {"quantize": True, "q_bits": 4, "q_group_size": 64, "dtype": "float32"}
    folder = converted(source, tmp_path / "small", in_mlx_layout(source), **options)
    head = head_of(loaded(folder))
    formula = Formula(source, rounded(stored(source)))
    embeddings, hidden = pairs(head, 1, 6)
    assert far(in_steps(head, embeddings, hidden, [6])[0], formula(embeddings[0], hidden[0])) < 1e-4


def test_a_head_stored_with_other_bits_than_the_model_keeps_them(tiny: Tiny, tmp_path: Path) -> None:
    source = tiny("hybrid")
    head = quantized(in_mlx_layout(source), bits=8)
    options = {"quantize": True, "q_bits": 4, "q_group_size": 64, "dtype": "float32"}
    module = head_of(loaded(converted(source, tmp_path / "small", head, **options))).module
    assert module.layers[0].self_attn.q_proj.bits == 8
    serves_and_drafts(tmp_path / "small")


# -- checkpoints whose head cannot be used


def damaged(source: Path, folder: Path, change: Callable[[dict[str, mx.array]], None]) -> Path:
    shutil.copytree(source, folder)
    rewrite(folder, change)
    return folder


def serves(folder: Path, source: Path) -> None:
    stepper = Stepper(folder, speculation="auto")
    row = stepper.greedy("row", range(30, 45), 8)
    stepper.finish()
    assert row.tokens == greedy_text(source, list(range(30, 45)), 8)
    prompt = row.deltas[0].prompt
    assert prompt is not None and prompt.route == f"plain: {loaded(folder).head}"


def test_a_checkpoint_without_a_head_says_so_and_is_served(tiny: Tiny) -> None:
    folder = tiny("hybrid", layers=4, mtp=False)
    assert loaded(folder).head == "the checkpoint has no MTP head"
    serves(folder, folder)


def without(name: str) -> Callable[[dict[str, mx.array]], None]:
    def change(tensors: dict[str, mx.array]) -> None:
        del tensors[name]

    return change


def cut(name: str) -> Callable[[dict[str, mx.array]], None]:
    def change(tensors: dict[str, mx.array]) -> None:
        tensors[name] = tensors[name][..., 1:]

    return change


def only_the_outside(tensors: dict[str, mx.array]) -> None:
    for name in [name for name in tensors if name.startswith("mtp.layers.")]:
        del tensors[name]


@pytest.mark.thin(4)
@pytest.mark.parametrize(
    ("family", "change", "why"),
    [
        ("hybrid", without("mtp.fc.weight"), "fc"),
        ("hybrid", without("mtp.layers.0.self_attn.q_proj.weight"), "q_proj"),
        ("hybrid", without("mtp.norm.weight"), "norm"),
        ("hybrid", cut("mtp.fc.weight"), "fc"),
        ("hybrid", cut("mtp.layers.0.mlp.down_proj.weight"), "down_proj"),
        ("hybrid", only_the_outside, "it has no layer"),
        ("hybrid_moe", without("mtp.layers.0.mlp.experts.down_proj"), "down_proj"),
        ("hybrid_moe", without("mtp.layers.0.mlp.experts.gate_up_proj"), "down_proj"),
        ("hybrid_moe", cut("mtp.layers.0.mlp.experts.gate_up_proj"), "gate_proj"),
    ],
)
def test_a_damaged_head_is_not_used_and_the_model_is_served(
    tiny: Tiny, tmp_path: Path, family: str, change: Callable[[dict[str, mx.array]], None], why: str
) -> None:
    source = tiny(family, layers=4)
    folder = damaged(source, tmp_path / "damaged", change)
    head = loaded(folder).head
    assert isinstance(head, str)
    assert head.startswith("the MTP head cannot be built: ") and why in head and "\n" not in head
    serves(folder, source)


def test_a_head_with_embeddings_of_its_own_is_not_used(tiny: Tiny, tmp_path: Path) -> None:
    source = tiny("hybrid", layers=4)
    folder = damaged(source, tmp_path / "own", lambda tensors: None)
    config = json.loads((folder / "config.json").read_text())
    config["text_config"]["mtp_use_dedicated_embeddings"] = True
    (folder / "config.json").write_text(json.dumps(config))
    head = loaded(folder).head
    assert isinstance(head, str) and "embeddings of its own" in head
    serves(folder, source)


def test_a_family_whose_head_nobody_builds_says_so(hybrid: Path) -> None:
    """As of Nemotron-H, whose head mlx-lm drops likewise."""
    model = loaded(hybrid)
    answer = build(stored(hybrid), model.language, {**model.config, "model_type": "nemotron_h"}, True)
    assert answer == "Paceline builds no MTP head for nemotron_h yet"
