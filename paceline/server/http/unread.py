"""Answers that are ready before their requests have arrived, for clients that send everything before they read."""

from __future__ import annotations

import asyncio

from starlette.types import ASGIApp, Message, Receive, Scope, Send

SECONDS = 30.0  # that the rest of a request may take
LEAST_BYTES = 256 << 20  # of it that are dropped at the most, or
TIMES = 8  # so many times what a body may have


class UnreadBody:
    """ASGI middleware: where an app answers early (413, 401, 404, ...), the answer goes out at once, but it ends only
    when the rest of the request has come and was dropped.

    A client that wants its connection closed, as urllib does, would otherwise be cut off while it sends: the reset
    destroys the answer on its way. Bounded in time and bytes: then the connection may break.
    """

    def __init__(self, app: ASGIApp, max_bytes: int) -> None:
        self.app = app
        self.most = max(LEAST_BYTES, TIMES * max_bytes)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not _comes_with_a_body(scope):
            await self.app(scope, receive, send)
            return
        arrived = False

        async def noted() -> Message:
            nonlocal arrived
            message = await receive()
            arrived = arrived or not message.get("more_body")
            return message

        async def held(message: Message) -> None:
            if message["type"] == "http.response.body" and not message.get("more_body") and not arrived:
                await send({**message, "more_body": True})
                await self._drop(noted)
                message = {"type": "http.response.body", "body": b""}
            await send(message)

        await self.app(scope, noted, held)

    async def _drop(self, receive: Receive) -> None:
        dropped, more = 0, True
        try:
            async with asyncio.timeout(SECONDS):
                while more and dropped <= self.most:
                    message = await receive()
                    dropped += len(message.get("body", b""))
                    more = bool(message.get("more_body"))
        except TimeoutError:
            return


def _comes_with_a_body(scope: Scope) -> bool:
    """Not so a client that asks first (Expect: 100-continue) and was answered: it keeps its body."""
    names = {name for name, _ in scope["headers"]}
    return b"expect" not in names and bool(names & {b"content-length", b"transfer-encoding"})
