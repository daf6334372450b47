"""What training reads is what the server sends: the chat template, segment by segment."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import pytest
from tokenizers import Tokenizer

from paceline.conversation.parsing.formats import choose_format
from paceline.conversation.parsing.parser import parse_output
from paceline.conversation.template import Templates
from training import data_chat, facts_forms
from training.data_chat import Chat, Turn
from training.data_kinds import DRAWS
from training.tokenizer import CHAT_TEMPLATE, SIZE

KINDS = sorted(set(DRAWS) - {"dialogue"})


def rendered(chat: Chat, **options: bool) -> str:
    tools = list(chat.tools) or None
    return Templates.of(CHAT_TEMPLATE, {}).render(chat.messages(), tools, **options)


@pytest.mark.thin(12)
@pytest.mark.parametrize("kind", KINDS)
def test_a_prompt_is_what_the_template_writes(kind: str, data: Path) -> None:
    rng = Random(kind)
    for _ in range(20):
        chat = DRAWS[kind](rng, "train")
        ours = "".join(text for text, _ in data_chat.segments(chat)[:-2])
        assert ours == rendered(chat, enable_thinking=chat.thinks)


@pytest.mark.slow
def test_earlier_turns_stay_the_same_as_turns_are_added(data: Path) -> None:
    rng = Random(1)
    for kind in ("talk", "tools", "lookup"):
        for _ in range(20):
            chat = DRAWS[kind](rng, "train")
            whole = "".join(text for text, _ in data_chat.segments(chat))
            for place, turn in enumerate(chat.turns):
                if turn.role == "assistant":
                    part = Chat(chat.turns[: place + 1], chat.kind, (), chat.system, chat.tools)
                    assert whole.startswith(rendered(part, enable_thinking=bool(turn.thought)))


def test_a_tool_call_is_read_back_by_the_servers_parser(data: Path) -> None:
    rng = Random(2)
    for _ in range(50):
        chat = facts_forms.tool_call(rng, "train", finish=False)
        answer = parse_output(data_chat.answer_text(chat.turns[-1]), choose_format(CHAT_TEMPLATE), list(chat.tools))
        name, given = chat.expect
        assert [(call.name, json.loads(call.arguments)) for call in answer.calls] == [(name, given)]


def test_a_think_block_is_read_back_as_reasoning() -> None:
    chat = Chat([Turn("user", "2 + 2?"), Turn("assistant", "4", "2 and 2.")], "talk", ())
    said = next(text for text, spoken in data_chat.segments(chat) if spoken).removesuffix("<|im_end|>")
    answer = parse_output(said, choose_format(CHAT_TEMPLATE), starts_in_reasoning=True)
    assert (answer.reasoning.strip(), answer.content.strip()) == ("2 and 2.", "4")


def test_the_cut_between_prompt_and_answer_is_a_cut_between_tokens(words: Tokenizer, data: Path) -> None:
    rng = Random(3)
    for kind in ("talk", "json", "tools", "scene"):
        chat = DRAWS[kind](rng, "train")
        parts = [text for text, _ in data_chat.segments(chat)]
        apart = [token for text in parts for token in words.encode(text, add_special_tokens=False).ids]
        assert apart == words.encode("".join(parts), add_special_tokens=False).ids


def test_the_vocabulary_fits_the_kernels() -> None:
    assert SIZE % 128 == 0
