"""Which errors say that there is no memory."""

from __future__ import annotations

import pytest

from paceline.engine.pressure import is_out_of_memory


@pytest.mark.parametrize(
    "message",
    [
        "[metal::malloc] Attempting to allocate 99 bytes which is greater than the maximum allowed buffer size of 9",
        "[METAL] Command buffer execution failed: Insufficient Memory (kIOGPUCommandBufferCallbackErrorOutOfMemory)",
        "[malloc_or_wait] Unable to allocate 1073741824 bytes.",
        "cudaMallocAsync(&data, size, stream) failed: out of memory",
        "std::bad_alloc",
        "CUDA error: cannot allocate memory",
    ],
)
def test_the_words_of_each_device_are_known(message: str) -> None:
    assert is_out_of_memory(RuntimeError(message))


def test_pythons_own_error_counts() -> None:
    assert is_out_of_memory(MemoryError())


def test_what_caused_it_counts_too() -> None:
    try:
        try:
            raise RuntimeError("[malloc_or_wait] Unable to allocate 1 bytes.")
        except RuntimeError as inner:
            raise ValueError("a step was lost") from inner
    except ValueError as outer:
        assert is_out_of_memory(outer)
    try:
        try:
            raise MemoryError
        except MemoryError:
            raise ValueError("while it was handled")  # noqa: B904
    except ValueError as outer:
        assert is_out_of_memory(outer)


@pytest.mark.parametrize("error", [None, ValueError("shapes do not match"), RuntimeError(""), KeyError("memory")])
def test_others_are_others(error: BaseException | None) -> None:
    assert not is_out_of_memory(error)


def test_a_circle_of_causes_ends() -> None:
    first, second = ValueError("one"), ValueError("two")
    first.__cause__, second.__cause__ = second, first
    assert not is_out_of_memory(first)
