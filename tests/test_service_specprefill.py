"""The settings and fields of sparse prefill through the facade, with the two models of the package."""

from __future__ import annotations

from typing import Any

import pytest

from paceline.engine.request import Sampling, Usage
from paceline.service import GenerateRequest, Service
from paceline.settings import Settings

PROMPT = [5 + place * 7 % 1000 for place in range(1000)]
DRAFT: dict[str, Any] = {"specprefill_draft_model": "paceline-mini-draft", "specprefill_chunk": 250}
AUTO: dict[str, Any] = {**DRAFT, "specprefill": "auto", "specprefill_threshold": 500, "prefix_cache": False}


async def read(settings: dict[str, Any], *asked: dict[str, Any]) -> tuple[list[Usage], dict[str, Any]]:
    """The usages of the prompt's answers, and what the engine says in the end."""
    usages = []
    async with Service(Settings(**settings)) as service:
        for fields in asked or ({},):
            sampling = Sampling(temperature=0, max_tokens=2, **fields)
            usages.append((await service.generate(GenerateRequest(PROMPT, sampling))).usage)
        return usages, service.stats()


async def test_every_setting_of_sparse_prefill_has_an_effect() -> None:
    [usage], stats = await read(AUTO)
    said = stats["specprefill"]
    assert (said["enabled"], said["setting"], said["draft"], said["chunk"]) == (
        True,
        "auto",
        "paceline-mini-draft",
        250,
    )
    assert said["draft_bytes"] > 0
    assert said["outcomes"] == {"sparse": 1, "short": 0, "long": 0, "failed": 0}
    assert usage.prompt_tokens == said["scored_tokens"] == 1000
    assert usage.kept_tokens == said["kept_tokens"] and 300 <= said["kept_tokens"] <= 300 + 32

    [more], _ = await read({**AUTO, "specprefill_keep_pct": 0.5})
    assert more.kept_tokens is not None and 500 <= more.kept_tokens <= 500 + 32

    for setting, outcome in ({"specprefill_threshold": 1001}, "short"), ({"specprefill_max_tokens": 999}, "long"):
        [whole], kind = await read({**AUTO, **setting})
        assert (whole.kept_tokens, kind["specprefill"]["outcomes"][outcome]) == (1000, 1)
        assert kind["specprefill"]["scored_tokens"] == 0

    _, finer = await read({**AUTO, "specprefill_chunk": 50})
    assert finer["specprefill"]["chunk"] == 50
    assert finer["steps"] - stats["steps"] == 1000 // 50 - 1000 // 250


@pytest.mark.parametrize("setting", ["off", "auto"])
async def test_a_requests_word_is_stronger_than_the_servers(setting: str) -> None:
    words: list[dict[str, Any]] = [{}, {"specprefill": True}, {"specprefill": False}]
    words += [{"specprefill": True, "specprefill_keep": 0.8}]
    usages, stats = await read({**AUTO, "specprefill": setting}, *words)
    kept = [usage.kept_tokens for usage in usages]
    expected = None if setting == "off" else kept[1]
    assert kept[0] == expected and kept[2] is None
    assert kept[1] is not None and 300 <= kept[1] <= 300 + 32
    assert kept[3] is not None and 800 <= kept[3] <= 800 + 32
    assert stats["specprefill"]["outcomes"]["sparse"] == 2 + (setting == "auto")


async def test_a_prompt_whose_scores_are_wanted_is_read_whole() -> None:
    [usage], stats = await read(AUTO, {"prompt_logprobs": 0})
    assert usage.kept_tokens is None
    assert stats["specprefill"]["scored_tokens"] == 0
