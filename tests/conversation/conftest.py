"""Two small vocabularies, one of each kind that models have."""

from __future__ import annotations

import pytest

from paceline.conversation.tokenizer import Tokenizer
from tests.conversation import vocabularies


@pytest.fixture(scope="module")
def byte_level(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    return vocabularies.byte_level(tmp_path_factory.mktemp("byte_level"))


@pytest.fixture(scope="module")
def byte_fallback(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    return vocabularies.byte_fallback(tmp_path_factory.mktemp("byte_fallback"))
