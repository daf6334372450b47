"""Pictures and the prefix cache: tokens are mlx-vlm's own, and what was seen before is not looked at again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import mlx.core as mx
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from paceline.engine.prefix_store import prompt_cache_key
from paceline.types import Media, Speculation
from tests.engine.conversations import check_rest, quiet
from tests.engine.stepper import Heard, Stepper
from tests.engine.watched import LISTENING, SMALL, usage
from tests.integration.test_images import TOKENS, expected
from tests.integration.test_prefix_exactness import watch_places
from tests.models.test_vision import Message, assistant, built, user, vision_of

Tiny = Callable[..., Path]
Conversation = tuple[Message, ...]
PLENTY = 1 << 30
TINY = 300_000
MODES: list[tuple[str, Speculation]] = [("hybrid", "off"), ("hybrid", 3), ("hybrid_moe", "off"), ("hybrid_moe", 2)]

ASKED = (user(0, "What is this?"),)
OTHER = (user(2, "What is this?"),)
TURN = (*ASKED, assistant("A bird."), user("Does it sing?"))
SHOWN = (*ASKED, assistant("A bird."), user("And this? ", 3))
CHANGED = (*ASKED, assistant("A bird."), user("And this? ", 4))
PAIR = (user("Compare ", 0, " and ", 1, " for me."),)
PAIR_CHANGED = (user("Compare ", 0, " and ", 2, " for me."),)
LATE = (user("Tell me about riders."), assistant("They ride."), user(0, "Is this one?"))
TEXT = (user("Tell me about riders."),)
ALL: list[Conversation] = [ASKED, OTHER, TURN, SHOWN, CHANGED, PAIR, PAIR_CHANGED, LATE, TEXT]


@pytest.fixture
def encoded(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], list[str]]:
    """Digests of the pictures that a model's tower has looked at since."""

    def watch(folder: Path) -> list[str]:
        vision = vision_of(folder)
        encode, seen = vision.encode, list[str]()

        def counted(image: Media) -> mx.array:
            seen.append(image.digest)
            features: mx.array = encode(image)
            return features

        monkeypatch.setattr(vision, "encode", counted)
        return seen

    return watch


def ask(stepper: Stepper, folder: Path, messages: Sequence[Message], name: str) -> Heard:
    heard = stepper.greedy(name, built(folder, messages), TOKENS)
    with quiet():
        stepper.finish()
    assert heard.tokens == expected(folder, messages).tokens
    return heard


def image_tokens(folder: Path, messages: Sequence[Message]) -> list[int]:
    token = vision_of(folder).image_token
    return [place for place, each in enumerate(built(folder, messages).token_ids) if each == token]


@pytest.mark.thin(4)
@pytest.mark.parametrize(("family", "depth"), MODES)
def test_an_image_seen_before_is_not_encoded_again(
    tiny: Tiny, encoded: Callable[[Path], list[str]], family: str, depth: Speculation
) -> None:
    folder = tiny(family, **SMALL)
    seen = encoded(folder)
    stepper = Stepper(folder, "similar", 24, speculation=depth, cache=PLENTY)
    assert ask(stepper, folder, ASKED, "first").cached == 0
    assert len(seen) == 1
    again = ask(stepper, folder, ASKED, "again")
    assert again.cached == len(built(folder, ASKED).token_ids) - 1 and len(seen) == 1
    turn = ask(stepper, folder, TURN, "text after it")
    assert turn.cached > max(image_tokens(folder, TURN)) and len(seen) == 1
    shown = ask(stepper, folder, SHOWN, "another picture after it")
    assert shown.cached > max(image_tokens(folder, ASKED)) and len(seen) == 2
    changed = ask(stepper, folder, CHANGED, "the second changed")
    assert max(image_tokens(folder, ASKED)) < changed.cached < image_tokens(folder, SHOWN)[-1] and len(seen) == 3
    check_rest(stepper.reuse)


@pytest.mark.thin(2)
@pytest.mark.parametrize("depth", ["off", 3])
def test_another_image_in_the_same_place_never_matches(tiny: Tiny, depth: Speculation) -> None:
    folder = tiny("hybrid", **SMALL)
    stepper = Stepper(folder, "padded", 16, speculation=depth, cache=PLENTY)
    ask(stepper, folder, ASKED, "first")
    assert ask(stepper, folder, OTHER, "other").cached <= image_tokens(folder, OTHER)[0]
    ask(stepper, folder, PAIR, "pair")
    places = image_tokens(folder, PAIR_CHANGED)
    breaks = [b for a, b in zip(places, places[1:], strict=False) if b != a + 1]
    changed = ask(stepper, folder, PAIR_CHANGED, "the second changed")
    assert changed.cached <= breaks[0]
    assert ask(stepper, folder, PAIR_CHANGED, "changed again").cached > places[-1]


def test_images_of_the_same_shape_have_keys_of_their_own(tiny: Tiny) -> None:
    folder = tiny("hybrid", **SMALL)
    prompt = built(folder, PAIR)
    other = replace(prompt, media=(replace(prompt.media[0], digest="0" * 64), prompt.media[1]))
    keys, others = prompt_cache_key(prompt), prompt_cache_key(other)
    places = image_tokens(folder, PAIR)
    first = [place for place in places if keys[place] == keys[places[0]]]
    assert len({int(keys[place]) for place in places}) == 2 and all(keys[place] < 0 for place in places)
    assert [place for place in range(len(keys)) if keys[place] != others[place]] == first
    text = [place for place in range(len(keys)) if place not in places]
    assert [int(keys[place]) for place in text] == [prompt.token_ids[place] for place in text]


def test_an_image_in_another_conversation_comes_from_the_feature_cache(
    tiny: Tiny, encoded: Callable[[Path], list[str]]
) -> None:
    folder = tiny("hybrid", **SMALL)
    seen = encoded(folder)
    stepper = Stepper(folder, "similar", 24, cache=PLENTY, features=PLENTY)
    ask(stepper, folder, ASKED, "first")
    ask(stepper, folder, LATE, "elsewhere")
    ask(stepper, folder, PAIR, "beside another")
    assert len(seen) == 2  # the second of the pair
    assert (stepper.runner.features.hits, stepper.runner.features.misses) == (2, 2)
    stepper.reuse.clear()
    assert stepper.runner.features.nbytes == 0
    ask(stepper, folder, ASKED, "after clearing")
    assert len(seen) == 3


@pytest.mark.thin(2)
@pytest.mark.parametrize("depth", ["off", 3])
def test_a_prefix_may_end_in_the_middle_of_an_image(tiny: Tiny, depth: Speculation) -> None:
    folder = tiny("hybrid", **SMALL)
    prompt, want = built(folder, SHOWN), expected(folder, SHOWN).tokens
    places = image_tokens(folder, SHOWN)
    for mark in (places[0], places[3], places[0] + 24, places[-1], places[-1] + 1, len(prompt.token_ids) - 1):
        stepper = Stepper(folder, "similar", 24, speculation=depth, cache=PLENTY)
        stepper.greedy("first", replace(prompt, boundaries=(mark,)), 2)
        stepper.finish()
        # The same up to the mark, then something else: what is restored ends there.
        cut = replace(prompt, token_ids=(*prompt.token_ids[:-3], 7, 8, 9)) if mark > places[-1] else prompt
        stepper.greedy("other", cut, 2)
        stepper.finish()
        heard = stepper.greedy("again", prompt, TOKENS)
        stepper.finish()
        assert heard.tokens == want and heard.cached >= mark
    # A picture half of which is known: its other half is taken from the right features.
    stepper = Stepper(folder, "similar", 24, speculation=depth, cache=PLENTY)
    stepper.greedy("first", replace(prompt, boundaries=(places[-4],)), 2)
    for _ in range(200):
        stepper.step()
        if any(node.stop == places[-4] for node in stepper.reuse.cache.nodes()):
            break
    stepper.abort("first")
    stepper.finish()
    heard = stepper.greedy("half", prompt, TOKENS)
    stepper.finish()
    assert heard.tokens == want and heard.cached >= places[-4]


def test_the_head_draft_tokens_the_same_about_images_warm_as_cold(tiny: Tiny) -> None:
    folder = tiny("hybrid", **LISTENING)

    def told(stepper: Stepper, name: str) -> tuple[int, int]:
        used = usage(ask(stepper, folder, SHOWN, name))
        return used.accepted_tokens, used.rejected_tokens

    cold = told(Stepper(folder, "similar", 24, speculation=3), "cold")
    stepper = Stepper(folder, "similar", 24, speculation=3, cache=PLENTY)
    watch_places(stepper)
    ask(stepper, folder, ASKED, "before")
    assert [told(stepper, "warm"), told(stepper, "warmer")] == [cold, cold]


@pytest.mark.slow
@pytest.mark.parametrize(("family", "depth"), MODES)
def test_images_are_known_after_a_restart(
    tiny: Tiny, encoded: Callable[[Path], list[str]], tmp_path: Path, family: str, depth: Speculation
) -> None:
    folder = tiny(family, **SMALL)
    first = Stepper(folder, "similar", 24, speculation=depth, cache=PLENTY, disk=tmp_path)
    for place, messages in enumerate(ALL):
        ask(first, folder, messages, str(place))
    first.close()
    seen = encoded(folder)
    second = Stepper(folder, "similar", 24, speculation=depth, cache=PLENTY, disk=tmp_path)
    for place, messages in enumerate(ALL):
        assert ask(second, folder, messages, str(place)).cached == len(built(folder, messages).token_ids) - 1
    assert seen == []
    second.close()
    check_rest(second.reuse)


@pytest.mark.thin(3)
@pytest.mark.parametrize(("family", "depth"), [MODES[0], MODES[1], MODES[3]])
@settings(
    max_examples=2,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    phases=(Phase.explicit, Phase.generate),
)
@given(
    script=st.lists(st.tuples(st.integers(0, len(ALL) - 1), st.integers(0, 12)), min_size=4, max_size=10),
    budget=st.sampled_from([PLENTY, TINY, TINY, 0]),
    features=st.sampled_from([0, PLENTY, 20_000]),
    layout=st.sampled_from(["rows", "padded", "similar"]),
    chunk=st.sampled_from([7, 24, 200]),
)
def test_no_script_with_images_changes_a_token(
    tiny: Tiny,
    family: str,
    depth: Speculation,
    script: list[tuple[int, int]],
    budget: int,
    features: int,
    layout: str,
    chunk: int,
) -> None:
    folder = tiny(family, **SMALL)
    stepper = Stepper(folder, layout, chunk, 4, speculation=depth, cache=budget, features=features)
    heard = []
    with quiet():
        for place, (which, steps) in enumerate(script):
            heard.append(stepper.greedy(str(place), built(folder, ALL[which]), TOKENS))
            stepper.step(steps)
        stepper.finish()
    for (which, _), each in zip(script, heard, strict=True):
        assert each.tokens == expected(folder, ALL[which]).tokens
    check_rest(stepper.reuse)
