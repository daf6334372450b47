"""Pictures through mlx-vlm's tower and processor, over mlx-lm's language model: the numbers are mlx-vlm's."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from PIL import Image

from paceline.cache.slot_plan import LAYOUTS
from paceline.conversation.media import Loader
from paceline.conversation.prompt import PromptBuilder
from paceline.conversation.text import ByteDetokenizer, TextStream
from paceline.conversation.tokenizer import Tokenizer
from paceline.engine import sequence
from paceline.engine.runner import Runner
from paceline.errors import InvalidRequest
from paceline.types import Prompt, RequestId, Sampling
from tests.engine.stepper import Stepper, loaded
from tests.reference import load_images

Tiny = Callable[..., Path]
Message = Mapping[str, Any]
OPTIONS: dict[str, Any] = {"enable_thinking": False}
SIZES = ((96, 64), (64, 128), (40, 40), (33, 170), (150, 125))  # width, height


def picture(place: int) -> Image.Image:
    """One of a few pictures of different shapes; each is blobs of its own colours."""
    width, height = SIZES[place % len(SIZES)]
    blobs = np.random.default_rng(place).integers(0, 256, (5, 5, 3), dtype=np.uint8)
    return Image.fromarray(blobs).resize((width, height), Image.Resampling.BICUBIC)


def url(image: Image.Image) -> str:
    file = io.BytesIO()
    image.save(file, "PNG")
    return f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"


def user(*parts: str | int) -> Message:
    """A message of texts and pictures (numbers), as OpenAI's clients write it."""
    if all(isinstance(part, str) for part in parts):
        return {"role": "user", "content": "".join(str(part) for part in parts)}
    content: list[dict[str, Any]] = []
    for part in parts:
        if isinstance(part, str):
            content.append({"type": "text", "text": part})
        else:
            content.append({"type": "image_url", "image_url": {"url": url(picture(part))}, "picture": part})
    return {"role": "user", "content": content}


def assistant(text: str) -> Message:
    return {"role": "assistant", "content": text}


def for_reference(messages: Sequence[Message]) -> tuple[list[dict[str, Any]], list[Image.Image]]:
    """The same conversation as mlx-vlm takes it, and its pictures in order."""
    conversation: list[dict[str, Any]] = []
    images: list[Image.Image] = []
    for message in messages:
        content = message["content"]
        if isinstance(content, str):
            conversation.append(dict(message))
            continue
        images += [picture(part["picture"]) for part in content if part["type"] == "image_url"]
        parts = [part if part["type"] == "text" else {"type": "image"} for part in content]
        conversation.append({**message, "content": parts})
    return conversation, images


def built(folder: Path, messages: Sequence[Message], tools: Sequence[Message] | None = None) -> Prompt:
    return _builder(folder).chat(messages, OPTIONS, tools)


@cache
def _builder(folder: Path) -> PromptBuilder:
    model = loaded(folder)
    tokenizer = Tokenizer.load(folder, model.config)
    return PromptBuilder(tokenizer, model.vision, max_images=8, loader=Loader(max_pixels=10**7, max_bytes=10**7))


def vision_of(folder: Path) -> Any:
    vision = loaded(folder).vision
    assert vision is not None
    return vision


def reference_inputs(folder: Path, messages: Sequence[Message]) -> Any:
    from mlx_vlm.utils import prepare_inputs

    model, processor = load_images(folder)
    conversation, images = for_reference(messages)
    text = processor.tokenizer.apply_chat_template(conversation, tokenize=False, add_generation_prompt=True, **OPTIONS)
    index = model.config.image_token_index
    return prepare_inputs(processor, images=images or None, prompts=text, image_token_index=index)


def reference_logits(folder: Path, messages: Sequence[Message], forced: Sequence[int]) -> list[mx.array]:
    """mlx-vlm's logits after the prompt, and after each of `forced`. Positions are passed on every call."""
    model, _ = load_images(folder)
    inputs = reference_inputs(folder, messages)
    ids = inputs["input_ids"]
    features = model.get_input_embeddings(
        ids, inputs.get("pixel_values"), image_grid_thw=inputs.get("image_grid_thw"), mask=inputs["attention_mask"]
    )
    language = model.language_model
    layers = language.make_cache()
    options = {"cache": layers, "rope_deltas": features.rope_deltas}
    positions = features.position_ids
    logits = [language(ids, inputs_embeds=features.inputs_embeds, position_ids=positions, **options).logits[0, -1]]
    following = int(positions.max().item()) + 1
    for count, token in enumerate(forced):
        position_ids = mx.full((3, 1, 1), following + count, dtype=mx.int32)
        logits.append(language(mx.array([[token]]), position_ids=position_ids, **options).logits[0, -1])
    mx.eval(logits)
    return logits


def our_logits(
    folder: Path, messages: Sequence[Message], forced: Sequence[int], layout: str, chunk: int
) -> list[mx.array]:
    """The same from the engine's runner: the sequence in a batch beside a sequence of text."""
    runner = Runner(loaded(folder), LAYOUTS[layout])
    seqs = [_row(built(folder, messages)), _row(Prompt(tuple(range(20))))]
    for seq in seqs:
        while seq.media_left:
            runner.encode(seq)
        while seq.remaining:
            runner.prefill(seq, min(chunk, seq.remaining))
    runner._arrange(seqs)
    assert runner.batch is not None
    place = runner.rows.index(seqs[0])
    logits = []
    for token in [None, *forced]:
        if token is not None:
            runner.tokens = mx.array([token if seq is seqs[0] else 5 for seq in runner.rows])
        (step, *_), close = runner.forward(runner.batch, 1, [runner.tokens[:, None]])
        close()
        runner.batch.advance([1, 1])
        logits.append(step[place, -1])
    mx.eval(logits)
    return logits


def _row(prompt: Prompt) -> sequence.Sequence:
    text = TextStream(ByteDetokenizer(lambda token: b""), ())
    return sequence.Sequence(sequence.EngineRequest(RequestId("row"), prompt, Sampling(), 99), text, lambda delta: None)


ONE = (user(0, "What is this?"),)
TWO = (user("Compare ", 1, " with ", 2, ", please."),)
TURNS = (user(3, "What is this?"), assistant("A bird."), user("And this? ", 4, "The same?"))
AFTER = (user(2, "What is this?"), assistant("A bird."), user("What does it eat?"))


@pytest.mark.parametrize(
    "messages", [ONE, TWO, TURNS, AFTER, (user("No picture."),)], ids=["one", "two", "turns", "after", "none"]
)
def test_a_prompt_has_the_reference_s_tokens(hybrid: Path, messages: Sequence[Message]) -> None:
    expected = reference_inputs(hybrid, messages)["input_ids"][0].tolist()
    assert list(built(hybrid, messages).token_ids) == expected


@pytest.mark.parametrize("place", range(len(SIZES)))
def test_an_image_is_cut_into_the_reference_s_patches_and_features(hybrid: Path, place: int) -> None:
    vision, (theirs, _) = vision_of(hybrid), load_images(hybrid)
    inputs = reference_inputs(hybrid, (user(place, "?"),))
    image = vision.preprocess(picture(place))
    assert np.array_equal(image.inputs["pixel_values"], np.array(inputs["pixel_values"]))
    assert image.inputs["image_grid_thw"].tolist() == inputs["image_grid_thw"].tolist()
    features = vision.encode(image)
    assert features.shape == (image.tokens, 128)
    expected, _ = theirs.vision_tower(inputs["pixel_values"], inputs["image_grid_thw"])
    assert float(np.abs(np.array(features) - np.array(expected)).max()) < 1e-5


@pytest.mark.slow
@pytest.mark.parametrize("family", ["hybrid", "hybrid_moe"])
@pytest.mark.parametrize("messages", [ONE, TWO, TURNS, AFTER], ids=["one", "two", "turns", "after"])
def test_logits_after_images_are_the_reference_s(tiny: Tiny, family: str, messages: Sequence[Message]) -> None:
    folder, forced = tiny(family), (7, 300, 41)
    expected = reference_logits(folder, messages, forced)
    for layout, chunk in (("rows", 1000), ("similar", 13), ("padded", 31)):
        ours = our_logits(folder, messages, forced, layout, chunk)
        for step, (mine, theirs) in enumerate(zip(ours, expected, strict=True)):
            difference = np.abs(np.array(mine) - np.array(theirs)).max() / np.abs(np.array(theirs)).max()
            # On plain text, mlx-lm's logits and mlx-vlm's are as far apart: a few millionths of the largest.
            assert difference < 2e-5, f"{layout}, step {step}"


def test_the_positions_after_images_matter_to_the_logits(hybrid: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that the test above would see wrong ones."""
    right = our_logits(hybrid, ONE, (7,), "padded", 1000)
    vision = vision_of(hybrid)
    plain = vision.positions

    def shifted(token_ids: tuple[int, ...], images: Any) -> Any:
        position_ids, delta = plain(token_ids, images)
        return position_ids, delta + 1

    monkeypatch.setattr(vision, "positions", shifted)
    wrong = our_logits(hybrid, ONE, (7,), "padded", 1000)
    assert float(np.abs(np.array(right[-1]) - np.array(wrong[-1])).max()) > 1e-2


def test_the_same_pixels_have_the_same_digest_and_others_another(hybrid: Path) -> None:
    vision = vision_of(hybrid)
    first, again, other = (vision.preprocess(picture(place)) for place in (0, 0, 5))
    assert (first.inputs["image_grid_thw"] == other.inputs["image_grid_thw"]).all()
    assert first.digest == again.digest != other.digest


def test_an_image_that_the_processor_refuses_is_an_invalid_request(hybrid: Path) -> None:
    with pytest.raises(InvalidRequest, match="The picture cannot be used: .*aspect ratio"):
        vision_of(hybrid).preprocess(Image.new("RGB", (4000, 4)))


def test_preprocessing_makes_no_arrays_of_mlx(hybrid: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It runs on the callers' threads, and MLX belongs to one."""

    def touched(*arguments: Any, **options: Any) -> Any:
        raise AssertionError("MLX was used")

    vision = vision_of(hybrid)
    monkeypatch.setattr(mx, "array", touched)
    monkeypatch.setattr(mx, "eval", touched)
    image = vision.preprocess(picture(1))
    assert type(image.inputs["pixel_values"]) is np.ndarray
    assert vision.positions((5,) * 3, ())[1] == 0


def test_an_image_for_a_model_without_a_tower_is_that_row_s_error(llama: Path, hybrid: Path) -> None:
    stepper = Stepper(llama)
    image = vision_of(hybrid).preprocess(picture(0))
    heard = stepper.greedy("picture", Prompt((5, 6, 7), (image,)), 4)
    other = stepper.greedy("text", (5, 6, 7), 4)
    stepper.finish()
    assert (heard.finish_reason, other.finish_reason) == ("error", "length")
    assert heard.deltas[-1].error == "an image reached a model without a vision tower"
