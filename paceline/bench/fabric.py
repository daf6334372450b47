"""`paceline bench fabric`: how long a collective takes, and a step of a model, by the number of ranks.

Sharding pays where a step over two ranks is shorter than on one: the sums after every layer cost more than they save on
a slow connection. Run under mlx.launch, it measures the ranks that were started; else it starts ranks on this machine.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter
from rich.table import Table

from paceline.bench.wire import BenchError
from paceline.parallel.launch import LOCAL, free_ports

SIZES = (1 << 10, 16 << 10, 256 << 10, 4 << 20)  # bytes of the collectives
TRIES = 20
PIECE = 256  # prompt tokens of a pass


@dataclass(frozen=True, slots=True)
class Plan:
    model: str | None  # None: collectives only
    dtype: str
    rows: tuple[int, ...]
    context: int
    steps: int


@dataclass(frozen=True, slots=True)
class Figures:
    """Medians, in seconds."""

    ranks: int
    collectives: dict[int, float] = field(default_factory=dict)  # by bytes
    decode: dict[int, float] = field(default_factory=dict)  # by rows
    prefill: float | None = None  # a pass of PIECE tokens
    error: float | None = None  # by which logits differ from one process's, of the largest


def measure(plan: Plan, *, alone: bool) -> tuple[int, Figures]:
    """In each rank, on a thread that owns MLX: its rank, and what it measured."""
    import mlx.core as mx

    from paceline.parallel.roles import group

    joined = mx.distributed.init() if alone else group()
    collectives = {size: _collective(joined, size) for size in SIZES}
    if plan.model is None:
        return joined.rank(), Figures(joined.size(), collectives)
    from paceline.cache.slot_plan import ROWS
    from paceline.models import check
    from paceline.models.loader import load
    from paceline.models.sharding import Sharding

    sharding = None if alone else Sharding(joined)
    language = load(plan.model, plan.dtype, sharding=sharding).language
    check.choose_layout(language, (ROWS,))

    def row() -> Any:
        made = language.batch(ROWS)
        for start in range(0, plan.context, PIECE):
            width = min(PIECE, plan.context - start)
            made.begin(width)
            language.module(mx.zeros((1, width), dtype=mx.int32), cache=made.layers)
            made.commit()
            mx.eval(made.arrays())
        return made

    def prefill() -> None:
        made = language.batch(ROWS)
        made.begin(PIECE)
        mx.eval(language.module(mx.zeros((1, PIECE), dtype=mx.int32), cache=made.layers))

    decode = {}
    for rows in plan.rows:
        batch = row()
        for _ in range(rows - 1):
            batch.join(row())
        tokens = mx.zeros((rows,), dtype=mx.int32)

        def step(batch: Any = batch, tokens: mx.array = tokens) -> None:
            check.decode(language, batch, tokens)

        decode[rows] = _median(step, plan.steps)
    error = None if sharding is None else sharding.error
    return joined.rank(), Figures(joined.size(), collectives, decode, _median(prefill, max(plan.steps // 4, 3)), error)


def _collective(joined: Any, size: int) -> float:
    import mlx.core as mx

    values = mx.zeros((size // 4,), dtype=mx.float32)
    mx.eval(values)
    return _median(lambda: mx.eval(mx.distributed.all_sum(values, group=joined)), TRIES)


def _median(work: Callable[[], None], times: int) -> float:
    work()
    found = []
    for _ in range(times):
        begun = time.perf_counter()
        work()
        found.append(time.perf_counter() - begun)
    return statistics.median(found)


def local(ranks: int, plan: Plan) -> Figures:
    """Start so many ranks on this machine. Raises BenchError."""
    with tempfile.TemporaryDirectory(prefix="paceline-fabric-") as folder:
        hosts, report = Path(folder) / "hosts.json", Path(folder) / "report.json"
        hosts.write_text(json.dumps([[f"{LOCAL}:{port}"] for port in free_ports(ranks)]))
        command = [sys.executable, "-m", "paceline.bench.fabric", json.dumps(asdict(plan)), str(report)]
        processes = []
        for rank in range(ranks):
            own = {"MLX_RANK": str(rank), "MLX_HOSTFILE": str(hosts)} if ranks > 1 else {}
            processes.append(subprocess.Popen(command, env={**os.environ, **own}))
        try:
            codes = [process.wait() for process in processes]
        finally:
            for process in processes:
                if process.poll() is None:
                    process.kill()
        if any(codes) or not report.exists():
            raise BenchError(f"{ranks} ranks ended with the codes {', '.join(map(str, codes))}.")
        return TypeAdapter(Figures).validate_json(report.read_text())


def fabric_tables(found: Sequence[Figures], title: str) -> list[Table]:
    sizes = Table(title="time of a sum over all ranks (all_sum), µs")
    sizes.add_column("ranks")
    for size in SIZES:
        sizes.add_column(_bytes(size), justify="right")
    for figures in found:
        if figures.ranks > 1:
            sizes.add_row(str(figures.ranks), *(f"{figures.collectives[size] * 1e6:,.0f}" for size in SIZES))
    if not any(figures.decode for figures in found):
        return [sizes]
    rows = sorted({count for figures in found for count in figures.decode})
    steps = Table(title=f"{title}: time of a step, ms")
    steps.add_column("ranks")
    for count in rows:
        steps.add_column(f"decode, {count} rows", justify="right")
    steps.add_column(f"prefill, {PIECE} tokens", justify="right")
    for figures in found:
        cells = [f"{figures.decode[count] * 1e3:.2f}" for count in rows]
        cells.append("" if figures.prefill is None else f"{figures.prefill * 1e3:.2f}")
        steps.add_row(str(figures.ranks), *cells)
    return [sizes, steps]


def _bytes(size: int) -> str:
    return f"{size >> 20} MiB" if size >= 1 << 20 else f"{size >> 10} KiB"


def main() -> None:
    """One rank: `python -m paceline.bench.fabric PLAN REPORT`."""
    given, report = sys.argv[1:]
    plan = TypeAdapter(Plan).validate_json(given)

    from paceline import platform

    platform.prepare()
    rank, figures = measure(plan, alone="MLX_RANK" not in os.environ)
    if rank == 0:
        Path(report).write_text(json.dumps(asdict(figures)))


if __name__ == "__main__":
    main()
