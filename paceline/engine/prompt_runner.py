"""Prefill on MLX: media are encoded, prompts are read in chunks, each in a batch of its own until it decodes.

Where shapes come from buckets, a chunk is padded to its bucket, and short prompts that wait together share a pass.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from paceline.cache import stacking
from paceline.cache.batch import Batch
from paceline.cache.features import Features
from paceline.cache.slot_plan import Grouping
from paceline.engine import pooling
from paceline.engine.drafter import Drafter
from paceline.engine.forward import Forward
from paceline.engine.sampler import logprob_list, token_logprobs
from paceline.engine.sequence import Sequence
from paceline.models.loader import LoadedModel
from paceline.models.positions import Positions, dynamic_reach

SCORED_CHUNK = 128  # tokens per chunk when logits of every prompt token are needed
TRACED_WIDTH = 2048  # tokens: in a wider pass the device takes longer than the host
SHARED_WIDTH = 512  # tokens of a prompt that shares a pass: a longer one fills the device
PADDED_TOKENS = 512  # of a pass in which some prompts may be padding: a smaller one takes as long
SHARED_SLOTS = 1024  # capacity of its buffers: they are copied to share a pass


class PromptRunner:
    def __init__(
        self,
        model: LoadedModel,
        grouping: Grouping,
        *,
        traces: bool = False,
        features: Features | None = None,
        head: bool = True,
    ) -> None:
        """`head`: the model's MTP head drafts, if it has one."""
        self.model = model
        self.language = model.language
        self.grouping = grouping
        self.drafter: Drafter | None = None
        if head and not isinstance(model.head, str):
            self.drafter = Drafter(model.head, grouping, traces=traces)
        padded = bool(grouping.buckets.widths)
        self.prompts = Forward(self._read_prompt, traces=traces and padded, loras=self.language.loras)
        self.features = features if features is not None else Features(0)
        self.low_memory = False  # copy buffers layer by layer
        self.unhook()

    def unhook(self) -> None:
        # The prefill has reached a checkpoint position, or has just passed it.
        self.on_checkpoint: Callable[[Sequence, int], list[mx.array]] = lambda seq, stop: []

    def encode(self, seq: Sequence) -> None:
        """Encode the sequence's next medium."""
        if self.model.vision is None:
            raise RuntimeError("an image reached a model without a vision tower")
        medium = seq.prompt.media[seq.computed.media]
        key = f"{seq.prompt.salt}/{medium.digest}"  # tenants that share no prefixes share no features
        features = self.features.get(key) if seq.prompt.cached else None
        if features is None:
            features = self.model.vision.encode(medium)
            if features.shape[0] != medium.tokens:  # else others' memory would be read
                raise RuntimeError(f"an image of {medium.tokens} tokens has {features.shape[0]} features")
            mx.eval(features)
            if seq.prompt.cached:
                self.features.put(key, features)
        seq.computed.features.append(features)
        seq.computed.media += 1

    def prefill(self, seq: Sequence, tokens: int) -> list[mx.array]:
        """Prefill the next tokens of a sequence, in a batch of its own. Returns arrays to wait for."""
        stop = self._whole(seq, seq.computed.tokens + tokens)
        positions = seq.prefix.checkpoint_positions
        seq.prefix.checkpoint_positions = sorted({self._whole(seq, position) for position in positions})
        waits: list[mx.array] = []
        left: list[mx.array] = []  # of checkpoints inside the chunk
        while seq.computed.tokens < stop:
            end = stop
            if seq.sampling.prompt_logprobs is not None and not seq.first_delta_sent:
                end = min(end, self._whole(seq, seq.computed.tokens + SCORED_CHUNK))
            due = [position for position in seq.prefix.checkpoint_positions if position <= end]
            if due and self._splits(seq):
                end = due[0]
            inner = tuple(position for position in due if position < end)
            [waits] = self._prefill([seq], [end - seq.computed.tokens], inner)
            left += self._reached(seq, end)
        return waits + left

    def _whole(self, seq: Sequence, stop: int) -> int:
        """Where a chunk may end that should end at `stop`: not inside a medium whose tokens see each other."""
        if not self._two_sided(seq):
            return stop
        mask = self._media_mask(seq, pictures=True)
        while 0 < stop < len(mask) - 1 and mask[stop - 1] and mask[stop]:
            stop += 1
        return stop

    def _two_sided(self, seq: Sequence) -> bool:
        return bool(seq.prompt.media) and self.model.vision is not None and self.model.vision.two_sided

    def _splits(self, seq: Sequence) -> bool:
        """Must a pass end at a checkpoint? Not if layers can record their state inside it, which padded and traced
        passes cannot. Before skipped tokens it must: the head does not read on."""
        return seq.sparse.kept is not None or bool(self.grouping.buckets.widths) or not self.batch_of(seq).can_record

    def prefill_together(self, seqs: list[Sequence], sizes: list[int]) -> list[list[mx.array]]:
        """One pass for several sequences (see `shared`). If it raises, nothing has changed."""
        heads = [seq.draft.batch for seq in seqs if seq.draft.batch is not None]
        restore = stacking.restore_point([*map(self.batch_of, seqs), *heads])
        before = [(seq.computed.tokens, replace(seq.draft), list(seq.prefix.checkpoint_positions)) for seq in seqs]
        try:
            waits = self._prefill(seqs, sizes)
            return [
                wait + self._reached(seq, seq.computed.tokens + size)
                for wait, seq, size in zip(waits, seqs, sizes, strict=True)
            ]
        except Exception:
            restore()
            for seq, (tokens, draft, positions) in zip(seqs, before, strict=True):
                seq.computed.tokens, seq.draft, seq.prefix.checkpoint_positions = tokens, draft, positions
            raise

    def shared(self, chunks: Collection[tuple[Sequence, int]]) -> list[list[tuple[Sequence, int]]]:
        """Which of these chunks share a pass: short ones of the same bucket, that the MTP head reads alike."""
        buckets = self.grouping.buckets
        groups: dict[tuple[int, bool, bool], list[tuple[Sequence, int]]] = {}
        if buckets.prompts:
            for seq, size in chunks:
                if self._may_share(seq, size):
                    alike = (buckets.width(size), seq.feeds_mtp, seq.draft.last_hidden is None)
                    groups.setdefault(alike, []).append((seq, size))
        passes = []
        for (width, *_), group in groups.items():
            while len(group) > 1:
                count = self._prompts_of_pass(len(group), width)
                passes.append(group[:count])
                group = group[count:]
        return passes

    def _prompts_of_pass(self, waiting: int, width: int) -> int:
        """How many of these prompts share the next pass: all, if the padding costs little, else a bucket full."""
        sizes = self.grouping.buckets.prompts
        if waiting <= sizes[-1] and self.grouping.buckets.prompt_count(waiting) * width <= PADDED_TOKENS:
            return waiting
        return max(size for size in sizes if size <= waiting)

    def _may_share(self, seq: Sequence, size: int) -> bool:
        plain = not seq.prompt.media and seq.prompt.pooling is None and seq.sampling.prompt_logprobs is None
        checkpoints = seq.prefix.checkpoint_positions
        whole = not checkpoints or checkpoints[0] >= seq.computed.tokens + size
        batch = seq.computed.batch
        short = size <= SHARED_WIDTH and (
            batch is None or all(plan.groups[0].capacity <= SHARED_SLOTS for plan in batch.slot_plans.values())
        )
        return plain and whole and short and seq.sparse.kept is None and not self.language.dynamic_rope

    def _reached(self, seq: Sequence, stop: int) -> list[mx.array]:
        """Tokens up to `stop` are prefilled. Returns the arrays of checkpoints that were passed."""
        seq.computed.tokens = stop
        due = [position for position in seq.prefix.checkpoint_positions if position <= stop]
        del seq.prefix.checkpoint_positions[: len(due)]
        arrays = [array for position in due for array in self.on_checkpoint(seq, position)]
        seq.draft.inner_hidden = {}  # slices, which hold a whole pass's states
        return arrays

    def batch_of(self, seq: Sequence) -> Batch:
        """The batch in which a sequence is prefilled; a new one if it has none."""
        if seq.computed.batch is None:
            seq.computed.batch = self.language.batch(self.grouping)
            self._set_position_ids(seq, seq.computed.batch)
        seq.computed.batch.low_memory = self.low_memory
        return seq.computed.batch

    def keep_only(self, seq: Sequence, chosen: NDArray[np.int64], whole: int) -> None:
        """Prefill only these tokens from `dense_prefix` on (see `Sequence.keep_only`); what was prefilled before
        stays."""
        seq.keep_only(chosen, whole)
        self._set_position_ids(seq, self.batch_of(seq))

    def _set_position_ids(self, seq: Sequence, batch: Batch) -> None:
        """Set the positions of a sequence's context where they are not consecutive."""
        prompt = len(seq.prompt.token_ids)
        found = None
        if seq.prompt.media and self.model.vision is not None:
            found = self.model.vision.positions(seq.prompt.token_ids, seq.prompt.media)
        if found is not None:
            places, seq.computed.rope_delta = found
        elif seq.sparse.kept is not None:
            places, seq.computed.rope_delta = np.arange(prompt, dtype=np.int32), 0
        else:
            return
        said = np.arange(prompt, prompt + seq.recomputed, dtype=places.dtype) + seq.computed.rope_delta
        if seq.sparse.kept is not None:
            places = places[..., seq.sparse.kept]
            seq.computed.rope_delta += seq.dropped
        seq.computed.position_ids = np.concatenate(
            [places, np.broadcast_to(said, (*places.shape[:-1], len(said)))], axis=-1
        )
        batch.deltas[0] = seq.computed.rope_delta

    def _prefill(
        self, seqs: list[Sequence], sizes: list[int], checkpoints: tuple[int, ...] = ()
    ) -> list[list[mx.array]]:
        """One pass. Only a sequence that is alone in it may have more than plain text, or `checkpoints`: positions
        inside the pass where one can be cut afterwards."""
        buckets, own = self.grouping.buckets, [self.batch_of(seq) for seq in seqs]
        width, rows = buckets.width(max(sizes)), len(seqs)
        batch = own[0]
        if len(seqs) > 1:
            rows = buckets.prompt_count(len(seqs))
            batch = stacking.stack(own, rows)
        ids = np.zeros((rows, width), dtype=np.int32)
        for row, (seq, size) in enumerate(zip(seqs, sizes, strict=True)):
            ids[row, :size] = seq.context[seq.computed.tokens : seq.computed.tokens + size]
        seq, size = seqs[0], sizes[0]
        start, stop = seq.computed.tokens, seq.computed.tokens + size
        if seq.computed.features and self.model.vision is not None and self.model.vision.input_token is not None:
            ids[0, :size][self._media_mask(seq)[start:stop]] = self.model.vision.input_token
        tokens, valid = mx.array(ids), [*sizes, *[0] * (rows - len(seqs))]
        media = self._media_inputs(seq, tokens, start, stop) if seq.computed.features else []
        embeddings = media[0] if media else None
        inner = tuple(position - start for position in checkpoints)
        batch.two_sided = self._blocks(seq, start, stop, width)
        slots = slots_of([*seqs, *[None] * (rows - len(seqs))])
        if seq.prompt.pooling is not None:
            batch.begin(width, self._prompt_positions(seq, start, stop, width), valid=valid, checkpoints=inner)
            with self.language.loras.reading(slots):
                states = self.language.hidden(tokens, batch.layers, *media)
            batch.two_sided = None
            batch.commit()
            seq.computed.pooled = pooling.gathered(seq.computed.pooled, states[:, :size], seq.prompt.pooling)
            return self._submitted([[*batch.arrays(), *batch.recorded(), seq.computed.pooled]])
        traced = width <= TRACED_WIDTH and embeddings is None
        (states,), close = self.prompts(
            batch,
            width,
            [tokens, *media],
            positions=self._prompt_positions(seq, start, stop, width),
            valid=valid,
            checkpoints=inner,
            traced=traced,
            slots=slots,
        )
        close()
        batch.two_sided = None
        batch.advance(valid)
        if len(seqs) > 1:
            stacking.unstack(batch, own)
        waits = [each.arrays() + each.recorded() for each in own]
        if self.drafter is not None and seq.feeds_mtp:
            seq.draft.inner_hidden = {start + count: states[:, count - 1 : count] for count in inner}
            pairs = self._pair_positions(seq, start, stop, width)
            inputs = ids if embeddings is None else embeddings
            drafted = self.drafter.prefill(seqs, inputs, states, sizes, pairs, traced=traced)
            waits = [wait + more for wait, more in zip(waits, drafted, strict=True)]
        if seq.sampling.prompt_logprobs is not None and not seq.first_delta_sent:
            with self.language.loras.reading(slots):
                logits = states if self.drafter is None else self.language.logits(states)
            self._score_prompt(seq, logits[0, :size], start, stop)
        return self._submitted(waits)

    def read_blank(self, width: int) -> None:
        """A pass like those of prompts, traced as they are: to see how long it takes."""
        batch, width = self.language.batch(self.grouping), self.grouping.buckets.width(width)
        _, close = self.prompts(batch, width, [mx.zeros((1, width), dtype=mx.int32)], valid=[width])
        close()
        batch.advance([width])
        mx.eval(batch.arrays())

    def _submitted(self, waits: list[list[mx.array]]) -> list[list[mx.array]]:
        mx.async_eval(waits)
        return waits

    def _read_prompt(self, inputs: list[mx.array], batch: Batch) -> list[mx.array]:
        """Hidden states if there is a head to read them, else logits: those of a family without states."""
        tokens, *media = inputs
        read = self.language.logits_of if self.drafter is None else self.language.hidden
        return [read(tokens, batch.layers, *media)]

    @staticmethod
    def _media_mask(seq: Sequence, *, pictures: bool = False) -> NDArray[np.bool_]:
        """Which tokens of a sequence's context are media's, or pictures'."""
        mask = seq.prompt.picture_mask if pictures else seq.prompt.media_mask
        if seq.sparse.kept is not None:
            mask = mask[seq.sparse.kept]
        return np.concatenate([mask, np.zeros(seq.recomputed, dtype=bool)])

    def _media_inputs(self, seq: Sequence, tokens: mx.array, start: int, stop: int) -> list[mx.array]:
        """Token embeddings, with media's features in their places; then what deeper layers add there, if any do."""
        embedded = self.language.embed(tokens)
        mask = self._media_mask(seq)
        if not mask[start:stop].any():
            return [embedded]
        features, parts = seq.computed.features, 1 + self.language.residual_layers
        joined = features[0] if len(features) == 1 else mx.concatenate(features)
        place = np.maximum(np.cumsum(mask) - 1 - seq.computed.skipped_media_tokens, 0)[start:stop]
        width = tokens.shape[1]
        gathered = joined[mx.array(_padded(place, width))][None].astype(embedded.dtype)
        shown = mx.array(_padded(mask[start:stop], width))[None, :, None]
        first, *deeper = [gathered] if parts == 1 else mx.split(gathered, parts, axis=-1)
        return [mx.where(shown, first, embedded), *(mx.where(shown, part, 0) for part in deeper)]

    def _blocks(self, seq: Sequence, start: int, stop: int, width: int) -> mx.array | None:
        """Which tokens of a chunk see each other because they are one medium's."""
        if not self._two_sided(seq):
            return None
        mask = self._media_mask(seq, pictures=True)[start:stop]
        if not mask.any():
            return None
        begins = mask & ~np.concatenate([[False], mask[:-1]])
        block = np.pad(np.where(mask, np.cumsum(begins), 0), (0, width - len(mask)))
        return mx.array((block[:, None] == block[None]) & (block[:, None] > 0))

    def _prompt_positions(self, seq: Sequence, start: int, stop: int, width: int) -> Positions | None:
        if seq.computed.position_ids is not None:
            return Positions(mx.array(_padded(seq.computed.position_ids[..., None, start:stop], width)))
        if self.language.dynamic_rope:
            reach = dynamic_reach(start, stop, len(seq.prompt.token_ids))
            places = np.arange(start, start + width)
            return Positions(mx.array(places)[None], mx.array(_padded(reach, width))[None])
        return None

    def _pair_positions(self, seq: Sequence, start: int, stop: int, width: int) -> Positions | None:
        """Positions for the MTP head: a pair has the position of its hidden state. The head stops at the first skipped
        token."""
        if seq.computed.position_ids is None or seq.computed.position_ids.ndim == 1:
            return None
        places = seq.computed.position_ids[:, None, max(start - 1, 0) : stop - 1]
        return Positions(mx.array(_padded(places, width if self.grouping.buckets.widths else places.shape[-1])))

    def _score_prompt(self, seq: Sequence, logits: mx.array, start: int, stop: int) -> None:
        """Logprobs of tokens start + 1 to stop, read at once. After a preemption generated tokens are behind them."""
        following = list(seq.prompt.token_ids[start + 1 : stop + 1])
        if not following:
            return
        logits = logits[: len(following)]
        scored = token_logprobs(logits.astype(mx.float32), mx.array(following), seq.sampling.prompt_logprobs or 0)
        if seq.prompt_logprobs is not None:
            seq.prompt_logprobs += logprob_list(following, *scored)


def slots_of(rows: Collection[Sequence | None]) -> mx.array | None:
    """The slot of each row's adapter; None if no row has one."""
    slots = [0 if seq is None or seq.prompt.lora is None else seq.prompt.lora.slot for seq in rows]
    return mx.array(slots, dtype=mx.int32) if any(slots) else None


def _padded(values: NDArray[np.generic], width: int) -> NDArray[np.generic]:
    """The last axis, up to `width`, with its last value."""
    short = width - values.shape[-1]
    if short <= 0 or not values.shape[-1]:
        return values
    return np.concatenate([values, np.repeat(values[..., -1:], short, axis=-1)], axis=-1)
