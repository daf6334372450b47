"""What start-up checks have found, kept in the user's cache folder for the next start.

A model that was checked need not be checked again while nothing has changed that a check depends on. The key is a
digest of all that: the checkpoint's files, Paceline's source, the libraries, the machine, the settings and the
variables. Only what has passed is kept. A file that cannot be read, or has been changed, is no verdict, and one that
cannot be written is not there at the next start: neither is an error.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import json
import logging
import os
import platform as host
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from paceline import platform
from paceline.settings import Settings

log = logging.getLogger("paceline")
SOURCE, KINDS = Path(__file__).parents[1], ("*.py", "*.cu*")
SOURCES = ("mlx", "mlx_lm", "mlx_vlm")  # packages that are known by their files too: people build and edit them
VERSIONS = (*SOURCES, "transformers", "tokenizers", "numpy", "pillow", "opencv-python", "llguidance", "safetensors")
VARIABLES = ("MLX_", "CUDA_", "NVIDIA_", "METAL_", "OPENBLAS_", "GOTO_", "OMP_", "MKL_", "NVPL_", "BLIS_")
ELSEWHERE = ("MLX_PTX_CACHE_DIR",)  # where something is kept, not what
# Panels of settings on which no check and no measurement depends.
APART = (
    "Server",
    "Several models",
    "Access",
    "Scheduling",
    "Files and batches",
    "Request limits",
    "Remote media",
)
CPU = ("vendor_id", "model name", "flags", "CPU implementer", "CPU part", "CPU variant", "Features")
GPU = ("device_name", "architecture", "compute_capability_major", "compute_capability_minor", "memory_size")
MAX_FILES, MAX_BYTES = 64, 1 << 16


class Verdicts:
    """By names; values are JSON."""

    def __init__(self, folder: Path | None, parts: Mapping[str, Any]) -> None:
        """`folder`: None keeps nothing. `parts`: what the verdicts depend on."""
        self._place = None if folder is None else folder / f"{digest(parts)[:32]}.json"
        self._found = {} if self._place is None else _read(self._place)
        self._new: dict[str, Any] = {}
        self.recalled = 0

    @classmethod
    def of(cls, settings: Settings, folders: Iterable[Path]) -> Verdicts:
        """Of a start with these settings. `folders`: of the models and adapters that are loaded."""
        if settings.startup_checks == "always":
            return cls(None, {})
        try:
            return cls(cache_folder(), key_parts(settings, folders))
        except (OSError, RuntimeError, ValueError) as error:  # no home, a file that went away
            log.debug("what the checks find is not kept: %s", error)
            return cls(None, {})

    def recall(self, name: str) -> Any:
        """What an earlier start has found, or None."""
        found = self._found.get(name)
        self.recalled += found is not None
        return found

    def keep(self, name: str, value: Any) -> None:
        """For the next start."""
        self._new[name] = value

    def write(self) -> None:
        """At the end of a start that has succeeded. Of two processes at once, the later one's file stays: it is whole,
        and what it lacks is checked again."""
        if self.recalled:
            log.info("%d checks passed at an earlier start and nothing has changed: they were not run", self.recalled)
        if self._place is None:
            return
        try:
            if not self._new:
                if self._found:
                    os.utime(self._place)  # the oldest make room
                return
            self._place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            half = self._place.with_suffix(f".{os.getpid()}")
            half.write_text(_text(self._found | self._new))
            half.replace(self._place)
            _make_room(self._place.parent)
        except (OSError, TypeError, ValueError) as error:
            log.debug("what the checks found is not kept: %s", error)


def cache_folder() -> Path:
    return platform.cache_folder() / "startup"


def digest(parts: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()


def key_parts(settings: Settings, folders: Iterable[Path]) -> dict[str, Any]:
    """All that a check of these models may depend on, by kind. After `platform.prepare`; imports MLX."""
    return {
        "models": [_files(folder) for folder in folders],
        "source": [
            hashlib.sha256(file.read_bytes()).hexdigest() for kind in KINDS for file in sorted(SOURCE.rglob(kind))
        ],
        "libraries": _libraries(),
        "machine": _machine(),
        "settings": _settings(settings),
        "variables": {
            name: value
            for name, value in sorted(os.environ.items())
            if name.startswith(VARIABLES) and name not in ELSEWHERE
        },
    }


def _files(folder: Path) -> list[Any]:
    """A checkpoint's or an adapter's. Also when each was last changed in any way: a copy may have the times of other
    weights, and to read samples of many files takes seconds on a slow disk."""
    changed = [file.stat().st_ctime_ns for file in sorted(folder.glob("*.safetensors"))]
    config = folder / "config.json"
    return [*_stamps(folder), changed, config.read_text() if config.is_file() else None]


def _settings(settings: Settings) -> dict[str, Any]:
    apart = {name for panel in APART for name in Settings.panels()[panel]}
    return settings.model_dump(mode="json", exclude={*apart, "startup_checks"})


def _libraries() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in VERSIONS:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = None
    for name in SOURCES:
        spec = importlib.util.find_spec(name)
        for place in (spec.submodule_search_locations if spec is not None else None) or ():
            stamps = _stamps(Path(place), (".py", ".so", ".dylib", ".metallib"))
            found.setdefault(f"files of {name}", []).extend(stamps)
    return found


def _machine() -> dict[str, Any]:
    try:
        cpu = {line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith(CPU)}
    except OSError:
        cpu = set()
    kind = platform.device_kind()
    device = {} if kind == "cpu" else platform.device_info()
    blas = platform.prepare()
    return {
        "system": [host.system(), host.release(), host.version(), host.machine(), host.libc_ver()],
        "python": sys.version,
        "cpu": [*sorted(cpu), platform.usable_cpus()],
        "device": [kind, *(str(device.get(name)) for name in GPU)],
        "driver": platform.cuda_driver() if kind == "cuda" else None,
        "blas": [str(blas.path), blas.threads, _stamp(blas.path) if blas.path is not None else None],
    }


def _stamps(folder: Path, ends: tuple[str, ...] = ("",)) -> Iterator[list[Any]]:
    """Names, sizes and times of the files in a folder and below; hidden ones do not count."""
    for place, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name != "__pycache__")
        for name in sorted(files):
            if name.endswith(ends) and not name.startswith("."):
                path = os.path.join(place, name)  # noqa: PTH118  a Path for each of thousands takes a tenth of a second
                yield [path.removeprefix(str(folder)), *_stamp(path)]


def _stamp(path: Path | str) -> tuple[int, int]:
    try:
        status = os.stat(path)  # noqa: PTH116
    except FileNotFoundError:  # a link to nothing
        return -1, -1
    return status.st_size, status.st_mtime_ns


def _text(found: Mapping[str, Any]) -> str:
    text = json.dumps({"verdicts": found, "digest": digest(found)})
    if len(text) > MAX_BYTES:
        raise ValueError(f"{len(text)} bytes")
    return text


def _read(place: Path) -> dict[str, Any]:
    try:
        with place.open("rb") as file:
            text = file.read(MAX_BYTES + 1)
        if len(text) > MAX_BYTES:
            raise ValueError("it is too long")
        stored = json.loads(text)
        found: dict[str, Any] = stored["verdicts"]
        if not isinstance(found, dict) or stored["digest"] != digest(found):
            raise ValueError("it has been changed")
        return found
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, LookupError, TypeError, RecursionError) as error:
        log.debug("%s is no verdict: %s", place, error)
        return {}


def _make_room(folder: Path) -> None:
    """The files used last stay."""
    files = sorted(folder.iterdir(), key=lambda file: file.stat().st_mtime, reverse=True)
    for file in files[MAX_FILES:]:
        file.unlink(missing_ok=True)
