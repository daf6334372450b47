from __future__ import annotations

import pytest

from paceline.conversation.fill_in_middle import FORMS, fill_in_middle
from paceline.errors import InvalidRequest


@pytest.mark.parametrize(("marks", "form"), FORMS)
def test_a_prompt_and_a_suffix_go_where_the_model_expects_them(marks: tuple[str, ...], form: str) -> None:
    written = fill_in_middle({*marks, "other"}.__contains__, "def {suffix}", "{prefix} end")
    assert written == form.replace("{prefix}", "\0").replace("{suffix}", "{prefix} end").replace("\0", "def {suffix}")


def test_a_model_without_the_tokens_says_so() -> None:
    with pytest.raises(InvalidRequest, match="no tokens for it") as caught:
        fill_in_middle({"<|fim_prefix|>", "a"}.__contains__, "x", "y")
    assert caught.value.field == "suffix"
