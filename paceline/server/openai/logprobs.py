"""Log probabilities in OpenAI's two shapes: the chat list, and the older parallel lists of completions."""

from __future__ import annotations

import codecs
from collections.abc import Iterable
from functools import partial
from typing import Any

from paceline.conversation.parsing.events import Reasoning
from paceline.server.common.chat_run import ChatDelta
from paceline.server.state import Tokenizer
from paceline.types import TokenLogprob

LEAST = -9999.0  # JSON has no infinity; vLLM's number for "impossible"


def token_label(tokenizer: Tokenizer, token_id: int) -> str:
    """A token's text; of one that is only part of a character its bytes: no two tokens look the same."""
    data = tokenizer.token_bytes(token_id)
    try:
        return data.decode()
    except UnicodeDecodeError:
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in data)


def id_label(token_id: int) -> str:
    return f"token_id:{token_id}"


def chat_logprobs(tokenizer: Tokenizer, entries: Iterable[TokenLogprob], *, as_ids: bool = False) -> dict[str, Any]:
    def entry(token_id: int, logprob: float) -> dict[str, Any]:
        return {
            "token": id_label(token_id) if as_ids else token_label(tokenizer, token_id),
            "logprob": max(logprob, LEAST),
            "bytes": list(tokenizer.token_bytes(token_id)),
        }

    return {
        "content": [
            {**entry(each.token_id, each.logprob), "top_logprobs": [entry(*top) for top in each.top]}
            for each in entries
        ],
        "refusal": None,
    }


class AnswerTokens:
    """Which deltas have tokens of a choice's answer, and not of its reasoning or of the marks around that. A token
    whose text is still to come belongs to what comes next."""

    def __init__(self) -> None:
        self._reasoning = False
        self._undecided: list[ChatDelta] = []

    def of(self, delta: ChatDelta) -> list[ChatDelta]:
        """Those that are known to be now that this one has come."""
        if any(isinstance(event, Reasoning) for event in delta.events):
            self._reasoning, self._undecided = isinstance(delta.events[-1], Reasoning), []
            return []
        if delta.events:
            self._reasoning = False
        elif self._reasoning:
            return []
        found = [*self._undecided, delta]
        self._undecided = [] if delta.events or delta.finish_reason is not None else found
        return [] if self._undecided else found


class CompletionLogprobs:
    """The parallel lists of one choice. Keeps where in the text the next token starts, for streams."""

    def __init__(self, tokenizer: Tokenizer, *, skip_special_tokens: bool, as_ids: bool = False) -> None:
        self.tokenizer = tokenizer
        self.label = id_label if as_ids else partial(token_label, tokenizer)
        self.unprinted = frozenset(tokenizer.eos_ids) if skip_special_tokens else frozenset()
        self.offset = 0
        self.decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def prompt(self, text: str, token_ids: Iterable[int], entries: Iterable[TokenLogprob | None]) -> dict[str, Any]:
        """The echoed prompt. Its first token has no probability: nothing comes before it."""
        lists = _empty()
        for position, (token_id, entry) in enumerate(zip(token_ids, entries, strict=True)):
            # The client did not write the begin token that a tokenizer adds.
            printed = position > 0 or text.startswith(token_label(self.tokenizer, token_id))
            self._append(lists, token_id, entry, printed=printed)
        # What is in the text is certain, its split into tokens' characters may not be.
        self.offset = len(text)
        self.decoder.reset()
        return lists

    def output(self, entries: Iterable[TokenLogprob]) -> dict[str, Any]:
        lists = _empty()
        for entry in entries:
            self._append(lists, entry.token_id, entry, printed=entry.token_id not in self.unprinted)
        return lists

    def _append(self, lists: dict[str, Any], token_id: int, entry: TokenLogprob | None, *, printed: bool) -> None:
        lists["tokens"].append(self.label(token_id))
        lists["text_offset"].append(self.offset)
        if printed:
            self.offset += len(self.decoder.decode(self.tokenizer.token_bytes(token_id)))
        if entry is None:
            lists["token_logprobs"].append(None)
            lists["top_logprobs"].append(None)
            return
        lists["token_logprobs"].append(max(entry.logprob, LEAST))
        # Of two tokens with one label the first stays, which is the likelier. The chosen one is always there.
        top: dict[str, float] = {}
        for other, logprob in (*entry.top, (entry.token_id, entry.logprob)):
            top.setdefault(self.label(other), max(logprob, LEAST))
        lists["top_logprobs"].append(top)


def joined(parts: Iterable[dict[str, Any]]) -> dict[str, Any]:
    lists = _empty()
    for part in parts:
        for name, values in part.items():
            lists[name] += values
    return lists


def _empty() -> dict[str, Any]:
    return {"text_offset": [], "token_logprobs": [], "tokens": [], "top_logprobs": []}
