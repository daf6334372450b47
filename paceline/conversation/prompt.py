"""From messages or text to a prompt: checked, normalized, rendered and tokenized, with images in place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from PIL.Image import Image as Picture

from paceline.conversation import continuation, expansion, video
from paceline.conversation.cache_boundaries import BoundaryFinder
from paceline.conversation.fill_in_middle import fill_in_middle
from paceline.conversation.media import LARGE, EncodedImage, Loader, Loading
from paceline.conversation.messages import (
    LONG_TEXT,
    ImagePart,
    MediaPart,
    VideoPart,
    check_calls,
    checked,
    checked_tools,
)
from paceline.conversation.normalize import normalized
from paceline.conversation.template import Templates
from paceline.conversation.tokenizer import Tokenizer
from paceline.conversation.video import VideoLimits
from paceline.errors import InvalidRequest, PromptTooLong
from paceline.host_memory import RequestMemory
from paceline.types import Media, Prompt

MAX_TOKEN = 32  # characters per token, at most, on average over any prompt
USUAL_TOKEN = 4  # characters per token in most texts
TEXT_BYTES = 320  # the tokenizer's memory per character, at worst
LARGEST_PICTURES = 10  # a request has at most the pixels of so many of the largest images: decoding takes time
PROCESSING_BYTES = 12  # the image processor's memory per pixel, before it scales the image down
UNLIMITED = 1 << 62
TAIL = 64  # characters of the prompt's end, which say how the output begins


def _characters(conversation: Sequence[Mapping[str, Any]]) -> int:
    """The length of the messages' texts, all of which a template writes."""
    count = 0
    for message in conversation:
        content = message["content"]
        texts = [part.get("text") or "" for part in content] if isinstance(content, list) else [content or ""]
        count += sum(map(len, texts))
    return count


class ImageProcessor(Protocol):
    """What a prompt needs for images, on any thread."""

    image_token: int  # at whose places features are put
    marker: str  # what the template writes for an image
    marker_token: int | None  # the marker's token; None: it is a text of several

    def preprocess(self, picture: Picture) -> Media: ...
    def input_bytes(self, pixels: int) -> int: ...


class VideoProcessor(Protocol):
    """What a prompt needs for videos. A video becomes groups of frames, each of them like an image."""

    video_placeholder: str  # what the template writes for a video
    image_placeholder: str  # and for an image
    group_size: int  # frames in a group

    def pairs(self, frames: NDArray[np.uint8]) -> list[Media]: ...
    def input_bytes(self, pixels: int) -> int: ...


class PromptBuilder:
    """Thread-safe. Rendering, tokenizing and image work run beside the engine, never on its thread."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        image_processor: ImageProcessor | None,
        *,
        max_images: int,
        loader: Loader,
        video_processor: VideoProcessor | None = None,
        video_limits: VideoLimits | None = None,
        context_length: int | None = None,
        memory: RequestMemory | None = None,
    ) -> None:
        self.tokenizer = tokenizer
        self.image_processor = image_processor
        self.max_images = max_images
        self.loader = loader
        self.video_processor = video_processor
        self.video_limits = video_limits or VideoLimits()
        self.context_length = context_length  # None: no limit
        self.memory = memory or RequestMemory.apart(UNLIMITED)
        self._boundary_finder = BoundaryFinder(tokenizer)

    def chat(
        self,
        messages: Sequence[Mapping[str, Any]],
        options: Mapping[str, Any],
        tools: Sequence[Mapping[str, Any]] | None = None,
        truncate: int | None = None,
    ) -> Prompt:
        """Messages and tools as clients write them. `options` are for the template, but two: `chat_template`, another
        one, and `continue_final_message`. `truncate`: only so many of the last tokens are taken."""
        options = dict(options)
        continues, source = options.pop("continue_final_message", False), options.pop("chat_template", None)
        templates = self.tokenizer.needed_templates() if source is None else self.tokenizer.templates_of(source)
        takes_video = self.video_processor is not None
        conversation, parts = checked(messages, takes_images=self.image_processor is not None, takes_video=takes_video)
        self._check_length(_characters(conversation), "messages")
        check_calls(messages)
        conversation, parts = normalized(conversation, parts, names=templates.writes_names)
        tools = checked_tools(tools)
        self._check_counts(parts)
        images, video_texts = self._read(parts)
        text = self._rendered(templates, conversation, tools, options, continues=continues)
        if (
            images
            and self.image_processor is not None
            and self.image_processor.marker not in text + "".join(video_texts)
        ):
            conversation = expansion.as_text(conversation, self.image_processor.marker)  # the template drops images
            text = self._rendered(templates, conversation, tools, options, continues=continues)
        text = self._with_videos(text, video_texts)
        with self._tokenizing(text, "messages", truncated=truncate is not None):
            ids = self._last(self.tokenizer.encode(text, add_special_tokens=False), truncate)
            expanded = self._expanded(ids, images, "messages", text)
            if source is None:
                found = self._boundary_finder.chat(conversation, options, ids, tools)
            else:
                found = self._boundary_finder.text(ids)
            boundaries = self._moved(found, ids, expanded, images)
        instructed = bool(tools) or conversation[0]["role"] == "system"
        system = boundaries[0] if instructed and boundaries else 0
        return Prompt(expanded, tuple(images), boundaries, system, tail=text[-TAIL:])

    def text(
        self,
        prompt: str | Sequence[int],
        field: str = "prompt",
        *,
        suffix: str | None = None,
        truncate: int | None = None,
    ) -> Prompt:
        """`suffix`: what is generated goes between the prompt and this."""
        if suffix and not isinstance(prompt, str):
            raise InvalidRequest.at("suffix", "needs a prompt of text, not of token ids.")
        if isinstance(prompt, str):
            if suffix:
                prompt = fill_in_middle(self.tokenizer.is_token, prompt, suffix)
            with self._tokenizing(prompt, field, truncated=truncate is not None):
                ids = self.tokenizer.encode(prompt)
        else:
            ids = list(prompt)
        ids = self._last(ids, truncate)
        return Prompt(self._expanded(ids, (), field), boundaries=self._boundary_finder.text(ids))

    @staticmethod
    def _rendered(
        templates: Templates,
        conversation: Sequence[dict[str, Any]],
        tools: Sequence[Mapping[str, Any]] | None,
        options: dict[str, Any],
        *,
        continues: bool,
    ) -> str:
        if not continues:
            return templates.render(conversation, tools=tools, **options)
        options["add_generation_prompt"] = False
        return continuation.cut(templates.render(continuation.marked(conversation), tools=tools, **options))

    # -- texts

    def _last(self, ids: list[int], count: int | None) -> list[int]:
        if count is None or len(ids) <= count:
            return ids
        if self.image_processor is not None and self.image_processor.marker_token in ids:
            raise InvalidRequest.at("truncate_prompt_tokens", "cannot be asked for with images.")
        return ids[-count:]

    def tokens(self, text: str, add_special_tokens: bool = True) -> list[int]:
        """The ids of a text, also of one that exceeds the context length."""
        self._check_length(len(text), "prompt")
        with self._holding(text, "prompt"):
            return self.tokenizer.encode(text, add_special_tokens)

    @contextmanager
    def _tokenizing(self, text: str, field: str, *, truncated: bool = False) -> Iterator[None]:
        """Refuses a text that cannot fit before all of it is tokenized. Holds the memory that a long one takes."""
        most = self.context_length
        self._check_length(len(text), field)
        if most is not None and len(text) > most * USUAL_TOKEN and not truncated:
            count = self.tokenizer.count_over(text, most)
            if count is not None:
                raise PromptTooLong(count, most, field=field, at_least=True)
        with self._holding(text, field):
            yield

    def _holding(self, text: str, field: str) -> AbstractContextManager[None]:
        needed = len(text) * TEXT_BYTES if len(text) > LONG_TEXT else 0
        return self.memory.work.holding(needed, "The text", field)

    def _check_length(self, characters: int, field: str) -> None:
        if self.context_length is not None and characters > self.context_length * MAX_TOKEN:
            raise PromptTooLong(characters // MAX_TOKEN, self.context_length, field=field, at_least=True)

    # -- images and videos

    def _read(self, parts: Sequence[MediaPart]) -> tuple[list[Media], list[str]]:
        """The images in order, and the text that replaces each video's placeholder. One is decoded at a time.

        The memory of all inputs is taken at once: requests with a part of theirs might wait for each other forever.
        """
        if not parts:
            return [], []
        loading = self.loader.request()
        media = [loading.open(part.url, part.place) if isinstance(part, ImagePart) else part for part in parts]
        self._check_pixels(media)
        left = sum(self._input_bytes(medium) for medium in media)
        self.memory.media.take(left, "What the request shows", "messages")
        images: list[Media] = []
        video_texts: list[str] = []
        try:
            for medium in media:
                if isinstance(medium, EncodedImage):
                    made = [self._image(medium)]
                else:
                    made, written = self._video(medium, loading)
                    video_texts.append(written)
                for image in made:
                    self.memory.media.give_back_with(image.inputs, image.cost)
                    left -= image.cost
                images += made
        finally:
            self.memory.media.give_back(left)
        return images, video_texts

    def _check_pixels(self, media: Sequence[EncodedImage | VideoPart]) -> None:
        pixels = sum(medium.pixels for medium in media if isinstance(medium, EncodedImage))
        most = LARGEST_PICTURES * self.loader.max_pixels
        if pixels > most:
            raise InvalidRequest(
                f"The request's images have {pixels} pixels together, and at most {most} are allowed.", field="messages"
            )

    def _input_bytes(self, medium: EncodedImage | VideoPart) -> int:
        if isinstance(medium, EncodedImage):
            assert self.image_processor is not None  # else `checked` has raised
            return self.image_processor.input_bytes(medium.pixels)
        assert self.video_processor is not None
        return self.video_processor.input_bytes(self.video_limits.pixels)

    def _image(self, encoded: EncodedImage) -> Media:
        assert self.image_processor is not None
        processing = PROCESSING_BYTES * min(encoded.pixels, LARGE) + self.image_processor.input_bytes(encoded.pixels)
        with self.memory.work.holding(encoded.decoding_bytes + processing, "The picture", encoded.field):
            try:
                image = self.image_processor.preprocess(encoded.decode())
            except InvalidRequest as error:
                raise InvalidRequest(str(error), field=encoded.field) from error
        if image.cost > self.image_processor.input_bytes(encoded.pixels):
            raise InvalidRequest(f"{encoded.field} is cut into more tiles than expected.", field=encoded.field)
        return image

    def _check_counts(self, parts: Sequence[MediaPart]) -> None:
        images = sum(isinstance(part, ImagePart) for part in parts)
        videos = len(parts) - images
        for count, most, name in ((images, self.max_images, "images"), (videos, self.video_limits.videos, "videos")):
            if count > most:
                raise InvalidRequest(f"The request has {count} {name}; at most {most} are taken.", field="messages")

    def _video(self, part: VideoPart, loading: Loading) -> tuple[list[Media], str]:
        """A video's groups of frames, and the text that replaces its placeholder: each group after its time."""
        assert self.video_processor is not None
        needed = self.video_limits.decoding_bytes + self.video_processor.input_bytes(self.video_limits.pixels)
        with self.memory.work.holding(needed, "The video", part.place):
            clip = video.load(part, loading, self.video_limits)
            try:
                pairs = self.video_processor.pairs(clip.frames)
            except InvalidRequest as error:
                raise InvalidRequest(str(error), field=part.place) from error
        times = clip.times(self.video_processor.group_size)
        return pairs, "".join(f"<{seconds:.1f} seconds>{self.video_processor.image_placeholder}" for seconds in times)

    def _with_videos(self, text: str, video_texts: Sequence[str]) -> str:
        """The text with each video's placeholder replaced, before tokenization: the times join the text around."""
        if self.video_processor is None or not video_texts:
            return text
        pieces = text.split(self.video_processor.video_placeholder)
        if len(pieces) != len(video_texts) + 1:
            raise InvalidRequest(
                f"The prompt has {len(pieces) - 1} video placeholders for {len(video_texts)} videos. Text may not "
                "contain the model's own video placeholder, and its chat template must know videos.",
                field="messages",
            )
        return pieces[0] + "".join(video + piece for video, piece in zip(video_texts, pieces[1:], strict=True))

    def _expanded(
        self, ids: Sequence[int], media: Sequence[Media], field: str, text: str | None = None
    ) -> tuple[int, ...]:
        """Replaces each medium's marker by the medium's tokens."""
        processor = self.image_processor
        if processor is None:
            return tuple(ids)
        if not media or self._closed(media):
            expanded, found = expansion.of_tokens(ids, processor.marker_token, media)
        else:
            assert text is not None
            written, found = expansion.of_text(text, processor.marker, media)
            expanded = tuple(self.tokenizer.encode(written, add_special_tokens=False))
        shown = expanded.count(processor.image_token)
        if found != len(media) or shown != sum(medium.tokens for medium in media):
            raise InvalidRequest(
                f"The prompt has {found or shown} image placeholders for {len(media)} images. Text may not "
                "contain the model's own image placeholder.",
                field=field,
            )
        return expanded

    def _closed(self, media: Sequence[Media]) -> bool:
        marker = None if self.image_processor is None else self.image_processor.marker_token
        return expansion.is_closed(marker, media, self.tokenizer.special_ids)

    def _moved(
        self, boundaries: Sequence[int], ids: Sequence[int], expanded: Sequence[int], media: Sequence[Media]
    ) -> tuple[int, ...]:
        if self.image_processor is None or not media:
            return tuple(boundaries)
        marker = self.image_processor.marker_token if self._closed(media) else None
        return expansion.moved(boundaries, ids, expanded, marker, media)
