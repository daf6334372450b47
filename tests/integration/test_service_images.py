"""Other families than Qwen3.5 through the whole service: images in a chat, and what `/v1/status` says."""

from __future__ import annotations

import base64
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from paceline.engine import media_check
from paceline.errors import InvalidRequest
from paceline.requests import ChatRequest
from paceline.service import Service
from paceline.settings import Settings
from paceline.types import Sampling
from tests.conversation.test_compressed_audio import encoded
from tests.models.test_hearing import Sound, user
from tests.models.test_vision import picture, url

Seeing = Callable[[str], Path]
TEXT = "What is this? " * 40  # so long that it is stored
GREEDY = Sampling(temperature=0, max_tokens=5, ignore_eos=True)


def asked(place: int) -> ChatRequest:
    image = {"type": "image_url", "image_url": {"url": url(picture(place))}}
    return ChatRequest([{"role": "user", "content": [image, {"type": "text", "text": TEXT}]}], GREEDY)


@pytest.mark.thin(6)
@pytest.mark.parametrize("family", ["gemma3", "internvl_chat", "qwen3_vl", "llava_next", "granite4_vision", "kimi_vl"])
async def test_a_model_of_another_family_answers_about_images(seeing: Seeing, family: str) -> None:
    async with Service(Settings(model=str(seeing(family)))) as service:
        assert service.takes_images
        first, second = await service.chat(asked(0)), await service.chat(asked(0))
        assert first.choices[0].text == second.choices[0].text
        assert second.usage.cached_tokens > 0
        model = service.stats().model
    assert (
        model is not None
        and model.images
        and not model.videos
        and not [note for note in model.notes if "text model" in note]
    )


@pytest.mark.slow
async def test_a_model_that_hears_answers_about_recordings(seeing: Seeing) -> None:
    question = ChatRequest([user(Sound(0), TEXT)], GREEDY)
    async with Service(Settings(model=str(seeing("gemma4_audio")))) as service:
        first, second = await service.chat(question), await service.chat(question)
        model = service.stats().model
        if shutil.which("ffmpeg") is not None:
            data = base64.b64encode(encoded("mp3", 1.0)).decode()
            part = {"type": "input_audio", "input_audio": {"data": data, "format": "mp3"}}
            heard = await service.chat(ChatRequest([{"role": "user", "content": [part]}], GREEDY))
            assert heard.usage.prompt_tokens > 20  # of the recording: one for 40 ms
    assert first.choices[0].text == second.choices[0].text and second.usage.cached_tokens > 0
    assert model is not None and model.audio and model.images
    async with Service(Settings(model=str(seeing("gemma4")))) as service:
        with pytest.raises(InvalidRequest, match="takes no audio") as caught:
            await service.chat(question)
        model = service.stats().model
    assert caught.value.field == "messages[0].content[0]" and model is not None and not model.audio


async def test_a_tower_that_disagrees_with_mlx_vlm_is_not_served(
    seeing: Seeing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(media_check, "SEEN", 1e9)
    async with Service(Settings(model=str(seeing("qwen3_vl")))) as service:
        assert not service.takes_images
        with pytest.raises(InvalidRequest, match="takes no images"):
            await service.chat(asked(0))
        answer = await service.chat(ChatRequest([{"role": "user", "content": "What is this?"}], GREEDY))
        model = service.stats().model
    assert len(answer.choices[0].token_ids) == 5
    assert model is not None and not model.images
    assert any("another picture changes nothing" in note and "text model" in note for note in model.notes)
