from __future__ import annotations

import base64
import io
import struct
import zlib
from typing import Any
from urllib.parse import quote_from_bytes

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from paceline.conversation.media import decode_image
from paceline.errors import InvalidRequest

PIXELS, BYTES = 1_000_000, 1_000_000
RED, WHITE = (255, 0, 0), (255, 255, 255)


def saved(image: Image.Image, kind: str = "PNG", **options: Any) -> bytes:
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def url(data: bytes, kind: str = "image/png") -> str:
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"


def decode(data: bytes) -> Image.Image:
    image = decode_image(url(data), PIXELS, BYTES)
    assert image.mode == "RGB"
    return image


def near(image: Image.Image, point: tuple[int, int], color: tuple[int, int, int], within: int = 0) -> bool:
    pixel = np.asarray(image)[point[1], point[0]].astype(int)
    return bool((np.abs(pixel - np.array(color)) <= within).all())


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF"])
def test_the_usual_formats_are_read(kind: str) -> None:
    image = decode(saved(Image.new("RGB", (10, 6), RED), kind))
    assert image.size == (10, 6)
    assert near(image, (5, 3), RED, within=2)


def test_an_image_may_be_percent_encoded() -> None:
    data = saved(Image.new("RGB", (2, 2), RED))
    image = decode_image(f"data:image/png,{quote_from_bytes(data)}", PIXELS, BYTES)
    assert image.size == (2, 2)


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("data:image/png;base64", "DATA:image/png;name=a.png;BASE64"),
        lambda text: text.replace("image/png", ""),
        lambda text: text.replace("image/png", "application/octet-stream"),
        lambda text: text.rstrip("="),
        lambda text: text.replace("+", "-").replace("/", "_").replace("image_png", "image/png"),
        lambda text: text[:60] + "\n " + text[60:],
        lambda text: text.replace("+", "%2B"),
    ],
)
def test_the_ways_clients_write_a_data_url_are_understood(change: Any) -> None:
    noise = Image.fromarray(np.random.default_rng(0).integers(0, 255, (9, 9, 3), dtype=np.uint8))
    image = decode_image(change(url(saved(noise))), PIXELS, BYTES)
    assert image.tobytes() == noise.tobytes()


def test_a_photograph_is_turned_upright() -> None:
    sideways = Image.new("RGB", (40, 20), "blue")
    sideways.paste(RED, (0, 0, 10, 20))
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera was turned: rotate by a quarter to show
    image = decode(saved(sideways, "JPEG", exif=exif, quality=95))
    assert image.size == (20, 40)
    assert near(image, (10, 3), RED, within=20)


@pytest.mark.filterwarnings("ignore:Corrupt EXIF data:UserWarning")
def test_a_broken_note_about_the_camera_does_not_cost_the_picture() -> None:
    image = decode(saved(Image.new("RGB", (4, 4), RED), "JPEG", exif=b"Exif\x00\x00MM\x00*\xff\xff\xff\xff"))
    assert image.size == (4, 4)


def test_transparency_is_laid_on_white() -> None:
    image = Image.new("RGBA", (4, 1), (255, 0, 0, 255))
    image.putpixel((1, 0), (0, 0, 0, 0))
    image.putpixel((2, 0), (0, 0, 0, 128))
    decoded = decode(saved(image))
    assert near(decoded, (0, 0), RED) and near(decoded, (1, 0), WHITE) and near(decoded, (2, 0), (127,) * 3, 1)


def test_a_transparent_palette_entry_is_white() -> None:
    image = Image.new("P", (2, 1), 0)
    image.putpalette([255, 0, 0, 0, 0, 255])
    image.putpixel((1, 0), 1)
    decoded = decode(saved(image, transparency=1))
    assert near(decoded, (0, 0), RED) and near(decoded, (1, 0), WHITE)


def test_a_transparent_grey_is_white() -> None:
    decoded = decode(saved(Image.new("LA", (1, 1), (0, 0))))
    assert near(decoded, (0, 0), WHITE)


@pytest.mark.parametrize("kind", ["PNG", "TIFF"])
def test_16_bit_grey_keeps_its_shades(kind: str) -> None:
    deep = Image.fromarray(np.array([[0, 0x4000, 0x8000, 0xFFFF]], dtype=np.uint16))
    decoded = decode(saved(deep, kind))
    assert [int(value) for value in np.asarray(decoded)[0, :, 0]] == [0, 64, 128, 255]


def test_numbers_in_a_tiff_become_shades() -> None:
    for values in ([0.0, 0.5, 1.0], [0.0, 127.5, 255.0], [0.0, 500.0, 1000.0]):
        decoded = decode(saved(Image.fromarray(np.array([values], dtype=np.float32)), "TIFF"))
        assert [int(value) for value in np.asarray(decoded)[0, :, 0]] == [0, 128, 255]


def test_cmyk_becomes_rgb() -> None:
    decoded = decode(saved(Image.new("CMYK", (8, 8), (0, 255, 255, 0)), "JPEG", quality=100))
    assert near(decoded, (4, 4), RED, within=8)


def test_one_bit_becomes_black_and_white() -> None:
    assert near(decode(saved(Image.new("1", (2, 2), 1))), (0, 0), WHITE)


@pytest.mark.parametrize("kind", ["GIF", "WEBP", "PNG"])
def test_of_an_animation_the_first_frame_is_shown(kind: str) -> None:
    frames = [Image.new("RGB", (4, 4), color) for color in ("red", "blue", "green")]
    decoded = decode(saved(frames[0], kind, save_all=True, append_images=frames[1:]))
    assert near(decoded, (2, 2), RED, within=2)


def claimed_png(width: int, height: int) -> bytes:
    chunks = [b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0), b"IDAT" + zlib.compress(b"")]
    written = [struct.pack(">I", len(c) - 4) + c + struct.pack(">I", zlib.crc32(c)) for c in chunks]
    return b"\x89PNG\r\n\x1a\n" + b"".join(written)


@pytest.mark.parametrize(("width", "height"), [(1001, 1000), (10_000, 10_000), (30_000, 30_000), (2**31 - 1,) * 2])
def test_too_many_pixels_are_refused_from_the_header(width: int, height: int) -> None:
    with pytest.raises(InvalidRequest, match="at most 1000000 pixels"):
        decode(claimed_png(width, height))


def test_too_many_bytes_are_refused() -> None:
    data = saved(Image.new("RGB", (10, 10)))
    for address in (url(data), f"data:image/png,{quote_from_bytes(data)}"):
        with pytest.raises(InvalidRequest, match="more than 10 bytes"):
            decode_image(address, PIXELS, 10)


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("http://example.org/a.png", "remote images are not allowed"),
        ("HTTPS://example.org/a.png", "remote images are not allowed"),
        ("file:///etc/passwd", "local images are not allowed"),
        ("/etc/passwd", "must be a data: URL"),
        ("cat.png", "must be a data: URL"),
        ("ftp://example.org/a.png", "must be a data: URL"),
        ("", "must be a data: URL"),
        ("data:image/png;base64", "no comma"),
        ("data:image/png;base64,", "empty"),
        ("data:image/png,", "empty"),
        ("data:image/png;base64,a", "base64"),
        ("data:image/png;base64,äöü", "base64"),
        ("data:application/pdf;base64,AAAA", "application/pdf"),
        ("data:image/svg+xml,<svg/>", "not an image in a format"),
        (url(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n"), "not an image in a format"),
    ],
)
def test_what_is_not_an_image_is_refused_with_its_field(address: str, words: str) -> None:
    with pytest.raises(InvalidRequest, match=words) as caught:
        decode_image(address, PIXELS, BYTES, field="messages[2].content[1].image_url")
    assert caught.value.field == "messages[2].content[1].image_url"
    assert "messages[2].content[1].image_url" in str(caught.value)


@given(st.data())
def test_damaged_files_are_an_image_or_a_refusal(data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(["PNG", "JPEG", "GIF", "WEBP", "BMP", "TIFF"]))
    damaged = bytearray(saved(Image.linear_gradient("L").resize((16, 16)), kind))
    for position, byte in data.draw(
        st.lists(st.tuples(st.integers(0, len(damaged) - 1), st.integers(0, 255)), max_size=8)
    ):
        damaged[position] = byte
    damaged = damaged[: data.draw(st.integers(0, len(damaged)))]
    try:
        decode(bytes(damaged))
    except InvalidRequest as error:
        assert error.field == "image_url"
