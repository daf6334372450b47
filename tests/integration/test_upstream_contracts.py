"""What we rely on in mlx-lm, mlx-vlm and MLX, a test a symbol: when an upgrade breaks one, it is named here."""

from __future__ import annotations

import importlib
import inspect
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from mlx.utils import tree_flatten
from mlx_lm.generate import generate_step
from mlx_lm.models import base, gated_delta, qwen3_5, rope_utils
from mlx_lm.models.cache import ArraysCache, CacheList, KVCache, RotatingKVCache, make_prompt_cache
from mlx_lm.utils import load_model, load_tokenizer
from PIL import Image

from paceline.cache.layers import AttentionCache, CacheGroup, StateCache
from paceline.models import adapter
from tests import synthetic
from tests.engine.stepper import loaded
from tests.memory import held
from tests.reference import load_images, load_text

Tiny = Callable[..., Path]
nn: Any = importlib.import_module("mlx.nn")  # its stubs re-export nothing in strict mode


def names(function: Any) -> list[str]:
    return list(inspect.signature(function).parameters)


def parameters(module: Any) -> dict[str, mx.array]:
    flat: Any = tree_flatten(module.parameters())
    return dict(flat)


def normal(*shape: int) -> mx.array:
    return mx.array(np.random.default_rng(len(shape)).standard_normal(shape).astype(np.float32))


def same(ours: mx.array, theirs: mx.array, within: float = 1e-5) -> bool:
    return float(np.abs(np.array(ours) - np.array(theirs)).max()) <= within


# -- mlx_lm.utils


def test_load_model_asks_its_own_parameter_for_the_classes_and_its_default_can_be_called(hybrid: Path) -> None:
    choose = inspect.signature(load_model).parameters["get_model_classes"].default
    asked: list[dict[str, Any]] = []

    def classes(config: dict[str, Any]) -> Any:
        asked.append(config)
        return choose(config=config)

    model, config = load_model(hybrid, lazy=True, get_model_classes=classes)
    assert isinstance(model, qwen3_5.Model)
    assert asked[0]["model_type"] == config["model_type"] == "qwen3_5"
    assert config["eos_token_id"] == json.loads((hybrid / "generation_config.json").read_text())["eos_token_id"]


def test_load_model_gives_sanitize_every_tensor_under_its_name_in_the_file(hybrid: Path) -> None:
    seen: set[str] = set()

    class Watched(qwen3_5.Model):  # type: ignore[misc]
        def sanitize(self, weights: dict[str, mx.array]) -> Any:
            seen.update(weights)
            return super().sanitize(weights)

    load_model(hybrid, lazy=True, get_model_classes=lambda config: (Watched, qwen3_5.ModelArgs))
    stored: Any = mx.load(str(hybrid / "model.safetensors"))
    assert seen == set(stored)


def test_the_hybrids_sanitize_drops_the_draft_head_and_the_tower(hybrid: Path) -> None:
    """When it stops to, the loader's own bookkeeping can go."""
    stored: Any = mx.load(str(hybrid / "model.safetensors"))
    model, _ = load_text(hybrid)
    kept = model.sanitize(dict(stored))
    assert not [name for name in kept if "mtp." in name or "visual" in name or "vision" in name]


def test_a_lazy_load_reads_nothing_yet(tiny: Tiny) -> None:
    folder = tiny("qwen3", hidden=256, vocab=8192)
    size = (folder / "model.safetensors").stat().st_size
    before = held()
    model, _ = load_model(folder, lazy=True)
    assert held() - before < size / 10
    mx.eval(model.parameters())
    assert held() - before > size / 2


def test_load_model_reads_the_files_that_ours_looks_for(llama: Path, tmp_path: Path) -> None:
    for path in llama.iterdir():
        shutil.copy(path, tmp_path)
    (tmp_path / "consolidated.safetensors").write_bytes(b"not read")
    load_model(tmp_path, lazy=True)
    (tmp_path / "model.safetensors").unlink()
    with pytest.raises(FileNotFoundError, match="No safetensors"):
        load_model(tmp_path, lazy=True)


def test_a_model_says_which_parameters_are_never_cast(hybrid: Path) -> None:
    predicate = load_text(hybrid)[0].cast_predicate
    assert predicate("language_model.model.layers.0.mlp.up_proj.weight")
    assert not predicate("language_model.model.layers.0.linear_attn.A_log")


def test_the_tokenizer_wrapper_has_what_ours_asks_of_it(llama: Path) -> None:
    wrapped = load_tokenizer(llama)
    backend = wrapped.backend_tokenizer
    ids = backend.encode("one two", add_special_tokens=False).ids
    assert backend.decode(ids, skip_special_tokens=True) == "one two"
    assert json.loads(backend.to_str())["decoder"]["type"] == "ByteLevel"
    added = {token["content"] for token in json.loads(backend.to_str())["added_tokens"]}
    assert "<|im_end|>" in added and "<|im_end|>" not in backend.get_vocab(with_added_tokens=False)
    assert wrapped.has_chat_template is True
    assert wrapped.eos_token_ids == {wrapped.eos_token_id}
    assert wrapped.eos_token_id in wrapped.all_special_ids
    assert len(wrapped) == 512


def test_the_tokenizer_wrapper_renders_to_text_and_raises_the_templates_own_error(llama: Path) -> None:
    from jinja2 import TemplateError

    wrapped = load_tokenizer(llama)
    messages = [{"role": "user", "content": "Hi"}]
    options = {"tokenize": False, "add_generation_prompt": True}
    text = wrapped.apply_chat_template(messages, enable_thinking=False, **options)
    assert text == "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
    # Where the vocabulary has thinking tokens, the wrapper asks for thinking unless it is told otherwise.
    assert wrapped.apply_chat_template(messages, **options).endswith("<|im_start|>assistant\n<think>\n")
    with pytest.raises(TemplateError, match="Unexpected message role"):
        wrapped.apply_chat_template([{"role": "bystander", "content": "Hi"}], tokenize=False)


def test_a_tokenizer_without_a_template_says_so(llama: Path, tmp_path: Path) -> None:
    settings = json.loads((llama / "tokenizer_config.json").read_text())
    del settings["chat_template"]
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    (tmp_path / "tokenizer.json").write_bytes((llama / "tokenizer.json").read_bytes())
    assert load_tokenizer(tmp_path).has_chat_template is False


# -- mlx_lm.models.cache


CACHES = {
    "llama": {KVCache},
    "qwen3": {KVCache},
    "qwen3_moe": {KVCache},
    "window": {KVCache, RotatingKVCache},
    "window_llama": {KVCache, RotatingKVCache},
    "hybrid": {KVCache, ArraysCache},
    "hybrid_moe": {KVCache, ArraysCache},
}


@pytest.mark.parametrize("family", synthetic.FAMILIES)
def test_make_prompt_cache_gives_a_fresh_cache_of_a_known_kind_for_every_layer(tiny: Tiny, family: str) -> None:
    model, _ = load_text(tiny(family))
    caches = make_prompt_cache(model)
    assert len(caches) == len(model.layers)
    assert {type(cache) for cache in caches} == CACHES[family]
    assert not {id(cache) for cache in caches} & {id(cache) for cache in make_prompt_cache(model)}


def test_a_kv_cache_counts_its_tokens_in_offset() -> None:
    cache = KVCache()
    assert (cache.offset, cache.keys) == (0, None)
    keys, values = cache.update_and_fetch(normal(1, 2, 5, 8), normal(1, 2, 5, 8))
    assert cache.offset == keys.shape[2] == values.shape[2] == 5
    options = {"return_array": False, "window_size": None}
    assert cache.make_mask(1, **options) is None and cache.make_mask(3, **options) == "causal"


def test_a_rotating_cache_says_its_window_and_keeps_it() -> None:
    cache = RotatingKVCache(max_size=4)
    assert (cache.keep, cache.max_size) == (0, 4)
    for _ in range(6):
        keys, _ = cache.update_and_fetch(normal(1, 1, 1, 8), normal(1, 1, 1, 8))
    assert cache.offset == 6 and keys.shape[2] == 4  # a token sees itself and three before it


def test_an_arrays_cache_is_a_list_of_arrays_without_padding() -> None:
    cache = ArraysCache(size=2)
    assert len(cache.cache) == 2
    assert (cache[0], cache[1], cache.lengths, cache.left_padding, cache.make_mask(3)) == (None,) * 5
    cache[1] = mx.ones(3)
    assert cache[1] is cache.cache[1]
    cache.advance(3)


def test_a_cache_list_has_its_parts_in_caches() -> None:
    parts = (ArraysCache(size=2), KVCache())
    cache = CacheList(*parts)
    assert tuple(cache.caches) == parts and cache[1] is parts[1]


def test_our_caches_have_what_models_ask_of_theirs() -> None:
    """By grep over mlx-lm's models; what a family asks beyond this, its start-up check shows."""
    for name in ("offset", "update_and_fetch", "make_mask", "lengths", "left_padding", "advance", "empty"):
        assert hasattr(AttentionCache, name)
    for name in ("__getitem__", "__setitem__", "make_mask", "lengths", "left_padding", "advance", "empty"):
        assert hasattr(StateCache, name)
    assert hasattr(CacheGroup, "__getitem__")
    assert not hasattr(AttentionCache, "bits")  # the library's attention takes a cache that has it for a quantized one


# -- mlx_lm.models.base


def test_masks_are_asked_of_the_cache() -> None:
    class Cache:
        def make_mask(self, *arguments: Any, **options: Any) -> Any:
            return arguments, options

    asked = base.create_attention_mask(normal(1, 7, 4), Cache(), window_size=5, return_array=True)
    assert asked == ((7,), {"return_array": True, "window_size": 5})
    assert base.create_ssm_mask(normal(1, 7, 4), Cache()) == ((7,), {})
    assert set(asked[1]) < set(names(AttentionCache.make_mask))


def test_ours_takes_the_arguments_of_the_librarys_attention() -> None:
    assert names(adapter.batched_attention) == names(adapter.library_attention)


@pytest.mark.parametrize("module", ["llama", "qwen3", "gemma3_text", "qwen3_next"])
def test_models_call_attention_by_a_name_in_their_own_module(module: str) -> None:
    library: Any = importlib.import_module(f"mlx_lm.models.{module}")
    adapter.install_attention()
    assert library.scaled_dot_product_attention is adapter.batched_attention
    assert "scaled_dot_product_attention(" in inspect.getsource(library)
    assert "mx.fast.scaled_dot_product_attention" not in inspect.getsource(library)


def test_a_model_that_is_imported_later_gets_our_attention_too() -> None:
    adapter.install_attention()
    later = "mlx_lm.models.stablelm"
    sys.modules.pop(later, None)
    assert importlib.import_module(later).scaled_dot_product_attention is adapter.batched_attention
    assert adapter.library_attention is not adapter.batched_attention


def test_a_call_with_any_other_cache_goes_on_to_the_library() -> None:
    queries, keys, values = normal(1, 4, 3, 8), normal(1, 2, 9, 8), normal(1, 2, 9, 8)
    ours = adapter.batched_attention(queries, keys, values, cache=KVCache(), scale=0.3, mask="causal")
    theirs = adapter.library_attention(queries, keys, values, cache=KVCache(), scale=0.3, mask="causal")
    assert same(ours, theirs, 0)


# -- mlx_lm.models: the hybrid


def test_the_hybrid_takes_embeddings_in_place_of_tokens(hybrid: Path) -> None:
    model, _ = load_text(hybrid)
    tokens = mx.array([[5, 6, 7]])
    assert "input_embeddings" in names(type(model).__call__)
    embedded = model.language_model.model.embed_tokens(tokens)
    assert same(model(tokens, input_embeddings=embedded), model(tokens))
    assert not same(model(tokens, input_embeddings=2 * embedded), model(tokens))


def test_the_hybrids_inner_model_gives_the_hidden_state_after_the_final_norm(hybrid: Path) -> None:
    language = load_text(hybrid)[0].language_model
    tokens = mx.array([[5, 6, 7]])
    assert same(language.lm_head(language.model(tokens)), language(tokens))


def test_gated_delta_net_has_the_parts_that_the_chunked_form_uses(hybrid: Path) -> None:
    layer = load_text(hybrid)[0].layers[0].linear_attn
    assert type(layer) is qwen3_5.GatedDeltaNet
    sizes = ("num_k_heads", "num_v_heads", "head_k_dim", "head_v_dim", "key_dim", "conv_dim", "conv_kernel_size")
    assert tuple(getattr(layer, name) for name in sizes) == (2, 4, 32, 32, 64, 256, 4)
    linear = {"in_proj_qkv": 256, "in_proj_z": 128, "in_proj_b": 4, "in_proj_a": 4, "out_proj": 128}
    x = normal(1, 3, 128)
    assert {name: getattr(layer, name)(x).shape[-1] for name in linear} == linear
    assert layer.conv1d.weight.shape == (256, 4, 1)
    assert layer.A_log.shape == layer.dt_bias.shape == (4,)
    assert names(type(layer).__call__) == ["self", "inputs", "mask", "cache"]
    assert layer.sharding_group is None  # a sharded layer would need more than our form does


def test_gated_delta_net_keeps_its_window_and_then_its_state(hybrid: Path) -> None:
    layer = load_text(hybrid)[0].layers[0].linear_attn
    cache = ArraysCache(size=2)
    layer(normal(2, 3, 128), None, cache)
    assert cache[0].shape == (2, layer.conv_kernel_size - 1, layer.conv_dim)
    assert (cache[1].shape, cache[1].dtype) == ((2, 4, 32, 32), mx.float32)


def test_gated_delta_nets_norm_takes_the_gate_second(hybrid: Path) -> None:
    norm = load_text(hybrid)[0].layers[0].linear_attn.norm
    x, gate = normal(1, 2, 4, 32), normal(1, 2, 4, 32) + 1
    scaled = mx.fast.rms_norm(x, norm.weight, 1e-6) * nn.silu(gate)
    assert same(norm(x, gate), scaled)


def test_queries_and_keys_are_normalized_with_the_scale_in_the_queries() -> None:
    q, k = normal(1, 2, 3, 16), 5 * normal(1, 2, 3, 16)
    queries, keys = gated_delta.normalize_qk(q, k, inv_scale=16**-0.5, eps=1e-6)
    unit = {id(x): x / mx.linalg.norm(x, axis=-1, keepdims=True) for x in (q, k)}
    assert same(queries, unit[id(q)] / 4)
    assert same(keys, unit[id(k)])


# -- RoPE


def test_a_rope_is_falsy() -> None:
    assert not nn.RoPE(8)  # so never `x.rope or y`


def test_the_ropes_have_the_attributes_that_ours_read() -> None:
    plain = nn.RoPE(8, traditional=False, base=500.0, scale=0.5)
    assert (plain.dims, plain.traditional, plain.base, plain.scale) == (8, False, 500.0, 0.5)
    dynamic = rope_utils.initialize_rope(
        8, 500.0, False, {"rope_type": "dynamic", "factor": 4.0}, max_position_embeddings=32
    )
    assert type(dynamic) is rope_utils.DynamicNTKScalingRoPE
    read = (dynamic.dims, dynamic.traditional, dynamic.base, dynamic.factor, dynamic.max_position_embeddings)
    assert read == (8, False, 500.0, 4.0, 32)
    yarn = rope_utils.initialize_rope(
        8, 500.0, False, {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32}
    )
    assert type(yarn) is rope_utils.YarnRoPE
    assert (yarn.dims, yarn.traditional, yarn._freqs.shape) == (8, False, (4,))
    assert yarn.mscale == pytest.approx(0.1 * np.log(4.0) + 1)


@pytest.mark.parametrize("kind", ["default", "linear", "yarn", "llama3", "longrope"])
def test_a_rope_takes_an_offset_for_every_sequence(kind: str) -> None:
    scaling: dict[str, Any] = {"rope_type": kind}
    if kind != "default":
        scaling = synthetic.scaled_rope(kind, window=16)["rope_scaling"]
    rope = rope_utils.initialize_rope(32, 10_000.0, False, scaling, max_position_embeddings=64)
    x = normal(3, 2, 4, 32)
    together = rope(x, offset=mx.array([0, 7, 40]))
    for row, offset in enumerate((0, 7, 40)):
        assert same(together[row : row + 1], rope(x[row : row + 1], offset=offset))


@pytest.mark.parametrize("family", ["llama", "qwen3", "window", "hybrid"])
def test_attention_layers_keep_their_rope_under_that_name(tiny: Tiny, family: str) -> None:
    model, _ = load_text(tiny(family))
    ropes = [part.get("rope") for _, part in model.named_modules() if isinstance(part, dict) and "rope" in part]
    assert len(ropes) == sum(not isinstance(cache, ArraysCache) for cache in make_prompt_cache(model))
    assert all(type(rope) is nn.RoPE for rope in ropes)


# -- mlx_lm.generate


def test_generate_step_is_greedy_and_prefills_in_steps_of_a_size(llama: Path) -> None:
    model, _ = load_text(llama)
    prompt = list(range(20))
    steps = list(generate_step(mx.array(prompt), model, max_tokens=4, prefill_step_size=7))
    assert [type(token) for token, _ in steps] == [int] * 4
    greedy: list[int] = []
    while len(greedy) < 4:
        choice: Any = mx.argmax(model(mx.array([prompt + greedy]))[0, -1]).item()
        greedy.append(choice)
    assert [token for token, _ in steps] == greedy


def test_a_model_is_built_from_its_arguments(llama: Path) -> None:
    library: Any = importlib.import_module("mlx_lm.models.llama")
    config = json.loads((llama / "config.json").read_text())
    model = library.Model(library.ModelArgs.from_dict(config))
    assert parameters(model).keys() == parameters(load_text(llama)[0]).keys()


# -- mlx_vlm


@pytest.mark.slow
def test_a_text_model_does_not_import_mlx_vlm(llama: Path) -> None:
    code = (
        "import sys\n"
        "from paceline.models.loader import load\n"
        f"load({str(llama)!r})\n"
        "print([name for name in ('mlx_vlm', 'torch', 'cv2') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize("family", ["hybrid", "hybrid_moe"])
def test_both_libraries_name_the_language_models_parameters_alike(tiny: Tiny, family: str) -> None:
    ours, theirs = parameters(load_text(tiny(family))[0]), parameters(load_images(tiny(family))[0])
    language = {name: array for name, array in theirs.items() if not name.startswith("vision_tower.")}
    assert {name: array.shape for name, array in ours.items()} == {n: array.shape for n, array in language.items()}
    assert all(same(array, language[name], 0) for name, array in ours.items())


@pytest.mark.parametrize("family", ["hybrid", "hybrid_moe"])
def test_mlx_vlms_model_is_built_from_the_raw_configuration_and_sanitizes_the_towers_tensors_alone(
    tiny: Tiny, family: str
) -> None:
    folder = tiny(family)
    config = json.loads((folder / "config.json").read_text())
    library: Any = importlib.import_module(f"mlx_vlm.models.{config['model_type']}")
    model = library.Model(library.ModelConfig.from_dict(config))
    stored: Any = mx.load(str(folder / "model.safetensors"))
    vision = {name: array for name, array in stored.items() if ".visual." in name}
    tower = model.vision_tower.sanitize(model.sanitize(vision))
    expected = {name for name in parameters(model) if name.startswith("vision_tower.")}
    assert tower.keys() == expected
    assert tower["vision_tower.patch_embed.proj.weight"].shape == model.vision_tower.patch_embed.proj.weight.shape
    again = model.vision_tower.sanitize(model.sanitize(dict(tower)))  # a converted checkpoint: nothing is left to do
    assert all(same(again[name], array, 0) for name, array in tower.items())


def test_the_processor_has_an_image_processor_that_gives_patches_and_grids(hybrid: Path) -> None:
    library: Any = importlib.import_module("mlx_vlm.utils")
    processor = library.load_processor(hybrid, add_detokenizer=False).image_processor
    inputs = processor(images=[Image.new("RGB", (96, 64))])
    grid = [int(n) for n in np.asarray(inputs["image_grid_thw"])[0]]
    assert grid == [1, 4, 6]  # in patches of 16 pixels: time, height, width
    assert np.asarray(inputs["pixel_values"]).shape == (24, 3 * 2 * 16 * 16)
    with pytest.raises(ValueError, match="aspect ratio"):
        processor(images=[Image.new("RGB", (4000, 4))])


def test_the_tower_gives_features_of_merged_patches_image_after_image(hybrid: Path) -> None:
    tower = loaded(hybrid).vision.view.vision_tower  # type: ignore[union-attr]
    assert tower.patch_embed.proj.weight.dtype == mx.float32
    first, second = normal(24, 1536), 2 * normal(16, 1536)
    features, _ = tower(first, mx.array([[1, 4, 6]]))
    assert features.shape == (6, 128)
    both, _ = tower(mx.concatenate([first, second]), mx.array([[1, 4, 6], [1, 4, 4]]))
    assert same(both[:6], features, 1e-4)  # a picture's features do not depend on its neighbours
    assert same(both[6:], tower(second, mx.array([[1, 4, 4]]))[0], 1e-4)


# -- MLX


def growth(write: Callable[[], mx.array]) -> int:
    """Bytes that were needed at most while `write` ran."""
    before = held()
    mx.reset_peak_memory()
    mx.eval(write())
    return mx.get_peak_memory() - before


def test_a_slice_is_written_in_place_only_where_nobody_else_holds_the_array() -> None:
    size = 1 << 20
    holder = {"buffer": mx.zeros((4, size))}
    mx.eval(holder["buffer"])

    def write() -> mx.array:
        buffer = holder.pop("buffer")
        buffer[:, 5:6] = mx.ones((4, 1))
        holder["buffer"] = buffer
        return buffer

    assert growth(write) < size  # of 16 MiB
    snapshot = holder["buffer"][:, :1]  # an unevaluated view is a reference too
    assert growth(write) > 12 * size
    mx.eval(snapshot)
    del snapshot
    assert growth(write) < size


def test_attention_masks_are_boolean_or_the_word_causal() -> None:
    queries, keys, values = normal(1, 4, 3, 8), normal(1, 2, 9, 8), normal(1, 2, 9, 8)
    explicit = mx.arange(9)[None] <= mx.arange(6, 9)[:, None]
    words = mx.fast.scaled_dot_product_attention(queries, keys, values, scale=0.3, mask="causal")
    arrays = mx.fast.scaled_dot_product_attention(queries, keys, values, scale=0.3, mask=explicit[None, None])
    assert same(words, arrays)


def test_tokens_are_written_along_an_axis_where_an_index_says() -> None:
    buffer, new = mx.zeros((2, 3, 8, 4)), normal(2, 3, 1, 4)
    at = mx.broadcast_to(mx.array([2, 5])[:, None, None, None], new.shape)
    written = np.array(mx.put_along_axis(buffer, at, new, axis=2))
    for row, slot in enumerate((2, 5)):
        assert np.array_equal(written[row, :, slot], np.array(new)[row, :, 0])
        assert np.count_nonzero(written[row]) == 12
