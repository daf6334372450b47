"""A request as the engine sees it: token ids, media, sampling; and what flows back. No MLX, no JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NewType, Protocol, TypeGuard, get_args

import numpy as np
from numpy.typing import NDArray

from paceline.errors import InvalidRequest, Refused

RequestId = NewType("RequestId", str)
FinishReason = Literal["stop", "length", "abort", "error"]
Speculation = Literal["off", "auto"] | int  # an int: draft that many tokens at every step
MediaKind = Literal["image", "video", "audio"]
Pooling = Literal["mean", "last"]  # one vector of all hidden states, or of the last token's
SpeculationMethod = Literal["mtp", "lookup", "draft_model", "grammar"]  # who proposes draft tokens
SPECULATION_METHODS: tuple[SpeculationMethod, ...] = get_args(SpeculationMethod)
MAX_DRAFTED = 8  # draft tokens of a head or a draft model that a row may have in one step
LONGEST_DRAFT = 32  # draft tokens that the host knows (prompt lookup, grammars)


@dataclass(frozen=True, slots=True)
class Sampling:
    """How one row chooses and ends. Ranges are checked by `validate` in `engine/limits`."""

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0  # 0: off
    min_p: float = 0.0
    typical_p: float = 1.0  # 1: off
    top_n_sigma: float = 0.0  # 0: off
    xtc_probability: float = 0.0  # 0: off
    xtc_threshold: float = 0.1
    dry_multiplier: float = 0.0  # 0: off
    dry_base: float = 1.75
    dry_allowed_length: int = 2  # tokens that may be repeated
    dry_penalty_last_n: int = -1  # tokens that are looked back; -1: all
    dry_sequence_breakers: tuple[str, ...] = ("\n", ":", '"', "*")
    repetition_penalty: float = 1.0  # over prompt and output
    presence_penalty: float = 0.0  # over output only, as OpenAI defines it
    frequency_penalty: float = 0.0
    logit_bias: Mapping[int, float] = field(default_factory=dict)
    allowed_token_ids: tuple[int, ...] = ()  # none: all
    bad_words: tuple[str, ...] = ()
    thinking_token_budget: int | None = None  # reasoning tokens before the end of thinking is forced
    seed: int | None = None
    max_tokens: int | None = None  # None: as far as the context goes
    min_tokens: int = 0  # no end token or stop before this many tokens
    stop: tuple[str, ...] = ()
    stop_token_ids: tuple[int, ...] = ()
    ignore_eos: bool = False
    include_stop_str_in_output: bool = False
    logprobs: int | None = None  # None: off; k: the chosen token's and the k most likely ones'
    logprob_token_ids: tuple[int, ...] = ()  # with logprobs: of these tokens, instead of the k most likely ones
    prompt_logprobs: int | None = None  # the same for the prompt's tokens (completions' echo)
    skip_special_tokens: bool = True
    speculation: Speculation | None = None  # None: as the server is set
    speculation_method: SpeculationMethod | None = None  # None: any that the server and the model allow
    specprefill: bool | None = None  # prefill a long prompt sparsely (paceline/sparse); None: as the server is set
    specprefill_keep: float | None = None  # share of it that is kept, 0.1 to 1.0; None: as the server is set


INHERITS = 2  # in a grammar's mask: this token also gets the probability of those that are not allowed


@dataclass(frozen=True, slots=True)
class ThinkMarks:
    """The tokens around a row's reasoning. `forced` ends it: `close`, and what must follow it."""

    open: tuple[int, ...]
    close: int
    forced: tuple[int, ...]
    begins_open: bool = False  # the prompt ends with `open`


@dataclass(frozen=True, slots=True)
class SamplingTokens:
    """Token ids of what a `Sampling` says in words (conversation/sampling_tokens)."""

    dry_breakers: frozenset[int] = frozenset()
    bad_words: tuple[tuple[int, ...], ...] = ()
    think: ThinkMarks | None = None  # with a thinking budget, where the model thinks


class Grammar(Protocol):
    """What a row may say. Used on the engine's thread only."""

    def allowed(self, draft_tokens: Sequence[int]) -> NDArray[np.bool_] | NDArray[np.uint8]:
        """(draft tokens + 1, vocabulary): what may follow the tokens accepted so far, and then each draft token;
        as numbers (0, 1, INHERITS) where some inherit.

        Draft tokens may break the grammar: what is returned after such a one is ignored.
        """
        ...

    def accept(self, token: int) -> None:
        """The row has this token now."""
        ...


class ForcingGrammar(Grammar, Protocol):
    """A grammar that also says what it forces, or nearly so, and gives its masks as bits."""

    def forced(self) -> Sequence[int]:
        """The tokens that must follow, or that follow where the text is written as usual; others may be allowed."""
        ...

    def packed(
        self, draft_tokens: Sequence[int], said: Sequence[int] = ()
    ) -> tuple[NDArray[np.uint32], NDArray[np.uint32] | None]:
        """`allowed`, with 32 tokens in a number, the first in its lowest bit; and where some inherit, those alike.

        As if the tokens `said` had been accepted before.
        """
        ...


def is_forcing(grammar: Grammar | None) -> TypeGuard[ForcingGrammar]:
    """`isinstance` of a protocol takes 30 microseconds, and this is asked in every step."""
    return grammar is not None and hasattr(grammar, "forced") and hasattr(grammar, "packed")


class MediaInputs(dict[str, Any]):
    """Arrays for a tower, by the names that it gives them. Only models/vision looks into it."""


@dataclass(frozen=True, slots=True)
class Media:
    """An image, a part of a video or a recording, preprocessed on the caller's thread; `digest` identifies it.

    Its features replace the embeddings of `tokens` tokens of the prompt, those with the id `token_id`. `token_ids` are
    all tokens that it adds to a prompt: some families write row ends or tile numbers between those.
    """

    digest: str
    tokens: int
    token_id: int
    token_ids: tuple[int, ...] = ()
    text: str = ""  # what `token_ids` say, for families whose tokens join with the text around
    cost: int = 0  # bytes of `inputs`: memory for encoding is priced by it
    kind: MediaKind = "image"
    inputs: MediaInputs = field(default_factory=MediaInputs, compare=False, repr=False)


@dataclass(eq=False, slots=True)
class Lora:
    """A LoRA adapter that is loaded; one that is loaded again is another. `slot` changes as others are unloaded, on the
    engine's thread; 0: it is unloaded."""

    name: str
    folder: str
    digest: str  # of its contents
    rank: int
    layers: int  # that it changes
    slot: int = 0


@dataclass(frozen=True, slots=True)
class Prompt:
    """Token ids with every medium's marker already replaced by the medium's tokens."""

    token_ids: tuple[int, ...]
    media: tuple[Media, ...] = ()
    boundaries: tuple[int, ...] = ()  # cache boundaries: lengths of prefixes that other prompts may share, rising
    system: int = 0  # tokens in front of the conversation: instructions and tools; 0: none, or not known
    cached: bool = True  # may what is computed for it be kept, and what was kept be used for it?
    salt: str = ""  # prompts share prefixes only with prompts of the same salt
    tail: str = ""  # the last words of its text: they tell whether the answer begins inside a think block
    pooling: Pooling | None = None  # its hidden states are asked for, and no answer
    lora: Lora | None = None  # the adapter that reads it

    @property
    def scope(self) -> str:
        """What was computed for a prompt is for prompts of the same scope. No salt gives the scope of an adapter."""
        if self.lora is not None:
            return f"lora/{self.lora.digest}/{self.salt}"
        return f"base/{self.salt}" if self.salt.startswith(("lora/", "base/")) else self.salt

    @property
    def media_mask(self) -> NDArray[np.bool_]:
        """Which of its tokens are replaced by features."""
        return np.isin(np.asarray(self.token_ids), list({medium.token_id for medium in self.media}))

    @property
    def picture_mask(self) -> NDArray[np.bool_]:
        """Which of them show something."""
        shown = {medium.token_id for medium in self.media if medium.kind != "audio"}
        return np.isin(np.asarray(self.token_ids), list(shown))


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    token_id: int
    logprob: float
    top: tuple[tuple[int, float], ...] = ()  # most likely first; or the chosen token, and those asked for by id


@dataclass(frozen=True, slots=True)
class Usage:
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    accepted_tokens: int = 0  # of the completion, those that were drafted
    rejected_tokens: int = 0  # drafted and thrown away: wrong, or past a stop
    kept_tokens: int | None = None  # of the prompt, those that were read or restored; None: nobody wanted fewer


@dataclass(frozen=True, slots=True)
class PromptInfo:
    """Sent once, with the first delta."""

    token_ids: tuple[int, ...]
    logprobs: tuple[TokenLogprob | None, ...] | None = None  # the first token has none
    route: str = ""  # how it decodes, and why (engine/speculation_policy)
    cached_tokens: int = 0  # of the prompt, restored and not computed
    tail: str = ""  # the prompt's last words
    queued: float = 0.0  # seconds that it waited for its turn


@dataclass(frozen=True, slots=True)
class Acceptance:
    """The request has its place in the queue, or runs. Of its prompt, so many tokens are cached as far as is known."""

    prompt_tokens: int
    cached_tokens: int


@dataclass(slots=True)  # not frozen, which takes five times as long to make
class Delta:
    """What one row produced since its last delta. `text` is valid UTF-8 and final: never taken back."""

    text: str = ""
    token_ids: tuple[int, ...] = ()
    logprobs: tuple[TokenLogprob, ...] = ()
    finish_reason: FinishReason | None = None
    stop_reason: str | int | None = None  # the stop string or token id that ended it
    error: str | None = None  # with finish_reason "error"
    refusal: Refused | InvalidRequest | None = None  # why it may not go on, with finish_reason "error"
    usage: Usage | None = None  # on the last delta
    prompt: PromptInfo | None = None  # on the first delta
    accepted: Acceptance | None = None  # in front of all others and by itself, for requests that `announce`
    index: int = 0  # which of the n choices
    drafts: tuple[int, int] = field(default=(0, 0), compare=False)  # accepted and rejected tokens, so far
    vector: NDArray[np.float32] | None = field(default=None, compare=False)  # a pooled prompt's, of length 1
    parts: tuple[Delta, ...] = field(default=(), compare=False)  # those that were merged; (): it is one
