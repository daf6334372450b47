"""The parser of one output: text comes in pieces, events go out."""

from __future__ import annotations

import secrets
import string
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from paceline.conversation.parsing import harmony
from paceline.conversation.parsing.calls import Calls, NotACall
from paceline.conversation.parsing.events import Event, ParsedOutput, Writer, merge
from paceline.conversation.parsing.formats import HARMONY, OutputFormat
from paceline.conversation.parsing.json_values import Incomplete
from paceline.conversation.parsing.source import Source, Steps

_letters = string.ascii_letters + string.digits


def call_id() -> str:
    return "call_" + "".join(secrets.choice(_letters) for _ in range(24))


class OutputParser:
    """Parses one choice of one request.

    No output raises. Text that is not a call of one of `tools` is content, unchanged; with `tools` None, any
    identifier is a tool's name. A call that started and then ended early, or stopped being a call, is a `CallBroken`
    with its raw text, and parsing goes on after it.
    """

    def __init__(
        self,
        format: OutputFormat,
        tools: Sequence[Mapping[str, Any]] | None = None,
        *,
        calls: bool = True,  # False (tool_choice none): calls are text
        starts_in_reasoning: bool = False,
        new_id: Callable[[], str] = call_id,
    ) -> None:
        self._format = format
        self._source = Source()
        self._writer = Writer()
        self._calls = Calls(self._source, self._writer, tools, new_id) if calls and (tools is None or tools) else None
        self._steps = self._read(starts_in_reasoning)
        self._done = False

    def push(self, text: str) -> list[Event]:
        self._source.feed(text)
        self._go_on()
        return self._writer.take()

    def finish(self) -> list[Event]:
        """The text is over. Returns the events that were held back."""
        self._source.ended = True
        self._go_on()
        self._writer.finish()
        return self._writer.take()

    def _go_on(self) -> None:
        if not self._done:
            self._done = next(self._steps, StopIteration) is StopIteration

    def _read(self, thinking: bool) -> Steps[None]:
        if self._format.is_harmony:
            yield from harmony.read_answer(
                self._source,
                self._writer,
                self._calls if self._format.tools == HARMONY else None,
                self._format.reasoning == HARMONY,
                thinking,
            )
        else:
            yield from self._read_marked(thinking)

    def _read_marked(self, thinking: bool) -> Steps[None]:
        source, writer = self._source, self._writer
        think = self._format.think_format
        tools = self._format.tool_format if self._calls else None
        while True:
            source.checkpoint()
            if think and thinking:
                writer.marker()
                if (yield from source.until((think.close,), writer.reasoning, final=True)) is None:
                    return
                yield from source.literal(think.close)
                writer.marker()
                thinking = False
                continue
            always = tools.opens if tools else ()
            if writer.empty:  # the markers that count only before other text
                writer.content((yield from source.space()))
                first = (*(tools.first if tools else ()), *((think.open,) if think and not writer.begun else ()))
                source.checkpoint()
                marker = yield from source.one_of((*always, *first))
                if marker is None:
                    if not (yield from source.want()):
                        return
                    writer.content(source.take(1))
                    continue
                source.rewind()
            else:
                marker = yield from source.until(always, writer.content, final=True)
                if marker is None:
                    return
                source.checkpoint()
            if think and marker == think.open:
                yield from source.literal(marker)
                thinking = True
            elif tools and self._calls:
                yield from self._read_call(tools.read(self._calls), self._calls, marker)

    def _read_call(self, reader: Steps[None], calls: Calls, marker: str) -> Steps[None]:
        before = calls.ended
        try:
            yield from reader
        except (NotACall, Incomplete):
            if calls.is_open:
                calls.give_up()
                return
            self._source.rewind()
            if calls.ended == before:
                yield from self._source.literal(marker)
                self._writer.content(marker)


def parse_output(
    text: str,
    format: OutputFormat,
    tools: Sequence[Mapping[str, Any]] | None = None,
    *,
    calls: bool = True,
    starts_in_reasoning: bool = False,
    new_id: Callable[[], str] = call_id,
) -> ParsedOutput:
    parser = OutputParser(format, tools, calls=calls, starts_in_reasoning=starts_in_reasoning, new_id=new_id)
    return merge([*parser.push(text), *parser.finish()])
