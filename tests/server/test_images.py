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

from tests.server.harness import post_chat, refused

FIELD = "messages[0].content[1].image_url"


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


def test_a_picture_is_accepted(http: httpx.Client) -> None:
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
def test_a_bad_picture_is_refused_and_named(http: httpx.Client, picture: str, word: str) -> None:
    refused(ask(http, {"url": picture}), 400, FIELD, FIELD, word)


@pytest.mark.parametrize("picture", [None, 5, {}, {"url": 5}, ""])
def test_a_picture_needs_an_address(http: httpx.Client, picture: Any) -> None:
    refused(ask(http, picture), 400, FIELD)


@pytest.mark.parametrize(("kind", "word"), [("input_audio", "audio"), ("video_url", "video")])
def test_other_media_are_refused(http: httpx.Client, kind: str, word: str) -> None:
    refused(post_chat(http, [{"type": kind, kind: {}}]), 400, "messages[0].content[0]", f"takes no {word}")
