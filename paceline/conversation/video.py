"""Videos: from a file's bytes to frames with their times. Hostile bytes end in `InvalidRequest`.

ffmpeg, through OpenCV, decodes in a process of its own (`video_decoder`), with limits on time, memory and pixels.
mlx-vlm's own video reading has neither limits nor a process of its own; its processor takes the frames afterwards.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from threading import BoundedSemaphore
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL.Image import Image as Picture

from paceline.conversation.media import Loading
from paceline.conversation.messages import VideoPart
from paceline.errors import InvalidRequest
from paceline.settings import Settings

DECODER = Path(__file__).with_name("video_decoder.py")
DECODE_SECONDS = 60.0
MAX_DECODERS = 2  # at a time, beside the engine
FRAME_BYTES = 9  # memory per kept pixel: as received, as one array, and in the processor
LEAST_MEMORY = 256 << 20  # a decoder needs as much to start
MAX_MEMORY = 2 << 30
KINDS = "MP4, MOV, MKV, WebM or AVI"

_decoders = BoundedSemaphore(MAX_DECODERS)


@dataclass(frozen=True, slots=True)
class Clip:
    """Frames (count, height, width, 3) of a video, and the time of each in seconds."""

    frames: NDArray[np.uint8]
    seconds: tuple[float, ...]

    def times(self, group_size: int) -> list[float]:
        """The time of each group of frames: the middle between its first and its last one."""
        padded = self.seconds + self.seconds[-1:] * (-len(self.seconds) % group_size)
        return [(padded[at] + padded[at + group_size - 1]) / 2 for at in range(0, len(padded), group_size)]


@dataclass(frozen=True, slots=True)
class VideoLimits:
    fps: float = 2.0  # frames sampled per second
    frames: int = 64  # most frames of a video; longer ones are sampled less often
    seconds: float = 300.0  # longest video
    pixels: int = 64_000_000  # of a frame
    kept: int = 64_000_000  # pixels of all sampled frames together
    memory: int = MAX_MEMORY  # bytes, of the process that decodes
    videos: int = 4  # in a request

    @classmethod
    def of(cls, settings: Settings, memory: int) -> VideoLimits:
        """Limits within `memory` bytes: half for the decoder, half for its frames."""
        return cls(
            settings.video_fps,
            settings.video_max_frames,
            settings.max_video_seconds,
            settings.max_image_pixels,
            min(settings.max_image_pixels, memory // 2 // FRAME_BYTES),
            min(MAX_MEMORY, max(memory // 2, LEAST_MEMORY)),
            settings.max_videos,
        )

    @property
    def decoding_bytes(self) -> int:
        return self.memory + FRAME_BYTES * self.kept


def load(part: VideoPart, loading: Loading, limits: VideoLimits) -> Clip:
    """The clip of a message's part: a video by its address, or frames by theirs."""
    if part.frames:
        return _of_frames(part, loading, limits)
    return decode(loading.bytes_of(part.urls[0], part.place, "video"), limits, part.place, part.fps)


def decode(data: bytes, limits: VideoLimits, field: str, fps: float | None = None) -> Clip:
    """Frames spread evenly over the video. Blocks while the decoder runs."""
    if not _is_video(data):
        raise InvalidRequest.at(field, f"is not a video in a format that is read here ({KINDS}).")
    with tempfile.NamedTemporaryFile(prefix="paceline-video-") as file, _decoders:
        file.write(data)
        file.flush()
        header, pixels = _run(file.name, replace(limits, fps=fps or limits.fps), field)
    if "error" in header:
        raise InvalidRequest.at(field, f"{header['error']}.")
    count, height, width = header["shape"]
    frames = np.frombuffer(pixels, dtype=np.uint8).reshape(count, height, width, 3)
    return Clip(frames, tuple(place / header["rate"] for place in header["places"]))


def _run(path: str, limits: VideoLimits, field: str) -> tuple[dict[str, Any], memoryview]:
    damaged = InvalidRequest.at(field, "is a damaged video: its decoder failed.")
    environment = {
        # A playlist or a reference in a file must not make ffmpeg open anything else.
        "OPENCV_FFMPEG_CAPTURE_OPTIONS": "protocol_whitelist;file",
        "OPENCV_LOG_LEVEL": "SILENT",
        "OPENBLAS_NUM_THREADS": "1",
        **{name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH", "TMPDIR") if name in os.environ},
    }
    command = [sys.executable, "-I", str(DECODER), path, json.dumps(asdict(limits))]
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            timeout=DECODE_SECONDS,
            check=True,
        )
        line, _, _ = done.stdout.partition(b"\n")
        header: dict[str, Any] = json.loads(line)
    except subprocess.TimeoutExpired:
        raise InvalidRequest.at(
            field, f"takes more than {DECODE_SECONDS:g} seconds to decode; send a shorter or smaller video."
        ) from None
    except (subprocess.CalledProcessError, ValueError):
        raise damaged from None
    return header, memoryview(done.stdout)[len(line) + 1 :]


def _of_frames(part: VideoPart, loading: Loading, limits: VideoLimits) -> Clip:
    if len(part.urls) > limits.frames:
        raise InvalidRequest.at(part.place, f"has {len(part.urls)} frames; at most {limits.frames} are taken.")
    pictures: list[Picture] = []
    for index, url in enumerate(part.urls):
        picture = loading.load(url, f"{part.place}[{index}]")
        if pictures and picture.size != pictures[0].size:
            raise InvalidRequest(f"{part.place}[{index}] has another size than the first frame.", field=part.place)
        pictures.append(picture)
        if len(part.urls) * picture.width * picture.height > limits.kept:
            raise InvalidRequest.at(
                part.place,
                f"has {len(part.urls)} frames of {picture.width} x {picture.height} pixels, and at most "
                f"{limits.kept} pixels are allowed together.",
            )
    rate = part.fps or limits.fps
    return Clip(
        np.stack([np.asarray(picture, dtype=np.uint8) for picture in pictures]),
        tuple(index / rate for index in range(len(pictures))),
    )


def _is_video(data: bytes) -> bool:
    """By its first bytes. This excludes playlists, which ffmpeg would follow."""
    head = data[:16]
    return (
        head[4:8] in (b"ftyp", b"moov", b"mdat", b"wide", b"free", b"skip")
        or head[:4] == b"\x1aE\xdf\xa3"
        or (head[:4] == b"RIFF" and head[8:12] == b"AVI ")
    )
