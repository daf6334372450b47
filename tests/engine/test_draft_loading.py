"""A draft model from settings to the engine: what is refused, what is priced, and what status says."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from paceline.engine import draft_loading
from paceline.engine.draft_loading import INSTEAD, NO_DRAFT_MODEL, load_draft_model
from paceline.engine.startup_checks import StartupChecks
from paceline.errors import InvalidRequest, LoadError
from paceline.models.files import EMBEDDED
from paceline.models.verdicts import Verdicts
from paceline.requests import GenerateRequest
from paceline.service import Service
from paceline.settings import Settings
from paceline.types import Sampling
from tests.engine.stepper import loaded

DRAFT = EMBEDDED / "paceline-mini-draft"
PROMPT = [5 + place * 7 % 1000 for place in range(60)]


def test_a_model_that_cannot_draft_in_a_batch_is_refused_in_one_line(tiny: Any) -> None:
    folder = tiny("llama", rope_scaling={"rope_type": "dynamic", "factor": 2.0})
    with pytest.raises(LoadError, match="cannot draft: its positions depend on the length of the text") as caught:
        load_draft_model(str(folder), "float32", 10, None)
    assert "\n" not in str(caught.value)


def test_a_model_without_some_of_the_tokens_is_refused(llama: Path) -> None:
    with pytest.raises(LoadError, match="does not know all of the model's tokens"):
        load_draft_model(str(llama), "float32", 1 << 20, None)


def test_a_window_may_draft_though_it_cannot_score(tiny: Any) -> None:
    model = load_draft_model(str(tiny("window", layers=3)), "float32", 10, None)
    assert model.vision is None and isinstance(model.head, str)


def test_its_rows_are_priced(tiny: Any) -> None:
    target, small = loaded(tiny("llama", layers=2)), load_draft_model(str(DRAFT), "float32", 10, None)
    checks = StartupChecks(Verdicts(None, {}))
    draft = draft_loading.build("small", small, target, Settings(kv_layout="similar"), checks)
    assert draft.memory_model.state > 0 and draft.memory_model.row(1000) > draft.memory_model.row(1)
    assert draft.proposer.vocab_size == target.language.vocab_size


async def told(caplog: pytest.LogCaptureFixture, **fields: Any) -> tuple[Any, Any, list[str]]:
    with caplog.at_level(logging.INFO, "paceline"):
        async with Service(Settings(prefill_chunk=64, dtype="float32", **fields)) as service:
            rules = Sampling(temperature=0, max_tokens=24, ignore_eos=True)
            if fields.get("draft_model"):
                rules = Sampling(
                    temperature=0, max_tokens=24, ignore_eos=True, speculation=3, speculation_method="draft_model"
                )
                with pytest.raises(InvalidRequest, match=INSTEAD):
                    await service.generate(GenerateRequest(PROMPT, Sampling(speculation_method="mtp", speculation=1)))
            result = await service.generate(GenerateRequest(PROMPT, rules))
            return result, service.stats(), [record.getMessage() for record in caplog.records]


@pytest.mark.slow
async def test_a_draft_model_drafts_instead_of_the_head_and_status_log_and_usage_say_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    plain, before, _ = await told(caplog, speculation="off")
    assert before.spec_decode.unavailable["draft_model"] == NO_DRAFT_MODEL and before.spec_decode.draft_model is None
    caplog.clear()
    result, stats, lines = await told(caplog, draft_model="paceline-mini-draft")
    assert result.choices[0].token_ids == plain.choices[0].token_ids
    assert result.usage.accepted_tokens > 0
    assert set(stats.spec_decode.methods) == {"draft_model"}
    assert stats.spec_decode.methods["draft_model"].num_accepted_tokens == result.usage.accepted_tokens
    assert stats.spec_decode.draft_model == "paceline-mini-draft"
    assert stats.spec_decode.unavailable == {"mtp": INSTEAD}
    assert f"speculation without mtp: {INSTEAD}" in lines
    weights = [each.memory_budget.parts["weights"] for each in (before, stats)]
    head = before.model.weights_bytes - stats.model.weights_bytes
    assert weights[1] - weights[0] == loaded(DRAFT).nbytes - head
