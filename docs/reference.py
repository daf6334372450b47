"""Writes the generated parts of the docs, between `<!-- generated: NAME -->` and `<!-- end -->`.

    python -m docs.reference            writes them
    python -m docs.reference --check    fails if one is not current

They come from the schemas of requests, the typed statistics, the metrics, the command line and the aliases of settings.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from docs.reference_cli import alias_table, options_table, unneeded_list
from docs.reference_fields import fields_table, harmless_list, paths_list, refused_table
from docs.reference_stats import metric_aliases_table, metrics_table, status_table
from paceline.server.anthropic.schema import CountBody, MessagesBody
from paceline.server.ollama import schema as ollama
from paceline.server.openai.embeddings import EmbeddingBody, ScoreBody
from paceline.server.openai.models import DetokenizeBody, TokenizeBody
from paceline.server.openai.rerank import RerankBody
from paceline.server.openai.responses.schema import ResponsesBody
from paceline.server.openai.schema import ChatBody, CompletionBody, SamplingFields

DOCS = Path(__file__).parent
BLOCK = re.compile(r"(<!-- generated: ([a-z ]+) -->\n).*?(<!-- end -->)", re.DOTALL)

PARTS: Mapping[str, Callable[[], str]] = {
    "sampling fields": lambda: fields_table(SamplingFields),
    "chat fields": lambda: fields_table(ChatBody, SamplingFields),
    "completion fields": lambda: fields_table(CompletionBody, SamplingFields),
    "response fields": lambda: fields_table(ResponsesBody, SamplingFields, ChatBody),
    "message fields": lambda: fields_table(MessagesBody, SamplingFields, ChatBody),
    "count fields": lambda: fields_table(CountBody, ChatBody, MessagesBody),
    "embedding fields": lambda: fields_table(EmbeddingBody, SamplingFields, ChatBody),
    "score fields": lambda: fields_table(ScoreBody, SamplingFields, ChatBody),
    "rerank fields": lambda: fields_table(RerankBody, SamplingFields, ChatBody),
    "tokenize fields": lambda: fields_table(TokenizeBody, SamplingFields, ChatBody),
    "detokenize fields": lambda: fields_table(DetokenizeBody, SamplingFields, ChatBody),
    "ollama chat fields": lambda: fields_table(ollama.ChatBody, SamplingFields, ChatBody),
    "ollama generate fields": lambda: fields_table(ollama.GenerateBody, SamplingFields, ollama.ChatBody),
    "ollama options": lambda: fields_table(ollama.Options, SamplingFields),
    "ollama embed fields": lambda: fields_table(
        ollama.EmbedBody, SamplingFields, ChatBody, EmbeddingBody, ollama.ChatBody
    ),
    "refused fields": refused_table,
    "fields without effect": harmless_list,
    "paths not implemented": paths_list,
    "status": lambda: status_table("Stats"),
    "status of the model": lambda: status_table("ModelInfo"),
    "status of a sequence": lambda: status_table("SequenceStats"),
    "status of the scheduler": lambda: status_table("SchedulerStats"),
    "status of memory": lambda: status_table(
        "MemoryBudgetStats", "MemoryStats", "RequestMemoryStats", "ThroughputStats"
    ),
    "status of steps": lambda: status_table("StepTimes"),
    "status of speculation": lambda: status_table("SpecDecodeStats", "MethodStats", "DraftCostModel"),
    "status of the prefix cache": lambda: status_table(
        "PrefixCacheStats", "DiskCacheStats", "VisionCacheStats", "CachedPrefix"
    ),
    "status of sparse prefill": lambda: status_table("SpecPrefillStats"),
    "metrics": metrics_table,
    "metric aliases": metric_aliases_table,
    "flags of other servers": alias_table,
    "flags without effect": unneeded_list,
    "chat options": lambda: options_table("chat"),
}


def current(text: str) -> str:
    """A page with its generated parts as they should be."""
    return BLOCK.sub(lambda found: f"{found[1]}\n{PARTS[found[2]]()}\n\n{found[3]}", text)


def pages() -> list[Path]:
    return sorted(DOCS.glob("*.md"))


def used() -> set[str]:
    return {name for page in pages() for _, name, _ in BLOCK.findall(page.read_text())}


def main() -> None:
    check = "--check" in sys.argv[1:]
    stale = []
    for page in pages():
        text = page.read_text()
        new = current(text)
        if new != text:
            stale.append(page.name)
            if not check:
                page.write_text(new)
    print(f"{'not current' if check else 'written'}: {', '.join(stale) or 'nothing'}")
    sys.exit(1 if check and stale else 0)


if __name__ == "__main__":
    main()
