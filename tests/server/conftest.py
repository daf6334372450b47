from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import openai
import pytest

from paceline.conversation.parsing.formats import OutputFormat
from paceline.settings import Settings
from tests.server import fake_service
from tests.server.fake_service import FakeService
from tests.server.harness import Address, serve
from tests.server.sdk_types import TypedClient

SETTINGS = Settings(max_body_mb=4, max_image_pixels=1_000_000, max_choices=4)


@pytest.fixture(scope="session")
def service() -> FakeService:
    return FakeService(SETTINGS)


@pytest.fixture(autouse=True)
def _nothing_hangs_yet(service: FakeService) -> None:
    service.hanging.clear()


@pytest.fixture(scope="session")
def address(service: FakeService) -> Iterator[Address]:
    """A real uvicorn on a loopback port, one for all tests."""
    with serve(service, SETTINGS) as address:
        yield address


@pytest.fixture(scope="session")
def http(address: Address) -> Iterator[httpx.Client]:
    with TypedClient(base_url=address, timeout=120) as client:
        yield client


@pytest.fixture(scope="session")
def client(address: Address) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{address}/v1", api_key="none", max_retries=0, timeout=120) as client:
        yield client


@pytest.fixture
def format(service: FakeService, monkeypatch: pytest.MonkeyPatch) -> None:
    """The model thinks, and calls as Hermes does."""
    monkeypatch.setattr(service, "answer_format", OutputFormat("hermes", "think"))


@pytest.fixture
def says(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """`says(text)` makes it the model's next answers."""
    yield lambda text: monkeypatch.setattr(fake_service, "REPLY", text)
