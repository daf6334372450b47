"""Audio for families of mlx-vlm's with an audio tower: a recording is a medium like a picture."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from paceline.models.vision import inputs_of
from paceline.types import Media

if TYPE_CHECKING:
    from paceline.models.vision import Reference, Vision

LONGEST = 480_000  # samples: Gemma's feature extractor drops what follows
SLACK = 4  # frames of a spectrogram beyond those of its samples: padding


class AudioProcessor:
    """The model's own feature extractor, on any thread. `reference` runs on the thread that owns MLX."""

    def __init__(self, vision: Vision) -> None:
        self._vision = vision
        self._extractor = vision.processor.feature_extractor
        self.token = int(vision.tower.config.audio_token_id)
        self.marker = str(vision.tokenizer.convert_ids_to_tokens(self.token))
        self.rate = int(self._extractor.sampling_rate)
        self._step = self.rate * int(vision.processor.audio_ms_per_token) // 1000  # samples of a token
        self.max_seconds = min(LONGEST, self._step * int(vision.processor.audio_seq_length)) / self.rate

    def preprocess(self, samples: NDArray[np.float32]) -> Media:
        text, outputs = self._vision.processed(self.marker, audio=[self._whole(samples)])
        ids = tuple(self._vision.token_ids(text))
        return self._vision.media(ids, inputs_of(outputs), text, "audio", self.token)

    def input_bytes(self, seconds: float) -> int:
        """The most memory of a spectrogram, and of its mask."""
        samples = seconds * self.rate + self._step
        frames = int(samples) // int(self._extractor.hop_length) + SLACK
        return frames * (int(self._extractor.feature_size) + 1) * 4

    def reference(self, recordings: list[NDArray[np.float32]], text: str, steps: int) -> Reference:
        """What mlx-vlm makes of a text with one recording. Of several, it takes features from wrong places unless
        all have the same length."""
        whole = [self._whole(samples) for samples in recordings]
        text, outputs = self._vision.processed(text, audio=whole)
        return self._vision.reference_of(tuple(self._vision.token_ids(text)), outputs, steps)

    def _whole(self, samples: NDArray[np.float32]) -> NDArray[np.float32]:
        """With silence up to a whole token: for a rest, mlx-vlm 0.7.10 repeats the first features."""
        return np.pad(samples, (0, -len(samples) % self._step))
