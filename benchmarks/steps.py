"""How long a decode step takes, by the number of rows: equal sequences through the engine, nothing else."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from rich.table import Table

from benchmarks.traffic import Bench
from paceline.bench.offline import random_prompts


def milliseconds(bench: Bench, rows: int, prompt_tokens: int, tokens: int, turns: int) -> list[float]:
    """A step of each turn, without the prefill."""
    prompts = random_prompts(rows, prompt_tokens, bench.model.language.vocab_size)
    return [1000 * rows / bench.engine_run(prompts, tokens)[0].rate() for _ in range(turns)]


def steps_table(title: str, times: Mapping[int, Sequence[float]]) -> Table:
    table = Table(title=f"{title}: milliseconds a decode step")
    for column in ("rows", "best", "median"):
        table.add_column(column, justify="right")
    for rows, found in times.items():
        table.add_row(str(rows), f"{min(found):.2f}", f"{statistics.median(found):.2f}")
    return table
