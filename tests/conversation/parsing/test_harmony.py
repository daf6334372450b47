"""GPT-OSS."""

from __future__ import annotations

from paceline.conversation.parsing import (
    OutputFormat,
)
from tests.conversation.parsing.cases import (
    read,
)


def test_a_message_behind_a_broken_call_is_a_message() -> None:
    call = '<|channel|>commentary to=functions.get_weather<|message|>{"city": '
    answer = read(call + "<|start|>assistant<|channel|>final<|message|>Yes.", OutputFormat("gpt_oss", "gpt_oss"))
    assert answer.calls == ()
    assert answer.content == call + "Yes."
