"""What the readers of all formats share: the known tools, and the start, arguments and end of a call."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from paceline.conversation.parsing import json_values
from paceline.conversation.parsing.events import CallArguments, CallEnd, CallStart, LayoutState, Writer
from paceline.conversation.parsing.json_values import Incomplete, NotJSON, copy_value
from paceline.conversation.parsing.source import Source, Steps

NAME = re.compile(r"[A-Za-z0-9_.\-]+")  # where no tools are given: no markup, quotes or control characters
MAX_NAME = 128


class NotACall(Exception):
    """The text since the source's last checkpoint is not a call."""


class Calls:
    """The calls of one output. A started call has a name from `tools`; the arguments of an ended one are an object."""

    def __init__(
        self, source: Source, writer: Writer, tools: Sequence[Mapping[str, Any]] | None, new_id: Callable[[], str]
    ) -> None:
        self.source = source
        self.ended = 0  # calls that are over, complete or broken
        self._writer = writer
        self._new_id = new_id
        self._open: LayoutState | None = None  # the layout before the call that has started
        named = [] if tools is None else [(json_values.tool_name(tool), json_values.properties(tool)) for tool in tools]
        self._tools = None if tools is None else {name: parameters for name, parameters in named if name}

    # -- names and schemas

    def knows(self, name: object) -> bool:
        if self._tools is not None:
            return name in self._tools
        return isinstance(name, str) and len(name) <= MAX_NAME and bool(NAME.fullmatch(name))

    def name(self, *ends: str) -> Steps[str]:
        """A tool's name, followed by one of `ends`, which is not taken. Fails as soon as no name can match."""
        source = self.source
        if self._tools is not None:
            words = {name + end: end for name in self._tools for end in ends}
            word = yield from source.one_of(words)
            if word is None:
                raise NotACall
            source.back(len(words[word]))
            return word.removesuffix(words[word])
        name = yield from source.run(NAME, MAX_NAME)
        end = yield from source.one_of(ends)
        if end is None or not self.knows(name):
            raise NotACall
        source.back(len(end))
        return name

    def declared(self) -> list[dict[str, Any]] | None:
        """The tools in OpenAI's form, as mlx-lm's parsers take them."""
        if self._tools is None:
            return None
        return [
            {"type": "function", "function": {"name": name, "parameters": {"properties": properties}}}
            for name, properties in self._tools.items()
        ]

    def parameters(self, name: str) -> Mapping[str, Any]:
        return (self._tools or {}).get(name, {})

    # -- start, arguments and end

    @property
    def is_open(self) -> bool:
        return self._open is not None

    def start(self, name: str) -> None:
        self._open = self._writer.marker()
        self._writer.event(CallStart(self.ended, self._new_id(), name))

    def arguments(self, text: str) -> None:
        if text:
            self._writer.event(CallArguments(self.ended, text))

    def end(self) -> None:
        self._writer.event(CallEnd(self.ended))
        self._open = None
        self.ended += 1
        self.source.checkpoint()

    def whole(self, name: str, arguments: str) -> None:
        self.start(name)
        self.arguments(arguments)
        self.end()

    def give_up(self) -> None:
        """End the started call as broken, with its raw text: it cannot go on, or the text is over.

        Closing its brackets would make a call that the model never wrote.
        """
        assert self._open is not None
        self._writer.broken(self._open, self.ended, self.source.raw())
        self._open = None
        self.ended += 1
        self.source.checkpoint()

    # -- parts of several formats

    def json_arguments(self, name: str) -> Steps[None]:
        """Start a call, stream its arguments, a JSON object that begins here, and end it."""
        yield from self.source.want()
        if self.source.peek() != "{":
            self.whole(name, (yield from self.held_arguments()))
            return
        self.start(name)
        try:
            yield from copy_value(self.source, self.arguments)
        except NotJSON:
            raise NotACall from None
        self.end()

    def held_arguments(self) -> Steps[str]:
        """Arguments that cannot be streamed: before the name, in a string, or null."""
        pieces: list[str] = []
        try:
            yield from copy_value(self.source, pieces.append)
        except (NotJSON, Incomplete):
            raise NotACall from None
        text = "".join(pieces)
        if text.startswith('"'):
            text = json_values.container(json.loads(text)) or ""
        if text == "null":
            return "{}"
        if not text.startswith("{"):
            raise NotACall
        return text

    def trailer(self, *markers: str) -> Steps[None]:
        """Takes the markers after a call, each if it is there, with the space before it."""
        for marker in markers:
            self.source.checkpoint()
            yield from self.source.space()
            if not (yield from self.source.literal(marker, cut=True)):
                self.source.rewind()
        self.source.checkpoint()
