"""Images and videos: mlx-vlm's tower and processors over the arrays that the language model already holds.

mlx-vlm is imported only here, when a checkpoint has a vision tower: the import alone takes seconds.
"""

from __future__ import annotations

import hashlib
import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import mlx.core as mx
import mlx.nn as nn
import numpy as np
from mlx.utils import tree_flatten
from numpy.typing import NDArray

from paceline.errors import InvalidRequest, LoadError
from paceline.models.adapter import stored_quantization
from paceline.models.files import one_line
from paceline.models.positions import image_positions
from paceline.types import Image

if TYPE_CHECKING:
    from PIL.Image import Image as Picture

VISION_FAMILIES = ("qwen3_5", "qwen3_5_moe")


class Vision:
    """`preprocess` runs on any thread (numpy only); `encode` on the thread that owns MLX."""

    def __init__(self, view: nn.Module, processor: Any, config: dict[str, Any]) -> None:
        self.view = view
        self.processor = processor.image_processor
        self.video_processor = VideoProcessor.of(processor)  # None: only images
        self.image_token = int(config["image_token_id"])
        self.merge = int(config["vision_config"]["spatial_merge_size"])

    @classmethod
    def build(cls, folder: Path, config: dict[str, Any], language: nn.Module, weights: dict[str, mx.array]) -> Vision:
        """mlx-vlm's model with the language model's own arrays and the tower's."""
        family = importlib.import_module(f"mlx_vlm.models.{config['model_type']}")
        from mlx_vlm.utils import load_processor

        shared = dict(tree_flatten(language.parameters()))
        try:
            view = family.Model(family.ModelConfig.from_dict(config))
            tower = view.vision_tower.sanitize(view.sanitize(dict(weights)))
            if any(name.endswith(".scales") for name in [*shared, *tower]):
                _quantize(view, config, {**shared, **tower})
            view.load_weights([*shared.items(), *tower.items()], strict=True)
            view.eval()
            mx.eval(view.vision_tower.parameters())
            processor = load_processor(folder, add_detokenizer=False)
        except Exception as error:  # any failure becomes one line
            raise LoadError(f"The vision tower of {folder} cannot be built: {one_line(error)}") from error
        return cls(view, processor, config)

    @property
    def tower_bytes(self) -> int:
        return sum(array.nbytes for _, array in tree_flatten(self.view.vision_tower.parameters()))

    def preprocess(self, picture: Picture) -> Image:
        """Resize an image and cut it into patches, by the model's processor."""
        try:
            inputs = self.processor(images=[picture])
        except ValueError as error:  # for example an image 200 times as wide as high
            raise InvalidRequest(f"The picture cannot be used: {error}", field="messages") from error
        patches: NDArray[np.float32] = np.ascontiguousarray(inputs["pixel_values"], dtype=np.float32)
        grid = tuple(int(n) for n in np.asarray(inputs["image_grid_thw"])[0])
        digest = hashlib.sha256(repr(grid).encode() + patches.tobytes()).hexdigest()
        return Image(patches, (grid[0], grid[1], grid[2]), digest)

    def patch_bytes(self, pixels: int) -> int:
        """The most memory of an image's patches: the processor scales large images down and tiny ones up."""
        least, most = self.processor.min_pixels, self.processor.max_pixels
        # Sides are rounded to whole patches; an image is repeated for each frame of a patch.
        return min(max(pixels, least), most) * 5 // 4 * 3 * 4 * int(self.processor.temporal_patch_size)

    def tokens(self, image: Image) -> int:
        """How many placeholder tokens the image takes in a prompt."""
        time, height, width = image.grid
        return time * height * width // self.merge**2

    def encode(self, image: Image) -> mx.array:
        """Features (tokens, hidden) of one image, lazy."""
        tower = self.view.vision_tower
        pixels = mx.array(image.patches).astype(tower.patch_embed.proj.weight.dtype)
        features, _ = tower(pixels, mx.array([image.grid]))
        return features

    def positions(self, token_ids: tuple[int, ...], images: tuple[Image, ...]) -> tuple[NDArray[np.int32], int]:
        return image_positions(token_ids, [image.grid for image in images], self.image_token, self.merge)


def _quantize(view: nn.Module, config: dict[str, Any], weights: dict[str, mx.array]) -> None:
    quantization = config.get("quantization") or {}

    def predicate(path: str, module: nn.Module) -> bool | dict[str, Any]:
        stored = stored_quantization(path, module, weights)
        if stored is None:
            return False
        special = quantization.get(path)
        return special if isinstance(special, dict) else {**stored, "mode": quantization.get("mode", "affine")}

    nn.quantize(
        view,
        group_size=quantization.get("group_size", 64),
        bits=quantization.get("bits", 4),
        class_predicate=predicate,
    )


class VideoProcessor:
    """Cuts videos into pairs of frames, as Qwen's processors do. Only numpy, on any thread.

    A pair is like an image to the engine: one grid of patches and one run of placeholders. The tower attends within a
    pair and never across, so pairs are encoded one by one; the only difference is that two frames are in a patch. The
    placeholder's own id does not matter, because features replace it.
    """

    def __init__(self, processor: Any) -> None:
        self._processor = processor.video_processor
        start, end = processor.vision_start_token, processor.vision_end_token
        self.video_placeholder = f"{start}{processor.video_token}{end}"
        self.image_placeholder = f"{start}{processor.image_token}{end}"
        self.group_size = int(self._processor.temporal_patch_size)  # frames in a patch

    @classmethod
    def of(cls, processor: Any) -> VideoProcessor | None:
        """None if the checkpoint's processor takes no videos."""
        return None if getattr(processor, "video_processor", None) is None else cls(processor)

    def patch_bytes(self, pixels: int) -> int:
        """The most memory of a video's patches, for `pixels` in all its frames."""
        return min(pixels, self._processor.max_pixels) * 5 // 4 * 3 * 4

    def pairs(self, frames: NDArray[np.uint8]) -> list[Image]:
        """Frames (count, height, width, 3) as patches. The last frame is repeated if one is missing."""
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
