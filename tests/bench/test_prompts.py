from __future__ import annotations

import base64
import io
import json
import random
from dataclasses import replace
from typing import Any

import pytest
from PIL import Image

from paceline.bench.prompts import WORDS, Calibration, Lengths, Workload, draw_image
from paceline.bench.wire import BenchError

CHAT = Workload("m", prompt_tokens=Lengths(100, 100), calibration=Calibration(2.0, 10.0))
COMPLETIONS = replace(CHAT, endpoint="completions")


def body(workload: Workload, name: str) -> dict[str, Any]:
    return dict(json.loads(workload.request(name).body))


def test_the_words_are_many_distinct_and_of_similar_length() -> None:
    assert len(WORDS) == len(set(WORDS)) > 500
    assert all(4 <= len(word) <= 6 and word.isascii() and word.islower() for word in WORDS)


@pytest.mark.parametrize(("text", "ends"), [("512", (512, 512)), ("1:9", (1, 9)), ("3:3", (3, 3))])
def test_a_length_is_a_number_or_a_range(text: str, ends: tuple[int, int]) -> None:
    lengths = Lengths.parse(text)
    assert (lengths.low, lengths.high) == ends
    assert {lengths.draw(random.Random(seed)) for seed in range(300)} == set(range(ends[0], ends[1] + 1))


@pytest.mark.parametrize("text", ["", "0", "-3", "9:1", "1:2:3", "a", "1.5"])
def test_what_is_no_length_is_refused_with_examples(text: str) -> None:
    with pytest.raises(BenchError, match="128:1024"):
        Lengths.parse(text)


def test_a_prompt_has_as_many_words_as_its_tokens_take() -> None:
    assert len(body(COMPLETIONS, "a")["prompt"].split()) == (100 - 10) / 2
    assert Calibration(2.0, 10.0).words(1) == 1


def test_the_same_seed_and_name_give_the_same_bytes_and_others_do_not() -> None:
    assert CHAT.request("a").body == CHAT.request("a").body
    assert CHAT.request("a").body != CHAT.request("b").body
    assert CHAT.request("a").body != replace(CHAT, seed=1).request("a").body


def test_a_shared_prefix_is_common_and_the_rest_is_not() -> None:
    workload = replace(COMPLETIONS, shared_prefix=0.6)
    first, second = (body(workload, name)["prompt"].split() for name in "ab")
    assert len(first) == len(second) == 45
    assert first[:27] == second[:27]
    assert first[27:] != second[27:]


def test_a_shorter_shared_prefix_is_the_beginning_of_a_longer_one() -> None:
    workload = replace(CHAT, shared_prefix=0.5)
    short, long = (json.loads(workload.request_of(tokens, "a").body)["messages"] for tokens in (50, 500))
    assert [message["role"] for message in short] == ["system", "user"]
    assert long[0]["content"].startswith(short[0]["content"] + " ")


def test_even_a_wholly_shared_prompt_ends_with_a_word_of_its_own() -> None:
    messages = body(replace(CHAT, shared_prefix=1.0), "a")["messages"]
    assert [len(message["content"].split()) for message in messages] == [44, 1]


def test_the_share_of_images_is_kept_and_no_two_are_alike() -> None:
    workload = replace(CHAT, image_share=0.5, image_size=32)
    with_images = [name for name in map(str, range(100)) if workload.request(name).has_image]
    assert 30 < len(with_images) < 70
    urls = [body(workload, name)["messages"][0]["content"][0]["image_url"]["url"] for name in with_images]
    assert len(set(urls)) == len(urls)


def test_an_image_is_a_small_png() -> None:
    url = draw_image(random.Random(1), 48)
    kind, _, data = url.partition(",")
    assert kind == "data:image/png;base64"
    picture = Image.open(io.BytesIO(base64.b64decode(data)))
    assert (picture.size, picture.format) == ((48, 48), "PNG")
    assert len(data) < 10_000


def test_a_body_streams_asks_for_usage_and_sends_no_seed() -> None:
    sent = body(replace(CHAT, output_tokens=Lengths(7, 7)), "a")
    assert sent["stream"] is True
    assert sent["stream_options"] == {"include_usage": True}
    assert sent["ignore_eos"] is True
    assert (sent["max_tokens"], sent["temperature"]) == (7, 0.0)
    assert "seed" not in sent


def test_what_a_server_refuses_is_left_out_and_extra_fields_win() -> None:
    sent = body(replace(CHAT, ignore_eos=False, include_usage=False, extra={"temperature": 1, "top_p": 0.5}), "a")
    assert "ignore_eos" not in sent
    assert "stream_options" not in sent
    assert (sent["temperature"], sent["top_p"]) == (1, 0.5)
