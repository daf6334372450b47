"""What a sequence hears of its tokens, without an engine."""

from __future__ import annotations

from typing import Any

import pytest

from paceline.conversation.text import ByteDetokenizer, TextStream
from paceline.engine import delivery
from paceline.engine.sequence import EngineRequest, Sequence
from paceline.errors import QueueFull
from paceline.types import Acceptance, Delta, Prompt, RequestId, Sampling, TokenLogprob

END = frozenset({0})


class Told(list[Delta]):
    def seq(self, limit: int = 100, **sampling: Any) -> Sequence:
        wanted = Sampling(**sampling)
        text = TextStream(ByteDetokenizer(lambda token: bytes([token])), wanted.stop)
        return Sequence(
            EngineRequest(RequestId("row"), Prompt((7, 8), tail="tail"), wanted, limit, eos_ids=END), text, self.append
        )

    @property
    def text(self) -> str:
        return "".join(delta.text for delta in self)


def arriving(told: Told, name: str, *, announce: bool = True) -> Sequence:
    request = EngineRequest(RequestId(name), Prompt((7, 8, 9)), Sampling(), 9, announce=announce)
    return Sequence(request, TextStream(ByteDetokenizer(lambda token: bytes([token]))), told.append)


def test_an_arrival_is_announced_once_unless_it_has_ended_or_nobody_asked() -> None:
    told, arrivals = Told(), delivery.Arrivals()
    waits, restored, refused = (arriving(told, name) for name in ("waits", "restored", "refused"))
    waits.queue.uncached_tokens = 2
    restored.prefix.cached_tokens, restored.queue.started = 2, True
    refused.finished = "error"
    for seq in (waits, restored, refused, arriving(told, "silent", announce=False)):
        arrivals.add(seq)
    arrivals.announce()
    arrivals.announce()
    assert told == [Delta(accepted=Acceptance(3, 1)), Delta(accepted=Acceptance(3, 2))]
    say(waits, "a")
    assert told[-1].prompt is not None  # the announcement is not its first delta


def say(seq: Sequence, text: str) -> list[str | None]:
    return [delivery.deliver_token(seq, ord(letter), None) for letter in text]


def test_the_first_delta_tells_of_the_prompt_and_the_last_of_what_was_used() -> None:
    told = Told()
    seq = told.seq()
    assert say(seq, "abc\0") == [None, None, None, "stop"]
    assert told.text == "abc" and [delta.finish_reason for delta in told] == [None, None, None, "stop"]
    assert told[0].prompt is not None and told[0].prompt.tail == "tail"
    assert all(delta.prompt is None for delta in told[1:]) and all(delta.usage is None for delta in told[:-1])
    usage = told[-1].usage
    assert usage is not None and (usage.prompt_tokens, usage.completion_tokens) == (2, 4)


def test_the_end_token_has_no_text_but_is_told_with_its_score() -> None:
    told = Told()
    seq = told.seq()
    say(seq, "a")
    score = TokenLogprob(0, -0.5)
    assert delivery.deliver_token(seq, 0, score) == "stop"
    assert [token for delta in told for token in delta.token_ids] == [97, 0]
    assert told.text == "a" and told[-1].logprobs[-1] is score


def test_the_last_token_that_it_may_say_ends_it() -> None:
    told = Told()
    seq = told.seq(limit=2)
    assert say(seq, "ab") == [None, "length"]
    assert told.text == "ab" and told[-1].finish_reason == "length"


def test_a_stop_is_told_and_not_said() -> None:
    told = Told()
    seq = told.seq(stop=("cd",))
    assert say(seq, "abcd") == [None, None, None, "stop"]
    assert told.text == "ab" and told[-1].stop_reason == "cd"


def test_before_its_least_length_nothing_stops_it() -> None:
    told = Told()
    seq = told.seq(min_tokens=3, stop=("b",), stop_token_ids=(120,))
    assert delivery.deliver_token(seq, 0, None) is None
    assert say(seq, "b") == [None]
    assert say(seq, "x") == [None]
    assert delivery.deliver_token(seq, 120, None) == "stop"
    assert told[-1].stop_reason == 120


@pytest.mark.parametrize("reason", ["abort", "error"])
def test_what_it_held_back_is_lost_where_it_did_not_end_by_itself(reason: Any) -> None:
    told = Told()
    seq = told.seq(stop=("bcd",))
    say(seq, "ab")
    refusal = QueueFull("full", 3) if reason == "error" else None
    assert delivery.finish(seq, reason, error="why", refusal=refusal) == reason
    assert told.text == "a" and (told[-1].error, told[-1].refusal) == ("why", refusal)


def test_draft_tokens_that_were_right_move_from_one_count_to_the_other() -> None:
    told = Told()
    seq = told.seq()
    seq.rejected = 2
    delivery.deliver_token(seq, 97, None, drafted=True)
    delivery.deliver_token(seq, 98, None)
    assert (seq.accepted, seq.rejected) == (1, 1) and [delta.drafts for delta in told] == [(1, 1)] * 2
