"""`paceline-tiny`: the hybrid of random weights, with pictures and a head, that some benches measure by default.

Its figures are in docs/benchmarks.md; it knows no language. No MLX here: a bench may only hand the folder on.
"""

from __future__ import annotations

import os
from pathlib import Path

NAME = "paceline-tiny"


def folder() -> Path:
    """Where it is kept, made on first use."""
    from tests import synthetic

    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    kept = cache / "paceline" / f"{NAME}-2"
    if not (kept / "config.json").is_file():
        kept.parent.mkdir(parents=True, exist_ok=True)
        synthetic.build("hybrid", kept)
    return kept
