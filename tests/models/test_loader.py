"""One load per checkpoint: arrays shared, files read once, memory bounded, quantized and bf16 as mlx-lm has them."""

from __future__ import annotations

import contextlib
import importlib
import io
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from mlx.utils import tree_flatten
from PIL import Image

from paceline.errors import LoadError
from paceline.models.loader import LoadedModel, load
from paceline.models.vision import Vision
from paceline.types import Prompt
from tests import synthetic
from tests.engine.stepper import Stepper, loaded
from tests.memory import held
from tests.reference import greedy_images, greedy_text, load_images

Tiny = Callable[..., Path]
LARGE = {"hidden": 384, "intermediate": 1152, "heads": 8, "vision_hidden": 256, "vision_layers": 4}  # 60 to 100 MB
EXPERTS = {"experts": 8, "expert_intermediate": 256}
PROCESS_IO = Path("/proc/self/io")


def parameters(module: Any) -> dict[str, mx.array]:
    flat: Any = tree_flatten(module.parameters())
    return dict(flat)


def head_of(model: LoadedModel) -> dict[str, mx.array]:
    return {} if isinstance(model.head, str) else parameters(model.head.module)


def peak_over_weights(folder: Path) -> float:
    before = held()
    mx.reset_peak_memory()
    model = load(str(folder), "float32")
    return (mx.get_peak_memory() - before) / model.nbytes


# -- one load


@pytest.mark.parametrize("family", ["hybrid", "hybrid_moe"])
def test_the_vision_language_view_holds_the_same_arrays(tiny: Tiny, family: str) -> None:
    model = loaded(tiny(family))
    assert model.vision is not None
    language, view = parameters(model.language.module), parameters(model.vision.view)
    tower = {name for name in view if name.startswith("vision_tower.")}
    assert tower and view.keys() - tower == language.keys()
    assert all(view[name] is array for name, array in language.items())


def test_the_vision_language_view_adds_the_tower_and_nothing_else(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tiny("hybrid", **LARGE)
    load(str(folder))  # whatever is allocated once a process
    grown: list[int] = []
    build = Vision.build.__func__  # type: ignore[attr-defined]

    def measured(kind: type[Vision], *arguments: Any, **options: Any) -> Any:
        before = mx.get_active_memory()
        vision = build(kind, *arguments, **options)
        grown.append(mx.get_active_memory() - before)
        return vision

    monkeypatch.setattr(Vision, "build", classmethod(measured))
    before = held()
    model = load(str(folder))
    assert model.vision is not None and model.vision.tower_bytes > 5e6
    assert grown[0] < 1e5  # the tower's tensors were read with the others
    assert held() - before == pytest.approx(model.nbytes, rel=0.01)


def test_a_model_that_is_dropped_gives_its_memory_back(tiny: Tiny) -> None:
    folder = tiny("hybrid", **LARGE)
    load(str(folder))
    before = held()
    model = load(str(folder))
    assert held() - before > 5e7
    del model
    assert held() - before < 1e5


@pytest.mark.parametrize("family", ["qwen3", "hybrid_moe"])
def test_no_weight_file_is_read_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, family: str) -> None:
    monkeypatch.setattr(synthetic.weights, "SHARD_BYTES", 1 << 20)
    folder = synthetic.build(family, tmp_path / "model")
    reads: Counter[str] = Counter()
    read: Any = mx.load

    def counted(file: Any, *arguments: Any, **options: Any) -> Any:
        reads[str(file)] += 1
        return read(file, *arguments, **options)

    monkeypatch.setattr(mx, "load", counted)
    load(str(folder))
    shards = [str(path) for path in folder.glob("*.safetensors")]
    assert len(shards) > 2
    assert reads == Counter(shards)


@pytest.mark.skipif(not PROCESS_IO.exists(), reason="only Linux counts what a process reads")
def test_the_bytes_read_are_the_bytes_in_the_files(tiny: Tiny) -> None:
    def bytes_read() -> int:
        try:
            found = re.search(r"rchar: (\d+)", PROCESS_IO.read_text())
        except PermissionError:
            pytest.skip("this sandbox does not say what a process reads")
        assert found is not None
        return int(found[1])

    folder = tiny("hybrid", **LARGE)
    load(str(tiny("hybrid")))  # imports read files too
    before = bytes_read()
    load(str(folder))
    assert bytes_read() - before < 1.05 * sum(path.stat().st_size for path in folder.iterdir())


@pytest.mark.thin(2)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(("family", "more"), [("hybrid", {}), ("hybrid_moe", EXPERTS)])
def test_loading_never_holds_much_more_than_the_weights(
    tiny: Tiny, family: str, more: dict[str, int], dtype: str
) -> None:
    assert peak_over_weights(tiny(family, dtype=dtype, **LARGE, **more)) < 1.1


def test_a_large_head_is_not_converted_on_top_of_all_the_rest(tiny: Tiny) -> None:
    # Embedding and head are two fifths of the weights each: converted last, the head's bf16 form would be a fifth more.
    assert peak_over_weights(tiny("qwen3", dtype="bfloat16", vocab=32768, hidden=256, layers=8)) < 1.1


def test_progress_counts_the_bytes_of_the_weights(tiny: Tiny) -> None:
    seen: list[tuple[str, int, int]] = []
    model = load(str(tiny("hybrid")), "float32", lambda *step: seen.append(step))
    counts = [done for _, done, _ in seen]
    assert counts == sorted(counts) and len(counts) > 3
    assert len({stage for stage, _, _ in seen}) == 1
    assert {total for _, _, total in seen} == {model.nbytes}
    assert counts[-1] == model.nbytes


# -- what is kept


@pytest.mark.parametrize("family", ["hybrid", "hybrid_moe"])
def test_the_draft_head_has_all_of_the_files_tensors_and_nothing_else(tiny: Tiny, family: str) -> None:
    folder = tiny(family)
    stored: Any = mx.load(str(folder / "model.safetensors"))
    head = {name.removeprefix("mtp."): array for name, array in stored.items() if name.startswith("mtp.")}
    kept = head_of(loaded(folder))
    assert sum(array.size for array in kept.values()) == sum(array.size for array in head.values())
    shared = kept.keys() & head.keys()
    assert {"fc.weight", "layers.0.self_attn.q_proj.weight"} <= shared
    assert all(mx.array_equal(kept[name], head[name]) for name in shared if "norm" not in name)


@pytest.mark.parametrize("prefix", ["mtp.", "language_model.mtp.", "model.mtp."])
def test_the_draft_head_is_found_under_every_name_it_is_saved_with(tmp_path: Path, prefix: str) -> None:
    folder = synthetic.build("hybrid", tmp_path / "model", layers=4)
    path = str(folder / "model.safetensors")
    stored: Any = mx.load(path)
    renamed = {re.sub(r"^mtp\.", prefix, name): array for name, array in stored.items()}
    mx.eval(renamed)
    mx.save_safetensors(path, renamed)
    assert "layers.0.self_attn.q_proj.weight" in head_of(load(str(folder)))


def test_a_checkpoint_without_a_draft_head_or_a_tower_says_so_and_loads(tmp_path: Path) -> None:
    folder = synthetic.build("hybrid", tmp_path / "model", layers=4, mtp=False)
    path = str(folder / "model.safetensors")
    stored: Any = mx.load(path)
    text_only = {name: array for name, array in stored.items() if ".visual." not in name}
    mx.eval(text_only)
    mx.save_safetensors(path, text_only)
    model = load(str(folder))
    assert (model.vision, model.head) == (None, "the checkpoint has no MTP head")
    assert model.notes == ["model has no vision weights: text only."]


def test_a_tower_that_lacks_a_tensor_is_refused(tmp_path: Path) -> None:
    folder = synthetic.build("hybrid", tmp_path / "model", layers=4)
    path = str(folder / "model.safetensors")
    stored: Any = mx.load(path)
    mx.eval(stored)
    del stored["model.visual.merger.linear_fc1.weight"]
    mx.save_safetensors(path, stored)
    with pytest.raises(LoadError, match="vision tower .* cannot be built.*linear_fc1") as refusal:
        load(str(folder))
    assert "\n" not in str(refusal.value)


# -- numbers


def dtypes(model: LoadedModel) -> set[mx.Dtype]:
    arrays = [*parameters(model.language.module).values(), *head_of(model).values()]
    if model.vision is not None:
        arrays += parameters(model.vision.view).values()
    return {array.dtype for array in arrays}


def test_a_dtype_that_is_asked_for_is_everywhere(tiny: Tiny) -> None:
    folder = tiny("hybrid", dtype="bfloat16")
    assert dtypes(load(str(folder), "float32")) == {mx.float32}
    narrow = load(str(folder), "float16")
    wide = [name for name, array in parameters(narrow.language.module).items() if array.dtype != mx.float16]
    assert dtypes(narrow) == {mx.float16, mx.float32}
    assert wide and all(name.endswith("A_log") for name in wide)  # decays stay as exact as mlx-lm keeps them


def test_the_cpu_computes_in_float32_and_a_gpu_in_the_checkpoints_type(
    tiny: Tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tiny("llama", dtype="bfloat16")
    monkeypatch.setattr(mx, "default_device", lambda: mx.Device(mx.cpu))
    assert dtypes(load(str(folder))) == {mx.float32}
    monkeypatch.setattr(mx, "default_device", lambda: mx.Device(mx.gpu))
    assert dtypes(load(str(folder))) == {mx.bfloat16}


def prompts() -> list[list[int]]:
    return [np.random.default_rng(length).integers(0, 480, length).tolist() for length in (1, 12, 45)]


def assert_batched_equals_mlx_lm(folder: Path) -> None:
    """Greedy tokens of three rows together against mlx-lm on the same weights, in float32 on both sides."""
    import mlx_lm

    reference: Any = mlx_lm.load(str(folder))[0]
    reference.set_dtype(mx.float32)
    stepper = Stepper(folder, "similar", chunk=16)
    heard = [stepper.greedy(str(place), prompt, 16) for place, prompt in enumerate(prompts())]
    stepper.finish()
    assert [row.tokens for row in heard] == [greedy_text(reference, prompt, 16) for prompt in prompts()]


@pytest.mark.thin(5)
@pytest.mark.parametrize("family", ["llama", "qwen3", "window", "hybrid", "hybrid_moe"])
def test_a_bfloat16_checkpoint_gives_mlx_lms_tokens(tiny: Tiny, family: str) -> None:
    assert_batched_equals_mlx_lm(tiny(family, dtype="bfloat16"))


@pytest.mark.thin(4)
@pytest.mark.parametrize("family", ["llama", "qwen3", "hybrid", "hybrid_moe"])
def test_a_checkpoint_that_mlx_lm_quantized_gives_mlx_lms_tokens(tiny: Tiny, tmp_path: Path, family: str) -> None:
    import mlx_lm

    with contextlib.redirect_stdout(io.StringIO()):
        mlx_lm.convert(str(tiny(family, dtype="bfloat16")), str(tmp_path / "small"), quantize=True, q_bits=4)
    model = loaded(tmp_path / "small")
    assert dtypes(model) == {mx.uint32, mx.float32}
    assert model.vision is None and model.notes == []  # mlx-lm keeps the language model only
    assert_batched_equals_mlx_lm(tmp_path / "small")


@pytest.mark.thin(2)
@pytest.mark.parametrize(("family", "tower"), [("hybrid", "as it was"), ("hybrid_moe", "quantized")])
def test_a_checkpoint_that_mlx_vlm_quantized_gives_its_tokens_for_text_and_images(
    tiny: Tiny, tmp_path: Path, family: str, tower: str
) -> None:
    library: Any = importlib.import_module("mlx_vlm.convert")
    options: dict[str, Any] = {}
    if tower == "quantized":
        options["quant_predicate"] = lambda path, module: hasattr(module, "to_quantized")
    folder = tmp_path / "small"
    with contextlib.redirect_stdout(io.StringIO()):
        library.convert(str(tiny(family, dtype="bfloat16")), str(folder), quantize=True, q_bits=4, **options)
    model = loaded(folder)
    assert model.vision is not None
    names = [name for name in parameters(model.vision.view) if name.endswith(".scales")]
    assert any(name.startswith("vision_tower.") for name in names) == (tower == "quantized")
    assert_batched_equals_mlx_lm(folder)

    load_images(folder)[0].set_dtype(mx.float32)
    picture = Image.effect_noise((96, 64), 90).convert("RGB")
    messages = [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "What is this?"}]}]
    expected = greedy_images(folder, messages, [picture], 12)
    stepper = Stepper(folder, "similar", chunk=9)
    heard = stepper.greedy("picture", Prompt(tuple(expected.prompt), (model.vision.preprocess(picture),)), 12)
    other = stepper.greedy("text", prompts()[1], 12)
    stepper.finish()
    assert heard.tokens == expected.tokens
    assert len(other.tokens) == 12
