"""Which implementation of `Vision` a family of mlx-vlm's has. Families that are not listed use the generic one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import mlx.core as mx
import numpy as np

from paceline.errors import InvalidRequest
from paceline.models.hearing import AudioProcessor
from paceline.models.llava_vision import Granite4Vision, LlavaNextVision, LlavaVision
from paceline.models.minicpm_vision import MiniCPMVision
from paceline.models.qwen_vision import STEEPEST, QwenVision
from paceline.models.tower import Tower
from paceline.models.vision import Vision
from paceline.types import Media, MediaInputs

if TYPE_CHECKING:
    from PIL.Image import Image as Picture


class Gemma3Vision(Vision):
    """The template writes the token that begins an image; the processor puts line breaks around."""

    def _marker(self) -> str:
        return str(self.processor.boi_token)


class Gemma4Vision(Vision):
    """mlx-vlm scales embeddings before it merges, mlx-lm after. Layers' own inputs are the padding token's where media
    stand."""

    input_token = 0

    def __init__(self, tower: Tower, processor: Any, config: dict[str, Any]) -> None:
        super().__init__(tower, processor, config)
        self.two_sided = getattr(tower.config.text_config, "use_bidirectional_attention", None) == "vision"
        if getattr(tower.config, "audio_config", None) and getattr(processor, "feature_extractor", None) is not None:
            self.audio_processor = AudioProcessor(self)

    def encode(self, medium: Media) -> mx.array:
        return super().encode(medium) / self.view.language_model.model.embed_scale

    def features_of(self, embeddings: mx.array) -> mx.array:
        return embeddings / self.view.language_model.model.embed_scale


class InternVision(Vision):
    """Its marker is plain text. mlx-vlm's image processor computes on MLX; this is the same in numpy."""

    def _marker(self) -> str:
        return "<image>"

    def _image_token(self, config: dict[str, Any]) -> int:
        return int(self.processor.img_context_token_id)

    def _call(self, processor: Any, text: str, **media: list[Any]) -> Mapping[str, Any]:
        from mlx_vlm.models.internvl_chat import processor as library

        own, tiles, written = processor.image_processor, [], text
        for picture in media["images"]:
            cut = library.dynamic_preprocess(
                picture,
                min_num=own.dynamic_min_num,
                max_num=own.dynamic_max_num,
                image_size=own.size,
                use_thumbnail=own.dynamic_use_thumbnail,
            )
            tiles += [np.asarray(tile.convert("RGB"), dtype=np.float32) / np.float32(255) for tile in cut]
            context = library.IMG_CONTEXT_TOKEN * (processor.num_image_token * len(cut))
            written = written.replace(self.marker, library.IMG_START_TOKEN + context + library.IMG_END_TOKEN, 1)
        processor.tokenizer([written])
        mean, deviation = library.IMAGENET_MEAN.astype(np.float32), library.IMAGENET_STD.astype(np.float32)
        pixels = ((np.stack(tiles) - mean) / deviation).transpose(0, 3, 1, 2)
        return {"pixel_values": np.ascontiguousarray(pixels)[None], "image_token_index": self.image_token}


class KimiVision(Vision):
    """mlx-vlm's image processor computes on MLX, pixel by pixel in Python; this is the same in numpy."""

    def _call(self, processor: Any, text: str, **media: list[Any]) -> Mapping[str, Any]:
        own, patches, grids, written = processor.image_processor, [], [], text
        high, wide = own.merge_kernel_size
        mean, deviation = (np.array(values, dtype=np.float32) for values in (own.image_mean, own.image_std))
        for picture in media["images"]:
            pixels = np.asarray(own.rescale(picture.convert("RGB")), dtype=np.float32) / np.float32(255)
            rows, columns = (length // own.patch_size for length in pixels.shape[:2])
            if not rows * columns:
                raise ValueError(f"it needs {wide * own.patch_size} x {high * own.patch_size} pixels at least")
            cut = ((pixels - mean) / deviation).reshape(rows, own.patch_size, columns, own.patch_size, 3)
            patches.append(cut.transpose(0, 2, 4, 1, 3).reshape(rows * columns, 3, own.patch_size, own.patch_size))
            grids.append((rows, columns))
            written = written.replace(self.marker, "\0" * (rows * columns // (high * wide)), 1)
        processor.tokenizer([written.replace("\0", self.marker)])
        return {"pixel_values": np.concatenate(patches), "image_grid_hws": np.array(grids)}


class GlmVision(QwenVision):
    """As Qwen's, but the processor is transformers', whose limits are found by trying."""

    def input_bytes(self, pixels: int) -> int:
        return Vision.input_bytes(self, pixels)

    def _probed(self) -> int:
        """Of a picture that is scaled down, a side is still a block: the steepest ones have the most."""
        steep = STEEPEST - 1
        return max(super()._probed(), self.cost((20 * steep, 20)), self.cost((20, 20 * steep)))


class Lfm2Vision(Vision):
    def inputs(self, picture: Picture) -> tuple[str, MediaInputs]:
        """Of a picture many times as long as wide, the processor makes more patches than a tile has."""
        text, inputs = super().inputs(picture)
        if (np.prod(inputs["spatial_shapes"], axis=-1) > inputs["pixel_values"].shape[1]).any():
            raise InvalidRequest("The picture cannot be used: it is too long for its width.", field="messages")
        return text, inputs


IMPLEMENTATIONS: dict[str, type[Vision]] = {
    "qwen2_vl": QwenVision,
    "qwen2_5_vl": QwenVision,
    "qwen3_vl": QwenVision,
    "qwen3_vl_moe": QwenVision,
    "qwen3_5": QwenVision,
    "qwen3_5_moe": QwenVision,
    "gemma3": Gemma3Vision,
    "gemma4": Gemma4Vision,
    "glm4v": GlmVision,
    "glm4v_moe": GlmVision,
    "granite4_vision": Granite4Vision,
    "granite_vision": LlavaNextVision,
    "internvl_chat": InternVision,
    "kimi_vl": KimiVision,
    "lfm2_vl": Lfm2Vision,
    "llava_next": LlavaNextVision,
    "llava_onevision": LlavaVision,
    "minicpmv4_6": MiniCPMVision,
}


# Families whose towers must load. Others are served as text if theirs do not: many checkpoints lack processor files.
REQUIRED = ("qwen3_5", "qwen3_5_moe")


def implementation(family: str) -> type[Vision]:
    return IMPLEMENTATIONS.get(family, Vision)
