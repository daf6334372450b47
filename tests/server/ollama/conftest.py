from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from tests.server.anthropic.harness import Scripted
from tests.server.harness import serve


@pytest.fixture(scope="module")
def scripted() -> Scripted:
    return Scripted()


@pytest.fixture(scope="module")
def stage(scripted: Scripted) -> Iterator[httpx.Client]:
    with serve(scripted, scripted.settings) as address, httpx.Client(base_url=address, timeout=120) as http:
        yield http


@pytest.fixture
def actor(scripted: Scripted) -> Scripted:
    scripted.ends = {"finish_reason": "stop"}
    return scripted
