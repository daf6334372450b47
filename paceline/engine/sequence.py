"""A sequence: one request while the engine works on it. Plain data; only the runner looks at its arrays."""

from __future__ import annotations

import itertools
import secrets
import weakref
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from paceline.engine.draft_length import AcceptanceRecord
from paceline.engine.proposer import Draft
from paceline.engine.speculation_policy import PLAIN, SpeculationMode
from paceline.types import (
    Delta,
    FinishReason,
    Grammar,
    Prompt,
    RequestId,
    Sampling,
    SamplingTokens,
    SpeculationMethod,
    TokenLogprob,
    Usage,
)

if TYPE_CHECKING:
    from paceline.cache.batch import Batch
    from paceline.conversation.text import TextStream

Sink = Callable[[Delta], None]
MASK64 = (1 << 64) - 1
DRAFT_LAG = 128  # tokens that a draft model may be behind and still draft
_numbers = itertools.count()


@dataclass(frozen=True, slots=True)
class EngineRequest:
    """What was asked for. `max_tokens` to generate: the request's own, or what the context leaves."""

    id: RequestId
    prompt: Prompt
    sampling: Sampling
    max_tokens: int
    speculation: SpeculationMode = PLAIN
    eos_ids: frozenset[int] = frozenset()  # the model's tokens that end an answer
    tenant: str = ""  # on whose account it runs
    priority: int = 0  # lower comes first
    tokens: SamplingTokens = SamplingTokens()  # of the sampling's words
    lookup_index: Any = None  # of the prompt's tokens (engine/token_index), where it was built ahead
    cache_key: Any = None  # the prompt as the prefix cache sees it, where that was computed ahead
    announce: bool = False  # tell its client when it is accepted


class Siblings:
    """The choices of one request. References are weak: a cycle would hold their arrays until a garbage collection."""

    def __init__(self, sequences: Iterable[Sequence] = ()) -> None:
        self.started = False  # one of them has run
        self.refused = False  # one of them was refused, and counted
        self._sequences: list[weakref.ref[Sequence]] = []
        for seq in sequences:
            self.add(seq)

    def add(self, seq: Sequence) -> None:
        self.started |= seq.queue.started
        self._sequences.append(weakref.ref(seq))

    def __iter__(self) -> Iterator[Sequence]:
        return (seq for known in self._sequences if (seq := known()) is not None)


@dataclass(slots=True)
class QueueState:
    """Its place among the others (engine/scheduler). Times are the engine's clock."""

    uncached_tokens: int  # prompt tokens to compute, as far as is known
    looked_up: float = 0.0  # when that was looked up
    arrived: float = 0.0
    admitted: float = 0.0  # when it last began to run
    waiting_since: float = 0.0
    seconds: float = 0.0  # that it waited before it first ran
    blocked_by: str = ""  # why it does not run
    was_starved: bool = False  # runs because it had waited for too long
    started: bool = False  # has run at least once


@dataclass(slots=True)
class ComputedState:
    """What was computed for it. Preemption replaces this."""

    tokens: int = 0  # of its context, in its cache
    batch: Batch | None = None  # its own while it is prefilled
    group: int | None = None  # of the sequences that it shares a buffer with, once it decodes
    position_ids: Any = None  # of its context, where they are not consecutive
    rope_delta: int = 0  # position of the next token minus length
    media: int = 0  # media that need no encoding any more
    features: list[Any] = field(default_factory=list)  # of media in order, until the prefill has used them
    skipped_media_tokens: int = 0  # before the first one in `features`
    pooled: Any = None  # sum or last of its hidden states (engine/pooling)


@dataclass(slots=True)
class DraftState:
    """Its draft, and what the MTP head or the draft model holds for it. Preemption replaces this."""

    mtp_prefill: bool = False  # the head reads its prompt for others who will draft
    batch: Batch | None = None  # its own while it is prefilled
    last_hidden: Any = None  # the target's last hidden state, whose pair waits for the next token
    inner_hidden: dict[int, Any] = field(default_factory=dict)  # those at checkpoints inside the last pass, by length
    prompt_pairs: int = 0  # pairs that the head had read when it joined the batch
    reader: Batch | None = None  # the draft model's, its own until it joins the draft's batch
    joined: bool = False  # it has
    read: int = 0  # tokens that the draft model has read of it
    length: int = 0  # draft tokens it has in the step that is planned
    method: SpeculationMethod = "mtp"  # who proposes them
    tokens: tuple[int, ...] = ()  # they themselves, where the host knows them

    def plan(self, draft: Draft) -> None:
        self.length, self.method, self.tokens = draft.length, draft.method, draft.tokens


@dataclass(slots=True)
class PrefixState:
    """What it shares with others through the prefix cache (engine/prefix_manager)."""

    key: Any = None  # its context as the cache sees it
    tree: str = ""  # among which prompts it may look
    cached_tokens: int = 0  # tokens of its prompt that were restored
    checkpoint_positions: list[int] = field(default_factory=list)  # where its prefill stops for one, rising
    waiting: bool = False  # for another sequence's prefill, or for the disk
    disk_reads: int = 0  # how often it has waited for files
    pinned: Any = None  # the node that it uses
    stored: list[Any] = field(default_factory=list)  # nodes that it made
    snapshot: Any = None  # of its cache, once it is out of the batch


@dataclass(slots=True)
class SparseState:
    """Which tokens of its prompt are read (paceline/sparse)."""

    keep_ratio: float | None = None  # None: the whole prompt is read
    decided: bool = True  # False: which tokens are read is still to be found out
    scorer: Any = None  # finds it out
    kept: Any = None  # the tokens that are read, as rising indices; None: all
    dense_prefix: int = 0  # the first so many tokens are all among them


class Sequence:
    """`computed.tokens` of its context are in its cache; the last one never is: it is the first input of decoding, so
    that every first token is sampled in the common batch. A sequence whose states are pooled is prefilled to its end,
    and decodes nothing.

    It can be preempted at any time (`reset_for_recompute`): what it has generated so far is then prefilled like a part
    of its prompt, and it goes on where it was."""

    def __init__(self, request: EngineRequest, text: TextStream, sink: Sink, grammar: Grammar | None = None) -> None:
        prompt, sampling = request.prompt, request.sampling
        self.request = request
        self.id = request.id
        self.prompt = prompt
        self.sampling = sampling
        self.max_tokens = 0 if prompt.pooling else request.max_tokens
        self.text = text
        self.sink = sink
        self.grammar = grammar
        self.speculation = request.speculation
        stop_ids = frozenset(sampling.stop_token_ids)
        self.stop_ids = stop_ids if sampling.ignore_eos else request.eos_ids | stop_ids
        self.seed = (secrets.randbits(64) if sampling.seed is None else sampling.seed) & MASK64
        self.media_costs = tuple(medium.cost for medium in prompt.media)
        self.number = next(_numbers)  # in the order of arrival
        self.siblings = Siblings()
        # Tokens. `context` is what is prefilled: the prompt, or its kept tokens, and what was generated before the
        # last preemption.
        self.context = prompt.token_ids
        self.generated: list[int] = []
        self.scheduled = 0  # tokens whose sampling is in flight or done
        self.prompt_logprobs: list[TokenLogprob | None] | None = None  # the first token has none
        if sampling.prompt_logprobs is not None:
            self.prompt_logprobs = [None]
        self.acceptance = AcceptanceRecord()
        self.lookup: Any = None  # its tokens, as prompt lookup knows them (engine/lookup)
        self.forced: tuple[int, tuple[int, ...]] | None = None  # after so many tokens, what its grammar forced
        self.draft_model_off = False  # a step with it failed: the draft model is not tried again
        self.accepted = self.rejected = 0  # draft tokens so far: delivered, and thrown away
        # State by the part of the engine that owns it.
        self.queue = QueueState(uncached_tokens=len(prompt.token_ids))
        self.computed = ComputedState()
        self.draft = DraftState()
        self.prefix = PrefixState(key=request.cache_key)
        self.sparse = SparseState()
        # Faults and the end.
        self.proven = False  # has been in a step that succeeded
        self.preemptions = 0
        self.oom_retries = 0  # how often it ran out of memory by itself
        self.failure: str | None = None  # why it cannot go on, found while others step with it
        self.finished: FinishReason | None = None
        self.first_delta_sent = False
        self.siblings.add(self)

    @classmethod
    def silent(cls, request: EngineRequest, grammar: Grammar | None = None) -> Sequence:
        """One without text that nobody reads: for checks, measurements and other ranks."""
        from paceline.conversation.text import ByteDetokenizer, TextStream

        return cls(request, TextStream(ByteDetokenizer(lambda token: b"")), lambda delta: None, grammar)

    @property
    def remaining(self) -> int:
        """Tokens of its context still to prefill."""
        kept_back = 0 if self.prompt.pooling else 1
        return len(self.context) - kept_back - self.computed.tokens

    @property
    def length(self) -> int:
        """Tokens in its caches."""
        if self.remaining:
            return self.computed.tokens
        return len(self.prompt.token_ids) - self.dropped - 1 + self.scheduled

    @property
    def dropped(self) -> int:
        """Prompt tokens that are never read."""
        return 0 if self.sparse.kept is None else len(self.prompt.token_ids) - len(self.sparse.kept)

    @property
    def recomputed(self) -> int:
        """Tokens of its context that it generated itself, before it was preempted."""
        return len(self.context) - len(self.prompt.token_ids) + self.dropped

    def keep_only(self, kept: Any, dense_prefix: int) -> None:
        """Of its prompt only these tokens are read, the first `dense_prefix` and the last one among them. Nothing
        behind `dense_prefix` has been computed yet."""
        self.sparse.kept, self.sparse.dense_prefix = kept, dense_prefix
        self.context = self._context()

    def _context(self) -> tuple[int, ...]:
        ids = self.prompt.token_ids
        if self.sparse.kept is not None:
            ids = tuple(ids[index] for index in self.sparse.kept.tolist())
        return (*ids, *self.generated)

    @property
    def media_left(self) -> int:
        return len(self.prompt.media) - self.computed.media

    @property
    def is_decoding(self) -> bool:
        if self.finished is not None or self.remaining or self.media_left:
            return False
        return self.scheduled < self.max_tokens

    @property
    def max_draft_length(self) -> int:
        """Draft tokens that its next step can use: the last token it may generate is never a draft token."""
        if self.scheduled == 0 and len(self.context) == 1:
            return 0  # no proposer has seen anything yet
        return self.max_tokens - self.scheduled - 1

    @property
    def feeds_mtp(self) -> bool:
        """Does the MTP head read its prompt?"""
        return self.speculation.head_length != 0 or self.draft.mtp_prefill

    @property
    def uses_draft_model(self) -> bool:
        """Does a draft model read it? Not if there are images, which it does not see."""
        mode = self.speculation
        return mode.drafts and "draft_model" in mode.methods and not self.draft_model_off and not self.prompt.media

    @property
    def draft_is_near(self) -> bool:
        """Has the draft model read all but a few of its tokens? These it reads when it drafts."""
        return self.length + 1 - self.draft.read <= DRAFT_LAG

    @property
    def draft_is_ready(self) -> bool:
        """Can the proposer on the device draft for it? The MTP head always can."""
        if "draft_model" not in self.speculation.methods:
            return True
        return self.draft.joined and self.uses_draft_model and self.draft_is_near

    @property
    def drafts_on_device(self) -> bool:
        """In the step that is planned."""
        return self.draft.length > 0 and not self.draft.tokens

    @property
    def usage(self) -> Usage:
        prompt_tokens, completion_tokens = len(self.prompt.token_ids), len(self.generated)
        return Usage(
            prompt_tokens,
            completion_tokens,
            self.prefix.cached_tokens,
            accepted_tokens=self.accepted,
            rejected_tokens=self.rejected,
            kept_tokens=None if self.sparse.keep_ratio is None else prompt_tokens - self.dropped,
        )

    def free(self) -> None:
        """Drop all arrays; how far it got stays known."""
        self.computed = replace(self.computed, batch=None, position_ids=None, features=[], pooled=None)
        self.draft = replace(self.draft, batch=None, last_hidden=None, reader=None)
        self.sparse.scorer = None

    def reset_for_recompute(self) -> None:
        """Drop all that was computed, but not which tokens of its prompt are kept. Nothing of it may be in flight."""
        self.computed, self.draft = ComputedState(), DraftState(self.draft.mtp_prefill)
        self.context = self._context()
        sparse = self.sparse
        sparse.scorer = None
        sparse.decided = sparse.keep_ratio is None or sparse.kept is not None or bool(self.generated)
        self.scheduled = len(self.generated)
        self.prefix = replace(self.prefix, checkpoint_positions=[], waiting=False, disk_reads=0, snapshot=None)
        self.rejected = max(self.rejected, 0)
        if self.prompt_logprobs is not None and not self.first_delta_sent:
            self.prompt_logprobs = [None]
        self.preemptions += 1
