from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import paceline.cache
from paceline import cli
from paceline.cache.disk import Disk as Store
from paceline.cache.disk_files import Entry
from paceline.errors import PacelineError


@dataclass(frozen=True)
class Summary:
    model: str = "org/model-[4bit]"
    fingerprint: str = "a1b2c3"
    entries: int = 3
    bytes: int = 2_500_000
    tokens: int = 4096
    last_used: float = 0.0
    damaged: int = 0
    in_use: bool = False


class Disk(ModuleType):
    """Stands for `paceline.cache.disk_summary`: what the folder holds, and what was asked of it."""

    def __init__(self) -> None:
        super().__init__("paceline.cache.disk_summary")
        self.held: list[Summary] = []
        self.cleared: list[tuple[Path, str | None]] = []

    def summaries(self, folder: Path) -> list[Summary]:
        return list(self.held)

    def clear(self, folder: Path, fingerprint: str | None = None) -> tuple[int, int]:
        self.cleared.append((folder, fingerprint))
        gone = [of for of in self.held if fingerprint in (None, of.fingerprint)]
        if any(of.in_use for of in gone):
            raise PacelineError("a running server uses this cache")
        return sum(of.entries for of in gone), sum(of.bytes for of in gone)


@pytest.fixture(autouse=True)
def _surroundings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PACELINE_CACHE_DIR", raising=False)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("NO_COLOR", "1")


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    disk = Disk()
    monkeypatch.setitem(sys.modules, "paceline.cache.disk_summary", disk)
    monkeypatch.setattr(paceline.cache, "disk_summary", disk, raising=False)
    return disk


def invoke(*arguments: str, typed: str | None = None) -> Any:
    return CliRunner().invoke(cli.app, ["cache", *arguments], input=typed)


def test_ls_shows_every_model_the_last_used_first(disk: Disk) -> None:
    now = time.time()
    disk.held = [
        Summary(last_used=now - 3 * 86400, damaged=2),
        Summary(model="other", fingerprint="ffff", entries=1200, bytes=7_000_000_000, last_used=now, in_use=True),
    ]
    result = invoke("ls", "--cache-dir", "/cache")
    assert result.exit_code == 0, result.output
    [other, first] = [line.split("│") for line in result.output.splitlines() if "│" in line]
    assert [cell.strip() for cell in other[1:-1]] == [
        "other",
        "ffff",
        "1,200",
        "7.0 GB",
        "4,096",
        "just now",
        "in use",
    ]
    assert [cell.strip() for cell in first[1:-1]] == [
        "org/model-[4bit]",
        "a1b2c3",
        "3",
        "2 MB",
        "4,096",
        "3 d ago",
        "2 damaged",
    ]
    assert "1,203 prefixes, 7.0 GB, in /cache" in result.output


def test_a_model_of_which_only_damage_is_left_has_a_line(disk: Disk) -> None:
    disk.held = [Summary(model="", entries=0, damaged=1, tokens=0, last_used=0.0)]
    [line] = [line for line in invoke("ls", "--cache-dir", "/cache").output.splitlines() if "│" in line]
    assert "unknown" in line and "never" in line and "1 damaged" in line


def test_nothing_is_cut_in_80_columns(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    name, fingerprint = "a/model-with-a-long-name-as-they-have-today-4bit", "0123456789abcdef"
    disk.held = [Summary(model=name, fingerprint=fingerprint, bytes=2_500_000_000, in_use=True)]
    output = invoke("ls", "--cache-dir", "/cache").output
    assert "…" not in output and "01234567 " in output and "2.5 GB" in output
    lines = output.splitlines()
    assert max(len(line) for line in lines) <= 80
    assert "".join(line.split("│")[1].strip() for line in lines if "│" in line) == name


def test_fingerprints_that_begin_alike_are_shown_up_to_where_they_differ(disk: Disk) -> None:
    disk.held = [Summary(fingerprint="0123456789abcdef"), Summary(fingerprint="0123456789ffffff")]
    output = invoke("ls", "--cache-dir", "/cache").output
    assert "0123456789a " in output and "0123456789f " in output


def test_a_folder_in_use_is_told_before_the_question(disk: Disk) -> None:
    disk.held = [Summary(in_use=True)]
    result = invoke("clear", "--cache-dir", "/cache")
    assert result.exit_code == 2 and "a running server uses this cache" in result.stderr
    assert "Delete" not in result.output


@pytest.mark.parametrize("command", ["ls", "clear"])
def test_a_folder_without_prefixes_is_one_sentence(disk: Disk, command: str) -> None:
    result = invoke(command, "--cache-dir", "/cache/[x]")
    assert result.exit_code == 0
    assert result.output == "/cache/[x] holds no cached prefixes.\n"
    assert disk.cleared == []


def test_the_folder_comes_from_a_flag_the_file_or_the_variable(
    disk: Disk, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    config = tmp_path / "paceline.toml"
    config.write_text("cache_dir = '/from-file'\ncache_disk_gb = 3\n")
    monkeypatch.setenv("PACELINE_CACHE_DIR", "/from-variable")
    assert invoke("ls").output.startswith("/from-variable holds")
    assert invoke("ls", "--config", str(config)).output.startswith("/from-file holds")
    assert invoke("ls", "--config", str(config), "--cache-dir", "/flag").output.startswith("/flag holds")


@pytest.mark.parametrize("command", ["ls", "clear"])
def test_without_a_folder_the_commands_say_how_to_name_one(disk: Disk, command: str) -> None:
    result = invoke(command)
    assert result.exit_code == 2
    assert result.stderr == ("paceline: error: which folder? Give --cache-dir, or set cache_dir as for the server\n")


@pytest.mark.parametrize(("typed", "code", "times"), [("y\n", 0, 1), ("n\n", 1, 0), ("\n", 1, 0), ("", 1, 0)])
def test_clear_asks_first(disk: Disk, typed: str, code: int, times: int) -> None:
    disk.held = [Summary(), Summary(model="other", fingerprint="ffff", entries=1, bytes=10)]
    result = invoke("clear", "--cache-dir", "/cache", typed=typed)
    assert result.exit_code == code
    assert "Delete 4 prefixes of org/model-[4bit], other, 3 MB, in /cache? [y/N]" in result.output
    assert disk.cleared == [(Path("/cache"), None)] * times
    assert ("Deleted 4 prefixes, 3 MB." in result.output) == bool(times)


def test_yes_asks_nothing(disk: Disk) -> None:
    disk.held = [Summary(entries=1, bytes=999)]
    result = invoke("clear", "--cache-dir", "/cache", "--yes")
    assert result.output == "Deleted 1 prefix, 999 bytes.\n"
    assert disk.cleared == [(Path("/cache"), None)]


def test_one_model_is_cleared_by_its_fingerprint_or_the_beginning_of_it(disk: Disk) -> None:
    disk.held = [Summary(), Summary(model="other", fingerprint="a1ffff")]
    for given in ("a1b2c3", "a1b"):
        assert "Deleted 3 prefixes" in invoke("clear", "--cache-dir", "/cache", "--yes", "--model", given).output
    assert disk.cleared == [(Path("/cache"), "a1b2c3")] * 2


@pytest.mark.parametrize(("given", "words"), [("zz", "no model has"), ("a1", "several models have")])
def test_a_fingerprint_that_means_none_or_several_clears_nothing(disk: Disk, given: str, words: str) -> None:
    disk.held = [Summary(), Summary(model="other", fingerprint="a1ffff")]
    result = invoke("clear", "--cache-dir", "/cache", "--yes", "--model", given)
    assert result.exit_code == 2
    assert words in result.stderr and "a1b2c3 (org/model-[4bit]), a1ffff (other)" in result.stderr
    assert disk.cleared == []


def test_what_a_running_server_holds_is_one_line_and_exit_code_2(disk: Disk) -> None:
    disk.held = [replace(Summary(), in_use=True)]
    result = invoke("clear", "--cache-dir", "/cache", "--yes")
    assert result.exit_code == 2
    assert result.stderr == "paceline: error: a running server uses this cache\n"


def test_what_a_server_stored_is_listed_kept_while_it_runs_and_deleted_after(tmp_path: Path) -> None:
    folder = str(tmp_path)
    store = Store(tmp_path, "a1b2c3", 10**9, "org/model")
    store.open()
    try:
        store.put(Entry("00ff", None, np.arange(5), 0, "", False), [(np.zeros(1000, np.float32), "F32")])
        assert store.flush()
        listed = invoke("ls", "--cache-dir", folder).output
        assert "org/model" in listed and " 5 │" in listed and "in use" in listed and "1 prefix, " in listed
        refused = invoke("clear", "--cache-dir", folder, "--yes")
        assert refused.exit_code == 2 and "in use by a running server" in refused.stderr
    finally:
        store.close()
    assert "in use" not in invoke("ls", "--cache-dir", folder).output
    assert invoke("clear", "--cache-dir", folder, "--yes", "--model", "a1").output.startswith("Deleted 1 prefix, ")
    assert invoke("ls", "--cache-dir", folder).output == f"{folder} holds no cached prefixes.\n"


def test_the_commands_import_no_mlx(tmp_path: Path) -> None:
    code = (
        "import sys, paceline.cli\n"
        "from typer.testing import CliRunner\n"
        f"result = CliRunner().invoke(paceline.cli.app, ['cache', 'ls', '--cache-dir', {str(tmp_path)!r}])\n"
        "assert result.exit_code == 0, result.output\n"
        "print('mlx' in sys.modules or 'mlx.core' in sys.modules)"
    )
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert output.stdout == "False\n"
