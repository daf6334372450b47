"""Sampling for all sequences at once, each with its own parameters, on the device: no host read per sequence.

A sequence's noise depends on its seed and the token's position in the answer, and belongs to token ids, so a sample is
the same in any batch. Order, as in vLLM: penalties and bias, logits processors, temperature, top_n_sigma, top_k, top_p,
min_p, typical_p, XTC.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Any

import mlx.core as mx
import numpy as np

from paceline.engine.logits_processors import PROCESSORS, Processor, replaced
from paceline.engine.masking import PackedMasks
from paceline.engine.sampling_filters import filtered, sigma_filtered, typical_filtered, xtc_filtered
from paceline.engine.sequence import MASK64, Sequence
from paceline.models.host_read_cuda import HostRead, readable
from paceline.types import TokenLogprob

NOT_A_NUMBER = -1  # the token of a sequence whose logits are NaN
COLDEST = 1e-5  # a lower temperature is greedy: division by it overflows
EVERYTHING = 1 << 30  # a top_k that no vocabulary reaches


@dataclass(frozen=True, slots=True)
class Sampled:
    """Lazy arrays of one step, in the batch's order. Logprobs are the model's own, before any sampling parameter.

    A plain step has one token per row: arrays are (rows,). A verified one has (rows, width), of which row i keeps the
    first `kept[i]`; `last` are the next inputs.
    """

    tokens: mx.array
    logprobs: mx.array | None = None  # of the chosen tokens
    top_ids: mx.array | None = None  # (..., k) most likely first
    top_logprobs: mx.array | None = None
    id_logprobs: mx.array | None = None  # (..., k) of `Sampling.logprob_token_ids`, in each row's order
    kept: mx.array | None = None  # (rows,)
    last: mx.array | None = None  # (rows,)
    read: tuple[mx.array | HostRead, ...] = ()  # the tokens, and what is kept, for the host

    def arrays(self) -> list[mx.array]:
        scores = (self.logprobs, self.top_ids, self.top_logprobs, self.id_logprobs)
        parts = [part for each in self.read if isinstance(each, HostRead) for part in each.arrays]
        return [part for part in (self.tokens, *scores, self.kept, self.last, *parts) if part is not None]


class Sampler:
    """`arrange` when sequences join or leave; then call it with each step's logits (rows, vocabulary).

    A speculative step calls `propose` for every draft token and `verify` for all of them at once. What `verify` keeps:
    - greedy sequences: draft tokens that are the target's own choice, so the text is what plain decoding gives;
    - sequences with a seed: the same, with target and draft sampling from the same noise: a seed's text depends neither
      on the batch nor on the draft length, and is what plain decoding gives;
    - other sequences: rejection sampling. A draft token d is accepted with probability p(d) / q(d), and otherwise
      replaced by a sample of what p has more than q. The text has the target's distribution, and more draft tokens are
      accepted than by equality. Draft tokens that the host knows have no q but certainty, q(d) = 1: then that is the
      same as to sample from p, and to accept d if it is the sample.
    In all cases a draft token is accepted exactly when the token sampled in its place equals it.
    """

    def __init__(self, vocab_size: int) -> None:
        self.vocab_size = vocab_size
        self.rows: list[Sequence | None] = []  # None: padding
        self._adjusted = _Adjusted([])
        self._processors: list[Processor] = []
        self._drawn = _Drawn([], vocab_size)
        self._top: int | None = None
        self._ids: mx.array | None = None  # (rows, most of any row): the tokens whose logprobs each sequence names
        self._ends: mx.array | None = None  # (rows, most of any row): the tokens that end each sequence
        self.agree: Callable[[mx.array], mx.array] | None = None  # makes rank 0's numbers those of all ranks

    def arrange(self, rows: Collection[Sequence | None]) -> None:
        seqs = [(row, seq) for row, seq in enumerate(rows) if seq is not None]
        self._adjusted = _Adjusted([(row, seq) for row, seq in seqs if _is_adjusted(seq)], self._adjusted, self)
        known = {type(processor): processor for processor in self._processors}
        mine = [(kind, [(row, seq) for row, seq in seqs if kind.concerns(seq)]) for kind in PROCESSORS]
        self._processors = [kind(rows, known.get(kind), self.vocab_size) for kind, rows in mine if rows]
        self._drawn = _Drawn([(row, seq) for row, seq in seqs if seq.sampling.temperature >= COLDEST], self.vocab_size)
        asked = [seq.sampling.logprobs for _, seq in seqs if seq.sampling.logprobs is not None]
        self._top = max(asked) if asked else None
        self._ids = _padded([[] if seq is None else list(seq.sampling.logprob_token_ids) for seq in rows])
        self._ends = _padded([[] if seq is None else sorted(seq.stop_ids) for seq in rows])
        self.rows = list(rows)

    def forget(self) -> None:
        """Token counts may be wrong: count again from what was generated."""
        self.rows, self._adjusted, self._processors = [], _Adjusted([]), []

    def __call__(self, logits: mx.array, allowed: PackedMasks | None = None) -> Sampled:
        """`allowed`: tokens that the grammars allow."""
        logits = logits.astype(mx.float32)
        scores = _masked(self._changed(logits, 0), allowed)
        tokens = mx.argmax(scores, axis=-1)
        if self._drawn.seqs:
            tokens = self._drawn.draw(scores, tokens, 0)
        tokens, chosen = self._agreed(tokens.astype(mx.int32), logits)
        self._adjusted.count(tokens)
        for processor in self._processors:
            processor.count(tokens)
        return self._scored(Sampled(chosen, read=(readable(chosen),)), logits, tokens)

    def propose(self, logits: mx.array, place: int, before: list[mx.array]) -> mx.array:
        """The draft's token at `place`, after the draft tokens `before`, with the sequences' own parameters."""
        if not self.counts_tokens:  # then their type does not matter
            return mx.argmax(logits, axis=-1).astype(mx.int32)
        scores = self._changed(logits.astype(mx.float32), place, before)
        tokens = mx.argmax(scores, axis=-1)
        if self._drawn.seqs:
            tokens = self._drawn.draft_token(scores, tokens, place)
        return tokens.astype(mx.int32)

    def verify(
        self, logits: mx.array, inputs: mx.array, draft_tokens: list[mx.array], allowed: PackedMasks | None = None
    ) -> Sampled:
        """Logits (rows, draft tokens + 1, vocabulary). A sequence has `seq.draft.length` draft tokens; the rest is
        ignored.

        After a stop token nothing is kept, whether it is a draft token or in `inputs`: so the cache of a finished
        sequence has exactly what it generated (engine/prefix_store keeps that for the next turn).
        """
        logits = logits.astype(mx.float32)
        if self.counts_tokens:
            tokens = mx.stack(self._verified(logits, draft_tokens, allowed), axis=1)
        else:
            tokens = mx.argmax(_masked(logits, allowed), axis=-1).astype(mx.int32)
        tokens, chosen = self._agreed(tokens, logits)
        lengths = mx.array([0 if seq is None else seq.draft.length for seq in self.rows])[:, None]
        right = (mx.stack(list(draft_tokens), axis=1) == tokens[:, :-1]) & (mx.arange(len(draft_tokens)) < lengths)
        if self._ends is not None:
            before = mx.concatenate([inputs[:, None], tokens[:, :-1]], axis=1)
            over = (before[..., None] == self._ends[:, None]).any(axis=-1)
            right = right & ~over[:, :-1] & ~over[:, 1:]
        kept = (1 + mx.cumprod(right.astype(mx.int32), axis=1).sum(axis=1)).astype(mx.int32)
        self._adjusted.count_kept(tokens, kept)
        for processor in self._processors:
            processor.count_kept(tokens, kept)
        last = mx.take_along_axis(chosen, kept[:, None] - 1, axis=1)[:, 0]
        read = readable(chosen), readable(kept)
        return self._scored(Sampled(chosen, kept=kept, last=last, read=read), logits, tokens)

    def _agreed(self, tokens: mx.array, logits: mx.array) -> tuple[mx.array, mx.array]:
        """The tokens, and the same with those marked whose logits are NaN; over several ranks, rank 0's."""
        broken = _broken(logits)
        if self.agree is not None:
            tokens, marked = self.agree(mx.stack([tokens, broken.astype(mx.int32)]))
            broken = marked > 0
        return tokens, mx.where(broken, NOT_A_NUMBER, tokens)

    def _scored(self, sampled: Sampled, logits: mx.array, tokens: mx.array) -> Sampled:
        """With the logprobs that the sequences ask for."""
        if self._top is None:
            return sampled
        flat = token_logprobs(logits.reshape(-1, logits.shape[-1]), tokens.reshape(-1), self._top)
        names = ("logprobs", "top_ids", "top_logprobs")
        parts: dict[str, Any] = {
            name: part.reshape(*tokens.shape, *part.shape[1:]) for name, part in zip(names, flat, strict=False)
        }
        if self._ids is not None:
            ids = self._ids.reshape(len(self.rows), *[1] * (tokens.ndim - 1), -1)
            ids = mx.broadcast_to(mx.maximum(ids, 0), (*tokens.shape, ids.shape[-1]))
            totals = mx.logsumexp(logits, axis=-1, keepdims=True)
            parts["id_logprobs"] = mx.take_along_axis(logits, ids, axis=-1) - totals
        return replace(sampled, **parts)

    def _verified(self, logits: mx.array, draft_tokens: list[mx.array], allowed: PackedMasks | None) -> list[mx.array]:
        """The token of each row at every place, if all draft tokens before it were accepted."""
        columns = []
        counts, states = self._adjusted.start(), [processor.start() for processor in self._processors]
        for place in range(logits.shape[1]):
            scores = self._adjusted.changed(logits[:, place], place, counts)
            for processor, state in zip(self._processors, states, strict=True):
                scores = processor.apply_state(scores, state)
            scores = _masked(scores, None if allowed is None else allowed.at(place))
            tokens = mx.argmax(scores, axis=-1)
            if self._drawn.seqs:
                tokens = self._drawn.verify(scores, tokens, place, draft_tokens)
            columns.append(tokens.astype(mx.int32))
            if place < len(draft_tokens):  # counted one by one: long drafts would else be counted again at every place
                counts = self._adjusted.counted(counts, draft_tokens[place])
                states = [
                    processor.after(state, draft_tokens[place])
                    for processor, state in zip(self._processors, states, strict=True)
                ]
        return columns

    def _changed(self, logits: mx.array, place: int, before: Collection[mx.array] = ()) -> mx.array:
        """The logits at `place`, after the tokens `before`, by the sequences' penalties and processors."""
        scores = self._adjusted.apply(logits, place, before)
        for processor in self._processors:
            scores = processor.apply(scores, before)
        return scores

    @property
    def counts_tokens(self) -> bool:
        """Does any sequence's sampling depend on the tokens that came before: noise, penalties, min_tokens?"""
        return bool(self._adjusted.seqs or self._processors or self._drawn.seqs)

    def state(self) -> list[mx.array]:
        """Arrays to evaluate with each step, so that no graph grows."""
        return [*self._adjusted.state(), *(part for each in self._processors for part in each.state())]

    def needs_arranging(self) -> bool:
        """Has a sequence just passed its min_tokens, or a processor's state become too small?"""
        passed = any(seq.scheduled >= seq.sampling.min_tokens for seq in self._adjusted.young)
        return passed or any(each.needs_arranging() for each in self._processors)


def _masked(scores: mx.array, allowed: PackedMasks | None) -> mx.array:
    return scores if allowed is None else allowed.apply(scores)


def _broken(logits: mx.array) -> mx.array:
    return mx.isnan(logits.sum(axis=-1))


def token_logprobs(logits: mx.array, tokens: mx.array, top: int) -> tuple[mx.array, ...]:
    """Log probabilities of `tokens` under `logits` (n, vocabulary), and of the `top` most likely ones."""
    logprobs = logits - mx.logsumexp(logits, axis=-1, keepdims=True)
    chosen = mx.take_along_axis(logprobs, tokens[:, None].astype(mx.int32), axis=-1)[:, 0]
    if top == 0:
        return (chosen,)
    ids = mx.argpartition(-logprobs, top - 1, axis=-1)[:, :top]
    values = mx.take_along_axis(logprobs, ids, axis=-1)
    order = mx.argsort(-values, axis=-1)
    return chosen, mx.take_along_axis(ids, order, axis=-1), mx.take_along_axis(values, order, axis=-1)


def logprob_list(
    tokens: list[int], chosen: mx.array, ids: mx.array | None = None, values: mx.array | None = None
) -> list[TokenLogprob]:
    """`token_logprobs`, read."""
    scores: Any = chosen.tolist()
    if ids is None or values is None:
        return [TokenLogprob(token, score) for token, score in zip(tokens, scores, strict=True)]
    columns: tuple[Any, Any] = ids.tolist(), values.tolist()
    tops = [tuple(zip(*pair, strict=True)) for pair in zip(*columns, strict=True)]
    return [TokenLogprob(*item) for item in zip(tokens, scores, tops, strict=True)]


def _is_adjusted(seq: Sequence) -> bool:
    s = seq.sampling
    penalised = s.repetition_penalty != 1 or s.presence_penalty != 0 or s.frequency_penalty != 0
    return penalised or bool(s.logit_bias or s.allowed_token_ids) or seq.scheduled < s.min_tokens


def _padded(seqs: list[list[int]]) -> mx.array | None:
    """Lists of tokens as one array, filled up with a number that is no token."""
    most = max(map(len, seqs), default=0)
    return mx.array([seq + [-2] * (most - len(seq)) for seq in seqs], dtype=mx.int32) if most else None


def _column(values: list[float]) -> mx.array:
    return mx.array(values, dtype=mx.float32)[:, None]


class _Adjusted:
    """Sequences whose logits are changed before sampling: penalties, bias, stop tokens banned below min_tokens."""

    counts: mx.array  # (rows, vocabulary): how often each token has been generated

    def __init__(
        self, seqs: list[tuple[int, Sequence]], before: _Adjusted | None = None, sampler: Sampler | None = None
    ) -> None:
        self.seqs = [seq for _, seq in seqs]
        self.young = [seq for seq in self.seqs if seq.scheduled < seq.sampling.min_tokens]
        if not seqs or sampler is None:
            return
        size = sampler.vocab_size
        self.index = mx.array([i for i, _ in seqs])
        rules = [seq.sampling for seq in self.seqs]
        self.repetition = _column([s.repetition_penalty for s in rules])
        self.presence = _column([s.presence_penalty for s in rules])
        self.frequency = _column([s.frequency_penalty for s in rules])
        self.bias = mx.stack([_bias(seq, size) for seq in self.seqs])
        self.ends = mx.stack([_ends(seq.stop_ids, size) for seq in self.seqs]) if self.young else None
        self.prompted = mx.stack([_prompted(seq, size) for seq in self.seqs])
        known = {id(seq): i for i, seq in enumerate(before.seqs)} if before else {}
        counts = [
            before.counts[known[id(seq)]] if before and id(seq) in known else _counts(seq, size) for seq in self.seqs
        ]
        self.counts = mx.stack(counts)

    def start(self) -> mx.array | None:
        """How often each token has been generated, for `changed` and `counted`."""
        return self.counts if self.seqs else None

    def counted(self, counts: mx.array | None, tokens: mx.array) -> mx.array | None:
        """The counts after one more token of each row of the batch."""
        if counts is None:
            return None
        return counts.at[mx.arange(len(self.seqs)), tokens[self.index]].add(1.0)

    def apply(self, logits: mx.array, place: int, before: Collection[mx.array] = ()) -> mx.array:
        """The logits at `place`, after the tokens `before`."""
        counts = self.start()
        for tokens in before:
            counts = self.counted(counts, tokens)
        return self.changed(logits, place, counts)

    def changed(self, logits: mx.array, place: int, counts: mx.array | None) -> mx.array:
        if counts is None:
            return logits
        mine = logits[self.index]
        seen = self.prompted | (counts > 0)
        punished = mx.where(mine > 0, mine / self.repetition, mine * self.repetition)
        mine = mx.where(seen, punished, mine)
        mine = mine - self.presence * (counts > 0) - self.frequency * counts + self.bias
        if self.ends is not None:
            young = mx.array([seq.scheduled + place < seq.sampling.min_tokens for seq in self.seqs])[:, None]
            mine = mx.where(self.ends & young, -mx.inf, mine)
        return replaced(logits, self.index, mine)

    def count(self, tokens: mx.array) -> None:
        if self.seqs:
            self.counts = self.counts.at[mx.arange(len(self.seqs)), tokens[self.index]].add(1.0)

    def count_kept(self, tokens: mx.array, kept: mx.array) -> None:
        """Count the first `kept[i]` of each row's `tokens` (rows, width)."""
        if not self.seqs:
            return
        tokens, kept = tokens[self.index], kept[self.index]
        for place in range(tokens.shape[1]):
            taken = (place < kept).astype(mx.float32)
            self.counts = self.counts.at[mx.arange(len(self.seqs)), tokens[:, place]].add(taken)

    def state(self) -> list[mx.array]:
        return [self.counts] if self.seqs else []


# Noise has four streams of random keys: for the target's choice, for the draft tokens of sequences without a seed, for
# accepting or rejecting these, and for XTC, where draft and target share it.
TARGET, DRAFT, KEEP, XTC = 0, 1, 2, 3


class _Drawn:
    """Sequences that sample (all but the greedy ones)."""

    def __init__(self, seqs: list[tuple[int, Sequence]], vocab_size: int) -> None:
        self.seqs = [seq for _, seq in seqs]
        self._vocab = vocab_size
        self.drafts: dict[int, mx.array] = {}  # by place: probabilities of the draft's choice
        if not seqs:
            return
        self.index = mx.array([i for i, _ in seqs])
        rules = [seq.sampling for seq in self.seqs]
        self.temperature = _column([s.temperature for s in rules])
        self.filters = any(s.top_k > 0 or s.top_p < 1 for s in rules)
        self.top_k = mx.array([min(s.top_k or EVERYTHING, EVERYTHING) for s in rules])[:, None]
        self.top_p = _column([s.top_p if s.top_p < 1 else 2.0 for s in rules])
        self.has_min_p = any(s.min_p > 0 for s in rules)
        self.min_p = _column([float(np.log(s.min_p)) if s.min_p > 0 else -np.inf for s in rules])
        self.rejects = [s.seed is None for s in rules]
        self.sigma = _Asked([s.top_n_sigma for s in rules], lambda value: value > 0)
        self.typical = _Asked([s.typical_p for s in rules], lambda value: value < 1)
        self.xtc = _Asked([s.xtc_probability for s in rules], lambda value: value > 0)
        self.xtc_threshold = _column([rules[place].xtc_threshold for place in self.xtc.places])

    def draw(self, scores: mx.array, tokens: mx.array, place: int) -> mx.array:
        """A plain sample."""
        chosen = mx.argmax(self._shaped(scores, place) + self._gumbel(place, TARGET), axis=-1)
        return replaced(tokens, self.index, chosen.astype(tokens.dtype))

    def draft_token(self, scores: mx.array, tokens: mx.array, place: int) -> mx.array:
        """The draft's sample; its distribution is remembered for `verify`."""
        mine = self._shaped(scores, place)
        if any(self.rejects):
            self.drafts[place] = mx.softmax(mine, axis=-1)
        noise = self._gumbel(place, DRAFT)  # with a seed: the target's own
        return replaced(tokens, self.index, mx.argmax(mine + noise, axis=-1).astype(tokens.dtype))

    def verify(self, scores: mx.array, tokens: mx.array, place: int, draft_tokens: list[mx.array]) -> mx.array:
        """The target's token after `place` accepted draft tokens: the next draft token, or its replacement."""
        mine = self._shaped(scores, place)
        noise = self._gumbel(place, TARGET)
        chosen = mx.argmax(mine + noise, axis=-1)
        rejects = [rejects and not seq.draft.tokens for seq, rejects in zip(self.seqs, self.rejects, strict=True)]
        drafted = [
            mine and place < seq.draft.length and place < len(draft_tokens)
            for seq, mine in zip(self.seqs, rejects, strict=True)
        ]
        if any(drafted):
            draft_token = draft_tokens[place][self.index][:, None]
            is_drafted = mx.array(drafted)[:, None]
            target, draft = mx.softmax(mine, axis=-1), self.drafts[place] * is_drafted
            chances = [mx.take_along_axis(part, draft_token, axis=-1) for part in (target, draft)]
            luck = self._uniform(place, KEEP)
            right = (luck * chances[1] < chances[0]) & is_drafted
            rest = mx.maximum(target - draft, 0)
            rest = mx.where(rest.sum(axis=-1, keepdims=True) > 0, rest, target)
            instead = mx.argmax(mx.log(rest) + noise, axis=-1, keepdims=True)
            sampled = mx.where(right, draft_token, instead)[:, 0]
            chosen = mx.where(mx.array(rejects), sampled, chosen)
        return replaced(tokens, self.index, chosen.astype(tokens.dtype))

    def _shaped(self, scores: mx.array, place: int) -> mx.array:
        """Log probabilities up to a constant, -inf for what may not be chosen."""
        mine = self.sigma.apply(scores[self.index] / self.temperature, sigma_filtered)
        if self.filters:
            mine = filtered(mine, self.top_k, self.top_p)
        if self.has_min_p:
            mine = mx.where(mine >= mine.max(axis=-1, keepdims=True) + self.min_p, mine, -mx.inf)
        mine = self.typical.apply(mine, typical_filtered)
        if self.xtc.places:
            luck = self._uniform(place, XTC)[self.xtc.index]
            mine = self.xtc.apply(mine, lambda rows, chance: xtc_filtered(rows, chance, self.xtc_threshold, luck))
        return mine

    def _keys(self, place: int, stream: int) -> mx.array:
        keys = [
            _key(seq.seed, seq.scheduled + place, stream if rejects or stream == XTC else TARGET)
            for seq, rejects in zip(self.seqs, self.rejects, strict=True)
        ]
        return mx.array(np.array(keys, dtype=np.uint32))

    def _gumbel(self, place: int, stream: int) -> mx.array:
        noise: mx.array = mx.vmap(lambda key: mx.random.gumbel((self._vocab,), key=key))(self._keys(place, stream))
        return noise

    def _uniform(self, place: int, stream: int) -> mx.array:
        luck: mx.array = mx.vmap(lambda key: mx.random.uniform(shape=(1,), key=key))(self._keys(place, stream))
        return luck


class _Asked:
    """A filter's parameter, for the rows that ask for the filter: others do not pay for it."""

    def __init__(self, values: list[float], asks: Callable[[float], bool]) -> None:
        self.places = [place for place, value in enumerate(values) if asks(value)]
        if self.places:
            self.index = mx.array(self.places)
            self.values = _column([values[place] for place in self.places])

    def apply(self, scores: mx.array, filter: Callable[[mx.array, mx.array], mx.array]) -> mx.array:
        if not self.places:
            return scores
        return replaced(scores, self.index, filter(scores[self.index], self.values))


def _key(seed: int, place: int, stream: int = TARGET) -> tuple[int, int]:
    """A random key for one token of one sequence (splitmix64 of the seed, the token's place and the stream)."""
    z = (seed + (place + 1) * 0x9E3779B97F4A7C15 + stream * 0xD1B54A32D192ED03) & MASK64
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK64
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK64
    z ^= z >> 31
    return z >> 32, z & 0xFFFFFFFF


def _bias(seq: Sequence, size: int) -> mx.array:
    allowed = seq.sampling.allowed_token_ids
    bias = np.full(size, -np.inf if allowed else 0, dtype=np.float32)
    bias[list(allowed)] = 0
    for token, value in seq.sampling.logit_bias.items():
        bias[token] += value
    return mx.array(bias)


def _ends(end_ids: frozenset[int], size: int) -> mx.array:
    ends = np.zeros(size, dtype=np.bool_)
    ends[[token for token in end_ids if token < size]] = True  # some checkpoints name ends beyond it
    return mx.array(ends)


def _prompted(seq: Sequence, size: int) -> mx.array:
    seen = np.zeros(size, dtype=np.bool_)
    if seq.sampling.repetition_penalty != 1:
        seen[np.asarray(seq.prompt.token_ids)] = True
    return mx.array(seen)


def _counts(seq: Sequence, size: int) -> mx.array:
    counts: Any = np.bincount(np.asarray(seq.generated, dtype=np.int64), minlength=size)
    return mx.array(counts.astype(np.float32))
