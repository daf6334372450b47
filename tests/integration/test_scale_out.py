"""Replicas behind the real SMG, started by the example's script (`make scale` installs it)."""

from __future__ import annotations

import concurrent.futures
import itertools
import random
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from tests import fleet
from tests.fleet import MODEL, Server
from tests.lengths import turns
from tests.waiting import WAIT, until

SMG = fleet.find_smg()
WORDS = ("river", "stone", "window", "garden", "paper", "silver", "morning", "engine", "letter", "winter")
PATIENCE = 500.0  # seconds for one answer: several servers share the machine with other tests
ROUTED = "x-conversation-id"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(SMG is None, reason="there is no smg here: `make scale` installs it"),
]


def text(seed: str, words: int = 120) -> str:
    return " ".join(random.Random(seed).choices(WORDS, k=words))


def client(server: Server, key: str = "none", **options: Any) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{server.url}/v1", api_key=key, timeout=PATIENCE, max_retries=0, **options)


def ask(sdk: openai.OpenAI, messages: list[Any], tokens: int = 8) -> openai.types.chat.ChatCompletion:
    return sdk.chat.completions.create(
        model=MODEL, messages=messages, max_tokens=tokens, temperature=0, extra_body={"ignore_eos": True}
    )


def stream(sdk: openai.OpenAI, prompt: str, tokens: int) -> openai.Stream[openai.types.chat.ChatCompletionChunk]:
    return sdk.chat.completions.create(
        model=MODEL,
        messages=[{"role": "user", "content": prompt}],
        max_tokens=tokens,
        temperature=0,
        stream=True,
        stream_options={"include_usage": True},
        extra_body={"ignore_eos": True},
    )


def running_on(servers: list[Server]) -> Server:
    """The one replica that has something to do."""
    found: list[Server] = []

    def look() -> bool:
        found[:] = [server for server in servers if server.status()["num_requests_running"]]
        return bool(found)

    until(look)
    assert len(found) == 1
    return found[0]


@pytest.fixture(scope="module")
def three(hybrid: Path) -> Iterator[list[Server]]:
    with fleet.replicas(hybrid, 3) as started:
        yield started


@pytest.fixture
def router(three: list[Server]) -> Iterator[Server]:
    """A new one for each test: it remembers what it sent where."""
    assert SMG is not None
    with fleet.smg(SMG, three) as started:
        yield started


def test_conversations_stay_with_their_replica_and_spread_over_all(three: list[Server], router: Server) -> None:
    sdk, before = client(router), [server.finished() for server in three]
    rounds = turns(8, 4)

    def talk(name: int) -> list[int]:
        history: list[Any] = []
        cached = []
        for turn in range(rounds):
            history.append({"role": "user", "content": text(f"{name}/{turn}")})
            answer = ask(sdk, history)
            history.append({"role": "assistant", "content": text(f"{name}/{turn}/answer", 8)})
            assert answer.usage is not None and answer.usage.prompt_tokens_details is not None
            cached.append(answer.usage.prompt_tokens_details.cached_tokens or 0)
        return cached

    with concurrent.futures.ThreadPoolExecutor() as pool:
        found = list(pool.map(talk, range(turns(24, 9))))
    for cached in found:
        assert all(tokens > 0 for tokens in cached[1:]), cached
        assert cached[1:] == sorted(cached[1:])
    served = [server.finished() - count for server, count in zip(three, before, strict=True)]
    assert sum(served) == len(found) * rounds
    assert min(served) > 0, served


def test_smg_reads_the_load_of_every_replica(three: list[Server], router: Server) -> None:
    urls = {server.url for server in three}

    def read() -> bool:
        loads = httpx.get(f"{router.url}/get_loads", timeout=WAIT, trust_env=False).json()["loads"]
        return {load["worker"] for load in loads if load["max_running_requests"] == 64} == urls

    until(read)
    assert all(worker["runtime_type"] == "generic" for worker in fleet.workers(router))


def test_a_killed_replica_ends_its_streams_with_an_error_and_others_take_its_requests(
    hybrid: Path,
) -> None:
    assert SMG is not None
    with fleet.replicas(hybrid, 2) as servers, fleet.smg(SMG, servers) as router:
        sdk = client(router)
        answer = stream(sdk, text("long"), 20_000)
        chunks = iter(answer)
        for _ in range(10):
            next(chunks)
        victim = running_on(servers)
        victim.send(signal.SIGKILL)
        victim.process.wait()
        with pytest.raises((openai.APIError, httpx.TransportError)):
            for _ in chunks:
                pass
        for name in range(turns(30, 10)):
            reply = ask(sdk, [{"role": "user", "content": text(f"after {name}")}])
            assert reply.choices[0].finish_reason == "length"


def test_a_replica_that_drains_finishes_its_streams(hybrid: Path) -> None:
    assert SMG is not None
    tokens = 200
    with fleet.replicas(hybrid, 2, "--drain-seconds", "600") as servers, fleet.smg(SMG, servers) as router:
        sdk = client(router)
        chunks = iter(stream(sdk, text("draining"), tokens))
        parts = list(itertools.islice(chunks, 10))
        leaving = running_on(servers)
        [staying] = [server for server in servers if server is not leaving]
        leaving.send(signal.SIGTERM)
        for name in range(turns(30, 10)):  # while it drains, and when it is gone
            assert ask(sdk, [{"role": "user", "content": text(f"meanwhile {name}")}]).choices
        parts += chunks
        assert parts[-1].usage is not None and parts[-1].usage.completion_tokens == tokens
        assert leaving.process.wait(WAIT) == 0
        whole = list(stream(client(staying), text("draining"), tokens))
        assert written(parts) == written(whole)


def written(chunks: list[openai.types.chat.ChatCompletionChunk]) -> str:
    return "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices)


def test_stored_responses_are_found_with_their_routing_key_and_refused_without(
    three: list[Server], router: Server
) -> None:
    for name in range(6):
        pinned = client(router, default_headers={ROUTED: f"conversation {name}"})
        first = pinned.responses.create(model=MODEL, input=text(f"stored {name}"), max_output_tokens=16)
        second = pinned.responses.create(
            model=MODEL, input="And then?", previous_response_id=first.id, max_output_tokens=16
        )
        assert second.previous_response_id == first.id
        assert second.usage is not None and second.usage.input_tokens > first.usage.input_tokens  # type: ignore[union-attr]
    [home] = [server for server in three if stored(server, first.id)]
    assert stored(home, second.id)
    # SMG does not pass reading on: it has a store of its own, which is off.
    with pytest.raises(openai.NotFoundError, match=first.id):
        pinned.responses.retrieve(first.id)
    strangers = [server for server in three if server is not home]
    for server in strangers:
        with pytest.raises(openai.NotFoundError, match=first.id):
            client(server).responses.create(model=MODEL, input="And then?", previous_response_id=first.id)


def stored(server: Server, response_id: str) -> bool:
    found = httpx.get(f"{server.url}/v1/responses/{response_id}", timeout=WAIT, trust_env=False)
    assert found.status_code in (200, 404)
    return found.status_code == 200


def test_tenants_and_fairness_survive_the_router(hybrid: Path) -> None:
    assert SMG is not None
    keys = ("sk-router", "sk-first", "sk-second")
    flags = [part for key in keys for part in ("--api-key", key)]
    narrow = ("--scheduler-policy", "fair", "--max-num-seqs", "1", "--starvation-seconds", "3600")
    with fleet.replicas(hybrid, 1, *flags, *narrow) as [server], fleet.smg(SMG, [server], keys) as router:
        with pytest.raises(openai.AuthenticationError):
            ask(client(router, "sk-wrong"), [{"role": "user", "content": "hi"}])
        order: list[str] = []

        def work(key: str, name: str, tokens: int) -> None:
            ask(client(router, key), [{"role": "user", "content": text(name)}], tokens)
            order.append(key)

        with concurrent.futures.ThreadPoolExecutor() as pool:
            greedy = [pool.submit(work, "sk-first", f"greedy {name}", 40) for name in range(6)]
            until(lambda: waiting(server) == 5)
            late = pool.submit(work, "sk-second", "late", 8)
            for one in (*greedy, late):
                one.result()
        assert order.index("sk-second") <= 2, order
        assert sorted(order) == ["sk-first"] * 6 + ["sk-second"]


def waiting(server: Server) -> int:
    status = server.status("sk-first")
    assert {seq["tenant"] for seq in status["waiting_sequences"]} <= {"key-2", "key-3"}  # never the router's
    return int(status["num_requests_waiting"])
