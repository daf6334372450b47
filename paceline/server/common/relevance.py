"""How relevant texts are to others: by a reranker's own judgement, or by the cosine of embeddings.

Qwen3-Reranker is a causal model that was trained to answer "yes" or "no". The score is the probability of "yes" among
the two. It looks like any other Qwen3 checkpoint, so its name decides.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from paceline.requests import GenerateRequest
from paceline.server.common.deltas import collect, follow
from paceline.server.common.embed import Asker, embed
from paceline.server.state import AppState
from paceline.types import Delta, Sampling

INSTRUCTION = "Given a web search query, retrieve relevant passages that answer the query"  # what it was trained with
# The prompt that Qwen3-Reranker was trained with.
BEFORE = (
    "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the Instruct "
    'provided. Note that the answer can only be "yes" or "no".<|im_end|>\n<|im_start|>user\n'
)
AFTER = "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
IMPOSSIBLE = -1e4  # a logarithm


def answers(state: AppState) -> tuple[int, int] | None:
    """The tokens for "yes" and "no" of a model that is a reranker; None: it is none."""
    names = (state.settings.model or "", *state.model_names)
    if not any("reranker" in name.lower() for name in names):
        return None
    yes, no = (state.backend.tokenizer.encode(word, False) for word in ("yes", "no"))
    return (yes[0], no[0]) if len(yes) == len(no) == 1 else None


async def relevance(
    state: AppState,
    asker: Asker,
    pairs: Sequence[tuple[str, str]],
    fields: tuple[str, str],
    instruction: str | None = None,
) -> tuple[list[float], dict[str, Any]]:
    """A score for each pair of a query and a document, and the usage. `fields`: what complaints name."""
    tokens = answers(state)
    if tokens is None:
        return await _by_embeddings(state, asker, pairs, fields)
    sampling = Sampling(temperature=0.0, max_tokens=1, logprobs=1, logprob_token_ids=tokens, speculation="off")
    prompts = await asyncio.to_thread(_prompts, state, pairs, instruction or INSTRUCTION)
    requests = [GenerateRequest(ids, sampling, **asker.fields(place)) for place, ids in enumerate(prompts)]
    streams = [follow(state, state.backend.stream_generate(asked), 1, asked.request_id) for asked in requests]
    scores, usage = await collect(state, streams, lambda delta: yes_share(delta, tokens))
    return [scores.get(place, 0.0) for place in range(len(pairs))], usage


def yes_share(delta: Delta, tokens: tuple[int, int]) -> float | None:
    """The probability of yes, if the answer is yes or no; None: the delta has none."""
    if not delta.logprobs:
        return None
    found = dict(delta.logprobs[0].top)
    yes, no = (max(found.get(token, IMPOSSIBLE), IMPOSSIBLE) for token in tokens)
    return 1 / (1 + math.exp(min(no - yes, 700.0)))


async def _by_embeddings(
    state: AppState, asker: Asker, pairs: Sequence[tuple[str, str]], fields: tuple[str, str]
) -> tuple[list[float], dict[str, Any]]:
    """Each text is embedded once, however many pairs it is in."""
    places: dict[tuple[str, str], int] = {}
    for pair in pairs:
        for field, text in zip(fields, pair, strict=True):
            places.setdefault((field, text), len(places))
    vectors, usage = await embed(state, asker, list(places))
    ones = np.stack([vectors[places[fields[0], query]] for query, _ in pairs])
    others = np.stack([vectors[places[fields[1], document]] for _, document in pairs])
    return [float(score) for score in np.einsum("ij,ij->i", ones, others)], usage


def _prompts(state: AppState, pairs: Sequence[tuple[str, str]], instruction: str) -> list[list[int]]:
    encode = state.backend.tokenizer.encode
    texts = (f"<Instruct>: {instruction}\n<Query>: {query}\n<Document>: {document}" for query, document in pairs)
    return [encode(f"{BEFORE}{text}{AFTER}", False) for text in texts]
