"""Position is data: explicit positions against mlx-lm's fast path, mlx-vlm's M-RoPE and mlx-lm's own schedule."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mlx_lm.generate import generate_step
from mlx_lm.models.cache import KVCache
from mlx_lm.models.rope_utils import DynamicNTKScalingRoPE, YarnRoPE, initialize_rope

from paceline.models.positions import DynamicRoPE, MRoPE, PositionIdRoPE, Positions, dynamic_reach, image_positions
from tests.lengths import examples
from tests.reference import load_images

nn: Any = importlib.import_module("mlx.nn")  # its stubs re-export nothing in strict mode
SECTIONS = (3, 3, 2)


def heads(rows: int, tokens: int, size: int, seed: int = 0) -> mx.array:
    return mx.array(np.random.default_rng(seed).standard_normal((rows, 3, tokens, size)).astype(np.float32))


def far(ours: mx.array, theirs: mx.array) -> float:
    return float(np.abs(np.array(ours.astype(mx.float32)) - np.array(theirs.astype(mx.float32))).max())


@pytest.mark.parametrize("dims", [16, 32])
@pytest.mark.parametrize(("base", "scale"), [(10_000.0, 1.0), (10_000_000.0, 1.0), (500_000.0, 0.25)])
def test_explicit_positions_that_count_up_equal_the_fast_rope(dims: int, base: float, scale: float) -> None:
    fast = nn.RoPE(dims, traditional=False, base=base, scale=scale)
    rope = MRoPE(fast)
    x = heads(2, 20, 32)
    for start in (0, 1, 50):
        counted = Positions(mx.broadcast_to(mx.arange(start, start + 20), (2, 20)))
        assert far(rope(x, offset=counted), fast(x, offset=start)) < 1e-5


@pytest.mark.parametrize("start", [1_000, 30_000, 200_000])
def test_far_into_a_context_explicit_positions_are_as_exact_as_the_fast_rope(start: int) -> None:
    """In float32 an angle of 30,000 has lost three digits, in both; neither is further from the truth."""
    dims, base = 32, 1_000_000.0
    fast = nn.RoPE(dims, traditional=False, base=base)
    x = heads(1, 20, dims)
    angles = np.arange(start, start + 20)[:, None] * base ** (-np.arange(dims // 2) / (dims // 2))
    first, second = np.split(np.array(x, dtype=np.float64), 2, axis=-1)
    cos, sin = np.cos(angles), np.sin(angles)
    truth = np.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1)
    ours = np.array(MRoPE(fast)(x, offset=Positions(mx.arange(start, start + 20)[None])))
    theirs = np.array(fast(x, offset=start))
    assert np.abs(ours - truth).max() < 1.5 * np.abs(theirs - truth).max()


def test_explicit_positions_that_count_up_equal_the_fast_yarn() -> None:
    """Qwen3.5's own recipe for long contexts; a row with pictures is prefilled at explicit positions there too."""
    fast = YarnRoPE(16, base=10_000.0, scaling_factor=4.0, original_max_position_embeddings=32)
    assert fast.mscale != 1
    rope = MRoPE(fast, SECTIONS)
    x = heads(2, 20, 32)
    for start in (0, 50, 100):
        position_ids = mx.broadcast_to(mx.arange(start, start + 20), (3, 2, 20))
        assert far(rope(x, offset=Positions(position_ids)), fast(x, offset=start)) < 2e-5
        assert far(rope(x, offset=start), fast(x, offset=start)) == 0


def test_rows_at_their_own_positions_equal_each_row_alone() -> None:
    fast = nn.RoPE(16, traditional=False, base=10_000.0)
    rope = MRoPE(fast)
    x, starts = heads(3, 1, 32), mx.array([0, 7, 90])
    together = rope(x, offset=Positions(starts[:, None]))
    assert far(together, fast(x, offset=starts)) < 1e-5
    for row, start in enumerate((0, 7, 90)):
        assert far(together[row : row + 1], fast(x[row : row + 1], offset=start)) < 1e-5


def test_an_offset_that_is_no_positions_object_takes_the_fast_path() -> None:
    fast = nn.RoPE(16, traditional=False, base=10_000.0)
    rope = MRoPE(fast, SECTIONS)
    x = heads(2, 4, 32)
    for offset in (0, 5, mx.array([3, 9])):
        assert far(rope(x, offset=offset), fast(x, offset=offset)) == 0


def test_bfloat16_keeps_its_type_and_turns_in_float32() -> None:
    fast = nn.RoPE(16, traditional=False, base=10_000.0)
    x = heads(1, 12, 32).astype(mx.bfloat16)
    ours = MRoPE(fast)(x, offset=Positions(mx.arange(40, 52)[None]))
    assert ours.dtype == mx.bfloat16
    assert far(ours, fast(x, offset=40)) <= 2**-6  # one bit of the largest numbers here


def test_the_traditional_form_turns_even_and_odd_dimensions_together() -> None:
    """As in GLM-4: mlx-lm's own where positions count up, and each pair by its axis where they do not."""
    fast = nn.RoPE(16, traditional=True, base=10_000.0)
    rope = MRoPE(fast, (4, 2, 2), interleaved=False)
    x = heads(2, 20, 32)
    counted = mx.broadcast_to(mx.arange(7, 27), (3, 2, 20))
    assert far(rope(x, offset=Positions(counted)), fast(x, offset=7)) < 1e-5
    spread = mx.stack([counted[0], counted[0] + 5, counted[0] + 11])
    turned = rope(x, offset=Positions(spread))
    for axis, dims in enumerate((slice(0, 8), slice(8, 12), slice(12, 16))):
        alone = fast(x, offset=7 + (0, 5, 11)[axis])
        assert far(turned[..., dims], alone[..., dims]) < 1e-5
    assert far(turned[..., 16:], x[..., 16:]) == 0


def test_the_traditional_form_of_a_dynamic_rope_is_refused() -> None:
    with pytest.raises(ValueError, match="half-split"):
        DynamicRoPE(DynamicNTKScalingRoPE(16, 32, base=10_000.0, traditional=True, factor=2.0))


def test_layers_with_the_same_rope_share_one_rotation() -> None:
    positions = Positions(mx.arange(9)[None])
    same = [MRoPE(nn.RoPE(16, traditional=False, base=10_000.0)) for _ in range(2)]
    other = MRoPE(nn.RoPE(16, traditional=False, base=500.0))
    assert positions.rotation(same[0])[0] is positions.rotation(same[1])[0]
    assert positions.rotation(other)[0] is not positions.rotation(same[0])[0]


@pytest.mark.parametrize("sections", [(3, 3, 2), (2, 3, 3), (4, 2, 2), (11, 11, 10)])
def test_three_axes_equal_mlx_vlms_interleaved_rope(sections: tuple[int, int, int]) -> None:
    library: Any = importlib.import_module("mlx_vlm.models.qwen3_5.language")
    dims = 2 * sum(sections)
    position_ids = mx.array(np.random.default_rng(1).integers(0, 60, (3, 2, 15)))
    queries, keys = heads(2, 15, 80, seed=2), heads(2, 15, 80, seed=3)
    embedding = library.Qwen3_5RotaryEmbedding(dims, base=10_000.0, mrope_section=list(sections))
    cos, sin = embedding(queries, position_ids)
    expected = library.apply_multimodal_rotary_pos_emb(queries, keys, cos, sin)
    rope = MRoPE(nn.RoPE(dims, traditional=False, base=10_000.0), sections)
    positions = Positions(position_ids)
    for ours, theirs in zip((queries, keys), expected, strict=True):
        assert far(rope(ours, offset=positions), theirs) < 1e-5


# -- pictures among text


@st.composite
def layouts(draw: st.DrawFn) -> list[tuple[int, tuple[int, int] | None]]:
    """Runs of text, each but perhaps the last followed by a picture of height x width merged patches."""
    sides = st.integers(1, 7)
    pictures = draw(st.lists(st.tuples(sides, sides), min_size=1, max_size=4))
    layout: list[tuple[int, tuple[int, int] | None]] = [(draw(st.integers(0, 12)), picture) for picture in pictures]
    return [*layout, (draw(st.integers(0, 12)), None)]


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(layout=layouts())
def test_any_layout_of_images_and_text_has_mlx_vlms_positions(
    hybrid: Path, layout: list[tuple[int, tuple[int, int] | None]]
) -> None:
    language = load_images(hybrid)[0].language_model
    config = language.config
    merge = config.vision_config.spatial_merge_size
    ids: list[int] = []
    grids: list[tuple[int, int, int]] = []
    for text, picture in layout:
        ids += [5] * text
        if picture is not None:
            height, width = picture
            grids.append((1, height * merge, width * merge))
            ids += [config.vision_start_token_id, *[config.image_token_id] * (height * width)]
            ids.append(config.vision_end_token_id)
    position_ids, delta = image_positions(ids, grids, config.image_token_id, merge)
    expected, deltas = language.get_rope_index(mx.array([ids]), mx.array(grids))
    assert position_ids.tolist() == expected[:, 0].tolist()
    assert delta == int(deltas.reshape(-1)[0].item())
    assert delta == position_ids.max() + 1 - len(ids)


def test_a_prompt_without_images_counts_up() -> None:
    position_ids, delta = image_positions([5, 6, 7], [], image_token=9, merge=2)
    assert position_ids.tolist() == [[0, 1, 2]] * 3
    assert delta == 0


def test_an_image_without_its_placeholders_is_an_error() -> None:
    with pytest.raises(ValueError, match="fewer picture placeholders"):
        image_positions([5, 9, 7], [(1, 2, 2), (1, 2, 2)], image_token=9, merge=2)


# -- a base that follows the length


class Recorder(nn.Module):  # type: ignore[misc]
    """A model that only notes, for every token, the length mlx-lm's dynamic RoPE would scale it for."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = [None]
        self.reach: list[int] = []

    def __call__(self, tokens: mx.array, cache: Sequence[KVCache]) -> mx.array:
        width = tokens.shape[1]
        self.reach += [cache[0].offset + width] * width
        empty = mx.zeros((1, 1, width, 1))
        cache[0].update_and_fetch(empty, empty)
        return mx.zeros((1, width, 4))


@pytest.mark.parametrize("chunk", [1, 5, 64, 2048])
@pytest.mark.parametrize("prompt", [1, 2, 5, 6, 11, 64, 65, 66, 200])
def test_the_reach_of_every_token_is_the_length_mlx_lm_scales_it_for(prompt: int, chunk: int) -> None:
    recorder = Recorder()
    tokens = generate_step(mx.zeros(prompt, mx.int32), recorder, max_tokens=6, prefill_step_size=chunk)
    assert len(list(tokens)) == 6
    total = len(recorder.reach)
    assert total >= prompt + 5
    assert dynamic_reach(0, total, prompt, chunk).tolist() == recorder.reach
    cuts = sorted({0, 1, prompt // 3, prompt - 1, prompt, total})  # however the engine cuts the row
    pieces = [dynamic_reach(low, high, prompt, chunk).tolist() for low, high in pairwise(cuts)]
    assert [reach for piece in pieces for reach in piece] == recorder.reach


def test_a_dynamic_rope_at_a_known_reach_equals_mlx_lms() -> None:
    inner = DynamicNTKScalingRoPE(dims=16, max_position_embeddings=32, traditional=False, base=10_000.0, factor=4.0)
    rope = DynamicRoPE(inner)
    x = heads(1, 10, 32)
    for start in (0, 20, 30, 90):
        positions = Positions(mx.arange(start, start + 10)[None], mx.full((1, 10), start + 10))
        assert far(rope(x, offset=positions), inner(x, offset=start)) < 1e-5


def test_a_dynamic_rope_refuses_positions_without_their_reach() -> None:
    inner = DynamicNTKScalingRoPE(dims=16, max_position_embeddings=32, traditional=False, base=10_000.0, factor=4.0)
    rope = DynamicRoPE(inner)
    with pytest.raises(ValueError, match="reach"):
        rope(heads(1, 2, 32), offset=Positions(mx.arange(2)[None]))
    with pytest.raises(TypeError, match="explicit positions"):
        rope(heads(2, 1, 32), offset=mx.array([1, 2]))


# -- tokens that stand anywhere


@pytest.mark.parametrize(
    "scaling",
    [
        None,
        {"rope_type": "linear", "factor": 4.0},
        {"rope_type": "llama3", "factor": 8.0, "original_max_position_embeddings": 64},
        {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64},
        {
            "rope_type": "longrope",
            "original_max_position_embeddings": 64,
            "short_factor": [1.0] * 8,
            "long_factor": [2.0] * 8,
        },
        {"rope_type": "proportional", "partial_rotary_factor": 0.5},
    ],
    ids=lambda scaling: "plain" if scaling is None else scaling["rope_type"],
)
@pytest.mark.parametrize("traditional", [False, True])
def test_mlx_lms_ropes_take_a_place_for_every_token(scaling: dict[str, Any] | None, traditional: bool) -> None:
    rope = initialize_rope(16, 10_000.0, traditional, scaling, 256)
    x = mx.random.normal((2, 3, 5, 16))
    position_ids = [[0, 1, 7, 8, 90], [3, 4, 50, 51, 200]]
    found = PositionIdRoPE(rope)(x, offset=Positions(mx.array(position_ids)))
    for row, column in ((row, column) for row in range(2) for column in range(5)):
        alone = rope(x[row : row + 1, :, column : column + 1], offset=position_ids[row][column])
        assert far(found[row, :, column], alone[0, :, 0]) < 1e-5
    assert mx.array_equal(PositionIdRoPE(rope)(x, offset=3), rope(x, offset=3))
