"""Checkpoints in parts small enough to travel: one `torch.save` cut into numbered files."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import torch

PART = 15 * 2**20


def save(value: dict[str, Any], path: Path) -> None:
    """Writes `path`.00, `path`.01 and so on; parts of an older, longer one are removed."""
    buffer = io.BytesIO()
    torch.save(value, buffer)
    data = buffer.getvalue()
    path.parent.mkdir(parents=True, exist_ok=True)
    for old in path.parent.glob(f"{path.name}.[0-9][0-9]"):
        old.unlink()
    for index, start in enumerate(range(0, len(data), PART)):
        path.with_name(f"{path.name}.{index:02}").write_bytes(data[start : start + PART])


def load(path: Path) -> dict[str, Any]:
    parts = sorted(path.parent.glob(f"{path.name}.[0-9][0-9]"))
    if not parts:
        raise FileNotFoundError(f"no parts of a checkpoint at {path}")
    data = io.BytesIO(b"".join(part.read_bytes() for part in parts))
    value: dict[str, Any] = torch.load(data, map_location="cpu", weights_only=True)
    return value
