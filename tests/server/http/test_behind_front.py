from __future__ import annotations

from typing import Any

from paceline.server.http.behind_front import FromFront, identity_headers


async def asked_as(headers: list[tuple[bytes, bytes]]) -> dict[str, Any]:
    seen: dict[str, Any] = {}

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.update(scope)

    async def nothing(*_: Any) -> Any: ...

    await FromFront(app)({"type": "http", "headers": headers, "client": None}, nothing, nothing)
    return seen


async def test_who_asks_is_what_the_front_says() -> None:
    scope = await asked_as(identity_headers("10.0.0.7", "key-1", False))
    assert scope["client"] == ("10.0.0.7", 0) and scope["state"]["user"] == "key-1"
    assert not scope["state"]["access"].admin and scope["state"]["access"].keyed_admin
    scope = await asked_as(identity_headers("", None, True))
    assert (scope["client"], scope["state"]["user"], scope["state"]["access"].admin) == (None, None, True)


async def test_what_the_front_does_not_say_nobody_may() -> None:
    scope = await asked_as([])
    assert scope["state"]["user"] is None and not scope["state"]["access"].admin
