"""Short convolutions, Mamba and Mamba2: what a step with rejected or padding tokens leaves is what mlx-lm's own layer
has after the others."""

from __future__ import annotations

import inspect
from typing import Any

import mlx.core as mx
import pytest
from mlx.utils import tree_map
from mlx_lm.models.cache import ArraysCache
from mlx_lm.models.ssm import ssm_attn

from paceline.cache.batch import Batch, LayerPlan
from paceline.cache.slot_plan import PADDED
from paceline.models.adapter import adapt, flat_plans
from paceline.models.recurrent import ROW_CLASSES, RowRecurrent
from tests.models import families
from tests.synthetic.recurrent_families import NAMES

ROWS, PAST, WIDTH = 3, 5, 9
HIDDEN = families.SIZES["hidden_size"]


def layer(name: str, dtype: mx.Dtype = mx.float32) -> Any:
    """mlx-lm's own."""
    name, _, normed = name.partition("+")
    module = families.build(families.FAMILIES[name] | {"mamba_rms_norm": bool(normed)})
    parts = [part for _, part in module.named_modules() if type(part) in ROW_CLASSES]
    part = parts[0]
    part.update(tree_map(lambda value: value.astype(dtype), part.parameters()))
    return part


def adopted(name: str, dtype: mx.Dtype = mx.float32) -> Any:
    part = layer(name, dtype)
    part.__class__ = ROW_CLASSES[type(part)]
    return part


def called(part: Any, inputs: mx.array, cache: Any) -> mx.array:
    options = {"cache": cache} if "mask" not in part_arguments(part) else {"cache": cache, "mask": None}
    return part(inputs, **options)  # type: ignore[no-any-return]


def part_arguments(part: Any) -> tuple[str, ...]:
    made = part if isinstance(part, RowRecurrent) else ROW_CLASSES[type(part)]
    return made._arguments


def inputs(width: int, seed: int = 0, dtype: mx.Dtype = mx.float32) -> mx.array:
    return mx.random.normal((ROWS, width, HIDDEN), key=mx.random.key(seed)).astype(dtype)


class Library:
    """mlx-lm's layer, a token at a time, each row with a cache of its own."""

    def __init__(self, name: str, dtype: mx.Dtype = mx.float32) -> None:
        self.part = layer(name, dtype)
        size = len(state_sizes(name))
        self.caches = [ArraysCache(size) for _ in range(ROWS)]

    def read(self, tokens: mx.array, counts: list[int]) -> list[mx.array]:
        """Outputs of the first `counts[i]` tokens of each row."""
        outputs = []
        for row, (cache, count) in enumerate(zip(self.caches, counts, strict=True)):
            found = [called(self.part, tokens[row : row + 1, at : at + 1], cache)[0, 0] for at in range(count)]
            outputs.append(mx.stack(found) if found else mx.zeros((0, HIDDEN), tokens.dtype))
        return outputs

    def state(self, index: int) -> mx.array:
        return mx.concatenate([cache[index] for cache in self.caches])


def state_sizes(name: str) -> range:
    return range(1 if name.startswith("lfm2") else 2)


class Ours:
    def __init__(self, name: str, dtype: mx.Dtype = mx.float32) -> None:
        self.part = adopted(name, dtype)
        plan = LayerPlan("state", size=len(state_sizes(name)), apply_accepted=self.part.apply_accepted)
        self.batch = Batch([plan], PADDED, ROWS)

    @property
    def cache(self) -> Any:
        return self.batch.layers[0]

    def read(self, tokens: mx.array, **options: Any) -> mx.array:
        self.batch.begin(tokens.shape[1], **options)
        out = called(self.part, tokens, self.cache)
        if options.get("tentative"):
            self.batch.close()
        else:
            self.batch.commit()
        return out


def far(ours: mx.array, theirs: mx.array) -> float:
    share: Any = (mx.abs(ours - theirs).max() / mx.maximum(mx.abs(theirs).max(), 1e-3)).item()
    return float(share)


def started(name: str, past: int) -> tuple[Ours, Library]:
    """Both after the same tokens; 0: without a state yet."""
    ours, library = Ours(name), Library(name)
    for place in range(past):
        token = inputs(1, 50 + place)
        out = ours.read(token)
        assert far(out[:, 0], mx.concatenate(library.read(token, [1] * ROWS))) < 1e-5
    return ours, library


# -- what we rely on in mlx-lm


@pytest.mark.parametrize("upstream", ROW_CLASSES, ids=lambda upstream: upstream.__name__)
def test_the_librarys_layers_are_called_with_these_arguments(upstream: type) -> None:
    found = list(inspect.signature(upstream.__call__).parameters)
    assert found == ["self", *ROW_CLASSES[upstream]._arguments]


def test_the_scan_takes_a_mask_and_lengths() -> None:
    found = list(inspect.signature(ssm_attn).parameters)
    assert found[:7] == ["x", "A_log", "B", "C", "D", "dt", "dt_bias"]
    assert found[7:11] == ["state", "time_step_limit", "mask", "lengths"]


@pytest.mark.parametrize("name", NAMES)
def test_the_parts_of_a_layer_that_ours_use(name: str) -> None:
    part = layer(name)
    if name.startswith("lfm2"):
        assert part.conv.weight.shape == (HIDDEN, part.L_cache, 1)
        return
    assert part.conv1d.weight.shape[1] == part.conv_kernel_size and part.out_proj.weight.shape[0] == HIDDEN
    if name == "jamba":
        sizes = part.time_step_rank + 2 * part.ssm_state_size
        assert part.x_proj.weight.shape == (sizes, part.intermediate_size)
        assert part.A_log.shape == (part.intermediate_size, part.ssm_state_size)
        out, state = part.ssm_step(mx.zeros((2, 3, part.intermediate_size)), -mx.exp(part.A_log), None)
        assert out.shape == (2, 3, part.intermediate_size) and state.shape == (2, *part.A_log.shape)
        return
    assert part.conv_dim == part.intermediate_size + 2 * part.n_groups * part.ssm_state_size
    assert part.intermediate_size == part.num_heads * part.head_dim and len(part.time_step_limit) == 2
    assert part.in_proj.weight.shape[0] == part.intermediate_size + part.conv_dim + part.num_heads
    assert part.A_log.shape == part.D.shape == part.dt_bias.shape == (part.num_heads,)


@pytest.mark.parametrize("name", NAMES)
def test_a_family_is_adopted_whole(name: str) -> None:
    config = families.FAMILIES[name]
    model = adapt(families.build(config), config)
    states = [plan for plan in flat_plans(model.plans) if plan.kind == "state"]
    assert states and all(plan.apply_accepted is not None and not plan.records for plan in states)
    owners = {id(plan.apply_accepted.__self__) for plan in states}  # type: ignore[union-attr]
    assert len(owners) == len(states)


@pytest.mark.thin(3)
@pytest.mark.parametrize("past", [0, PAST])
@pytest.mark.parametrize("name", [*NAMES, "falcon_h1+norm"])
def test_only_accepted_tokens_are_in_the_state(name: str, past: int) -> None:
    """Every number of them, in rows that keep different ones, several steps after each other."""
    ours, library = started(name, past)
    for turn in range(WIDTH):
        tokens = inputs(WIDTH, turn)
        kept = [1 + turn, 1 + (turn * 4) % WIDTH, WIDTH - turn]
        before = [None if value is None else mx.array(value) for value in ours.cache.current]
        out = ours.read(tokens, tentative=True)
        for mine, old in zip(ours.cache.current, before, strict=True):
            assert (mine is None) == (old is None) and (old is None or mx.array_equal(mine, old))
        ours.batch.apply_accepted(mx.array(kept, dtype=mx.int32))
        ours.batch.advance(kept)
        for row, expected in enumerate(library.read(tokens, kept)):
            assert far(out[row, : kept[row]], expected) < 1e-5
        assert not ours.cache.pending
        for index in state_sizes(name):
            assert far(ours.cache.current[index], library.state(index)) < 1e-5


@pytest.mark.thin(3)
@pytest.mark.parametrize("past", [0, PAST])
@pytest.mark.parametrize("name", NAMES)
def test_padding_leaves_nothing_behind(name: str, past: int) -> None:
    """Of a prompt that is longer than one chunk of mlx-lm's scan, too."""
    ours, library = started(name, past)
    for width, counts in ((WIDTH, [WIDTH, 4, 1]), (270, [257, 256, 6]), (3, [2, 2, 2])):
        if name == "jamba" and width > WIDTH:
            width, counts = 20, [20, 17, 6]  # its scan is a loop over tokens
        tokens = inputs(width, width)
        out = ours.read(tokens, valid=counts)
        for row, expected in enumerate(library.read(tokens, counts)):
            assert far(out[row, : counts[row]], expected) < 1e-4
        for index in state_sizes(name):
            assert far(ours.cache.current[index], library.state(index)) < 1e-4


@pytest.mark.thin(3)
@pytest.mark.parametrize("name", NAMES)
def test_a_row_that_keeps_no_token_stays_as_it_was(name: str) -> None:
    """Padding rows of a batch."""
    ours, _ = started(name, PAST)
    before = [mx.array(value) for value in ours.cache.current]
    ours.read(inputs(WIDTH), tentative=True)
    ours.batch.apply_accepted(mx.array([0, 3, 0], dtype=mx.int32))
    for mine, old in zip(ours.cache.current, before, strict=True):
        assert mx.array_equal(mine[0], old[0]) and mx.array_equal(mine[2], old[2])
        assert not mx.array_equal(mine[1], old[1])


@pytest.mark.thin(3)
@pytest.mark.parametrize("name", NAMES)
def test_half_precision_keeps_types_and_stays_near(name: str) -> None:
    ours, library = Ours(name, mx.bfloat16), Library(name, mx.bfloat16)
    first, tokens = inputs(1, 9, mx.bfloat16), inputs(WIDTH, 1, mx.bfloat16)
    ours.read(first)
    library.read(first, [1] * ROWS)
    types = [value.dtype for value in ours.cache.current]
    kept = [1, 4, WIDTH]
    out = ours.read(tokens, tentative=True)
    ours.batch.apply_accepted(mx.array(kept, dtype=mx.int32))
    assert out.dtype == mx.bfloat16
    assert [value.dtype for value in ours.cache.current] == types
    for row, expected in enumerate(library.read(tokens, kept)):
        assert far(out[row, : kept[row]], expected) < 0.05
    for index in state_sizes(name):
        assert far(ours.cache.current[index], library.state(index)) < 0.05


@pytest.mark.parametrize("name", ["lfm2", "jamba"])
def test_plain_steps_and_other_caches_are_the_librarys(name: str) -> None:
    ours, library = adopted(name), layer(name)
    tokens = inputs(4)
    caches = [ArraysCache(len(state_sizes(name))) for _ in range(2)]
    assert mx.array_equal(called(ours, tokens, caches[0]), called(library, tokens, caches[1]))
    assert mx.array_equal(called(ours, tokens, None), called(library, tokens, None))


def test_a_state_without_a_layer_of_ours_leaves_the_model_without_rollback() -> None:
    config = families.FAMILIES["rwkv7"]
    model = adapt(families.build(config), config)
    assert all(plan.apply_accepted is None for plan in flat_plans(model.plans))
