"""Pictures over HTTP: each bad one is a 400 that says which."""

from __future__ import annotations

import base64
import io
import struct
import zlib
from typing import Any

import httpx
import pytest
from PIL import Image

from paceline.conversation.messages import AUDIO_PARTS, VIDEO_PARTS
from tests.server.fake_service import FakeService
from tests.server.harness import post_chat, refused

PART = "messages[0].content[1]"
FIELD = f"{PART}.image_url"


def png(width: int = 8, height: int = 8) -> bytes:
    file = io.BytesIO()
    Image.effect_noise((width, height), 99).convert("RGB").save(file, "PNG")
    return file.getvalue()


def claimed_png(width: int, height: int) -> bytes:
    """A file of a few bytes whose header promises many pixels."""
    chunks = [b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0), b"IDAT" + zlib.compress(b"")]
    written = [struct.pack(">I", len(c) - 4) + c + struct.pack(">I", zlib.crc32(c)) for c in chunks]
    return b"\x89PNG\r\n\x1a\n" + b"".join(written)


def url(data: bytes) -> str:
    return f"data:image/png;base64,{base64.b64encode(data).decode()}"


def ask(http: httpx.Client, picture: Any) -> httpx.Response:
    parts = [{"type": "text", "text": "What is this?"}, {"type": "image_url", "image_url": picture}]
    return post_chat(http, parts)


def test_an_image_is_accepted(http: httpx.Client) -> None:
    assert ask(http, {"url": url(png()), "detail": "auto"}).status_code == 200
    assert ask(http, url(png())).status_code == 200


@pytest.mark.parametrize(
    ("picture", "word"),
    [
        (url(png()[:100]), "damaged"),
        (url(claimed_png(30_000, 30_000)), "pixels"),
        (url(claimed_png(5_000, 5_000)), "5000 x 5000"),
        (url(b"this is a text"), "not an image"),
        ("data:text/plain;base64,aGVsbG8=", "text/plain"),
        ("data:image/png;base64,###", "base64"),
        ("https://example.org/cat.png", "remote"),
        ("file:///etc/passwd", "local"),
        ("/etc/passwd", "data: URL"),
    ],
)
def test_a_bad_image_is_refused_and_named(http: httpx.Client, picture: str, word: str) -> None:
    refused(ask(http, {"url": picture}), 400, FIELD, FIELD, word)


@pytest.mark.parametrize("picture", [None, 5, {}, {"url": 5}, ""])
def test_an_image_needs_an_address(http: httpx.Client, picture: Any) -> None:
    refused(ask(http, picture), 400, FIELD)


@pytest.mark.parametrize("takes_images", [True, False])
@pytest.mark.parametrize("kind", (*AUDIO_PARTS, *VIDEO_PARTS))
def test_other_media_are_refused_with_and_without_eyes(
    http: httpx.Client, service: FakeService, monkeypatch: pytest.MonkeyPatch, kind: str, takes_images: bool
) -> None:
    monkeypatch.setattr(service, "takes_images", takes_images)
    word = "audio" if "audio" in kind else "video"
    parts = [{"type": "text", "text": "What is this?"}, {"type": kind, kind: {"url": "data:,x"}}]
    refused(post_chat(http, parts), 400, PART, PART, f"takes no {word}")


def test_a_model_without_eyes_refuses_an_image(
    http: httpx.Client, service: FakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "takes_images", False)
    refused(ask(http, url(png())), 400, PART, PART, "takes no images")
