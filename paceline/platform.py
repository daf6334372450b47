"""What the machine gives us: a fast BLAS on Linux CPU, the kind of device, the memory we may use.

Nothing here imports MLX when the module loads: `prepare` must run before the first `import mlx.core`.
"""

from __future__ import annotations

import atexit
import ctypes
import importlib.metadata
import importlib.util
import logging
import os
import platform
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from paceline.errors import SettingsError

logger = logging.getLogger("paceline")

DeviceKind = Literal["metal", "cuda", "cpu"]
DeviceInfo = Mapping[str, str | int]

# --- An optimised BLAS -------------------------------------------------------------------------------
#
# MLX's Linux CPU wheel carries reference BLAS under plain cblas_* names. A library that was loaded into the
# global symbol scope before libmlx.so wins over it, and is ten to fifty times faster in float32.

_INSTALL_HINT = "install libopenblas0-pthread or opencv-python, or give a path with --blas"
# Not libopenblas64: it has the plain names too, but takes 64-bit integers, so it would read garbage.
_OPENBLAS = re.compile(r"libopenblas[po]?([-.].*)?\.so(\.[\d.]+)?$")
_THREAD_VARIABLES = {
    "MKL": ("MKL_NUM_THREADS", "OMP_NUM_THREADS"),
    "OpenBLAS": ("OPENBLAS_NUM_THREADS", "GOTO_NUM_THREADS", "OMP_NUM_THREADS"),
}


# The backends share one file, libmlx.so, so the wheel cannot require one of them by default.
_NO_BACKEND = (
    "MLX has no backend in this environment: libmlx.so is missing. Install one of them: pip install 'mlx[cpu]' for a "
    "CPU, or pip install 'mlx[cuda13]' for an NVIDIA GPU (Paceline's extras cpu and cuda)"
)


@dataclass(frozen=True, slots=True)
class Blas:
    """A library that may do the products."""

    name: str
    path: Path


@dataclass(frozen=True, slots=True)
class BlasReport:
    """What `prepare` did, for the start-up log."""

    reason: str  # why this library, or why none
    name: str | None = None
    path: Path | None = None
    threads: int | None = None
    warning: bool = False  # products will run on reference BLAS, though it was not asked for

    def line(self) -> str:
        if self.path is None:
            return f"BLAS: {self.reason}"
        threads = "1 thread" if self.threads == 1 else f"{self.threads} threads"
        return f"BLAS: {self.name} with {threads}, {self.reason} ({self.path})"


_report: BlasReport | None = None


def prepare(blas: str | None = None, *, exact: bool = False) -> BlasReport:
    """What must happen before MLX is imported: load an optimised BLAS, where that helps, and log which.

    Only the first call does anything.

    `blas` is the setting of that name: a path, "none", or None to search. `exact`: float32 is asked for, and on CUDA
    MLX would multiply it in TF32, whose 10 bits make a sequence's tokens depend on the rest of the batch.
    """
    global _report
    if _report is None:
        if exact:
            os.environ.setdefault("MLX_ENABLE_TF32", "0")
        _report = _prepare(blas)
        logger.log(logging.WARNING if _report.warning else logging.INFO, _report.line())
        if sys.version_info < (3, 13):
            atexit.register(_let_threads_end)
    return _report


def without_torch() -> None:
    """Let transformers work as it does where PyTorch is not installed, for this process.

    To import PyTorch takes seconds, and nothing here uses it. Image processors compute alike on every machine then.
    """
    if "torch" in sys.modules:
        return
    sys.modules["torch"] = None  # type: ignore[assignment]  # Python's way to say that there is none
    try:
        from transformers.utils import is_torch_available

        is_torch_available()  # which remembers the answer
    finally:
        del sys.modules["torch"]


def _let_threads_end() -> None:
    """Give threads that were joined the time to be gone.

    One that used mx.random (importing mlx_lm does) takes the GIL once more while it dies, to drop MLX's
    thread-local key. Until Python 3.13 `join` does not wait for that, and a thread that comes for the GIL
    when the interpreter is on its way out kills it: "terminate called without an active exception".
    """
    time.sleep(0.1)


def cache_folder() -> Path:
    """Where this user's programs keep what they can make again."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "paceline"


def _kernel_folder() -> Path:
    return cache_folder() / "kernels" / f"{importlib.metadata.version('mlx')}-{_compute_capability()}"


def cuda_driver() -> int:
    """The version of CUDA that the driver has; 0: there is none."""
    version = ctypes.c_int()
    try:
        ctypes.CDLL("libcuda.so.1").cuDriverGetVersion(ctypes.byref(version))
    except (OSError, AttributeError):
        return 0
    return version.value


def _compute_capability() -> str:
    """Of the first GPU: object code for one kind does not run on another, and a home folder may be shared."""
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
        device, major, minor = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
        results = [cuda.cuInit(0), cuda.cuDeviceGet(ctypes.byref(device), 0)]
        results += [
            cuda.cuDeviceGetAttribute(ctypes.byref(value), attribute, device)
            for value, attribute in ((major, 75), (minor, 76))
        ]
        return "unknown" if any(results) else f"sm_{major.value}{minor.value}"
    except OSError:
        return "unknown"


# For MLX, which reads them when it is first used. It keeps what it has built for a shape: 400 CUDA graphs, about a
# hundred plans of cuDNN. A server meets more shapes. Its check for that counts all that were ever built: after twice as
# many as are kept, every new shape would be an error until the process ends.
CUDA_VARIABLES = {
    "MLX_CUDA_GRAPH_CACHE_SIZE": "4096",
    "MLX_CUDA_SDPA_CACHE_SIZE": "1024",
    "MLX_CUDA_CONV_CACHE_SIZE": "1024",
    "MLX_ENABLE_CACHE_THRASHING_CHECK": "0",
}


def _prepare(blas: str | None) -> BlasReport:
    if sys.platform != "linux":
        return BlasReport("MLX brings its own on this system")
    if has_cuda_build():
        for name, value in CUDA_VARIABLES.items():
            os.environ.setdefault(name, value)
        # Its default folder for compiled kernels is emptied with every restart of the machine.
        os.environ.setdefault("MLX_PTX_CACHE_DIR", str(_kernel_folder()))
        return BlasReport("not needed, MLX runs on CUDA")
    if not has_backend():
        raise SettingsError(_NO_BACKEND)
    if blas == "none":
        return BlasReport("MLX's own reference BLAS, as --blas none asks")
    if "mlx.core" in sys.modules:
        return BlasReport(
            "MLX's own reference BLAS, which is slow: mlx.core was imported before platform.prepare()",
            warning=True,
        )
    if blas is not None:
        return load_named(Path(blas))
    return load_first(find_blas())


def find_blas(
    *,
    root: Path = Path("/"),
    prefix: Path | None = None,
    packages: Sequence[Path] | None = None,
    machine: str | None = None,
    ldconfig: str | None = None,
) -> list[Blas]:
    """Libraries to try, best first: MKL, the system's OpenBLAS with threads, opencv-python's, a serial one.

    The arguments are where to look; the defaults are this machine. Reference BLAS is never among them.
    """
    prefix = Path(sys.prefix) if prefix is None else prefix
    packages = _package_folders() if packages is None else packages
    machine = platform.machine() if machine is None else machine
    ldconfig = _ldconfig() if ldconfig is None else ldconfig

    mkl = sorted((prefix / "lib").glob("libmkl_rt.so*"), reverse=True) if machine == "x86_64" else []
    # Without its kernels libmkl_rt ends the process at the first product.
    mkl = [path for path in mkl if any(path.parent.glob("libmkl_core.so*"))]

    system = [
        *root.glob("usr/lib/*/openblas-*/libopenblas*.so*"),  # Debian: one folder for each kind of threading
        *root.glob("usr/lib64/libopenblas*.so*"),  # Fedora: libopenblasp, libopenblaso, libopenblas
        *root.glob("usr/lib/libopenblas*.so*"),  # Arch
        *(Path(path) for path in re.findall(r"=> (\S*/libopenblas\S*)", ldconfig)),
    ]
    by_file = {path.resolve(): path for path in reversed(system) if _is_openblas(path)}
    system = sorted(by_file.values(), key=lambda path: (_threading_rank(path), str(path)))
    threaded = [path for path in system if _threading_rank(path) < _SERIAL]
    serial = [path for path in system if _threading_rank(path) >= _SERIAL]

    wheel = [
        path
        for folder in packages
        for path in sorted(folder.glob("opencv_python*.libs/libopenblas*.so*"))
        if _is_openblas(path)
    ]
    found = [Blas("MKL", path) for path in mkl]
    found += [Blas("OpenBLAS", path) for path in (*threaded, *wheel, *serial)]
    return found


def load_first(candidates: Sequence[Blas]) -> BlasReport:
    """Load the first candidate that loads and has plain cblas_* names."""
    failures = []
    for blas in candidates:
        try:
            return BlasReport("found by search", blas.name, blas.path, _load(blas))
        except OSError as error:
            failures.append(str(error))
    tried = f" ({'; '.join(failures)})" if failures else ""
    return BlasReport(
        f"no optimised one was found{tried}: float32 products on this CPU will be 10 to 50 times slower "
        f"than they could be; {_INSTALL_HINT}",
        warning=True,
    )


def load_named(path: Path) -> BlasReport:
    """Load the library that the user named, or say why not: a search would hide the mistake."""
    blas = Blas("MKL" if "mkl" in path.name else "OpenBLAS" if "openblas" in path.name else path.name, path)
    try:
        return BlasReport("as --blas asks", blas.name, blas.path, _load(blas))
    except OSError as error:
        raise SettingsError(f"--blas: cannot use {path}: {error}") from error


def blas_environment(name: str, env: MutableMapping[str, str], *, cpuinfo: str, machine: str, cpus: int) -> None:
    """Set what a BLAS reads when it is loaded, unless the user has."""
    variables = _THREAD_VARIABLES.get(name, ())
    if variables and not any(variable in env for variable in variables):
        env[variables[0]] = str(cpus)
    # On many virtual machines OpenBLAS does not recognise the core and takes kernels five times slower.
    if name == "OpenBLAS" and machine == "x86_64" and re.search(r"\bavx512f\b", cpuinfo):
        env.setdefault("OPENBLAS_CORETYPE", "SKYLAKEX")


def usable_cpus(root: Path = Path("/")) -> int:
    """Cores that this process may use: its affinity, cut by the cgroup's quota."""
    affinity = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quotas = [float(affinity)]
    for folder in _cgroup_folders(root, "cpu"):
        quota, period = _cgroup_cpu(folder)
        if quota > 0 and period > 0:
            quotas.append(quota / period)
    return max(1, int(min(quotas)))


def _load(blas: Blas) -> int:
    """Put the library in front of MLX's own; its number of threads. OSError when it cannot serve."""
    cpus = usable_cpus()
    cpuinfo = _read(Path("/proc/cpuinfo"))
    blas_environment(blas.name, os.environ, cpuinfo=cpuinfo, machine=platform.machine(), cpus=cpus)
    # Locally first: a library that turns out to lack the names must not stay in the global scope.
    library = ctypes.CDLL(str(blas.path), mode=os.RTLD_LOCAL)
    if not hasattr(library, "cblas_sgemm"):
        raise OSError(f"{blas.path} has no plain cblas_sgemm")
    library = ctypes.CDLL(str(blas.path), mode=os.RTLD_GLOBAL)
    if hasattr(library, "openblas_get_num_threads"):
        return int(library.openblas_get_num_threads())
    return int(next((os.environ[v] for v in _THREAD_VARIABLES.get(blas.name, ()) if v in os.environ), cpus))


_SERIAL = 3


def _threading_rank(path: Path) -> int:
    """POSIX threads, then OpenMP, then unknown, then serial. Debian's alternatives hide it behind a link."""
    real = str(path.resolve())
    if "serial" in real:
        return _SERIAL
    if "pthread" in real or "libopenblasp" in real:
        return 0
    return 1 if "openmp" in real or "libopenblaso" in real else 2


def _is_openblas(path: Path) -> bool:
    return _OPENBLAS.fullmatch(path.name) is not None


def _package_folders() -> list[Path]:
    return [Path(entry) for entry in sys.path if entry.endswith(("site-packages", "dist-packages"))]


def has_backend(folders: Sequence[Path] | None = None) -> bool:
    """Whether MLX's library is where its wheels and its own builds put it. Imports nothing."""
    if folders is None:
        spec = importlib.util.find_spec("mlx")
        folders = [Path(folder) for folder in (spec and spec.submodule_search_locations) or ()]
    return any((folder / "lib" / "libmlx.so").is_file() for folder in folders)


def has_cuda_build() -> bool:
    for name in ("mlx-cuda-13", "mlx-cuda-12", "mlx-cuda"):
        try:
            importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            continue
        return True
    return False


def _ldconfig() -> str:
    program = shutil.which("ldconfig", path=os.environ.get("PATH", "") + ":/sbin:/usr/sbin")
    if program is None:
        return ""
    try:
        return subprocess.run([program, "-p"], capture_output=True, text=True, timeout=10).stdout
    except (OSError, subprocess.SubprocessError):
        return ""


# --- The device and its memory -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class MemoryLimit:
    bytes: int
    source: str  # where the number comes from, for the log and /v1/status


def device_kind() -> DeviceKind:
    """Where MLX computes by default. Imports MLX: call `prepare` first."""
    import mlx.core as mx

    if mx.default_device().type == mx.DeviceType.cpu:
        return "cpu"
    return "metal" if mx.metal.is_available() else "cuda"


def device_info() -> dict[str, str | int]:
    """What MLX says about its default device. Imports MLX: call `prepare` first."""
    import mlx.core as mx

    return dict(mx.device_info())


def memory_limit(kind: DeviceKind | None = None, info: DeviceInfo | None = None, root: Path = Path("/")) -> MemoryLimit:
    """The bytes that weights, caches and activations together may take on the device.

    On CUDA and CPU that is what is free now: call it before loading a model, or add what MLX already holds.
    """
    kind = device_kind() if kind is None else kind
    if kind == "cpu":
        return _host_memory(root)  # MLX reports no size for the CPU
    info = device_info() if info is None else info
    if kind == "metal":
        if size := _size(info, "max_recommended_working_set_size"):
            return MemoryLimit(size, "Metal's recommended working set")
        if size := _size(info, "memory_size"):
            return MemoryLimit(size * 3 // 4, "three quarters of the memory Metal reports")
    else:
        if size := _size(info, "free_memory"):
            return MemoryLimit(size, "CUDA's free memory")
        if size := _size(info, "total_memory"):
            return MemoryLimit(size * 9 // 10, "nine tenths of the memory CUDA reports")
    host = _host_memory(root)
    return MemoryLimit(host.bytes, f"{host.source}, since MLX reports no size for the device")


def _size(info: DeviceInfo, key: str) -> int:
    value = info.get(key)
    return value if isinstance(value, int) and value > 0 else 0


def _host_memory(root: Path) -> MemoryLimit:
    """What is free now, for others use the machine too; caches of files count as free."""
    sizes = {
        name: int(size) * 1024 for name, size in re.findall(r"(?m)^(\w+):\s+(\d+) kB", _read(root / "proc/meminfo"))
    }
    if "MemAvailable" in sizes:
        limit = MemoryLimit(sizes["MemAvailable"], "free RAM")
    else:
        limit = MemoryLimit(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"), "RAM")
    for folder in _cgroup_folders(root, "memory"):
        for name, used in (("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes")):
            text = _read(folder / name).strip()
            if not text.isdecimal():
                continue
            files = re.search(r"(?m)^(?:total_)?inactive_file (\d+)", _read(folder / "memory.stat"))
            taken = int(_read(folder / used).strip() or 0) - (int(files[1]) if files else 0)
            free = max(int(text) - max(taken, 0), 0)
            if free < limit.bytes:
                limit = MemoryLimit(free, f"what the cgroup leaves ({folder / name})")
    return limit


def trim_host_memory() -> None:
    """Have the C library return freed memory to the system. glibc keeps it otherwise; others need no word."""
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # musl has none
        if trim is not None:
            trim(0)


# --- Control groups ----------------------------------------------------------------------------------


def _cgroup_folders(root: Path, controller: str) -> Iterator[Path]:
    """Every folder whose limit binds this process: its own group's and those above, in both versions."""
    mount = root / "sys/fs/cgroup"
    for line in _read(root / "proc/self/cgroup").splitlines():
        _, controllers, group = line.split(":", 2)
        if controllers == "":
            bases = [mount, mount / "unified"]
        elif controller in controllers.split(","):
            bases = [mount / controller, mount / controllers]
        else:
            continue
        for base in bases:
            # In a container the named group may lie outside the mount; then only the base exists.
            folder = base / group.lstrip("/")
            yield folder
            while folder != base and base in folder.parents:
                folder = folder.parent
                yield folder


def _cgroup_cpu(folder: Path) -> tuple[float, float]:
    """Quota and period in microseconds; zeros when there is no limit."""
    fields = _read(folder / "cpu.max").split()
    if not fields:
        fields = [_read(folder / "cpu.cfs_quota_us"), _read(folder / "cpu.cfs_period_us")]
    try:
        quota, period = (float(field) for field in fields)
    except ValueError:  # "max", a missing file
        return 0.0, 0.0
    return quota, period


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
