"""How much of a test is run: enough to notice what breaks (`make test`), all of it (`make test-all`), or for longer
where that may show more (`make soak`).

A test that says nothing new, or takes long, is marked `slow`; of one with many parameters, `thin(n)` leaves one in n.
"""

from __future__ import annotations

import os

LONG = "PACELINE_TEST_LONG" in os.environ
ALL = LONG or "PACELINE_TEST_ALL" in os.environ


def turns(long: int, usual: int, short: int | None = None) -> int:
    """How often something is done: in `make soak`, in `make test-all`, in `make test`."""
    if LONG:
        return long
    return usual if ALL or short is None else short


def examples(count: int) -> int:
    """Of a property that is tried with so many, a fifth in `make test`."""
    return count if ALL else max(count // 5, 3)
