"""Frames of a video file, in a process of its own: `python -I video_decoder.py FILE LIMITS` writes them to stdout.

Video decoders are large, written in C and read hostile files. In this process one may crash, hang or take memory, and
the server only learns that the video is damaged. This file imports nothing of the server and is run, not imported.

The output is a line of JSON, then the frames' bytes: `{"shape": [count, height, width], "places": [...], "rate": ...}`,
or `{"error": "..."}`, the end of a sentence that begins with the field's name.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import resource
import sys
from typing import Any

LEAST_FRAMES = 4  # of a short video, if it has as many: Qwen's
FASTEST = 240  # frames per second; more are a mistake in the file, or an attack


class Unusable(Exception):
    pass


def main(path: str, limits: dict[str, Any]) -> None:
    os.nice(10)  # the engine comes first
    with contextlib.suppress(ValueError, OSError):  # macOS has no such limit
        resource.setrlimit(resource.RLIMIT_DATA, (limits["memory"], limits["memory"]))
    try:
        header, frames = decoded(path, limits)
    except Unusable as error:
        header, frames = {"error": str(error)}, []
    out = sys.stdout.buffer
    out.write(json.dumps(header).encode() + b"\n")
    for frame in frames:
        out.write(frame.tobytes())
    out.flush()


def decoded(path: str, limits: dict[str, Any]) -> tuple[dict[str, Any], list[Any]]:
    """The frames that the header's count and rate select; if the file has fewer, those that its own count selects."""
    count, rate = _claimed(path, limits)
    frames, places, seen, last = _sampled(path, count, rate, limits)
    if seen < places[-1] + 1:
        if not seen:
            raise Unusable("is a damaged video: no frame of it can be decoded")
        rate = (seen - 1) / last if seen > 1 and last > 0 else min(rate, FASTEST)
        _check_length(seen, rate, limits)
        frames, places, seen, _ = _sampled(path, seen, rate, limits)
    if len(frames) < len(places):
        raise Unusable("is a damaged video: not all of it can be decoded")
    height, width = frames[0].shape[:2]
    return {"shape": [len(frames), height, width], "places": places, "rate": rate}, frames


def _claimed(path: str, limits: dict[str, Any]) -> tuple[int, float]:
    """The header's frame count and frame rate. Checked before any frame is kept."""
    import cv2

    capture = _opened(path)
    width, height = (int(capture.get(name)) for name in (cv2.CAP_PROP_FRAME_WIDTH, cv2.CAP_PROP_FRAME_HEIGHT))
    if width < 1 or height < 1:
        raise Unusable("is a damaged video: it has no picture")
    if width * height > limits["pixels"]:
        raise Unusable(f"has frames of {width} x {height} pixels, and at most {limits['pixels']} pixels are allowed")
    rate = float(capture.get(cv2.CAP_PROP_FPS))
    count = capture.get(cv2.CAP_PROP_FRAME_COUNT)
    capture.release()
    if not math.isfinite(rate) or rate <= 0:
        rate = 25.0
    most = int(limits["seconds"] * FASTEST) + 1
    claimed = int(count) if math.isfinite(count) and count >= 1 else most  # unknown
    if claimed < most or rate <= FASTEST:
        _check_length(claimed if claimed != most else 1, rate, limits)
    return min(claimed, most), rate


def _check_length(count: int, rate: float, limits: dict[str, Any]) -> None:
    if count / rate > limits["seconds"] or count > limits["seconds"] * FASTEST:
        found = f"is {count / rate:.0f} seconds long ({count} frames)"
        raise Unusable(f"{found}, and at most {limits['seconds']:g} seconds are allowed")


def _sampled(path: str, count: int, rate: float, limits: dict[str, Any]) -> tuple[list[Any], list[int], int, float]:
    """The selected frames as RGB, their places, the number of frames seen, and the time of the last one."""
    import cv2

    places = chosen(count, rate, limits["fps"], limits["frames"])
    wanted = set(places)
    capture = _opened(path)
    kept: dict[int, Any] = {}
    seen, last = 0, 0.0
    while seen <= places[-1] and capture.grab():
        last = max(last, capture.get(cv2.CAP_PROP_POS_MSEC) / 1000)
        if seen in wanted:
            whole, frame = capture.retrieve()
            if not whole or frame is None:
                break
            first = next(iter(kept.values()), None)
            kept[seen] = _fitted(frame, first, len(places), limits)
        seen += 1
    capture.release()
    return [kept[place] for place in places if place in kept], places, seen, last


def _fitted(frame: Any, first: Any, count: int, limits: dict[str, Any]) -> Any:
    """A frame in the size of the first one, which is scaled so that all frames together keep to the limit."""
    import cv2

    height, width = frame.shape[:2]
    if height * width > limits["pixels"]:
        raise Unusable(f"has frames of {width} x {height} pixels, and at most {limits['pixels']} pixels are allowed")
    size = (height, width)
    if first is not None:
        size = first.shape[:2]
    elif height * width * count > limits["kept"]:
        scale = math.sqrt(limits["kept"] / (height * width * count))
        size = (max(int(height * scale), 1), max(int(width * scale), 1))
    if size != (height, width):
        frame = cv2.resize(frame, (size[1], size[0]), interpolation=cv2.INTER_AREA)
    return cv2.cvtColor(frame, cv2.COLOR_BGR2RGB)


def chosen(count: int, rate: float, fps: float, most: int) -> list[int]:
    """Places spread evenly over the video: `fps` per second, at least a few, an even number if there are two."""
    wanted = min(max(int(count / rate * fps), LEAST_FRAMES), most, count)
    if wanted > 1:
        wanted -= wanted % 2
    if wanted == 1:
        return [0]
    return [round(place * (count - 1) / (wanted - 1)) for place in range(wanted)]


def _opened(path: str) -> Any:
    import cv2

    capture = cv2.VideoCapture(path, cv2.CAP_FFMPEG, [cv2.CAP_PROP_N_THREADS, 1])
    if not capture.isOpened():
        raise Unusable("is a damaged video, or in a format that is not read here")
    return capture


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]))
