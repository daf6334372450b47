"""MiniCPM-V 4.6: a picture and its slices, behind the number that the picture has in its prompt."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import mlx.core as mx
import numpy as np

from paceline.errors import InvalidRequest
from paceline.models.qwen_vision import STEEPEST
from paceline.models.vision import Reference, Vision, inputs_of
from paceline.types import Media, MediaInputs

if TYPE_CHECKING:
    from PIL.Image import Image as Picture

NEEDED = ("pixel_values", "tgt_sizes")
TARGET_BYTES = 8  # of a slice's height and width in patches


class MiniCPMVision(Vision):
    """Its processor makes tokens, not text. They begin and end with special ones."""

    def preprocess(self, picture: Picture) -> Media:
        ids, outputs = self._made([picture], self.marker)
        return self.media(ids, inputs_of({name: outputs[name] for name in NEEDED}))

    def input_bytes(self, pixels: int) -> int:
        """All slices, each as large as one of the steepest ratio becomes when its sides are rounded up."""
        processor = self.processor.image_processor
        scale, block, lengthened = processor.scale_resolution, 4 * processor.patch_size, math.sqrt(STEEPEST)
        area = (scale * lengthened + block) * (scale / lengthened + block)
        return (processor.max_slice_nums + 1) * (math.ceil(area) * 3 * 4 + TARGET_BYTES)

    def numbered(self, media: Sequence[Media]) -> list[Media]:
        end = self._special("im_id_end")
        made = []
        for number, medium in enumerate(media):
            ids = medium.token_ids
            if end in ids:
                label = (
                    f"{self.processor.image_processor.im_id_start}{number}{self.processor.image_processor.im_id_end}"
                )
                ids = (*self.token_ids(label), *ids[ids.index(end) + 1 :])
            made.append(replace(medium, token_ids=ids))
        return made

    def encode(self, medium: Media) -> mx.array:
        bounds = self._bounds(medium.token_ids)
        return super().encode(replace(medium, inputs=MediaInputs({**medium.inputs, "image_bound": (bounds,)})))

    def reference(self, pictures: Sequence[Picture], text: str, steps: int) -> Reference:
        ids, outputs = self._made(pictures, text)
        return self.reference_of(ids, {name: outputs[name] for name in (*NEEDED, "image_bound")}, steps)

    def _made(self, pictures: Sequence[Picture], text: str) -> tuple[tuple[int, ...], Mapping[str, Any]]:
        try:
            outputs = self.processor(text=[text], images=[list(pictures)])
        except (ValueError, IndexError, ZeroDivisionError) as error:
            raise InvalidRequest(f"The picture cannot be used: {error}", field="messages") from error
        return tuple(outputs["input_ids"][0].tolist()), outputs

    def _bounds(self, ids: Sequence[int]) -> Any:
        """Where features are: between the tokens around a picture, and around each of its slices."""
        starts = [self._special(name) for name in ("im_start", "slice_start")]
        ends = [self._special(name) for name in ("im_end", "slice_end")]
        return np.stack([np.flatnonzero(np.isin(ids, starts)) + 1, np.flatnonzero(np.isin(ids, ends))], axis=1)

    def _special(self, name: str) -> int:
        return int(self.tokenizer.convert_tokens_to_ids(getattr(self.processor.image_processor, name)))
