"""From messages or text to a prompt: checked, normalized, rendered, tokenized, pictures in their places."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from PIL.Image import Image as Picture

from paceline.conversation import video
from paceline.conversation.marks import Marker
from paceline.conversation.media import Loader, Loading
from paceline.conversation.messages import Media, Part, check_calls, checked, checked_tools
from paceline.conversation.normalize import normalized
from paceline.conversation.tokenizer import Tokenizer
from paceline.conversation.video import VideoLimits
from paceline.conversation.video_part import VideoPart
from paceline.engine.request import Image, Prompt
from paceline.errors import InvalidRequest

TAIL = 64  # characters of the prompt's end that tell how the answer begins


class Eyes(Protocol):
    """What a prompt needs of a vision tower: numpy work only, on any thread."""

    image_token: int

    def preprocess(self, picture: Picture) -> Image: ...
    def tokens(self, image: Image) -> int: ...


class Film(Protocol):
    """What it needs besides for videos. A video becomes groups of frames, each a picture to `Eyes`."""

    marker: str  # what the template writes for a video
    pair_marker: str  # and for a picture
    together: int  # frames in a group

    def pairs(self, frames: NDArray[np.uint8]) -> list[Image]: ...


class PromptBuilder:
    """Thread-safe: templating, tokenizing and picture work run beside the engine, never on its thread."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        eyes: Eyes | None,
        *,
        max_images: int,
        loader: Loader,
        film: Film | None = None,
        video_limits: VideoLimits | None = None,
    ) -> None:
        self.tokenizer = tokenizer
        self.eyes = eyes
        self.max_images = max_images
        self.loader = loader
        self.film = film
        self.video_limits = video_limits or VideoLimits()
        self._marker = Marker(tokenizer)

    def chat(
        self,
        messages: Sequence[Mapping[str, Any]],
        options: Mapping[str, Any],
        tools: Sequence[Mapping[str, Any]] | None = None,
    ) -> Prompt:
        """Messages and tools as clients write them; `options` are the template's."""
        templates = self.tokenizer.needed_templates()
        takes_video = self.film is not None
        conversation, parts = checked(messages, takes_images=self.eyes is not None, takes_video=takes_video)
        check_calls(messages)
        conversation, parts = normalized(conversation, parts, names=templates.writes_names)
        tools = checked_tools(tools)
        self._check_counts(parts)
        loading = self.loader.request()
        images: list[Image] = []
        films: list[str] = []
        for part in parts:
            if isinstance(part, Part):
                images.append(self._image(part, loading))
            else:
                pairs, written = self._video(part, loading)
                images += pairs
                films.append(written)
        text = self._with_films(self.tokenizer.render(conversation, tools=tools, **options), films)
        ids = self.tokenizer.encode(text, add_special_tokens=False)
        expanded = self._expanded(ids, images, "messages")
        marks = self._moved(self._marker.chat(conversation, options, ids, tools), ids, images)
        instructed = bool(tools) or conversation[0]["role"] == "system"
        system = marks[0] if instructed and marks else 0
        return Prompt(expanded, tuple(images), marks, system, tail=text[-TAIL:])

    def text(self, prompt: str | Sequence[int], field: str = "prompt") -> Prompt:
        ids = self.tokenizer.encode(prompt) if isinstance(prompt, str) else list(prompt)
        return Prompt(self._expanded(ids, (), field), marks=self._marker.text(ids))

    def _image(self, part: Part, loading: Loading) -> Image:
        if self.eyes is None:
            raise InvalidRequest("This model takes no images.", field=part.place)
        picture = loading.load(part.url, part.place)
        try:
            return self.eyes.preprocess(picture)
        except InvalidRequest as error:
            raise InvalidRequest(str(error), field=part.place) from error

    def _check_counts(self, parts: Sequence[Media]) -> None:
        images = sum(isinstance(part, Part) for part in parts)
        videos = len(parts) - images
        for count, most, name in ((images, self.max_images, "images"), (videos, self.video_limits.videos, "videos")):
            if count > most:
                raise InvalidRequest(f"The request has {count} {name}; at most {most} are taken.", field="messages")

    def _video(self, part: VideoPart, loading: Loading) -> tuple[list[Image], str]:
        """A video's groups of frames, and what stands for it in the text: each group behind its time."""
        if self.film is None:
            raise InvalidRequest("This model takes no video.", field=part.place)
        clip = video.load(part, loading, self.video_limits)
        try:
            pairs = self.film.pairs(clip.frames)
        except InvalidRequest as error:
            raise InvalidRequest(str(error), field=part.place) from error
        times = clip.times(self.film.together)
        return pairs, "".join(f"<{seconds:.1f} seconds>{self.film.pair_marker}" for seconds in times)

    def _with_films(self, text: str, films: Sequence[str]) -> str:
        """The text with each video's one marker replaced, before it is tokenized: so the times join what is around."""
        if self.film is None or not films:
            return text
        pieces = text.split(self.film.marker)
        if len(pieces) != len(films) + 1:
            raise InvalidRequest(
                f"The prompt has {len(pieces) - 1} video placeholders for {len(films)} videos. Text may not contain "
                "the model's own video placeholder, and its chat template must know videos.",
                field="messages",
            )
        return pieces[0] + "".join(film + piece for film, piece in zip(films, pieces[1:], strict=True))

    def _expanded(self, ids: Sequence[int], images: Sequence[Image], field: str) -> tuple[int, ...]:
        """Each picture's one placeholder becomes as many as the picture has tokens."""
        if self.eyes is None:
            return tuple(ids)
        token = self.eyes.image_token
        if ids.count(token) != len(images):
            raise InvalidRequest(
                f"The prompt has {ids.count(token)} image placeholders for {len(images)} images. Text may not "
                "contain the model's own image placeholder.",
                field=field,
            )
        expanded: list[int] = []
        pending = iter(images)
        for id in ids:
            expanded.extend([token] * self.eyes.tokens(next(pending)) if id == token else [id])
        return tuple(expanded)

    def _moved(self, marks: Sequence[int], ids: Sequence[int], images: Sequence[Image]) -> tuple[int, ...]:
        """The marks of the ids, as marks of the expanded ids: a mark behind a picture is behind all its tokens."""
        if self.eyes is None or not images:
            return tuple(marks)
        places = [place for place, id in enumerate(ids) if id == self.eyes.image_token]
        gains = [self.eyes.tokens(image) - 1 for image in images]
        return tuple(
            mark + sum(gain for place, gain in zip(places, gains, strict=True) if place < mark) for mark in marks
        )
