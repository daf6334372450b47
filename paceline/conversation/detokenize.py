"""Token by token to text, valid UTF-8 at every piece, in constant time a token."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Sequence
from typing import Protocol


class Detokenizer(Protocol):
    """`push` returns the text that the token completes (often none); `finish` what is still held back."""

    def push(self, token_id: int) -> str: ...
    def finish(self) -> str: ...


class ByteDetokenizer:
    """For byte-level vocabularies: every token is bytes, and a character may span several tokens."""

    def __init__(self, token_bytes: Callable[[int], bytes]) -> None:
        self._token_bytes = token_bytes
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def push(self, token_id: int) -> str:
        return self._decoder.decode(self._token_bytes(token_id))

    def finish(self) -> str:
        return self._decoder.decode(b"", final=True)


class WindowDetokenizer:
    """For any other vocabulary: decode a short window of tokens again and take what is new.

    A token's text can depend on the token before it (leading spaces, byte fallback), so the window starts one
    piece back. Text that ends in U+FFFD may be half a character, and waits, but not for ever.
    """

    MAX_PENDING = 16  # tokens; a character has at most four bytes

    def __init__(self, decode: Callable[[Sequence[int]], str]) -> None:
        self._decode = decode
        self._window: list[int] = []
        self._known = 0  # tokens at the window's start whose text is out already
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
        else:  # bytes that are no character spoil, in some decoders, the characters right before them
            new = self._decode(self._window[self._known :])
        if new:
            self._window = self._window[self._known :]
            self._known = len(self._window)
            self._known_text = self._decode(self._window)
        elif len(self._window) - self._known > self.MAX_PENDING:  # skipped tokens, of which thousands may follow
            del self._window[self._known + 1 :]
        return new
