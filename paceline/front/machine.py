"""The memory that all models share, and the device they run on."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass

from paceline import platform
from paceline.errors import PacelineError
from paceline.settings import Settings

PROBE_SECONDS = 60
# MLX knows Metal's and CUDA's memory. In a process of its own, so that the front holds no part of the device.
PROBE = (
    "import json; from paceline import platform; platform.prepare('none'); kind = platform.device_kind(); "
    "limit = platform.memory_limit(kind); print(json.dumps([kind, limit.bytes, limit.source]))"
)


@dataclass(frozen=True, slots=True)
class Machine:
    kind: platform.DeviceKind
    memory: int  # bytes for all models together
    source: str


def machine(settings: Settings) -> Machine:
    if sys.platform == "linux" and not platform.has_cuda_build():
        limit = platform.memory_limit("cpu")
        kind: platform.DeviceKind = "cpu"
        size, source = limit.bytes, limit.source
    else:
        kind, size, source = _probed()
    if settings.memory_limit_gb is not None:
        return Machine(kind, int(settings.memory_limit_gb * 1e9), "--memory-limit-gb")
    return Machine(kind, size, source)


def _probed() -> tuple[platform.DeviceKind, int, str]:
    try:
        done = subprocess.run(
            [sys.executable, "-c", PROBE], capture_output=True, text=True, timeout=PROBE_SECONDS, check=True
        )
        kind, size, source = json.loads(done.stdout.splitlines()[-1])
    except (OSError, subprocess.SubprocessError, ValueError, IndexError) as error:
        raise PacelineError(f"the device cannot be looked at: {error}; `paceline doctor` may say why") from error
    return kind, int(size), str(source)
