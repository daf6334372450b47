"""How fast prompts are prefilled, one or many at once, without decoding beside them."""

from __future__ import annotations

import time
from collections.abc import Sequence

import mlx.core as mx
from rich.table import Table

from benchmarks.traffic import Bench
from paceline.bench.offline import random_prompts
from paceline.engine.sequence import Sequence as Running
from paceline.types import Delta, Sampling


def tokens_per_second(bench: Bench, prompts: int, tokens: int, turns: int) -> float:
    """The best of so many turns, after one that does not count."""

    def run() -> float:
        best = float("inf")
        for turn in range(turns + 1):
            seconds = _prefill(bench, prompts, tokens)
            best = min(best, seconds) if turn else best
        return prompts * tokens / best

    rate: float = bench.on_engine_thread(run)
    return rate


def _prefill(bench: Bench, prompts: int, tokens: int) -> float:
    """As the engine does it: steps of at most the prefill chunk, short prompts together."""
    runner, most = bench.runner, bench.scheduler.prefill_budget.max_chunk
    texts = random_prompts(prompts, tokens + 1, bench.model.language.vocab_size)
    seqs = [bench.sequence(str(i), text, Sampling(max_tokens=1), _ignore) for i, text in enumerate(texts)]
    mx.synchronize()
    begun = time.perf_counter()
    while left := [seq for seq in seqs if seq.remaining]:
        chunks: list[tuple[Running, int]] = []
        room = most
        for seq in left:
            if room:
                chunks.append((seq, min(seq.remaining, room)))
                room -= chunks[-1][1]
        together = runner.shared(chunks)
        done = {id(seq) for group in together for seq, _ in group}
        waits = [runner.prefill_together(*map(list, zip(*group, strict=True))) for group in together]
        waits += [[runner.prefill(seq, size)] for seq, size in chunks if id(seq) not in done]
        mx.eval(waits)
    return time.perf_counter() - begun


def _ignore(delta: Delta) -> None:
    """Nothing is generated."""


def prefill_table(title: str, rates: Sequence[tuple[int, int, float]]) -> Table:
    table = Table(title=title)
    for column in ("prompts", "tokens each", "tokens per second"):
        table.add_column(column, justify="right")
    for prompts, tokens, rate in rates:
        table.add_row(str(prompts), f"{tokens:,}", f"{rate:,.0f}")
    return table
