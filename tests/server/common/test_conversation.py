from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from paceline.server.common.conversation import sealed, unsealed

MARK = "paceline."


@given(st.text())
def test_reasoning_survives_being_sealed(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        return
    assert unsealed(MARK, sealed(MARK, text)) == text


@given(st.text())
def test_what_others_sealed_is_no_reasoning_of_ours(text: str) -> None:
    assert text.startswith(MARK) or unsealed(MARK, text) is None


def test_what_is_no_text_or_was_changed_is_no_reasoning() -> None:
    assert all(unsealed(MARK, content) is None for content in (5, None, MARK + "?", MARK + "/w=="))
