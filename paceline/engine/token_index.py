"""Where runs of tokens occurred before in a text that grows: an index of runs of three tokens, and of two. No MLX.

A dictionary finds the latest occurrence of the last three tokens, and a list the ones before it; among those, the one
that agrees with the text furthest back is taken. If there is none, the latest occurrence of the last two tokens is.
Adding or looking up a token takes about a microsecond.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

RUN = 3  # tokens
PAIR = 2  # tokens: shorter repetitions are mostly chance
BITS = 21  # of a token id in a key
PAIR_KEY = (1 << PAIR * BITS) - 1  # the part of a run's key that is its last two tokens'
CANDIDATES = 16  # occurrences that are compared, the latest ones
FURTHEST = 64  # tokens that are compared
LONG = 8  # tokens of an occurrence whose change is looked behind
RESYNC_DISTANCE = 8  # tokens behind a change where the text is looked for
RESYNC_TOKENS = 12  # of the text that are looked for there
GUESSED, REJOINED = 1, 9  # tokens' worth of an occurrence behind a change: before a token of it was found, and then
MAX_INDEXED = 1 << 16  # tokens of a text: about 190 bytes each


class TokenIndex:
    """`tokens`, of which every run is indexed, but for the last one: a text's end does not match itself."""

    __slots__ = ("_base", "_before", "_begun", "_latest", "_pairs", "run", "tokens")

    def __init__(self, tokens: Sequence[int] = ()) -> None:
        """Of a longer text, the last tokens are taken."""
        self.tokens: list[int] = []
        self.run = 0  # the key of the last three tokens
        self._latest: dict[int, int] = {}  # by run of three: the position behind it
        self._pairs: dict[int, int] = {}  # by run of two
        self._before: list[int] = []  # by position: that of the same run before; 0: none
        self._base: TokenIndex | None = None
        self._begun = 0  # tokens of the base
        self.extend(tokens[-MAX_INDEXED:])

    def fork(self) -> TokenIndex:
        """A text that begins like this one, which must not grow any more."""
        new = TokenIndex()
        new.tokens, new.run = list(self.tokens), self.run
        new._base, new._begun = self, len(self)
        return new

    def __len__(self) -> int:
        return len(self.tokens)

    def extend(self, tokens: Iterable[int]) -> None:
        for token in tokens:
            self.append(token)

    def append(self, token: int) -> None:
        tokens, run = self.tokens, self.run
        end = len(tokens)
        place = end - self._begun
        if end >= RUN and place < MAX_INDEXED:
            before = self._before
            if len(before) < place:
                before += [0] * (place - len(before))
            earlier = self._latest.get(run, 0)
            if not earlier and self._base is not None:
                earlier = self._base._latest.get(run, 0)
            before.append(earlier)
            self._latest[run] = self._pairs[run & PAIR_KEY] = end
        tokens.append(token)
        self.run = (run & PAIR_KEY) << BITS | token

    def _find(self, run: int) -> tuple[int, int]:
        """The latest occurrence of a text's last three tokens, or else two: the position behind it, and its length."""
        found, base = self._latest.get(run, 0), self._base
        if not found and base is not None:
            found = base._latest.get(run, 0)
        if found:
            return found, RUN
        found = self._pairs.get(run & PAIR_KEY, 0)
        if not found and base is not None:
            found = base._pairs.get(run & PAIR_KEY, 0)
        return found, PAIR if found else 0

    def match(self, ending: TokenIndex) -> tuple[int, int]:
        """The longest occurrence of the end of a text: the position behind it, and its length; 0, 0: there is none."""
        tokens, text = self.tokens, ending.tokens
        count = len(text)
        if count < RUN:
            return 0, 0
        position, length = self._find(ending.run)
        if length < RUN:
            return position, length
        best, longest = 0, 0
        left = CANDIDATES
        while position and left and longest < FURTHEST:
            if longest < position and longest < count and tokens[position - 1 - longest] == text[-1 - longest]:
                length = self._agrees(text, position)
                if length > longest:
                    best, longest = position, length
            position = self._earlier(position)
            left -= 1
        return best, longest

    def _agrees(self, text: Sequence[int], position: int) -> int:
        """For how many tokens the text's end is what stands before `position`."""
        tokens = self.tokens
        most = min(position, len(text), FURTHEST)
        for count in range(RUN, most):
            if tokens[position - 1 - count] != text[-1 - count]:
                return count
        return most

    def _earlier(self, position: int) -> int:
        base = self._base
        if base is None:
            return self._before[position]
        return self._before[position - self._begun] if position >= self._begun else base._before[position]


class Follower:
    """The longest earlier occurrence of a growing text's end, kept up token by token: an occurrence that goes on as the
    text does remains the longest, and costs one comparison. Where a long one goes on differently, as in an edit, the
    text probably goes on behind the change: a token of it that stands there too is taken for that."""

    __slots__ = ("_change", "_since", "index", "length", "position", "repeats")

    def __init__(self, index: TokenIndex, *, repeats: bool = False) -> None:
        self.index = index
        self.repeats = repeats  # it is the index of the text itself
        self.position = self.length = 0
        self._change = 0  # where the text left a long occurrence; 0: nowhere
        self._since = 0  # tokens since then

    @property
    def next(self) -> int | None:
        """The token that stands behind the occurrence."""
        tokens = self.index.tokens
        return tokens[self.position] if self.length and self.position < len(tokens) else None

    def restart(self) -> None:
        self.length = self._change = 0

    def follow(self, text: TokenIndex) -> None:
        """The text has one more token. If it is the index's own text, that one is in it."""
        tokens, position = self.index.tokens, self.position
        if self.length and position < len(tokens) and tokens[position] == text.tokens[-1]:
            self.position, self.length = position + 1, REJOINED if self.length == GUESSED else self.length + 1
            if self.length > REJOINED + RUN:
                self._change = 0
            return
        if not self._change and self.length >= LONG:
            self._change, self._since = position, -1
        self.position, self.length = self.index.match(text)
        if self._change:
            self._look_behind(text.tokens[-1])

    def _look_behind(self, token: int) -> None:
        """Of an occurrence that went on differently: the text's last token stands behind the change, or will."""
        tokens, change = self.index.tokens, self._change
        self._since += 1
        if self._since > RESYNC_TOKENS:
            self._change = 0
        elif self._since == 0:
            if not self.length:  # one token for another, maybe
                self.position, self.length = change + 1, GUESSED
        elif self.length < REJOINED:
            as_long = change + self._since  # as many tokens as were there before
            places = (as_long, *range(change, min(change + RESYNC_DISTANCE, len(tokens))))
            found = next((place for place in places if place < len(tokens) and tokens[place] == token), None)
            if found is not None:
                self.position, self.length = found + 1, REJOINED

    def following(self, count: int) -> list[int]:
        """The tokens behind the occurrence. Where they reach the end of the text itself, it repeats."""
        found = self.index.tokens[self.position : self.position + count]
        period = len(found)
        while self.repeats and 0 < len(found) < count:
            found.append(found[len(found) - period])
        return found
