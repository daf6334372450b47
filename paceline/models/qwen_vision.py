"""Qwen's towers: pictures of any shape, three-axis positions, videos as pairs of frames. All but encoding in numpy."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from paceline.errors import InvalidRequest
from paceline.models.positions import image_positions
from paceline.models.tower import Tower
from paceline.models.vision import Vision
from paceline.types import Media, MediaInputs, MediaKind

if TYPE_CHECKING:
    from PIL.Image import Image as Picture

VIDEO = ("qwen3_5", "qwen3_5_moe")  # families whose videos tests compare with mlx-vlm
STEEPEST = 200  # the processors refuse pictures that are longer, measured in widths
Grid = tuple[int, int, int]  # patches in time, height, width, before merging


class QwenVision(Vision):
    """The tower is called itself: it takes a picture's patches and grid, and attends within a picture only."""

    def __init__(self, tower: Tower, processor: Any, config: dict[str, Any]) -> None:
        super().__init__(tower, processor, config)
        self.image_processor = processor.image_processor
        self.merge = int(config["vision_config"].get("spatial_merge_size", 2))
        names = ("vision_start_token_id", "vision_end_token_id")
        around = [getattr(tower.config, name, None) or config.get(name) for name in names]
        start, end = (self.tokenizer.convert_ids_to_tokens(id) if id else "" for id in around)
        self.placeholder = f"{start}{self.marker}{end}"
        if tower.family in VIDEO and getattr(processor, "video_processor", None) is not None:
            self.video_processor = VideoProcessor(self, processor)

    def preprocess(self, picture: Picture) -> Media:
        try:
            inputs = self.image_processor(images=[picture])
        except ValueError as error:  # for example a picture 200 times as wide as high
            raise InvalidRequest(f"The picture cannot be used: {error}", field="messages") from error
        patches: NDArray[np.float32] = np.ascontiguousarray(inputs["pixel_values"], dtype=np.float32)
        time, height, width = (int(n) for n in np.asarray(inputs["image_grid_thw"])[0])
        return self.patched(patches, (time, height, width))

    def patched(self, patches: NDArray[np.float32], grid: Grid, kind: MediaKind = "image") -> Media:
        count = grid[0] * grid[1] * grid[2] // self.merge**2
        inputs = MediaInputs(pixel_values=patches, image_grid_thw=np.array([grid]))
        return self.media((self.image_token,) * count, inputs, kind=kind)

    def input_bytes(self, pixels: int) -> int:
        """The processor scales large images down and tiny ones up."""
        least, most = self.image_processor.min_pixels, self.image_processor.max_pixels
        block = int(self.image_processor.patch_size) * int(self.image_processor.merge_size)

        def rounded(area: int) -> int:
            # Each side grows by less than a block, and the sides of an area are longest at the steepest ratio.
            return area + math.ceil(block * math.sqrt(area) * (math.sqrt(STEEPEST) + 1)) + block**2

        # Scaled down, a side is still a block.
        largest = max(rounded(least), most + block**2, math.ceil(block * math.sqrt(STEEPEST * most)) + block**2)
        # An image is repeated for each frame of a patch.
        return min(rounded(max(pixels, least)), largest) * 3 * 4 * int(self.image_processor.temporal_patch_size)

    def encode(self, medium: Media) -> mx.array:
        tower = self.view.vision_tower
        pixels = mx.array(medium.inputs["pixel_values"]).astype(tower.patch_embed.proj.weight.dtype)
        features = tower(pixels, mx.array(medium.inputs["image_grid_thw"]))
        if not isinstance(features, tuple):
            return features
        features, deepstack = features
        return features if not len(deepstack or ()) else mx.concatenate([features, *deepstack], axis=-1)

    def positions(self, token_ids: tuple[int, ...], media: tuple[Media, ...]) -> tuple[NDArray[np.int32], int]:
        grids = [tuple(medium.inputs["image_grid_thw"][0].tolist()) for medium in media]
        return image_positions(token_ids, grids, self.image_token, self.merge)


class VideoProcessor:
    """Cuts videos into pairs of frames, as Qwen's processors do. Only numpy, on any thread.

    A pair is like an image to the engine: one grid of patches and one run of placeholders. The tower attends within a
    pair and never across, so pairs are encoded one by one; the only difference is that two frames are in a patch. The
    placeholder's own id does not matter, because features replace it.
    """

    def __init__(self, vision: QwenVision, processor: Any) -> None:
        self._vision = vision
        self._processor = processor.video_processor
        start, end = processor.vision_start_token, processor.vision_end_token
        self.video_placeholder = f"{start}{processor.video_token}{end}"
        self.image_placeholder = f"{start}{processor.image_token}{end}"
        self.group_size = int(self._processor.temporal_patch_size)  # frames in a patch

    def input_bytes(self, pixels: int) -> int:
        """The most memory of a video's patches, for `pixels` in all its frames."""
        return min(pixels, self._processor.max_pixels) * 5 // 4 * 3 * 4

    def pairs(self, frames: NDArray[np.uint8]) -> list[Media]:
        """Frames (count, height, width, 3) as patches. The last frame is repeated if one is missing."""
        try:
            inputs = self._processor(videos=[frames])
        except ValueError as error:  # for example a video 200 times as wide as high
            raise InvalidRequest(f"The video cannot be used: {error}", field="messages") from error
        patches: NDArray[np.float32] = np.ascontiguousarray(inputs["pixel_values_videos"], dtype=np.float32)
        time, height, width = (int(n) for n in np.asarray(inputs["video_grid_thw"])[0])
        return [self._vision.patched(part, (1, height, width), "video") for part in np.split(patches, time)]
