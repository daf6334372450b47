"""The facade: the public calls, for the server and for Python users alike.

`chat`, `stream_chat`, `generate` and `stream_generate` are one path: a prompt is built, its rules are checked, its
rows are submitted, and their deltas come back. The calls that do not stream collect the ones that do. `embed` is the
same path for a row that ends with its prompt.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import uuid
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from paceline import platform
from paceline.cache.radix import Keys
from paceline.conversation.grammar import Compiled, Grammars, GrammarSpec
from paceline.conversation.messages import LONG_TEXT, is_heavy
from paceline.conversation.parsing.formats import OutputFormat, choose_format, opens_reasoning
from paceline.engine.limits import Limits, validate, validate_choices
from paceline.errors import EngineUnavailable, InvalidRequest, PromptTooLong, RequestFailed, SlowReader
from paceline.settings import Settings
from paceline.types import (
    Delta,
    FinishReason,
    Grammar,
    Prompt,
    PromptInfo,
    RequestId,
    Sampling,
    TokenLogprob,
    Usage,
)

if TYPE_CHECKING:
    from paceline.engine.core import EngineCore
    from paceline.engine.row import Row
    from paceline.engine.sparse_prefill import SparsePrefill

log = logging.getLogger("paceline")
Progress = Callable[[str, int, int], None]
T = TypeVar("T")
WORKERS = 16  # threads that build prompts and compile grammars
AT_ONCE = 32  # deltas of one stream that are read before the event loop goes round
READERS = 4  # threads for prompts with pictures or very long texts


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """A conversation to continue. `messages` are OpenAI's, pictures as `image_url` parts with data: URLs."""

    messages: Sequence[Mapping[str, Any]]
    sampling: Sampling = field(default_factory=Sampling)
    n: int = 1
    template_options: Mapping[str, Any] = field(default_factory=dict)
    request_id: RequestId | None = None
    cache: bool = True  # False: neither use nor feed the prefix cache
    cache_salt: str = ""  # prefixes are shared only between requests of the same salt
    tools: Sequence[Mapping[str, Any]] | None = None  # OpenAI's
    grammar: GrammarSpec | None = None  # what the answer must look like
    shows_marks: bool = False  # special tokens that mark calls and reasoning are part of the text
    tenant: str = ""  # on whose account it runs, where the policy is fair
    priority: int = 0  # lower comes first, where the policy goes by it


@dataclass(frozen=True, slots=True)
class GenerateRequest:
    """Text or token ids to continue, without a template."""

    prompt: str | Sequence[int]
    sampling: Sampling = field(default_factory=Sampling)
    n: int = 1
    request_id: RequestId | None = None
    cache: bool = True
    cache_salt: str = ""
    grammar: GrammarSpec | None = None
    shows_marks: bool = False
    tenant: str = ""
    priority: int = 0


@dataclass(frozen=True, slots=True)
class EmbedRequest:
    """Text or token ids, to be made one vector. Computed in full: no prefix is used, and none left."""

    input: str | Sequence[int]
    request_id: RequestId | None = None
    tenant: str = ""
    priority: int = 0
    field: str = "input"  # what a complaint about it names


@dataclass(frozen=True, slots=True)
class Embedding:
    id: RequestId
    vector: NDArray[np.float32]  # of length 1
    usage: Usage


@dataclass(frozen=True, slots=True)
class Choice:
    index: int
    text: str
    token_ids: tuple[int, ...]
    logprobs: tuple[TokenLogprob, ...]
    finish_reason: FinishReason
    stop_reason: str | int | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Completion:
    id: RequestId
    choices: tuple[Choice, ...]
    usage: Usage
    prompt: PromptInfo


class Service:
    """One model, one engine. `start` loads, `stop` frees everything, and `start` works again."""

    def __init__(self, settings: Settings | None = None, progress: Progress | None = None) -> None:
        self.settings = settings or Settings()
        self._progress = progress
        self._running: _Running | None = None
        self._starting = threading.Lock()
        self._starts: dict[threading.Event, Future[None]] = {}  # under way; set: nobody waits for it any more

    # -- life

    async def start(self) -> None:
        """Load the model and check it, on the engine's own thread. Raises LoadError.

        Cancelled, it winds up what was begun, and then is cancelled; cancelled again, at once.
        """
        abandoned = threading.Event()
        done: Future[None] = Future()
        self._starts[abandoned] = done
        arguments = (done, lambda: not abandoned.is_set())
        # Not one of the loop's own threads: these are waited for when the loop ends, whatever they do.
        threading.Thread(target=self._start, args=arguments, name="paceline-start", daemon=True).start()
        started = asyncio.wrap_future(done)
        try:
            await asyncio.shield(started)
        except asyncio.CancelledError:
            abandoned.set()
            await asyncio.wait([started])
            if not started.cancelled() and started.exception() is None:
                await self.stop()
            raise
        finally:
            del self._starts[abandoned]

    def _start(self, done: Future[None], wanted: Callable[[], bool]) -> None:
        try:
            with self._starting:  # a second start waits for the first, and finds its work done
                if self._running is None:
                    self._running = _Running(self.settings, self._progress, wanted)
        except BaseException as error:  # noqa: BLE001  for whoever waits for the start
            done.set_exception(error)
        else:
            done.set_result(None)

    async def stop(self) -> None:
        """Abort what runs, free the model. Idempotent. A start that is under way is given up: it raises."""
        starts = dict(self._starts)
        for abandoned in starts:
            abandoned.set()
        await asyncio.gather(*map(asyncio.wrap_future, starts.values()), return_exceptions=True)
        running, self._running = self._running, None
        if running is not None:
            await asyncio.to_thread(running.stop)
            del running
            await asyncio.to_thread(_give_back)

    async def __aenter__(self) -> Service:
        await self.start()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.stop()

    # -- the calls

    def stream_chat(self, request: ChatRequest) -> AsyncGenerator[Delta, None]:
        def build(running: _Running) -> Prompt:
            return running.prompts.chat(request.messages, request.template_options, request.tools)

        return self._stream(build, request, "messages", is_heavy(request.messages))

    def stream_generate(self, request: GenerateRequest) -> AsyncGenerator[Delta, None]:
        def build(running: _Running) -> Prompt:
            return running.prompts.text(request.prompt)

        return self._stream(build, request, "prompt", len(request.prompt) > LONG_TEXT)

    def stream_embed(self, request: EmbedRequest) -> AsyncGenerator[Delta, None]:
        """One delta, with the vector: the form in which requests are counted, cancelled and merged."""

        def build(running: _Running) -> Prompt:
            if running.startup.embedding_size is None:
                raise InvalidRequest("This model gives no embeddings: its hidden states cannot be had.", field="model")
            return replace(running.prompts.text(request.input, request.field), pooling=self.settings.embedding_pooling)

        asked = GenerateRequest(
            request.input,
            request_id=request.request_id,
            cache=False,
            tenant=request.tenant,
            priority=request.priority,
        )
        return self._stream(build, asked, request.field, len(request.input) > LONG_TEXT)

    async def chat(self, request: ChatRequest) -> Completion:
        request = replace(request, request_id=request.request_id or new_request_id())
        return await _collect(request.request_id, self.stream_chat(request))

    async def generate(self, request: GenerateRequest) -> Completion:
        request = replace(request, request_id=request.request_id or new_request_id())
        return await _collect(request.request_id, self.stream_generate(request))

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
        running = self._running
        if running is not None and request_id in running.requests:
            running.requests[request_id] = "aborted"  # for a prompt that is still being built
            for index in range(self.settings.max_choices):
                running.engine.abort(_choice_id(request_id, index))

    async def clear_cache(self) -> dict[str, int]:
        """Forget all cached prefixes and picture features, in memory and on disk; returns what was freed."""
        engine = self._live().engine
        freed: dict[str, int] = await asyncio.wrap_future(engine.call(lambda: forget(engine.core)))
        return freed

    def stats(self) -> dict[str, Any]:
        if self._running is None:
            return {"running": 0, "waiting": 0, "state": "loading" if self._starting.locked() else "stopped"}
        return self._running.stats()

    # -- what the server asks

    @property
    def ready(self) -> bool:
        return self._running is not None and self._running.engine.failure is None

    @property
    def failure(self) -> str | None:
        """Why the engine gave up, if it did."""
        return self._running.engine.failure if self._running is not None else None

    @property
    def model_name(self) -> str:
        return self.settings.served_model_name or self.settings.model or _default_name()

    @property
    def context_length(self) -> int:
        return self._live().limits.context_length

    @property
    def answer_format(self) -> OutputFormat:
        """How this model writes tool calls and reasoning."""
        return self._live().answers

    @property
    def embedding_size(self) -> int | None:
        """Numbers in an embedding; None where the model gives none."""
        return self._live().startup.embedding_size

    @property
    def takes_images(self) -> bool:
        return self._live().prompts.image_processor is not None

    @property
    def takes_chat(self) -> bool:
        """Whether there is a chat template; without one, prompts are text."""
        return self._live().prompts.tokenizer.templates is not None

    @property
    def tokenizer(self) -> Any:
        return self._live().prompts.tokenizer

    def tokenize(self, text: str, add_special_tokens: bool = True) -> list[int]:
        """A text's token ids, also of one that is longer than the context. Blocks its thread."""
        return self._live().prompts.tokens(text, add_special_tokens)

    def render(
        self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]] | None = None, **options: Any
    ) -> list[int]:
        """The prompt's token ids, as `chat` would send them."""
        return list(self._live().prompts.chat(messages, options, tools).token_ids)

    # -- the one path

    def _live(self) -> _Running:
        if self._running is None:
            raise EngineUnavailable("The service is not started.")
        return self._running

    async def _stream(
        self, build: Callable[[_Running], Prompt], request: ChatRequest | GenerateRequest, place: str, heavy: bool
    ) -> AsyncGenerator[Delta, None]:
        running = self._live()
        validate_choices(request.n, running.limits)
        validate(request.sampling, running.limits)
        if request.grammar is not None:
            _may_end(request.sampling)
        request_id = request.request_id or new_request_id()
        if request_id in running.requests:
            raise InvalidRequest(f"The request id {request_id} is in use.", field="request_id")
        running.requests[request_id] = "open"
        ids = [_choice_id(request_id, index) for index in range(request.n)]
        delta: Delta | None = None
        try:
            prompt = await running.apart(build, running, heavy=heavy)
            prompt = replace(prompt, cached=request.cache, salt=request.cache_salt)
            grammar = None
            if request.grammar is not None:
                grammar = await running.apart(running.compiled, request.grammar, prompt)
            running.check(prompt, place)
            keys = await running.apart(running.keys, prompt)
            if running.requests[request_id] == "aborted":
                for index in range(request.n):
                    usage = Usage(len(prompt.token_ids))
                    info = PromptInfo(
                        prompt.token_ids, route=running.startup.router.route(prompt, request.sampling).reason
                    )
                    yield Delta(finish_reason="abort", usage=usage, prompt=info, index=index)
                return
            mailbox = running.post.mailbox(self.settings.max_unread_tokens, lambda: running.abort(ids))
            running.submit(request, ids, prompt, mailbox, grammar, keys)
            open_choices = request.n
            while open_choices:
                delta = await mailbox.get()
                if delta.refusal is not None:
                    raise delta.refusal
                open_choices -= delta.finish_reason is not None
                yield delta
        finally:
            delta = None  # a refusal that was raised holds this frame: what holds the refusal must not stay in it
            del running.requests[request_id]
            running.abort(ids)  # of a stream that was read to its end, nothing is left to abort


class _Running:
    """All that lives between `start` and `stop`."""

    def __init__(self, settings: Settings, progress: Progress | None, wanted: Callable[[], bool]) -> None:
        platform.prepare(settings.blas, exact=settings.dtype == "float32")
        from paceline.engine.startup import Startup
        from paceline.engine.thread import EngineThread

        self.requests: dict[RequestId, Literal["open", "aborted"]] = {}
        self.workers = ThreadPoolExecutor(WORKERS, "paceline-prompt")
        self.readers = ThreadPoolExecutor(READERS, "paceline-reader")
        self.post = _Post()
        self.startup = Startup(settings, progress, wanted, self.post.flush)
        self.engine = EngineThread(self.startup.build)
        self.settings = settings
        try:
            self.engine.start()
            self._prepare()
        except BaseException:
            self.stop()
            raise

    def _prepare(self) -> None:
        """What requests need, once the model is there."""
        from paceline.conversation.media import Loader
        from paceline.conversation.prompt import PromptBuilder
        from paceline.conversation.tokenizer import Tokenizer
        from paceline.conversation.video import VideoLimits

        settings = self.settings
        tokenizer: Tokenizer = self.startup.tokenizer
        self.limits = Limits(
            context_length=self.startup.context_length,
            vocab_size=self.startup.vocab_size,
            max_choices=settings.max_choices,
            max_stop_strings=settings.max_stop_strings,
            max_logprobs=settings.max_logprobs,
            max_draft=settings.max_draft,
            no_head=self.startup.router.no_head,
            no_sparse=self.startup.no_sparse,
            reads_sparsely=settings.specprefill == "auto",
        )
        template = tokenizer.chat_template or ""
        special = {tokenizer.token_text(token): token for token in tokenizer.special_ids}
        self.answers = choose_format(template, special, settings.tool_parser, settings.reasoning_parser)
        self.marks = frozenset(special[text] for text in self.answers.special)
        self.grammars = Grammars(tokenizer, self.startup.vocab_size, tokenizer.eos_ids)
        # Now, when nobody is waiting for a token: for a large vocabulary it holds up every thread for a second or two.
        threading.Thread(target=self.grammars.prepare, name="paceline-grammar", daemon=True).start()
        self.prompts = PromptBuilder(
            tokenizer,
            self.startup.vision,
            max_images=settings.max_images,
            loader=Loader.of(settings),
            video_processor=None if self.startup.vision is None else self.startup.vision.video_processor,
            video_limits=VideoLimits.of(settings, self.startup.memory.work.limit),
            context_length=self.startup.context_length,
            memory=self.startup.memory,
        )

    def check(self, prompt: Prompt, place: str) -> None:
        if not prompt.token_ids:
            raise InvalidRequest("The prompt is empty.", field=place)
        if len(prompt.token_ids) >= self.limits.context_length:
            raise PromptTooLong(len(prompt.token_ids), self.limits.context_length, field=place)
        unknown = next((t for t in prompt.token_ids if not 0 <= t < self.limits.vocab_size), None)
        if unknown is not None:
            raise InvalidRequest(
                f"The prompt has token {unknown}; this model's tokens are 0 to {self.limits.vocab_size - 1}.",
                field=place,
            )
        sizes = [image.grid[0] * image.grid[1] * image.grid[2] for image in prompt.images]
        self.startup.admission.check(len(prompt.token_ids), sizes, place)

    async def apart(self, work: Callable[..., T], *arguments: Any, heavy: bool = False) -> T:
        """Work that takes its time, off the event loop. `heavy`: it may wait for memory, and others should not."""
        pool = self.readers if heavy else self.workers
        return await asyncio.get_running_loop().run_in_executor(pool, work, *arguments)

    def compiled(self, spec: GrammarSpec, prompt: Prompt) -> Compiled:
        """A grammar ready for use. Where the model thinks first, it holds for what comes after."""
        think = self.answers.think_format
        if think is not None and opens_reasoning(prompt.tail, self.answers):
            spec = spec.following(think.close)
        return self.grammars.compile(spec)

    def keys(self, prompt: Prompt) -> Keys | None:
        """The costly part of finding a prefix, for all choices of a request; none where prefixes are not cached."""
        reuse = self.engine.core.reuse
        return None if reuse is None else reuse.keys(prompt)

    def submit(
        self,
        request: ChatRequest | GenerateRequest,
        ids: Sequence[RequestId],
        prompt: Prompt,
        mailbox: _Mailbox,
        grammar: Compiled | None,
        keys: Keys | None,
    ) -> None:
        """Hand the request's rows to the engine, which alone keeps them."""
        from paceline.engine.row import Company

        rows = []
        for index, choice_id in enumerate(ids):
            matcher = None if grammar is None or request.grammar is None else grammar.matcher(request.grammar.field)
            sampling = _seeded(request.sampling, index)
            row = self._row(choice_id, prompt, sampling, mailbox.sink(index), matcher, request.shows_marks)
            row.tenant, row.priority, row.keys = request.tenant, request.priority, keys
            rows.append(row)
        company = Company(rows)
        for row in rows:
            row.company = company
            self.engine.submit(row)

    def _row(
        self,
        choice_id: RequestId,
        prompt: Prompt,
        sampling: Sampling,
        sink: Callable[[Delta], None],
        grammar: Grammar | None,
        shows_marks: bool,
    ) -> Row:
        from paceline.conversation.text import TextStream
        from paceline.engine.row import Row

        room = self.limits.context_length - len(prompt.token_ids)
        limit = room if sampling.max_tokens is None else min(sampling.max_tokens, room)
        shown = self.marks if shows_marks else frozenset()
        text = TextStream(self.prompts.tokenizer.detokenizer(sampling.skip_special_tokens, shown), sampling.stop)
        route = self.startup.router.route(prompt, sampling)
        return Row(choice_id, prompt, sampling, limit, text, sink, route, grammar, self.prompts.tokenizer.eos_ids)

    def abort(self, ids: Sequence[RequestId]) -> None:
        for choice_id in ids:
            self.engine.abort(choice_id)

    def stop(self) -> None:
        self.engine.stop()
        self.startup.close()
        for pool in (self.workers, self.readers):
            pool.shutdown(wait=False, cancel_futures=True)

    def stats(self) -> dict[str, Any]:
        from paceline.engine import memory

        core = self.engine.core
        stats = core.stats()
        return {
            "state": "failed" if self.engine.failure else "ready",
            **self.startup.about,
            **stats,
            "speculation": {**self.startup.speculation, **stats["speculation"]},
            "prefix_cache": memory.stats(stats["prefix_cache"]),
            "specprefill": sparse_stats(core.sparse, self.limits.no_sparse),
            "request_memory": self.startup.memory.stats(),
        }


class _Post:
    """Carries deltas from the engine's thread to the callers' event loops, once a step for each loop."""

    def __init__(self) -> None:
        self._outgoing: list[tuple[_Mailbox, Delta]] = []

    def mailbox(self, most: int, on_overflow: Callable[[], None]) -> _Mailbox:
        return _Mailbox(self, asyncio.get_running_loop(), most, on_overflow)

    def put(self, mailbox: _Mailbox, delta: Delta) -> None:
        """On the engine's thread."""
        self._outgoing.append((mailbox, delta))

    def flush(self) -> None:
        """On the engine's thread, after each step."""
        outgoing, self._outgoing = self._outgoing, []
        loops = {mailbox.loop for mailbox, _ in outgoing}
        for loop in loops:
            mine = [(mailbox, delta) for mailbox, delta in outgoing if mailbox.loop is loop]
            try:
                loop.call_soon_threadsafe(_hand_over, mine)
            except RuntimeError:  # that loop is closed: its callers are gone, and nobody waits for these
                log.debug("%d deltas had no reader", len(mine))


class _Mailbox:
    """One stream's deltas, on its own event loop. Whoever lets more than `most` tokens lie there is cut off."""

    def __init__(
        self, post: _Post, loop: asyncio.AbstractEventLoop, most: int, on_overflow: Callable[[], None]
    ) -> None:
        self.loop = loop
        self._post = post
        self._most = most
        self._on_overflow = on_overflow
        self._unread = 0  # tokens
        self._queue: asyncio.Queue[Delta] = asyncio.Queue()
        self._overflown = False
        self._at_once = 0  # deltas that were read without waiting

    def sink(self, index: int) -> Callable[[Delta], None]:
        if index == 0:
            return lambda delta: self._post.put(self, delta)
        return lambda delta: self._post.put(self, replace(delta, index=index))

    def deliver(self, delta: Delta) -> None:
        if self._overflown:
            return
        self._unread += len(delta.token_ids)
        if self._unread > self._most:
            self._overflown = True
            self._on_overflow()
            while not self._queue.empty():
                self._queue.get_nowait()
            refusal = SlowReader(f"The answer was not read: {self._unread} tokens of it were waiting.")
            delta = Delta(finish_reason="error", error=str(refusal), refusal=refusal)
        self._queue.put_nowait(delta)

    async def get(self) -> Delta:
        """Others have their turn now and then, however much there is to read."""
        self._at_once = 0 if self._queue.empty() else self._at_once + 1
        if self._at_once >= AT_ONCE:
            self._at_once = 0
            await asyncio.sleep(0)
        delta = await self._queue.get()
        self._unread -= len(delta.token_ids)
        return delta


def sparse_stats(sparse: SparsePrefill | None, reason: str | None) -> dict[str, Any]:
    """How prompts are read sparsely, or the reason why they are not."""
    if sparse is None:
        return {"enabled": False, "reason": reason or "the engine does not run"}
    return sparse.stats()


def forget(engine: EngineCore) -> dict[str, int]:
    """Clear what is kept of prompts, the draft's own included, and return its memory to the system; returns what was
    freed. On the engine's thread."""
    freed = {"entries": 0, "bytes": 0, "disk_entries": 0, "disk_bytes": 0}
    if engine.reuse is not None:
        freed |= engine.reuse.clear()
    if engine.sparse is not None:
        freed["bytes"] += engine.sparse.stats()["draft_cache_bytes"]
        engine.sparse.clear()
    _return_memory()
    return freed


def _give_back() -> None:
    """Return what the model held to the system, and the last references first."""
    import gc

    gc.collect()
    _return_memory()


def _return_memory() -> None:
    """MLX keeps freed buffers in a pool, and the C library what MLX frees."""
    import mlx.core as mx

    mx.synchronize()  # copies that are under way still hold what they are cut from
    mx.clear_cache()
    platform.trim_host_memory()


def _hand_over(deltas: list[tuple[_Mailbox, Delta]]) -> None:
    for mailbox, delta in deltas:
        mailbox.deliver(delta)


async def _collect(request_id: RequestId | None, stream: AsyncGenerator[Delta, None]) -> Completion:
    """A stream, read to its end. A choice that failed raises RequestFailed."""
    parts: dict[int, list[Delta]] = {}
    async with aclosing(stream):
        async for delta in stream:
            parts.setdefault(delta.index, []).append(delta)
    choices = tuple(_choice(index, deltas) for index, deltas in sorted(parts.items()))
    for choice in choices:
        if choice.finish_reason == "error":
            raise RequestFailed(choice.error or "The request failed.")
    usages = [deltas[-1].usage or Usage() for deltas in parts.values()]
    summed = ("completion_tokens", "accepted_tokens", "rejected_tokens")
    totals = {name: sum(getattr(usage, name) for usage in usages) for name in summed}
    usage = replace(usages[0], **totals)
    prompt = next(d.prompt for deltas in parts.values() for d in deltas if d.prompt is not None)
    return Completion(request_id or new_request_id(), choices, usage, prompt)


def _choice(index: int, deltas: list[Delta]) -> Choice:
    last = deltas[-1]
    return Choice(
        index,
        "".join(delta.text for delta in deltas),
        tuple(token for delta in deltas for token in delta.token_ids),
        tuple(score for delta in deltas for score in delta.logprobs),
        last.finish_reason or "abort",
        last.stop_reason,
        last.error,
    )


def _may_end(sampling: Sampling) -> None:
    """An answer with a grammar ends where the grammar does."""
    for name, given in (("min_tokens", sampling.min_tokens > 0), ("ignore_eos", sampling.ignore_eos)):
        if given:
            raise InvalidRequest(f"{name} cannot be asked for together with a format of the answer.", field=name)


def _seeded(sampling: Sampling, index: int) -> Sampling:
    """The n choices of a seeded request differ from each other, and are the same every time."""
    if sampling.seed is None or index == 0:
        return sampling
    return replace(sampling, seed=sampling.seed ^ (index * 0x9E3779B97F4A7C15))


def _choice_id(request_id: RequestId, index: int) -> RequestId:
    return RequestId(f"{request_id}/{index}")


def new_request_id() -> RequestId:
    return RequestId(uuid.uuid4().hex)


def _default_name() -> str:
    from paceline.models.files import DEFAULT_MODEL

    return DEFAULT_MODEL
