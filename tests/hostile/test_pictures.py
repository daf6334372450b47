"""Pictures and videos: a few hundred kilobytes that become gigabytes, damaged ones, and many at once."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.hostile import files
from tests.hostile.files import PALETTE, RGB, RGBA, SIDE, gif, percent, pillow, png, text_bomb, url, video
from tests.hostile.harness import Attack, Server, at_once, cases, check_refusal, under_attack
from tests.hostile.test_prompts import MB

CHAT = "/v1/chat/completions"
FIELDS = ("messages[0].content", "messages: ")


def asked(*parts: dict[str, Any]) -> bytes:
    content = [*parts, {"type": "text", "text": "What is it?"}]
    return json.dumps({"messages": [{"role": "user", "content": content}], "max_tokens": 4, "cache": False}).encode()


def picture(address: str) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": address}}


def film(address: str) -> dict[str, Any]:
    return {"type": "video_url", "video_url": {"url": address}}


def one(make: Callable[[], bytes | str], clients: int = 1, times: int = 1, sharp: bool = False) -> Attack:
    """A request with a picture, by its bytes or by its address, so many times over."""

    def body() -> bytes:
        made = make()
        return asked(*[picture(made if isinstance(made, str) else url(made))] * times)

    return Attack(CHAT, body, FIELDS, clients, sharp)


def moving(make: Callable[[], bytes], clients: int = 1, times: int = 1, kind: str = "video/x-msvideo") -> Attack:
    return Attack(CHAT, lambda: asked(*[film(url(make(), kind))] * times), FIELDS, clients)


ATTACKS: dict[str, Attack] = {
    # As many pixels as are taken.
    "grey": one(png),
    "grey_eight_clients": one(png, clients=8, sharp=True),
    "one_bit": one(lambda: png(depth=1), clients=8),
    "deep_grey": one(lambda: png(depth=16)),
    "rgb": one(lambda: png(kind=RGB)),
    "rgb_eight_clients": one(lambda: png(kind=RGB), clients=8),
    "deep_rgb": one(lambda: png(kind=RGB, depth=16)),
    "transparent": one(lambda: png(kind=RGBA)),
    "transparent_eight_clients": one(lambda: png(kind=RGBA), clients=8),
    "deep_transparent": one(lambda: png(kind=RGBA, depth=16)),
    "palette_with_transparency": one(lambda: png(kind=PALETTE)),
    "jpeg": one(lambda: pillow("JPEG"), clients=8),
    "jpeg_in_four_colours": one(lambda: pillow("JPEG", "CMYK")),
    "jpeg_progressive": one(lambda: pillow("JPEG", progressive=True)),
    "webp": one(lambda: pillow("WEBP", "RGB", method=0), clients=8),
    "tiff": one(lambda: pillow("TIFF", compression="tiff_lzw"), clients=8),
    "tiff_of_floats": one(lambda: pillow("TIFF", "F", compression="tiff_lzw")),
    "gif": one(lambda: pillow("GIF")),
    "bmp_that_is_cut_off": one(lambda: pillow("BMP", "1")[:1000]),
    # More, in all.
    "many_in_a_request": one(lambda: png(depth=1), times=64),
    "many_in_eight_requests": one(lambda: png(depth=1), times=3, clients=8),
    "more_than_are_taken": one(lambda: png(16, 16), times=20_000),
    "one_pixel_too_many": one(lambda: png(SIDE + 1, SIDE, depth=1)),
    "a_billion_pixels": one(lambda: png(40_000, 40_000, depth=1)),
    "many_small_ones": one(lambda: png(1000, 1000, depth=1), times=64, clients=4),
    # Odd ones.
    "a_column": one(lambda: png(1, 60_000_000)),
    "a_line": one(lambda: png(60_000_000, 1)),
    "a_thin_column": one(lambda: png(300, 60_000, depth=1)),
    "gif_of_many_frames": one(lambda: gif(1_000_000)),
    "webp_of_many_frames": one(lambda: pillow("WEBP", "L", 64, frames=250)),
    "a_comment_that_grows": one(text_bomb),
    "cut_off": one(lambda: png(kind=RGB)[:-100]),
    "only_a_header": one(lambda: png()[:60]),
    "zeros": one(lambda: bytes(20 * MB)),
    # Addresses.
    "percent_encoded": one(lambda: percent(png(64, 64), 20 * MB)),
    "percent_signs": one(lambda: "data:image/png," + "%" * (20 * MB)),
    "spaces_in_base64": one(lambda: files.with_spaces(png(2000, 2000), 20 * MB)),
    "percent_in_base64": one(lambda: "data:image/png;base64," + "%41" * (7 * MB)),
    "no_base64": one(lambda: "data:image/png;base64," + "!" * (20 * MB)),
    "base64_of_nothing": one(lambda: "data:image/png;base64," + "A" * (28 * MB)),
    "no_comma": one(lambda: "data:" + ";" * (20 * MB)),
    "long_scheme": one(lambda: "a" * (20 * MB)),
    "long_kind": one(lambda: "data:" + "a" * (20 * MB) + ",a"),
    # Videos.
    "video": moving(lambda: video(4000, 24)),
    "videos": moving(lambda: video(4000, 24), times=4, clients=4),
    "video_of_many_frames": moving(lambda: video(64, 20_000, "mkv", "FFV1"), kind="video/x-matroska"),
    "video_that_is_cut_off": moving(lambda: video(2000, 24)[:-5000]),
    "video_header": moving(lambda: video(2000, 24)[:3000], clients=8),
    "frames": Attack(
        CHAT,
        lambda: asked({"type": "video", "video": [url(png(1000, 1000))] * 64}),
        FIELDS,
        clients=8,
    ),
    "large_frames": Attack(
        CHAT, lambda: asked({"type": "video", "video": [url(png(depth=1))] * 64}), FIELDS, clients=4
    ),
    "many_frames": Attack(CHAT, lambda: asked({"type": "video", "video": [url(png(16, 16))] * 100_000}), FIELDS),
}


@pytest.mark.parametrize("attack", cases(ATTACKS, quick="grey"))
def test_an_image_that_grows_keeps_to_the_memory_limit_and_holds_up_nobody(server: Server, attack: Attack) -> None:
    attack.run(server)


@pytest.mark.slow
@pytest.mark.parametrize("path", ["/v1/messages", "/v1/responses"])
def test_other_apis_take_images_apart_no_worse(server: Server, path: str) -> None:
    data = url(png(kind=RGBA))
    source = {"type": "base64", "media_type": "image/png", "data": data.partition(",")[2]}
    said = {
        "/v1/messages": {
            "messages": [{"role": "user", "content": [{"type": "image", "source": source}]}],
            "max_tokens": 4,
        },
        "/v1/responses": {
            "input": [{"role": "user", "content": [{"type": "input_image", "image_url": data}]}],
            "max_output_tokens": 16,
        },
    }
    body = json.dumps(said[path]).encode()
    with under_attack(server):
        answers = at_once(server, [(path, body)] * 4)
    for answer in answers:
        assert answer.status in (200, 400, 503), answer
        if answer.status != 200:
            check_refusal(path, answer, ("messages", "input"))
