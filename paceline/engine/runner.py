"""Executes plans on MLX: one forward for all decoding sequences, prefill chunks, images; one host read per step.

Work is submitted, not waited for. A plain step's tokens are read while the device runs the next step; a sequence that
turns out to have ended ran one step too many, and that token is dropped. A speculative step (draft and verify) is read
before the next is built, because the accepted lengths decide where sequences continue; but where the same sequences
repeat the same traced shapes, the device has all it needs, and speculative steps follow each other like plain ones.

A grammar's mask depends on the last step's tokens, the forward pass does not. So that pass is submitted first; while it
runs, those tokens are read, masks are made, and sampling is submitted with them. Only then are the tokens delivered.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any

import mlx.core as mx
import numpy as np

from paceline import platform
from paceline.cache.batch import Batch
from paceline.cache.features import Features
from paceline.cache.layers import joined, take_rows
from paceline.cache.slot_plan import Grouping, Placement
from paceline.engine.draft_model import DraftModelProposer
from paceline.engine.forward import Forward
from paceline.engine.in_flight import AmbiguousFault, InFlightStep, StepLost, Token
from paceline.engine.masking import Bits, MaskCache, PackedMasks, bits_of
from paceline.engine.prompt_runner import PromptRunner, slots_of
from paceline.engine.proposer import NO_DRAFT, DeviceProposer
from paceline.engine.sampler import Sampled, Sampler, logprob_list
from paceline.engine.sequence import Sequence
from paceline.models.host_read_cuda import readable
from paceline.models.loader import LoadedModel
from paceline.models.positions import Positions
from paceline.types import TokenLogprob

APART = 500  # steps between two new shapes that drafting brings to sequences that need not draft: each costs about ten
SETTLED = 16  # steps of one number of rows before one is brought to them: not to a batch that fills up or empties

Undelivered = Callable[[], list[Token] | None]  # tokens of a step that are not delivered yet; None: it is lost


class Runner(PromptRunner):
    """One batch of all decoding sequences, beside the prompts that `PromptRunner` prefills."""

    def __init__(
        self,
        model: LoadedModel,
        grouping: Grouping,
        *,
        traces: bool = False,
        features: Features | None = None,
        draft_model: DraftModelProposer | None = None,
    ) -> None:
        """`draft_model` drafts instead of the model's MTP head."""
        super().__init__(model, grouping, traces=traces, features=features, head=draft_model is None)
        self.draft_model = draft_model
        step = self._states_and_logits if self.drafter else self._logits
        self.forward = Forward(step, traces=traces, loras=self.language.loras)
        self.sampler = Sampler(self.language.vocab_size)
        self.masks = MaskCache()
        self.batch: Batch | None = None
        self.rows: list[Sequence | None] = []  # of the batch; None: padding
        self.tokens: mx.array = mx.array([], dtype=mx.int32)  # each row's next input
        self.apart = APART
        self._since_new = 0  # decode steps since drafting brought a new shape
        self._alike = (0, 0)  # rows, and decode steps of so many
        # Are errors of submitted work reported by a later call? On a CPU they are raised by the call itself.
        self.reports_late = platform.device_kind() != "cpu"

    @property
    def new_shapes(self) -> int:
        """How often the device has met a shape for the first time."""
        return sum(each.new_shapes for each in self._passes)

    @property
    def _passes(self) -> list[Forward]:
        drafts = [] if self.proposer is None else [self.proposer.forward]
        prompts = [] if self.drafter is None else [self.drafter.first_chunks, self.drafter.later_chunks]
        return [self.forward, self.prompts, *drafts, *prompts]

    def forget_loras(self) -> None:
        """The adapters have changed: drop what was traced with them."""
        for each in (self.forward, self.prompts):
            each.forget_loras()

    def forget_traces(self) -> None:
        """Keys and values are quantized from now on, or no longer. No sequence is running."""
        for each in self._passes:
            each.forget()

    @property
    def proposer(self) -> DeviceProposer | None:
        """Who drafts on the device."""
        return self.drafter if self.draft_model is None else self.draft_model

    @property
    def seqs(self) -> list[Sequence]:
        return [seq for seq in self.rows if seq is not None]

    def unhook(self) -> None:
        super().unhook()
        # A sequence that has not finished leaves the batch.
        self.on_leave: Callable[[Sequence], None] = lambda seq: None

    # -- decoding

    def decode(
        self,
        seqs: Collection[Sequence],
        draft_length: int = 0,
        undelivered: Undelivered | None = None,
        shorter: Collection[int] = (),
    ) -> InFlightStep:
        """A decode step for `seqs`, plain or with `draft_length` speculative. Sequences join and leave the batch here.
        More may be drafted, up to the bucket of that length: a sequence verifies its own `draft.length`. `shorter`:
        lengths to take instead where that one would be a new shape, the best first.

        `undelivered`: reads the step before this one. Called once the forward pass is submitted, if there are grammars.

        If it raises, the sequences are unchanged and can be retried; unless it raises StepLost.
        """
        for batch in self.batches():
            batch.low_memory = self.low_memory
        try:
            self._arrange(seqs)
        except Exception as error:  # some may have joined half-way
            raise StepLost(InFlightStep(list(seqs))) from error
        if self.batch is None:
            return InFlightStep()
        if self.proposer is not None:
            self.proposer.begin_step(seqs)
        self._since_new += 1
        self._alike = (len(self.rows), self._alike[1] + 1 if self._alike[0] == len(self.rows) else 0)
        draft_length = self.grouping.buckets.draft_length(draft_length)
        if draft_length and (self.proposer is not None or any(seq.draft.tokens for seq in self.seqs)):
            draft_length = self._affordable(self.batch, draft_length, shorter)
        else:
            draft_length = 0
        if draft_length:
            return self._speculative_step(self.batch, draft_length, undelivered)
        return self._plain_step(self.batch, undelivered)

    def _affordable(self, batch: Batch, draft_length: int, shorter: Collection[int]) -> int:
        """The draft length, or a shorter one if its shape is new, lately another one was, and all that draft do so
        because it pays: where sequences come and go, tracing would cost more than the drafts of a head bring."""
        buckets, drafting = self.grouping.buckets, [seq for seq in self.seqs if seq.draft.length]
        if not self.forward.traces or not buckets.drafts or len(self.seqs) == 1:
            return draft_length
        if any(seq.draft.tokens or seq.speculation.draft_length is not None for seq in drafting):
            return draft_length
        adapted = slots_of(self.rows) is not None

        def is_traced(length: int) -> bool:
            return self.forward.is_traced(batch, length + 1, tentative=True, adapted=adapted)

        if is_traced(draft_length):
            return draft_length
        if self._since_new > self.apart and self._alike[1] >= min(SETTLED, self.apart):
            self._since_new = 0
            return draft_length
        length = next((size for size in shorter if size < draft_length and is_traced(size)), 0)
        for seq in drafting:
            seq.draft.length = min(seq.draft.length, length)
        return length

    def read_drafts(self, chunks: Iterable[tuple[Sequence | None, int]]) -> None:
        """The draft model reads the next tokens of sequences that decode, if they still do."""
        for seq, tokens in chunks:
            if self.draft_model is not None and seq is not None and seq in self.seqs:
                self.draft_model.read(seq, tokens)

    def _plain_step(self, batch: Batch, undelivered: Undelivered | None) -> InFlightStep:
        positions = None
        if self.language.dynamic_rope:
            lengths = mx.array(batch.lengths)[:, None]
            positions = Positions(lengths, lengths + 1)
        slots = slots_of(self.rows)
        (logits, *hidden), close = self.forward(batch, 1, [self.tokens[:, None]], positions=positions, slots=slots)
        step = InFlightStep(list(self.rows), steady=self.forward.steady)
        ruled = self._submit_ruled(step, logits, close)
        with _counting(step) if ruled else nullcontext():
            sampled = step.sampled = self.sampler(logits[:, -1], self._allowed(ruled, [], undelivered))
        with _counting(step):  # before this point a fault changes nothing, and the step can be retried
            if not ruled:
                close()
            batch.advance([1] * batch.rows)
            self.tokens = sampled.tokens
            for seq in self.seqs:
                seq.scheduled += 1
            if self.proposer is not None:
                self.proposer.add_pending(sampled.tokens[:, None], hidden[0] if hidden else None, [1] * batch.rows)
            mx.async_eval(self._unevaluated(step, states=not ruled))
        return step

    def _speculative_step(self, batch: Batch, draft_length: int, undelivered: Undelivered | None) -> InFlightStep:
        """Draft, verify all draft tokens in one pass, keep the accepted ones: all on the device."""
        draft_tokens = self._draft(draft_length)
        if not draft_tokens:
            return self._plain_step(batch, undelivered)
        if self.sampler.agree is not None:
            draft_tokens = list(self.sampler.agree(mx.stack(draft_tokens)))
        tokens = mx.stack([self.tokens, *draft_tokens], axis=1)
        slots = slots_of(self.rows)
        (logits, *hidden), close = self.forward(batch, draft_length + 1, [tokens], tentative=True, slots=slots)
        step = InFlightStep(
            list(self.rows),
            draft_length=draft_length,
            draft_lengths=[0 if seq is None else seq.draft.length for seq in self.rows],
            draft_methods=["mtp" if seq is None else seq.draft.method for seq in self.rows],
            steady=self.forward.steady and (self.proposer is None or self.proposer.forward.steady),
        )
        ruled = self._submit_ruled(step, logits, close)
        with _counting(step) if ruled else nullcontext():
            allowed = self._allowed(ruled, draft_tokens, undelivered)
            sampled = step.sampled = self.sampler.verify(logits, self.tokens, draft_tokens, allowed)
            assert sampled.kept is not None and sampled.last is not None
        with _counting(step):  # before this point a fault changes nothing, and the step can be retried
            if not ruled:
                close()
            batch.apply_accepted(sampled.kept)
            batch.advance_on_device(sampled.kept, draft_length + 1)
            self.tokens = sampled.last
            for seq in self.seqs:
                seq.scheduled += 1  # at least: `read` adds the others
            if self.proposer is not None:
                self.proposer.add_pending(sampled.tokens, hidden[0] if hidden else None, sampled.kept)
            mx.async_eval(self._unevaluated(step))
        return step

    def _draft(self, length: int) -> list[mx.array]:
        """`length` draft tokens for every row, each (rows,): what the host knows, and what the device's proposer drafts
        for the other rows. A row's own are the first `seq.draft.length`, the rest is anything. Empty: nobody drafts."""
        known = np.zeros((len(self.rows), length), dtype=np.int32)
        from_host = np.zeros(len(self.rows), dtype=np.bool_)
        for row, seq in enumerate(self.rows):
            if seq is not None and seq.draft.tokens:
                known[row, : len(seq.draft.tokens)] = seq.draft.tokens
                from_host[row] = True
        head = self._device_length()
        drafted: list[mx.array] = []
        if head and self.proposer is not None:
            head = self.grouping.buckets.draft_length(head) if from_host.any() else length
            drafted = self.proposer.propose(head, self.sampler.propose, self.rows, self.tokens)
            if not drafted:
                head = self._device_length()
        if not from_host.any():
            return drafted
        columns = list(mx.array(known.T))
        mine = mx.array(from_host)
        return [mx.where(mine, one, other) for one, other in zip(columns, drafted, strict=False)] + columns[head:]

    def _device_length(self) -> int:
        """The most draft tokens of a row from the device. Rows that it cannot draft for draft nothing."""
        longest = 0
        for seq in self.seqs:
            if seq.drafts_on_device:
                if self.proposer is None or not seq.draft_is_ready:
                    seq.draft.plan(NO_DRAFT)
                longest = max(longest, seq.draft.length)
        return longest

    def _submit_ruled(self, step: InFlightStep, logits: mx.array, close: Callable[[], None]) -> dict[int, Sequence]:
        """Rows with grammars. If there are any, the forward pass is committed and submitted: a pass that is not
        committed could not write into the buffers that it read, and would copy all keys and values."""
        ruled = {row: seq for row, seq in enumerate(self.rows) if seq is not None and seq.grammar is not None}
        if ruled and self.batch is not None:
            with _counting(step):
                close()
                mx.async_eval(logits, *self.batch.states())
        return ruled

    def _allowed(
        self, ruled: Mapping[int, Sequence], draft_tokens: list[mx.array], undelivered: Undelivered | None
    ) -> PackedMasks | None:
        """Allowed tokens by the sequences' grammars, now and after each draft token. Those that are drafted on the
        device must be read for it."""
        if not ruled:
            return None
        said: dict[int, list[int]] = {}  # by sequence: what its grammar has not heard
        if undelivered is not None:
            tokens = undelivered()
            if tokens is None:
                raise StepLost(InFlightStep())
            for token in tokens:
                if token.seq.grammar is not None:
                    said.setdefault(id(token.seq), []).append(token.token_id)
        read: Any = [() if seq is None else seq.draft.tokens for seq in self.rows]
        if draft_tokens and any(seq.draft.length and not seq.draft.tokens for seq in ruled.values()):
            read = readable(mx.stack(list(draft_tokens), axis=1)).tolist()
        masks: dict[int, Bits] = {}
        for row, seq in ruled.items():
            if seq.grammar is not None and seq.failure is None and seq.finished is None:
                try:
                    draft_length = seq.draft.length if draft_tokens else 0
                    masks[row] = bits_of(seq.grammar, read[row][:draft_length], said.get(id(seq), ()))
                except Exception as error:  # noqa: BLE001  a failing grammar fails its own sequence only
                    seq.failure = str(error) or type(error).__name__
        if not masks:
            return None
        places = len(draft_tokens) + 1 if draft_tokens else None
        return PackedMasks.of(masks, len(self.rows), places, self.masks)

    def _unevaluated(self, step: InFlightStep, *, states: bool = True) -> list[mx.array]:
        """All arrays that a step computes. `states`: of the batch too, if they were not submitted with the pass."""
        assert step.sampled is not None and self.batch is not None
        drafted = [] if self.proposer is None else self.proposer.arrays()
        kept = self.batch.states() if states else []
        return [*step.sampled.arrays(), *kept, *self.sampler.state(), *drafted]

    @property
    def can_run_ahead(self) -> bool:
        """May a speculative step be submitted before the last one is read? Not if a sequence's sampling depends on
        it."""
        return self.forward.traces and not self.sampler.counts_tokens and not any(seq.grammar for seq in self.seqs)

    def can_follow(self, step: InFlightStep, seqs: Collection[Sequence], draft_length: int) -> bool:
        """Does a step of `seqs` repeat the pending one, so that the device needs nothing from the host?"""
        draft_length = self.grouping.buckets.draft_length(draft_length)
        if not self.can_run_ahead or self.proposer is None or self.batch is None or draft_length != step.draft_length:
            return False
        if len(self.batch.unsynced) > 1 or set(map(id, seqs)) != set(map(id, self.seqs)):
            return False
        adapted = slots_of(self.rows) is not None
        known = self.forward.is_traced(self.batch, draft_length + 1, tentative=True, adapted=adapted)
        return known and self.proposer.can_run_ahead(draft_length)

    def read(self, step: InFlightStep) -> None:
        """Read how many tokens each sequence keeps of a speculative step. Until then nothing else may be decoded."""
        assert step.sampled is not None and self.batch is not None
        try:
            kept: Any = step.sampled.read[1].tolist() if step.sampled.kept is not None else []
        except Exception as error:
            raise StepLost(step) from error
        step.kept = kept
        self.batch.sync_lengths(kept)
        if self.proposer is not None:
            self.proposer.sync_lengths(kept)
        for seq, count in zip(step.rows, kept, strict=True):
            if seq is not None:
                seq.scheduled += count - 1

    def _states_and_logits(self, inputs: list[mx.array], batch: Batch) -> list[mx.array]:
        hidden = self.language.hidden(inputs[0], batch.layers)
        return [self.language.logits(hidden), hidden]

    def _logits(self, inputs: list[mx.array], batch: Batch) -> list[mx.array]:
        return [self.language.module(inputs[0], cache=batch.layers)]

    def collect(self, step: InFlightStep) -> list[Token]:
        """The step's tokens, in order for each sequence: the one host read."""
        if step.sampled is None:
            return []
        sampled = step.sampled
        tokens: Any = sampled.read[0].tolist()
        if not step.kept:
            tokens = [[token] for token in tokens]
        counts = step.kept or [1] * len(tokens)
        scores = None if sampled.logprobs is None else _scores(sampled)
        named: Any = None if sampled.id_logprobs is None else sampled.id_logprobs.tolist()
        result = []
        for place, (seq, count) in enumerate(zip(step.rows, counts, strict=True)):
            if seq is None:
                continue
            asked, ids = seq.sampling.logprobs, seq.sampling.logprob_token_ids
            for column, token in enumerate(tokens[place][:count]):
                kept = None
                if scores is not None and asked is not None:
                    score = scores[place][column]
                    top = score.top[:asked]
                    if ids:
                        values = named[place][column] if step.kept else named[place]
                        others = {id: value for id, value in zip(ids, values, strict=False) if id != token}
                        top = ((token, score.logprob), *others.items())
                    kept = TokenLogprob(token, score.logprob, top)
                result.append(Token(seq, token, kept, drafted=column < count - 1))
        return result

    def await_step(self, step: InFlightStep) -> None:
        """Complete a decode step before anything else is submitted."""
        if step.sampled is not None:
            with _counting(step):
                self.wait(self._unevaluated(step))

    def wait(self, arrays: list[mx.array]) -> None:
        """Wait for submitted work; raises its errors."""
        mx.eval(arrays)

    def probe(self) -> None:
        """The simplest computation; raises if the device is gone."""
        mx.eval(mx.zeros(1) + 1)

    def _arrange(self, seqs: Collection[Sequence]) -> None:
        wanted = set(map(id, seqs))
        leaving = [seq for seq in self.seqs if id(seq) not in wanted]
        for seq in leaving:
            if seq.finished is None:
                self.on_leave(seq)
        if leaving:
            self._keep([row for row, seq in enumerate(self.rows) if seq is not None and id(seq) in wanted])
        present = set(map(id, self.rows))
        for seq in seqs:
            if id(seq) not in present:
                self._join(seq)
        if self.sampler.rows != self.rows or self.sampler.needs_arranging():  # also after a fault in between
            self.sampler.arrange(self.rows)

    def remove(self, gone: Collection[Sequence]) -> None:
        """These sequences leave the batch. Nothing of theirs may be in flight."""
        left = set(map(id, gone))
        self._keep([row for row, seq in enumerate(self.rows) if seq is not None and id(seq) not in left])
        self.sampler.forget()
        with contextlib.suppress(Exception):  # then the next step evaluates it, and raises the error
            for batch in self.batches():
                batch.evaluate()  # or their buffers stay until that step

    def batches(self) -> list[Batch]:
        """Of the decoding sequences: the model's, and the MTP head's or the draft model's."""
        both = (self.batch, None if self.proposer is None else self.proposer.batch)
        return [batch for batch in both if batch is not None]

    def reset(self) -> None:
        """The batch cannot be trusted any more: all sequences leave."""
        self._keep([])
        self.sampler.forget()

    def _keep(self, rows: list[int]) -> None:
        if not rows or self.batch is None:
            self.rows, self.batch, self.tokens = [], None, mx.array([], dtype=mx.int32)
            if self.proposer is not None:
                self.proposer.clear()
            return
        before, order = self.rows, self.batch.keep(rows)
        if self.proposer is not None:
            self.proposer.keep(rows, [seq for row in rows if (seq := before[row]) is not None])
        self.rows = [None if row is None else before[row] for row in order]
        self.tokens = take_rows(self.tokens, order)

    def _join(self, seq: Sequence) -> None:
        batch = seq.computed.batch if seq.computed.batch is not None else self.language.batch(self.grouping)
        first = mx.array(seq.context[-1:], dtype=mx.int32)
        at = Placement(0, None)
        seq.computed.group = seq.number  # groups are named after their first sequence
        if self.batch is None:
            batch.trim()
            self.batch, self.rows, self.tokens = batch, [seq], first
        else:
            at = self.batch.join(batch)
            if at.group is not None:
                seq.computed.group = self._group_of(self.batch, at.group)
            at.put(self.rows, seq, None)
            self.tokens = joined(self.tokens, first, at)
        if self.proposer is not None:
            self.proposer.join(seq, at)
        seq.computed.batch, seq.computed.features, seq.computed.position_ids = None, [], None

    def _group_of(self, batch: Batch, group: int) -> int | None:
        """The name of a group, by any sequence in it."""
        rows = next(iter(batch.slot_plans.values())).groups[group].rows
        return next(seq.computed.group for seq in self.rows[rows] if seq is not None)


@contextmanager
def _counting(step: InFlightStep) -> Iterator[None]:
    """From here on the step is committed: an error loses it."""
    try:
        yield
    except (AmbiguousFault, StepLost):
        raise
    except Exception as error:
        raise StepLost(step) from error


def _scores(sampled: Sampled) -> list[list[TokenLogprob]]:
    """Per sequence and token."""
    seqs = sampled.tokens.shape[0]
    parts = [sampled.tokens, sampled.logprobs, sampled.top_ids, sampled.top_logprobs]
    deep = sampled.tokens.ndim  # (rows,) or (rows, width), and one more axis for the top ones
    flat = [None if part is None else part.reshape(sampled.tokens.size, *part.shape[deep:]) for part in parts]
    assert flat[0] is not None and flat[1] is not None
    tokens: Any = flat[0].tolist()
    scores = logprob_list(tokens, flat[1], flat[2], flat[3])
    width = len(scores) // seqs
    return [scores[seq * width : (seq + 1) * width] for seq in range(seqs)]
