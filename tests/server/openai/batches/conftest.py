from __future__ import annotations

from collections.abc import Iterator

import openai
import pytest

from paceline.settings import Settings
from tests.server.fake_service import FakeService
from tests.server.openai.batches.harness import serving


@pytest.fixture(scope="module")
def worker() -> FakeService:
    return FakeService(Settings())


@pytest.fixture(scope="module")
def sdk(worker: FakeService, tmp_path_factory: pytest.TempPathFactory) -> Iterator[openai.OpenAI]:
    """One server with a folder for files, for all tests that leave it as it was."""
    with serving(tmp_path_factory.mktemp("files"), worker) as client:
        yield client
