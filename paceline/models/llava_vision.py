"""LLaVA-NeXT, LLaVA-OneVision, Granite Vision: tiles of a picture without their padding, a newline after each row."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import mlx.core as mx
import numpy as np

from paceline.models.tower import Tower
from paceline.models.vision import Vision
from paceline.types import Media, MediaInputs

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


class Granite4Vision(LlavaVision):
    """Features of several of the tower's layers, each added before another layer of the language model. mlx-vlm 0.7.10
    reads a prompt's first picture only."""

    def __init__(self, tower: Tower, processor: Any, config: dict[str, Any]) -> None:
        super().__init__(tower, processor, config)
        self.view.__class__ = type("Model", (_Several, type(self.view)), {})

    @property
    def side(self) -> int:
        return int(super().side * Fraction(self.tower.config.downsample_rate))

    @property
    def residual_layers(self) -> tuple[int, ...]:
        config = self.tower.config
        spatial = config.spatial_target_layers if config.use_spatial_sampling else None
        return (*(layer for _, layer in config.deepstack_layer_map or ()), *(spatial or ()))

    def encode(self, medium: Media) -> mx.array:
        ids = mx.array([medium.token_ids])
        found = self.view.get_input_embeddings(ids, **self._inputs(medium.inputs))
        places = mx.array(np.flatnonzero(np.array(medium.token_ids) == medium.token_id))
        rows = mx.concatenate([found.inputs_embeds, found.deepstack_visual_embeds])[:, places]
        return mx.concatenate(list(rows), axis=-1)


class _Several:
    """A prompt's pictures as one with all of their tiles, until tiles are joined to pictures."""

    def get_input_embeddings(self, input_ids: Any = None, pixel_values: Any = None, **options: Any) -> Any:
        if pixel_values is not None:
            tiles = self._tiles(options["image_sizes"])
            pixel_values = mx.concatenate([mine[:n] for mine, n in zip(pixel_values, tiles, strict=True)])[None]
        return super().get_input_embeddings(input_ids, pixel_values, **options)  # type: ignore[misc]

    def _pack_and_unpad_image_features(self, features: list[mx.array], sizes: Any, strategy: str) -> list[mx.array]:
        ends = np.cumsum(self._tiles(sizes))[:-1].tolist()
        return super()._pack_and_unpad_image_features(mx.split(features[0], ends), sizes, strategy)  # type: ignore[misc]

    def _tiles(self, sizes: Any) -> list[int]:
        from mlx_vlm.models.llava_onevision.llava_onevision import image_size_to_num_patches

        config: Any = self.config  # type: ignore[attr-defined]
        pinpoints, side = config.image_grid_pinpoints, config.vision_config.image_size
        return [image_size_to_num_patches(size, pinpoints, side) for size in np.array(sizes).tolist()]
