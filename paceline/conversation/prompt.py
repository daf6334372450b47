"""From messages or text to a prompt: checked, normalized, rendered and tokenized, with images in place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from PIL.Image import Image as Picture

from paceline.conversation import compressed_audio, continuation, expansion, video
from paceline.conversation.audio import MAX_CLIPS, EncodedAudio, Samples
from paceline.conversation.cache_boundaries import BoundaryFinder
from paceline.conversation.fill_in_middle import fill_in_middle
from paceline.conversation.media import LARGE, EncodedImage, Loader, Loading
from paceline.conversation.messages import (
    LONG_TEXT,
    AudioPart,
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

EncodedMedium = EncodedImage | EncodedAudio | VideoPart


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
    def numbered(self, media: Sequence[Media]) -> list[Media]: ...
    def input_bytes(self, pixels: int) -> int: ...


class VideoProcessor(Protocol):
    """What a prompt needs for videos. A video becomes groups of frames, each of them like an image."""

    video_placeholder: str  # what the template writes for a video
    image_placeholder: str  # and for an image
    group_size: int  # frames in a group

    def pairs(self, frames: NDArray[np.uint8]) -> list[Media]: ...
    def input_bytes(self, pixels: int) -> int: ...


class AudioProcessor(Protocol):
    """What a prompt needs for audio, on any thread."""

    token: int  # its marker, and where its features are put
    rate: int  # samples a second
    max_seconds: float

    def preprocess(self, samples: Samples) -> Media: ...
    def input_bytes(self, seconds: float) -> int: ...


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
        audio_processor: AudioProcessor | None = None,
        context_length: int | None = None,
        memory: RequestMemory | None = None,
    ) -> None:
        self.tokenizer = tokenizer
        self.image_processor = image_processor
        self.max_images = max_images
        self.loader = loader
        self.video_processor = video_processor
        self.video_limits = video_limits or VideoLimits()
        self.audio_processor = audio_processor
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
        conversation, parts = checked(
            messages,
            takes_images=self.image_processor is not None,
            takes_video=self.video_processor is not None,
            takes_audio=self.audio_processor is not None,
        )
        self._check_length(_characters(conversation), "messages")
        check_calls(messages)
        conversation, parts = normalized(conversation, parts, names=templates.writes_names)
        tools = checked_tools(tools)
        self._check_counts(parts)
        media, video_texts = self._read(parts)
        text = self._rendered(templates, conversation, tools, options, continues=continues)
        if (
            any(medium.kind == "image" for medium in media)
            and self.image_processor is not None
            and self.image_processor.marker not in text + "".join(video_texts)
        ):
            conversation = expansion.as_text(conversation, self.image_processor.marker)  # the template drops images
            text = self._rendered(templates, conversation, tools, options, continues=continues)
        text = self._with_videos(text, video_texts)
        with self._tokenizing(text, "messages", truncated=truncate is not None):
            ids = self._last(self.tokenizer.encode(text, add_special_tokens=False), truncate)
            media = self._in_order(ids, media)
            expanded = self._expanded(ids, media, "messages", text)
            if source is None:
                found = self._boundary_finder.chat(conversation, options, ids, tools)
            else:
                found = self._boundary_finder.text(ids)
            boundaries = self._moved(found, ids, expanded, media)
        instructed = bool(tools) or conversation[0]["role"] == "system"
        system = boundaries[0] if instructed and boundaries else 0
        return Prompt(expanded, tuple(media), boundaries, system, tail=text[-TAIL:])

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
        if self._sound in ids:
            raise InvalidRequest.at("truncate_prompt_tokens", "cannot be asked for with audio.")
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

    # -- images, videos and audio

    def _read(self, parts: Sequence[MediaPart]) -> tuple[list[Media], list[str]]:
        """The media in order, and the text that replaces each video's placeholder. One is decoded at a time.

        The memory of all inputs is taken at once: requests with a part of theirs might wait for each other forever.
        """
        if not parts:
            return [], []
        loading = self.loader.request()
        media = [self._opened(part, loading) for part in parts]
        self._check_pixels(media)
        left = sum(self._input_bytes(medium) for medium in media)
        self.memory.media.take(left, "What the request shows", "messages")
        found: list[Media] = []
        video_texts: list[str] = []
        try:
            for medium in media:
                if isinstance(medium, EncodedImage):
                    made = [self._image(medium)]
                elif isinstance(medium, EncodedAudio):
                    made = [self._audio(medium)]
                else:
                    made, written = self._video(medium, loading)
                    video_texts.append(written)
                for each in made:
                    self.memory.media.give_back_with(each.inputs, each.cost)
                    left -= each.cost
                found += made
        finally:
            self.memory.media.give_back(left)
        return found, video_texts

    def _opened(self, part: MediaPart, loading: Loading) -> EncodedMedium:
        """Its header is read; a video is a file that its decoder opens."""
        if isinstance(part, ImagePart):
            return loading.open(part.url, part.place)
        if isinstance(part, AudioPart):
            assert self.audio_processor is not None  # else `checked` has raised
            return self._opened_audio(part, loading, self.audio_processor.max_seconds)
        return part

    def _opened_audio(self, part: AudioPart, loading: Loading, max_seconds: float) -> EncodedAudio:
        data = loading.bytes_of(part.url, part.place, "audio")
        if (format := compressed_audio.format_of(data)) is not None:
            with self.memory.work.holding(compressed_audio.MEMORY, "The audio", part.place):
                data = compressed_audio.as_wav(data, format, max_seconds, part.place)
        return EncodedAudio.of(data, max_seconds, part.place)

    def _check_pixels(self, media: Sequence[EncodedMedium]) -> None:
        pixels = sum(medium.pixels for medium in media if isinstance(medium, EncodedImage))
        most = LARGEST_PICTURES * self.loader.max_pixels
        if pixels > most:
            raise InvalidRequest(
                f"The request's images have {pixels} pixels together, and at most {most} are allowed.", field="messages"
            )

    def _input_bytes(self, medium: EncodedMedium) -> int:
        if isinstance(medium, EncodedAudio):
            assert self.audio_processor is not None
            return self.audio_processor.input_bytes(medium.seconds)
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
            raise InvalidRequest.at(encoded.field, "is cut into more tiles than expected.")
        return image

    def _audio(self, encoded: EncodedAudio) -> Media:
        assert self.audio_processor is not None
        needed = encoded.decoding_bytes + self.audio_processor.input_bytes(encoded.seconds)
        with self.memory.work.holding(needed, "The audio", encoded.field):
            return self.audio_processor.preprocess(encoded.decode(self.audio_processor.rate))

    def _check_counts(self, parts: Sequence[MediaPart]) -> None:
        limits = (
            (ImagePart, self.max_images, "images"),
            (VideoPart, self.video_limits.videos, "videos"),
            (AudioPart, MAX_CLIPS, "recordings"),
        )
        for kind, most, name in limits:
            count = sum(isinstance(part, kind) for part in parts)
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
            expanded, found = expansion.of_tokens(ids, processor.marker_token, media, self._sound)
        else:
            assert text is not None
            written, found = expansion.of_text(text, processor.marker, media)
            expanded = tuple(self.tokenizer.encode(written, add_special_tokens=False))
        shown = sum(id in (processor.image_token, self._sound) for id in expanded)
        wanted = sum(medium.tokens for medium in media)
        if found != len(media) or shown != wanted:
            name, names = ("media", "media") if self._sound is not None else ("image", "images")
            said = f"The prompt has {found or shown} {name} placeholders for {len(media)} {names}."
            if found == len(media) and found:  # for example one of the tokens that an image's marker becomes
                said = f"The prompt has {shown - wanted} tokens more of its {names} than they have themselves."
            raise InvalidRequest(f"{said} Text may not contain the model's own {name} placeholder.", field=field)
        return expanded

    @property
    def _sound(self) -> int | None:
        return None if self.audio_processor is None else self.audio_processor.token

    def _in_order(self, ids: Sequence[int], media: Sequence[Media]) -> list[Media]:
        if self.image_processor is None:
            return list(media)
        found = expansion.in_order(ids, self.image_processor.marker_token, self._sound, media)
        return self.image_processor.numbered(found)

    def _closed(self, media: Sequence[Media]) -> bool:
        marker = None if self.image_processor is None else self.image_processor.marker_token
        return expansion.is_closed(marker, media, self.tokenizer.special_ids)

    def _moved(
        self, boundaries: Sequence[int], ids: Sequence[int], expanded: Sequence[int], media: Sequence[Media]
    ) -> tuple[int, ...]:
        if self.image_processor is None or not media:
            return tuple(boundaries)
        marker = self.image_processor.marker_token if self._closed(media) else None
        return expansion.moved(boundaries, ids, expanded, marker, media, self._sound)
