"""What the host reads after a step, through small arrays: against MLX's own reads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import mlx.core as mx
import pytest

from paceline.engine.sampler import Sampler
from paceline.models import host_read_cuda
from paceline.models.host_read_cuda import EACH, MAX_NUMBERS, HostRead, readable, works
from tests.cuda import on_cuda

SHAPES = [(1,), (2,), (3,), (8,), (31,), (64,), (1, 2), (3, 5), (64, 4)]


def plain_kernel(count: int, wrong: int = 0) -> Any:
    """What the kernel does, by plain operations. `wrong` is added to every number."""

    def run(*, inputs: Sequence[mx.array], output_shapes: Sequence[tuple[int, ...]], **_: Any) -> list[mx.array]:
        assert len(output_shapes) == count and set(output_shapes) == {(EACH,)}
        numbers = inputs[0].reshape(-1) + wrong
        padded = mx.concatenate([numbers, mx.zeros(count * EACH - numbers.size, mx.int32)])
        return [padded[EACH * place : EACH * (place + 1)] for place in range(count)]

    return run


@pytest.fixture
def plain(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(mx.cuda, "is_available", lambda: True)
    monkeypatch.setattr(host_read_cuda, "_kernel", plain_kernel)
    monkeypatch.setattr(host_read_cuda, "on_device", lambda numbers, dtype: mx.array(numbers, dtype=dtype))
    works.cache_clear()
    yield
    works.cache_clear()


def numbers(shape: tuple[int, ...]) -> mx.array:
    return mx.random.randint(-1, 1 << 30, shape, dtype=mx.int32, key=mx.random.key(7))


@pytest.mark.usefixtures("plain")
@pytest.mark.parametrize("shape", SHAPES)
def test_numbers_are_read_in_parts_of_a_power_of_two(shape: tuple[int, ...]) -> None:
    given = numbers(shape)
    read = readable(given)
    assert isinstance(read, HostRead) and read.tolist() == given.tolist()
    parts = len(read.arrays)
    assert parts.bit_count() == 1 and parts * EACH >= given.size
    assert parts == 1 or parts // 2 * EACH < given.size
    assert all(part.nbytes == 8 for part in read.arrays), "more would not come from the pool"


def test_without_cuda_the_array_itself_is_read() -> None:
    works.cache_clear()
    given = numbers((4,))
    assert readable(given) is given


@pytest.mark.usefixtures("plain")
def test_many_numbers_are_read_by_mlx() -> None:
    assert isinstance(readable(numbers((MAX_NUMBERS,))), HostRead)
    many = numbers((MAX_NUMBERS + 1,))
    assert readable(many) is many


@pytest.mark.usefixtures("plain")
def test_a_kernel_that_reads_other_numbers_is_found_out(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(host_read_cuda, "_kernel", lambda count: plain_kernel(count, wrong=1))
    given = numbers((4,))
    assert readable(given) is given
    assert "it reads other numbers" in caplog.text


@pytest.mark.usefixtures("plain")
@pytest.mark.parametrize("drafted", [0, 3])
def test_what_the_sampler_gives_is_read_through_them(drafted: int) -> None:
    sampler = Sampler(50)
    sampler.arrange([None] * 5)
    logits = mx.random.normal((5, 1 + drafted, 50), key=mx.random.key(1))
    guesses = [mx.argmax(logits[:, place], axis=-1).astype(mx.int32) for place in range(drafted)]
    sampled = sampler.verify(logits, guesses[0], guesses) if drafted else sampler(logits[:, 0])
    wanted = [each.tolist() for each in (sampled.tokens, sampled.kept) if each is not None]
    assert [each.tolist() for each in sampled.read] == wanted and len(wanted) == (2 if drafted else 1)
    evaluated = {id(array) for array in sampled.arrays()}
    assert all(isinstance(each, HostRead) and {id(part) for part in each.arrays} <= evaluated for each in sampled.read)


@on_cuda
@pytest.mark.parametrize("shape", SHAPES)
def test_the_kernel_gives_the_numbers(shape: tuple[int, ...]) -> None:
    assert works()
    given = numbers(shape)
    assert HostRead(given).tolist() == given.tolist()
