"""Walking a grammar in a test: by text, byte by byte where a token says so, or at random."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np

from paceline.conversation.grammar import Tool
from paceline.conversation.grammar.compile import Compiled, Matcher
from paceline.conversation.tokenizer import Tokenizer
from paceline.errors import RequestFailed

WIDTH = 600  # more than any of the tokenizers has
DAYS = {"type": "object", "properties": {"days": {"type": "integer"}}, "required": ["days"]}
TOOLS = [Tool("weather", DAYS), Tool("time")]


def follows(matcher: Matcher, tokens: Sequence[int]) -> int:
    """How many of the tokens the grammar lets through; they are accepted."""
    for place, token in enumerate(tokens):
        if not matcher.allowed(())[0, token]:
            return place
        matcher.accept(token)
    return len(tokens)


def takes(compiled: Compiled, tokenizer: Tokenizer, text: str) -> bool:
    """Is `text` an answer that may end where it ends?"""
    matcher = compiled.matcher()
    tokens = tokenizer.encode(text, add_special_tokens=False)
    return follows(matcher, tokens) == len(tokens) and may_end(matcher, tokenizer)


def may_end(matcher: Matcher, tokenizer: Tokenizer) -> bool:
    mask = matcher.allowed(())[0]
    return bool(mask[list(tokenizer.eos_ids)].all())


def wander(compiled: Compiled, tokenizer: Tokenizer, seed: int, most: int = 400) -> str | None:
    """A random answer; None where it did not end in time."""
    matcher, chance, said = compiled.matcher(), random.Random(seed), list[int]()
    for _ in range(most):
        token = chance.choice(np.flatnonzero(matcher.allowed(())[0]).tolist())
        matcher.accept(token)
        if token in tokenizer.eos_ids:
            return tokenizer.decode(said, skip_special_tokens=False)
        said.append(token)
    return None


def refuses(matcher: Matcher, token: int) -> bool:
    try:
        matcher.accept(token)
    except RequestFailed:
        return True
    return False
