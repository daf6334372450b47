"""Self-check and warm-up, on the engine's thread, before its first sequence.

Speculative steps, our kernels and traced steps are compared with plain ones before they are used.

A GPU's kernels are compiled when they are first needed: on CUDA each takes seconds, and every stream waits. So dummy
sequences join, decode, draft and leave once, in every way that sequences can. Nothing is held afterwards.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray
from PIL import Image as PictureFile

from paceline import platform
from paceline.cache.batch import Batch
from paceline.cache.slot_plan import Grouping
from paceline.engine import proposer
from paceline.engine.forward import DEVICES, TRACE_AFTER, Forward
from paceline.engine.prompt_runner import SHARED_WIDTH
from paceline.engine.runner import Runner
from paceline.engine.sequence import EngineRequest, Sequence
from paceline.engine.speculation_policy import PLAIN, SpeculationMode
from paceline.errors import StartAbandoned
from paceline.models import check
from paceline.models.adapter import Adapted
from paceline.models.linear_cuda import MAX_ROWS, RowLinear, can_gate, products
from paceline.models.loader import LoadedModel, Progress
from paceline.sparse.scorer import Draft
from paceline.types import MAX_DRAFTED, Lora, Prompt, RequestId, Sampling

log = logging.getLogger("paceline")
SHORT, LONG = 48, 600  # tokens: sequences that share a buffer, and one that is too long for it
DRAFTING = (1, 8)  # sequences that draft at every length: others need the same kernels
CAPACITIES = (1024, 1536)  # slots of buffers for prompts of usual lengths, whose steps are traced too
USUAL_DRAFT = 3  # draft tokens in those
TURNS = TRACE_AFTER + 2  # steps of one shape: plain, and traced
PIXELS = 224  # an image's side
MAX_TOKENS = 1 << 20

GREEDY = Sampling(temperature=0.0)
EVERYTHING = Sampling(
    temperature=0.7,
    top_p=0.9,
    top_k=20,
    min_p=0.01,
    repetition_penalty=1.1,
    presence_penalty=0.1,
    frequency_penalty=0.1,
    logit_bias={0: 0.5},
    min_tokens=4,
    logprobs=2,
    seed=1,
)


class AnyToken:
    """A grammar that allows every token."""

    def __init__(self, vocabulary: int) -> None:
        self.vocabulary = vocabulary

    def allowed(self, draft_tokens: Collection[int]) -> NDArray[np.bool_]:
        return np.ones((len(draft_tokens) + 1, self.vocabulary), dtype=np.bool_)

    def accept(self, token: int) -> None:
        """Every token is allowed."""


@dataclass(frozen=True, slots=True)
class WarmUpScope:
    """Which buckets are warmed up: those up to so many sequences, and so many prompt tokens a step, that fit."""

    max_num_seqs: int
    prefill_chunk: int
    fits: Callable[[int, int], bool] = lambda seqs, tokens: True


def warm_up(
    runner: Runner,
    scope: WarmUpScope | None = None,
    *,
    draft_lengths: Collection[int] = (0,),
    draft: Draft | None = None,
    embeds: bool = False,
    progress: Progress | None = None,
) -> float:
    """Returns the seconds that it took. `draft_lengths`: of the speculative steps to warm up. `embeds`: the model gives
    embeddings. Errors are only logged: the first request that needs the same kernel will wait, or fail, by itself."""
    begun = time.perf_counter()
    try:
        for lora in (None, *runner.language.loras.loaded[:1]):  # another one has the same shapes
            warm = _WarmUp(runner, draft, embeds=embeds, lora=lora)
            warm.run(list(draft_lengths))
            if scope is not None and runner.grouping.buckets.rows:
                warm.buckets(scope, list(draft_lengths), progress or _quiet)
    except StartAbandoned:
        raise
    except Exception as error:  # noqa: BLE001  no request waits yet
        log.warning("the warm-up broke off: %s", error, exc_info=error)
    finally:
        runner.reset()
        mx.clear_cache()
    return time.perf_counter() - begun


def _quiet(what: str, done: int, total: int) -> None: ...


class _WarmUp:
    def __init__(self, runner: Runner, draft: Draft | None, *, embeds: bool, lora: Lora | None) -> None:
        self.runner = runner
        self.draft = draft
        self.embeds = embeds
        self.lora = lora  # of all sequences

    def run(self, draft_lengths: list[int]) -> None:
        between = [] if self.runner.grouping.buckets.rows else draft_lengths[1:-1]  # `buckets` has them
        for draft_length in sorted({draft_lengths[0], *between, draft_lengths[-1]}):
            self.batch(draft_length, [self.seq(SHORT), self.seq(SHORT + 1), self.seq(LONG)])
        self.batch(draft_lengths[-1], [self.seq(SHORT, EVERYTHING), self.seq(SHORT)])
        self.batch(0, [self.seq(SHORT, EVERYTHING), self.seq(SHORT, grammar=AnyToken(self.runner.language.vocab_size))])
        self.scored()
        batch = [self.seq(SHORT)]
        if self.runner.model.vision is not None:
            batch.append(self.with_image())
        if self.draft is not None:
            batch.append(self.sparse(self.draft))
        if len(batch) > 1:
            self.batch(0, batch)

    def buckets(self, scope: WarmUpScope, draft_lengths: list[int], progress: Progress) -> None:
        """Every size of prefill pass and of decoding batch; buffers in their smallest size, and in usual ones. After
        that no kernel is compiled: a shape that is new is only traced, once, which takes about a tenth of a second."""
        runner, buckets = self.runner, self.runner.grouping.buckets
        passes = [
            (count, width)
            for width in buckets.widths
            for count in buckets.prompts
            if count * width <= scope.prefill_chunk and (count == 1 or width <= SHARED_WIDTH)
        ]
        sizes = [size for size in buckets.rows if size <= max(scope.max_num_seqs, 1) and scope.fits(size, SHORT)]
        total = len(passes) + len(sizes)
        self.products()
        for done, (count, width) in enumerate(passes):
            progress("warming up", done, total)
            if scope.fits(count, width):
                self.together([self.seq(width + 1) for _ in range(count)])
        inside: list[Sequence] = []
        for done, size in enumerate(sizes):
            progress("warming up", len(passes) + done, total)
            new = [self.seq(SHORT + 1) for _ in range(size - len(inside))]
            most = buckets.prompts[-1] if buckets.prompts else 1
            for first in range(0, len(new), most):
                self.together(new[first : first + most])
            inside += new
            lengths = draft_lengths if size in DRAFTING else [0]
            for draft_length in lengths:
                self.steps(inside, draft_length, 2)
            for capacity in CAPACITIES:
                if scope.fits(size, capacity):
                    self.grown(inside, capacity, [length for length in lengths if length <= USUAL_DRAFT])
        progress("warming up", total, total)
        runner.reset()

    def grown(self, seqs: Collection[Sequence], capacity: int, draft_lengths: Collection[int]) -> None:
        """Steps of these sequences in larger buffers."""
        batches = self.runner.batches()
        if any(window is not None for batch in batches for window in batch.slot_plans):
            return  # their buffers do not grow like this
        for batch in batches:
            batch.reserve(capacity - max(batch.lengths))
        for draft_length in draft_lengths:
            self.steps(seqs, draft_length, 1)
        for batch in batches:
            batch.trim()

    def products(self) -> None:
        """The kernels of few rows have a form for every eight of them, for every number of layers that share a launch,
        and for matrices of different heights."""
        parts = [part for _, part in self.runner.language.module.named_modules()]
        gated = {id(layer) for part in parts if can_gate(part) for layer in (part.gate_proj, part.up_proj)}
        forms: dict[tuple[bool, tuple[int, ...]], list[mx.array]] = {}
        for part in parts:
            if isinstance(part, RowLinear) and part.fused:
                weights = [layer.weight for layer in (part.siblings.layers if part.siblings else (part,))]
                forms.setdefault((id(part) in gated, tuple(map(len, weights))), weights)
        for (together, _), weights in forms.items():
            for rows in range(8, MAX_ROWS + 1, 8):
                few = mx.zeros((rows, weights[0].shape[1]), weights[0].dtype)
                mx.eval(products(few, weights, gated=together))

    def together(self, seqs: list[Sequence]) -> None:
        """Prefill them in one pass."""
        if len(seqs) == 1:
            mx.eval(self.runner.prefill(seqs[0], seqs[0].remaining))
        else:
            mx.eval(self.runner.prefill_together(seqs, [seq.remaining for seq in seqs]))

    def seq(
        self, tokens: int, sampling: Sampling = GREEDY, grammar: Any = None, prompt: Prompt | None = None
    ) -> Sequence:
        prompt = prompt or Prompt((0,) * tokens, cached=False, lora=self.lora)
        by_model = self.runner.proposer is not None and self.runner.proposer.method == "draft_model"
        mode = SpeculationMode(None, "warm-up", ("draft_model",)) if by_model else PLAIN
        request = EngineRequest(RequestId("warm-up"), prompt, sampling, MAX_TOKENS, mode)
        seq = Sequence.silent(request, grammar)
        seq.draft.mtp_prefill = self.runner.drafter is not None
        return seq

    def _drafts(self, seq: Sequence, draft_length: int) -> None:
        """Long drafts come from the host, and all drafts where there is no head."""
        if (seq.draft.mtp_prefill or seq.uses_draft_model) and draft_length <= MAX_DRAFTED:
            seq.draft.plan(proposer.Draft(length=draft_length))
        elif self.runner.model.no_rollback is None:
            seq.draft.plan(proposer.Draft("lookup", draft_length, (0,) * draft_length))

    def prefill(self, seq: Sequence) -> None:
        """Its prompt, in two chunks; the first may be longer, where a picture must be read in one piece."""
        half = (seq.remaining + 1) // 2
        while seq.remaining:
            mx.eval(self.runner.prefill(seq, min(half, seq.remaining)))

    def batch(self, draft_length: int, seqs: Collection[Sequence]) -> None:
        """They join one after another, decode for a while, and leave in the order in which they came."""
        runner = self.runner
        inside: list[Sequence] = []
        for seq in seqs:
            if seq.remaining:
                self.prefill(seq)
            inside.append(seq)
            self.steps(inside, draft_length)
        while inside:
            inside.pop(0).finished = "abort"
            if inside:
                self.steps(inside, draft_length)
        runner.reset()

    def steps(self, seqs: Collection[Sequence], draft_length: int, turns: int | None = None) -> None:
        runner = self.runner
        if turns is None:
            turns = 3 if runner.grouping.buckets.rows else TURNS  # those are traced at once
        for _ in range(turns):
            for seq in seqs:
                self._drafts(seq, draft_length)
            deep = draft_length if any(seq.draft.length for seq in seqs) else 0
            step = runner.decode(seqs, deep)
            runner.read_drafts((seq, seq.length) for seq in seqs if seq.uses_draft_model and not seq.draft_is_ready)
            if step.result_pending:
                runner.read(step)
            runner.collect(step)

    def scored(self) -> None:
        """Prompts whose own scores, or whose states, are asked for."""
        self.prefill(self.seq(SHORT, Sampling(prompt_logprobs=2)))
        if self.embeds:
            self.prefill(self.seq(SHORT, prompt=Prompt((0,) * SHORT, cached=False, pooling="mean")))

    def with_image(self) -> Sequence:
        vision = self.runner.model.vision
        assert vision is not None
        image = vision.preprocess(PictureFile.new("RGB", (PIXELS, PIXELS)))
        tokens = (0,) * 4 + image.token_ids + (0,) * 4
        seq = self.seq(0, prompt=Prompt(tokens, media=(image,), cached=False))
        self.runner.encode(seq)
        return seq

    def sparse(self, draft: Draft) -> Sequence:
        seq = self.seq(LONG)
        seq.draft.mtp_prefill = False
        scorer = draft.scorer(seq.prompt.token_ids, (), None)
        while scorer.left:
            mx.eval(scorer.read(LONG // 2))
        scorer.scores()
        places = np.arange(LONG)
        self.runner.keep_only(seq, places[(places % 64 < 32) | (places == LONG - 1)], 0)
        return seq


def check_steps(model: LoadedModel, grouping: Grouping, *, may_trace: bool = True) -> bool:
    """Check speculative and traced steps against plain decoding on this machine, and drop what disagrees.

    Returns whether steps are traced; a model whose speculative steps disagree loses its head, and drafts nothing.
    """
    language = model.language
    model.no_rollback = no_rollback(language)
    if model.no_rollback is None and not _speculation_agrees(language, grouping):
        with_kernels = language.use_kernels(False)
        if with_kernels and _speculation_agrees(language, grouping):
            log.warning("our kernels disagree with their plain forms in speculative steps, and are not used")
        else:
            model.no_rollback = "speculative steps do not give what plain decoding gives on this machine"
            if with_kernels:  # in plain steps they were right
                language.use_kernels(True)
            log.warning("nothing is drafted for this model: %s", model.no_rollback)
    _settle_head(model)
    if not may_be_traced(language, may_trace):
        return False
    forward = Forward(
        lambda inputs, batch: [language.module(inputs[0], cache=batch.layers)], traces=True, trace_after=1
    )

    def step(tokens: mx.array, batch: Batch, tentative: bool) -> tuple[mx.array, Callable[[], None]]:
        (logits,), close = forward(batch, tokens.shape[1], [tokens], tentative=tentative)
        return logits, close

    try:
        same = check.agrees(language, grouping, step)
        if same and model.no_rollback is None:
            same = check.rolls_back(language, grouping, step)
        if same and forward.traced_calls:
            return True
        log.warning("the traced decode step disagrees with the plain one, and is not used")
    except Exception as error:  # noqa: BLE001  a model that cannot be traced is served without
        log.warning("the decode step of this model cannot be traced, and runs as it is: %s", error)
    return False


def take_steps(model: LoadedModel) -> None:
    """Speculative steps that were checked before."""
    model.no_rollback = no_rollback(model.language)
    _settle_head(model)


def _settle_head(model: LoadedModel) -> None:
    if model.no_rollback is not None and not isinstance(model.head, str):
        model.head = model.no_rollback
    if not isinstance(model.head, str):
        model.head.use_kernels(model.language.uses_kernels)


def may_be_traced(language: Adapted, may_trace: bool = True) -> bool:
    return may_trace and platform.device_kind() in DEVICES and not language.dynamic_rope


def no_rollback(language: Adapted) -> str | None:
    """Why this model's steps must keep all of their tokens; None: they need not."""
    if language.dynamic_rope:
        return "its positions depend on the length of the text"
    if not language.skips_tokens:
        return "its recurrent layers cannot reject tokens"
    return None


def _speculation_agrees(language: Adapted, grouping: Grouping) -> bool:
    try:
        return check.rolls_back(language, grouping, check.plain_step(language))
    except Exception as error:  # noqa: BLE001  any failure means: no speculation
        log.warning("a speculative step failed at start-up: %s", error)
        return False
