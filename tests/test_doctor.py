from __future__ import annotations

import resource
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from paceline import doctor, platform
from paceline.errors import SettingsError
from paceline.settings import Settings


def test_a_sound_machine_has_no_problem_and_learns_what_fits() -> None:
    findings = {found.about: found for found in doctor.examine(Settings(port=0))}
    assert [found for found in findings.values() if found.level == "problem"] == []
    assert "B at 4-bit" in findings["models that fit"].text
    assert {"packages", "BLAS", "device", "memory", "address", "open files"} <= findings.keys()


def test_a_check_that_breaks_is_a_finding_and_the_others_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> Any:
        raise SettingsError("MLX has no backend")

    def strange() -> Any:
        raise RuntimeError("no device")

    monkeypatch.setattr(platform, "prepare", broken)
    monkeypatch.setattr(doctor, "device", strange)
    found = list(doctor.examine(Settings(port=0)))
    assert [one.text for one in found if one.level == "problem"] == ["MLX has no backend", "RuntimeError: no device"]
    assert found[-1].about == "models that fit"


def test_a_port_in_use_is_told_with_what_to_do() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        found = doctor.port(Settings(port=taken.getsockname()[1]))
    assert found.level == "warning" and "--port" in found.fix
    assert "fix: " in found.line() and "(" not in found.text


def test_little_memory_and_a_limit_above_it_are_warnings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "memory_limit", lambda kind=None: platform.MemoryLimit(10**9, "RAM"))
    assert doctor.memory(Settings()).level == "warning"
    assert "memory_limit_gb is 5" in doctor.memory(Settings(memory_limit_gb=5.0)).text


def test_a_full_disk_is_a_warning_and_a_folder_that_cannot_be_written_a_problem(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert doctor.disk(tmp_path / "new" / "folder", "x", 1).level == "ok"
    assert doctor.disk(tmp_path, "x", 1e30).level == "warning"
    monkeypatch.setattr("os.access", lambda *_: False)
    assert doctor.disk(tmp_path, "x", 1).level == "problem"


def test_too_few_open_files_are_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, 256))
    assert doctor.files(Settings()).level == "warning"
    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, resource.RLIM_INFINITY))
    assert doctor.files(Settings()).level == "ok"


@pytest.mark.parametrize(("limit", "words"), [("0", "default"), ("1000", "1000 MB"), ("999999999", "leave a tenth")])
def test_the_wired_limit_is_read_on_macos_only(monkeypatch: pytest.MonkeyPatch, limit: str, words: str) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    assert doctor.wired_limit() is None
    monkeypatch.setattr(sys, "platform", "darwin")
    done = subprocess.CompletedProcess([], 0, stdout=f"{limit}\n")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: done)
    found = doctor.wired_limit()
    assert found is not None and words in f"{found.text} {found.fix}"


def test_a_gpu_that_is_not_used_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "device_kind", lambda: "cpu")
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    found = doctor.device()
    assert found.level == "warning" and "cuda" in found.fix
