from __future__ import annotations

import re

import pytest

from paceline.conversation.grammar.lark import OPTIONS, free_text, literal, pieces

MARKERS = {"<a>": 1, "<a>>": 2}


def test_text_is_cut_at_the_longest_markers_in_it() -> None:
    assert pieces("x<a>y<a>>", MARKERS) == ["x", "<a>", "y", "<a>>"]
    assert pieces("x<a>", {}) == ["x<a>"]
    assert pieces("", MARKERS) == []


def test_a_marker_is_named_by_its_token_and_other_text_is_quoted() -> None:
    assert literal('"x"<a>', MARKERS) == [r'"\"x\""', "<[1]>"]


def test_free_text_ends_with_the_marker_as_a_token_or_as_text() -> None:
    assert any("<[1]>" in rule for rule in free_text("rest", "<a>", MARKERS))
    assert not any("<[" in rule for rule in free_text("rest", "<b>", MARKERS))


@pytest.mark.parametrize("blank", ["", " ", "\n", "\r\n", "\n  ", "\n\t\t", "\n" + 24 * " "])
def test_a_blank_or_a_line_and_its_indentation_may_stand_in_json(blank: str) -> None:
    assert re.fullmatch(OPTIONS["whitespace_pattern"], blank)


@pytest.mark.parametrize("blank", ["  ", "\t", "\n\n", " \n", "\n" + 25 * " ", "\r"])
def test_more_blanks_than_that_may_not(blank: str) -> None:
    assert not re.fullmatch(OPTIONS["whitespace_pattern"], blank)
