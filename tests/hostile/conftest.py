from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.hostile.bystander import resident
from tests.hostile.harness import GB, Server, served


class Servers:
    """One server for all attacks, one after the other: what an earlier one left behind harms the later ones.

    One that an attack has killed is replaced: the next attack is not to blame.
    """

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._server: Server | None = None
        self._begun = 0

    def living(self) -> Server:
        if self._server is None or not self._server.is_alive:
            self._stack.close()
            self._server = self._stack.enter_context(served("--body-timeout-seconds", "5"))
            assert self._server.greedy
            self._server.bystander.watch(self._server.port)  # so that a first time is no baseline
            self._server.bystander.rest()
            self._begun = resident(self._server.pid)
        return self._server

    def close(self) -> None:
        server = self._server
        grown = 0 if server is None or not server.is_alive else resident(server.pid) - self._begun
        self._stack.close()
        assert server is None or grown <= server.most_growth, f"the server grew by {grown / GB:.2f} GB in all"


@pytest.fixture(scope="session")
def servers() -> Iterator[Servers]:
    servers = Servers()
    yield servers
    servers.close()


@pytest.fixture
def server(servers: Servers) -> Server:
    return servers.living()
