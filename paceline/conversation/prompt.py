"""From messages or text to a prompt: checked, normalized, rendered, tokenized, pictures in their places."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from PIL.Image import Image as Picture

from paceline.conversation.marks import Marker
from paceline.conversation.media import Loader, Loading
from paceline.conversation.messages import Part, check_calls, checked, checked_tools
from paceline.conversation.normalize import normalized
from paceline.conversation.tokenizer import Tokenizer
from paceline.engine.request import Image, Prompt
from paceline.errors import InvalidRequest

TAIL = 64  # characters of the prompt's end that tell how the answer begins


class Eyes(Protocol):
    """What a prompt needs of a vision tower: numpy work only, on any thread."""

    image_token: int

    def preprocess(self, picture: Picture) -> Image: ...
    def tokens(self, image: Image) -> int: ...


class PromptBuilder:
    """Thread-safe: templating, tokenizing and picture work run beside the engine, never on its thread."""

    def __init__(self, tokenizer: Tokenizer, eyes: Eyes | None, *, max_images: int, loader: Loader) -> None:
        self.tokenizer = tokenizer
        self.eyes = eyes
        self.max_images = max_images
        self.loader = loader
        self._marker = Marker(tokenizer)

    def chat(
        self,
        messages: Sequence[Mapping[str, Any]],
        options: Mapping[str, Any],
        tools: Sequence[Mapping[str, Any]] | None = None,
    ) -> Prompt:
        """Messages and tools as clients write them; `options` are the template's."""
        conversation, parts = checked(messages, takes_images=self.eyes is not None)
        check_calls(messages)
        conversation, parts = normalized(conversation, parts, names=self.tokenizer.templates.writes_names)
        tools = checked_tools(tools)
        if len(parts) > self.max_images:
            raise InvalidRequest(
                f"The request has {len(parts)} images; at most {self.max_images} are taken.", field="messages"
            )
        loading = self.loader.request()
        images = tuple(self._image(part, loading) for part in parts)
        text = self.tokenizer.render(conversation, tools=tools, **options)
        ids = self.tokenizer.encode(text, add_special_tokens=False)
        expanded = self._expanded(ids, images, "messages")
        marks = self._marker.chat(conversation, options, ids, tools)
        return Prompt(expanded, images, self._moved(marks, ids, images), tail=text[-TAIL:])

    def text(self, prompt: str | Sequence[int]) -> Prompt:
        ids = self.tokenizer.encode(prompt) if isinstance(prompt, str) else list(prompt)
        return Prompt(self._expanded(ids, (), "prompt"), marks=self._marker.text(ids))

    def _image(self, part: Part, loading: Loading) -> Image:
        if self.eyes is None:
            raise InvalidRequest("This model takes no images.", field=part.place)
        picture = loading.load(part.url, part.place)
        try:
            return self.eyes.preprocess(picture)
        except InvalidRequest as error:
            raise InvalidRequest(str(error), field=part.place) from error

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
