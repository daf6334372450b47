"""The chat in the terminal."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Callable
from typing import Any, cast

import pytest

from paceline import terminal
from paceline.errors import EngineUnavailable, InvalidRequest, LoadError, QueueFull, RequestFailed
from paceline.requests import ChatRequest
from paceline.service import Service
from paceline.types import Delta, RequestId, Sampling


class FakeService:
    """Answers with the number of messages it was given; can fail, or be interrupted on the way."""

    takes_chat = True

    def __init__(self) -> None:
        self.log: list[str] = []
        self.requests: list[ChatRequest] = []
        self.aborted: list[RequestId] = []
        self.on_delta: Callable[[], None] = lambda: None
        self.failure: Exception | str | None = None

    async def start(self) -> None:
        self.log.append("start")

    async def stop(self) -> None:
        self.log.append("stop")

    def abort(self, request_id: RequestId) -> None:
        self.aborted.append(request_id)

    def sampling(self, **given: Any) -> Sampling:
        return Sampling(**given)

    async def stream_chat(self, request: ChatRequest) -> AsyncIterator[Delta]:
        self.requests.append(request)
        if isinstance(self.failure, Exception):
            raise self.failure
        for piece in (f"saw {len(request.messages)}", " messages", "."):
            yield Delta(text=piece)
            self.on_delta()
            await asyncio.sleep(0)
        yield Delta(finish_reason="error" if self.failure else "stop", error=self.failure)


def talk(service: FakeService, *lines: str | type[BaseException], system: str | None = None) -> str:
    """What the terminal shows when these lines are typed; an exception is the key that raises it."""
    screen: list[str] = []
    typed = iter((*lines, EOFError))

    def read(prompt: str) -> str:
        line = next(typed)
        if isinstance(line, str):
            return line
        raise line

    chat = terminal.Chat(
        cast(Service, service),
        sampling={"temperature": 0},
        system=system,
        read=read,
        write=screen.append,
    )
    chat.run()
    return "".join(screen)


def test_the_chat_streams_answers_and_remembers_them() -> None:
    service = FakeService()
    screen = talk(service, "hello", "  ", "again")
    assert "saw 1 messages.\n" in screen
    assert [message["content"] for message in service.requests[1].messages] == [
        "hello",
        "saw 1 messages.",
        "again",
    ]
    assert service.requests[0].sampling.temperature == 0
    assert service.log == ["start", "stop"]


def test_clear_forgets_everything_but_the_system_prompt() -> None:
    service = FakeService()
    talk(service, "hello", "/clear", "again", system="Be brief.")
    assert [message["role"] for message in service.requests[1].messages] == ["system", "user"]


def test_exit_leaves_and_an_unknown_command_is_not_sent_to_the_model() -> None:
    service = FakeService()
    screen = talk(service, "/what", "/exit", "never read")
    assert service.requests == []
    assert screen.count(terminal.HELP) == 2
    assert service.log == ["start", "stop"]


def test_ctrl_c_stops_the_answer_and_the_conversation_goes_on() -> None:
    service = FakeService()
    service.on_delta = lambda: signal.raise_signal(signal.SIGINT) if len(service.requests) == 1 else None
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
    try:
        screen = talk(service, "hello", "again")
    finally:
        signal.signal(signal.SIGINT, before)
    assert "saw 1 [stopped]\n" in screen
    assert service.aborted == [service.requests[0].request_id]
    assert service.requests[1].messages[1] == {"role": "assistant", "content": "saw 1"}
    assert "saw 3 messages.\n" in screen


def test_ctrl_c_at_the_prompt_drops_the_line_and_asks_again() -> None:
    service = FakeService()
    talk(service, KeyboardInterrupt, "hello")
    assert len(service.requests) == 1


@pytest.mark.parametrize(
    "failure", [InvalidRequest("too long"), EngineUnavailable("too long"), QueueFull("too long", 1), "too long"]
)
def test_a_question_that_fails_is_reported_and_forgotten(failure: Exception | str) -> None:
    service = FakeService()
    service.failure = failure
    screen = talk(service, "hello", "again")
    assert screen.count("[failed: too long]") == 2
    assert [message["content"] for message in service.requests[1].messages] == ["again"]


def test_a_model_without_a_chat_template_is_said_and_the_chat_ends() -> None:
    service = FakeService()
    service.takes_chat = False
    with pytest.raises(LoadError, match="no chat template, so it cannot chat: give one with --chat-template"):
        talk(service, "hello")
    assert (service.requests, service.log) == ([], ["start", "stop"])


def once(service: FakeService) -> str:
    written: list[str] = []
    chat = terminal.Chat(cast(Service, service), system="Be brief.", write=written.append)
    chat.once("hello")
    return "".join(written)


def test_one_question_is_answered_and_the_service_ends() -> None:
    service = FakeService()
    assert once(service) == "saw 2 messages.\n"
    assert service.log == ["start", "stop"]


def test_one_question_without_an_answer_is_an_error_and_the_service_ends() -> None:
    service = FakeService()
    service.failure = InvalidRequest("too long")
    with pytest.raises(RequestFailed):
        once(service)
    service.takes_chat = False
    with pytest.raises(LoadError, match="no chat template"):
        once(service)
    assert service.log == ["start", "stop"] * 2


def test_one_answer_that_is_stopped_says_so_on_standard_error_only(capsys: pytest.CaptureFixture[str]) -> None:
    service = FakeService()
    service.on_delta = lambda: signal.raise_signal(signal.SIGINT)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            terminal.Chat(cast(Service, service)).once("hello")
    finally:
        signal.signal(signal.SIGINT, before)
    assert capsys.readouterr() == ("saw 1\n", "[stopped]\n")
    assert service.aborted == [service.requests[0].request_id] and service.log == ["start", "stop"]
