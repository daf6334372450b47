"""Pictures and videos that are small to send and large to decode, made when a test asks for them."""

from __future__ import annotations

import base64
import io
import struct
import tempfile
import zlib
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

SIDE = 8000  # squared: as many pixels as the server takes by default
GREY, RGB, PALETTE, RGBA = 0, 2, 3, 6  # PNG's numbers
CHANNELS = {GREY: 1, RGB: 3, PALETTE: 1, RGBA: 4}


@cache
def png(width: int = SIDE, height: int = SIDE, kind: int = GREY, depth: int = 8, extra: bytes = b"") -> bytes:
    """All zeros, written row by row: the whole picture never exists here."""
    row = bytes(1 + (width * CHANNELS[kind] * depth + 7) // 8)
    together = max(1, (1 << 20) // len(row))
    squeeze = zlib.compressobj(1)
    pixels = [squeeze.compress(row * min(together, height - done)) for done in range(0, height, together)]
    head = struct.pack(">IIBBBBB", width, height, depth, kind, 0, 0, 0)
    palette = [(b"PLTE", bytes(range(256)) * 3), (b"tRNS", bytes(256))] if kind == PALETTE else []
    chunks = [(b"IHDR", head), *palette, (b"IDAT", b"".join([*pixels, squeeze.flush()])), (b"IEND", b"")]
    return (
        b"\x89PNG\r\n\x1a\n"
        + b"".join(chunk(*each) for each in chunks[:1])
        + extra
        + b"".join(chunk(*each) for each in chunks[1:])
    )


def chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def text_bomb() -> bytes:
    """A small picture whose comment is a gigabyte of zeros."""
    squeeze = zlib.compressobj(9)
    text = b"".join([squeeze.compress(bytes(1 << 20)) for _ in range(1024)]) + squeeze.flush()
    return png(64, 64, extra=chunk(b"zTXt", b"comment\0\0" + text))


@cache
def pillow(kind: str, mode: str = "L", side: int = SIDE, frames: int = 1, **options: Any) -> bytes:
    """A picture as Pillow writes it."""
    written = io.BytesIO()
    others = [Image.new(mode, (side, side), shade) for shade in range(1, frames)]
    if others:
        options = {**options, "save_all": True, "append_images": others}
    Image.new(mode, (side, side)).save(written, kind, **options)
    return written.getvalue()


@cache
def gif(frames: int, side: int = 64) -> bytes:
    """So many equal frames, of a few bytes each."""
    head = b"GIF89a" + struct.pack("<HHBBB", side, side, 0x80, 0, 0) + bytes([0, 0, 0, 255, 255, 255])
    one = b"," + struct.pack("<HHHHB", 0, 0, 1, 1, 0) + b"\x02\x02\x44\x01\x00"
    return head + one * frames + b";"


@cache
def video(side: int, frames: int, kind: str = "avi", codec: str = "MJPG") -> bytes:
    """A black film."""
    import cv2

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"film.{kind}"
        writer = cv2.VideoWriter(str(path), cv2.CAP_FFMPEG, cv2.VideoWriter.fourcc(*codec), 10.0, (side, side))
        assert writer.isOpened()
        black = np.zeros((side, side, 3), dtype=np.uint8)
        for _ in range(frames):
            writer.write(black)
        writer.release()
        return path.read_bytes()


def url(data: bytes, kind: str = "image/png") -> str:
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"


def with_spaces(data: bytes, size: int) -> str:
    """Base64 with so many spaces and line breaks in between."""
    written = base64.b64encode(data).decode()
    gap = " \n" * (size // 2 // max(1, len(written) // 64))
    return "data:image/png;base64," + gap.join(written[at : at + 64] for at in range(0, len(written), 64))


def percent(data: bytes, size: int) -> str:
    """Without base64: every byte percent-encoded, with zeros behind the picture's end."""
    return "data:image/png," + "".join(f"%{byte:02x}" for byte in data) + "%00" * (size // 3 - len(data))
