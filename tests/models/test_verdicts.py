"""What checks have found is kept while nothing has changed, and nothing else is."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from paceline import platform
from paceline.models import verdicts
from paceline.models.verdicts import MAX_BYTES, MAX_FILES, Verdicts, digest, key_parts
from paceline.settings import Settings

PARTS = {"models": ["a"], "machine": "b"}


def stored(folder: Path, parts: dict[str, Any] = PARTS, **found: Any) -> Path:
    """The file of these verdicts."""
    written = Verdicts(folder, parts)
    for name, value in found.items():
        written.keep(name, value)
    written.write()
    (file,) = folder.iterdir()
    return file


def test_what_is_kept_is_found_by_the_next_start_as_it_was(tmp_path: Path) -> None:
    value = {"layout": "similar", "error": 0.1 + 0.2, "traces": False, "windows": [None, 4096]}
    stored(tmp_path / "new" / "folder", steps=value)
    found = Verdicts(tmp_path / "new" / "folder", PARTS)
    assert found.recall("steps") == value and found.recall("media") is None and found.recalled == 1


def test_later_starts_add_to_what_is_known(tmp_path: Path) -> None:
    stored(tmp_path, layout=1)
    stored(tmp_path, media=True)
    found = Verdicts(tmp_path, PARTS)
    assert (found.recall("layout"), found.recall("media")) == (1, True)


def test_other_parts_have_other_verdicts(tmp_path: Path) -> None:
    stored(tmp_path, layout=1)
    assert Verdicts(tmp_path, {**PARTS, "machine": "c"}).recall("layout") is None


def test_nothing_is_written_before_the_start_has_succeeded(tmp_path: Path) -> None:
    Verdicts(tmp_path, PARTS).keep("layout", 1)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[: len(text) // 2],
        lambda text: text.replace('"layout": 1', '"layout": 2'),
        lambda text: "[1, 2]",
        lambda text: '{"verdicts": [], "digest": ""}',
        lambda text: "[" * 10_000,
        lambda text: "",
        lambda text: text + " " * MAX_BYTES,
        lambda text: "\\ud800\0",
    ],
)
def test_a_damaged_file_is_no_verdict_and_no_error_and_is_replaced(
    tmp_path: Path, damage: Callable[[str], str]
) -> None:
    file = stored(tmp_path, layout=1)
    file.write_text(damage(file.read_text()))
    assert Verdicts(tmp_path, PARTS).recall("layout") is None
    stored(tmp_path, layout=3)
    assert Verdicts(tmp_path, PARTS).recall("layout") == 3


def test_a_folder_that_cannot_be_used_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    found = Verdicts(tmp_path / "file" / "below", PARTS)
    assert found.recall("layout") is None
    found.keep("layout", 1)
    found.write()


def test_values_that_are_too_large_or_no_json_are_not_kept(tmp_path: Path) -> None:
    for value in ("x" * MAX_BYTES, object()):
        found = Verdicts(tmp_path, PARTS)
        found.keep("layout", value)
        found.write()
    assert not list(tmp_path.iterdir())


def test_the_files_used_last_stay(tmp_path: Path) -> None:
    for number in range(MAX_FILES):
        found = Verdicts(tmp_path, {"number": number})
        found.keep("layout", number)
        found.write()
        (file,) = set(tmp_path.iterdir()) - {path for path in tmp_path.iterdir() if path.stat().st_mtime < 10_000}
        os.utime(file, (number, number))
    Verdicts(tmp_path, {"number": 0}).write()  # it is used again
    for number in range(MAX_FILES, MAX_FILES + 3):
        found = Verdicts(tmp_path, {"number": number})
        found.keep("layout", number)
        found.write()
    kept = [
        number for number in range(MAX_FILES + 3) if Verdicts(tmp_path, {"number": number}).recall("layout") is not None
    ]
    assert kept == [0, *range(4, MAX_FILES + 3)]


WRITER = """
import sys
from pathlib import Path
from paceline.models.verdicts import Verdicts
for number in range(50):
    found = Verdicts(Path(sys.argv[1]), {})
    assert found.recall("layout") in (None, "a" * 1000, "b" * 1000), "half a file"
    found.keep("layout", sys.argv[2] * 1000)
    found.write()
"""


def test_two_processes_at_once_leave_a_whole_file(tmp_path: Path) -> None:
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path), letter]) for letter in "ab"]
    assert [writer.wait(60) for writer in writers] == [0, 0]
    assert Verdicts(tmp_path, {}).recall("layout") in ("a" * 1000, "b" * 1000)
    assert len(list(tmp_path.iterdir())) == 1


# -- the key


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Paceline's source, small."""
    folder = tmp_path / "paceline"
    (folder / "models").mkdir(parents=True)
    (folder / "models" / "check.py").write_text("TOLERANCE = 1")
    monkeypatch.setattr(verdicts, "SOURCE", folder)
    yield folder


@pytest.fixture
def checkpoint(tmp_path: Path, llama: Path) -> Path:
    return Path(shutil.copytree(llama, tmp_path / "model"))


def touched(file: Path) -> None:
    status = file.stat()
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns + 1))


def rewritten(file: Path) -> None:
    """The last byte is another one, and the time is the same."""
    status, data = file.stat(), bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))


def weights(folder: Path) -> Path:
    return next(folder.glob("model*.safetensors"))


CHANGES: dict[str, Callable[[Path, Path, pytest.MonkeyPatch], None]] = {
    "weights that were written again": lambda model, source, patch: touched(weights(model)),
    "other weights with the old time": lambda model, source, patch: rewritten(weights(model)),
    "another tokenizer": lambda model, source, patch: touched(model / "tokenizer.json"),
    "another config": lambda model, source, patch: rewritten(model / "config.json"),
    "one more file": lambda model, source, patch: (model / "mtp.safetensors").touch(),
    "another source": lambda model, source, patch: rewritten(source / "models" / "check.py"),
    "one more module": lambda model, source, patch: (source / "new.py").touch(),
    "one more kernel": lambda model, source, patch: (source / "new.cu").touch(),
    "one more text for kernels": lambda model, source, patch: (source / "new.cuh").touch(),
    "another MLX": lambda model, source, patch: patch.setattr("importlib.metadata.version", lambda name: "1"),
    "a file of mlx-lm": lambda model, source, patch: patch.setattr(verdicts, "SOURCES", ("mlx", "mlx_vlm", "json")),
    "another Python": lambda model, source, patch: patch.setattr(sys, "version", "4"),
    "another system": lambda model, source, patch: patch.setattr("platform.release", lambda: "7"),
    "another device": lambda model, source, patch: patch.setattr(platform, "device_info", lambda: {"device_name": "b"}),
    "another kind": lambda model, source, patch: patch.setattr(platform, "device_kind", lambda: "metal"),
    "another driver": lambda model, source, patch: patch.setattr(platform, "cuda_driver", lambda: 14000),
    "fewer cores": lambda model, source, patch: patch.setattr(platform, "usable_cpus", lambda: 1000),
    "another BLAS": lambda model, source, patch: patch.setattr(
        platform, "prepare", lambda: platform.BlasReport("none")
    ),
    "a variable of MLX": lambda model, source, patch: patch.setenv("MLX_ENABLE_TF32", "7"),
    "a variable of BLAS": lambda model, source, patch: patch.setenv("OPENBLAS_CORETYPE", "GENERIC"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_each_part_of_the_key_changes_it(
    checkpoint: Path, source: Path, change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(platform, "device_kind", lambda: "cuda")
    monkeypatch.setattr(platform, "device_info", lambda: {"device_name": "a", "free_memory": 1})
    before = digest(key_parts(Settings(), [checkpoint]))
    assert digest(key_parts(Settings(), [checkpoint])) == before
    CHANGES[change](checkpoint, source, monkeypatch)
    assert digest(key_parts(Settings(), [checkpoint])) != before


@pytest.mark.usefixtures("source")
@pytest.mark.parametrize(
    ("fields", "changes"),
    [
        ({"kv_layout": "rows"}, True),
        ({"dtype": "float32"}, True),
        ({"shape_buckets": "on"}, True),
        ({"kv_bits": 8}, True),
        ({"memory_limit_gb": 4.0}, True),
        ({"draft_model": "a/b"}, True),
        ({"port": 9000}, False),
        ({"api_key": ("hunter2",)}, False),
        ({"max_queue": 3}, False),
        ({"startup_checks": "always"}, False),
    ],
)
def test_settings_of_the_engine_belong_to_the_key_and_those_of_the_server_do_not(
    checkpoint: Path, fields: dict[str, Any], changes: bool
) -> None:
    before, after = (key_parts(settings, [checkpoint]) for settings in (Settings(), Settings(**fields)))
    assert (digest(before) != digest(after)) is changes
    assert "hunter2" not in json.dumps(after, default=str)


@pytest.mark.usefixtures("source")
def test_what_is_free_now_and_where_kernels_are_kept_do_not_change_the_key(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(platform, "device_kind", lambda: "cuda")
    monkeypatch.setattr(platform, "device_info", lambda: {"device_name": "a", "free_memory": 1})
    before = digest(key_parts(Settings(), [checkpoint]))
    monkeypatch.setattr(platform, "device_info", lambda: {"device_name": "a", "free_memory": 2})
    monkeypatch.setenv("MLX_PTX_CACHE_DIR", "/somewhere/else")
    (checkpoint / ".lock").touch()
    assert digest(key_parts(Settings(), [checkpoint])) == before


@pytest.mark.usefixtures("source")
def test_always_reads_nothing_and_a_start_without_a_home_keeps_nothing(
    checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verdicts, "cache_folder", lambda: tmp_path / "kept")
    kept = Verdicts.of(Settings(), [checkpoint])
    kept.keep("layout", 1)
    kept.write()
    assert Verdicts.of(Settings(), [checkpoint]).recall("layout") == 1
    assert Verdicts.of(Settings(startup_checks="always"), [checkpoint]).recall("layout") is None

    def homeless() -> Path:
        raise RuntimeError("no home")

    monkeypatch.setattr(verdicts, "cache_folder", homeless)
    homeless_start = Verdicts.of(Settings(), [checkpoint])
    homeless_start.keep("layout", 1)
    homeless_start.write()


@pytest.mark.usefixtures("source")
def test_an_adapter_and_a_link_to_nothing_have_a_place_in_the_key(checkpoint: Path, tmp_path: Path) -> None:
    adapter = tmp_path / "adapter"
    adapter.mkdir()
    (adapter / "adapters.safetensors").write_bytes(b"1")
    (checkpoint / "gone.json").symlink_to(tmp_path / "nowhere")
    before = digest(key_parts(Settings(), [checkpoint, adapter]))
    touched(adapter / "adapters.safetensors")
    assert digest(key_parts(Settings(), [checkpoint, adapter])) != before
