"""How fast prompts are prefilled, one or many at once: requests for one token through the engine."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from benchmarks.traffic import Bench
from paceline.bench.offline import random_prompts


def tokens_per_second(bench: Bench, prompts: int, tokens: int, turns: int) -> float:
    """Prompt tokens by the time to the last first token: the best of so many turns, after one that does not count."""
    texts = random_prompts(prompts, tokens, bench.model.language.vocab_size)
    seconds = [bench.engine_run(texts, 1)[1] for _ in range(turns + 1)]
    return prompts * tokens / min(seconds[1:])


def prefill_table(title: str, rates: Sequence[tuple[int, int, float]]) -> Table:
    table = Table(title=title)
    for column in ("prompts", "tokens each", "tokens per second"):
        table.add_column(column, justify="right")
    for prompts, tokens, rate in rates:
        table.add_row(str(prompts), f"{tokens:,}", f"{rate:,.0f}")
    return table
