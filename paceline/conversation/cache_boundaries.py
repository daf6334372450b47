"""Where a prompt is likely to stop being the beginning of others: behind its system prompt and behind each turn.

Recurrent state can be taken up only where it was kept, so the cache asks here where to keep it. A mark never
changes an answer; one that is missing, or of no use, costs time only.
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

from paceline.conversation.tokenizer import Tokenizer

Messages = Sequence[Mapping[str, Any]]
Tools = Sequence[Mapping[str, Any]] | None

PROBES = ("a", "7")  # a letter and a digit: tokenizers join them to what stands before by different rules
WORDS = ("paceline-first-probe", "paceline-second-probe", "paceline-third-probe")
LONGEST_GAP = 2  # tokens of whitespace between the end of a turn and the special token that opens the next
REMEMBERED = 64  # system prompts


class BoundaryFinder:
    """Finds the marks of prompts: rising, more than 0 and less than the prompt's length.

    Thread-safe. It raises nothing: where a template refuses a probe, there are fewer marks.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._written = self._behind_words()
        self._turn_ends = self._written | (tokenizer.eos_ids & tokenizer.special_ids)
        self._lock = Lock()
        self._systems: OrderedDict[bytes, array[int]] = OrderedDict()  # the least used first

    def chat(
        self, conversation: Messages, options: Mapping[str, Any], ids: Sequence[int], tools: Tools = None
    ) -> tuple[int, ...]:
        """The marks of a conversation as `normalized` gives it; `ids` are its tokens, placeholders not expanded."""
        options = {**options, "tools": tools}
        turns = self._turns(ids)
        found = [*turns, self._system(conversation, options, ids)]
        if not turns and not self._written:
            found.append(self._last_message(conversation, options, ids))
        return _inside(found, ids)

    def text(self, ids: Sequence[int]) -> tuple[int, ...]:
        """The marks of a prompt that the client has templated itself: its turns only."""
        return _inside(self._turns(ids), ids)

    # -- turns

    def _turns(self, ids: Sequence[int]) -> list[int]:
        ends = self._turn_ends
        return [self._past_gap(ids, place + 1) for place, id in enumerate(ids) if id in ends]

    def _past_gap(self, ids: Sequence[int], begin: int) -> int:
        """Past the whitespace that belongs to the turn's end, as ChatML's line break does."""
        for place, id in enumerate(ids[begin : begin + LONGEST_GAP + 1], begin):
            if id in self._tokenizer.special_ids:
                return place
            if not self._is_space(id):
                break
        return begin

    def _behind_words(self) -> frozenset[int]:
        """The special tokens that the template writes right behind a message's words.

        Most end answers too and are among the tokenizer's ends, but not all: GPT-OSS ends what is said with one
        token and the answer with another.
        """
        roles = ("user", "assistant", "user")
        probe = [{"role": role, "content": words} for role, words in zip(roles, WORDS, strict=True)]
        found = set()
        try:
            text = self._tokenizer.render(probe)
            for words in WORDS:
                tail = text.partition(words)[2].lstrip()
                found.update(self._tokenizer.encode(tail, add_special_tokens=False)[:1])
        except Exception:  # a template may refuse anything; the tokenizer's own ends remain
            return frozenset()
        return self._tokenizer.special_ids & found

    # -- the system prompt

    def _system(self, conversation: Messages, options: Mapping[str, Any], ids: Sequence[int]) -> int:
        """How much of the prompt would be the same with other words of the user; 0: unknown."""
        leading = list(takewhile(lambda message: message["role"] == "system", conversation))
        try:
            key = _key(leading, options)
        except Exception:  # options are the client's: nested without end, for one
            return 0
        with self._lock:
            prefix = self._systems.get(key)
            if prefix is not None:
                self._systems.move_to_end(key)
        if prefix is None:
            prefix = self._probed(leading, options)  # not under the lock: it may take long
            with self._lock:
                self._systems[key] = prefix
                while len(self._systems) > REMEMBERED:
                    self._systems.popitem(last=False)
        return _common(prefix, ids)

    def _probed(self, leading: Messages, options: Mapping[str, Any]) -> array[int]:
        """The tokens in front of the user's first words, whatever these are; none if the template refuses."""
        one, other = (self._rendered([*leading, {"role": "user", "content": words}], options) for words in PROBES)
        return array("i", one[: self._safe(one, _common(one, other))])

    # -- templates without turn ends

    def _last_message(self, conversation: Messages, options: Mapping[str, Any], ids: Sequence[int]) -> int:
        """Where the last message ends and the template's call for an answer begins; 0: unknown."""
        if not options.get("add_generation_prompt", True):
            return 0
        ended = self._rendered(conversation, {**options, "add_generation_prompt": False})
        return self._safe(ids, _common(ids, ended))

    # -- tokens

    def _rendered(self, messages: Messages, options: Mapping[str, Any]) -> list[int]:
        try:
            return self._tokenizer.encode(self._tokenizer.render(messages, **options), add_special_tokens=False)
        except Exception:  # a template may refuse a probe in any way
            return []

    def _safe(self, ids: Sequence[int], length: int) -> int:
        """At most `length`, and such that what follows, if it were other text, would not change the tokens before.

        The last token may join with it, and whitespace of any length with more whitespace: a special token never.
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
    """Of all that a probe's rendering depends on. Some templates write the day (Llama 3's do)."""
    return hashlib.sha256(repr((leading, dict(options), date.today())).encode()).digest()


def _common(one: Sequence[int], other: Sequence[int]) -> int:
    """The length of the longest common prefix."""
    shorter = min(len(one), len(other))
    if list(one[:shorter]) == list(other[:shorter]):  # the usual case, and far faster than the loop
        return shorter
    return next(place for place in range(shorter) if one[place] != other[place])


def _inside(boundaries: Iterable[int], ids: Sequence[int]) -> tuple[int, ...]:
    return tuple(sorted({boundary for boundary in boundaries if 0 < boundary < len(ids)}))
