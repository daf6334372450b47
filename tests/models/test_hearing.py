"""Recordings in the common batch: tokens and logprobs are mlx-vlm's own, alone and in one pass."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from paceline.conversation.media import Loader
from paceline.conversation.prompt import PromptBuilder
from paceline.conversation.tokenizer import Tokenizer
from paceline.models.hearing import AudioProcessor
from paceline.models.loader import load
from paceline.types import Prompt, Sampling
from tests.conversation.test_audio import RATE, opened, wav
from tests.engine.stepper import Stepper, loaded
from tests.models.test_vision import picture, url
from tests.reference import load_images

Seeing = Callable[[str], Path]
Message = Mapping[str, Any]
FAMILY = "gemma4_audio"
TOKENS = 6
SECONDS = (0.4, 0.8, 0.4)  # whole tokens of 40 ms


class Sound(int):
    """A number of a recording, in a message where a plain number is a picture's."""


def recording(place: int) -> bytes:
    samples = np.random.default_rng(place).uniform(-8000, 8000, int(SECONDS[place] * RATE))
    return wav(samples.astype("<i2").tobytes())


def samples_of(place: int) -> NDArray[np.float32]:
    return opened(recording(place)).decode(RATE)


def user(*parts: str | int) -> Message:
    content: list[dict[str, Any]] = []
    for part in parts:
        if isinstance(part, str):
            content.append({"type": "text", "text": part})
        elif isinstance(part, Sound):
            data = base64.b64encode(recording(part)).decode()
            content.append({"type": "input_audio", "input_audio": {"data": data, "format": "wav"}, "sound": part})
        else:
            content.append({"type": "image_url", "image_url": {"url": url(picture(part))}, "picture": part})
    return {"role": "user", "content": content}


TEXT = (user("What is the capital of the country? Answer in one word."),)
ONE = (user(Sound(0), "What was said?"),)
LONG = (user("Please listen: ", Sound(1), "\nWhat was said?"),)
SAME_LENGTH = (user("First ", Sound(0), " then ", Sound(2), "?"),)
BOTH = (user("Here is a picture ", 4, " and ", Sound(1), "\nand a text."),)
CONVERSATIONS = {"text": TEXT, "one": ONE, "long": LONG, "two": SAME_LENGTH, "both": BOTH}


@cache
def builder(folder: Path) -> PromptBuilder:
    model = loaded(folder)
    assert model.vision is not None and model.vision.audio_processor is not None, model.notes
    return PromptBuilder(
        Tokenizer.load(folder, model.config),
        model.vision,
        max_images=8,
        loader=Loader(max_pixels=10**7, max_bytes=10**7),
        audio_processor=model.vision.audio_processor,
    )


def prompt(folder: Path, messages: Sequence[Message]) -> Prompt:
    return builder(folder).chat(messages, {})


@cache
def inputs(folder: Path, name: str) -> Mapping[str, Any]:
    """mlx-vlm's own inputs of a conversation."""
    _, processor = load_images(folder)
    [message] = CONVERSATIONS[name]
    names = {"input_audio": "audio", "image_url": "image"}
    parts = [{**part, "type": names.get(part["type"], part["type"])} for part in message["content"]]
    conversation = [{"role": "user", "content": parts}]
    text = processor.tokenizer.apply_chat_template(conversation, tokenize=False, add_generation_prompt=True)
    media: dict[str, Any] = {}
    if heard := [samples_of(part["sound"]) for part in parts if "sound" in part]:
        media["audio"] = heard
    if seen := [picture(part["picture"]) for part in parts if "picture" in part]:
        media["images"] = seen
    found: Mapping[str, Any] = processor(text=[text], add_special_tokens=False, **media)
    return found


@cache
def expected(folder: Path, name: str) -> tuple[int, ...]:
    """Greedy tokens of mlx-vlm's generation, with the whole prompt in one pass."""
    from mlx_vlm.generate import generate_step

    model, _ = load_images(folder)
    given = dict(inputs(folder, name))
    ids, mask, pixels = given.pop("input_ids"), given.pop("attention_mask", None), given.pop("pixel_values", None)
    options = {"max_tokens": TOKENS, "temperature": 0.0, "prefill_step_size": None}
    return tuple(int(token) for token, _ in generate_step(ids, model, pixels, mask, **options, **given))


def test_a_prompt_has_mlx_vlms_tokens(seeing: Seeing) -> None:
    folder = seeing(FAMILY)
    for name, messages in CONVERSATIONS.items():
        assert list(prompt(folder, messages).token_ids) == np.array(inputs(folder, name)["input_ids"])[0].tolist()


@pytest.mark.thin(4)
@pytest.mark.parametrize("family", [FAMILY, "gemma4_audio_two_sided"])
@pytest.mark.parametrize(("layout", "chunk"), [("padded+buckets", 7), ("padded", 3), ("padded", 1000)])
def test_sequences_with_recordings_give_mlx_vlms_tokens(seeing: Seeing, family: str, layout: str, chunk: int) -> None:
    """Beside each other, a picture and a text, in chunks that end inside recordings; then from the prefix cache."""
    folder = seeing(family)
    stepper = Stepper(folder, layout, chunk, cache=1 << 30, features=1 << 24)
    sampling = Sampling(temperature=0, max_tokens=TOKENS, ignore_eos=True)
    for turn in ("first", "again"):
        heard = {
            name: stepper.submit(f"{name} {turn}", prompt(folder, messages), sampling)
            for name, messages in CONVERSATIONS.items()
        }
        stepper.finish()
        for name, each in heard.items():
            assert tuple(each.tokens) == expected(folder, name), name
    assert heard["long"].cached == len(prompt(folder, LONG).token_ids) - 1
    other = stepper.greedy("another recording", prompt(folder, (user(Sound(2), "What was said?"),)), 2)
    stepper.finish()
    assert other.cached <= int(np.argmax(prompt(folder, ONE).media_mask))


def test_pictures_and_recordings_come_in_the_order_of_the_prompt(seeing: Seeing) -> None:
    kinds = [medium.kind for medium in prompt(seeing(FAMILY), (user(Sound(0), "and", 1, "and", Sound(1)),)).media]
    assert kinds == ["audio", "image", "audio"]


def audio_of(folder: Path) -> AudioProcessor:
    vision = loaded(folder).vision
    assert vision is not None and vision.audio_processor is not None
    return vision.audio_processor


@pytest.mark.parametrize("samples", [1, 639, 640, 641, 16_001, 480_000])
def test_every_token_has_features_and_memory_is_foreseen(seeing: Seeing, samples: int) -> None:
    folder = seeing(FAMILY)
    audio, vision = audio_of(folder), loaded(folder).vision
    assert vision is not None
    made = audio.preprocess(np.full(samples, 0.1, np.float32))
    assert made.tokens == -(-samples // 640) == made.token_ids.count(audio.token)
    assert made.kind == "audio" and made.cost <= audio.input_bytes(samples / RATE)
    [frames] = {value.shape[1] for value in made.inputs.values()}
    assert -(-frames // 4) == made.tokens  # else mlx-vlm would repeat features


def test_a_checkpoint_without_its_audio_tower_sees_and_does_not_hear(seeing: Seeing, tmp_path: Path) -> None:
    import shutil

    import mlx.core as mx

    folder = tmp_path / "silent"
    shutil.copytree(seeing(FAMILY), folder)
    weights = mx.load(str(folder / "model.safetensors"))
    assert isinstance(weights, dict)
    kept = {name: array for name, array in weights.items() if "audio" not in name}
    mx.save_safetensors(str(folder / "model.safetensors"), kept, metadata={"format": "pt"})
    model = load(str(folder), "float32")
    assert model.vision is not None and model.vision.audio_processor is None
