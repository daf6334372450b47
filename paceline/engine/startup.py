"""From settings to an engine core: load, choose the layout, check, warm up. Runs on the engine's thread."""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable, Collection
from functools import partial
from pathlib import Path

import mlx.core as mx

from paceline import generation_config, platform, preflight
from paceline.cache.budget import Budget
from paceline.cache.features import Features
from paceline.cache.kv_quantization import KVQuantization
from paceline.cache.slot_plan import NAMES
from paceline.conversation.tokenizer import NO_TEMPLATE, Tokenizer
from paceline.engine import draft_loading
from paceline.engine.admission import Admission
from paceline.engine.core import EngineCore
from paceline.engine.draft_choice import DraftChoice
from paceline.engine.draft_loading import INSTEAD, NO_DRAFT_MODEL, LoadedDraft
from paceline.engine.forced_tokens import GrammarProposer
from paceline.engine.forward import DEVICES
from paceline.engine.lookup import LookupProposer
from paceline.engine.loras import load_all
from paceline.engine.memory import (
    budget_for,
    build_prefix_manager,
    dequantize_within,
    limit_mlx,
    request_memory,
)
from paceline.engine.phases import Phases
from paceline.engine.policy import POLICIES
from paceline.engine.prefill_budget import PrefillBudget
from paceline.engine.prefix_manager import PrefixManager
from paceline.engine.proposer import HostProposer
from paceline.engine.queueing import Timeouts
from paceline.engine.rank_role import CHUNK, NOT_SPLIT, RankRole
from paceline.engine.runner import Runner
from paceline.engine.scheduler import MAX_DRAFT_PREFILL, Scheduler
from paceline.engine.sparse_draft import build, check_draft, load_draft, why_not
from paceline.engine.sparse_prefill import SparsePrefill
from paceline.engine.speculation_policy import DEVICE_METHODS, SpeculationPolicy
from paceline.engine.startup_checks import StartupChecks
from paceline.engine.warmup import WarmUpScope, warm_up
from paceline.errors import StartAbandoned
from paceline.generation_config import SamplingDefaults
from paceline.host_memory import RequestMemory
from paceline.models.files import DEFAULT_DESCRIPTION, DEFAULT_FOLDER, DEFAULT_MODEL, EMBEDDED, resolve
from paceline.models.loader import LoadedModel, Progress, check_family, load
from paceline.models.prefill_chunk import largest
from paceline.models.verdicts import Verdicts
from paceline.models.vision import Vision
from paceline.settings import Settings
from paceline.sparse.rules import NO_DRAFT, Rules
from paceline.stats import ModelInfo, SpecDecodeStats
from paceline.types import MAX_DRAFTED, Lora, Sampling, SpeculationMethod

log = logging.getLogger("paceline")


def speculation_policy(settings: Settings, model: LoadedModel, *, draft_model: bool = False) -> SpeculationPolicy:
    """Which methods draft for this model, and why others do not. After the model was checked. `draft_model`: one is
    loaded."""
    no_head = model.head if isinstance(model.head, str) else None
    unavailable: dict[SpeculationMethod, str] = {} if draft_model else {"draft_model": NO_DRAFT_MODEL}
    if model.no_rollback is not None:
        unavailable |= dict.fromkeys(("lookup", "grammar", "draft_model"), model.no_rollback)
    return SpeculationPolicy(settings.speculation, no_head, settings.draft_methods, unavailable)


class Startup:
    """What the service needs to know of a loaded model. Holds none of its arrays but the vision tower's."""

    tokenizer: Tokenizer
    sampling_defaults: SamplingDefaults
    context_length: int
    vocab_size: int
    embedding_size: int | None  # None: this model gives no embeddings
    vision: Vision | None
    speculation_policy: SpeculationPolicy
    admission: Admission
    memory: RequestMemory
    model: ModelInfo
    speculation: SpecDecodeStats  # without counts
    loras: tuple[Lora, ...] = ()  # that the settings name
    no_sparse: str | None = NO_DRAFT  # why sparse prefill is unavailable; None: it is available

    def __init__(
        self,
        settings: Settings,
        progress: Progress | None,
        wanted: Callable[[], bool] = lambda: True,
        on_step: Callable[[], None] = lambda: None,
        ranks: RankRole | None = None,
        phases: Phases | None = None,
    ) -> None:
        """`wanted` is asked between the parts of the start: False abandons it. `on_step` is called by the engine after
        each step. `ranks`: this is one of several that have the model together. `phases`: of a start that has begun."""
        self.settings = settings
        self.phases = phases or Phases()
        self._ranks = ranks
        self._on_step = on_step
        self._prefix: PrefixManager | None = None  # until the core has it
        self._wanted = wanted
        self._progress = progress
        self._unwired: int | None = None
        self._before: tuple[int, int] | None = None  # MLX's limits before: memory, cache

    def build(self, wake: Callable[[], None]) -> EngineCore:
        """Raises LoadError, StartAbandoned and others, after cleaning up. `wake` makes the engine look again at what it
        waits for."""
        try:
            return self._build(wake)
        except BaseException:
            if self._prefix is not None:
                self._prefix.close()
            self.close()
            gc.collect()
            mx.clear_cache()
            mx.clear_streams()  # this thread ends
            raise
        finally:
            self._prefix = None

    def progress(self, what: str, done: int, total: int) -> None:
        self._check_wanted()
        if self._progress is not None:
            self._progress(what, done, total)

    def _check_wanted(self) -> None:
        if not self._wanted():
            raise StartAbandoned("The start was given up before the model was loaded.")

    def _build(self, wake: Callable[[], None]) -> EngineCore:
        settings, phases = self.settings, self.phases
        preflight.check(settings)
        folder = resolve(settings.model or str(DEFAULT_FOLDER))
        config = preflight.check_checkpoint(folder, settings)
        check_family(folder, config)
        generation = settings.generation_config
        self.tokenizer = Tokenizer.load(
            folder, config, settings.chat_template, generation_config.end_tokens(generation)
        )
        defaults = generation_config.defaults(folder, generation, settings.override_generation_config)
        if settings.specprefill_draft_model is not None:
            check_draft(settings.specprefill_draft_model, self.tokenizer)
        if settings.draft_model is not None:
            check_draft(settings.draft_model, self.tokenizer, "draft for it")
        ranks = self._ranks
        sharding = None if ranks is None else ranks.meet()
        checks = StartupChecks(self._verdicts(folder))
        phases.done("tokenizer")
        model = load(str(folder), settings.dtype, self.progress, dequantize_within(settings), sharding)
        if sharding is not None:
            model.note(f"The model is split over {sharding.ranks} ranks. {NOT_SPLIT}", logging.INFO)
        if model.folder.parent == EMBEDDED:
            note = f"{model.folder.name} is {DEFAULT_DESCRIPTION}."
            log.info(note if settings.model else f"No model was given: {note}")
            model.notes.append(note)
        if self.tokenizer.templates is None:
            model.note(NO_TEMPLATE)
        for note in defaults.notes:
            model.note(note)
        self.loras = load_all(model.language, settings.loras)
        draft = self._draft(model)
        self._check_wanted()
        draft_weights = self._draft_model(model, draft)
        self._check_wanted()
        phases.done("weights")
        grouping = checks.layout(model, settings.kv_layout, "off" if ranks else settings.shape_buckets)
        phases.done("layout")
        self.context_length = settings.context_length or model.context_length
        self.sampling_defaults = defaults.within(self.context_length)
        log.info("sampling where a request is silent: %s", self.sampling_defaults)
        self.vocab_size = model.language.vocab_size
        checks.media(model, grouping)
        self.vision = model.vision
        kv = None if settings.kv_quantization is None else KVQuantization(*settings.kv_quantization)
        checks.quantize_kv(model, grouping, kv)
        self.embedding_size = checks.hidden_size(model)
        chunk = settings.prefill_chunk or (
            checks.prefill_chunk(model, grouping, min(largest(), model.context_length))
            if ranks is None
            else min(CHUNK, model.context_length)
        )
        traces = checks.steps(model, grouping, may_trace=ranks is None)
        drafting: LoadedDraft | None = None
        if settings.draft_model is not None and draft_weights is not None and model.no_rollback is None:
            drafting = draft_loading.build(settings.draft_model, draft_weights, model, settings, checks)
            model.head = INSTEAD
        phases.done("checks")
        no_head = model.head if isinstance(model.head, str) else None
        policy = self.speculation_policy = speculation_policy(settings, model, draft_model=drafting is not None)
        info = self.model = ModelInfo(
            name=settings.served_name or settings.model or DEFAULT_MODEL,
            family=model.config["model_type"],
            device=platform.device_kind(),
            kv_layout=NAMES[grouping.skew],
            shape_buckets=bool(grouping.buckets.rows),
            prefill_chunk=chunk,
            compiled_step=traces,
            context_length=self.context_length,
            max_num_seqs=settings.max_num_seqs,
            weights_bytes=model.nbytes,
            quantization=None if model.quantization is None else str(model.quantization),
            images=model.vision is not None,
            videos=model.vision is not None and model.vision.video_processor is not None,
            audio=model.vision is not None and model.vision.audio_processor is not None,
            kv_bits=settings.kv_bits,
            embedding_size=self.embedding_size,
            mtp_head=no_head is None,
            notes=tuple(model.notes),
            sampling_defaults=generation_config.shown(Sampling(**self.sampling_defaults.values)),  # type: ignore[arg-type]
            sampling_defaults_from=self.sampling_defaults.origins,
        )
        log.info(
            "%s on %s: %.2f GB of weights%s, context %d, layout %s, prefill chunk %d",
            info.name,
            info.device,
            model.nbytes / 1e9,
            f" ({info.quantization})" if info.quantization else "",
            self.context_length,
            info.kv_layout + (", shapes in buckets" if info.shape_buckets else ""),
            chunk,
        )
        self._say_how_it_drafts(policy, drafting)
        self._wire()
        features = Features(int(settings.vision_cache_mb * 1e6) if settings.prefix_cache else 0)
        proposer = None if drafting is None else drafting.proposer
        runner = Runner(model, grouping, traces=traces, features=features, draft_model=proposer)
        runner.sampler.agree = None if sharding is None else sharding.agree
        beside = {id(each): each.nbytes for each in (draft, draft_weights if drafting else None) if each is not None}
        budget = budget_for(settings, model.nbytes + sum(beside.values()))
        self._before = limit_mlx(budget)
        methods = policy.available  # a request may ask for them where the server's default is off
        head = min(settings.max_draft, MAX_DRAFTED) if set(DEVICE_METHODS) & set(methods) else 0
        host = min(settings.max_draft, model.language.longest_draft) if {"lookup", "grammar"} & set(methods) else 0
        memory_model = checks.memory(runner, head=head > 0)
        self.admission = Admission(
            budget,
            memory_model if drafting is None else memory_model.beside(drafting.memory_model),
            width=grouping.buckets.draft_length(max(head, min(host, MAX_DRAFTED))) + 1,
            longest_draft=host,
        )
        if drafting is not None:
            self.admission.draft_prefill = partial(drafting.memory_model.chunk, MAX_DRAFT_PREFILL)
        self._check_wanted()
        self.memory = request_memory(settings, budget, wake)
        overhead = partial(checks.overhead, runner, chunk)
        prefix = self._prefix = build_prefix_manager(settings, runner, budget, info.name, wake, overhead)
        sparse = None
        if draft is not None and self.no_sparse is None:
            sparse = self._sparse(draft, runner, budget, prefix)
        phases.done("memory")
        if ranks is None:
            self._warm_up(runner, 0 if settings.speculation == "off" else max(head, host), sparse)
        phases.done("warm-up")
        core = (EngineCore if ranks is None else ranks.core)(
            runner,
            self._scheduler(chunk, DraftChoice(self._host_proposers(methods), host)),
            prefix=prefix,
            sparse=sparse,
            timeouts=Timeouts(
                settings.max_queue, settings.queue_timeout, settings.first_token_timeout, settings.request_timeout
            ),
            on_step=self._on_step,
        )
        if ranks is not None:
            ranks.started(core, self.admission)
        checks.verdicts.write()
        return core

    def _verdicts(self, folder: Path) -> Verdicts:
        """Several ranks check together, at every start: one that skipped a check would leave the others waiting."""
        if self._ranks is not None:
            return Verdicts(None, {})
        drafts = (self.settings.specprefill_draft_model, self.settings.draft_model)
        folders = [folder, *(resolve(source) for source in drafts if source is not None), *self.settings.loras.values()]
        return Verdicts.of(self.settings, folders)

    def _host_proposers(self, methods: Collection[SpeculationMethod]) -> list[HostProposer]:
        found: list[HostProposer] = []
        if "lookup" in methods:
            found.append(LookupProposer(answers=self.settings.lookup_answers))
        if "grammar" in methods:
            found.append(GrammarProposer())
        return found

    def _scheduler(self, chunk: int, draft_choice: DraftChoice) -> Scheduler:
        settings = self.settings
        policy = POLICIES[settings.scheduler_policy]()
        kind = Scheduler if self._ranks is None else self._ranks.scheduler
        scheduler = kind(settings.max_num_seqs, chunk, policy=policy, starvation=settings.starvation_seconds)
        stall = settings.stall_target_ms
        scheduler.prefill_budget = PrefillBudget(None if stall is None else stall / 1000, chunk)
        scheduler.draft_lengths.most = min(settings.max_draft, MAX_DRAFTED)
        scheduler.draft_lengths.method = "draft_model" if self.speculation.draft_model is not None else "mtp"
        scheduler.draft_choice = draft_choice
        scheduler.admission = self.admission
        buckets = self.admission.memory_model.grouping.buckets
        scheduler.buckets = scheduler.draft_lengths.buckets = buckets
        return scheduler

    def _warm_up(self, runner: Runner, drafts: int, sparse: SparsePrefill | None) -> None:
        if platform.device_kind() not in DEVICES:  # a CPU compiles no kernels
            return
        buckets = runner.grouping.buckets
        draft_lengths = list(buckets.draft_lengths(drafts)) if buckets.drafts else sorted({0, min(drafts, 1), drafts})
        scorer = None if sparse is None else sparse.draft
        log.info("warming up every kind of step")
        scope = WarmUpScope(self.settings.max_num_seqs, self.model.prefill_chunk, self._fits)
        embeds = self.embedding_size is not None
        seconds = warm_up(
            runner, scope, draft_lengths=draft_lengths, draft=scorer, embeds=embeds, progress=self.progress
        )
        log.info("warmed up every kind of step in %.0f s", seconds)

    def _fits(self, seqs: int, tokens: int) -> bool:
        """May the warm-up hold so many sequences of so many tokens?"""
        budget = self.admission.budget
        return self.admission.memory_model.batch([tokens] * seqs) < (budget.usable - budget.holding("weights")) // 4

    def _draft(self, model: LoadedModel) -> LoadedModel | None:
        """The draft model that scores prompts, if one is named and this model supports sparse prefill."""
        source = self.settings.specprefill_draft_model
        if source is None:
            return None
        self.no_sparse = why_not(model)
        if self.no_sparse is not None:
            model.notes.append(self.no_sparse)
            log.warning("sparse prefill off: %s", self.no_sparse)
            return None
        within = dequantize_within(self.settings, held=model.nbytes)
        return load_draft(source, self.settings.dtype, self.tokenizer.vocab_size, within)

    def _draft_model(self, model: LoadedModel, scorer: LoadedModel | None) -> LoadedModel | None:
        """The draft model that drafts, if one is named: the one that scores prompts, if it is the same."""
        source = self.settings.draft_model
        if source is None:
            return None
        if scorer is not None and source == self.settings.specprefill_draft_model:
            return draft_loading.checked(source, scorer)
        held = model.nbytes + (0 if scorer is None else scorer.nbytes)
        within = dequantize_within(self.settings, held=held)
        return draft_loading.load_draft_model(source, self.settings.dtype, self.tokenizer.vocab_size, within)

    def _sparse(
        self, draft: LoadedModel, runner: Runner, budget: Budget, prefix: PrefixManager | None
    ) -> SparsePrefill:
        settings = self.settings
        rules = Rules(
            settings.specprefill,
            settings.specprefill_threshold,
            settings.specprefill_keep_pct,
            settings.specprefill_max_tokens,
        )
        sparse = build(
            rules,
            draft,
            runner,
            budget=budget,
            chunk=settings.specprefill_chunk,
            window=settings.specprefill_window,
            special=self.tokenizer.special_ids,
            caches=settings.prefix_cache,
            name=settings.specprefill_draft_model,
        )
        if prefix is not None:
            sparse.on_kept = prefix.on_kept
        self.admission.scoring = sparse.scoring_bytes
        how = "every long prompt" if rules.setting == "auto" else "requests that ask for it"
        log.info(
            "sparse prefill for %s: %s scores, %d tokens a step, looking back %s",
            how,
            settings.specprefill_draft_model,
            sparse.chunk,
            f"{sparse.draft.window} tokens" if sparse.draft.window else "at all of them",
        )
        return sparse

    def _say_how_it_drafts(self, policy: SpeculationPolicy, drafting: LoadedDraft | None) -> None:
        setting, most = self.settings.speculation, self.settings.max_draft
        unable = policy.cannot_draft
        reason = unable or ("the server is set so" if setting == "off" else f"by {', '.join(policy.available)}")
        on = unable is None and setting != "off"
        self.speculation = SpecDecodeStats(
            on,
            reason,
            setting,
            most,
            unavailable={str(method): why for method, why in policy.missing.items()},
            draft_model=None if drafting is None else drafting.name,
        )
        level = logging.WARNING if unable is not None and isinstance(setting, int) else logging.INFO
        log.log(level, "speculation %s: %s", "on" if on else "off", reason)
        for method, why in policy.missing.items() if on else ():
            if why != NO_DRAFT_MODEL:  # nobody asked for one
                log.info("speculation without %s: %s", method, why)

    def _wire(self) -> None:
        """On Metal, keep the model's memory resident for the engine's life, as mlx-lm does for a generation."""
        if platform.device_kind() == "metal":
            self._unwired = mx.set_wired_limit(platform.memory_limit("metal").bytes)

    def close(self) -> None:
        """After the engine has stopped, or a start has failed."""
        if hasattr(self, "admission"):
            self.admission.scoring = None  # it holds the runner, and with it the model
        if self._unwired is not None:
            mx.set_wired_limit(self._unwired)
            self._unwired = None
        if self._before is not None:
            mx.set_memory_limit(self._before[0])
            mx.set_cache_limit(self._before[1])
            self._before = None
