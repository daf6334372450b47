"""What exists between a service's start and stop: the engine's thread, and what turns requests into sequences."""

from __future__ import annotations

import asyncio
import logging
import math
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from paceline import memory_advice, platform
from paceline.cache.radix import PrefixKey
from paceline.conversation.grammar import Compiled, Grammars, GrammarSpec
from paceline.conversation.parsing.formats import choose_format, opens_reasoning
from paceline.conversation.sampling_tokens import SamplingVocabulary
from paceline.delta_stream import DeltaDispatcher, DeltaStream
from paceline.engine.limits import Limits
from paceline.engine.phases import Phases
from paceline.engine.token_index import TokenIndex
from paceline.errors import InvalidRequest, PromptTooLong, SettingsError
from paceline.host_memory import waits_until
from paceline.requests import ChatRequest, GenerateRequest
from paceline.settings import Settings
from paceline.stats import SpecPrefillStats, Stats
from paceline.types import MAX_DRAFTED, Lora, Prompt, RequestId, Sampling, SamplingTokens

if TYPE_CHECKING:
    from paceline.engine.core import EngineCore
    from paceline.engine.rank_role import RankRole

log = logging.getLogger("paceline")
Progress = Callable[[str, int, int], None]
T = TypeVar("T")
Build = Callable[["Runtime"], Prompt]
PROMPT_THREADS = 16  # threads that build prompts and compile grammars
MEDIA_THREADS = 4  # threads for prompts with images or very long texts


@dataclass(frozen=True, slots=True)
class PreparedRequest:
    """What the choices of a request have in common."""

    prompt: Prompt
    grammar: Compiled | None
    cache_key: PrefixKey | None  # None: prefixes are not cached
    lookup_index: TokenIndex | None  # None: prompt lookup may not draft
    tokens: SamplingTokens


class Runtime:
    """Complete when constructed: the model is loaded and the engine runs."""

    def __init__(
        self,
        settings: Settings,
        progress: Progress | None,
        wanted: Callable[[], bool],
        ranks: RankRole | None = None,
    ) -> None:
        """`ranks`: the other ranks that have the model together with this one."""
        if ranks is None and settings.several_ranks:
            raise SettingsError("several ranks are for `paceline serve`: leave out ranks and parallel")
        phases = Phases()
        platform.prepare(settings.blas, exact=settings.dtype == "float32")
        from paceline.engine.startup import Startup
        from paceline.engine.thread import EngineThread

        self.requests: dict[RequestId, Literal["open", "aborted"]] = {}
        self.prompt_pool = ThreadPoolExecutor(PROMPT_THREADS, "paceline-prompt")
        self.media_pool = ThreadPoolExecutor(MEDIA_THREADS, "paceline-media")
        self.dispatcher = DeltaDispatcher()
        phases.done("imports")
        self.startup = Startup(settings, progress, wanted, self.dispatcher.flush, ranks, phases)
        self.engine = EngineThread(self.startup.build)
        self.settings = settings
        memory_advice.warn_of_limit(settings, memory_advice.machine_memory())
        if ranks is not None:
            ranks.watch(self.engine.abandon)
        try:
            self.engine.start()
            if (prefix := self.engine.core.prefix) is not None:
                memory_advice.warn_of_prefixes(settings, prefix.cache.limit())
            self._prepare()
            phases.done("requests")
            log.info("the engine started in %s", phases.line())
        except BaseException:
            self.stop()
            raise

    def _prepare(self) -> None:
        """Build what requests need from the loaded model."""
        from paceline.conversation.media import Loader
        from paceline.conversation.prompt import PromptBuilder
        from paceline.conversation.tokenizer import Tokenizer
        from paceline.conversation.video import VideoLimits
        from paceline.engine.loras import LoraRegistry
        from paceline.models.files import DEFAULT_MODEL

        settings = self.settings
        tokenizer: Tokenizer = self.startup.tokenizer
        self.limits = Limits(
            eos_ids=frozenset(tokenizer.eos_ids),
            context_length=self.startup.context_length,
            vocab_size=self.startup.vocab_size,
            max_choices=settings.max_choices,
            max_stop_strings=settings.max_stop_strings,
            max_logprobs=settings.max_logprobs,
            speculation=self.startup.speculation_policy.setting,
            max_draft=min(settings.max_draft, MAX_DRAFTED),
            no_head=self.startup.speculation_policy.cannot_draft,
            no_method=self.startup.speculation_policy.missing,
            no_sparse=self.startup.no_sparse,
            prefills_sparsely=settings.specprefill == "auto",
        )
        template = tokenizer.chat_template or ""
        special = {tokenizer.token_text(token): token for token in tokenizer.special_ids}
        self.answer_format = choose_format(
            template, special, settings.tool_parser, settings.reasoning_parser, tokenizer.library_tool_parser
        )
        self.format_tokens = frozenset(special[text] for text in self.answer_format.special)
        self.words = SamplingVocabulary(tokenizer, self.answer_format)
        self.limits = replace(self.limits, no_thinking_budget=self.words.no_thinking_budget)
        drafts = "grammar" in self.startup.speculation_policy.available
        self.grammars = Grammars(tokenizer, self.startup.vocab_size, tokenizer.eos_ids, drafts=drafts)
        # At start, before anybody waits for a token: with a large vocabulary it blocks all threads for a second or two.
        threading.Thread(target=self.grammars.prepare, name="paceline-grammar", daemon=True).start()
        self.prompts = PromptBuilder(
            tokenizer,
            self.startup.vision,
            max_images=settings.max_images,
            loader=Loader.of(settings),
            video_processor=None if self.startup.vision is None else self.startup.vision.video_processor,
            video_limits=VideoLimits.of(settings, self.startup.memory.work.limit),
            audio_processor=None if self.startup.vision is None else self.startup.vision.audio_processor,
            context_length=self.startup.context_length,
            memory=self.startup.memory,
        )
        names = (*settings.served_names, settings.model or DEFAULT_MODEL)
        self.loras = LoraRegistry(self.engine, self.startup.loras, names)

    def most_prompt_tokens(self, request: ChatRequest | GenerateRequest) -> int | None:
        """How many of the prompt's last tokens are taken; None: all. -1: as many as the context has room for."""
        most, context = request.truncate_prompt_tokens, self.limits.context_length
        if most is None:
            return None
        if most != -1 and not 1 <= most < context:
            raise InvalidRequest.at("truncate_prompt_tokens", f"is {most}; it must be -1, or 1 to {context - 1}.")
        return max(context - (request.sampling.max_tokens or 1), 1) if most == -1 else most

    def _check_prompt(self, prompt: Prompt, field: str) -> None:
        if not prompt.token_ids:
            raise InvalidRequest.at(field, "is empty." if field != "messages" else "gives an empty prompt.")
        if len(prompt.token_ids) >= self.limits.context_length:
            raise PromptTooLong(len(prompt.token_ids), self.limits.context_length, field=field)
        unknown = next((t for t in prompt.token_ids if not 0 <= t < self.limits.vocab_size), None)
        if unknown is not None:
            raise InvalidRequest(
                f"The prompt has token {unknown}; this model's tokens are 0 to {self.limits.vocab_size - 1}.",
                field=field,
            )
        self.startup.admission.check(len(prompt.token_ids), [medium.cost for medium in prompt.media], field)

    def prompt_text(self, prompt: Prompt) -> str:
        """A prompt for the log, as the model reads it; a medium is one token of it."""
        media, most = {medium.token_id for medium in prompt.media}, self.settings.max_log_len
        ids = [
            id
            for id, before in zip(prompt.token_ids, (None, *prompt.token_ids), strict=False)
            if id not in media or id != before
        ]
        text = self.prompts.tokenizer.decode(ids[: most + 1], skip_special_tokens=False)
        return text[:most] + ("…" if len(text) > most or len(ids) > most + 1 else "")

    async def run_in_executor(self, work: Callable[..., T], *arguments: Any, heavy: bool = False) -> T:
        """Run slow work off the event loop. `heavy`: it may wait for memory, so it gets a pool of its own.

        Raises QueueTimeout if it waits longer than a request may, for a thread or for memory.
        """
        pool = self.media_pool if heavy else self.prompt_pool
        timeouts = (self.settings.queue_timeout, self.settings.request_timeout)
        deadline = time.monotonic() + min(math.inf if timeout is None else timeout for timeout in timeouts)

        def timed() -> T:
            with waits_until(deadline):
                return work(*arguments)

        return await asyncio.get_running_loop().run_in_executor(pool, timed)

    def prepare(
        self, build: Build, request: ChatRequest | GenerateRequest, lora: Lora | None, field: str
    ) -> PreparedRequest:
        """All that a request needs before the engine has it. In one piece: a thread that waits for the interpreter's
        lock, or to be heard by the event loop, waits while the engine plans its next step."""
        prompt = replace(build(self), cached=request.cache, salt=request.cache_salt, lora=lora)
        grammar = None if request.grammar is None else self._compile_grammar(request.grammar, prompt)
        self._check_prompt(prompt, field)
        key, lookup = self._index_prompt(prompt, request.sampling)
        tokens = SamplingTokens()
        if self.words.has_words(request.sampling):
            tokens = self.words.tokens(request.sampling, prompt)
        return PreparedRequest(prompt, grammar, key, lookup, tokens)

    def _compile_grammar(self, spec: GrammarSpec, prompt: Prompt) -> Compiled:
        """The compiled grammar. If the prompt opens a reasoning block, the grammar applies after that block."""
        think = self.answer_format.think_format
        if think is not None and opens_reasoning(prompt.tail, self.answer_format):
            spec = spec.following(think.close)
        return self.grammars.compile(spec)

    def _index_prompt(self, prompt: Prompt, sampling: Sampling) -> tuple[PrefixKey | None, TokenIndex | None]:
        """The costly part of finding a prefix, for all choices of a request; None where prefixes are not cached. And
        the index of prompt lookup, where that may draft."""
        prefix = self.engine.core.prefix
        mode = self.startup.speculation_policy.mode(prompt, sampling)
        index = TokenIndex(prompt.token_ids) if mode.drafts and "lookup" in mode.methods else None
        return None if prefix is None else prefix.cache_key(prompt), index

    def submit(
        self,
        request: ChatRequest | GenerateRequest,
        ids: Sequence[RequestId],
        ready: PreparedRequest,
        stream: DeltaStream,
    ) -> None:
        """Submit one sequence per choice to the engine, which alone keeps them."""
        from paceline.conversation.text import TextStream
        from paceline.engine import sequence

        prompt = ready.prompt
        tokenizer = self.prompts.tokenizer
        room = self.limits.context_length - len(prompt.token_ids)
        shown = self.format_tokens if request.keep_format_tokens else frozenset()
        sequences = []
        for index, choice_id in enumerate(ids):
            sampling = _choice_sampling(request.sampling, index)
            engine_request = sequence.EngineRequest(
                choice_id,
                prompt,
                sampling,
                max_tokens=room if sampling.max_tokens is None else min(sampling.max_tokens, room),
                speculation=self.startup.speculation_policy.mode(prompt, sampling),
                eos_ids=tokenizer.eos_ids,
                tenant=request.tenant,
                priority=request.priority,
                tokens=ready.tokens,
                cache_key=ready.cache_key,
                lookup_index=ready.lookup_index,
                announce=request.announce and index == len(ids) - 1,  # then all of its choices are accepted
            )
            text = TextStream(
                tokenizer.detokenizer(sampling.skip_special_tokens, shown),
                sampling.stop,
                include_stop=sampling.include_stop_str_in_output,
            )
            matcher = None
            if ready.grammar is not None and request.grammar is not None:
                matcher = ready.grammar.matcher(request.grammar.field)
            sequences.append(sequence.Sequence(engine_request, text, stream.sink(index), matcher))
        siblings = sequence.Siblings(sequences)
        for seq in sequences:
            seq.siblings = siblings
            self.engine.submit(seq)

    def abort(self, ids: Sequence[RequestId]) -> None:
        for choice_id in ids:
            self.engine.abort(choice_id)

    def stop(self) -> None:
        self.engine.stop()
        self.startup.close()
        for pool in (self.prompt_pool, self.media_pool):
            pool.shutdown(wait=False, cancel_futures=True)

    def stats(self) -> Stats:
        """The engine's, with what is known of the model since it was loaded."""
        stats, loaded = self.engine.core.stats(), self.startup
        spec = loaded.speculation
        return replace(
            stats,
            model=loaded.model,
            request_memory=loaded.memory.stats(),
            spec_decode=replace(
                stats.spec_decode,
                enabled=spec.enabled,
                reason=spec.reason,
                setting=spec.setting,
                max_draft=spec.max_draft,
                unavailable=spec.unavailable,
                draft_model=spec.draft_model,
            ),
            specprefill=with_reason(stats.specprefill, self.limits.no_sparse),
        )


def with_reason(specprefill: SpecPrefillStats, reason: str | None) -> SpecPrefillStats:
    """Where prompts are not prefilled sparsely, why."""
    return specprefill if specprefill.enabled else replace(specprefill, reason=reason or "the engine does not run")


def clear_caches(engine: EngineCore) -> dict[str, int]:
    """Clear what is kept of prompts, the draft's own included, and return its memory to the system; returns what was
    freed. On the engine's thread."""
    freed = {"entries": 0, "bytes": 0, "disk_entries": 0, "disk_bytes": 0}
    if engine.prefix is not None:
        freed |= engine.prefix.clear()
    if engine.sparse is not None:
        freed["bytes"] += engine.sparse.stats().draft_cache_bytes
        engine.sparse.clear()
    _release_memory()
    return freed


def release_model_memory() -> None:
    """Return the model's memory to the system, after its last references are collected."""
    import gc

    gc.collect()
    _release_memory()


def _release_memory() -> None:
    """MLX pools freed buffers, and the C library pools what MLX frees: both are emptied."""
    import mlx.core as mx

    mx.synchronize()  # copies in progress hold their sources
    mx.clear_cache()
    platform.trim_host_memory()


def _choice_sampling(sampling: Sampling, index: int) -> Sampling:
    """The n choices of a seeded request differ from each other, and are the same every time."""
    if sampling.seed is None or index == 0:
        return sampling
    return replace(sampling, seed=sampling.seed ^ (index * 0x9E3779B97F4A7C15))
