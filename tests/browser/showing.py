"""A fake service whose requests are lanes of the live view."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace

from paceline.requests import GenerateRequest
from paceline.stats import Stats
from paceline.types import Delta
from tests.server.fake_service import SCHEDULING, SEQUENCE, FakeService


class Showing(FakeService):
    """A completion stays inside after its first token until `released`."""

    def __init__(self) -> None:
        super().__init__()
        self.released = False

    def stats(self) -> Stats:
        inside = tuple(self.running)
        lengths = {request.request_id: self._length(request) for request in self.requests}
        running = tuple(
            replace(SEQUENCE, id=id, number=number, prompt_tokens=lengths.get(id, 1), prefilled_tokens=1)
            for number, id in enumerate(inside)
        )
        return replace(SCHEDULING, num_requests_running=len(running), running_sequences=running)

    def _length(self, request: object) -> int:
        return len(str(request.prompt)) if isinstance(request, GenerateRequest) else 1

    async def stream_generate(self, request: GenerateRequest) -> AsyncGenerator[Delta, None]:
        async with aclosing(super().stream_generate(request)) as stream:
            async for delta in stream:
                yield delta
                while not self.released:
                    await asyncio.sleep(0.01)
