from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from paceline.errors import InvalidRequest
from paceline.server.common.fields import UNSUPPORTED, refuse_unsupported
from paceline.server.openai.schema import UNSUPPORTED_IN_CHAT, UNSUPPORTED_IN_COMPLETIONS
from tests.server.openai.test_schema import ANYTHING


@given(st.dictionaries(st.sampled_from(sorted({*UNSUPPORTED, *UNSUPPORTED_IN_CHAT, "guided_x"})), ANYTHING))
def test_an_unsupported_field_is_harmless_or_refused_by_name(fields: dict[str, Any]) -> None:
    try:
        refuse_unsupported(fields, UNSUPPORTED_IN_CHAT)
    except InvalidRequest as error:
        assert error.field in fields and error.field in str(error)


def test_every_harmless_value_is_accepted() -> None:
    for table in (UNSUPPORTED, UNSUPPORTED_IN_CHAT, UNSUPPORTED_IN_COMPLETIONS):
        for name, values in table.items():
            for value in values:
                refuse_unsupported({name: value}, table)
