"""The model that `paceline serve` takes when it is given none."""

from __future__ import annotations

import os
from pathlib import Path

NAME = "paceline-tiny"


def ensure() -> Path:
    """The folder of the built-in model, made on first use: a tiny hybrid vision-language model of random weights.

    It shows that everything works; it knows no language. The trained model takes its place later.
    """
    from paceline.models import synthetic

    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache / "paceline" / f"{NAME}-2"
    if not (folder / "config.json").is_file():
        folder.parent.mkdir(parents=True, exist_ok=True)
        synthetic.build("hybrid", folder)
    return folder
