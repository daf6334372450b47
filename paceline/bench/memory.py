"""`paceline bench memory`: how many sequences of a length fit, by the memory model and by trying.

Trying: that many rows of so many tokens decode in a batch, in the buffers that the engine would have, one more row
joins, and all decode. MLX says how much memory that took at its peak, and the estimate is of that peak, too: what is
held, and what the step with the most needs in addition. Drafting is off.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import mlx.core as mx
from rich.table import Table

from paceline.bench.offline import Bench
from paceline.cache.budget import Budget
from paceline.cache.kv_quantization import KVQuantization
from paceline.cache.memory_model import MemoryModel
from paceline.cache.stacking import shapes
from paceline.engine.memory import DecodeTrial, profile_memory

BITS = (None, 8, 4)
STEPS = 2  # decode steps of every try, after the row has joined
Watch = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Line:
    """Bytes are those of `estimated` rows, the model's weights among them."""

    bits: int | None  # None: keys and values are not quantized
    token_bytes: int  # of a token in all attention layers
    estimated: int  # rows that fit
    tried: int
    estimated_bytes: int
    peak_bytes: int

    @property
    def error(self) -> float:
        return self.estimated_bytes / self.peak_bytes - 1

    def figures(self) -> dict[str, Any]:
        return asdict(self) | {"error": self.error}


class Trial:
    """On the engine's thread, while the engine is idle."""

    def __init__(self, bench: Bench, tokens: int) -> None:
        self.tokens = tokens
        self.memory_model: MemoryModel = profile_memory(bench.runner, head=False)
        self.weights = bench.model.nbytes
        self.beside = max(mx.get_active_memory() - self.weights, 0)  # no part of it
        row = bench.model.language.batch(bench.runner.grouping)
        row.begin(1)
        bench.model.language.module(mx.array([[0]]), cache=row.layers)
        row.commit()
        self.decoding = DecodeTrial(bench.runner, shapes(row))

    def estimate(self, rows: int) -> int:
        """As admission counts sequences that decode."""
        lengths = [self.tokens] * rows
        return self.weights + self.memory_model.batch(lengths) + self.memory_model.passing(lengths)

    def peak(self, rows: int) -> int:
        """Bytes of MLX at their peak while the last of so many rows joins and all decode."""
        before = self.tokens - STEPS
        batch = self.decoding.rows(rows - 1, before) if rows > 1 else None
        new = self.decoding.rows(1, before)
        mx.clear_cache()
        mx.reset_peak_memory()
        chosen = mx.array(0)
        if batch is None:
            batch = new
        else:
            chosen = self.decoding.step(batch)  # which still runs while the row joins, as in the engine
            batch.low_memory = True
            batch.join(new)
        mx.eval(chosen)
        for _ in range(STEPS):
            mx.eval(self.decoding.step(batch))
        return int(mx.get_peak_memory()) - self.beside


def most(fits: Callable[[int], bool], guess: int, limit: int) -> int:
    """The largest number up to `limit` that fits, from a guess on; what fits, fits with fewer."""
    low, high = 0, limit + 1  # low fits, high does not
    step = max(guess // 16, 1)
    place = min(max(guess, 1), limit)
    while high - low > 1:
        if fits(place):
            low = place
            place = min(place + step, high - 1) if high == limit + 1 else (low + high) // 2
        else:
            high = place
            place = max(place - step, low + 1) if low == 0 else (low + high) // 2
        place = max(min(place, high - 1), low + 1)
    return low


def measure(bench: Bench, budget: Budget, tokens: int, limit: int, group_size: int, watch: Watch) -> list[Line]:
    """For keys and values as computed, and with 8 and 4 bits."""
    lines = []
    for bits in BITS:
        watch(f"keys and values: {name(bits)}")
        with bench.quantized_kv(None if bits is None else KVQuantization(bits, group_size)):
            lines.append(bench.on_engine_thread(partial(_line, bench, budget, tokens, limit, bits)))
    return lines


def _line(bench: Bench, budget: Budget, tokens: int, limit: int, bits: int | None) -> Line:
    trial = Trial(bench, tokens)
    peaks: dict[int, int] = {}

    def peak(rows: int) -> int:
        if rows not in peaks:
            peaks[rows] = trial.peak(rows)
            mx.clear_cache()
        return peaks[rows]

    estimated = most(lambda rows: trial.estimate(rows) <= budget.usable, 1, limit)
    tried = most(lambda rows: peak(rows) <= budget.usable, max(estimated, 1), limit)
    counted = max(estimated, 1)
    token = sum(layer.token for layer in trial.memory_model.attention)
    return Line(bits, token, estimated, tried, trial.estimate(counted), peak(counted))


def name(bits: int | None) -> str:
    return "not quantized" if bits is None else f"{bits} bits"


def memory_table(title: str, lines: list[Line]) -> Table:
    table = Table(title=title, title_justify="left")
    for column in ("", *(name(line.bits) for line in lines)):
        table.add_column(column, justify="right" if column else "left")
    rows: dict[str, Callable[[Line], str]] = {
        "bytes of a token": lambda line: str(line.token_bytes),
        "sequences that fit, estimated": lambda line: str(line.estimated),
        "by trying": lambda line: str(line.tried),
        "ratio to not quantized": lambda line: f"{line.tried / max(lines[0].tried, 1):.2f}",
        "estimated memory, MB": lambda line: f"{line.estimated_bytes / 1e6:.1f}",
        "peak memory, MB": lambda line: f"{line.peak_bytes / 1e6:.1f}",
        "error of the estimate": lambda line: f"{line.error:+.1%}",
    }
    for title, cell in rows.items():
        table.add_row(title, *(cell(line) for line in lines))
    return table
