"""Videos for a vision tower, as Qwen's processors cut them: pairs of frames, each with its time in front.

A pair is to the engine what a picture is: one grid of patches, one run of placeholders, spread over height and width
only. The tower attends within a pair and never across, so pairs can be encoded one by one like pictures; that two
frames lie in one patch is the whole difference. The placeholder's own id does not matter, for features take its place.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paceline.errors import InvalidRequest
from paceline.types import Image


class VideoProcessor:
    """Numpy work only, on any thread. `marker` is what a template writes for a video, `pair_marker` for a picture."""

    def __init__(self, processor: Any) -> None:
        self._processor = processor.video_processor
        start, end = processor.vision_start_token, processor.vision_end_token
        self.video_placeholder = f"{start}{processor.video_token}{end}"
        self.image_placeholder = f"{start}{processor.image_token}{end}"
        self.group_size = int(self._processor.temporal_patch_size)  # frames in a patch

    @classmethod
    def of(cls, processor: Any) -> VideoProcessor | None:
        """None where the checkpoint's processor has no part for videos."""
        if getattr(processor, "video_processor", None) is None:
            return None
        return cls(processor)

    def patch_bytes(self, pixels: int) -> int:
        """Memory of a video's patches at most, for so many pixels in all its frames."""
        return min(pixels, self._processor.max_pixels) * 5 // 4 * 3 * 4

    def pairs(self, frames: NDArray[np.uint8]) -> list[Image]:
        """Frames (count, height, width, 3) as patches. The last frame is repeated where one is missing."""
        try:
            inputs = self._processor(videos=[frames])
        except ValueError as error:  # for example a video 200 times as wide as high
            raise InvalidRequest(f"The video cannot be used: {error}", field="messages") from error
        patches: NDArray[np.float32] = np.ascontiguousarray(inputs["pixel_values_videos"], dtype=np.float32)
        time, height, width = (int(n) for n in np.asarray(inputs["video_grid_thw"])[0])
        grid = (1, height, width)
        return [
            Image(part, grid, hashlib.sha256(repr(grid).encode() + part.tobytes()).hexdigest())
            for part in np.split(patches, time)
        ]
