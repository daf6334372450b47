from __future__ import annotations

import base64
import io
import os
import struct
import tracemalloc
import zlib
from pathlib import Path
from typing import Any
from urllib.parse import quote_from_bytes

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from paceline.conversation import media
from paceline.conversation.media import Loader
from paceline.conversation.remote import Fetcher
from paceline.errors import InvalidRequest
from paceline.settings import Settings
from tests.conversation.test_remote import answer, fetcher, serving, to

PIXELS, BYTES = 1_000_000, 1_000_000
RED, WHITE = (255, 0, 0), (255, 255, 255)


def decode_image(address: str, max_pixels: int, max_bytes: int, *, field: str = "image_url") -> Image.Image:
    return Loader(max_pixels=max_pixels, max_bytes=max_bytes).request().load(address, field)


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
def test_a_broken_note_about_the_camera_does_not_cost_the_image() -> None:
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


# --- hostile files -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("height", "found"), [(1_100, "60000 x 1100"), (2_000, "(60000 x 2000|120000000)"), (60_000, "3600000000")]
)
def test_a_png_60000_pixels_wide_is_refused_with_its_size(height: int, found: str) -> None:
    with pytest.raises(InvalidRequest, match=f"image_url has {found} pixels, and at most 64000000 pixels"):
        decode_image(url(claimed_png(60_000, height)), Settings().max_image_pixels, BYTES)


def chunked_png(*chunks: bytes) -> bytes:
    written = [struct.pack(">I", len(c) - 4) + c + struct.pack(">I", zlib.crc32(c)) for c in chunks]
    return b"\x89PNG\r\n\x1a\n" + b"".join(written)


@pytest.fixture(scope="module")
def squeezed() -> bytes:
    return zlib.compress(b"\0" * 200_000_000, 9)


@pytest.mark.parametrize("head", [b"IDAT", b"zTXtComment\0\0", b"iCCPprofile\0\0"], ids=["pixels", "text", "profile"])
def test_a_decompression_bomb_does_not_go_off(squeezed: bytes, head: bytes) -> None:
    header = b"IHDR" + struct.pack(">IIBBBBB", 8, 8, 8, 2, 0, 0, 0)
    pixels = b"IDAT" + zlib.compress(b"\0" * 25 * 8)
    bomb = chunked_png(header, head + squeezed, pixels, b"IEND")
    assert len(bomb) < BYTES
    tracemalloc.start()
    try:
        decode(bomb)
    except InvalidRequest as error:
        assert "image_url is a damaged image" in str(error)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20_000_000


# --- by address --------------------------------------------------------------------------------------


FIELD = "messages[0].content[0].image_url"
PNG = saved(Image.new("RGB", (4, 3), RED))


def loader(**options: Any) -> Loader:
    return Loader(max_pixels=PIXELS, max_bytes=BYTES, **options)


def complaint(loader: Loader, address: str) -> str:
    with pytest.raises(InvalidRequest) as caught:
        loader.request().load(address, FIELD)
    assert caught.value.field == FIELD and FIELD in str(caught.value)
    return str(caught.value)


def test_the_settings_say_where_images_come_from(tmp_path: Path) -> None:
    closed = Loader.of(Settings())
    assert (closed.fetcher, closed.folder) == (None, None)
    assert (closed.max_pixels, closed.max_bytes) == (64_000_000, 32 << 20)
    opened = Loader.of(Settings(allow_remote_media=True, media_dir=tmp_path, media_timeout_seconds=3))
    assert isinstance(opened.fetcher, Fetcher) and (opened.folder, opened.seconds) == (tmp_path, 3)
    assert "--allow-remote-media" in complaint(closed, "https://example.org/a.png")
    assert "--media-dir" in complaint(closed, "file:///a.png")
    assert "no public address" in complaint(opened, "http://127.0.0.1/a.png")


def test_an_image_is_fetched_and_decoded() -> None:
    with serving(cat=answer(PNG), dog=to("/cat")) as server:
        remote = loader(fetcher=fetcher(server))
        assert remote.request().load(f" http://pictures.example:{server.server_port}/dog", FIELD).size == (4, 3)


def test_what_was_fetched_is_judged_like_any_image() -> None:
    with serving(a=answer(b"<svg/>"), b=answer(claimed_png(30_000, 30_000)), c=answer(b"")) as server:
        remote, base = loader(fetcher=fetcher(server)), f"http://pictures.example:{server.server_port}"
        assert "not an image in a format" in complaint(remote, f"{base}/a")
        assert "at most 1000000 pixels" in complaint(remote, f"{base}/b")
        assert "empty" in complaint(remote, f"{base}/c")


def test_the_images_of_a_request_share_its_bytes_and_its_time() -> None:
    with serving(a=answer(PNG)) as server:
        address = f"http://pictures.example:{server.server_port}/a"
        small = Loader(max_pixels=PIXELS, max_bytes=len(PNG) * 2, fetcher=fetcher(server))
        request = small.request()
        request.load(address, FIELD)
        request.load(address, FIELD)
        with pytest.raises(InvalidRequest, match="more than 0 bytes"):
            request.load(address, FIELD)
        small.request().load(address, FIELD)
        late = loader(fetcher=fetcher(server), seconds=1e-9)
        assert "in the time allowed" in complaint(late, address)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """media/ with pictures, and a secret beside it."""
    media = tmp_path / "media"
    (media / "sub").mkdir(parents=True)
    for path in (media / "cat.png", media / "sub" / "kätz chen.png", tmp_path / "secret.png"):
        path.write_bytes(PNG)
    return media


def test_a_file_under_the_folder_is_read(folder: Path) -> None:
    (folder / "link.png").symlink_to(folder / "cat.png")
    (folder / "also").symlink_to("sub")
    local = loader(folder=folder)
    for name in ("cat.png", "sub/../cat.png", "link.png", "also/k%C3%A4tz%20chen.png", "sub/kätz chen.png"):
        assert local.request().load(f"file://{folder}/{name}", FIELD).size == (4, 3)
        assert local.request().load(f"FILE://localhost{folder}/{name}", FIELD).size == (4, 3)


def test_the_folder_itself_may_be_a_link(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(folder)
    local = loader(folder=tmp_path / "link")
    assert local.request().load(f"file://{tmp_path}/link/cat.png", FIELD).size == (4, 3)
    assert local.request().load(f"file://{folder}/cat.png", FIELD).size == (4, 3)


def test_nothing_else_is_read_and_nobody_learns_what_there_is(folder: Path, tmp_path: Path) -> None:
    (folder / "out.png").symlink_to(tmp_path / "secret.png")
    (folder / "up").symlink_to(tmp_path)
    (folder / "round").symlink_to(folder / "round")
    (tmp_path / "media2").mkdir()
    (tmp_path / "media2" / "cat.png").write_bytes(PNG)
    os.mkfifo(folder / "pipe")
    local = loader(folder=folder)
    said = {
        complaint(local, address)
        for address in (
            f"file://{tmp_path}/secret.png",
            f"file://{tmp_path}/media2/cat.png",
            f"file://{tmp_path}/nothing.png",
            f"file://{folder}/../secret.png",
            f"file://{folder}/%2e%2e/secret.png",
            f"file://{folder}/..%2fsecret.png",
            f"file://{folder}/out.png",
            f"file://{folder}/up/secret.png",
            f"file://{folder}/round",
            f"file://{folder}/pipe",
            f"file://{folder}/sub",
            f"file://{folder}",
            f"file://{folder}/nothing.png",
            f"file://{folder}/cat.png/x",
            f"file://{folder}/cat%00.png",
            f"file://{folder}/%ff.png",
            f"file://{folder}/{'x' * 5000}",
            f"file://elsewhere{folder}/cat.png",
            "file:cat.png",
            "file://cat.png",
            "file:///dev/zero",
            "file:///proc/self/environ",
            "file://[",
        )
    }
    assert len(said) == 1 and "under the server's media folder" in said.pop()


def test_a_file_that_is_too_large_or_no_image_is_refused(folder: Path) -> None:
    (folder / "big.png").write_bytes(b"x" * (BYTES + 1))
    (folder / "text.png").write_text("hello")
    (folder / "empty.png").touch()
    local = loader(folder=folder)
    assert f"more than {BYTES} bytes" in complaint(local, f"file://{folder}/big.png")
    assert "not an image in a format" in complaint(local, f"file://{folder}/text.png")
    assert "empty" in complaint(local, f"file://{folder}/empty.png")


# -- large ones


@pytest.mark.parametrize("mode", ["RGB", "RGBA", "L", "LA", "P", "1", "I;16", "CMYK", "F", "I"])
def test_an_image_larger_than_any_processor_takes_comes_back_smaller(
    mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    grey = Image.linear_gradient("L").resize((300, 200))
    if mode == "I;16":
        picture = Image.fromarray(np.asarray(grey).astype(np.uint16) * 256)
    else:
        picture = grey.convert("RGB").convert(mode) if mode in ("P", "CMYK") else grey.convert(mode)
    data = saved(picture, "TIFF" if mode in ("CMYK", "F", "I") else "PNG")
    whole = decode(data)
    monkeypatch.setattr(media, "LARGE", 20_000)
    smaller = decode(data)
    assert (whole.size, smaller.size) == ((300, 200), (150, 100))
    expected = np.asarray(whole.reduce(2)).astype(int)
    assert np.abs(np.asarray(smaller).astype(int) - expected).max() <= (130 if mode == "1" else 2)


def test_a_large_image_is_still_turned_upright(monkeypatch: pytest.MonkeyPatch) -> None:
    picture = Image.new("RGB", (40, 20), WHITE)
    picture.paste(RED, (0, 0, 20, 20))
    exif = Image.Exif()
    exif[0x0112] = 6  # a quarter turn
    data = saved(picture, "JPEG", exif=exif, quality=95)
    monkeypatch.setattr(media, "LARGE", 200)
    image = decode(data)
    assert image.size == (10, 20)
    assert near(image, (5, 2), RED, within=8) and near(image, (5, 17), WHITE, within=8)


def test_transparency_is_composed_in_strips_as_it_is_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    picture = Image.fromarray(np.random.default_rng(0).integers(0, 256, (37, 23, 4), dtype=np.uint8), "RGBA")
    at_once = decode(saved(picture))
    monkeypatch.setattr(media, "STRIP", 50)
    assert np.array_equal(np.asarray(decode(saved(picture))), np.asarray(at_once))


@given(st.binary(min_size=1, max_size=200), st.integers(1, 30), st.sampled_from(("", "\n", " ")), st.booleans())
def test_an_address_is_decoded_in_pieces_as_it_is_at_once(data: bytes, piece: int, between: str, urlsafe: bool) -> None:
    encoded = (base64.urlsafe_b64encode if urlsafe else base64.b64encode)(data).decode()
    payload = between.join(encoded[begin : begin + 5] for begin in range(0, len(encoded), 5))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(media, "PIECE", piece)
        assert media._from_base64(payload, 10**6, FIELD) == data
        patch.setattr(media, "PIECE", (piece + 3) * 16)
        assert media._unquoted(quote_from_bytes(data)) == data
