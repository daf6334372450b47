"""`paceline doctor`: is this machine ready, what fits on it, and what should be fixed. Imports MLX."""

from __future__ import annotations

import os
import resource
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal

from paceline import platform
from paceline.errors import PacelineError
from paceline.models import library
from paceline.settings import Settings

Level = Literal["ok", "warning", "problem"]
LITTLE_DISK = 10e9  # bytes: less does not hold a usual model
LITTLE_MEMORY = 4e9
WEIGHT_SHARE = 2 / 3  # of the memory: the rest is for sequences, prefixes and work
# Bytes of a parameter: with a scale and a bias for each group of quantized ones.
PARAMETERS = (("4-bit", 4.5 / 8), ("8-bit", 8.5 / 8), ("16-bit", 2.0))


@dataclass(frozen=True, slots=True)
class Finding:
    level: Level
    about: str
    text: str
    fix: str = ""  # what to do

    def line(self) -> str:
        sign = {"ok": "ok     ", "warning": "warning", "problem": "problem"}[self.level]
        fix = f"\n{'':10}fix: {self.fix}" if self.fix else ""
        return f"{sign}  {self.about}: {self.text}{fix}"


def examine(settings: Settings) -> Iterator[Finding]:
    """All findings, in the order in which a start would meet them."""
    yield versions()
    for check in (lambda: blas(settings), device, lambda: memory(settings), wired_limit):
        yield from _safely(check)
    yield from _safely(lambda: disk(library.cache_folder(), "the Hugging Face cache", LITTLE_DISK))
    if settings.cache_dir is not None:
        yield from _safely(lambda: disk(settings.cache_dir or Path(), "cache_dir", settings.cache_disk_gb * 1e9))
    yield from _safely(lambda: port(settings))
    yield from _safely(lambda: files(settings))
    yield from _safely(sizes)


def _safely(check: Callable[[], Finding | None]) -> Iterator[Finding]:
    """A check that fails is a finding too."""
    try:
        found = check()
    except PacelineError as error:
        found = Finding("problem", "start", str(error))
    except Exception as error:  # noqa: BLE001  a broken installation may raise anything
        found = Finding("problem", getattr(check, "__name__", "check"), f"{type(error).__name__}: {error}")
    if found is not None:
        yield found


def versions() -> Finding:
    found = [f"Python {sys.version.split()[0]}"]
    missing = []
    for package in ("paceline", "mlx", "mlx-lm", "mlx-vlm", "transformers"):
        try:
            found.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            if package != "paceline":  # run from a checkout
                missing.append(package)
    if missing:
        return Finding("problem", "packages", f"{', '.join(missing)} missing", "pip install paceline")
    return Finding("ok", "packages", ", ".join(found))


def blas(settings: Settings) -> Finding:
    report = platform.prepare(settings.blas, exact=settings.dtype == "float32")
    if report.warning:
        return Finding("warning", "BLAS", report.reason, "pip install opencv-python, or install libopenblas0-pthread")
    return Finding("ok", "BLAS", report.line().removeprefix("BLAS: "))


def device() -> Finding:
    import mlx.core as mx

    kind = platform.device_kind()
    mx.eval(mx.ones((64, 64)) @ mx.ones((64, 64)))  # raises where the device cannot be used
    name = str(platform.device_info().get("device_name", "")) if kind != "cpu" else f"{platform.usable_cpus()} cores"
    if kind == "cpu" and shutil.which("nvidia-smi"):
        fix = "pip install 'paceline[cuda]' in an environment without mlx[cpu]"
        return Finding("warning", "device", f"CPU, {name}, though there is an NVIDIA GPU", fix)
    return Finding("ok", "device", {"cpu": "CPU", "metal": "Metal", "cuda": "CUDA"}[kind] + f", {name}")


def memory(settings: Settings) -> Finding:
    found = platform.memory_limit()
    text = f"{found.bytes / 1e9:.1f} GB may be used ({found.source})"
    limit = settings.memory_limit_gb
    if limit is not None and limit * 1e9 > found.bytes:
        return Finding("warning", "memory", f"{text}, and memory_limit_gb is {limit:g}", "lower memory_limit_gb")
    if found.bytes < LITTLE_MEMORY:
        return Finding("warning", "memory", text, "close other programs, or use a small model")
    return Finding("ok", "memory", text)


def wired_limit() -> Finding | None:
    """macOS: memory that the GPU may keep. None elsewhere."""
    if sys.platform != "darwin":
        return None
    read = subprocess.run(["sysctl", "-n", "iogpu.wired_limit_mb"], capture_output=True, text=True, timeout=10)
    limit = int(read.stdout.strip() or 0)
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20
    if limit == 0:
        more = total * 85 // 100
        text = "the system's default, about three quarters of the memory"
        return Finding("ok", "wired limit", text, f"for larger models: sudo sysctl iogpu.wired_limit_mb={more}")
    if limit > total * 9 // 10:
        return Finding("warning", "wired limit", f"{limit} MB of {total} MB", "leave a tenth to the system")
    return Finding("ok", "wired limit", f"{limit} MB")


def disk(folder: Path, about: str, wanted: float) -> Finding:
    there = folder
    while not there.exists() and there != there.parent:
        there = there.parent
    free = shutil.disk_usage(there).free
    text = f"{free / 1e9:.1f} GB free in {folder}"
    if not os.access(there, os.W_OK | os.X_OK):
        return Finding(
            "problem", about, f"{there} cannot be written to", f"chown or choose another folder than {folder}"
        )
    if free < wanted:
        fix = (
            "delete models with `paceline models rm`, or set HF_HOME" if about != "cache_dir" else "lower cache_disk_gb"
        )
        return Finding("warning", about, text, fix)
    return Finding("ok", about, text)


def port(settings: Settings) -> Finding:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    where = f"{settings.host} port {settings.port}"
    try:
        socket.create_server((settings.host, settings.port), family=family).close()
    except OSError as error:
        fix = "stop what listens there, or choose another with --port"
        reason, _, _ = str(error.strerror or error).partition(" (while")  # Python names the address once more
        return Finding("warning", "address", f"{where}: {reason}", fix)
    return Finding("ok", "address", f"{where} is free")


def files(settings: Settings) -> Finding:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = settings.max_connections + 512
    if hard != resource.RLIM_INFINITY and hard < wanted:
        fix = f"raise the limit (ulimit -Hn {wanted}), or lower max_connections"
        return Finding("warning", "open files", f"{hard} allowed, {wanted} may be needed", fix)
    shown = "unlimited" if hard == resource.RLIM_INFINITY else str(hard)
    return Finding("ok", "open files", f"{shown} allowed, {wanted} may be needed")


def sizes() -> Finding:
    """Which models fit, by their number of parameters."""
    room = platform.memory_limit().bytes * WEIGHT_SHARE
    kinds: tuple[tuple[str, float], ...] = PARAMETERS
    if platform.device_kind() == "cpu":  # weights become float32 there, where that fits
        kinds = (*PARAMETERS, ("float32 (fastest on a CPU)", 4.0))
    fits = ", ".join(f"{room / size / 1e9:.0f}B at {name}" for name, size in kinds)
    return Finding("ok", "models that fit", f"up to about {fits}")
