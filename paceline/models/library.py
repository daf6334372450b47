"""The models that are on this machine: in the package, in a folder of models, in the Hugging Face cache. No MLX."""

from __future__ import annotations

import ast
import importlib.util
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from paceline.errors import LoadError
from paceline.models.files import EMBEDDED, WEIGHTS, embedded, other_purpose, read_config

Place = Literal["package", "folder", "cache"]


@dataclass(frozen=True, slots=True)
class LocalModel:
    name: str  # as `paceline serve` takes it, or in a folder of models the path inside
    folder: Path
    place: Place


def in_package() -> list[LocalModel]:
    return [LocalModel(name, EMBEDDED / name, "package") for name in embedded()]


def in_folder(folder: Path) -> list[LocalModel]:
    """The models in FOLDER/name and FOLDER/owner/name."""
    found = []
    for child in _folders(folder):
        if is_model(child):
            found.append(LocalModel(child.name, child, "folder"))
        else:
            found += [LocalModel(f"{child.name}/{inner.name}", inner, "folder") for inner in _folders(child, is_model)]
    return found


def in_cache(folder: Path | None = None) -> list[LocalModel]:
    """The models of the Hugging Face cache, each in the version that its main branch had when it was downloaded."""
    found = []
    for repository in _folders(cache_folder() if folder is None else folder):
        kind, _, name = repository.name.partition("--")
        snapshot = _snapshot(repository)
        if kind == "models" and snapshot is not None and is_model(snapshot):
            found.append(LocalModel(name.replace("--", "/"), snapshot, "cache"))
    return found


def in_cache_as(name: str) -> Path | None:
    """The folder of a Hugging Face id, if it has been downloaded."""
    snapshot = _snapshot(cache_folder() / f"models--{name.replace('/', '--')}")
    return snapshot if snapshot is not None and is_model(snapshot) else None


def cache_folder() -> Path:
    from huggingface_hub import constants

    return Path(constants.HF_HUB_CACHE)


def is_model(folder: Path) -> bool:
    """Whether its files look like a model that can be served: a known family, and weights."""
    try:
        config = read_config(folder)
        return any(folder.glob(WEIGHTS)) and other_purpose(config) is None and known_family(config)
    except (LoadError, OSError):
        return False


def known_family(config: dict[str, Any]) -> bool:
    """Whether mlx-lm has a module for the model or for its text model, by the names of its files."""
    modules, remapped = _families()
    types = [config.get("model_type")]
    for part in ("text_config", "llm_config", "language_config"):
        text = config.get(part)
        types.append(text.get("model_type") if isinstance(text, dict) else None)
    for kind in types:
        if isinstance(kind, str):
            kind = remapped.get(kind, kind)
            if kind in modules or kind.removesuffix("_text") in modules:
                return True
    return False


@cache
def _families() -> tuple[frozenset[str], dict[str, str]]:
    """mlx-lm's modules, and its other names for them. Read from its files: to import it imports MLX."""
    spec = importlib.util.find_spec("mlx_lm")
    folder = Path(next(iter((spec and spec.submodule_search_locations) or ())))
    remapped: dict[str, str] = {}
    for node in ast.parse((folder / "utils.py").read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and any(getattr(name, "id", "") == "MODEL_REMAPPING" for name in node.targets):
            remapped = ast.literal_eval(node.value)
    return frozenset(file.stem for file in (folder / "models").glob("*.py")), remapped


def _snapshot(repository: Path) -> Path | None:
    try:
        revision = (repository / "refs" / "main").read_text().strip()
    except (OSError, UnicodeDecodeError):
        revision = ""
    if revision and (repository / "snapshots" / revision).is_dir():
        return repository / "snapshots" / revision
    return max(_folders(repository / "snapshots"), key=lambda snapshot: snapshot.stat().st_mtime, default=None)


def _folders(folder: Path, wanted: Any = lambda child: True) -> Iterator[Path]:
    """Visible folders in it, by name. None where it cannot be read."""
    try:
        children = sorted(folder.iterdir())
    except OSError:
        return
    for child in children:
        if not child.name.startswith(".") and child.is_dir() and wanted(child):
            yield child
