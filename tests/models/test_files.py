"""A model folder that is wrong: one clear line that says what, exit code 2, no traceback."""

from __future__ import annotations

import json
import logging
import os
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mlx.utils import tree_flatten

from paceline.errors import LoadError
from paceline.models.files import (
    DEFAULT_DESCRIPTION,
    DEFAULT_MODEL,
    EMBEDDED,
    check_weights,
    context_length,
    embedded,
    longest_context,
    one_line,
    read_config,
    resolve,
)
from paceline.models.loader import load
from paceline.requests import ChatRequest
from paceline.service import Service
from paceline.settings import Settings
from paceline.types import Sampling
from tests import synthetic
from tests.lengths import examples
from tests.models import families

Tiny = Callable[..., Path]
Spoil = Callable[[Path], None]
OFFLINE = {"HF_HUB_OFFLINE": "1", "NO_COLOR": "1", "COLUMNS": "500"}


# -- how each folder is spoiled


def without(name: str) -> Spoil:
    return lambda folder: (folder / name).unlink()


def with_text(name: str, text: str) -> Spoil:
    def spoil(folder: Path) -> None:
        (folder / name).write_text(text)

    return spoil


def with_config(**changes: Any) -> Spoil:
    def spoil(folder: Path) -> None:
        path = folder / "config.json"
        config = {**json.loads(path.read_text()), **changes}
        path.write_text(json.dumps({name: value for name, value in config.items() if value is not None}))

    return spoil


def with_bytes(change: Callable[[bytes], bytes]) -> Spoil:
    def spoil(folder: Path) -> None:
        path = folder / "model.safetensors"
        path.write_bytes(change(path.read_bytes()))

    return spoil


def other_weights(name: str) -> Spoil:
    """The weights of another family of mlx-lm's, beside this folder's tokenizer."""

    def spoil(folder: Path) -> None:
        config = families.FAMILIES[name]
        arrays: Any = tree_flatten(families.build(config).parameters())
        (folder / "model.safetensors.index.json").unlink()
        mx.save_safetensors(str(folder / "model.safetensors"), dict(arrays))
        (folder / "config.json").write_text(json.dumps({**config, "bos_token_id": 0, "eos_token_id": 1}))

    return spoil


SPOILED: dict[str, tuple[str, Spoil, str]] = {
    "no config": ("llama", without("config.json"), "has no config.json, so it is no model folder"),
    "config is no JSON": ("llama", with_text("config.json", "{nope"), "config.json cannot be read: Expecting property"),
    "config is a list": ("llama", with_text("config.json", "[]"), "config.json names no model_type"),
    "config without a type": ("llama", with_config(model_type=None), "config.json names no model_type"),
    "unknown architecture": ("llama", with_config(model_type="frob"), "(frob) cannot be loaded: Model type frob not"),
    "an encoder": ("llama", with_config(model_type="bert"), "is an encoder of BERT's family (bert), and only models"),
    "a cross-encoder": (
        "llama",
        with_config(architectures=["Qwen3ForSequenceClassification"]),
        "is a classifier or cross-encoder (Qwen3ForSequenceClassification), and only models that write text",
    ),
    "a size is missing": ("llama", with_config(hidden_size=None), "(llama) cannot be loaded: ModelArgs.__init__() mi"),
    "a size is wrong": ("llama", with_config(hidden_size=64), "cannot be loaded: Expected shape (512, 64) but recei"),
    "a layer is missing": ("llama", with_config(num_hidden_layers=5), "parameters: model.layers."),
    "no weights": ("llama", without("model.safetensors"), "lacks 1 of its weight files, model.safetensors first"),
    "cut in half": ("llama", with_bytes(lambda data: data[: len(data) // 2]), "model.safetensors is damaged: it shou"),
    "one byte short": ("llama", with_bytes(lambda data: data[:-1]), "model.safetensors is damaged: it should have"),
    "longer than it says": ("llama", with_bytes(lambda data: data + b"more"), "is damaged: it should have"),
    "empty weights": ("llama", with_bytes(lambda data: b""), "model.safetensors is damaged: unpack requires"),
    "header cut off": ("llama", with_bytes(lambda data: data[:100]), "is damaged: its header is cut off"),
    "header is noise": ("llama", with_bytes(lambda data: data[:8] + b"x" * 40 + data[48:]), "is damaged: Expecting"),
    "index is damaged": ("llama", with_text("model.safetensors.index.json", '{"weight_map": [1]}'), "json is damaged"),
    "no tokenizer": ("llama", without("tokenizer.json"), "has no tokenizer.json, and no tokenizer can be made of"),
    "preprocessor is no JSON": ("hybrid", with_text("preprocessor_config.json", "{"), "cannot be built: "),
    "a cache without a row form": ("llama", other_weights("llama4"), "llama4 keeps its context in a ChunkedKVCache, "),
    "wrong in a batch": ("llama", other_weights("gpt_bigcode"), "does not give the same answers in a batch as alone"),
}

# Serves every folder it is given, in one process, for to import MLX takes seconds.
SERVE_ALL = """
import signal, sys
from paceline import cli
for folder in sys.argv[1:]:
    signal.alarm(120)  # the end, if one of them is served
    print("serving", folder, file=sys.stderr, flush=True)
    try:
        cli.app(["serve", folder, "--port", "0", "--log-level", "warning"], prog_name="paceline")
    except SystemExit as end:
        print("exit code", end.code, file=sys.stderr, flush=True)
"""


@pytest.fixture(scope="module")
def spoiled(tiny: Tiny, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    home = tmp_path_factory.mktemp("spoiled")
    folders = {}
    for place, (name, (family, spoil, _)) in enumerate(SPOILED.items()):
        folders[name] = Path(shutil.copytree(tiny(family), home / f"model-{place}"))
        spoil(folders[name])
    return folders


@pytest.fixture(scope="module")
def complaints(spoiled: dict[str, Path]) -> dict[str, list[str]]:
    """What `paceline serve` wrote to stderr for each folder, the exit code last."""
    command = [sys.executable, "-c", SERVE_ALL, *map(str, spoiled.values())]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **OFFLINE}, timeout=500)
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    heard = [part.splitlines()[1:] for part in done.stderr.split("serving ")[1:]]
    return dict(zip(spoiled, heard, strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("name", SPOILED)
def test_serving_it_is_one_clear_line_and_exit_code_2(complaints: dict[str, list[str]], name: str) -> None:
    line, code = complaints[name]
    assert line.startswith("paceline: error: ")
    assert SPOILED[name][2] in line
    assert code == "exit code 2"


@pytest.mark.parametrize("command", ["serve", "chat"])
def test_the_process_ends_with_2_and_without_a_traceback(tmp_path: Path, command: str) -> None:
    arguments = [sys.executable, "-m", "paceline", command, str(tmp_path / "none")]
    done = subprocess.run(arguments, capture_output=True, text=True, env={**os.environ, **OFFLINE}, timeout=240)
    assert done.returncode == 2
    errors = [line for line in done.stderr.splitlines() if " INFO " not in line]
    assert errors == [
        f"paceline: error: There is no folder {tmp_path / 'none'}, "
        "and it is no Hugging Face id (which looks like owner/name)."
    ]


# -- the pieces


def test_a_folder_is_taken_as_it_is(llama: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert resolve(str(llama)) == llama
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "models").mkdir()
    assert resolve("~/models") == tmp_path / "models"


@pytest.mark.parametrize("name", ["paceline-mini", "paceline-mini-draft"])
def test_a_model_that_the_package_carries_is_found_by_its_name(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = resolve(name)
    assert (folder.parent, folder.name) == (EMBEDDED, name)
    assert read_config(folder)["model_type"] == "qwen3_5"
    assert check_weights(folder)
    assert name in embedded()


def test_a_folder_here_wins_over_the_model_of_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "paceline-mini").mkdir()
    assert resolve("paceline-mini") == Path("paceline-mini")
    (tmp_path / "paceline-mini-draft").write_text("a file")
    with pytest.raises(LoadError, match="paceline-mini-draft is a file; give the folder"):
        resolve("paceline-mini-draft")


@pytest.mark.parametrize("source", ["./paceline-mini", "embedded/paceline-mini/", "paceline-mini/", "Paceline-Mini"])
def test_a_model_that_the_package_carries_is_found_by_nothing_but_its_name(
    source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(LoadError, match="no folder"):
        resolve(source)


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("./nowhere", "There is no folder ./nowhere"),
        ("/nowhere/at/all", "There is no folder /nowhere/at/all"),
        ("~/nowhere/at/all", "There is no folder ~/nowhere/at/all"),
        ("nowhere", "There is no folder nowhere, and it is no Hugging Face id"),
        ("paceline-maxi", "none of the models that Paceline carries (paceline-mini, paceline-mini-draft)."),
        ("a/b/c", "There is no folder a/b/c, and it is no Hugging Face id"),
        (__file__, "is a file; give the folder that holds config.json"),
    ],
)
def test_a_source_that_is_nothing_is_named(source: str, words: str) -> None:
    with pytest.raises(LoadError, match="^[^\n]*$") as refusal:
        resolve(source)
    assert words in str(refusal.value)


def test_a_hub_that_cannot_be_reached_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    constants: Any = pytest.importorskip("huggingface_hub.constants")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(LoadError, match="owner/name is neither a folder here nor cached, and the hub cannot be"):
        resolve("owner/name")


def test_a_missing_shard_is_counted_and_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(synthetic.weights, "SHARD_BYTES", 1 << 20)
    folder = synthetic.build("llama", tmp_path / "model")
    shards = sorted(folder.glob("model*.safetensors"))
    assert check_weights(folder) == shards and len(shards) > 3
    for shard in shards[1:3]:
        shard.unlink()
    with pytest.raises(LoadError, match=f"lacks 2 of its weight files, {shards[1].name} first"):
        check_weights(folder)


def test_weights_without_an_index_need_one_file_at_least(llama: Path, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_bytes((llama / "config.json").read_bytes())
    with pytest.raises(LoadError, match=r"has no model\*.safetensors weights"):
        check_weights(tmp_path)
    shutil.copy(llama / "model.safetensors", tmp_path)
    assert check_weights(tmp_path) == [tmp_path / "model.safetensors"]


def test_only_the_weights_that_mlx_lm_reads_are_downloaded_and_missed(
    llama: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Mistral's repositories hold everything twice: as shards, and consolidated."""
    asked: list[list[str]] = []

    def download(source: str, allow_patterns: list[str]) -> str:
        asked.append(allow_patterns)
        return str(tmp_path)

    monkeypatch.setattr("huggingface_hub.snapshot_download", download)
    assert resolve("owner/name") == tmp_path
    hub: Any = pytest.importorskip("huggingface_hub.utils")
    files = ["config.json", "model-00001-of-00002.safetensors", "consolidated.safetensors", "chat_template.jinja"]
    wanted = list(hub.filter_repo_objects(files, allow_patterns=asked[0]))
    assert wanted == ["config.json", "model-00001-of-00002.safetensors", "chat_template.jinja"]

    shutil.copy(llama / "model.safetensors", tmp_path)
    index = {"weight_map": {"a": "model.safetensors", "b": "consolidated.safetensors"}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    assert check_weights(tmp_path) == [tmp_path / "model.safetensors"]


def test_the_configuration_is_read(llama: Path) -> None:
    assert read_config(llama)["model_type"] == "llama"


def test_a_long_complaint_of_a_library_becomes_one_short_line() -> None:
    assert one_line(ValueError("Missing 2 parameters: \na,\nb.")) == "Missing 2 parameters: a, b."
    assert one_line(KeyError()) == "KeyError"
    long = one_line(ValueError("many " * 1000))
    assert len(long) < 250 and long.endswith("...")


JSON = st.recursive(
    st.none() | st.integers(-(2**40), 2**40) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
ENTRY = st.fixed_dictionaries({"dtype": st.just("F32"), "shape": JSON, "data_offsets": JSON}) | JSON


@settings(max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(header=st.dictionaries(st.text(max_size=3), ENTRY, max_size=3) | JSON, tail=st.binary(max_size=40))
def test_any_header_is_accepted_or_refused_in_one_line(tmp_path: Path, header: Any, tail: bytes) -> None:
    text = json.dumps(header).encode()
    (tmp_path / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + tail)
    try:
        check_weights(tmp_path)
    except LoadError as refusal:
        assert "model.safetensors is damaged" in str(refusal)
        assert "\n" not in str(refusal)


@settings(max_examples=examples(100), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(index=st.fixed_dictionaries({"weight_map": JSON}) | JSON)
def test_any_index_is_accepted_or_refused_in_one_line(llama: Path, tmp_path: Path, index: Any) -> None:
    if not (tmp_path / "model.safetensors").exists():
        shutil.copy(llama / "model.safetensors", tmp_path)
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    try:
        check_weights(tmp_path)
    except LoadError as refusal:
        assert "\n" not in str(refusal)


def test_tensors_that_overlap_or_lie_about_their_shape_are_refused(llama: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(llama, tmp_path / "model"))
    path = folder / "model.safetensors"
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    header["model.norm.weight"]["shape"] = [64]
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data[8 + length :])
    with pytest.raises(LoadError, match="^[^\n]*$"):
        load(str(folder))


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


HELLO = [{"role": "user", "content": "Hello!"}]


@pytest.mark.slow
@pytest.mark.thin(2)
@pytest.mark.parametrize(
    ("model", "name", "prefix"),
    [(None, "paceline-mini", "No model was given: "), ("paceline-mini-draft", "paceline-mini-draft", "")],
)
async def test_an_embedded_model_answers_and_the_log_says_what_it_is(
    model: str | None,
    name: str,
    prefix: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / DEFAULT_MODEL).mkdir()  # a folder here is asked for by name, never by giving none
    with caplog.at_level(logging.INFO, "paceline"):
        async with Service(Settings(model=model, prefill_chunk=64)) as service:
            answer = await service.chat(ChatRequest(HELLO, Sampling(temperature=0, max_tokens=40)))
            info = service.stats().model
    note = f"{name} is {DEFAULT_DESCRIPTION}."
    assert [line for line in caplog.messages if "demonstration" in line] == [prefix + note]
    assert info is not None and service.model_name == info.name == name
    assert info.notes == (note,)
    assert answer.choices[0].text.strip()


async def test_another_model_is_not_called_a_demonstration(llama: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "paceline"):
        async with Service(Settings(model=str(llama), prefill_chunk=64)) as service:
            info = service.stats().model
            assert info is not None and info.notes == ()
    assert not any("demonstration" in line for line in caplog.messages)
