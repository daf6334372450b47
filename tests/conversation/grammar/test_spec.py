"""What a request asks for, checked before it is compiled."""

from __future__ import annotations

import pytest

from paceline.conversation.grammar import GrammarSpec, Tool, limits, tool_call_spec
from paceline.errors import InvalidRequest


def test_choices_and_tools_have_limits_too() -> None:
    for choices in ([], "yes", [1], [str(place) for place in range(limits.ENTRIES + 1)]):
        with pytest.raises(InvalidRequest, match="choice"):
            GrammarSpec.choice(choices)  # type: ignore[arg-type]
    with pytest.raises(InvalidRequest, match="no tool 'g'"):
        tool_call_spec([Tool("f")], "g", "", "", False)
    with pytest.raises(InvalidRequest, match="same name"):
        tool_call_spec([Tool("f"), Tool("f")], "required", "", "", False)
    with pytest.raises(InvalidRequest, match="needs tools"):
        tool_call_spec([], "required", "", "", False)
    with pytest.raises(InvalidRequest, match="text"):
        tool_call_spec([Tool("f")], "auto", "", "", False)
