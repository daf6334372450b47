"""MTP heads of other families: where they stand, what they compute, and that they draft."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from paceline.cache.slot_plan import PADDED
from paceline.models.description import describe
from paceline.models.files import mtp_prefixes
from paceline.models.loader import load
from paceline.models.mtp import MTPHead
from paceline.models.mtp_recipes import RECIPES, missing, take
from tests.engine.stepper import Stepper
from tests.engine.watched import prompt, usage
from tests.synthetic.mtp_families import FAMILIES, HIDDEN, LAYERS, VOCAB, build

TOKENS = 40


@pytest.fixture(scope="module", params=FAMILIES)
def built(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path, Any, Any]:
    folder, model, parts = build(request.param, tmp_path_factory.mktemp("mtp") / request.param)
    return request.param, folder, model, parts


def tensors_of(file: Path) -> dict[str, mx.array]:
    stored: Any = mx.load(str(file))
    return dict(stored)


def rms(x: mx.array, weight: Any) -> mx.array:
    return mx.fast.rms_norm(x, mx.array(weight), 1e-6)


def expected(name: str, model: Any, parts: Any, embeddings: mx.array, hidden: mx.array) -> mx.array:
    """The head by its formula, with the layer of mlx-lm's own model."""
    family = FAMILIES[name]
    halves = [rms(embeddings, parts["embedding"]), rms(hidden, parts["hidden"])]
    joined = mx.concatenate(halves[::-1] if family.hidden_first else halves, axis=-1)
    width = embeddings.shape[1]
    mask = mx.array(np.tri(width, dtype=bool))
    return rms(model.layers[LAYERS](joined @ mx.array(parts["both"]).T, mask=mask, cache=None), parts["last"])


def test_a_head_computes_what_its_family_defines(built: tuple[str, Path, Any, Any]) -> None:
    name, folder, model, parts = built
    loaded = load(str(folder), "float32")
    head = loaded.head
    assert isinstance(head, MTPHead), head
    assert describe(folder).drafts
    assert head.output is None  # a copy of the language model's, if it has one
    random = np.random.default_rng(1)
    embeddings = head.language.embed(mx.array(random.integers(0, VOCAB, (1, 12))))
    states = mx.array(random.standard_normal((1, 12, HIDDEN)).astype(np.float32))
    # What the engine passes on is the state after the final norm.
    given = rms(states, model.model.norm.weight) if RECIPES[name].before_norm else states
    batch = head.batch(PADDED)
    outputs, start = [], 0
    for width in (5, 1, 6):
        batch.begin(width)
        outputs.append(head.hidden(embeddings[:, start : start + width], given[:, start : start + width], batch))
        batch.commit()
        start += width
    want = expected(name, model, parts, embeddings, states)
    assert mx.allclose(mx.concatenate(outputs, axis=1), want, rtol=1e-3, atol=1e-3)


def test_it_drafts_and_changes_no_token(built: tuple[str, Path, Any, Any]) -> None:
    _, folder, _, _ = built
    told = []
    for speculation in ("off", 2):
        stepper = Stepper(folder, "padded", chunk=16, speculation=speculation)
        ids = [tuple(token % VOCAB for token in prompt(size)) for size in (2, 9, 33)]
        heard = [stepper.greedy(str(len(each)), each, TOKENS) for each in ids]
        stepper.finish()
        told.append([each.tokens for each in heard])
    assert told[0] == told[1]
    accepted = sum(usage(each).accepted_tokens for each in heard)
    rejected = sum(usage(each).rejected_tokens for each in heard)
    assert accepted / (accepted + rejected) > 0.25


def test_a_head_that_the_conversion_dropped_is_missed_by_name(
    built: tuple[str, Path, Any, Any], tmp_path: Path
) -> None:
    name, folder, _, _ = built
    bare = Path(shutil.copytree(folder, tmp_path / name))
    config = json.loads((bare / "config.json").read_text())
    stored = tensors_of(bare / "model.safetensors")
    left = {key: value for key, value in stored.items() if not key.startswith(mtp_prefixes(config))}
    mx.eval(left)
    mx.save_safetensors(str(bare / "model.safetensors"), left)
    head = load(str(bare), "float32").head
    assert isinstance(head, str) and "promises one" in head and "conversion has dropped" in head


@pytest.mark.parametrize("where", ["mtp.safetensors", "mtp/model.safetensors"])
def test_a_head_in_a_file_of_its_own_is_found(built: tuple[str, Path, Any, Any], tmp_path: Path, where: str) -> None:
    """As the family has its tensors, moved out of the model's file."""
    name, folder, _, _ = built
    apart = Path(shutil.copytree(folder, tmp_path / name))
    config = json.loads((apart / "config.json").read_text())
    stored = tensors_of(apart / "model.safetensors")
    head = {key: stored.pop(key) for key in list(stored) if key.startswith(mtp_prefixes(config))}
    mx.eval(stored, head)
    (apart / where).parent.mkdir(exist_ok=True)
    mx.save_safetensors(str(apart / where), head, metadata={"format": "pt"})
    mx.save_safetensors(str(apart / "model.safetensors"), stored, metadata={"format": "pt"})
    one, other = load(str(folder), "float32").head, load(str(apart), "float32").head
    assert isinstance(one, MTPHead) and isinstance(other, MTPHead), other
    tokens = mx.array([[1, 2, 3]])
    outputs = []
    for each in (one, other):
        batch = each.batch(PADDED)
        batch.begin(3)
        outputs.append(each.hidden(each.language.embed(tokens), each.language.embed(tokens), batch))
        batch.commit()
    assert mx.array_equal(outputs[0], outputs[1])


def test_a_sidecar_that_cannot_be_read_leaves_the_model(
    built: tuple[str, Path, Any, Any], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    name, folder, _, _ = built
    bare = Path(shutil.copytree(folder, tmp_path / name))
    config = json.loads((bare / "config.json").read_text())
    stored = tensors_of(bare / "model.safetensors")
    left = {key: value for key, value in stored.items() if not key.startswith(mtp_prefixes(config))}
    mx.eval(left)
    mx.save_safetensors(str(bare / "model.safetensors"), left)
    (bare / "mtp.safetensors").write_bytes(b"nothing")
    model = load(str(bare), "float32")
    assert isinstance(model.head, str) and "cannot be read" in caplog.text
    assert any("MTP head beside the model" in note for note in model.notes)


def test_an_output_head_of_its_own_is_used(tmp_path: Path) -> None:
    folder, _, _ = build("glm4_moe", tmp_path / "glm")
    stored = tensors_of(folder / "model.safetensors")
    name = f"model.layers.{LAYERS}.shared_head.head.weight"
    stored[name] = mx.random.normal(stored[name].shape, key=mx.random.key(3))
    mx.eval(stored)
    mx.save_safetensors(str(folder / "model.safetensors"), stored, metadata={"format": "pt"})
    head = load(str(folder), "float32").head
    assert isinstance(head, MTPHead) and head.output is not None
    states = mx.random.normal((1, 1, HIDDEN), key=mx.random.key(4))
    assert mx.allclose(head.logits(states), states @ stored[name].T, atol=1e-4)
    assert head.nbytes > stored[name].nbytes


def test_tensors_of_a_layer_past_the_last_are_taken_out() -> None:
    config = {"model_type": "glm4_moe", "num_hidden_layers": 3}
    tensors = {name: mx.zeros(1) for name in ("model.layers.2.a", "model.layers.3.eh_proj.weight", "mtp.b", "lm_head")}
    assert set(take(tensors, config)) == {"eh_proj.weight", "b"}
    assert set(tensors) == {"model.layers.2.a", "mtp.b", "lm_head"}


@pytest.mark.parametrize("layers", [0, None, 1])
def test_a_checkpoint_that_promised_nothing_is_not_reproached(layers: int | None) -> None:
    said = missing({"model_type": "mimo", "num_nextn_predict_layers": layers})
    assert said.startswith("the checkpoint has no MTP head") and ("promises" in said) == (layers == 1)
