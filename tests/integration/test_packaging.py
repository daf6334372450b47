"""What an installed Paceline brings along."""

from __future__ import annotations

import ast
import json
import re
import sys
import tomllib
from email import message_from_bytes
from email.message import Message
from functools import cache
from pathlib import Path
from zipfile import ZipFile

import pytest
from hatchling.builders.sdist import SdistBuilder
from hatchling.builders.wheel import WheelBuilder

from paceline.models.files import EMBEDDED

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
DISTRIBUTIONS = {"PIL": "pillow", "cv2": "opencv-python", "pydantic_core": "pydantic"}  # not named like their modules
NOT_IMPORTED = {"python-multipart"}  # Starlette imports it, to read forms
LARGEST = {"paceline-mini": 36_000_000, "paceline-mini-draft": 4_000_000}  # bytes on disk


@pytest.mark.parametrize("builder", [WheelBuilder, SdistBuilder])
def test_a_package_carries_the_embedded_models(builder: type[WheelBuilder | SdistBuilder]) -> None:
    packed = {file.distribution_path for file in builder(str(ROOT)).recurse_included_files()}
    files = {path.relative_to(ROOT).as_posix() for path in EMBEDDED.rglob("*") if path.is_file()}
    assert any(path.endswith(".safetensors") for path in files)
    assert files <= packed
    for name in LARGEST:  # what makes them greedy by default
        assert f"paceline/models/embedded/{name}/generation_config.json" in packed


def test_a_wheel_is_the_package_alone_and_a_source_archive_has_all_it_is_tested_with() -> None:
    wheel, source = (
        {Path(file.distribution_path).parts[0] for file in builder(str(ROOT)).recurse_included_files()}
        for builder in (WheelBuilder, SdistBuilder)
    )
    assert wheel == {"paceline"}
    assert {"paceline", "benchmarks", "tests"} <= source


@cache
def imported() -> dict[str, Path]:
    """The top-level modules that the package imports, each with a file that does."""
    found: dict[str, Path] = {}
    for path in (ROOT / "paceline").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
            found |= {name.partition(".")[0]: path for name in names}
    return found


def test_the_package_imports_nothing_that_a_wheel_lacks() -> None:
    for name in ("benchmarks", "tests", "training"):
        assert name not in imported(), imported()[name]


@pytest.mark.parametrize("name", LARGEST)
def test_an_embedded_model_is_no_larger_than_was_promised(name: str) -> None:
    assert sum(path.stat().st_size for path in (EMBEDDED / name).iterdir()) <= LARGEST[name]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> ZipFile:
    (path,) = WheelBuilder(str(ROOT)).build(directory=str(tmp_path_factory.mktemp("dist")), versions=["standard"])
    return ZipFile(path)


def metadata(wheel: ZipFile) -> Message:
    (name,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
    return message_from_bytes(wheel.read(name))


def test_a_built_wheel_has_the_licence_the_notice_the_weights_and_its_types_and_no_tests(wheel: ZipFile) -> None:
    names = wheel.namelist()
    for name in ("LICENSE", "NOTICE"):
        (packed,) = (path for path in names if path.endswith(f".dist-info/licenses/{name}"))
        assert wheel.read(packed) == (ROOT / name).read_bytes()
    for model in LARGEST:
        assert any(path.startswith(f"paceline/models/embedded/{model}/model") for path in names)
    assert "paceline/py.typed" in names
    folders = {path.split("/")[0] for path in names}
    assert {name for name in folders if not name.endswith(".dist-info")} == {"paceline"}


def test_a_wheels_metadata_says_who_made_it_under_which_licence_and_where_it_is(wheel: ZipFile) -> None:
    found = metadata(wheel)
    assert found["License-Expression"] == "Apache-2.0"
    assert found.get_all("License-File") == ["LICENSE", "NOTICE"]
    assert found["Author"] == "The Paceline authors"
    assert found["Requires-Python"] == ">=3.11"
    assert found["Keywords"]
    labels = {line.split(",")[0] for line in found.get_all("Project-URL", [])}
    assert {"Documentation", "Source", "Issues", "Changelog"} <= labels
    assert not [line for line in found.get_all("Classifier", []) if line.startswith("License ::")]  # PEP 639


def test_a_source_archive_has_the_licence_and_the_notice() -> None:
    packed = {file.distribution_path for file in SdistBuilder(str(ROOT)).recurse_included_files()}
    assert {"LICENSE", "NOTICE"} <= packed


def test_the_notice_names_every_source_of_the_training_text() -> None:
    notice = (ROOT / "NOTICE").read_text()
    manifest = json.loads((ROOT / "training/manifest.json").read_text())
    assert [source["package"] for source in manifest["sources"] if source["package"] not in notice] == []


def test_the_wheel_requires_what_it_imports_and_nothing_else() -> None:
    outside = set(imported()) - sys.stdlib_module_names - {"paceline"}
    needed = {DISTRIBUTIONS.get(name, name.replace("_", "-")) for name in outside}
    required = {re.split(r"[^\w.-]", line)[0] for line in PROJECT["dependencies"]}
    assert needed == required - NOT_IMPORTED
