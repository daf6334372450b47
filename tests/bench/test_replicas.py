from __future__ import annotations

import json
import sys
import zlib
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from typer.testing import CliRunner

from paceline.bench.cli import app
from paceline.bench.prompts import Lengths
from paceline.bench.replicas import (
    Result,
    Way,
    at,
    compare,
    conversation_header,
    find_smg,
    replica,
    router,
    spread_here,
)
from paceline.bench.trace import Message, Plan
from paceline.bench.wire import Address, BenchError
from tests.bench.conftest import FakeServer, Reply

PLAN = Plan(requests=12, streams=1, turns=4, system=40, tools=0, message=Lengths(3, 9), answer=2)


def tokens(messages: list[Message]) -> list[int]:
    words = [word for message in messages for word in (message["role"], *message["content"].split())]
    return [zlib.crc32(word.encode()) for word in words]


class Replica(FakeServer):
    """It computes a prompt as far as it has not seen its beginning; a word is a token."""

    def __init__(self, admin: bool = True) -> None:
        super().__init__(self.serve)
        self.admin = admin
        self.seen: set[tuple[int, ...]] = set()
        self.computed = 0
        self.finished = 0

    async def serve(self, reply: Reply) -> None:
        ids = tokens(reply.body["messages"])
        prefixes = {tuple(ids[:length]) for length in range(1, len(ids))}
        self.computed += len(prefixes - self.seen)
        self.seen |= prefixes
        self.finished += 1
        await reply.stream()

    async def _route(self, path: str, reply: Reply) -> None:
        if path == "/v1/status":
            await reply.answer(200, {"prompt_tokens": self.computed, "requests_finished": {"length": self.finished}})
        elif path == "/tokenize" and "messages" in reply.body:
            await reply.answer(200, {"tokens": tokens(reply.body["messages"])})
        elif path == "/v1/cache/clear":
            self.seen.clear()
            await reply.answer(200 if self.admin else 403, {})
        else:
            await super()._route(path, reply)


class Router(FakeServer):
    """It keeps a conversation, known by its first message, with one replica."""

    def __init__(self, replicas: list[Replica]) -> None:
        super().__init__(self.route)
        self.replicas = replicas

    async def route(self, reply: Reply) -> None:
        first = zlib.crc32(reply.body["messages"][1]["content"].encode())
        await self.replicas[first % len(self.replicas)].serve(reply)


@pytest.fixture
def fleet() -> Iterator[list[Replica]]:
    with ExitStack() as stack:
        replicas = [Replica() for _ in range(3)]
        for replica in replicas:
            stack.enter_context(replica)
        yield replicas


def addresses(fleet: list[Replica]) -> list[Address]:
    return [Address.parse(replica.url) for replica in fleet]


async def played(fleet: list[Replica], *more: Way) -> list[Result]:
    return await compare(addresses(fleet), [*spread_here(len(fleet)), *more], None, PLAN, timeout=20.0)


async def test_one_replica_computes_the_ideal_and_round_robin_more(fleet: list[Replica]) -> None:
    one, in_turn = await played(fleet)
    assert (one.ratio, one.by_replica) == (1.0, (12,))
    assert in_turn.by_replica == (4, 4, 4)
    assert in_turn.ratio > 2
    assert in_turn.ideal == one.ideal


async def test_a_router_that_keeps_conversations_together_reaches_the_floor(fleet: list[Replica]) -> None:
    with Router(fleet) as router:
        *_, routed = await played(fleet, Way("router", 3, at(Address.parse(router.url))))
    assert sum(routed.by_replica) == PLAN.requests
    assert max(routed.by_replica) < PLAN.requests
    assert routed.trace.computed == routed.floor > routed.ideal


async def test_every_way_begins_with_empty_caches(fleet: list[Replica]) -> None:
    first = await played(fleet)
    second = await played(fleet)
    assert [result.trace.computed for result in first] == [result.trace.computed for result in second]


async def test_replicas_that_cannot_be_cleared_are_an_error() -> None:
    replica = Replica(admin=False)
    with replica, pytest.raises(BenchError, match="--admin-key"):
        await played([replica])


async def test_servers_that_do_not_count_are_an_error() -> None:
    class Silent(Replica):
        async def _route(self, path: str, reply: Reply) -> None:
            await (FakeServer if path == "/v1/status" else Replica)._route(self, path, reply)

    replica = Silent()
    with replica, pytest.raises(BenchError, match="/v1/status"):
        await played([replica])


def test_the_header_is_the_same_in_every_turn_of_a_conversation_only() -> None:
    first, second, _ = PLAN.conversations()
    opening = [*first.opening(), first.message(0)]
    later = [*opening, {"role": "assistant", "content": "yes"}, first.message(1)]
    assert conversation_header(opening) == conversation_header(later)
    assert conversation_header(opening) != conversation_header([*second.opening(), second.message(0)])


def command(*arguments: str) -> Any:
    small = ["--requests", "6", "--turns", "3", "--system-tokens", "20", "--output-tokens", "2", "--json", "-"]
    return CliRunner().invoke(app, ["replicas", *small, *arguments])


def test_the_command_compares_the_ways_to_running_replicas(
    fleet: list[Replica], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    given = [part for replica in fleet for part in ("--replica", replica.url)]
    with Router(fleet) as router:
        result = command(*given, "--router", router.url)
    assert result.exit_code == 0, result.output
    runs = json.loads(result.stdout)["runs"]
    assert [run["label"] for run in runs] == ["one replica", "round robin", f"router 127.0.0.1:{router.port}"]
    assert runs[0]["ratio"] == 1.0 < runs[1]["ratio"]
    assert "requests by replica" in result.stderr


def test_a_router_needs_its_replicas() -> None:
    result = command("--router", "http://127.0.0.1:1")
    assert isinstance(result.exception, BenchError) and "--replica" in str(result.exception)


def test_a_program_that_is_named_has_to_be_there() -> None:
    assert find_smg(sys.executable) == sys.executable
    with pytest.raises(BenchError, match="pip install smg"):
        find_smg("no-such-program")


def test_commands_name_what_they_start() -> None:
    assert replica("folder").command[3:] == ["serve", "folder", "--log-level", "warning"]
    assert replica(None).command[3:5] == ["serve", "--log-level"]
    replicas = [Address.parse("http://a:1"), Address.parse("http://b:2")]
    command = router("smg", replicas, "cache_aware", ["--more"]).command
    assert command[:2] == ["smg", "launch"] and command[-1] == "--more"
    place = command.index("--worker-urls")
    assert command[place + 1 : place + 3] == ["http://a:1", "http://b:2"]
