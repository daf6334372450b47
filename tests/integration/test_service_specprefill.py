"""The settings and fields of sparse prefill through the facade, with the two models of the package."""

from __future__ import annotations

from typing import Any

import pytest

from paceline.requests import GenerateRequest
from paceline.service import Service
from paceline.settings import Settings
from paceline.sparse.rules import SPAN
from paceline.stats import Stats
from paceline.types import Sampling, Usage
from tests.lengths import turns

LENGTH = turns(2000, 2000, 800)
PROMPT = [5 + place * 7 % 1000 for place in range(LENGTH)]
AUTO: dict[str, Any] = {
    "specprefill": "auto",
    "specprefill_draft_model": "paceline-mini-draft",
    "specprefill_threshold": 500,
    "specprefill_chunk": 500,
    "prefix_cache": False,
}


async def read(settings: dict[str, Any], *asked: dict[str, Any]) -> tuple[list[Usage], Stats]:
    """The usages of the prompt's answers, and what the engine says in the end."""
    usages = []
    async with Service(Settings(**settings)) as service:
        for fields in asked or ({},):
            sampling = Sampling(temperature=0, max_tokens=2, **fields)
            usages.append((await service.generate(GenerateRequest(PROMPT, sampling))).usage)
        return usages, service.stats()


def is_about(kept: int | None, share: float) -> bool:
    """That share, or what a chunk and its neighbours bring beyond it."""
    return kept is not None and 0 <= kept - share * LENGTH < SPAN


@pytest.mark.slow
async def test_every_setting_of_sparse_prefill_has_an_effect() -> None:
    [usage], stats = await read(AUTO)
    said = stats.specprefill
    assert (said.enabled, said.setting, said.chunk) == (True, "auto", 500)
    assert said.draft == "paceline-mini-draft" and said.draft_bytes > 0
    assert said.outcomes == {"sparse": 1, "whole": 0, "short": 0, "long": 0, "failed": 0}
    assert usage.prompt_tokens == said.scored_tokens == LENGTH
    assert usage.kept_tokens == said.kept_tokens and is_about(usage.kept_tokens, 0.3)

    [more], finer = await read(
        {**AUTO, "specprefill_keep_pct": 0.5, "specprefill_chunk": 100, "specprefill_window": 64}
    )
    assert is_about(more.kept_tokens, 0.5)
    assert (said.window, finer.specprefill.window) == (512, 64)
    _, published = await read({**AUTO, "specprefill_window": 0})
    assert published.specprefill.window is None
    assert finer.specprefill.chunk == 100 and finer.steps > stats.steps

    limits: list[tuple[str, int, str]] = [
        ("specprefill_threshold", LENGTH + 9, "short"),
        ("specprefill_max_tokens", LENGTH - 9, "long"),
    ]
    for setting, tokens, outcome in limits:
        [whole], stats = await read({**AUTO, setting: tokens})
        assert (whole.kept_tokens, stats.specprefill.outcomes[outcome]) == (LENGTH, 1)
        assert stats.specprefill.scored_tokens == 0


@pytest.mark.slow
@pytest.mark.parametrize("setting", ["off", "auto"])
async def test_a_requests_word_is_stronger_than_the_servers(setting: str) -> None:
    words: list[dict[str, Any]] = [{}, {"specprefill": True}, {"specprefill": False}, {"prompt_logprobs": 0}]
    words += [{"specprefill": True, "specprefill_keep": 0.8}]
    usages, stats = await read({**AUTO, "specprefill": setting}, *words)
    silent, asked, refused, scored, much = (usage.kept_tokens for usage in usages)
    assert silent == (asked if setting == "auto" else None)
    assert is_about(asked, 0.3) and is_about(much, 0.8)
    assert refused is None and scored is None  # a prompt's own scores need all of it
    assert stats.specprefill.outcomes["sparse"] == 2 + (setting == "auto")
