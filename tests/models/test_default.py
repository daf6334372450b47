"""A service that is given no model: the one that the package carries, and it says what that is."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from paceline.models import default
from paceline.requests import ChatRequest
from paceline.service import Service
from paceline.settings import Settings
from paceline.types import Sampling

HELLO = [{"role": "user", "content": "Hello!"}]


@pytest.mark.thin(2)
@pytest.mark.parametrize(
    ("model", "name", "prefix"),
    [(None, "paceline-mini", "No model was given: "), ("paceline-mini-draft", "paceline-mini-draft", "")],
)
async def test_an_embedded_model_answers_and_the_log_says_what_it_is(
    model: str | None,
    name: str,
    prefix: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / default.NAME).mkdir()  # a folder here is asked for by name, never by giving none
    with caplog.at_level(logging.INFO, "paceline"):
        async with Service(Settings(model=model, prefill_chunk=64)) as service:
            answer = await service.chat(ChatRequest(HELLO, Sampling(temperature=0, max_tokens=40)))
            model_info = service.stats().model
    note = f"{name} is {default.WHAT_IT_IS}."
    assert [line for line in caplog.messages if "demonstration" in line] == [prefix + note]
    assert model_info is not None
    assert service.model_name == model_info.name == name
    assert model_info.notes == (note,)
    assert answer.choices[0].text.strip()


async def test_another_model_is_not_called_a_demonstration(llama: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "paceline"):
        async with Service(Settings(model=str(llama), prefill_chunk=64)) as service:
            model = service.stats().model
            assert model is not None and model.notes == ()
    assert not any("demonstration" in line for line in caplog.messages)
