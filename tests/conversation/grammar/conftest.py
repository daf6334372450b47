"""Grammars over one small vocabulary, with all the time they need."""

from __future__ import annotations

import pytest

from paceline.conversation.grammar import Grammars
from paceline.conversation.tokenizer import Tokenizer
from tests.conversation import vocabularies
from tests.conversation.grammar.walks import WIDTH
from tests.waiting import WAIT


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    return vocabularies.byte_level(tmp_path_factory.mktemp("byte_level"))


@pytest.fixture(scope="module")
def grammars(tokenizer: Tokenizer) -> Grammars:
    ends = [*tokenizer.eos_ids, 10_000]  # some checkpoints name ends beyond their table
    return Grammars(tokenizer, WIDTH, ends, seconds=WAIT)
