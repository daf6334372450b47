"""Events in order, and text at once."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.conversation.parsing.events import Content, merge
from paceline.conversation.parsing.formats import REASONING_PARSERS, TOOL_PARSERS, OutputFormat
from tests.conversation.parsing.cases import (
    FORMATS,
    Format,
    named,
    parser,
    stream,
)
from tests.conversation.parsing.test_parser import BONN, NOW, QWEN, pieces_of
from tests.lengths import examples


def test_text_is_not_held_back() -> None:
    reading = parser(QWEN)
    assert reading.push("a <tool") == [Content("a ")]
    assert reading.push("s") == [Content("<tools")]
    assert reading.push(" <") == [Content(" ")]
    assert reading.push("\n") == [Content("<")]
    assert reading.push("b") == [Content("\nb")]


def test_an_answer_without_marks_is_the_same_to_the_letter() -> None:
    text = "\n \n Hello,\r\n\n  world!\t\n\n"
    for tools in TOOL_PARSERS:
        for reasoning in REASONING_PARSERS:
            assert merge(stream(text, OutputFormat(tools, reasoning))).content == text


TEXT = st.text("ab {}\n", min_size=1, max_size=8).map(lambda text: f"x{text}x")


BORDERS = st.lists(st.integers(0, 10_000), max_size=12)


@settings(max_examples=examples(100), deadline=None)
@given(
    st.sampled_from([case for case in FORMATS.values() if not case.first and case.tools != "gpt_oss"]),
    st.lists(st.one_of(TEXT, st.sampled_from([BONN, NOW])), max_size=6),
    BORDERS,
)
def test_content_is_the_text_between_the_calls_without_the_newlines_that_touch_them(
    case: Format, parts: list[Any], borders: list[int]
) -> None:
    text = "\n".join(part if isinstance(part, str) else case.calls(part) for part in parts)
    answer = merge(stream(pieces_of(text, borders), case.format))
    assert named(answer) == [part for part in parts if not isinstance(part, str)]
    runs = "\n".join(part if isinstance(part, str) else "\0" for part in parts).split("\0")
    inner = [run.removeprefix("\n") if place else run for place, run in enumerate(runs)]
    assert answer.content == "".join(
        run.removesuffix("\n") if place < len(inner) - 1 else run for place, run in enumerate(inner)
    )
