"""Rows with pictures in the common batch: greedy tokens are mlx-vlm's own, whoever else rides along."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from paceline.cache.slot_plan import LAYOUTS
from paceline.types import Media, Prompt
from tests.engine.stepper import BUCKETED, Heard, Stepper
from tests.memory import held
from tests.models.test_vision import (
    AFTER,
    ONE,
    OPTIONS,
    TURNS,
    TWO,
    Message,
    assistant,
    built,
    for_reference,
    user,
    vision_of,
)
from tests.reference import ImageResult, greedy_images, greedy_text

Tiny = Callable[..., Path]
Conversation = tuple[Message, ...]
TOKENS = 12
TEXT = (user("Tell me about riders."),)
LATER = (
    user(1, "What is this?"),
    assistant("A bird."),
    user("And these? ", 4, 0),
    assistant("Two more."),
    user("Which one sings?"),
)
CONVERSATIONS: dict[str, Conversation] = {
    "one picture": ONE,
    "two pictures": TWO,
    "a picture in each of two turns": TURNS,
    "text after a turn with a picture": AFTER,
    "three pictures in three turns": LATER,
}
_results: dict[tuple[Path, str], ImageResult] = {}


def expected(folder: Path, messages: Sequence[Message]) -> ImageResult:
    key = (folder, repr(messages))
    if key not in _results:
        _results[key] = greedy_images(folder, *for_reference(messages), TOKENS, **OPTIONS)
    return _results[key]


def ask(stepper: Stepper, folder: Path, messages: Sequence[Message], name: str = "row", tokens: int = TOKENS) -> Heard:
    """The prompt is built from data: URLs, as a client sends them."""
    prompt = built(folder, messages)
    assert list(prompt.token_ids) == expected(folder, messages).prompt
    return stepper.greedy(name, prompt, tokens)


def random_text(length: int) -> tuple[int, ...]:
    return tuple(np.random.default_rng(length).integers(0, 480, length).tolist())


@pytest.mark.thin(4)
@pytest.mark.parametrize("family", ["hybrid", "hybrid_moe"])
@pytest.mark.parametrize("name", CONVERSATIONS)
def test_a_sequence_with_images_gives_mlx_vlms_tokens(tiny: Tiny, family: str, name: str) -> None:
    folder = tiny(family)
    stepper = Stepper(folder, "similar", chunk=24)
    heard = ask(stepper, folder, CONVERSATIONS[name])
    stepper.finish()
    assert (heard.tokens, heard.finish_reason) == (expected(folder, CONVERSATIONS[name]).tokens, "length")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "layout"),
    [
        ("hybrid", "rows"),
        ("hybrid", "similar"),
        ("hybrid", "padded"),
        ("hybrid", "padded+buckets"),
        ("hybrid_moe", "similar"),
    ],
)
def test_sequences_with_four_images_ride_beside_sequences_of_text(tiny: Tiny, family: str, layout: str) -> None:
    folder = tiny(family)
    stepper = Stepper(folder, layout, chunk=40)
    pictured = [ask(stepper, folder, (user(place, "What is this?"),), f"picture {place}") for place in range(4)]
    lengths = (1, 12, 60)
    plain = [stepper.greedy(f"text {length}", random_text(length), TOKENS) for length in lengths]
    chat = ask(stepper, folder, TEXT, "chat")
    stepper.finish()
    for place, heard in enumerate(pictured):
        assert heard.tokens == expected(folder, (user(place, "What is this?"),)).tokens
    assert [heard.tokens for heard in plain] == [greedy_text(folder, random_text(n), TOKENS) for n in lengths]
    assert chat.tokens == expected(folder, TEXT).tokens
    answers = {tuple(heard.tokens) for heard in pictured}
    assert len(answers) == 4  # four pictures, four answers


@pytest.mark.thin(5, first=3)
@pytest.mark.parametrize("layout", [*LAYOUTS, *BUCKETED])
def test_a_sequence_with_two_images_rides_beside_a_long_sequence_of_text(hybrid: Path, layout: str) -> None:
    """So far apart in length that "similar" keeps them in groups of their own."""
    stepper = Stepper(hybrid, layout, chunk=256)
    long = stepper.greedy("long", random_text(600), TOKENS)
    pictured = ask(stepper, hybrid, TWO)
    stepper.finish()
    assert long.tokens == greedy_text(hybrid, random_text(600), TOKENS)
    assert pictured.tokens == expected(hybrid, TWO).tokens


@pytest.mark.thin(6, first=3)
@pytest.mark.parametrize("chunk", [1, 5, 9, 16, 33, 100])
def test_a_chunk_may_end_anywhere_in_an_image(hybrid: Path, chunk: int) -> None:
    stepper = Stepper(hybrid, "padded", chunk=chunk)
    stepper.greedy("before", random_text(3), 40)
    stepper.step(2)
    heard = ask(stepper, hybrid, TWO)
    stepper.finish()
    assert heard.tokens == expected(hybrid, TWO).tokens


@pytest.mark.thin(2)
@pytest.mark.parametrize("family", ["hybrid", "hybrid_moe"])
def test_sequences_with_images_join_late_and_leave_early(tiny: Tiny, family: str) -> None:
    folder = tiny(family)
    stepper = Stepper(folder, "similar", chunk=20, max_rows=4)
    asked: dict[str, tuple[Conversation, int]] = {}
    for turn, (name, messages) in enumerate([*CONVERSATIONS.items(), ("text", TEXT)]):
        asked[name] = messages, 1 + 5 * turn % TOKENS
        ask(stepper, folder, messages, name, asked[name][1])
        stepper.step(turn % 4)
    stepper.finish()
    for name, (messages, tokens) in asked.items():
        assert stepper.heard[name].tokens == expected(folder, messages).tokens[:tokens]


def test_a_sequence_that_is_aborted_among_its_images_changes_nobody(hybrid: Path) -> None:
    for steps in range(5):
        stepper = Stepper(hybrid, "similar", chunk=12)
        kept = ask(stepper, hybrid, ONE, "kept")
        leaver = ask(stepper, hybrid, LATER, "leaver")
        stepper.step(steps)
        stepper.abort("leaver")
        stepper.finish()
        assert kept.tokens == expected(hybrid, ONE).tokens
        assert leaver.finish_reason == "abort"


def test_a_running_sequence_gets_a_token_in_every_step_in_which_an_image_is_encoded(
    hybrid: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stepper = Stepper(hybrid, "similar", chunk=50)
    vision = vision_of(hybrid)
    encode = vision.encode
    encoded: list[int] = []
    running = stepper.greedy("running", random_text(4), 40)

    def seen(image: Media) -> mx.array:
        encoded.append(len(running.tokens))
        features: mx.array = encode(image)
        return features

    monkeypatch.setattr(vision, "encode", seen)
    stepper.step(5)
    pictured = ask(stepper, hybrid, LATER)
    stepper.finish()
    first = encoded[0]
    assert encoded == [first, first + 1, first + 2]  # one picture a step, and a token between any two
    assert running.tokens == greedy_text(hybrid, random_text(4), 40)
    assert pictured.tokens == expected(hybrid, LATER).tokens


def test_a_model_with_yarn_takes_images_beside_text(hybrid: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(hybrid, tmp_path / "model"))
    config = json.loads((folder / "config.json").read_text())
    yarn = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 8192}
    config["text_config"]["rope_parameters"] |= yarn
    (folder / "config.json").write_text(json.dumps(config))
    stepper = Stepper(folder, "similar", chunk=24)
    text = stepper.greedy("text", random_text(60), TOKENS)
    pictured = stepper.greedy("picture", built(folder, ONE), TOKENS)
    stepper.finish()
    assert text.tokens == greedy_text(folder, random_text(60), TOKENS)
    assert pictured.finish_reason == "length"


# -- a picture that fails


@pytest.fixture
def broken(hybrid: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Prompt, int], None]:
    """Makes the tower raise at one picture of a prompt, and at no other picture."""
    vision = vision_of(hybrid)
    encode = vision.encode

    def breaks(prompt: Prompt, place: int) -> None:
        bad = prompt.media[place].digest

        def failing(image: Media) -> Any:
            if image.digest == bad:
                raise RuntimeError("the tower fell")
            return encode(image)

        monkeypatch.setattr(vision, "encode", failing)

    return breaks


@pytest.mark.parametrize("place", [0, 1])
def test_an_image_that_fails_ends_its_own_sequence_only(
    hybrid: Path, broken: Callable[[Prompt, int], None], place: int
) -> None:
    prompt = built(hybrid, TWO)
    broken(prompt, place)
    stepper = Stepper(hybrid, "similar", chunk=24)
    text = stepper.greedy("text", random_text(30), TOKENS)
    stepper.step(3)
    failed = stepper.greedy("failed", prompt, TOKENS)
    other = ask(stepper, hybrid, ONE, "other")
    stepper.finish()
    assert (failed.finish_reason, failed.tokens) == ("error", [])
    assert failed.deltas[-1].error == "the tower fell"
    assert text.tokens == greedy_text(hybrid, random_text(30), TOKENS)
    assert other.tokens == expected(hybrid, ONE).tokens
    assert stepper.engine.failure is None


def test_features_that_do_not_fit_end_their_own_sequence_only(hybrid: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    vision = vision_of(hybrid)
    encode = vision.encode
    bad = built(hybrid, TWO).media[0].digest

    def too_narrow(image: Media) -> mx.array:
        features: mx.array = encode(image)
        return features[:, :64] if image.digest == bad else features

    monkeypatch.setattr(vision, "encode", too_narrow)
    stepper = Stepper(hybrid, "similar", chunk=24)
    failed = ask(stepper, hybrid, TWO, "failed")
    other = ask(stepper, hybrid, ONE, "other")
    stepper.finish()
    assert (failed.finish_reason, failed.tokens) == ("error", [])
    assert other.tokens == expected(hybrid, ONE).tokens


def test_features_of_too_few_tokens_end_their_own_sequence_only(hybrid: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    vision = vision_of(hybrid)
    encode = vision.encode
    monkeypatch.setattr(vision, "encode", lambda image: encode(image)[1:])
    stepper = Stepper(hybrid, "similar", chunk=24)
    failed = stepper.greedy("failed", built(hybrid, ONE), TOKENS)
    text = stepper.greedy("text", random_text(30), TOKENS)
    stepper.finish()
    assert failed.finish_reason == "error" and "features" in str(failed.deltas[-1].error)
    assert text.tokens == greedy_text(hybrid, random_text(30), TOKENS)


def test_a_finished_sequence_keeps_no_features(hybrid: Path) -> None:
    stepper = Stepper(hybrid, "similar", chunk=64)

    def memory_after(name: str) -> int:
        ask(stepper, hybrid, ONE, name)
        stepper.finish()
        return held()

    first = memory_after("first")
    assert stepper.engine.scheduler.running == [] and stepper.engine.seqs == {}
    assert [memory_after(str(turn)) - first < 1e4 for turn in range(3)] == [True] * 3
