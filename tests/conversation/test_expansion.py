"""Markers in a prompt become media's own tokens, and cache boundaries move with them."""

from __future__ import annotations

from typing import Any

import pytest

from paceline.conversation import expansion
from paceline.types import Media

PICTURE = Media("a", 3, 9, (8, 9, 9, 9, 7), "<open>xxx<close>")
SMALL = Media("b", 1, 9, (8, 9, 7), "<open>x<close>")


def test_each_marker_becomes_its_medium_s_tokens() -> None:
    ids, found = expansion.of_tokens([1, 5, 2, 5, 3], 5, [PICTURE, SMALL])
    assert (ids, found) == ((1, 8, 9, 9, 9, 7, 2, 8, 9, 7, 3), 2)
    text, found = expansion.of_text("a<i>b<i>c", "<i>", [PICTURE, SMALL])
    assert (text, found) == ("a<open>xxx<close>b<open>x<close>c", 2)


@pytest.mark.parametrize(("ids", "count"), [([1, 2], 0), ([5, 1, 5], 2)])
def test_markers_are_counted_where_there_are_more_or_fewer_than_media(ids: list[int], count: int) -> None:
    assert expansion.of_tokens(ids, 5, [PICTURE])[1] == count
    assert expansion.of_text("<i>" * count, "<i>", [PICTURE]) == ("<i>" * count, count)


def test_media_that_end_in_plain_text_may_join_with_the_text_around() -> None:
    assert expansion.is_closed(5, [PICTURE, SMALL], {7, 8})
    assert not expansion.is_closed(5, [PICTURE], {8})
    assert not expansion.is_closed(None, [PICTURE], {7, 8})
    assert expansion.is_closed(5, [Media("c", 2, 9, (9, 9))], set())  # it has no text of its own


def test_a_boundary_after_a_medium_is_after_all_its_tokens() -> None:
    ids, expanded = [1, 5, 2, 5, 3], (1, 8, 9, 9, 9, 7, 2, 8, 9, 7, 3)
    moved = expansion.moved([1, 2, 3, 5], ids, expanded, 5, [PICTURE, SMALL])
    assert moved == (1, 6, 7, 11)


def test_where_tokens_have_joined_only_boundaries_outside_are_kept() -> None:
    ids, expanded = [1, 2, 5, 3, 5, 4, 6], (1, 2, 8, 9, 70, 8, 9, 71, 6)
    assert expansion.moved([1, 2, 4, 6], ids, expanded, None, [SMALL, SMALL]) == (1, 2, 8)


def test_for_a_template_without_images_markers_are_text() -> None:
    image = {"type": "image"}
    parts = [{"type": "text", "text": "What is "}, image, {"type": "text", "text": "?"}]
    system: dict[str, Any] = {"role": "system", "content": "Be brief."}
    conversation = [system, {"role": "user", "content": parts}]
    assert expansion.as_text(conversation, "<i>") == [conversation[0], {"role": "user", "content": "What is <i>?"}]
    with_video = [{"role": "user", "content": [image, {"type": "video"}]}]
    assert expansion.as_text(with_video, "<i>")[0]["content"] == [{"type": "text", "text": "<i>"}, {"type": "video"}]


def test_recordings_have_a_marker_of_their_own() -> None:
    sound = Media("c", 2, 6, (4, 6, 6), kind="audio")
    ids = [1, 6, 2, 5, 3]
    media = expansion.in_order(ids, 5, 6, [PICTURE, sound])
    assert media == [sound, PICTURE]
    assert expansion.in_order(ids, 5, None, [PICTURE, SMALL]) == [PICTURE, SMALL]
    assert expansion.in_order([1], 5, 6, [PICTURE, sound]) == [PICTURE, sound]  # none is lost: they are counted next
    expanded, found = expansion.of_tokens(ids, 5, media, 6)
    assert (expanded, found) == ((1, 4, 6, 6, 2, 8, 9, 9, 9, 7, 3), 2)
    assert expansion.moved([2, 4, 5], ids, expanded, 5, media, 6) == (4, 10, 11)
