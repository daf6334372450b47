from __future__ import annotations

import pytest

from paceline.errors import Unsupported
from paceline.server.common.fields import refuse_unsupported
from paceline.server.common.refused_fields import REASONS, not_supported


def test_a_refused_field_is_told_the_reason_of_the_docs() -> None:
    with pytest.raises(Unsupported) as raised:
        refuse_unsupported({"functions": [{}]}, {})
    assert str(raised.value) == (
        "functions is not supported by this server (OpenAI's old form of tools; use tools); leave it out."
    )


def test_every_reason_is_in_its_message_without_markup() -> None:
    for name, reason in REASONS.items():
        assert reason.replace("`", "") in not_supported(name)


def test_a_field_without_a_reason_is_refused_in_plain_words() -> None:
    assert not_supported("guided_x") == "is not supported by this server"
