"""The parser of one output: text comes in pieces, events go out."""

from __future__ import annotations

import re
import secrets
import string
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from paceline.conversation.parsing.calls import Calls, NotACall
from paceline.conversation.parsing.events import Event, ParsedOutput, Writer, merge
from paceline.conversation.parsing.formats import HARMONY, HARMONY_CLOSES, HARMONY_MARKERS, HARMONY_OPENS, OutputFormat
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
        calls_first: bool = False,  # a call stands before other text, or right after a call
        starts_in_reasoning: bool = False,
        new_id: Callable[[], str] = call_id,
    ) -> None:
        self._format = format
        self._calls_first = calls_first
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
            yield from read_harmony(
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
        thought = False  # has reasoning just ended?
        while True:
            source.checkpoint()
            if think and thinking:
                writer.marker()
                if (yield from source.until((think.close,), writer.reasoning, final=True)) is None:
                    return
                yield from source.literal(think.close)
                writer.marker()
                thinking, thought = False, True
                continue
            always = tools.opens if tools else ()
            if writer.empty:  # the markers that count only before other text
                writer.content((yield from source.space()))
                first = (*(tools.first if tools else ()), *((think.open,) if think and not writer.begun else ()))
                first = (*first, *((think.close,) if think and thought else ()))
                thought = False
                source.checkpoint()
                marker = yield from source.one_of((*always, *first))
                if marker is None:
                    if not (yield from source.want()):
                        return
                    writer.content(source.take(1))
                    continue
                source.rewind()
            else:
                always = () if self._calls_first else always
                marker = yield from source.until(always, writer.content, final=True)
                if marker is None:
                    return
                source.checkpoint()
            if think and marker == think.close:  # once more, after an end that was forced
                yield from source.literal(marker)
                writer.marker()
            elif think and marker == think.open:
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


# -- GPT-OSS: an output is a sequence of messages, each on a channel, and a call is a message to a tool:
#    <|channel|>analysis<|message|>...<|end|>
#    <|start|>assistant<|channel|>commentary to=functions.name <|constrain|>json<|message|>{...}<|call|>
#    <|start|>assistant to=functions.name<|channel|>commentary json<|message|>{...}<|call|>
#    <|start|>assistant<|channel|>final<|message|>...<|return|>

MAX_HEADER = 400

_header_words = re.compile(
    r"(?:<\|start\|>assistant)?\s*(?:to=(?P<to>[^\s<]+)\s*)?"
    r"(?:<\|channel\|>(?P<channel>analysis|commentary|final)\s*(?:to=(?P<channel_to>[^\s<]+)\s*)?)?"
    r"(?:<\|constrain\|>)?\s*[a-z]*\s*"
)


def read_harmony(source: Source, writer: Writer, calls: Calls | None, reasoning: bool, thinking: bool) -> Steps[None]:
    """With `calls` None or `reasoning` False, such messages are content. `thinking`: the output starts in analysis."""
    addressed = False
    if thinking:
        writer.marker()
        yield from _body(source, writer, writer.reasoning)
    else:
        addressed = yield from _is_addressed(source)
    while addressed or (yield from source.until(HARMONY_OPENS, writer.content, final=True)) is not None:
        addressed = False
        source.checkpoint()
        before = calls.ended if calls else 0
        try:
            channel, recipient = yield from _header(source)
            if recipient:
                if calls is None:
                    raise NotACall
                yield from _call(calls, recipient)
            elif channel == "analysis":
                if not reasoning:
                    raise NotACall
                writer.marker()
                yield from _body(source, writer, writer.reasoning)
            else:
                writer.marker()
                yield from _body(source, writer, writer.content)
        except (NotACall, Incomplete):
            if calls and calls.is_open:
                calls.give_up()
                continue
            source.rewind()
            if not calls or calls.ended == before:
                writer.content((yield from source.one_of(HARMONY_OPENS)) or "")
            source.checkpoint()


def _is_addressed(source: Source) -> Steps[bool]:
    """Does the output go on behind the prompt's `<|start|>assistant` with the recipient of a call?"""
    source.checkpoint()
    yield from source.space()
    found = yield from source.literal("to=")
    source.rewind()
    return found


def _header(source: Source) -> Steps[tuple[str, str]]:
    """Channel and recipient. The recipient may follow the role or the channel."""
    header = ""

    def add(text: str) -> None:
        nonlocal header
        header += text
        if len(header) > MAX_HEADER or any(header.count(marker) > 1 for marker in HARMONY_OPENS):
            raise NotACall

    marker: str | None = ""
    while marker != "<|message|>":
        add((yield from source.one_of(HARMONY_MARKERS)) or "")
        marker = yield from source.until(HARMONY_MARKERS, add)
        if marker is None or marker in HARMONY_CLOSES:
            raise NotACall
    yield from source.literal("<|message|>")
    words = _header_words.fullmatch(header)
    if not words:
        raise NotACall
    return words["channel"] or "final", words["to"] or words["channel_to"] or ""


def _body(source: Source, writer: Writer, write: Callable[[str], None]) -> Steps[None]:
    if (yield from source.until((*HARMONY_OPENS, *HARMONY_CLOSES), write, final=True)) is not None:
        writer.marker()
        yield from source.one_of(HARMONY_CLOSES)
    source.checkpoint()


def _call(calls: Calls, recipient: str) -> Steps[None]:
    name = recipient.removeprefix("functions.")
    if not calls.knows(name):
        raise NotACall
    yield from calls.source.space()
    yield from calls.json_arguments(name)
    yield from calls.trailer("<|call|>", "<|end|>")
