"""Small videos for tests, each frame of its own colour so that a frame can be told by its pixels."""

from __future__ import annotations

import base64
import tempfile
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

CODECS = {"avi": "MJPG", "mkv": "FFV1", "mp4": "mp4v"}


def frame(place: int, width: int = 96, height: int = 64) -> NDArray[np.uint8]:
    """RGB: a grey that tells its place, with a bar that wanders."""
    pixels = np.full((height, width, 3), 8 * (place % 32), dtype=np.uint8)
    at = 5 * place % width
    pixels[:, at : at + 6] = (250, 20, 20)
    return pixels


@cache
def video(count: int = 30, rate: float = 10.0, kind: str = "mkv", width: int = 96, height: int = 64) -> bytes:
    """FFV1, in mkv, loses nothing."""
    import cv2

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"video.{kind}"
        codec = cv2.VideoWriter.fourcc(*CODECS[kind])
        writer = cv2.VideoWriter(str(path), cv2.CAP_FFMPEG, codec, rate, (width, height))
        assert writer.isOpened()
        for place in range(count):
            writer.write(np.ascontiguousarray(frame(place, width, height)[:, :, ::-1]))
        writer.release()
        return path.read_bytes()


def url(data: bytes, kind: str = "video/x-matroska") -> str:
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"
