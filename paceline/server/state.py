"""What every route is given: the settings, the metrics, and the service behind them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from paceline.conversation.parsing.formats import OutputFormat
from paceline.errors import EngineUnavailable
from paceline.requests import ChatRequest, EmbedRequest, GenerateRequest
from paceline.server.http.drain import DrainGate
from paceline.server.http.errors import ModelNotFound
from paceline.server.http.requests import Requests
from paceline.server.http.response import Events, KeepAlive
from paceline.server.metrics import Metrics
from paceline.settings import Settings
from paceline.stats import Stats
from paceline.types import Delta, Lora, RequestId, Sampling

LOADED_POLL_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class AppState:
    backend: Backend
    settings: Settings
    metrics: Metrics
    gate: DrainGate
    requests: Requests

    @property
    def keep_alive(self) -> KeepAlive:
        """Of streams, where their API has no event for it."""
        return KeepAlive(self.settings.stream_keepalive_seconds)

    @property
    def model_name(self) -> str:
        """The name that clients see."""
        return self.settings.served_name or self.backend.model_name

    @property
    def model_names(self) -> tuple[str, ...]:
        """All names that it is served by, the one that clients see first."""
        return self.settings.served_names or (self.backend.model_name,)

    def check_ready(self, *, may_load: bool = False) -> None:
        """`may_load`: the request can wait for the model."""
        if self.backend.failure is not None:
            raise EngineUnavailable(self.backend.failure)
        if not self.backend.ready and not may_load:
            raise EngineUnavailable("The model is still loading.")

    def once_ready(self, events: Callable[[], Events]) -> Events:
        """A stream's events. While the model loads it waits, and is kept alive like one that waits in the queue."""
        return events() if self.backend.ready else self._after_loading(events)

    async def _after_loading(self, events: Callable[[], Events]) -> Events:
        while not self.backend.ready:
            self.check_ready(may_load=True)
            if self.gate.closed:
                raise EngineUnavailable(self.gate.why)
            await asyncio.sleep(LOADED_POLL_SECONDS)
        async with aclosing(events()) as found:
            async for event in found:
                yield event

    def check_model(self, name: str | None) -> None:
        """A request may leave the model out; one that names another model is not ours to answer."""
        if name is None or self.settings.any_model_name:
            return
        known = (*self.model_names, self.backend.model_name)
        if name not in known and untagged(name) not in map(untagged, known) and self.lora_of(name) is None:
            raise ModelNotFound(name, (*self.model_names, *self.backend.loras))

    def lora_of(self, name: str | None) -> str | None:
        """The adapter that a request's model names; None: the model itself."""
        if name is None or name in self.backend.loras:
            return name
        return untagged(name) if untagged(name) in self.backend.loras else None

    def answers_as(self, name: str | None) -> str:
        """The name that an answer shows: the adapter's, or the model's."""
        return self.lora_of(name) or self.model_name


def untagged(name: str) -> str:
    """Ollama's clients add the tag where there is none."""
    return name.removesuffix(":latest")


class Tokenizer(Protocol):
    """Every call may come from any thread."""

    @property
    def vocab_size(self) -> int: ...
    @property
    def eos_ids(self) -> Collection[int]: ...
    @property
    def chat_template(self) -> str | None: ...
    def encode(self, text: str, add_special_tokens: bool = True) -> list[int]: ...
    def decode(self, ids: Sequence[int], skip_special_tokens: bool = True) -> str: ...
    def token_bytes(self, token_id: int) -> bytes: ...
    def token_text(self, token_id: int) -> str: ...


class Backend(Protocol):
    """The facade as HTTP sees it.

    `model_name`, `loras` (names of adapters) and `stats` can be read at any time, `tokenizer`, `context_length`,
    `takes_images`, `takes_chat` once `ready`. A stream raises errors of its request from its first `__anext__`, those
    of its wait and its run later where the request is announced; closing it frees its sequences.
    `clear_cache` returns what it freed and does not affect running sequences. `stop` ends what runs with finish reason
    "abort"; a second one does nothing. `sampling` puts what is given, and not None, over the model's own defaults.
    """

    @property
    def ready(self) -> bool: ...
    @property
    def failure(self) -> str | None: ...
    @property
    def model_name(self) -> str: ...
    @property
    def context_length(self) -> int: ...
    @property
    def takes_images(self) -> bool: ...
    @property
    def takes_chat(self) -> bool: ...
    @property
    def embedding_size(self) -> int | None: ...
    @property
    def answer_format(self) -> OutputFormat: ...
    @property
    def no_thinking_budget(self) -> str | None: ...
    @property
    def tokenizer(self) -> Tokenizer: ...
    @property
    def loras(self) -> tuple[str, ...]: ...
    async def start(self) -> None: ...
    async def stop(self) -> None: ...
    def stream_chat(self, request: ChatRequest) -> AsyncGenerator[Delta, None]: ...
    def stream_generate(self, request: GenerateRequest) -> AsyncGenerator[Delta, None]: ...
    def stream_embed(self, request: EmbedRequest) -> AsyncGenerator[Delta, None]: ...
    def sampling(self, **given: Any) -> Sampling: ...
    def abort(self, request_id: RequestId) -> None: ...
    def stats(self) -> Stats: ...
    async def clear_cache(self) -> Mapping[str, Any]: ...
    async def load_lora(self, name: str, folder: Path) -> Lora: ...
    async def unload_lora(self, name: str) -> None: ...
    def tokenize(self, text: str, add_special_tokens: bool = True) -> list[int]: ...
    def render(
        self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]] | None = None, **options: Any
    ) -> list[int]: ...
