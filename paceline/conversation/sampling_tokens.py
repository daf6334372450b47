"""The token ids of what a request's sampling says in words: DRY's breakers, bad words, the marks around reasoning."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

from paceline.conversation.parsing.formats import HARMONY, OutputFormat, opens_reasoning
from paceline.errors import InvalidRequest
from paceline.types import Prompt, Sampling, SamplingTokens, ThinkMarks

if TYPE_CHECKING:  # it imports MLX, which a server must not do before its BLAS is set up
    from paceline.conversation.tokenizer import Tokenizer

KEPT = 256  # breakers whose tokens are remembered
LONGEST_MARK = 4  # tokens
LONGEST_WORD = 64  # tokens of a bad word
_BYTE = re.compile(r"<0x([0-9A-F]{2})>")  # how SentencePiece's vocabularies write one
HARMONY_OPEN, HARMONY_CLOSE = "<|channel|>analysis<|message|>", "<|end|>"
HARMONY_FINAL = "<|start|>assistant<|channel|>final<|message|>"


class SamplingVocabulary:
    """Thread-safe. The first breaker takes as long as reading the vocabulary does."""

    def __init__(self, tokenizer: Tokenizer, format: OutputFormat) -> None:
        self._tokenizer = tokenizer
        self._format = format
        self.marks = think_marks(tokenizer, format)
        self._containing = lru_cache(KEPT)(self._found)

    @property
    def no_thinking_budget(self) -> str | None:
        """Why the length of this model's reasoning cannot be limited."""
        if self.marks is not None or self._format.reasoning == "none":
            return None
        return "the mark that ends this model's reasoning is not a single token"

    @staticmethod
    def has_words(sampling: Sampling) -> bool:
        """Does it say anything in words?"""
        limits_thinking = sampling.thinking_token_budget is not None
        return limits_thinking or sampling.dry_multiplier > 0 or bool(sampling.bad_words)

    def tokens(self, sampling: Sampling, prompt: Prompt) -> SamplingTokens:
        """May take some milliseconds, with breakers or bad words. Raises InvalidRequest."""
        marks = None
        if sampling.thinking_token_budget is not None and self.marks is not None:
            marks = replace(self.marks, begins_open=opens_reasoning(prompt.tail, self._format))
        breakers: frozenset[int] = frozenset()
        if sampling.dry_multiplier > 0:
            breakers = breakers.union(*(self._containing(text) for text in sampling.dry_sequence_breakers))
        return SamplingTokens(breakers, self._words(sampling.bad_words), marks)

    def _words(self, words: Sequence[str]) -> tuple[tuple[int, ...], ...]:
        """A word as it is written at the start of a text, and after a space."""
        found: dict[tuple[int, ...], None] = {}
        for index, word in enumerate(words):
            for text in (word, " " + word.lstrip()):
                ids = tuple(self._tokenizer.encode(text, add_special_tokens=False))
                if not ids or len(ids) > LONGEST_WORD:
                    raise InvalidRequest.at(f"bad_words[{index}]", f"must have 1 to {LONGEST_WORD} tokens.")
                found[ids] = None
        return tuple(found)

    def _found(self, text: str) -> frozenset[int]:
        """The tokens that have the text in them; where none has, the last one that the text is made of."""
        searched = text.encode()
        found = frozenset(token for token, piece in self._pieces if searched in piece)
        return found or frozenset(self._tokenizer.encode(text, add_special_tokens=False)[-1:])

    @cached_property
    def _pieces(self) -> list[tuple[int, bytes]]:
        known = self._tokenizer.pieces
        if known is not None:
            return list(known.items())
        return [(token, _piece(text)) for text, token in self._tokenizer.vocabulary.items()]


def _piece(text: str) -> bytes:
    byte = _BYTE.fullmatch(text)
    return bytes([int(byte[1], 16)]) if byte else text.replace("▁", " ").encode()


def think_marks(tokenizer: Tokenizer, format: OutputFormat) -> ThinkMarks | None:
    """None: the model does not reason, or the end of its reasoning is no single token. A mark in several tokens may be
    written in others than the tokenizer's own, and would be missed."""
    think = format.think_format
    if format.reasoning == HARMONY:
        texts = (HARMONY_OPEN, HARMONY_CLOSE, HARMONY_FINAL)
    elif think is not None:
        texts = (think.open, think.close, "")
    else:
        return None
    opening, closing, more = (tuple(tokenizer.encode(text, add_special_tokens=False)) for text in texts)
    whole = tokenizer.decode([*opening, *closing], skip_special_tokens=False)
    if len(closing) != 1 or not 1 <= len(opening) <= LONGEST_MARK or whole.strip() != texts[0] + texts[1]:
        return None
    return ThinkMarks(opening, closing[0], closing + more)
