"""What clients ask for, and what they make of an answer."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from typing import TYPE_CHECKING

import httpx

from benchmarks.crowd import Ask, Crowd, Manner, Mix, Outcome, _broken_off, _refused
from paceline.bench.prompts import Lengths
from tests.waiting import WAIT

if TYPE_CHECKING:
    from tests.bench.conftest import Reply, Serve


def ask(manner: Manner = "stays") -> Ask:
    return Ask("one", "/v1/completions", {"stream": False}, manner)


def refusal(status: int, code: str, headers: dict[str, str] | None = None, manner: Manner = "stays") -> Outcome:
    answer = httpx.Response(status, headers=headers, json={"error": {"message": "a reason", "code": code}})
    return _refused(answer, ask(manner))


def test_a_refusal_says_when_to_come_back() -> None:
    outcome = refusal(429, "queue_full", {"retry-after": "7"})
    assert (outcome.ending, outcome.cause, outcome.retry_after) == ("refused", "queue full", 7.0)
    silent = refusal(503, "queue_timeout")
    assert silent.ending == "broken"
    assert "503 without Retry-After" in silent.detail


def test_what_never_fits_and_what_was_cancelled_is_no_mistake() -> None:
    assert refusal(400, "memory_limit_exceeded").ending == "never fits"
    assert refusal(400, "context_length_exceeded").ending == "broken"
    assert refusal(499, "request_cancelled", manner="cancels").ending == "cancelled"
    assert refusal(499, "request_cancelled").ending == "broken"
    assert _refused(httpx.Response(500, text="no JSON"), ask()).ending == "broken"


def test_a_stream_may_be_cut_off_for_a_reason_only() -> None:
    assert _broken_off({"code": "deadline"}, ask(), 1.0).ending == "cut off"
    assert _broken_off({"code": "slow_reader"}, ask("dawdles"), 1.0).ending == "cut off"
    assert _broken_off({"code": "slow_reader"}, ask("stays"), 1.0).ending == "broken"
    assert _broken_off({"code": None, "message": "oh"}, ask("cancels"), 1.0).ending == "broken"


def test_clients_ask_for_everything_and_the_same_for_the_same_seed() -> None:
    crowd = Crowd("http://127.0.0.1:9", "m", Mix(prompt=Lengths(10, 500), giant=600), lambda tokens: tokens, 1.0)
    chance, again = random.Random(1), random.Random(1)
    asked = [crowd.ask(chance, index) for index in range(300)]
    assert [each.body for each in asked] == [crowd.ask(again, index).body for index in range(300)]
    manners = Counter(each.manner for each in asked)
    assert set(manners) == {"stays", "cancels", "leaves", "dawdles"}
    assert {each.path for each in asked} == {"/v1/completions", "/v1/chat/completions"}
    assert {each.body["user"] for each in asked} == {f"tenant-{number}" for number in range(6)}
    assert {each.streams for each in asked} == {True, False}
    lengths = [len(each.body["prompt"]) for each in asked if "prompt" in each.body]
    assert min(lengths) < 15 and 400 < max(lengths) <= 600
    assert any(isinstance(each.body["messages"][-1]["content"], list) for each in asked if "messages" in each.body)
    assert len({each.id for each in asked}) == len(asked)


async def test_a_crowd_writes_down_how_every_request_ended(fake: Serve) -> None:
    async def script(reply: Reply) -> None:
        if reply.body["max_tokens"] % 3 == 0:
            await reply.answer(500, {"error": {"message": "no luck"}})
        elif reply.body["stream"]:
            await reply.stream()
        else:
            await reply.answer(200, {"choices": [{"finish_reason": "length"}]})

    mix = Mix(prompt=Lengths(2, 5), answer=Lengths(1, 9), completions=0, giants=0, leaves=0, cancels=0, dawdles=0)
    server = fake(script)
    crowd = Crowd(server.url, "m", mix, lambda tokens: tokens, 20.0)
    await asyncio.wait_for(crowd.play(6, 1.5), WAIT)
    endings = Counter(outcome.ending for outcome in crowd.outcomes)
    assert set(endings) == {"answered", "broken"}
    assert sum(endings.values()) == len(server.bodies)
    assert all(outcome.seconds > 0 for outcome in crowd.outcomes)
