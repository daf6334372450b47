from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.errors import InvalidRequest
from paceline.server.common.fields import refuse_unsupported
from paceline.server.common.refused_fields import UNSUPPORTED
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


# What vLLM, llama.cpp, SGLang and mlx-lm take in chat requests and this server does not: each changes the answer, or
# adds to it.
OTHERS = {
    "media_io_kwargs": {"video": {"num_frames": 4}},
    "repetition_detection": {"max_pattern_size": 3},
    "return_prompt_text": True,
    "min_keep": 3,
    "adaptive_target": 0.5,
    "lora": [{"id": 0, "scale": 1}],
    "parse_tool_calls": False,
    "reasoning_budget_tokens": 5,
    "regex": "a+",
    "ebnf": 'root ::= "a"',
    "separate_reasoning": False,
    "repetition_context_size": 20,
}


@pytest.mark.parametrize("name", OTHERS)
def test_a_field_of_another_server_that_would_change_the_answer_is_refused(name: str) -> None:
    with pytest.raises(InvalidRequest, match=name):
        refuse_unsupported({name: OTHERS[name]}, UNSUPPORTED_IN_CHAT)
