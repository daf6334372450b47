"""A model's process over the fake service: `python -m tests.front.fake_worker LISTENER NAME`.

The model's name says how it behaves: `fails...` cannot be loaded; `slow...` is loaded when its settings' chat_template
file exists. A prompt `!exit` ends the process as a crash does.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import AsyncGenerator, Callable

from paceline.front import worker
from paceline.requests import ChatRequest
from paceline.settings import Settings
from paceline.types import Delta
from tests.server.fake_service import FakeService


class FakeModel(FakeService):
    def __init__(self, settings: Settings, name: str) -> None:
        super().__init__(settings, load_error="its weights are damaged" if name.startswith("fails") else None)
        self.slow = name.startswith("slow")

    async def start(self) -> None:
        while self.slow and not (self.settings.chat_template and self.settings.chat_template.exists()):
            await asyncio.sleep(0.005)
        await super().start()

    def stream_chat(self, request: ChatRequest) -> AsyncGenerator[Delta, None]:
        if "!exit" in str(request.messages):
            os._exit(7)
        if "!die" in str(request.messages):
            return self._dying(request)
        return super().stream_chat(request)

    async def _dying(self, request: ChatRequest) -> AsyncGenerator[Delta, None]:
        """After the first piece of the answer."""
        async for delta in super().stream_chat(request):
            yield delta
            if delta.text:
                await asyncio.sleep(0.05)
                os._exit(7)


def make(settings: Settings, progress: Callable[[str, int, int], None]) -> FakeService:
    progress("reading weights", 1, 2)
    return FakeModel(settings, sys.argv[2])


if __name__ == "__main__":
    worker.run(socket.socket(fileno=int(sys.argv[1])), socket.socket(fileno=0), lambda settings: None, make)
