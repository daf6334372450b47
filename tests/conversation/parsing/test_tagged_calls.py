"""Parameters between tags."""

from __future__ import annotations

from paceline.conversation.parsing import (
    CallArguments,
    CallEnd,
)
from tests.conversation.parsing.cases import (
    parser,
    read,
)
from tests.conversation.parsing.test_parser import CODER


def test_a_string_parameter_streams_inside_its_tags() -> None:
    reading = parser(CODER)
    reading.push("<tool_call>\n<function=get_weather>\n<parameter=city>\n")  # the newline is layout
    assert reading.push('Bonn "') == [CallArguments(0, 'Bonn \\"')]
    assert reading.push("am\nRhein\n") == [CallArguments(0, "am\\nRhein")]
    assert reading.push("</parameter>\n<parameter=days>\n1") == [CallArguments(0, '"' + ', "days": ')]
    assert reading.push("2\n</parameter>") == [CallArguments(0, "12")]
    assert reading.push("</function>") == [CallArguments(0, "}"), CallEnd(0)]


def test_a_tag_that_breaks_off_makes_text_of_the_call() -> None:
    for text in (
        "<function=get_weather>\n<parameter=city>\nBonn\n</parameter>\nand so on",
        "<function=get_weather>\n<parameter=city\n</function>",
    ):
        answer = read(text, CODER)
        assert (answer.calls, answer.content) == ((), text)
