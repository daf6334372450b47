from __future__ import annotations

from typing import Any

import pytest

from paceline.conversation.continuation import MARK, cut, marked
from paceline.conversation.template import Templates
from paceline.errors import InvalidRequest

CHATML = (
    "{% for m in messages %}<|{{ m.role }}|>{{ m.content | trim }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
ASKED = {"role": "user", "content": "hi"}


@pytest.mark.parametrize("begun", ["I am", "I am ", "", "a\n"])
def test_the_template_writes_the_message_up_to_its_last_character(begun: str) -> None:
    conversation = marked([ASKED, {"role": "assistant", "content": begun}])
    text = cut(Templates.of(CHATML).render(conversation, add_generation_prompt=False))
    assert text == f"<|user|>hi<|end|><|assistant|>{begun}"


def test_parts_are_continued_too() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    last = marked([ASKED, {"role": "assistant", "content": parts}])[-1]
    assert last["content"][-1]["text"] == "b" + MARK and parts[-1]["text"] == "b"


@pytest.mark.parametrize(
    "last",
    [
        ASKED,
        {"role": "assistant", "content": "", "tool_calls": [{"id": "1"}]},
        {"role": "assistant", "content": [{"type": "image"}]},
    ],
)
def test_only_text_of_the_assistants_is_continued(last: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest, match="messages"):
        marked([ASKED, last])


def test_a_template_that_drops_the_message_is_named() -> None:
    with pytest.raises(InvalidRequest, match="does not write"):
        cut("<|user|>hi")
