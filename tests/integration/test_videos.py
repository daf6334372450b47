"""Rows with videos in the common batch: mlx-vlm's prompt and greedy tokens, whoever rides along, cached or not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from paceline.conversation.media import Loader
from paceline.conversation.prompt import PromptBuilder
from paceline.conversation.tokenizer import Tokenizer
from paceline.conversation.video import VideoLimits, decode
from paceline.engine.prefix_store import prompt_cache_key
from paceline.errors import InvalidRequest
from paceline.types import Prompt
from tests import videos
from tests.engine.stepper import Heard, Stepper, loaded
from tests.models.test_vision import OPTIONS, Message, assistant, picture, url, vision_of
from tests.reference import greedy_text, load_images

Tiny = Callable[..., Path]
TOKENS = 12
LIMITS = VideoLimits(frames=8)
FILMS = ((30, 10.0), (47, 12.0), (9, 3.0))  # frames, frames a second


def film(place: int) -> bytes:
    count, rate = FILMS[place]
    return videos.video(count, rate, "mkv", 96 + 32 * place, 64)


def show(*parts: str | int) -> Message:
    """A message of texts and videos (numbers)."""
    content: list[dict[str, Any]] = [
        {"type": "text", "text": part}
        if isinstance(part, str)
        else {"type": "video_url", "video_url": {"url": videos.url(film(part))}, "film": part}
        for part in parts
    ]
    return {"role": "user", "content": content}


ONE = (show("Look: ", 0, "What happens?"),)
TWO = (show(0, " and ", 1, "Compare."),)
TURNS = (show(2, "What is this?"), assistant("A bar."), show("And this? ", 1))


@cache
def builder(folder: Path) -> PromptBuilder:
    model = loaded(folder)
    loader = Loader(max_pixels=10**7, max_bytes=10**7)
    processor = vision_of(folder).video_processor
    tokenizer = Tokenizer.load(folder, model.config)
    return PromptBuilder(
        tokenizer, model.vision, max_images=8, loader=loader, video_processor=processor, video_limits=LIMITS
    )


@cache
def prompt_of(folder: Path, place: int) -> Prompt:
    return builder(folder).chat((ONE, TWO, TURNS)[place], OPTIONS)


@cache
def expected(folder: Path, place: int) -> tuple[list[int], list[int]]:
    """mlx-vlm's prompt and tokens for the same frames. Its language model gets its own positions at every call."""
    model, processor = load_images(folder)
    messages = (ONE, TWO, TURNS)[place]
    films = [part["film"] for message in messages if isinstance(message["content"], list)
             for part in message["content"] if part["type"] == "video_url"]  # fmt: skip
    plain = [
        message
        if isinstance(message["content"], str)
        else {**message, "content": [p if p["type"] == "text" else {"type": "video"} for p in message["content"]]}
        for message in messages
    ]
    text = processor.tokenizer.apply_chat_template(plain, tokenize=False, add_generation_prompt=True, **OPTIONS)
    clips = [decode(film(number), LIMITS, "here") for number in films]
    metadata = [
        {"frames_indices": [round(second * FILMS[number][1]) for second in clip.seconds], "fps": FILMS[number][1]}
        for number, clip in zip(films, clips, strict=True)
    ]
    inputs = processor(text=[text], videos=[clip.frames for clip in clips], video_metadata=metadata)
    ids = inputs["input_ids"]
    features = model.get_input_embeddings(
        ids, None, pixel_values_videos=inputs["pixel_values_videos"], video_grid_thw=inputs["video_grid_thw"]
    )
    language = model.language_model
    layers = language.make_cache()
    options = {"cache": layers, "rope_deltas": features.rope_deltas}
    logits = language(ids, inputs_embeds=features.inputs_embeds, position_ids=features.position_ids, **options).logits
    following = int(features.position_ids.max().item()) + 1
    tokens: list[int] = []
    while True:
        tokens.append(int(mx.argmax(logits[0, -1]).item()))  # type: ignore[arg-type]
        if len(tokens) == TOKENS:
            break
        places = mx.full((3, 1, 1), following + len(tokens) - 1, dtype=mx.int32)
        logits = language(mx.array([tokens[-1:]]), position_ids=places, **options).logits
    return [int(token) for token in np.array(ids).reshape(-1)], tokens


def random_text(length: int) -> tuple[int, ...]:
    return tuple(np.random.default_rng(length).integers(0, 480, length).tolist())


def ask(stepper: Stepper, folder: Path, place: int, name: str = "row") -> Heard:
    return stepper.greedy(name, prompt_of(folder, place), TOKENS)


@pytest.mark.thin(8)
@pytest.mark.parametrize("family", ["hybrid", "hybrid_moe"])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_sequence_with_videos_gives_mlx_vlms_tokens(tiny: Tiny, family: str, place: int) -> None:
    folder = tiny(family)
    stepper = Stepper(folder, "similar", chunk=24)
    heard = ask(stepper, folder, place)
    stepper.finish()
    assert heard.tokens == expected(folder, place)[1]


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["rows", "similar", "padded", "padded+buckets"])
@pytest.mark.parametrize("chunk", [7, 64])
def test_sequences_with_videos_ride_beside_sequences_of_text(hybrid: Path, layout: str, chunk: int) -> None:
    stepper = Stepper(hybrid, layout, chunk=chunk)
    plain = [stepper.greedy(f"text {length}", random_text(length), TOKENS) for length in (1, 40)]
    stepper.step(2)
    shown = [ask(stepper, hybrid, place, f"video {place}") for place in (0, 1, 2)]
    stepper.finish()
    assert [heard.tokens for heard in shown] == [expected(hybrid, place)[1] for place in (0, 1, 2)]
    assert [heard.tokens for heard in plain] == [greedy_text(hybrid, random_text(n), TOKENS) for n in (1, 40)]
    assert len({tuple(heard.tokens) for heard in shown}) == 3


def test_a_video_seen_before_is_restored_and_another_sampling_is_not(hybrid: Path) -> None:
    stepper = Stepper(hybrid, "similar", chunk=32, cache=1 << 30, features=1 << 26)
    first = ask(stepper, hybrid, 0, "first")
    stepper.finish()
    again = ask(stepper, hybrid, 0, "again")
    stepper.finish()
    assert again.tokens == first.tokens == expected(hybrid, 0)[1]
    assert again.cached == len(prompt_of(hybrid, 0).token_ids) - 1
    vision = vision_of(hybrid)
    keys = prompt_cache_key(prompt_of(hybrid, 0))
    part = {"type": "video_url", "video_url": {"url": videos.url(film(0))}, "fps": 4}
    words = [{"type": "text", "text": "Look: "}, part, {"type": "text", "text": "What happens?"}]
    other = builder(hybrid).chat([{"role": "user", "content": words}], OPTIONS)
    others = prompt_cache_key(other)
    shared = next(place for place, (one, two) in enumerate(zip(keys, others, strict=False)) if one != two)
    assert shared <= list(prompt_of(hybrid, 0).token_ids).index(vision.image_token)


@pytest.mark.slow
def test_frames_by_their_addresses_are_the_same_video(hybrid: Path) -> None:
    clip = decode(film(0), LIMITS, "here")
    from PIL import Image

    def written(content: Sequence[Any]) -> Prompt:
        return builder(hybrid).chat([{"role": "user", "content": content}], OPTIONS)

    urls = [url(Image.fromarray(frame)) for frame in clip.frames]
    by_frames = written([{"type": "video", "video": urls, "fps": 2}])
    by_address = written([{"type": "video", "video": videos.url(film(0))}])
    assert [image.digest for image in by_frames.media] == [image.digest for image in by_address.media]


def test_images_and_videos_keep_their_order(hybrid: Path) -> None:
    content = [
        {"type": "image_url", "image_url": {"url": url(picture(1))}},
        {"type": "video", "video": videos.url(film(0))},
        {"type": "image_url", "image_url": {"url": url(picture(3))}},
    ]
    prompt = builder(hybrid).chat([{"role": "user", "content": content}], OPTIONS)
    vision = vision_of(hybrid)
    pairs = vision.video_processor.pairs(decode(film(0), LIMITS, "here").frames)
    expected = [vision.preprocess(picture(1)), *pairs, vision.preprocess(picture(3))]
    assert [image.digest for image in prompt.media] == [image.digest for image in expected]
    stepper = Stepper(hybrid, chunk=32)
    heard = stepper.greedy("row", prompt, 3)
    stepper.finish()
    assert len(heard.tokens) == 3


@pytest.mark.thin(3)
@pytest.mark.parametrize("place", [0, 1, 2])
def test_the_prompt_is_mlx_vlms_but_for_the_name_of_the_placeholder(hybrid: Path, place: int) -> None:
    config = loaded(hybrid).config
    theirs, _ = expected(hybrid, place)
    renamed = [config["image_token_id"] if token == config["video_token_id"] else token for token in theirs]
    assert list(prompt_of(hybrid, place).token_ids) == renamed


def test_a_text_may_not_hold_the_models_own_placeholder(hybrid: Path) -> None:
    text = {"type": "text", "text": vision_of(hybrid).video_processor.video_placeholder}
    with pytest.raises(InvalidRequest, match="2 video placeholders for 1 videos"):
        builder(hybrid).chat([{"role": "user", "content": [text, *show(0)["content"]]}], OPTIONS)


def test_too_many_videos_and_shapes_that_cannot_be_cut_are_refused(hybrid: Path) -> None:
    with pytest.raises(InvalidRequest, match="has 5 videos; at most 4"):
        builder(hybrid).chat([show(0, 0, 0, 0, 0)], OPTIONS)
    thin = {"type": "video", "video": videos.url(videos.video(4, 2.0, "mkv", 1600, 6))}
    with pytest.raises(InvalidRequest, match="cannot be used") as caught:
        builder(hybrid).chat([{"role": "user", "content": [thin]}], OPTIONS)
    assert caught.value.field == "messages[0].content[0].video"
