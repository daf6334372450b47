"""A video as clients write it into a message: by its address, or frame by frame."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from paceline.errors import InvalidRequest

VIDEO_PARTS = ("video_url", "video", "input_video")
# Of the fields that Qwen's clients know, these are not honoured: the server's settings hold for everybody.
REFUSED = (
    *("max_frames", "min_frames", "nframes", "max_pixels", "min_pixels", "total_pixels"),
    *("resized_height", "resized_width", "video_start", "video_end", "raw_fps", "sample_fps"),
)
FASTEST = 240.0  # frames a second that can be asked for


@dataclass(frozen=True, slots=True)
class VideoPart:
    """A video's address, or with `frames` the addresses of its frames; `place` is named in error messages."""

    urls: tuple[str, ...]
    place: str
    frames: bool = False
    fps: float | None = None  # frames to take of a second; of frames: how many make a second


def video_part(part: Mapping[str, Any], place: str) -> VideoPart:
    """`video_url` as an address or an object with `url`; `video` also as a list of its frames' addresses."""
    name = "video" if "video" in part else "video_url"
    here = f"{place}.{name}"
    given, fps = part.get(name), part.get("fps")
    if isinstance(given, Mapping):
        fps = given.get("fps", fps)
        given = given.get("url")
    for field in REFUSED:
        if part.get(field) is not None:
            raise InvalidRequest(
                f"{place}.{field} is not supported: the server's settings decide; leave it out.",
                field=f"{place}.{field}",
                code="unsupported_parameter",
            )
    if fps is not None and not (type(fps) in (int, float) and 0 < fps <= FASTEST):
        raise InvalidRequest(f"{place}.fps must be above 0 and at most {FASTEST:g}.", field=f"{place}.fps")
    if isinstance(given, str):
        return VideoPart((given,), here, fps=fps)
    if isinstance(given, list) and given and all(isinstance(url, str) for url in given):
        return VideoPart(tuple(given), here, frames=True, fps=fps)
    raise InvalidRequest(f"{here} must be an address, or a list of the addresses of its frames.", field=here)
