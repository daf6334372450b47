from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.server.http import encoding
from paceline.server.http.encoding import encode_json, encode_long

NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text(max_size=5) | st.lists(NUMBERS, max_size=9),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)


@given(VALUES)
def test_what_is_long_is_written_as_what_is_short(value: Any) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(encoding, "PART", 3)
        assert encode_long(value) == encode_json(value).encode()


def test_a_number_that_json_does_not_have_is_never_written() -> None:
    for encode in (encode_json, encode_long):
        with pytest.raises(ValueError, match="JSON"):
            encode({"logprob": float("nan")})


def test_text_is_written_as_it_is() -> None:
    assert json.loads(encode_long({"🙂": ["é"]})) == {"🙂": ["é"]}
    assert "🙂" in encode_json(["🙂"])
