from __future__ import annotations

import sys

import pytest

from paceline import platform
from paceline.errors import PacelineError
from paceline.front import machine as module
from paceline.front.machine import machine
from paceline.settings import Settings


def test_the_memory_is_the_machines_or_what_the_settings_say() -> None:
    assert machine(Settings()).memory > 0
    limited = machine(Settings(memory_limit_gb=2.0))
    assert (limited.memory, limited.source) == (2_000_000_000, "--memory-limit-gb")


def test_a_gpu_is_asked_in_a_process_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "has_cuda_build", lambda: True)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(module, "PROBE", "print('noise'); print('[\"cuda\", 5, \"CUDA\"]')")
    found = machine(Settings())
    assert (found.kind, found.memory, found.source) == ("cuda", 5, "CUDA")
    monkeypatch.setattr(module, "PROBE", "raise SystemExit(3)")
    with pytest.raises(PacelineError, match="paceline doctor"):
        machine(Settings())
