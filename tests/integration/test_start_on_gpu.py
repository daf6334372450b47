"""A start as on a GPU switches nothing off: padded shapes, traced passes, drafting, pictures and the whole warm-up.

On a CPU all of that is off by default, and whatever fails in a check of a start only costs speed: no other test
would notice.
"""

from __future__ import annotations

import asyncio
import base64
import io
import json
import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from paceline import platform
from paceline.engine.media_check import picture
from paceline.requests import ChatRequest, EmbedRequest, GenerateRequest
from paceline.service import Service
from paceline.settings import Settings
from paceline.types import Sampling
from tests import synthetic
from tests.synthetic import mtp_families, recurrent_families, tokenizer
from tests.synthetic.vision_families import FAMILIES as SEEING

Tiny = Callable[..., Path]
TEXT = "The quick brown fox jumps over the lazy dog. "
WITHOUT_STATES = ("mamba2", "nemotron_h")  # and so without embeddings
QUICK = [("hybrid", "cuda"), ("nemotron_h", "metal")]
WIDE = [*synthetic.FAMILIES, *recurrent_families.NAMES, *mtp_families.FAMILIES, *SEEING]


@pytest.fixture
def checkpoint(
    tiny: Tiny, seeing: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], Path]:
    def folder(family: str) -> Path:
        if family in synthetic.FAMILIES:
            return tiny(family)
        if family in SEEING:
            return seeing(family)
        if family in recurrent_families.NAMES:
            return recurrent_families.build(family, tmp_path / family)
        monkeypatch.setattr(mtp_families, "VOCAB", tokenizer.SIZE)
        monkeypatch.setitem(mtp_families.FAMILIES[family].config, "vocab_size", tokenizer.SIZE)
        path, *_ = mtp_families.build(family, tmp_path / family)
        ends = {"eos_token_id": list(tokenizer.write(path).ends)}
        config = path / "config.json"
        config.write_text(json.dumps(json.loads(config.read_text()) | ends))
        return path

    return folder


@dataclass(frozen=True)
class Started:
    answers: list[list[int]]
    stats: Any
    traced: int  # passes of prompts, and steps
    warnings: list[str]


async def started(folder: Path, caplog: pytest.LogCaptureFixture, **fields: Any) -> Started:
    caplog.clear()
    with caplog.at_level(logging.WARNING, "paceline"):
        async with Service(
            Settings(model=str(folder), dtype="float32", prefill_chunk=64, max_num_seqs=2, max_draft=1, **fields)
        ) as service:
            answers = await _answers(service)
            runtime = service._runtime
            assert runtime is not None
            runner = runtime.engine.core.runner
            traced = min(runner.forward.traced_calls, runner.prompts.traced_calls)
            stats = service.stats()
    ours = [record.getMessage() for record in caplog.records if record.name.startswith("paceline")]
    return Started(answers, stats, traced, ours)


async def _answers(service: Service) -> list[list[int]]:
    """Of requests that run together: prompts of several buckets, pictures, many kinds of sampling."""
    model = service.stats().model
    assert model is not None
    rules = Sampling(temperature=0, max_tokens=12, ignore_eos=True)
    seeded = Sampling(temperature=1, seed=3, max_tokens=8, ignore_eos=True, repetition_penalty=1.2)
    calls = [service.generate(GenerateRequest(TEXT * times, rules)) for times in (1, 3, 9)]
    calls += [
        service.generate(GenerateRequest("a b c d e f " * 8, rules)),
        service.generate(GenerateRequest(TEXT, seeded, n=2)),
        service.generate(GenerateRequest(TEXT, Sampling(temperature=0, max_tokens=3, prompt_logprobs=1, logprobs=2))),
    ]
    if model.images:
        for size in ((64, 64), (150, 100)):
            content = [{"type": "image_url", "image_url": {"url": _url(size)}}, {"type": "text", "text": "?"}]
            calls.append(service.chat(ChatRequest([{"role": "user", "content": content}], rules)))
    if model.embedding_size is not None:
        await service.embed(EmbedRequest(TEXT))
    done = await asyncio.gather(*calls)
    return [list(choice.token_ids) for answer in done for choice in answer.choices]


def _url(size: tuple[int, int]) -> str:
    file = io.BytesIO()
    picture(0, size).save(file, "PNG")
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()


@pytest.mark.parametrize(
    ("family", "kind"),
    [
        pytest.param(family, kind, marks=() if (family, kind) in QUICK else pytest.mark.slow)
        for family in WIDE
        for kind in ("cuda", "metal")
    ],
)
async def test_it_switches_nothing_off_and_answers_as_on_a_cpu(
    checkpoint: Callable[[str], Path],
    family: str,
    kind: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    folder = checkpoint(family)
    plain = await started(folder, caplog)
    monkeypatch.setattr(platform, "device_kind", lambda: kind)
    padded = await started(folder, caplog)
    assert plain.warnings == padded.warnings == []
    model, before = padded.stats.model, plain.stats.model
    assert model.shape_buckets and model.compiled_step and padded.traced
    assert set(model.notes) <= set(before.notes)
    assert padded.stats.spec_decode.enabled
    assert padded.stats.spec_decode.unavailable == plain.stats.spec_decode.unavailable
    taken = [(each.images, each.videos, each.audio, each.mtp_head, each.embedding_size) for each in (before, model)]
    assert taken[0] == taken[1]
    assert (model.embedding_size is None) == (family in WITHOUT_STATES)
    assert padded.answers == plain.answers
