from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from paceline.server.http.errors import invalid_fields
from paceline.server.openai.schema import ChatBody, CompletionBody

ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(sorted({*ChatBody.model_fields, "invented"})), ANYTHING))
def test_any_json_is_a_request_or_a_refusal(fields: dict[str, Any]) -> None:
    for model in (ChatBody, CompletionBody):
        try:
            model.model_validate(fields)
        except ValidationError as error:
            assert error.errors()[0]["loc"]


@pytest.mark.parametrize("value", ["on", "3", "OFF", "", True, False, 1.0, 2.5, [], [3], {}, {"depth": 3}])
@pytest.mark.parametrize("model", [ChatBody, CompletionBody])
def test_speculation_of_another_type_is_refused_with_what_it_may_be(
    model: type[ChatBody | CompletionBody], value: Any
) -> None:
    with pytest.raises(ValidationError) as caught:
        model.model_validate({"messages": [], "prompt": "x", "speculation": value})
    error = invalid_fields(caught.value)
    assert error.field == "speculation"
    assert str(error) == 'speculation: must be "off", "auto" or a number from 1 to 8.'


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("cache_salt", "", "at least 1 character"),
        ("cache_salt", "x" * 257, "at most 256 characters"),
        ("cache_salt", 3, "valid string"),
        ("cache", "false", "valid boolean"),
        ("cache", 0, "valid boolean"),
    ],
)
@pytest.mark.parametrize("model", [ChatBody, CompletionBody])
def test_a_bad_cache_field_is_refused_by_name(
    model: type[ChatBody | CompletionBody], field: str, value: Any, words: str
) -> None:
    with pytest.raises(ValidationError) as caught:
        model.model_validate({"messages": [], "prompt": "x", field: value})
    error = invalid_fields(caught.value)
    assert error.field == field
    assert str(error).startswith(f"{field}: ") and words in str(error)


@pytest.mark.parametrize("tier", [None, "auto", "default", "flex", "scale", "priority"])
def test_every_tier_of_openais_is_taken(tier: str | None) -> None:
    assert ChatBody.model_validate({"messages": [], "service_tier": tier}).service_tier == tier


@pytest.mark.parametrize("tier", ["gold", "", 1, True, ["auto"]])
def test_a_tier_that_is_none_is_refused_by_name(tier: Any) -> None:
    with pytest.raises(ValidationError) as caught:
        ChatBody.model_validate({"messages": [], "service_tier": tier})
    assert invalid_fields(caught.value).field == "service_tier"
