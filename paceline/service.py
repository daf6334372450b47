"""The public calls, used by the server and by Python users.

`chat`, `stream_chat`, `generate` and `stream_generate` share one path (`_stream`): build the prompt, check it, submit
one sequence per choice, yield the deltas. Calls that do not stream collect the streams of those that do. `embed` takes
the same path with a sequence that ends after its prompt.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, aclosing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paceline.conversation.messages import LONG_TEXT, is_heavy
from paceline.conversation.parsing.formats import OutputFormat
from paceline.delta_stream import DeltaStream
from paceline.engine.limits import validate, validate_choices
from paceline.errors import EngineUnavailable, InvalidRequest, RequestFailed
from paceline.logs import log_prompt
from paceline.requests import ChatRequest, Completion, Embedding, EmbedRequest, GenerateRequest, collect, new_request_id
from paceline.runtime import Progress, Runtime, clear_caches, release_model_memory
from paceline.settings import Settings
from paceline.stats import Stats
from paceline.types import Acceptance, Delta, Lora, Prompt, PromptInfo, RequestId, Sampling, Usage

if TYPE_CHECKING:
    from paceline.engine.rank_role import RankRole


class Service:
    """One model, one engine. `start` loads, `stop` frees everything, and `start` works again."""

    def __init__(
        self,
        settings: Settings | None = None,
        progress: Progress | None = None,
        ranks: RankRole | None = None,
    ) -> None:
        """`ranks`: makes this rank 0 of several that have the model together (paceline/parallel)."""
        self.settings = settings or Settings()
        self._progress = progress
        self._ranks = ranks
        self._runtime: Runtime | None = None
        self._starting = threading.Lock()
        self._pending_starts: dict[threading.Event, Future[None]] = {}  # by the event that cancels it
        self._begun: threading.Event | None = None  # of a pending start that nobody waits for yet

    # -- lifecycle

    def begin(self) -> None:
        """Begin to load. `start` waits for it, and raises what went wrong; `stop` cancels it."""
        if self._begun is None:
            self._begun = self._launch()

    async def start(self) -> None:
        """Load the model and check it, on the engine's own thread. Raises LoadError.

        When cancelled, it first stops what was started; when cancelled a second time, it returns at once.
        """
        cancelled, self._begun = self._begun or self._launch(), None
        started = asyncio.wrap_future(self._pending_starts[cancelled])
        try:
            await asyncio.shield(started)
        except asyncio.CancelledError:
            cancelled.set()
            await asyncio.wait([started])
            if not started.cancelled() and started.exception() is None:
                await self.stop()
            raise
        finally:
            del self._pending_starts[cancelled]

    def _launch(self) -> threading.Event:
        """A pending start; the event cancels it."""
        cancelled = threading.Event()
        done: Future[None] = Future()
        self._pending_starts[cancelled] = done
        arguments = (done, lambda: not cancelled.is_set())
        # Not a thread of the loop's executor: the loop waits for those when it ends.
        threading.Thread(target=self._start, args=arguments, name="paceline-start", daemon=True).start()
        return cancelled

    def _start(self, done: Future[None], wanted: Callable[[], bool]) -> None:
        try:
            with self._starting:  # a second start waits for the first one and uses its result
                if self._runtime is None:
                    self._runtime = Runtime(self.settings, self._progress, wanted, self._ranks)
        except BaseException as error:  # noqa: BLE001  for the caller of start
            done.set_exception(error)
        else:
            done.set_result(None)

    async def stop(self) -> None:
        """Abort what runs, free the model. Idempotent. A start in progress is cancelled: it raises."""
        starts = dict(self._pending_starts)
        for cancelled in starts:
            cancelled.set()
        await asyncio.gather(*map(asyncio.wrap_future, starts.values()), return_exceptions=True)
        if self._begun is not None:
            del self._pending_starts[self._begun]
            self._begun = None
        if self._ranks is not None and self.failure is not None:
            return  # to free what waits for a rank that is gone would take for ever: the process ends
        stopped = [] if self._runtime is None else [self._runtime]
        self._runtime = None
        if stopped:
            await asyncio.to_thread(_stop_and_release, stopped)

    async def __aenter__(self) -> Service:
        await self.start()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.stop()

    # -- requests

    def stream_chat(self, request: ChatRequest) -> AsyncGenerator[Delta, None]:
        def build(runtime: Runtime) -> Prompt:
            truncate = runtime.most_prompt_tokens(request)
            return runtime.prompts.chat(request.messages, request.template_options, request.tools, truncate)

        return self._stream(build, request, "messages", is_heavy(request.messages))

    def stream_generate(self, request: GenerateRequest) -> AsyncGenerator[Delta, None]:
        def build(runtime: Runtime) -> Prompt:
            truncate = runtime.most_prompt_tokens(request)
            return runtime.prompts.text(request.prompt, suffix=request.suffix, truncate=truncate)

        return self._stream(build, request, "prompt", len(request.prompt) > LONG_TEXT)

    def stream_embed(self, request: EmbedRequest) -> AsyncGenerator[Delta, None]:
        """One delta with the vector, so that embeddings are counted, cancelled and merged like other requests."""

        def build(runtime: Runtime) -> Prompt:
            if runtime.startup.embedding_size is None:
                raise InvalidRequest("This model gives no embeddings: its hidden states cannot be had.", field="model")
            return replace(runtime.prompts.text(request.input, request.field), pooling=self.settings.embedding_pooling)

        as_generate = GenerateRequest(
            request.input,
            request_id=request.request_id,
            cache=False,
            tenant=request.tenant,
            priority=request.priority,
            lora=request.lora,
        )
        return self._stream(build, as_generate, request.field, len(request.input) > LONG_TEXT)

    async def chat(self, request: ChatRequest) -> Completion:
        request = replace(request, request_id=request.request_id or new_request_id())
        return await collect(request.request_id, self.stream_chat(request))

    async def generate(self, request: GenerateRequest) -> Completion:
        request = replace(request, request_id=request.request_id or new_request_id())
        return await collect(request.request_id, self.stream_generate(request))

    async def embed(self, request: EmbedRequest) -> Embedding:
        """The vector of a text. Raises RequestFailed where it failed or was aborted."""
        request = replace(request, request_id=request.request_id or new_request_id())
        async with aclosing(self.stream_embed(request)) as stream:
            async for delta in stream:
                if delta.vector is not None and request.request_id is not None:
                    return Embedding(request.request_id, delta.vector, delta.usage or Usage())
                raise RequestFailed(delta.error or "The request was ended before it was finished.")
        raise RequestFailed("The request ended without an answer.")

    def abort(self, request_id: RequestId) -> None:
        """End a request, whatever it is doing; its stream ends with finish reason "abort". Unknown ids are ignored."""
        runtime = self._runtime
        if runtime is not None and request_id in runtime.requests:
            runtime.requests[request_id] = "aborted"  # for a prompt that is still being built
            for index in range(self.settings.max_choices):
                runtime.engine.abort(_choice_id(request_id, index))

    async def clear_cache(self) -> dict[str, int]:
        """Forget all cached prefixes and image features, in memory and on disk; returns what was freed."""
        engine = self._get_runtime().engine
        freed: dict[str, int] = await asyncio.wrap_future(engine.call(lambda: clear_caches(engine.core)))
        return freed

    async def load_lora(self, name: str, folder: Path) -> Lora:
        """Load an adapter, between two steps. Raises InvalidRequest if it cannot be served, Refused if memory is
        short."""
        return await asyncio.to_thread(self._get_runtime().loras.load, name, folder)

    async def unload_lora(self, name: str) -> None:
        """It takes no new requests; its memory is freed when those that it has have ended."""
        await asyncio.to_thread(self._get_runtime().loras.unload, name)

    @property
    def loras(self) -> tuple[str, ...]:
        """Names of the adapters that take requests; while the model loads, of those that will."""
        if self._runtime is None:
            return tuple(self.settings.loras)
        return tuple(lora.name for lora in self._runtime.loras.loaded)

    def stats(self) -> Stats:
        if self._runtime is None:
            return Stats(state="loading" if self._starting.locked() else "stopped")
        return self._runtime.stats()

    def sampling(self, **given: Any) -> Sampling:
        """What is given, over the model's own defaults; None counts as not given. Fields are those of `Sampling`."""
        defaults = self._get_runtime().startup.sampling_defaults.values
        given = {name: value for name, value in given.items() if value is not None}
        return Sampling(**{**defaults, **given})

    # -- for the server

    @property
    def ready(self) -> bool:
        return self._runtime is not None and self._runtime.engine.failure is None

    @property
    def failure(self) -> str | None:
        """Why the engine gave up, if it did."""
        return self._runtime.engine.failure if self._runtime is not None else None

    @property
    def model_name(self) -> str:
        return self.settings.served_name or self.settings.model or _default_name()

    @property
    def context_length(self) -> int:
        return self._get_runtime().limits.context_length

    @property
    def answer_format(self) -> OutputFormat:
        """How this model writes tool calls and reasoning."""
        return self._get_runtime().answer_format

    @property
    def no_thinking_budget(self) -> str | None:
        """Why the length of this model's reasoning cannot be limited; None where it can, or there is none."""
        return self._get_runtime().limits.no_thinking_budget

    @property
    def embedding_size(self) -> int | None:
        """Numbers in an embedding; None where the model gives none."""
        return self._get_runtime().startup.embedding_size

    @property
    def takes_images(self) -> bool:
        return self._get_runtime().prompts.image_processor is not None

    @property
    def takes_chat(self) -> bool:
        """Whether there is a chat template; without one, prompts are text."""
        return self._get_runtime().prompts.tokenizer.templates is not None

    @property
    def tokenizer(self) -> Any:
        return self._get_runtime().prompts.tokenizer

    def tokenize(self, text: str, add_special_tokens: bool = True) -> list[int]:
        """A text's token ids, also of one that is longer than the context. Blocks its thread."""
        return self._get_runtime().prompts.tokens(text, add_special_tokens)

    def render(
        self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]] | None = None, **options: Any
    ) -> list[int]:
        """The prompt's token ids, as `chat` would send them."""
        return list(self._get_runtime().prompts.chat(messages, options, tools).token_ids)

    def _get_runtime(self) -> Runtime:
        if self._runtime is None:
            raise EngineUnavailable("The service is not started.")
        return self._runtime

    async def _stream(
        self, build: Callable[[Runtime], Prompt], request: ChatRequest | GenerateRequest, field: str, heavy: bool
    ) -> AsyncGenerator[Delta, None]:
        runtime = self._get_runtime()
        validate_choices(request.n, runtime.limits)
        validate(request.sampling, runtime.limits)
        if request.grammar is not None:
            _check_may_end(request.sampling)
        request_id = request.request_id or new_request_id()
        if request_id in runtime.requests:
            raise InvalidRequest(f"The request id {request_id} is in use.", field="request_id")
        runtime.requests[request_id] = "open"
        ids = [_choice_id(request_id, index) for index in range(request.n)]
        delta: Delta | None = None
        held = ExitStack()
        try:
            lora = held.enter_context(runtime.loras.using(request.lora))
            ready = await runtime.run_in_executor(runtime.prepare, build, request, lora, field, heavy=heavy)
            prompt = ready.prompt
            if self.settings.log_prompts:
                text = await runtime.run_in_executor(runtime.prompt_text, prompt)
                log_prompt(request_id, len(prompt.token_ids), text)
            if runtime.requests[request_id] == "aborted":
                for index in range(request.n):
                    usage = Usage(len(prompt.token_ids))
                    info = PromptInfo(
                        prompt.token_ids, route=runtime.startup.speculation_policy.mode(prompt, request.sampling).reason
                    )
                    yield Delta(finish_reason="abort", usage=usage, prompt=info, index=index)
                return
            stream = DeltaStream(runtime.dispatcher, self.settings.max_unread_tokens, lambda: runtime.abort(ids))
            runtime.submit(request, ids, ready, stream)
            open_choices = request.n
            announced = not request.announce
            while open_choices:
                delta = await stream.get()
                if delta.refusal is not None:
                    raise delta.refusal
                if not announced and delta.finish_reason not in ("error", "abort"):
                    announced = True  # by the last choice that is submitted, unless another was faster
                    yield delta if delta.accepted is not None else _announcement(delta, prompt)
                open_choices -= delta.finish_reason is not None
                if delta.accepted is None:
                    yield delta
        finally:
            delta = None  # breaks a reference cycle: a raised refusal holds this frame, and the delta holds the refusal
            del runtime.requests[request_id]
            runtime.abort(ids)  # no-op for choices that have finished
            held.close()


def _announcement(first: Delta, prompt: Prompt) -> Delta:
    """In front of a first delta that came without one."""
    return Delta(accepted=Acceptance(len(prompt.token_ids), first.prompt.cached_tokens if first.prompt else 0))


def _check_may_end(sampling: Sampling) -> None:
    """An answer with a grammar ends where the grammar does."""
    asked = {"min_tokens": sampling.min_tokens > 0, "ignore_eos": sampling.ignore_eos}
    asked |= {"allowed_token_ids": bool(sampling.allowed_token_ids), "bad_words": bool(sampling.bad_words)}
    for name, given in asked.items():
        if given:
            raise InvalidRequest.at(name, "cannot be asked for together with a format of the answer.")


def _choice_id(request_id: RequestId, index: int) -> RequestId:
    return RequestId(f"{request_id}/{index}")


def _default_name() -> str:
    from paceline.models.files import DEFAULT_MODEL

    return DEFAULT_MODEL


def _stop_and_release(stopped: list[Runtime]) -> None:
    """Takes the last reference: a thread that was handed the runtime itself would hold it while memory is collected."""
    stopped.pop().stop()
    release_model_memory()
