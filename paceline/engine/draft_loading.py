"""A draft model at start-up: checked, loaded, laid out, and its memory measured. On the engine's thread."""

from __future__ import annotations

from dataclasses import dataclass

from paceline.cache.memory_model import MemoryModel
from paceline.engine.draft_model import DraftModelProposer, why_not
from paceline.engine.runner import Runner
from paceline.engine.sparse_draft import load_draft
from paceline.engine.startup_checks import StartupChecks
from paceline.errors import LoadError
from paceline.models.loader import LoadedModel
from paceline.settings import Settings

NO_DRAFT_MODEL = "no draft model is loaded (--draft-model)"
INSTEAD = "the draft model drafts instead of the MTP head"


@dataclass(frozen=True, slots=True)
class LoadedDraft:
    """A draft model that is ready to draft."""

    name: str
    proposer: DraftModelProposer
    memory_model: MemoryModel


def load_draft_model(source: str, dtype: str, vocab_size: int, dequantize_within: int | None) -> LoadedModel:
    """Raises LoadError, in one line. `vocab_size`: tokens of the tokenizer."""
    return checked(source, load_draft(source, dtype, vocab_size, dequantize_within, scores=False))


def checked(source: str, model: LoadedModel) -> LoadedModel:
    """Raises LoadError for a model that cannot draft in a batch."""
    reason = why_not(model.language)
    if reason is not None:
        raise LoadError(f"The draft model {source} cannot draft: {reason}. Take another one of the same tokenizer.")
    return model


def build(
    source: str, model: LoadedModel, target: LoadedModel, settings: Settings, checks: StartupChecks
) -> LoadedDraft:
    """After the target was checked, which corrects the size of its vocabulary."""
    grouping = checks.layout(model, settings.kv_layout, settings.shape_buckets)
    checks.quantize_kv(model, grouping, target.language.kv)
    traces = checks.steps(model, grouping)
    memory_model = checks.memory(Runner(model, grouping), head=False)
    return LoadedDraft(
        source,
        DraftModelProposer(model.language, target.language.vocab_size, grouping, traces=traces),
        memory_model,
    )
