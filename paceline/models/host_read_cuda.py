"""Integers that the host reads after every step, on CUDA.

When the host reads an array of the GPU's, MLX first moves it to managed memory, with an allocation by the driver and a
copy. While other work runs that takes up to several milliseconds, in which nothing new is submitted. Arrays of at most
eight bytes come from a pool that both sides have mapped: so a kernel writes the integers there, two in an array.
"""

from __future__ import annotations

import logging
from functools import cache
from typing import Any

import mlx.core as mx

from paceline.models.cuda_kernel import CudaKernel, on_device

log = logging.getLogger("paceline")
MAX_NUMBERS = 256
EACH = 2  # int32 numbers of an array: eight bytes
SOURCE = """
T* const parts[] = {{{parts}}};
const int part = threadIdx.x, count = sizes[0];
if (part < Parts) {{
    for (int i = 0; i < Each; ++i) {{
        const int at = part * Each + i;
        parts[part][i] = at < count ? numbers[at] : 0;
    }}
}}
"""


class HostRead:
    """An int32 array, in parts. Its `arrays` are evaluated with the step."""

    def __init__(self, numbers: mx.array) -> None:
        self.shape = numbers.shape
        count = 1 << max(-(-numbers.size // EACH) - 1, 0).bit_length()  # a form of the kernel for each power of two
        self.arrays = _kernel(count)(
            inputs=[numbers, on_device((numbers.size,), mx.int32)],
            template=[("T", mx.int32), ("Parts", count), ("Each", EACH)],
            grid=(count, 1, 1),
            threadgroup=(count, 1, 1),
            output_shapes=[(EACH,)] * count,
            output_dtypes=[mx.int32] * count,
        )

    def tolist(self) -> Any:
        parts: list[Any] = [part.tolist() for part in self.arrays]
        flat = [number for part in parts for number in part]
        if len(self.shape) == 1:
            return flat[: self.shape[0]]
        rows, width = self.shape
        return [flat[row * width : (row + 1) * width] for row in range(rows)]


def readable(numbers: mx.array) -> mx.array | HostRead:
    """What to read instead of an int32 array of one axis or two: the array itself where that is not slow."""
    if numbers.size > MAX_NUMBERS or not works():
        return numbers
    return HostRead(numbers)


@cache
def works() -> bool:
    """Whether the kernel gives what MLX reads, on this machine."""
    if not mx.cuda.is_available():
        return False
    try:
        for shape in ((1,), (5,), (64,), (3, 7), (64, 4)):
            numbers = mx.random.randint(-1, 1 << 30, shape, dtype=mx.int32, key=mx.random.key(len(shape)))
            if HostRead(numbers).tolist() != numbers.tolist():
                raise RuntimeError("it reads other numbers")
    except Exception as error:  # noqa: BLE001  MLX reads them itself
        log.warning("our kernel for the host's reads is not used: %s", error)
        return False
    return True


@cache
def _kernel(count: int) -> CudaKernel:
    names = [f"part{place}" for place in range(count)]
    return CudaKernel(
        name="paceline_host_read",
        input_names=["numbers", "sizes"],
        output_names=names,
        source=SOURCE.format(parts=", ".join(names)),
    )
