"""Kernels that are compiled once: what MLX would compile, where it looks, and what happens when something is amiss."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest

from paceline.models import cuda_kernel
from paceline.models.cuda_kernel import CudaKernel, std_hash
from tests.cuda import on_cuda

SOURCE = "if (x_strides[0] && threadIdx.x < Count) out[threadIdx.x] = T(x[threadIdx.x] * 2);"
TEMPLATE: cuda_kernel.Template = [("T", mx.bfloat16), ("Count", 4)]
TYPES = [(mx.float32, True)]
NAME = "custom_kernel_doubles_bfloat16_t_4"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MLX_PTX_CACHE_DIR", str(tmp_path / "kernels"))
    return tmp_path / "kernels"


@pytest.fixture
def doubles(monkeypatch: pytest.MonkeyPatch) -> Iterator[CudaKernel]:
    """MLX's kernel, where there is no CUDA, gives back how it was called."""
    if not mx.cuda.is_available():
        monkeypatch.setattr(mx.fast, "cuda_kernel", lambda **how: lambda **call: [(how["name"], call["grid"])])
    yield CudaKernel(name="doubles", input_names=["x"], output_names=["out"], source=SOURCE)


@pytest.fixture
def compiles(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """NVRTC's place is taken by a list of what it was to compile."""
    asked: list[str] = []

    def compiled(source: str, function: str, arch: str) -> tuple[str, bytes]:
        asked.append(source)
        return "_Zmangled", b"object code"

    monkeypatch.setattr(cuda_kernel, "compiled", compiled)
    monkeypatch.setattr(cuda_kernel, "_arch", lambda: "sm_90a")
    return asked


def run(kernel: CudaKernel) -> Any:
    launch = {"grid": (4, 1, 1), "threadgroup": (4, 1, 1), "output_shapes": [(4,)]}
    return kernel(inputs=[mx.arange(4.0)], template=TEMPLATE, output_dtypes=[mx.bfloat16], **launch)


@pytest.mark.parametrize(
    ("text", "expected"),
    # From a program in C++: std::hash<std::string>{}(text).
    [("", 0x553E93901E462A6E), ("abc", 0x32D82BF8ED3DBA39), ("paceline_attention", 0x2738029DEE84AD55)],
)
def test_the_hash_is_that_of_the_cpp_library(text: str, expected: int) -> None:
    assert std_hash(text.encode()) == expected


def test_the_source_is_the_one_that_mlx_generates(doubles: CudaKernel) -> None:
    assert doubles.text(TYPES, TEMPLATE, [mx.bfloat16]) == (
        "namespace mlx::core::cu {\n\nnamespace cg = cooperative_groups;\n\n"
        f"__global__ void {NAME}(\n"
        "    const float* x,\n    const __grid_constant__ Strides x_strides,\n    __nv_bfloat16* out) {\n"
        "  using T = __nv_bfloat16;\n  constexpr int Count = 4;\n\n"
        f"{SOURCE}\n}}\n\n}} // namespace mlx::core::cu\n"
    )


def test_a_form_is_compiled_once_and_kept_where_mlx_looks(
    doubles: CudaKernel, folder: Path, compiles: list[str]
) -> None:
    if not mx.cuda.is_available():
        assert run(doubles) == run(doubles) == [("doubles", (4, 1, 1))]
    cuda_kernel.keep(doubles, TYPES, TEMPLATE, [mx.bfloat16])
    text = cuda_kernel.MLX_PRELUDE + doubles.text(TYPES, TEMPLATE, [mx.bfloat16])
    kept = folder / f"{NAME}_{std_hash(text.encode()):x}.ptx"
    assert len(compiles) == 1 and "cooperative_groups" not in compiles[0]
    assert sorted(folder.iterdir()) == [kept, kept.with_suffix(".txt")] and kept.read_bytes() == b"object code"
    assert kept.with_suffix(".txt").read_text() == f"mlx::core::cu::{NAME}\t_Zmangled\n"


def test_what_cannot_be_compiled_is_left_to_mlx(
    doubles: CudaKernel, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*asked: object) -> None:
        raise RuntimeError("NVRTC_ERROR_COMPILATION")

    monkeypatch.setattr(cuda_kernel, "compiled", fails)
    monkeypatch.setattr(cuda_kernel, "_arch", lambda: "sm_90a")
    cuda_kernel.keep(doubles, TYPES, TEMPLATE, [mx.bfloat16])
    assert not folder.exists()


def test_without_a_folder_nothing_is_compiled(
    doubles: CudaKernel, compiles: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MLX_PTX_CACHE_DIR", raising=False)
    cuda_kernel.keep(doubles, TYPES, TEMPLATE, [mx.bfloat16])
    assert compiles == []


CHILD = """
import os, sys
from pathlib import Path
os.environ["MLX_PTX_CACHE_DIR"] = sys.argv[1]
import mlx.core as mx
from paceline.models import cuda_kernel
from paceline.models.cuda_kernel import CudaKernel
kernel = CudaKernel(name="doubles", input_names=["x"], output_names=["out"], source=sys.argv[2])
if sys.argv[3] == "triples":  # MLX finds what we compiled, and compiles nothing itself
    compiled = cuda_kernel.compiled
    cuda_kernel.compiled = lambda source, *more: compiled(source.replace("* 2", "* 3"), *more)
    mx.eval(mx.zeros(4) + 1)
[out] = kernel(inputs=[mx.arange(4.0)], template=[("T", mx.bfloat16), ("Count", 4)], output_dtypes=[mx.bfloat16],
    grid=(4, 1, 1), threadgroup=(4, 1, 1), output_shapes=[(4,)])
print(out.tolist())
"""


@on_cuda
@pytest.mark.parametrize(
    ("planted", "expected"), [("doubles", [0.0, 2.0, 4.0, 6.0]), ("triples", [0.0, 3.0, 6.0, 9.0])]
)
def test_mlx_runs_the_kernel_that_we_compiled(planted: str, expected: list[float], tmp_path: Path) -> None:
    command = [sys.executable, "-c", CHILD, str(tmp_path), SOURCE, planted]
    child = subprocess.run(command, capture_output=True, text=True)
    assert child.stdout.strip() == str(expected), child.stderr
