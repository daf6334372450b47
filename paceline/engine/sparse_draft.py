"""The draft model for sparse prefill: loaded once, checked before anything relies on it. On the engine's thread."""

from __future__ import annotations

import mlx.core as mx

from paceline.cache.budget import Budget
from paceline.cache.memory_model import MemoryModel
from paceline.cache.prefix import PrefixCache
from paceline.cache.slot_plan import ROWS
from paceline.conversation.tokenizer import Tokenizer
from paceline.engine.memory import most_prefixes, profile_memory
from paceline.engine.runner import Runner
from paceline.engine.sparse_prefill import SparsePrefill
from paceline.errors import LoadError
from paceline.models import check
from paceline.models.adapter import accept_position_ids
from paceline.models.files import check_draft_files, resolve
from paceline.models.loader import LoadedModel, load
from paceline.models.prefill_chunk import prefill_chunk
from paceline.sparse.rules import Rules
from paceline.sparse.scorer import Draft

WINDOW = "specprefill_window"  # in a draft's config.json
SHARE = 0.1  # of what prefixes may take, for the draft's own


def check_draft(source: str, target: Tokenizer, purpose: str = "score prompts for it") -> None:
    """Before loading: are the files there, and is the tokenizer the model's? Raises LoadError, in one line."""
    check_draft_files(source)
    try:
        folder = resolve(source)
    except LoadError as error:
        raise LoadError(f"The draft model cannot be used. {error}") from error
    if not target.is_that_of(folder):
        raise LoadError(
            f"The draft {source} has another tokenizer than the model, so it cannot {purpose}. "
            "Take a smaller model of the same family."
        )


def load_draft(
    source: str, dtype: str, vocab_size: int, dequantize_within: int | None = None, *, scores: bool = True
) -> LoadedModel:
    """The draft's language model, without vision tower or MTP head. `scores`: it is to score prompts. Raises LoadError,
    in one line."""
    try:
        model = load(source, dtype, dequantize_within=dequantize_within)
    except LoadError as error:
        raise LoadError(f"The draft model cannot be used. {error}") from error
    model.vision, model.head = None, "it is a draft model"
    if scores and not any(plan.kind == "attention" and plan.window is None for plan in model.language.plans):
        raise LoadError(f"The draft {source} has no layer that sees all of a prompt, so it cannot score prompts.")
    if vocab_size > _rows(model):
        raise LoadError(f"The draft {source} does not know all of the model's tokens.")
    return model


def _rows(model: LoadedModel) -> int:
    probe = model.language.batch(ROWS)
    probe.begin(1)
    logits: mx.array = model.language.module(mx.array([[0]]), cache=probe.layers)
    probe.drop()
    return int(logits.shape[-1])


def _declared(model: LoadedModel) -> int:
    """The attention window that the draft's author declares sufficient; 0: none."""
    value = model.config.get(WINDOW)
    return value if isinstance(value, int) and value > 0 else 0


def why_not(target: LoadedModel) -> str | None:
    """Why sparse prefill is impossible with this model; None: it is possible, and enabled."""
    reason = accept_position_ids(target.language)
    if reason is None and not check.accepts_position_ids(target.language):
        reason = "it gives something else when positions are explicit"
    return None if reason is None else f"{target.config['model_type']} cannot be prefilled sparsely: {reason}"


def build(
    rules: Rules,
    model: LoadedModel,
    runner: Runner,
    *,
    budget: Budget,
    chunk: int | None,
    window: int | None = None,
    special: frozenset[int],
    caches: bool,
    name: str | None = None,
) -> SparsePrefill:
    """Ready to score. The caller counts the draft's weights. `window`: 0 for none, None for the draft's own."""

    def room() -> int:
        return int(min(budget.room("draft prefixes"), budget.usable) * SHARE)

    memory_model: MemoryModel = profile_memory(Runner(model, ROWS), head=False)
    cache = None
    if caches:
        cache = PrefixCache(room, most_entries=most_prefixes(model.language))
    size = chunk or prefill_chunk(model.language, ROWS, most=8192)
    return SparsePrefill(
        rules,
        Draft(model.language, cache, (_declared(model) if window is None else window) or None),
        runner,
        size,
        special=special,
        memory_model=memory_model,
        budget=budget,
        draft_name=name,
        draft_bytes=model.nbytes,
    )
