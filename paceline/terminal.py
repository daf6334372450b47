"""A chat in the terminal: one conversation, streamed, on the same Service that the server uses."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from paceline.errors import LoadError, PacelineError, RequestFailed
from paceline.requests import ChatRequest
from paceline.service import Service
from paceline.types import RequestId

HELP = "/clear forgets the conversation, /exit or Ctrl-D leaves, Ctrl-C stops an answer."

NO_TEMPLATE = "This model has no chat template, so it cannot chat: give one with --chat-template."


class Chat:
    """Reads a line, streams the answer, and again. `read` and `write` are the terminal."""

    def __init__(
        self,
        service: Service,
        *,
        sampling: Mapping[str, Any] | None = None,
        system: str | None = None,
        read: Callable[[str], str] = input,
        write: Callable[[str], object] | None = None,
    ) -> None:
        self.service = service
        self.sampling = dict(sampling or {})  # over the model's own defaults
        self.system = system
        self.read = read
        self.write = write or _write_at_once
        self.messages: list[dict[str, Any]] = []
        self.clear()

    def clear(self) -> None:
        self.messages = [{"role": "system", "content": self.system}] if self.system else []

    def run(self) -> None:
        """Until the user leaves. The event loop runs while there is something to wait for, `read` between."""
        with contextlib.suppress(ImportError):
            import readline  # noqa: F401  # its import gives input() arrow keys and a history
        with self._started() as runner:
            self.write(f"{HELP}\n")
            while (line := self._next_line()) is not None:
                runner.run(self.answer(line))

    def once(self, text: str) -> None:
        """Answer one prompt; only the answer goes to standard output. Raises RequestFailed where there is no answer,
        and KeyboardInterrupt where it was stopped."""
        with self._started() as runner:
            if not runner.run(self.answer(text, _write_aside)):
                raise KeyboardInterrupt
            if not self.messages or self.messages[-1]["role"] != "assistant":
                raise RequestFailed("there is no answer")

    @contextlib.contextmanager
    def _started(self) -> Iterator[asyncio.Runner]:
        with asyncio.Runner() as runner:
            runner.run(self.service.start())
            try:
                if not self.service.takes_chat:
                    raise LoadError(NO_TEMPLATE)
                yield runner
            finally:
                runner.run(self.service.stop())

    def _next_line(self) -> str | None:
        """The next thing to say to the model; None when the user leaves."""
        while True:
            try:
                line = self.read("\n> ").strip()
            except EOFError:
                return None
            except KeyboardInterrupt:  # nothing is running: drop the half-typed line, as a shell does
                continue
            if line == "/exit":
                return None
            if line == "/clear":
                self.clear()
                self.write("The conversation starts anew.\n")
            elif line.startswith("/"):
                self.write(f"{HELP}\n")
            elif line:
                return line

    async def answer(self, text: str, aside: Callable[[str], object] | None = None) -> bool:
        """Stream one answer and remember it. Ctrl-C cancels this coroutine; the text so far stays, and this returns
        False. `aside` writes what is no part of the answer."""
        self.messages.append({"role": "user", "content": text})
        request_id = RequestId(f"chat-{uuid.uuid4().hex}")
        sampling = self.service.sampling(**self.sampling)
        request = ChatRequest(messages=tuple(self.messages), sampling=sampling, request_id=request_id)
        pieces: list[str] = []
        failure: str | None = None
        stopped = False
        try:
            async for delta in self.service.stream_chat(request):
                pieces.append(delta.text)
                self.write(delta.text)
                failure = failure or delta.error
        except asyncio.CancelledError:
            self.service.abort(request_id)
            stopped = True
        except PacelineError as error:
            failure = str(error)
        self.write(" [stopped]\n" if stopped and aside is None else "\n")
        if stopped and aside is not None:
            aside("[stopped]\n")
        if failure is None:
            self.messages.append({"role": "assistant", "content": "".join(pieces)})
        else:
            self.messages.pop()  # as if it had not been asked: the next line may do better
            (aside or self.write)(f"[failed: {failure}]\n")
        return not stopped


def _write_at_once(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def _write_aside(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()
