from __future__ import annotations

from collections.abc import Iterator

import anthropic
import httpx
import pytest

from tests.server.anthropic.harness import Scripted
from tests.server.harness import Address, serve
from tests.server.sdk_types import TypedClient


@pytest.fixture(scope="module")
def scripted() -> Scripted:
    return Scripted()


@pytest.fixture(scope="module")
def scripted_address(scripted: Scripted) -> Iterator[Address]:
    with serve(scripted, scripted.settings) as address:
        yield address


@pytest.fixture
def actor(scripted: Scripted) -> Scripted:
    scripted.ends = {"finish_reason": "stop"}
    return scripted


@pytest.fixture(scope="module")
def stage(scripted_address: Address) -> Iterator[httpx.Client]:
    with TypedClient(base_url=scripted_address, timeout=120) as http:
        yield http


@pytest.fixture(scope="module")
def claude(address: Address) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(base_url=address, api_key="none", max_retries=0, timeout=120) as client:
        yield client


@pytest.fixture(scope="module")
def staged(scripted_address: Address) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(base_url=scripted_address, api_key="none", max_retries=0, timeout=120) as client:
        yield client
