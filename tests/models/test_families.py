"""Every family that sees, in the common batch: tokens and their logprobs are mlx-vlm's own, alone and in one pass.

A row of the table is a small checkpoint in the family's layout, with the family's processor (tests/synthetic/vision).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from paceline.cache.slot_plan import LAYOUTS
from paceline.conversation.media import Loader
from paceline.conversation.prompt import PromptBuilder
from paceline.conversation.tokenizer import Tokenizer
from paceline.errors import InvalidRequest
from paceline.types import Prompt, Sampling
from tests.engine.stepper import BUCKETED, Heard, Stepper, loaded
from tests.models.test_vision import Message, for_reference, user
from tests.reference import load_images
from tests.synthetic.vision_families import FAMILIES

Seeing = Callable[[str], Path]
TOKENS = 6
CLOSE = 2e-4  # between logprobs
TEXT = (user("What is the capital of the country? Answer in one word."),)
ONE = (user(0, "What is this?"),)
TWO = (user("Compare ", 4, " with\n\n", 2, "\nplease."),)
SAME = (user("Compare ", 4, " with\n\n", 3, "\nplease."),)
CONVERSATIONS = {"text": TEXT, "one": ONE, "two": TWO}


@cache
def builder(folder: Path) -> PromptBuilder:
    model = loaded(folder)
    assert model.vision is not None, model.notes
    tokenizer = Tokenizer.load(folder, model.config)
    return PromptBuilder(tokenizer, model.vision, max_images=8, loader=Loader(max_pixels=10**7, max_bytes=10**7))


def prompt(folder: Path, messages: Sequence[Message]) -> Prompt:
    return builder(folder).chat(messages, {})


def inputs(folder: Path, messages: Sequence[Message]) -> Mapping[str, Any]:
    """mlx-vlm's own inputs of a conversation."""
    from mlx_vlm.utils import prepare_inputs

    _, processor = load_images(folder)
    conversation, images = for_reference(messages)
    tokenizer = processor.tokenizer
    text = tokenizer.apply_chat_template(conversation, tokenize=False, add_generation_prompt=True)
    if images and Path(folder).name.startswith("llava-"):  # `prepare_inputs` of 0.7.10 fails with LLaVA's processor
        made: Mapping[str, Any] = processor(images=images, text=[text])
        return made
    found: Mapping[str, Any] = prepare_inputs(processor, images=images or None, prompts=text)
    return found


@cache
def expected(folder: Path, name: str) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """Greedy tokens and their logprobs, from mlx-vlm's generation with the whole prompt in one pass."""
    from mlx_vlm.generate import generate_step

    model, _ = load_images(folder)
    given = dict(inputs(folder, CONVERSATIONS[name]))
    ids, mask = given.pop("input_ids"), given.pop("attention_mask", None)
    pixels = given.pop("pixel_values", None)
    options = {"max_tokens": TOKENS, "temperature": 0.0, "prefill_step_size": None}
    steps = generate_step(ids, model, pixels, mask, **options, **given)
    found = [(int(token), float(logprobs[int(token)].item())) for token, logprobs in steps]
    return tuple(token for token, _ in found), tuple(logprob for _, logprob in found)


def ask(stepper: Stepper, folder: Path, name: str, as_name: str = "") -> Heard:
    sampling = Sampling(temperature=0, max_tokens=TOKENS, ignore_eos=True, logprobs=0)
    return stepper.submit(as_name or name, prompt(folder, CONVERSATIONS[name]), sampling)


def compare(heard: Heard, folder: Path, name: str) -> None:
    tokens, logprobs = expected(folder, name)
    assert heard.tokens == list(tokens), name
    found = [each.logprob for delta in heard.deltas for each in delta.logprobs]
    assert np.allclose(found, logprobs, atol=CLOSE), name


@pytest.mark.thin(5)
@pytest.mark.parametrize("family", FAMILIES)
def test_a_prompt_has_mlx_vlms_tokens(seeing: Seeing, family: str) -> None:
    folder = seeing(family)
    for messages in CONVERSATIONS.values():
        theirs = np.array(inputs(folder, messages)["input_ids"])[0].tolist()
        assert list(prompt(folder, messages).token_ids) == theirs


@pytest.mark.thin(9)
@pytest.mark.parametrize("family", FAMILIES)
def test_sequences_with_images_give_mlx_vlms_tokens(seeing: Seeing, family: str) -> None:
    """Beside each other and a text, in chunks that end inside pictures; then again, from the prefix cache."""
    folder = seeing(family)
    together(folder, "padded+buckets" if FAMILIES[family].padded else "similar+buckets", 7)


@pytest.mark.slow
@pytest.mark.parametrize("chunk", [3, 1000])
@pytest.mark.parametrize("layout", [*LAYOUTS, *BUCKETED])
@pytest.mark.parametrize("family", FAMILIES)
def test_every_layout_and_chunk_gives_mlx_vlms_tokens(seeing: Seeing, family: str, layout: str, chunk: int) -> None:
    if FAMILIES[family].padded and not layout.startswith("padded"):
        pytest.skip("the start-up check chooses the padded layout")
    together(seeing(family), layout, chunk)


def together(folder: Path, layout: str, chunk: int) -> None:
    stepper = Stepper(folder, layout, chunk, cache=1 << 30, features=1 << 24)
    for turn in ("first", "again"):
        heard = {name: ask(stepper, folder, name, f"{name} {turn}") for name in CONVERSATIONS}
        stepper.finish()
        for name, each in heard.items():
            compare(each, folder, name)
    assert heard["two"].cached == len(prompt(folder, TWO).token_ids) - 1
    other = stepper.greedy("another picture", prompt(folder, SAME), 2)
    stepper.finish()
    places = np.flatnonzero(prompt(folder, TWO).media_mask)
    first = prompt(folder, TWO).media[0].tokens
    assert other.cached <= places[first]  # up to the picture that differs


@pytest.mark.thin(8)
@pytest.mark.parametrize("family", FAMILIES)
def test_the_memory_of_a_picture_of_any_ratio_is_foreseen(
    seeing: Seeing, family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    vision = loaded(seeing(family)).vision
    assert vision is not None
    if family == "internvl_chat":  # as its checkpoints: of 12 tiles at most, a square gets 9
        monkeypatch.setattr(vision.processor.image_processor, "dynamic_max_num", 12)
    monkeypatch.setattr(vision, "_most_bytes", None)
    for size in [
        (800, 600),
        (600, 800),
        (1600, 1200),
        (3000, 1200),
        (1000, 2500),
        (900, 600),
        (1920, 1080),
        (1200, 300),
    ]:
        assert vision.preprocess(Image.new("RGB", size)).cost <= vision.input_bytes(size[0] * size[1]), size


@pytest.mark.thin(8)
@pytest.mark.parametrize("family", FAMILIES)
def test_a_picture_of_any_shape_is_read_or_refused(seeing: Seeing, family: str) -> None:
    vision = loaded(seeing(family)).vision
    assert vision is not None
    for size in [(1, 1), (1, 4000), (4000, 1), (20, 20), (200, 3), (3000, 10), (10, 1900)]:
        try:
            medium = vision.preprocess(Image.new("RGB", size))
        except InvalidRequest:
            continue
        assert medium.cost <= vision.input_bytes(size[0] * size[1]), size
        assert vision.encode(medium).shape[0] == medium.tokens > 0, size


def test_a_picture_of_which_nothing_would_be_left_is_refused(seeing: Seeing) -> None:
    """mlx-vlm cuts Kimi-VL's pictures to whole blocks of patches."""
    vision = loaded(seeing("kimi_vl")).vision
    assert vision is not None
    with pytest.raises(InvalidRequest, match="it needs 28 x 28 pixels at least"):
        vision.preprocess(Image.new("RGB", (100, 20)))


@pytest.mark.parametrize("pictures", [(), (0,)])
def test_a_token_of_a_picture_in_text_is_refused_for_what_it_is(seeing: Seeing, pictures: tuple[int, ...]) -> None:
    """Gemma 3's marker is another token than those that a picture becomes."""
    with pytest.raises(InvalidRequest, match="1 tokens more of its images|1 image placeholders for 0 images") as caught:
        prompt(seeing("gemma3"), (user(*pictures, "What is <image_soft_token>?"),))
    assert "Text may not contain the model's own image placeholder" in str(caught.value)


@pytest.mark.parametrize(("family", "probes"), [("gemma3", 4), ("internvl_chat", 13)])
def test_the_first_picture_waits_for_few_probes(
    seeing: Seeing, family: str, probes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    vision = loaded(seeing(family)).vision
    assert vision is not None
    asked, inputs = [], vision.inputs

    def counted(picture: Image.Image) -> Any:
        asked.append(picture.size)
        return inputs(picture)

    monkeypatch.setattr(vision, "inputs", counted)
    monkeypatch.setattr(vision, "_most_bytes", None)
    assert vision.input_bytes(1) == vision.input_bytes(2)
    assert len(asked) == probes
