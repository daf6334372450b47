"""The scripted server that tests/bench has."""

from __future__ import annotations

from tests.bench.conftest import fake

__all__ = ["fake"]
