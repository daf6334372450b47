"""GPT-OSS: an output is a sequence of messages, each on a channel, and a call is a message to a tool.

<|channel|>analysis<|message|>...<|end|>
<|start|>assistant<|channel|>commentary to=functions.name <|constrain|>json<|message|>{...}<|call|>
<|start|>assistant<|channel|>final<|message|>...<|return|>
"""

from __future__ import annotations

import re
from collections.abc import Callable

from paceline.conversation.parsing.calls import Calls, NotACall
from paceline.conversation.parsing.events import Writer
from paceline.conversation.parsing.json_values import Incomplete
from paceline.conversation.parsing.source import Source, Steps

OPENS = ("<|start|>", "<|channel|>")
CLOSES = ("<|end|>", "<|call|>", "<|return|>")
MARKERS = (*OPENS, "<|message|>", "<|constrain|>", *CLOSES)
MAX_HEADER = 400

_header_words = re.compile(
    r"(?:<\|start\|>assistant\s*(?:to=(?P<to>[^\s<]+)\s*)?)?"
    r"(?:<\|channel\|>(?P<channel>analysis|commentary|final)\s*(?:to=(?P<channel_to>[^\s<]+)\s*)?)?"
    r"(?:<\|constrain\|>)?\s*[a-z]*\s*"
)


def read_answer(source: Source, writer: Writer, calls: Calls | None, reasoning: bool, thinking: bool) -> Steps[None]:
    """With `calls` None or `reasoning` False, such messages are content. `thinking`: the output starts in analysis."""
    if thinking:
        writer.marker()
        yield from _body(source, writer, writer.reasoning)
    while (yield from source.until(OPENS, writer.content, final=True)) is not None:
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
                writer.content((yield from source.one_of(OPENS)) or "")
            source.checkpoint()


def _header(source: Source) -> Steps[tuple[str, str]]:
    """Channel and recipient. The recipient may follow the role or the channel."""
    header = ""

    def add(text: str) -> None:
        nonlocal header
        header += text
        if len(header) > MAX_HEADER or any(header.count(marker) > 1 for marker in OPENS):
            raise NotACall

    marker: str | None = ""
    while marker != "<|message|>":
        add((yield from source.one_of(MARKERS)) or "")
        marker = yield from source.until(MARKERS, add)
        if marker is None or marker in CLOSES:
            raise NotACall
    yield from source.literal("<|message|>")
    words = _header_words.fullmatch(header)
    if not words:
        raise NotACall
    return words["channel"] or "final", words["to"] or words["channel_to"] or ""


def _body(source: Source, writer: Writer, write: Callable[[str], None]) -> Steps[None]:
    if (yield from source.until((*OPENS, *CLOSES), write, final=True)) is not None:
        writer.marker()
        yield from source.one_of(CLOSES)
    source.checkpoint()


def _call(calls: Calls, recipient: str) -> Steps[None]:
    name = recipient.removeprefix("functions.")
    if not calls.knows(name):
        raise NotACall
    yield from calls.source.space()
    yield from calls.json_arguments(name)
    yield from calls.trailer("<|call|>", "<|end|>")
