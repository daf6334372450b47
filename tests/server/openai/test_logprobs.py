from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from paceline.conversation.parsing.events import Content, Reasoning
from paceline.server.common.chat_run import ChatDelta
from paceline.server.openai.logprobs import AnswerTokens, CompletionLogprobs, chat_logprobs, token_label
from paceline.types import TokenLogprob
from tests.server.fake_service import END, ByteTokenizer

TOKENIZER = ByteTokenizer()


class Twins(ByteTokenizer):
    """Two ids for one text, as some vocabularies have them."""

    def token_bytes(self, token_id: int) -> bytes:
        return b"a" if token_id in (1, 2) else super().token_bytes(token_id)


def test_tokens_of_reasoning_and_of_its_marks_are_not_the_answers() -> None:
    deltas = [
        ChatDelta(0, token_ids=(1,)),  # the mark that begins it
        ChatDelta(0, (Reasoning("hm"),), token_ids=(2,)),
        ChatDelta(0, token_ids=(3,)),  # the mark that ends it
        ChatDelta(0, (Content("S"),), token_ids=(4,)),
        ChatDelta(0, token_ids=(5,)),  # a part of a character
        ChatDelta(0, (Content("é"),), token_ids=(6,)),
        ChatDelta(0, token_ids=(7,), finish_reason="stop"),
    ]
    tokens = AnswerTokens()
    assert [[each.token_ids[0] for each in tokens.of(delta)] for delta in deltas] == [[], [], [], [4], [], [5, 6], [7]]


def test_a_label_is_text_or_bytes() -> None:
    assert token_label(TOKENIZER, 97) == "a"
    assert token_label(TOKENIZER, 0xE2) == "bytes:\\xe2"
    assert token_label(TOKENIZER, END) == "<end>"


def test_of_two_tokens_with_one_label_the_likelier_is_kept() -> None:
    entry = TokenLogprob(2, -3.0, ((1, -0.5), (2, -3.0)))
    lists = CompletionLogprobs(Twins(), skip_special_tokens=True).output([entry])
    assert lists["top_logprobs"] == [{"a": -0.5}]
    assert lists["token_logprobs"] == [-3.0]


def test_the_chosen_token_is_among_the_top_ones_even_when_it_is_unlikely() -> None:
    lists = CompletionLogprobs(TOKENIZER, skip_special_tokens=True).output([TokenLogprob(98, -8.0, ((97, -0.1),))])
    assert lists["top_logprobs"] == [{"a": -0.1, "b": -8.0}]


def test_minus_infinity_becomes_a_number_that_json_has() -> None:
    [entry] = chat_logprobs(TOKENIZER, [TokenLogprob(97, -math.inf, ((98, -math.inf),))])["content"]
    assert entry["logprob"] == entry["top_logprobs"][0]["logprob"] == -9999.0


def test_tokens_may_be_named_by_their_ids() -> None:
    entry = TokenLogprob(97, -1.0, ((97, -1.0), (0xE2, -2.0)))
    [shown] = chat_logprobs(TOKENIZER, [entry], as_ids=True)["content"]
    assert [shown["token"], *(top["token"] for top in shown["top_logprobs"])] == [
        "token_id:97",
        "token_id:97",
        "token_id:226",
    ]
    lists = CompletionLogprobs(TOKENIZER, skip_special_tokens=True, as_ids=True).output([entry, entry])
    assert lists["tokens"] == ["token_id:97"] * 2
    assert lists["top_logprobs"][0] == {"token_id:97": -1.0, "token_id:226": -2.0}
    assert lists["text_offset"] == [0, 1]  # of the text, not of the names


@given(st.text(max_size=30))
def test_offsets_point_to_the_character_that_a_token_begins_or_continues(text: str) -> None:
    entries = [TokenLogprob(byte, -1.0) for byte in text.encode()]
    lists = CompletionLogprobs(TOKENIZER, skip_special_tokens=True).output(entries)
    expected = [position for position, letter in enumerate(text) for _ in letter.encode()]
    assert lists["text_offset"] == expected
