"""Cache boundaries: the lengths at which a prompt is likely to diverge from others, after its system prompt and turns.

Recurrent state can be resumed only at a length for which it was stored, and the boundaries say where to store it. They
never change an output. A missing or useless boundary only costs time.
"""

from __future__ import annotations

import hashlib
from array import array
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from itertools import takewhile
from threading import Lock
from typing import Any

from paceline.conversation.expansion import common_length
from paceline.conversation.tokenizer import Tokenizer

Messages = Sequence[Mapping[str, Any]]
Tools = Sequence[Mapping[str, Any]] | None

PROBES = ("a", "7")  # a letter and a digit: tokenizers join them to the text before by different rules
WORDS = ("paceline-first-probe", "paceline-second-probe", "paceline-third-probe")
MAX_GAP = 2  # tokens of whitespace between the end of a turn and the special token that opens the next
MAX_SYSTEM_PROMPTS = 64  # remembered


class BoundaryFinder:
    """Finds a prompt's boundaries: rising, more than 0 and less than its length.

    Thread-safe. It never raises: there are fewer boundaries where a template refuses a probe.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._written = self._after_words()
        self._turn_ends = self._written | (tokenizer.eos_ids & tokenizer.special_ids)
        self._lock = Lock()
        self._systems: OrderedDict[bytes, array[int]] = OrderedDict()  # the least used first

    def chat(
        self, conversation: Messages, options: Mapping[str, Any], ids: Sequence[int], tools: Tools = None
    ) -> tuple[int, ...]:
        """The boundaries of a normalized conversation. `ids` are its tokens, with placeholders not expanded."""
        options = {**options, "tools": tools}
        turns = self._turns(ids)
        found = [*turns, self._system(conversation, options, ids)]
        if not turns and not self._written:
            found.append(self._last_message(conversation, options, ids))
        return _inside(found, ids)

    def text(self, ids: Sequence[int]) -> tuple[int, ...]:
        """The boundaries of a prompt that the client has rendered itself: only its turns."""
        return _inside(self._turns(ids), ids)

    # -- turns

    def _turns(self, ids: Sequence[int]) -> list[int]:
        ends = self._turn_ends
        return [self._past_gap(ids, place + 1) for place, id in enumerate(ids) if id in ends]

    def _past_gap(self, ids: Sequence[int], begin: int) -> int:
        """The place after the whitespace that belongs to the turn's end, such as ChatML's line break."""
        for place, id in enumerate(ids[begin : begin + MAX_GAP + 1], begin):
            if id in self._tokenizer.special_ids:
                return place
            if not self._is_space(id):
                break
        return begin

    def _after_words(self) -> frozenset[int]:
        """The special tokens that the template writes right after a message's words.

        Most are among the tokenizer's end tokens, but not all: GPT-OSS ends a message in the history with another
        token than an output.
        """
        roles = ("user", "assistant", "user")
        probe = [{"role": role, "content": words} for role, words in zip(roles, WORDS, strict=True)]
        found = set()
        try:
            text = self._tokenizer.render(probe)
            for words in WORDS:
                tail = text.partition(words)[2].lstrip()
                found.update(self._tokenizer.encode(tail, add_special_tokens=False)[:1])
        except Exception:  # a template may refuse anything; the tokenizer's end tokens remain
            return frozenset()
        return self._tokenizer.special_ids & found

    # -- the system prompt

    def _system(self, conversation: Messages, options: Mapping[str, Any], ids: Sequence[int]) -> int:
        """How many tokens would stay the same with another user message; 0: unknown."""
        leading = list(takewhile(lambda message: message["role"] == "system", conversation))
        try:
            key = _key(leading, options)
        except Exception:  # options come from the client and may be nested too deep
            return 0
        with self._lock:
            prefix = self._systems.get(key)
            if prefix is not None:
                self._systems.move_to_end(key)
        if prefix is None:
            prefix = self._probed(leading, options)  # outside the lock: it may take long
            with self._lock:
                self._systems[key] = prefix
                while len(self._systems) > MAX_SYSTEM_PROMPTS:
                    self._systems.popitem(last=False)
        return common_length(prefix, ids)

    def _probed(self, leading: Messages, options: Mapping[str, Any]) -> array[int]:
        """The tokens before any user message; none if the template refuses the probes."""
        one, other = (self._rendered([*leading, {"role": "user", "content": words}], options) for words in PROBES)
        return array("i", one[: self._safe(one, common_length(one, other))])

    # -- templates without turn ends

    def _last_message(self, conversation: Messages, options: Mapping[str, Any], ids: Sequence[int]) -> int:
        """Where the last message ends and the generation prompt begins; 0: unknown."""
        if not options.get("add_generation_prompt", True):
            return 0
        ended = self._rendered(conversation, {**options, "add_generation_prompt": False})
        return self._safe(ids, common_length(ids, ended))

    # -- tokens

    def _rendered(self, messages: Messages, options: Mapping[str, Any]) -> list[int]:
        try:
            return self._tokenizer.encode(self._tokenizer.render(messages, **options), add_special_tokens=False)
        except Exception:  # a template may refuse a probe in any way
            return []

    def _safe(self, ids: Sequence[int], length: int) -> int:
        """The largest length, at most `length`, whose tokens do not depend on the text that follows.

        The last token may join with that text, and whitespace with more whitespace. A special token never does.
        """
        special = self._tokenizer.special_ids
        if length and ids[length - 1] not in special:
            length -= 1
            while length and ids[length - 1] not in special and self._is_space(ids[length - 1]):
                length -= 1
        return length

    def _is_space(self, id: int) -> bool:
        return not self._tokenizer.token_text(id).strip()


def _key(leading: Messages, options: Mapping[str, Any]) -> bytes:
    """A key of everything that a probe's rendering depends on. Some templates write the date (Llama 3's)."""
    return hashlib.sha256(repr((leading, dict(options), date.today())).encode()).digest()


def _inside(boundaries: Iterable[int], ids: Sequence[int]) -> tuple[int, ...]:
    return tuple(sorted({boundary for boundary in boundaries if 0 < boundary < len(ids)}))
