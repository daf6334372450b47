"""Logits processors: rules for the next token that depend on the tokens so far, each row with its own.

Their state is on the device and follows the tokens there, draft tokens too, so that no step waits for the host. It is
a function of a row's tokens alone: counting again from what was generated gives the same.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from typing import Any

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from paceline.engine import sequence
from paceline.types import LONGEST_DRAFT

State = tuple[mx.array, ...]  # each (rows, ...)
Rows = Sequence[tuple[int, sequence.Sequence]]  # with their places in the batch
NO_TOKEN = -1  # before the first
ANY_TOKEN = -2  # in a pattern
LONGEST_MATCH = 128  # tokens; DRY's penalty does not grow beyond
GROWTH = 512  # tokens that DRY's history has room for before it is made longer
STRONGEST = 1e30  # a penalty


def replaced(values: mx.array, index: mx.array, rows: mx.array) -> mx.array:
    """`values` with those at `index` replaced."""
    if rows.shape[0] == values.shape[0]:
        return rows
    values = values + 0  # the caller's array stays as it is
    values[index] = rows
    return values


class Processor(ABC):
    """`before` is the processor that it takes over from: rows that both have keep their state, which knows tokens that
    the host has not read yet."""

    def __init__(self, rows: Rows = (), before: Processor | None = None, vocab_size: int = 0) -> None:
        self.seqs = [seq for _, seq in rows]
        self.vocab_size = vocab_size
        self._state: State = ()
        if not rows:
            return
        self.index = mx.array([row for row, _ in rows])
        self.prepare()
        known = {id(seq): place for place, seq in enumerate(before.seqs)} if before is not None else {}
        states = []
        for seq in self.seqs:
            if before is not None and id(seq) in known:
                states.append(self.resized(tuple(part[known[id(seq)]] for part in before._state)))
            else:
                states.append(self.initial(seq))
        self._state = tuple(mx.stack(list(column)) for column in zip(*states, strict=True))

    @staticmethod
    @abstractmethod
    def concerns(seq: sequence.Sequence) -> bool:
        """Has this row asked for it?"""

    @abstractmethod
    def prepare(self) -> None:
        """Make arrays of what the rows of `seqs` have asked for."""

    @abstractmethod
    def initial(self, seq: sequence.Sequence) -> State:
        """One row's state after its prompt and what it has generated."""

    @abstractmethod
    def advanced(self, state: State, tokens: mx.array) -> State:
        """The rows' state after one more token each."""

    @abstractmethod
    def changed(self, logits: mx.array, state: State) -> mx.array: ...

    def resized(self, state: State) -> State:
        """One row's state, taken over, in the sizes of this processor."""
        return state

    def needs_arranging(self) -> bool:
        return False

    def apply(self, logits: mx.array, before: Collection[mx.array] = ()) -> mx.array:
        """The logits after the tokens `before`, which are not counted yet."""
        state = self.start()
        for tokens in before:
            state = self.after(state, tokens)
        return self.apply_state(logits, state)

    def start(self) -> State:
        """The rows' state now, for `apply_state` and `after`."""
        return self._state

    def after(self, state: State, tokens: mx.array) -> State:
        """The state after one more token of each row of the batch."""
        return self.advanced(state, tokens[self.index]) if self.seqs else state

    def apply_state(self, logits: mx.array, state: State) -> mx.array:
        return replaced(logits, self.index, self.changed(logits[self.index], state)) if self.seqs else logits

    def count(self, tokens: mx.array) -> None:
        if self.seqs:
            self._state = self.advanced(self._state, tokens[self.index])

    def count_kept(self, tokens: mx.array, kept: mx.array) -> None:
        """Count the first `kept[i]` of each row's `tokens` (rows, width)."""
        if not self.seqs:
            return
        tokens, kept = tokens[self.index], kept[self.index]
        for place in range(tokens.shape[1]):
            after = self.advanced(self._state, tokens[:, place])
            taken = place < kept
            self._state = tuple(
                mx.where(taken.reshape(-1, *[1] * (new.ndim - 1)), new, old)
                for new, old in zip(after, self._state, strict=True)
            )

    def state(self) -> list[mx.array]:
        return list(self._state)


def _tail(seq: sequence.Sequence, size: int) -> NDArray[np.int32]:
    """The row's last tokens, the newest at the end."""
    tail = np.full(size, NO_TOKEN, dtype=np.int32)
    generated = seq.generated[-size:] if size else []
    prompted = seq.prompt.token_ids[-(size - len(generated)) :] if size > len(generated) else ()
    said = [*prompted, *generated]
    if said:
        tail[-len(said) :] = said
    return tail


def _fitted(values: mx.array, size: int, fill: int) -> mx.array:
    """The last `size` of them, with `fill` in front where there are fewer."""
    missing = size - values.shape[0]
    if missing > 0:
        return mx.concatenate([mx.full((missing,), fill, dtype=values.dtype), values])
    return values[-missing:]


def _shifted(tail: mx.array, tokens: mx.array) -> mx.array:
    return mx.concatenate([tail[:, 1:], tokens[:, None].astype(tail.dtype)], axis=1)


def _is_pattern(tail: mx.array, pattern: mx.array) -> mx.array:
    return ((tail == pattern) | (pattern == ANY_TOKEN)).all(axis=-1)


def _patterns(words: Sequence[Sequence[int]], size: int) -> NDArray[np.int32]:
    """Each of the words as the end of a tail of `size`."""
    patterns = np.full((len(words), size), ANY_TOKEN, dtype=np.int32)
    for pattern, word in zip(patterns, words, strict=True):
        if word:
            pattern[-len(word) :] = word
    return patterns


class Dry(Processor):
    """DRY ("don't repeat yourself"): a token that would make a repetition longer is penalized, the more the longer the
    repetition already is. Tokens that break sequences end a repetition, and are never penalized.

    The state is the history, aligned at its end, and for each place in it how many tokens up to there are the same as
    the last ones. A token more changes that by one comparison per place.
    """

    @staticmethod
    def concerns(seq: sequence.Sequence) -> bool:
        s = seq.sampling
        return s.dry_multiplier > 0 and s.dry_penalty_last_n != 0

    def prepare(self) -> None:
        rules = [seq.sampling for seq in self.seqs]
        needed = max(min(_look_back(seq), _length(seq) + GROWTH) for seq in self.seqs)
        self.width = 1 << (needed - 1).bit_length()  # few sizes: a GPU is slow with new ones
        self.multiplier = mx.array([s.dry_multiplier for s in rules])[:, None]
        self.base = mx.array([s.dry_base for s in rules])[:, None]
        self.allowed = mx.array([s.dry_allowed_length for s in rules])[:, None]
        breakers = np.zeros((len(rules), self.vocab_size), dtype=np.bool_)
        for row, seq in enumerate(self.seqs):
            breakers[row, [token for token in seq.request.tokens.dry_breakers if token < self.vocab_size]] = True
        self.breakers = mx.array(breakers)
        # A match begins within the row's own window, whatever the width.
        first = mx.array([max(self.width - _look_back(seq), 0) for seq in self.seqs])[:, None]
        self.longest = mx.clip(mx.arange(self.width)[None] - first + 1, 0, LONGEST_MATCH)
        self.longest[:, -1] = 0  # the last token itself

    def initial(self, seq: sequence.Sequence) -> State:
        history = _tail(seq, self.width)
        said = len(seq.prompt.token_ids) + len(seq.generated)
        window = history[-min(_look_back(seq), said, self.width) :]
        matches = np.zeros(self.width, dtype=np.int32)
        matches[-len(window) :] = _repeated(window, seq.request.tokens.dry_breakers)
        return mx.array(history), mx.array(matches)

    def resized(self, state: State) -> State:
        history, matches = state
        return _fitted(history, self.width, NO_TOKEN), _fitted(matches, self.width, 0)

    def needs_arranging(self) -> bool:
        return any(min(_look_back(seq), _length(seq) + LONGEST_DRAFT + 1) > self.width for seq in self.seqs)

    def advanced(self, state: State, tokens: mx.array) -> State:
        history, matches = state
        history = _shifted(history, tokens)
        goes_on = (history == tokens[:, None]) & ~mx.take_along_axis(self.breakers, tokens[:, None], axis=1)
        return history, mx.where(goes_on, mx.minimum(matches + 1, self.longest), 0)

    def changed(self, logits: mx.array, state: State) -> mx.array:
        history, matches = state
        following = mx.maximum(history[:, 1:], 0)
        rows = mx.arange(len(self.seqs))[:, None]
        longest = mx.zeros(logits.shape, dtype=mx.int32).at[rows, following].maximum(matches[:, :-1])
        penalty = mx.minimum(self.multiplier * self.base ** (longest - self.allowed), STRONGEST)
        return logits - mx.where((longest >= self.allowed) & ~self.breakers, penalty, 0)


def _length(seq: sequence.Sequence) -> int:
    return len(seq.prompt.token_ids) + seq.scheduled


def _look_back(seq: sequence.Sequence) -> int:
    """Tokens; never more than it will have."""
    most = len(seq.prompt.token_ids) + seq.max_tokens
    asked = seq.sampling.dry_penalty_last_n
    return max(most if asked < 0 else min(asked, most), 1)


def _repeated(window: NDArray[np.int32], breakers: Collection[int]) -> NDArray[np.int32]:
    """For each place, how many tokens up to there are the same as the last ones."""
    matches = np.zeros(len(window), dtype=np.int32)
    places = np.arange(len(window) - 1)
    for back in range(min(LONGEST_MATCH, len(window))):
        token = window[-1 - back]
        if int(token) in breakers:
            break
        places = places[places >= back]
        places = places[window[places - back] == token]
        if not places.size:
            break
        matches[places] = back + 1
    return matches


class BadWords(Processor):
    """The last token of a bad word may not follow the others."""

    @staticmethod
    def concerns(seq: sequence.Sequence) -> bool:
        return bool(seq.request.tokens.bad_words)

    def prepare(self) -> None:
        words = [seq.request.tokens.bad_words for seq in self.seqs]
        most = max(map(len, words))
        self.width = max(max(len(word) for word in row) for row in words)
        # Where a row has fewer words than others: the same word again.
        filled = [[row[min(place, len(row) - 1)] for place in range(most)] for row in words]
        self.patterns = mx.array(np.stack([_patterns([word[:-1] for word in row], self.width) for row in filled]))
        self.lasts = mx.array([[word[-1] for word in row] for row in filled])

    def initial(self, seq: sequence.Sequence) -> State:
        return (mx.array(_tail(seq, self.width)),)

    def resized(self, state: State) -> State:
        return (_fitted(state[0], self.width, NO_TOKEN),)

    def advanced(self, state: State, tokens: mx.array) -> State:
        return (_shifted(state[0], tokens),)

    def changed(self, logits: mx.array, state: State) -> mx.array:
        begun = _is_pattern(state[0][:, None], self.patterns).astype(mx.int32)
        rows = mx.arange(len(self.seqs))[:, None]
        banned = mx.zeros(logits.shape, dtype=mx.int32).at[rows, self.lasts].maximum(begun)
        return mx.where(banned > 0, -mx.inf, logits)


class ThinkingBudget(Processor):
    """After so many reasoning tokens the mark that ends the reasoning is forced, and what must follow it. Marks do not
    count. A model that thinks again, after its budget is spent, is stopped at once. Outside of its reasoning it then
    cannot write the mark again, unless the mark has other uses: those where more must follow it have.

    The state: tokens left, is the row inside its reasoning, how far it is in what is forced, and its last tokens.
    """

    @staticmethod
    def concerns(seq: sequence.Sequence) -> bool:
        return seq.sampling.thinking_token_budget is not None and seq.request.tokens.think is not None

    def prepare(self) -> None:
        marks = [_marks(seq) for seq in self.seqs]
        self.width = max(len(mark.open) for mark in marks)
        self.open = mx.array(np.concatenate([_patterns([mark.open], self.width) for mark in marks]))
        self.close = mx.array([mark.close for mark in marks])
        size = max(len(mark.forced) for mark in marks)
        self.forced = mx.array([[*mark.forced, *[0] * (size - len(mark.forced))] for mark in marks])
        self.lengths = mx.array([len(mark.forced) for mark in marks])

    def initial(self, seq: sequence.Sequence) -> State:
        marks, left, step = _marks(seq), seq.sampling.thinking_token_budget or 0, 0
        inside, size = marks.begins_open, len(marks.open)
        for place, token in enumerate(seq.generated):
            forcing = step > 0 or (inside and left <= 0)
            step = (step + 1) % len(marks.forced) if forcing else 0
            closes = token == marks.close
            left -= inside and not closes
            opens = tuple(seq.generated[max(place + 1 - size, 0) : place + 1]) == marks.open
            inside = (inside and not closes) or opens
        tail = np.full(self.width, NO_TOKEN, dtype=np.int32)
        said = seq.generated[-self.width :]
        if said:
            tail[-len(said) :] = said
        return mx.array(left, dtype=mx.int32), mx.array(inside), mx.array(step, dtype=mx.int32), mx.array(tail)

    def resized(self, state: State) -> State:
        return (*state[:3], _fitted(state[3], self.width, NO_TOKEN))

    def advanced(self, state: State, tokens: mx.array) -> State:
        left, inside, step, tail = state
        step = mx.where(self._forces(state), (step + 1) % self.lengths, 0)
        tail = _shifted(tail, tokens)
        goes_on = inside & (tokens != self.close)
        return left - goes_on.astype(mx.int32), goes_on | _is_pattern(tail, self.open), step, tail

    def changed(self, logits: mx.array, state: State) -> mx.array:
        target = mx.take_along_axis(self.forced, state[2][:, None], axis=1)
        tokens = mx.arange(logits.shape[-1])[None]
        only = mx.where(tokens == target, 0.0, -mx.inf)
        ended = (state[0] <= 0) & (self.lengths == 1)
        logits = mx.where(ended[:, None] & (tokens == self.close[:, None]), -mx.inf, logits)
        return mx.where(self._forces(state)[:, None], only, logits)

    @staticmethod
    def _forces(state: State) -> mx.array:
        left, inside, step, _ = state
        return (step > 0) | (inside & (left <= 0))


def _marks(seq: sequence.Sequence) -> Any:
    return seq.request.tokens.think


# In the order in which they are applied: what is forced has the last word.
PROCESSORS: tuple[type[Processor], ...] = (Dry, BadWords, ThinkingBudget)
