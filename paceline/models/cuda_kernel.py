"""CUDA kernels of our own, compiled once on a machine.

MLX keeps its own compiled kernels in `MLX_PTX_CACHE_DIR`. Custom ones it looks for there too, but it never writes them:
it compiles them at every start, about a second and a half each, most of it for headers that ours do not need. So we
compile them with NVRTC, which MLX has loaded anyway, and put them where MLX looks: under the kernel's name and the hash
of the source that MLX would compile. An MLX that generates another source, or looks elsewhere, compiles by itself.
"""

from __future__ import annotations

import ctypes
import logging
import os
import time
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import mlx.core as mx

log = logging.getLogger("paceline")

Template = Sequence[tuple[str, mx.Dtype | int]]
# What MLX puts before a custom kernel, and what ours need of it.
MLX_PRELUDE = '\n#include "mlx/backend/cuda/device/utils.cuh"\n\n#include <cooperative_groups.h>\n\n'
PRELUDE = """
#include <cuda_bf16.h>
#include <cuda_fp16.h>
using int32_t = int;
using int64_t = long long;
using uint32_t = unsigned int;
namespace mlx::core::cu {
struct Strides {
    int64_t values[10];
    __device__ int64_t operator[](int axis) const { return values[axis]; }
};
}
"""
# As MLX names types in C++, and in names.
TYPES = {
    mx.float32: ("float", "float"),
    mx.float16: ("__half", "float16_t"),
    mx.bfloat16: ("__nv_bfloat16", "bfloat16_t"),
    mx.int32: ("int32_t", "int32_t"),
    mx.uint32: ("uint32_t", "uint32_t"),
}


class CudaKernel:
    """As `mx.fast.cuda_kernel`, whose arguments it takes."""

    def __init__(
        self,
        *,
        name: str,
        input_names: Sequence[str],
        output_names: Sequence[str],
        source: str,
        header: str = "",
        ensure_row_contiguous: bool = True,
        shared_memory: int = 0,
    ) -> None:
        self.name, self.source, self.header = name, source, header
        self.input_names, self.output_names = list(input_names), list(output_names)
        self._kernel: Any = mx.fast.cuda_kernel(
            name=name,
            input_names=self.input_names,
            output_names=self.output_names,
            source=source,
            header=header,
            ensure_row_contiguous=ensure_row_contiguous,
            shared_memory=shared_memory,
        )
        self._kept: set[Any] = set()

    def __call__(
        self, *, inputs: Sequence[mx.array], template: Template, output_dtypes: Sequence[mx.Dtype], **launch: Any
    ) -> list[mx.array]:
        types = [(array.dtype, array.ndim > 0) for array in inputs]
        form = (*template, *types, *output_dtypes)
        if form not in self._kept:
            self._kept.add(form)
            keep(self, types, template, output_dtypes)
        found: list[mx.array] = self._kernel(
            inputs=list(inputs), template=list(template), output_dtypes=list(output_dtypes), **launch
        )
        return found

    def function(self, template: Template) -> str:
        """The name that MLX gives to this form of the kernel."""
        parts = (TYPES[value][1] if isinstance(value, mx.Dtype) else str(value) for _, value in template)
        return "_".join([f"custom_kernel_{self.name}", *parts])

    def text(
        self, types: Sequence[tuple[mx.Dtype, bool]], template: Template, output_dtypes: Sequence[mx.Dtype]
    ) -> str:
        """What MLX compiles after its prelude."""
        arguments = []
        for name, (dtype, has_axes) in zip(self.input_names, types, strict=True):
            arguments.append(f"    const {TYPES[dtype][0]}* {name}")
            for kind, end in (("Shape", "shape"), ("Strides", "strides"), ("int", "ndim")):
                if has_axes and f"{name}_{end}" in self.source:
                    arguments.append(f"    const __grid_constant__ {kind} {name}_{end}")
        for name, dtype in zip(self.output_names, output_dtypes, strict=True):
            arguments.append(f"    {TYPES[dtype][0]}* {name}")
        constants = (
            f"  using {name} = {TYPES[value][0]};\n"
            if isinstance(value, mx.Dtype)
            else f"  constexpr int {name} = {value};\n"
            for name, value in template
        )
        given = ",\n".join(arguments)
        return (
            f"{self.header}namespace mlx::core::cu {{\n\nnamespace cg = cooperative_groups;\n\n"
            f"__global__ void {self.function(template)}(\n{given}) {{\n"
            f"{''.join(constants)}\n{self.source}\n}}\n\n}} // namespace mlx::core::cu\n"
        )


@lru_cache(maxsize=1024)
def on_device(numbers: tuple[float, ...], dtype: mx.Dtype) -> mx.array:
    """A small array in the GPU's own memory, shared by all layers of a step.

    MLX puts an array from Python into managed memory, and a kernel's first read of that is a page fault.
    """
    given = mx.array(numbers, dtype=dtype)  # held until the copy is there, or the copy would take its place
    copied = given + 0
    mx.eval(copied)
    return copied


def keep(
    kernel: CudaKernel,
    types: Sequence[tuple[mx.Dtype, bool]],
    template: Template,
    output_dtypes: Sequence[mx.Dtype],
) -> None:
    """Compile this form of a kernel to where MLX looks for it, unless it is there."""
    folder = os.environ.get("MLX_PTX_CACHE_DIR")
    if folder is None:
        return
    text = kernel.text(types, template, output_dtypes)
    function = f"mlx::core::cu::{kernel.function(template)}"
    place = Path(folder) / f"{kernel.function(template)}_{std_hash((MLX_PRELUDE + text).encode()):x}.ptx"
    if place.exists():
        return
    try:
        begun = time.perf_counter()
        mangled, code = compiled(PRELUDE + text.replace("namespace cg = cooperative_groups;", ""), function, _arch())
        place.parent.mkdir(parents=True, exist_ok=True)
        place.with_suffix(".txt").write_text(f"{function}\t{mangled}\n")
        half = place.with_suffix(f".{os.getpid()}")
        half.write_bytes(code)
        half.replace(place)
        log.debug("compiled %s in %.1f s", kernel.function(template), time.perf_counter() - begun)
    except (OSError, RuntimeError, LookupError) as error:  # no folder, NVRTC's, no NVRTC
        log.info("MLX compiles %s itself, at every start: %s", kernel.function(template), error)


def std_hash(data: bytes) -> int:
    """libstdc++'s hash of a string."""
    multiplier, mask = 0xC6A4A7935BD1E995, (1 << 64) - 1

    def mix(value: int) -> int:
        return value ^ value >> 47

    whole = len(data) & ~7
    found = 0xC70F6907 ^ len(data) * multiplier & mask
    for word in memoryview(data[:whole]).cast("Q"):
        found = (found ^ mix(word * multiplier & mask) * multiplier & mask) * multiplier & mask
    if rest := data[whole:]:
        found = (found ^ int.from_bytes(rest, "little")) * multiplier & mask
    return mix(mix(found) * multiplier & mask)


def compiled(source: str, function: str, arch: str, library: str | None = None) -> tuple[str, bytes]:
    """The name of `function` in the object code, and the object code."""
    nvrtc = ctypes.CDLL(library or _loaded_nvrtc())
    program = ctypes.c_void_p()
    _check(nvrtc, nvrtc.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"kernel.cu", 0, None, None))
    try:
        _check(nvrtc, nvrtc.nvrtcAddNameExpression(program, function.encode()))
        options = ["--device-as-default-execution-space", f"--gpu-architecture={arch}"]
        options += [f"--include-path={folder}" for folder in _headers()]
        given = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
        _check(nvrtc, nvrtc.nvrtcCompileProgram(program, len(options), given))
        name, size = ctypes.c_char_p(), ctypes.c_size_t()
        _check(nvrtc, nvrtc.nvrtcGetLoweredName(program, function.encode(), ctypes.byref(name)))
        mangled = (name.value or b"").decode()
        _check(nvrtc, nvrtc.nvrtcGetCUBINSize(program, ctypes.byref(size)))
        code = ctypes.create_string_buffer(size.value)
        _check(nvrtc, nvrtc.nvrtcGetCUBIN(program, code))
        return mangled, code.raw
    finally:
        nvrtc.nvrtcDestroyProgram(ctypes.byref(program))


def _check(nvrtc: Any, result: int) -> None:
    if result:
        nvrtc.nvrtcGetErrorString.restype = ctypes.c_char_p
        raise RuntimeError(nvrtc.nvrtcGetErrorString(result).decode())


def _arch() -> str:
    """As MLX compiles for this GPU."""
    info = mx.device_info(mx.gpu)
    major, minor = info["compute_capability_major"], info["compute_capability_minor"]
    return f"sm_{major}{minor}{'a' if int(major) >= 9 else ''}"


def _loaded_nvrtc() -> str:
    """The library that MLX has loaded."""
    maps = Path("/proc/self/maps").read_text().splitlines()
    found = next((line.split(maxsplit=5)[5] for line in maps if "/libnvrtc.so" in line), None)
    if found is None:
        raise LookupError("NVRTC is not loaded")
    return found


def _headers() -> list[Path]:
    """Where MLX looks for CUDA's headers, in its order."""
    packages = Path(mx.__file__).parents[1]
    home = os.environ.get("CUDA_HOME") or os.environ.get("CUDA_PATH") or "/usr/local/cuda"
    folders = [packages / "nvidia" / "cu13" / "include", packages / "nvidia" / "cuda_runtime" / "include"]
    return [folder for folder in [*folders, Path(home) / "include"] if folder.exists()][:1]
