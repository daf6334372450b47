"""How long the longest tests go on: `make soak` runs all of it, `make test` enough of it to notice."""

from __future__ import annotations

import os

LONG = "PACELINE_TEST_LONG" in os.environ


def turns(long: int, usual: int) -> int:
    return long if LONG else usual
