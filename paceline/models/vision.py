"""Media for any family of mlx-vlm's: one protocol, one generic implementation, and small parts per class of families.

A picture is processed by the model's own processor as if it were a prompt of its own. mlx-vlm's `get_input_embeddings`
on those tokens gives its features: the rows at its places. So no family's tower needs code here.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import mlx.core as mx
import mlx.nn as nn
import numpy as np
from numpy.typing import NDArray

from paceline.errors import InvalidRequest, LoadError
from paceline.models.files import one_line
from paceline.models.tower import Tower, load_processor
from paceline.types import Media, MediaInputs, MediaKind

if TYPE_CHECKING:
    from PIL.Image import Image as Picture

    from paceline.models.hearing import AudioProcessor
    from paceline.models.qwen_vision import VideoProcessor

TEXT_OUTPUTS = ("input_ids", "attention_mask", "token_type_ids", "mm_token_type_ids")
# Pictures whose inputs show how large inputs get. Processors that cut tiles cut the most at one of these ratios: of 12
# tiles at most, a square gets 9, and a picture of 4:3 gets 12.
LONG_SIDES = (
    (2400, 1800),
    (2400, 1600),
    (2400, 1500),
    (2400, 1200),
    (3000, 1200),
    (2400, 800),
    (3000, 600),
    (3000, 500),
)
FIRST_PROBES = ((64, 64), (2048, 2048), (3000, 300), (300, 3000))


@dataclass(frozen=True, slots=True)
class Reference:
    """What mlx-vlm makes of a prompt: `logits` after it and after each of `forced`."""

    token_ids: tuple[int, ...]
    embeddings: mx.array
    positions: NDArray[np.int32] | None
    forced: tuple[int, ...]
    logits: list[mx.array]


class Vision:
    """What a prompt and the engine need of a model's towers.

    `preprocess` runs on any thread, `encode` and `reference` on the thread that owns MLX.
    """

    video_processor: VideoProcessor | None = None  # None: no videos
    audio_processor: AudioProcessor | None = None  # None: no audio
    two_sided = False  # whether a medium's tokens see each other, also those behind: no chunk may end inside it
    input_token: int | None = None  # what the model reads where features are; None: the token of the prompt

    def __init__(self, tower: Tower, processor: Any, config: dict[str, Any]) -> None:
        self.tower = tower
        self.view = tower.view
        self.processor = processor
        self.image_token = self._image_token(config)
        self.marker = self._marker()
        self.marker_token = self._single(self.marker)
        self.placeholder = self.marker  # with what a template writes around it
        self._most_bytes: int | None = None

    @classmethod
    def build(
        cls,
        folder: Path,
        config: dict[str, Any],
        language: nn.Module,
        tower: Tower,
        weights: dict[str, mx.array],
        *,
        whole: bool = True,
    ) -> Vision:
        """The family's implementation over mlx-lm's language model. Raises LoadError."""
        from paceline.models.families import implementation

        try:
            tower.load(language, weights, config, whole=whole)
            return implementation(tower.family)(tower, load_processor(folder), config)
        except Exception as error:  # any failure becomes one line
            raise LoadError(f"The vision tower of {folder} cannot be built: {one_line(error)}") from error

    # -- for any thread

    def preprocess(self, picture: Picture) -> Media:
        """Resize a picture and cut it up, by the model's processor."""
        text, inputs = self.inputs(picture)
        return self.media(tuple(self.token_ids(text)), inputs, text)

    def inputs(self, picture: Picture) -> tuple[str, MediaInputs]:
        """What a picture becomes: text for the prompt, and inputs of the tower."""
        text, outputs = self.processed(self.marker, images=[picture])
        return text, inputs_of(outputs)

    def input_bytes(self, pixels: int) -> int:
        """The most memory of a picture's inputs. Processors bound sizes and tiles; probes show where."""
        if self._most_bytes is None:
            self._most_bytes = self._probed()
        return self._most_bytes

    def _probed(self) -> int:
        """As few probes as show it: a large one takes a tenth of a second, and a client waits."""
        cost = self.cost
        found = [cost(size) for size in FIRST_PROBES]
        if len(set(found)) == 1:  # every picture is scaled to one size
            return found[0]
        (long, short), *others = LONG_SIDES
        ways = [cost((long, short)), cost((short, long))]
        found += [*ways, *(cost(size) for size in others)]
        if ways[0] != ways[1] or found[2] != found[3]:  # pictures that stand are cut in another way
            found += [cost((short, long)) for long, short in others]
        return max(found)

    def cost(self, size: tuple[int, int]) -> int:
        """Bytes of the inputs of a picture of this size; none, if it is refused."""
        from PIL import Image

        try:
            return _bytes(self.inputs(Image.new("RGB", size))[1])  # without a digest, which takes as long
        except InvalidRequest:
            return 0

    def media(
        self,
        token_ids: tuple[int, ...],
        inputs: MediaInputs,
        text: str = "",
        kind: MediaKind = "image",
        token: int | None = None,
    ) -> Media:
        """`token`: where its features are put, if not where an image's are."""
        token = self.image_token if token is None else token
        arrays = _all_arrays(inputs)
        digest = hashlib.sha256(repr([(array.shape, array.dtype.str) for array in arrays]).encode())
        for array in arrays:
            digest.update(np.ascontiguousarray(array).data)
        return Media(
            digest.hexdigest(),
            token_ids.count(token),
            token,
            token_ids,
            text,
            _bytes(inputs),
            kind,
            inputs,
        )

    def numbered(self, media: Sequence[Media]) -> list[Media]:
        """A prompt's media in order, with the tokens that they have in this order."""
        return list(media)

    def positions(self, token_ids: tuple[int, ...], media: tuple[Media, ...]) -> tuple[NDArray[np.int32], int] | None:
        """Position ids (3, tokens) of a prompt, and the next id minus the tokens. None: they count up."""
        return None

    # -- on MLX's thread

    @property
    def residual_layers(self) -> tuple[int, ...]:
        """Layers of the language model before which something of their own is added at media's tokens (deepstack)."""
        found = getattr(getattr(self.tower.config, "vision_config", None), "deepstack_visual_indexes", None) or ()
        return tuple(range(1, len(found) + 1))

    @property
    def tower_bytes(self) -> int:
        return self.tower.nbytes

    def encode(self, medium: Media) -> mx.array:
        """Features (tokens, hidden) of one medium. Where some layers have residuals, those follow along the last
        axis."""
        ids = mx.array([medium.token_ids])
        found = self.view.get_input_embeddings(ids, **self._inputs(medium.inputs), mask=mx.ones_like(ids))
        places = mx.array(np.flatnonzero(np.array(medium.token_ids) == medium.token_id))
        rows = [found.inputs_embeds[0][places]]
        if found.deepstack_visual_embeds is not None:
            rows += list(found.deepstack_visual_embeds)
        return rows[0] if len(rows) == 1 else mx.concatenate(rows, axis=-1)

    def reference(self, pictures: Sequence[Picture], text: str, steps: int) -> Reference:
        """What mlx-vlm makes of a text with pictures, in one pass, and of `steps` greedy tokens after it."""
        text, outputs = self.processed(text, images=list(pictures))
        return self.reference_of(tuple(self.token_ids(text)), outputs, steps)

    def reference_of(self, token_ids: tuple[int, ...], outputs: Mapping[str, Any], steps: int) -> Reference:
        """The same of a prompt that its processor has made."""
        from mlx_vlm.models.cache import make_prompt_cache

        ids = mx.array([token_ids])
        text_only = ("input_ids", "attention_mask")  # kinds of tokens belong to it: they may make attention two-sided
        inputs = self._inputs({name: value for name, value in outputs.items() if name not in text_only})
        found = self.view.get_input_embeddings(ids, **inputs, mask=mx.ones_like(ids))
        embeddings = mx.stop_gradient(found.inputs_embeds)  # a handle of its own: Gemma scales the other in place
        for name in ("pixel_values", "input_features"):
            inputs.pop(name, None)
        more = inputs | {name: value for name, value in found.to_dict().items() if value is not None}
        language = self.view.language_model
        if not self.tower.whole:
            positions = self.reference_positions(found)
            return Reference(token_ids, self.features_of(embeddings[0]), positions, (), [])
        cache = make_prompt_cache(language)
        logits = [language(ids, cache=cache, **more).logits[0, -1]]
        forced: list[int] = []
        for _ in range(steps):
            forced.append(int(mx.argmax(logits[-1]).item()))  # type: ignore[arg-type]
            logits.append(language(mx.array([forced[-1:]]), cache=cache).logits[0, -1])
        mx.eval(logits)
        positions = self.reference_positions(found)
        return Reference(token_ids, self.features_of(embeddings[0]), positions, tuple(forced), logits)

    def reference_positions(self, found: Any) -> NDArray[np.int32] | None:
        return None if found.position_ids is None else np.array(found.position_ids)[:, 0]

    def features_of(self, embeddings: mx.array) -> mx.array:
        """The same numbers as in `encode`, of mlx-vlm's embeddings."""
        return embeddings

    def _inputs(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        return {name: _mlx(value) for name, value in inputs.items()}

    # -- internal

    def _image_token(self, config: dict[str, Any]) -> int:
        names = ("image_token_index", "image_token_id")
        found = [config.get(name) for name in names]  # mlx-vlm's configuration has defaults for what is not there
        found += [getattr(owner, name, None) for owner in (self.tower.config, self.processor) for name in names]
        for id in found:
            if isinstance(id, int):
                return id
        raise ValueError("its configuration names no image token")

    def _marker(self) -> str:
        """What a chat template writes for a picture."""
        for owner in (self.processor, self.tokenizer):
            if isinstance(found := getattr(owner, "image_token", None), str):
                return found
        return str(self.tokenizer.convert_ids_to_tokens(self.image_token))

    @property
    def tokenizer(self) -> Any:
        return getattr(self.processor, "tokenizer", self.processor)

    def token_ids(self, text: str) -> list[int]:
        ids: list[int] = self.tokenizer.encode(text, add_special_tokens=False)
        return ids

    def _single(self, text: str) -> int | None:
        """The id of a text that is always one token."""
        found = self.tokenizer.get_added_vocab().get(text)
        return None if found is None else int(found)

    def processed(self, text: str, **media: list[Any]) -> tuple[str, Mapping[str, Any]]:
        """A text with its markers replaced, and the processor's outputs. `media`: lists, by the processor's names."""
        processor = copy.copy(self.processor)
        processor.tokenizer = recorder = _Recorder(self.tokenizer, self.token_ids)
        try:
            outputs = self._call(processor, text, **media)
        except (ValueError, IndexError, ZeroDivisionError) as error:  # for example a picture 200 times as wide as high
            what = "audio" if "audio" in media else "picture"
            raise InvalidRequest(f"The {what} cannot be used: {error}", field="messages") from error
        return recorder.text, outputs

    def _call(self, processor: Any, text: str, **media: list[Any]) -> Mapping[str, Any]:
        outputs: Mapping[str, Any] = processor(text=[text], **media)
        return outputs


class _Recorder:
    """Stands in for a processor's tokenizer, and remembers the text that the processor made."""

    def __init__(self, tokenizer: Any, encode: Any) -> None:
        self._tokenizer, self._encode = tokenizer, encode
        self.text = ""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tokenizer, name)

    def __call__(self, text: str | Sequence[str], **options: Any) -> Any:
        from transformers import BatchEncoding

        self.text = text if isinstance(text, str) else text[0]
        ids = self._encode(self.text)
        return BatchEncoding({"input_ids": [ids], "attention_mask": [[1] * len(ids)]})


def inputs_of(outputs: Mapping[str, Any]) -> MediaInputs:
    """What a processor made of media, without what it made of their text."""
    return MediaInputs({name: _numpy(value) for name, value in outputs.items() if name not in TEXT_OUTPUTS})


def _numpy(value: Any) -> Any:
    """Arrays as numpy's: a medium may wait long, and be dropped on any thread."""
    if isinstance(value, mx.array | np.ndarray):
        return np.array(value)
    if isinstance(value, list | tuple):
        return tuple(_numpy(part) for part in value)
    return value


def _mlx(value: Any) -> Any:
    if isinstance(value, list):
        value = tuple(value)
    if isinstance(value, np.ndarray):
        return mx.array(value)
    if isinstance(value, tuple):
        return [_mlx(part) for part in value]
    return value


def _bytes(inputs: MediaInputs) -> int:
    return sum(array.nbytes for array in _all_arrays(inputs))


def _all_arrays(inputs: MediaInputs) -> list[NDArray[Any]]:
    return [array for value in inputs.values() for array in _arrays(value)]


def _arrays(value: Any) -> list[NDArray[Any]]:
    if isinstance(value, tuple):
        return [array for part in value for array in _arrays(part)]
    return [value if isinstance(value, np.ndarray) else np.array(value)]
