from __future__ import annotations

from paceline.conversation.grammar.lark import free_text, literal, pieces

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
