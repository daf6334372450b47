"""A little of everything before anybody waits for it. On the engine's thread, before its first row.

A GPU's kernels are compiled when they are first needed: on CUDA each takes seconds, and whoever streams meanwhile
waits for them. So rows of no account join, decode, draft and leave once, in every way that rows can, and what
that compiles is there when a request needs it. It holds nothing afterwards.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import Any

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray
from PIL import Image as PictureFile

from paceline.conversation.text import ByteDetokenizer, TextStream
from paceline.engine.forward import PATIENCE
from paceline.engine.row import Row
from paceline.engine.runner import Runner
from paceline.sparse.scorer import Draft
from paceline.types import Prompt, RequestId, Sampling

log = logging.getLogger("paceline")
SHORT, LONG = 48, 600  # tokens: rows that share a buffer, and one that is too long for it
TURNS = PATIENCE + 2  # steps of one shape: plain, and traced
PIXELS = 224  # a picture's side
ENDLESS = 1 << 20

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


class Anything:
    """A grammar that allows every token."""

    def __init__(self, vocabulary: int) -> None:
        self.vocabulary = vocabulary

    def allowed(self, guesses: Sequence[int]) -> NDArray[np.bool_]:
        return np.ones((len(guesses) + 1, self.vocabulary), dtype=np.bool_)

    def accept(self, token: int) -> None:
        """It makes no difference."""


def rehearse(runner: Runner, *, depths: Sequence[int] = (0,), draft: Draft | None = None) -> float:
    """Returns the seconds that it took. `depths`: of the rounds that rows will have. What goes wrong is logged: then
    the first request that needs it will wait, or fail, by itself."""
    begun = time.perf_counter()
    try:
        _Rehearsal(runner, draft).play(depths)
    except Exception as error:  # noqa: BLE001  nobody has asked for anything yet
        log.warning("the rehearsal broke off: %s", error, exc_info=error)
    finally:
        runner.reset()
        mx.clear_cache()
    return time.perf_counter() - begun


class _Rehearsal:
    def __init__(self, runner: Runner, draft: Draft | None) -> None:
        self.runner = runner
        self.draft = draft

    def play(self, depths: Sequence[int]) -> None:
        for depth in depths:
            self.crowd(depth, [self.row(SHORT), self.row(SHORT + 1), self.row(LONG)])
        self.crowd(depths[-1], [self.row(SHORT, EVERYTHING), self.row(SHORT)])
        self.crowd(0, [self.row(SHORT, EVERYTHING), self.row(SHORT, grammar=Anything(self.runner.language.vocab_size))])
        self.scored()
        company = [self.row(SHORT)]
        if self.runner.model.vision is not None:
            company.append(self.pictured())
        if self.draft is not None:
            company.append(self.sparse(self.draft))
        if len(company) > 1:
            self.crowd(0, company)

    def row(self, tokens: int, sampling: Sampling = GREEDY, grammar: Any = None, prompt: Prompt | None = None) -> Row:
        text = TextStream(ByteDetokenizer(lambda token: b""))
        prompt = prompt or Prompt((0,) * tokens, cached=False)
        row = Row(RequestId("rehearsal"), prompt, sampling, ENDLESS, text, lambda delta: None, grammar=grammar)
        row.feeds = self.runner.drafter is not None
        return row

    def read(self, row: Row) -> None:
        """Its prompt, in two chunks."""
        for size in (row.remaining // 2, row.remaining - row.remaining // 2):
            mx.eval(self.runner.prefill(row, size))

    def crowd(self, depth: int, rows: Sequence[Row]) -> None:
        """They join one after another, decode for a while, and leave in the order in which they came."""
        runner = self.runner
        inside: list[Row] = []
        for row in rows:
            if row.remaining:
                self.read(row)
            inside.append(row)
            self.turns(inside, depth)
        while inside:
            inside.pop(0).finished = "abort"
            if inside:
                self.turns(inside, depth)
        runner.reset()

    def turns(self, rows: Sequence[Row], depth: int) -> None:
        runner = self.runner
        for row in rows:
            row.depth = depth if row.feeds else 0
        deep = depth if any(row.depth for row in rows) else 0
        for _ in range(TURNS):
            launched = runner.decode(rows, deep)
            if launched.unread:
                runner.read(launched)
            runner.collect(launched)

    def scored(self) -> None:
        """Prompts whose own scores, or whose states, are asked for."""
        self.read(self.row(SHORT, Sampling(prompt_logprobs=2)))
        self.read(self.row(SHORT, prompt=Prompt((0,) * SHORT, cached=False, pooling="mean")))

    def pictured(self) -> Row:
        vision = self.runner.model.vision
        assert vision is not None
        image = vision.preprocess(PictureFile.new("RGB", (PIXELS, PIXELS)))
        tokens = (0,) * 4 + (vision.image_token,) * vision.tokens(image) + (0,) * 4
        row = self.row(0, prompt=Prompt(tokens, images=(image,), cached=False))
        self.runner.encode(row)
        return row

    def sparse(self, draft: Draft) -> Row:
        row = self.row(LONG)
        row.feeds = False
        scout = draft.scorer(row.prompt.token_ids, (), None)
        while scout.left:
            mx.eval(scout.read(LONG // 2))
        scout.scores()
        places = np.arange(LONG)
        self.runner.choose(row, places[(places % 64 < 32) | (places == LONG - 1)], 0)
        return row
