"""JSON as it is usually written. A grammar leaves blanks open, so it forces almost nothing of a JSON answer. The same
grammar with the blanks of a usual style forces keys, quotes and braces: that is what a model probably writes next, and
what is proposed as a draft. The grammar itself decides what is allowed."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from llguidance import LLMatcher, LLTokenizer

# As Python's json.dumps writes it, which most models do, and without blanks.
STYLES: tuple[dict[str, Any], ...] = (
    {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "},
    {"whitespace_flexible": False, "item_separator": ",", "key_separator": ":"},
)


def styled(grammar: str) -> list[str]:
    """A grammar as `spec.write` makes it, once in every style; none if it has no JSON."""
    if '"json_schema"' not in grammar:
        return []
    found = []
    for style in STYLES:
        parts = json.loads(grammar)["grammars"]
        for part in parts:
            if "json_schema" in part:
                part["json_schema"]["x-guidance"] = style
        found.append(json.dumps({"grammars": parts}))
    return found


class StyleFollower:
    """Follows an answer in the first style that fits it so far."""

    def __init__(self, vocabulary: LLTokenizer, styles: Sequence[Callable[[], LLMatcher]]) -> None:
        """`styles` are called once each, when they are needed."""
        self._vocabulary = vocabulary
        self._left = list(styles)
        self._matcher: LLMatcher | None = None
        self._read = 0  # tokens of the answer

    def forced(self, tokens: Sequence[int]) -> list[int] | None:
        """What the style forces after `tokens`, which go on from those of the last call; None: no style fits them."""
        while True:
            if self._matcher is None:
                if not self._left:
                    return None
                self._matcher, self._read = self._left.pop(0)(), 0
            new = list(tokens[self._read :])
            if self._matcher.try_consume_tokens(new) == len(new) and not self._matcher.is_error():
                self._read = len(tokens)
                return self._written(self._matcher)
            self._matcher = None

    def _written(self, matcher: LLMatcher) -> list[int]:
        """The forced text as tokens. llguidance leaves off the last ones, where the free text behind may begin in the
        same token; a quote before a string seldom does."""
        tokens = list(matcher.compute_ff_tokens())
        rest = matcher.compute_ff_bytes()[len(self._vocabulary.decode_bytes(tokens)) :]
        return tokens + list(self._vocabulary.tokenize_bytes(rest))
