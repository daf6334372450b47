from __future__ import annotations

from pathlib import Path

import pytest

from paceline.conversation.parsing.formats import OutputFormat
from paceline.conversation.sampling_tokens import SamplingVocabulary, _piece, think_marks
from paceline.conversation.tokenizer import Tokenizer
from paceline.errors import InvalidRequest
from paceline.types import Prompt, Sampling, SamplingTokens

THINKS = OutputFormat("hermes", "think")
PROMPT = Prompt((1, 2), tail="<|im_start|>assistant\n<think>\n")


@pytest.fixture(scope="module")
def tokenizer(llama: Path) -> Tokenizer:
    return Tokenizer.load(llama, {})


@pytest.fixture(scope="module")
def words(tokenizer: Tokenizer) -> SamplingVocabulary:
    return SamplingVocabulary(tokenizer, THINKS)


def test_a_request_that_says_nothing_in_words_has_no_tokens(words: SamplingVocabulary) -> None:
    assert words.tokens(Sampling(), PROMPT) == SamplingTokens()


def test_a_breaker_is_every_token_with_its_text_in_it(words: SamplingVocabulary, tokenizer: Tokenizer) -> None:
    found = words.tokens(Sampling(dry_multiplier=1, dry_sequence_breakers=("\n",)), PROMPT).dry_breakers
    assert found == {token for token in range(tokenizer.vocab_size) if b"\n" in tokenizer.token_bytes(token)}


def test_a_breaker_of_several_tokens_is_its_last_one(words: SamplingVocabulary, tokenizer: Tokenizer) -> None:
    text = "zqxjzqxj"
    found = words.tokens(Sampling(dry_multiplier=1, dry_sequence_breakers=(text,)), PROMPT).dry_breakers
    assert found == {tokenizer.encode(text, False)[-1]}


def test_a_bad_word_is_banned_with_a_space_before_it_and_without(
    words: SamplingVocabulary, tokenizer: Tokenizer
) -> None:
    found = words.tokens(Sampling(bad_words=("message",)), PROMPT).bad_words
    assert found == tuple(tuple(tokenizer.encode(text, False)) for text in ("message", " message"))
    with pytest.raises(InvalidRequest, match=r"bad_words\[1\]"):
        words.tokens(Sampling(bad_words=("a", "€" * 100)), PROMPT)


def test_the_marks_around_reasoning_are_tokens(words: SamplingVocabulary, tokenizer: Tokenizer) -> None:
    [opening], [closing] = tokenizer.encode("<think>", False), tokenizer.encode("</think>", False)
    marks = words.tokens(Sampling(thinking_token_budget=3), PROMPT).think
    assert marks is not None and (marks.open, marks.close, marks.forced) == ((opening,), closing, (closing,))
    assert marks.begins_open
    closed = words.tokens(Sampling(thinking_token_budget=3), Prompt((1,), tail="assistant\n")).think
    assert closed is not None and not closed.begins_open


def test_a_mark_of_several_tokens_cannot_be_forced(tokenizer: Tokenizer) -> None:
    spelled = OutputFormat("none", "mistral")  # its marks are no tokens of this vocabulary
    assert think_marks(tokenizer, spelled) is None
    assert SamplingVocabulary(tokenizer, spelled).no_thinking_budget is not None
    assert think_marks(tokenizer, OutputFormat()) is None
    assert SamplingVocabulary(tokenizer, OutputFormat()).no_thinking_budget is None  # no reasoning, nothing to limit


@pytest.mark.parametrize(("text", "piece"), [("▁a", b" a"), ("<0x0A>", b"\n"), ("é", "é".encode())])
def test_pieces_of_other_vocabularies_are_read_as_text(text: str, piece: bytes) -> None:
    assert _piece(text) == piece
