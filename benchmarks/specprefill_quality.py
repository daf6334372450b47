"""`python -m benchmarks specprefill --quality`: are answers still right when only a share of the prompt is read?

The same prompts are read whole, and sparsely at every share: chosen by the draft, at random, and by recency. Nothing
but the scores differs between the three: the engine, its batch and the tokens that are always kept are the same.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from benchmarks.needles import KINDS, Kind, Needle, draw
from benchmarks.specprefill import SparseBench, SparseBenchError, Watch, silent, wait
from paceline.bench.offline import Trace
from paceline.conversation.media import Loader
from paceline.conversation.prompt import PromptBuilder
from paceline.conversation.text import TextStream
from paceline.conversation.tokenizer import Tokenizer
from paceline.engine import sequence
from paceline.sparse.scorer import Draft, PromptScorer
from paceline.types import Prompt, RequestId, Sampling

Choice = Literal["draft", "random", "recency"]
CHOICES: tuple[Choice, ...] = ("draft", "random", "recency")
ANSWER = 48  # tokens of an answer, at most
ROWS = 8  # prompts that run together
WHOLE = 1.0

Scores = NDArray[np.float32]


# -- drafts that look at nothing


class Known(PromptScorer):
    """Its scores come from elsewhere: it reads nothing."""

    def __init__(self, draft: Draft, tokens: Sequence[int], given: Scores) -> None:
        super().__init__(draft, tokens, (), None)
        self.given = given

    def read(self, count: int) -> list[mx.array]:
        self.done = min(self.done + count, len(self.tokens))
        return []

    def scores(self) -> Scores:
        return self.given


class Blind(Draft):
    """Scores by a rule that does not know what tokens mean."""

    def __init__(self, draft: Draft, rule: Callable[[Sequence[int]], Scores]) -> None:
        super().__init__(draft.language)
        self.rule = rule

    def scorer(self, tokens: Sequence[int], boundaries: Sequence[int] = (), salt: str | None = "") -> PromptScorer:
        return Known(self, tokens, self.rule(tokens))


class Noted(PromptScorer):
    """Leaves its scores with its draft."""

    def scores(self) -> Scores:
        found = super().scores()
        if isinstance(self.draft, Remembering):
            self.draft.known[key(self.tokens)] = found
        return found


class Remembering(Draft):
    """The true draft. What it has scored for one share, it need not score again for the next."""

    def __init__(self, draft: Draft) -> None:
        super().__init__(draft.language)
        self.known: dict[bytes, Scores] = {}

    def scorer(self, tokens: Sequence[int], boundaries: Sequence[int] = (), salt: str | None = "") -> PromptScorer:
        given = self.known.get(key(tokens))
        return Noted(self, tokens, boundaries, None) if given is None else Known(self, tokens, given)


def key(tokens: Sequence[int] | NDArray[np.int64]) -> bytes:
    return np.asarray(tokens, dtype=np.int64).tobytes()


def by_recency(tokens: Sequence[int]) -> Scores:
    return np.arange(len(tokens), dtype=np.float32)


def at_random(tokens: Sequence[int], seed: int = 0) -> Scores:
    """The same prompt gets the same scores, in whatever order prompts come."""
    chance = np.random.default_rng([seed, zlib.crc32(key(tokens))])
    return chance.random(len(tokens), dtype=np.float32)


# -- prompts and answers


@dataclass(frozen=True, slots=True)
class Question:
    needle: Needle
    prompt: Prompt


def questions(tokenizer: Tokenizer, kind: Kind, length: int, count: int, seed: int = 0) -> list[Question]:
    """As a client would ask them: through the model's template."""
    builder = PromptBuilder(tokenizer, None, max_images=0, loader=Loader(max_pixels=0, max_bytes=0))
    needles = draw(kind, length, lambda text: len(tokenizer.encode(text, add_special_tokens=False)), count, seed)
    return [Question(needle, builder.chat([{"role": "user", "content": needle.text}], {})) for needle in needles]


def answers(bench: SparseBench, prompts: Sequence[Prompt], keep: float) -> list[str]:
    """Greedy, all in one batch as far as they fit."""
    tokenizer = bench.tokenizer
    if tokenizer is None:
        raise SparseBenchError("Shapes of random weights answer nothing: --quality needs a model with a tokenizer.")
    sampling = Sampling(temperature=0, max_tokens=ANSWER, speculation="off", specprefill=True, specprefill_keep=keep)
    heard = Trace()
    seqs = [
        sequence.Sequence(
            sequence.EngineRequest(RequestId(f"question-{place}"), prompt, sampling, ANSWER, eos_ids=tokenizer.eos_ids),
            TextStream(tokenizer.detokenizer()),
            heard.sink(place),
        )
        for place, prompt in enumerate(prompts)
    ]
    for seq in seqs:
        bench.engine.submit(seq)
    wait(heard)
    return list(heard.texts.values())


# -- what is right


@dataclass(frozen=True, slots=True)
class Cell:
    kind: Kind
    length: int
    choice: Choice | None  # None: read whole
    keep: float
    right: tuple[bool, ...]  # by prompt

    @property
    def accuracy(self) -> float:
        return sum(self.right) / len(self.right)

    def figures(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "prompt_tokens": self.length,
            "choice": self.choice or "full",
            "keep": self.keep,
            "accuracy": self.accuracy,
            "right": [int(one) for one in self.right],
        }


def judge(
    bench: SparseBench,
    lengths: Sequence[int],
    keeps: Sequence[float],
    prompts: int,
    seed: int = 0,
    watch: Watch = silent,
    kinds: Iterable[Kind] = KINDS,
) -> list[Cell]:
    """Every kind and length: whole, then every share by the draft, at random and by recency."""
    if bench.tokenizer is None:
        raise SparseBenchError("Shapes of random weights answer nothing: --quality needs a model with a tokenizer.")
    bench.scheduler.max_num_seqs = ROWS
    true = bench.sparse.draft
    drafts: dict[Choice, Draft] = {
        "draft": Remembering(true),
        "random": Blind(true, lambda tokens: at_random(tokens, seed)),
        "recency": Blind(true, by_recency),
    }
    cells: list[Cell] = []
    for kind in kinds:
        for length in lengths:
            asked = questions(bench.tokenizer, kind, length, prompts, seed)
            watch(f"{kind}, {length} tokens, whole")
            cells.append(_cell(bench, kind, length, asked, None, WHOLE))
            for keep in (keep for keep in keeps if keep < WHOLE):
                for choice, draft in drafts.items():
                    watch(f"{kind}, {length} tokens, keep {keep:g}, {choice}")
                    bench.sparse.draft = draft  # the engine is idle
                    cells.append(_cell(bench, kind, length, asked, choice, keep))
            drafts["draft"] = Remembering(true)
    bench.sparse.draft = true
    return cells


def _cell(
    bench: SparseBench, kind: Kind, length: int, asked: Sequence[Question], choice: Choice | None, keep: float
) -> Cell:
    outcomes = bench.sparse.counts.outcomes
    before = outcomes["sparse"]
    said = answers(bench, [question.prompt for question in asked], keep)
    sparse = outcomes["sparse"] - before
    if choice is not None and sparse != len(asked):
        raise SparseBenchError(f"Of {len(asked)} prompts of {length} tokens, {sparse} were prefilled sparsely.")
    right = tuple(question.needle.fact.is_in(text) for question, text in zip(asked, said, strict=True))
    return Cell(kind, length, choice, keep, right)


def still_right(cells: Sequence[Cell], choice: Choice, keep: float) -> tuple[int, int]:
    """Of the prompts that are answered rightly when read whole: how many still are, and how many these were."""
    whole = {(cell.kind, cell.length): cell.right for cell in cells if cell.choice is None}
    pairs = [
        (before, now)
        for cell in cells
        if cell.choice == choice and cell.keep == keep
        for before, now in zip(whole[cell.kind, cell.length], cell.right, strict=True)
    ]
    return sum(now for before, now in pairs if before), sum(before for before, _ in pairs)
