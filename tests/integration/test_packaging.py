"""What an installed Paceline brings along."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from hatchling.builders.sdist import SdistBuilder
from hatchling.builders.wheel import WheelBuilder

from paceline.models.files import EMBEDDED

ROOT = Path(__file__).resolve().parents[2]
LARGEST = {"paceline-mini": 20_000_000, "paceline-mini-draft": 4_000_000}  # bytes on disk


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


def test_the_package_imports_nothing_that_a_wheel_lacks() -> None:
    for path in (ROOT / "paceline").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not {name.partition(".")[0] for name in names} & {"benchmarks", "tests", "training"}, path


@pytest.mark.parametrize("name", LARGEST)
def test_an_embedded_model_is_no_larger_than_was_promised(name: str) -> None:
    assert sum(path.stat().st_size for path in (EMBEDDED / name).iterdir()) <= LARGEST[name]
