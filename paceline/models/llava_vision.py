"""LLaVA-NeXT, LLaVA-OneVision, Granite Vision: tiles of a picture without their padding, a newline after each row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from paceline.models.tower import Tower
from paceline.models.vision import Vision
from paceline.types import MediaInputs

if TYPE_CHECKING:
    from PIL.Image import Image as Picture


class LlavaVision(Vision):
    """Processors count the features without padding rounded, and mlx-vlm 0.7.10 cuts them unrounded: of one size in
    13,000 it has fewer. Such a picture becomes a pixel wider."""

    def inputs(self, picture: Picture) -> tuple[str, MediaInputs]:
        while self._cut_short(*picture.size):
            picture = picture.resize((picture.width + 1, picture.height))
        return super().inputs(picture)

    @property
    def side(self) -> int:
        """Features in a row of a tile."""
        vision = self.tower.config.vision_config
        return int(vision.image_size // vision.patch_size)

    def _cut_short(self, width: int, height: int) -> bool:
        from transformers.image_processing_utils import select_best_resolution

        tile = self.tower.config.vision_config.image_size
        best = select_best_resolution((height, width), self.processor.image_processor.image_grid_pinpoints)
        rows, columns = (length // tile * self.side for length in best)
        left = height * (columns / width) if width / height > columns / rows else width * (rows / height)
        return int(left) != int(round(left, 7))


class LlavaNextVision(LlavaVision):
    """mlx-vlm 0.7.10 reads a prompt's first picture only, and puts features where they do not belong. Its class of
    LLaVA-OneVision has the same parts and arranges them as transformers does, so it embeds here."""

    def __init__(self, tower: Tower, processor: Any, config: dict[str, Any]) -> None:
        from mlx_vlm.models.llava_onevision import Model

        super().__init__(tower, processor, config)
        self.view.config.image_grid_pinpoints = processor.image_processor.image_grid_pinpoints
        own = {"max_num_patches": 1 << 30}  # of these, no picture's features are scaled down
        self.view.__class__ = type("Model", (Model, type(self.view)), own)
