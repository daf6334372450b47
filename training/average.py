"""The average of two exported models of one shape: much of what a falling rate at the end of training does.

python -m training.average FOLDER OTHER WEIGHT OUT      WEIGHT is FOLDER's, between 0 and 1
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

import mlx.core as mx


def average(folder: Path, other: Path, weight: float, out: Path) -> None:
    """`out` is a copy of `folder` with the average of both weights."""
    theirs: dict[str, mx.array] = {}
    for path in sorted(other.glob("*.safetensors")):
        theirs |= _weights(path)
    shutil.copytree(folder, out)
    for path in sorted(folder.glob("*.safetensors")):
        mixed = {
            name: (weight * mine.astype(mx.float32) + (1 - weight) * theirs[name].astype(mx.float32)).astype(mine.dtype)
            for name, mine in _weights(path).items()
        }
        mx.save_safetensors(str(out / path.name), mixed, metadata={"format": "pt"})


def _weights(path: Path) -> dict[str, mx.array]:
    found: dict[str, mx.array] = mx.load(str(path))  # type: ignore[assignment]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("other", type=Path)
    parser.add_argument("weight", type=float)
    parser.add_argument("out", type=Path)
    given = parser.parse_args()
    average(given.folder, given.other, given.weight, given.out)


if __name__ == "__main__":
    main()
