"""A sequence's text: detokenized, searched for stop strings, and released only when it is final.

mlx-lm's general detokenizer decodes the whole line again for every token; the ones here take constant time per token.
"""

from __future__ import annotations

import codecs
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from paceline.types import TokenLogprob


@dataclass(slots=True)
class TextChunk:
    """Text that is final. `stop` is the stop string that ended the text, which is part of it only where asked for."""

    text: str = ""
    token_ids: tuple[int, ...] = ()
    logprobs: tuple[TokenLogprob, ...] = ()
    stop: str | None = None


@dataclass(slots=True)
class _Token:
    token_id: int
    logprob: TokenLogprob | None
    begin: int  # its start in the text
    end: int


class TextStream:
    """Takes tokens and returns chunks of text. A token is in the chunk that completes its text.

    The text ends before the first stop string that is complete, or with `include_stop` behind it, wherever the token
    borders are.
    """

    def __init__(self, detokenizer: Detokenizer, stops: Sequence[str] = (), *, include_stop: bool = False) -> None:
        self._detokenizer = detokenizer
        self._include_stop = include_stop
        self._stops = tuple(stops)
        self._held = ""  # the end of the text, not released: it may begin a stop string
        self._shown = 0
        self._tokens: deque[_Token] = deque()

    def push(self, token_id: int, logprob: TokenLogprob | None = None, *, may_stop: bool = True) -> TextChunk:
        begin = self._shown + len(self._held)
        text = self._detokenizer.push(token_id)
        self._held += text
        end = begin + len(text)
        if self._stops and may_stop and not text:  # part of a character, which may begin a stop string
            end += 1
        self._tokens.append(_Token(token_id, logprob, begin, end))
        if not self._stops or not may_stop:  # a stop string may not begin here
            return self._show(len(self._held))
        if text and (found := self._find(self._held)):
            return self._cut(*found)
        return self._show(self._safe())

    def silent(self, token_id: int, logprob: TokenLogprob | None = None) -> None:
        """An end token: it ends the sequence and has no text."""
        place = self._shown + len(self._held)
        self._tokens.append(_Token(token_id, logprob, place, place))

    def finish(self, *, may_stop: bool = True) -> TextChunk:
        """The sequence ends: all held text is final, unless it completes a stop string."""
        text = self._detokenizer.finish()
        found = self._find(self._held + text) if may_stop else None
        self._held += text
        if found:
            return self._cut(*found)
        return self._show(len(self._held), ahead=1)

    def _find(self, text: str) -> tuple[int, str] | None:
        """The stop string that is complete first; of several, the longest."""
        hits = [(text.find(stop), stop) for stop in self._stops]
        hits = [hit for hit in hits if hit[0] >= 0]
        return min(hits, key=lambda hit: (hit[0] + len(hit[1]), hit[0])) if hits else None

    def _safe(self) -> int:
        """How many characters of the held text cannot begin a stop string."""
        held = self._held
        longest = 0
        for stop in self._stops:
            for size in range(min(len(stop) - 1, len(held)), longest, -1):
                if held.endswith(stop[:size]):
                    longest = size
                    break
        return len(held) - longest

    def _show(self, count: int, ahead: int = 0) -> TextChunk:
        text, self._held = self._held[:count], self._held[count:]
        self._shown += len(text)
        ready = []
        while self._tokens and self._tokens[0].end <= self._shown + ahead:
            ready.append(self._tokens.popleft())
        return TextChunk(text, *_columns(ready))

    def _cut(self, at: int, stop: str) -> TextChunk:
        at += len(stop) if self._include_stop else 0
        end = self._shown + at
        text = self._held[:at]
        kept = [token for token in self._tokens if token.begin < end]
        self._held, self._shown = "", end
        self._tokens.clear()
        return TextChunk(text, *_columns(kept), stop=stop)


def _columns(tokens: Sequence[_Token]) -> tuple[tuple[int, ...], tuple[TokenLogprob, ...]]:
    return tuple(t.token_id for t in tokens), tuple(t.logprob for t in tokens if t.logprob is not None)


class Detokenizer(Protocol):
    """`push` returns the text that the token completes, if any; `finish` returns what is held back."""

    def push(self, token_id: int) -> str: ...
    def finish(self) -> str: ...


class ByteDetokenizer:
    """For byte-level vocabularies: a token is bytes, and a character may span several tokens."""

    def __init__(self, token_bytes: Callable[[int], bytes]) -> None:
        self._token_bytes = token_bytes
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def push(self, token_id: int) -> str:
        return self._decoder.decode(self._token_bytes(token_id))

    def finish(self) -> str:
        return self._decoder.decode(b"", final=True)


class WindowDetokenizer:
    """For any other vocabulary: decodes a short window of tokens again and returns the new text.

    A token's text can depend on the token before it (leading spaces, byte fallback), so the window starts one chunk
    back. Text that ends in U+FFFD may be half a character and waits for up to `MAX_PENDING` tokens.
    """

    MAX_PENDING = 16  # tokens; a character has at most four bytes

    def __init__(self, decode: Callable[[Sequence[int]], str]) -> None:
        self._decode = decode
        self._window: list[int] = []
        self._known = 0  # tokens at the window's start whose text was returned
        self._known_text = ""

    def push(self, token_id: int) -> str:
        self._window.append(token_id)
        text = self._decode(self._window)
        waiting = len(self._window) - self._known
        if text.endswith("�") and waiting <= self.MAX_PENDING:
            return ""
        return self._emit(text)

    def finish(self) -> str:
        return self._emit(self._decode(self._window)) if len(self._window) > self._known else ""

    def _emit(self, text: str) -> str:
        if text.startswith(self._known_text):
            new = text[len(self._known_text) :]
        else:  # in some decoders, invalid bytes change the characters before them
            new = self._decode(self._window[self._known :])
        if new:
            self._window = self._window[self._known :]
            self._known = len(self._window)
            self._known_text = self._decode(self._window)
        elif len(self._window) - self._known > self.MAX_PENDING:  # skipped tokens: thousands may follow
            del self._window[self._known + 1 :]
        return new
