"""A service without a model: tokens are bytes, the answer is fixed, and tests decide when it goes on."""

from __future__ import annotations

import asyncio
import codecs
import math
import threading
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from paceline.conversation.media import Loader
from paceline.conversation.messages import ImagePart, checked
from paceline.conversation.parsing.formats import OutputFormat
from paceline.engine.limits import Limits, validate, validate_choices
from paceline.errors import (
    DeadlineExceeded,
    InvalidRequest,
    LoadError,
    NeverFits,
    PromptTooLong,
    QueueFull,
    QueueTimeout,
    Refused,
    SlowReader,
    UnknownLora,
)
from paceline.requests import ChatRequest, EmbedRequest, GenerateRequest
from paceline.settings import Settings
from paceline.stats import (
    CachedPrefix,
    DiskCacheStats,
    MemoryBudgetStats,
    MemoryStats,
    ModelInfo,
    PrefixCacheStats,
    SchedulerStats,
    SequenceStats,
    SpecPrefillStats,
    Stats,
    VisionCacheStats,
)
from paceline.types import Acceptance, Delta, Lora, PromptInfo, RequestId, Sampling, TokenLogprob, Usage

END, BEGIN = 256, 257
REPLY = "Hello, wörld! 🙂"
MODEL = ModelInfo(
    name="fake/model",
    family="fake",
    device="cpu",
    kv_layout="rows",
    shape_buckets=False,
    prefill_chunk=64,
    compiled_step=False,
    context_length=4096,
    max_num_seqs=8,
    weights_bytes=400,
    quantization=None,
    images=True,
    videos=False,
    embedding_size=4,
    mtp_head=False,
)
PREFIX_CACHE = PrefixCacheStats(  # caches in memory and on disk
    enabled=True,
    reason="",
    queries=5,
    query_tokens=100,
    hits=3,
    hit_tokens=60,
    stored=4,
    entries=3,
    memory_bytes=3000,
    memory_limit_bytes=9000,
    evictions={"memory": 1, "disk": 2},
    restores=1,
    restore_seconds=0.25,
    disk=DiskCacheStats("/cache", bytes=7000, limit_bytes=20000, entries=7, writes=9, write_errors=0, pending=1),
    vision=VisionCacheStats(hits=2, misses=4, bytes=500, limit_bytes=800),
    largest=(CachedPrefix(tokens=40, bytes=900, hits=2, tier="memory", in_use=True, idle_seconds=1.5),),
)
SPECPREFILL = SpecPrefillStats(
    enabled=True,
    setting="auto",
    threshold=8192,
    keep_pct=0.3,
    max_tokens=196_608,
    chunk=512,
    draft="small",
    draft_bytes=1000,
    draft_cache_bytes=100,
    outcomes={"sparse": 4, "short": 9, "long": 1, "failed": 2},
    scored_tokens=50_000,
    kept_tokens=15_000,
    restored_draft_tokens=700,
    draft_seconds=2.5,
    select_seconds=0.25,
)
SEQUENCE = SequenceStats(
    id="chatcmpl-1",
    choice=0,
    state="decode",
    prompt_tokens=12,
    cached_tokens=1,
    generated_tokens=3,
    age_seconds=0.5,
    tenant="key-1",
    priority=0,
    preemptions=1,
)
SCHEDULING = Stats(  # of sequences, memory and the scheduler
    state="ready",
    model=MODEL,
    num_requests_waiting_by_reason={"memory": 2, "max_num_seqs": 1},
    preemptions={"memory": 3, "policy": 1, "fault": 0},
    failed_steps=2,
    out_of_memory=1,
    scheduler=SchedulerStats(policy="fair", starvation_seconds=30.0, max_queue=256),
    memory_budget=MemoryBudgetStats(
        limit_bytes=1000,
        headroom_bytes=100,
        free_bytes=300,
        parts={"weights": 400, "sequence images": 200},
        kv_cache_usage=0.4,
        expected_output_tokens=256,
    ),
    memory=MemoryStats.of(550, active=500, peak=700, cache=50),
)


class ByteTokenizer:
    vocab_size = 258
    eos_ids = frozenset({END})
    chat_template: str | None = None

    def encode(self, text: str, add_special_tokens: bool = True) -> list[int]:
        return [*([BEGIN] if add_special_tokens else []), *text.encode()]

    def decode(self, ids: Sequence[int], skip_special_tokens: bool = True) -> str:
        kept = (token_id for token_id in ids if token_id < 256 or not skip_special_tokens)
        return b"".join(map(self.token_bytes, kept)).decode(errors="replace")

    def token_bytes(self, token_id: int) -> bytes:
        return {END: b"<end>", BEGIN: b"<begin>"}.get(token_id) or bytes([token_id])

    def token_text(self, token_id: int) -> str:
        return self.token_bytes(token_id).decode(errors="replace")


class FakeService:
    """A prompt may hold a command, given after so many tokens: `!hang 3` (until aborted or released),
    `!fail 3`, `!abort 3`, `!refuse-deadline 3` (or another cause of refusing); or `!crash`. A row told to draft k
    tokens reports k accepted and 2k rejected. Of a prompt, one token was cached for the first choice, and all for the
    others; where it is wanted sparsely, the share that is kept is kept exactly, rounded up, and one more of each later
    choice."""

    def __init__(self, settings: Settings | None = None, *, load_error: str | None = None) -> None:
        self.settings = settings or Settings()
        self.load_error = load_error
        self.ready = False
        self.failure: str | None = None
        self.model_name = "fake/model"
        self.context_length = 4096
        self.takes_images = True
        self.takes_chat = True
        self.embedding_size: int | None = 4
        self.answer_format = OutputFormat()
        self.no_thinking_budget: str | None = None
        self.statistics = Stats(state="loading")  # tests say what an engine would
        self.sampling_defaults: dict[str, Any] = {}  # where a request is silent
        self.no_sparse: str | None = None  # why prompts cannot be prefilled sparsely
        self.tokenizer = ByteTokenizer()
        self.requests: list[ChatRequest | GenerateRequest] = []
        self.running: dict[RequestId, asyncio.Event] = {}
        self.aborted: list[RequestId] = []
        self.hanging = threading.Event()  # some row waits
        self.idle = threading.Event()  # no row is left
        self.idle.set()
        self.loras: tuple[str, ...] = ()
        self.stops = 0
        self.clears = 0

    async def start(self) -> None:
        if self.load_error is not None:
            raise LoadError(self.load_error)
        self.ready = True

    async def stop(self) -> None:
        self.ready = False
        self.stops += 1
        for request_id in list(self.running):
            self.abort(request_id)

    def sampling(self, **given: Any) -> Sampling:
        given = {name: value for name, value in given.items() if value is not None}
        return Sampling(**{**self.sampling_defaults, **given})

    def abort(self, request_id: RequestId) -> None:
        if request_id in self.running:
            self.aborted.append(request_id)
            self.running[request_id].set()

    def release(self) -> None:
        """Let the rows that hang go on."""
        for event in self.running.values():
            event.set()

    def stats(self) -> Stats:
        return replace(self.statistics, num_requests_running=len(self.running))

    async def clear_cache(self) -> dict[str, Any]:
        self.clears += 1
        return {"entries": 2, "bytes": 300, "disk_entries": 1, "disk_bytes": 200}

    async def load_lora(self, name: str, folder: Path) -> Lora:
        if name in self.loras:
            raise InvalidRequest.at("lora_name", "is loaded already.")
        self.loras = (*self.loras, name)
        return Lora(name, str(folder), "digest", 4, 2)

    async def unload_lora(self, name: str) -> None:
        if name not in self.loras:
            raise UnknownLora(name, self.loras, field="lora_name")
        self.loras = tuple(other for other in self.loras if other != name)

    def tokenize(self, text: str, add_special_tokens: bool = True) -> list[int]:
        return self.tokenizer.encode(text, add_special_tokens)

    def render(
        self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]] | None = None, **options: Any
    ) -> list[int]:
        text = "".join(f"{tool['function']['name']}|" for tool in tools or ())
        for i, message in enumerate(messages):
            content = message.get("content") or ""
            if not isinstance(content, str):
                content = "".join(part.get("text", "<image>") for part in content)
            text += f"{'' if i == 0 else '|'}{message['role']}: {content}"
        text += "|assistant: " if options.get("add_generation_prompt", True) else ""
        return self.tokenizer.encode(text)

    def stream_chat(self, request: ChatRequest) -> AsyncGenerator[Delta, None]:
        return self._stream(lambda: self._conversation(request), request, "messages")

    def stream_generate(self, request: GenerateRequest) -> AsyncGenerator[Delta, None]:
        return self._stream(lambda: self._text(request), request, "prompt")

    async def stream_embed(self, request: EmbedRequest) -> AsyncGenerator[Delta, None]:
        """Four numbers that depend on the length only."""
        asked = GenerateRequest(request.input, Sampling(max_tokens=1), request_id=request.request_id, lora=request.lora)
        async with aclosing(self._stream(lambda: self._text(asked, "input"), asked, "input")) as stream:
            async for delta in stream:
                if delta.prompt is None:  # it failed, or was aborted
                    yield delta
                    return
                count = len(delta.prompt.token_ids)
                vector = np.array([count, 1, 2, 3], dtype=np.float32)
                usage = Usage(count)
                yield Delta(
                    finish_reason="stop", usage=usage, prompt=delta.prompt, vector=vector / np.linalg.norm(vector)
                )

    def _conversation(self, request: ChatRequest) -> list[int]:
        for part in checked(request.messages, takes_images=self.takes_images)[1]:
            assert isinstance(part, ImagePart)  # it takes no video
            Loader.of(self.settings).request().load(part.url, part.place)
        return self.render(request.messages, request.tools, **request.template_options)

    def _text(self, request: GenerateRequest, field: str = "prompt") -> list[int]:
        prompt = request.prompt
        ids = self.tokenizer.encode(prompt) if isinstance(prompt, str) else list(prompt)
        if not all(0 <= token_id < self.tokenizer.vocab_size for token_id in ids):
            raise InvalidRequest("tokens are 0 to 257", field=field)
        return ids

    async def _stream(
        self, build: Callable[[], list[int]], request: ChatRequest | GenerateRequest, field: str
    ) -> AsyncGenerator[Delta, None]:
        prefills_sparsely = self.settings.specprefill == "auto"
        limits = Limits(
            self.context_length,
            self.tokenizer.vocab_size,
            self.settings.max_choices,
            no_sparse=self.no_sparse,
            prefills_sparsely=prefills_sparsely,
        )
        validate_choices(request.n, limits)
        validate(request.sampling, limits)
        prompt = build()
        if len(prompt) >= self.context_length:
            raise PromptTooLong(len(prompt), self.context_length, field=field)
        command, after = _command(self.tokenizer.decode(prompt))
        if command == "crash":
            raise RuntimeError("a secret detail")
        assert request.request_id is not None
        self.requests.append(request)
        self.running[request.request_id] = asyncio.Event()
        self.idle.clear()
        try:
            if command in ("refuse-queue_full", "refuse-never_fits") and after == 0:  # known at once
                raise refusal(command.removeprefix("refuse-"))
            if request.announce:
                yield Delta(accepted=Acceptance(len(prompt), 1))
            rows = [_Row(index, prompt, request.sampling, prefills_sparsely) for index in range(request.n)]
            step = 0
            while any(row.finished is None for row in rows):
                if step == after and command in ("fail", "abort"):
                    reason: Any = {"fail": "error", "abort": "abort"}[command]
                    yield Delta(finish_reason=reason, error="the sampler broke" if command == "fail" else None)
                    return
                if step == after and command.startswith("refuse-"):
                    raise refusal(command.removeprefix("refuse-"))
                if step == after and command == "hang":
                    self.hanging.set()
                    await self.running[request.request_id].wait()
                if request.request_id in self.aborted:
                    yield Delta(finish_reason="abort")
                    return
                for row in rows:
                    if row.finished is None:
                        yield row.step()
                step += 1
                await asyncio.sleep(0)
        finally:
            del self.running[request.request_id]
            if not self.running:
                self.idle.set()


class _Row:
    def __init__(self, index: int, prompt: list[int], sampling: Sampling, prefills_sparsely: bool) -> None:
        self.index = index
        self.sparse = prefills_sparsely if sampling.specprefill is None else sampling.specprefill
        self.prompt = prompt
        self.sampling = sampling
        self.left = [*REPLY.encode(), END]
        self.made = 0
        self.finished: str | None = None
        self.decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def step(self) -> Delta:
        limit = self.sampling.max_tokens
        tokens = [] if limit == 0 else [self.left.pop(0)]
        self.made += len(tokens)
        reason: Any = "stop" if tokens == [END] else "length" if limit == self.made else None
        self.finished = reason
        logprobs = self.sampling.logprobs
        return Delta(
            text=self.decoder.decode(bytes(token for token in tokens if token != END), bool(reason)),
            token_ids=tuple(tokens),
            logprobs=() if logprobs is None else tuple(_scored(token, logprobs) for token in tokens),
            finish_reason=reason,
            usage=self._usage() if reason else None,
            prompt=self._prompt() if self.made == len(tokens) else None,
            index=self.index,
        )

    @property
    def cached(self) -> int:
        return len(self.prompt) if self.index else 1

    def _usage(self) -> Usage:
        depth = self.sampling.speculation
        drafted = depth if isinstance(depth, int) else 0
        usage = Usage(len(self.prompt), self.made, self.cached, accepted_tokens=drafted, rejected_tokens=2 * drafted)
        if not self.sparse:
            return usage
        return replace(usage, kept_tokens=kept(len(self.prompt), self.sampling.specprefill_keep or 0.3) + self.index)

    def _prompt(self) -> PromptInfo:
        wanted = self.sampling.prompt_logprobs
        if wanted is None:
            return PromptInfo(tuple(self.prompt), cached_tokens=self.cached)
        scored = (None, *(_scored(token, wanted) for token in self.prompt[1:]))
        return PromptInfo(tuple(self.prompt), scored, cached_tokens=self.cached)


def kept(prompt: int, share: float) -> int:
    return math.ceil(prompt * share)


def _scored(token: int, top: int) -> TokenLogprob:
    """Upper-case letters are not the likeliest; the token after is impossible."""
    chosen = -1.5 if 65 <= token <= 90 else -0.25
    others = [(token, chosen), ((token + 1) % 256, float("-inf"))]
    if chosen == -1.5:
        others.insert(0, ((token + 32) % 256, -0.5))
    return TokenLogprob(token, chosen, tuple(others[:top]))


def refusal(cause: str) -> Refused | NeverFits:
    """What the engine says, with the seconds after which to come back."""
    if cause == "never_fits":
        return NeverFits(5000, 9_000_000_000, 1_000_000_000)
    kinds: list[type[Refused]] = [QueueFull, QueueTimeout, DeadlineExceeded, SlowReader]
    return next(kind("not now", 7) for kind in kinds if kind.cause == cause)


def _command(text: str) -> tuple[str, int]:
    if "!" not in text:
        return "", 0
    name, _, number = text.rsplit("!", 1)[1].split("|")[0].partition(" ")
    return name, int(number or 0) if name else 0  # "Hello! Who" is no command
