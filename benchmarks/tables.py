"""Figures of several benches as tables for a terminal."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rich.markup import escape
from rich.table import Table

from paceline.bench.report import duration

if TYPE_CHECKING:
    from benchmarks.prefix import Line
    from benchmarks.prefix_overhead import Overhead
    from benchmarks.speculate import Mode
    from paceline.bench.trace import TraceReport


def speculation_table(title: str, modes: Sequence[Mode]) -> Table:
    """Ways to decode, by rows: tokens per second, and the ratio to the first mode's rate of the same turn; the same for
    tokens per second of processor time."""
    table = Table(title=escape(title), title_justify="left")
    first = modes[0].name
    columns = ("tokens/s", f"ratio to {first}", "lowest turn", "by processor time", "acceptance", "tokens a step")
    for column in ("rows", "mode" if modes[0].label else "drafting", *columns):
        table.add_column(column, justify="right")
    for mode, following in zip(modes, [*modes[1:], None], strict=True):
        share = "-" if mode.acceptance is None else f"{mode.acceptance:.2f}"
        each = "-" if mode.tokens_a_step is None else f"{mode.tokens_a_step:.2f}"
        ratios = f"{mode.ratio:.3f}", f"{min(mode.ratios):.3f}", f"{mode.cpu_ratio:.3f}"
        ends = following is None or following.rows != mode.rows
        table.add_row(str(mode.rows), mode.name, f"{mode.rate:.1f}", *ratios, share, each, end_section=ends)
    return table


def cost_table(costs: Mapping[int, Mapping[int, float]], launches: Mapping[int, int]) -> Table:
    """Milliseconds of a step by rows and depth as the engine measured them, and the operations one submits."""
    depths = sorted({depth for by in costs.values() for depth in by} | set(launches))
    table = Table(title="milliseconds a step, by depth", title_justify="left")
    table.add_column("rows", justify="right")
    for depth in depths:
        table.add_column(str(depth), justify="right")
    for rows, by in costs.items():
        table.add_row(str(rows), *(f"{by[depth]:.1f}" if depth in by else "-" for depth in depths))
    table.add_section()
    table.add_row("operations, 1 row", *(str(launches.get(depth, "-")) for depth in depths))
    return table


def prefix_table(title: str, lines: Sequence[Line]) -> Table:
    """The time to the first token by length of the shared prefix: cold, from memory, from disk."""
    table = Table(title=escape(title), title_justify="left")
    columns = ("tokens shared", "cold", "warm", "from disk", "cold / warm", "lowest", "cold / disk", "lowest")
    for column in (*columns, "restore", "of its prefill", "highest", "size"):
        table.add_column(column, justify="right")
    median = statistics.median
    for line in lines:
        times = (duration(median(seconds)) for seconds in (line.cold, line.warm, line.disk))
        ratios = (f"{pick(of):.1f}" for of in (line.warm_ratios, line.disk_ratios) for pick in (median, min))
        shares = (f"{pick(line.shares):.2%}" for pick in (median, max))
        size = f"{line.nbytes / 1e6:,.1f} MB"
        table.add_row(f"{line.shared:,}", *times, *ratios, duration(median(line.restore)), *shares, size)
    return table


def overhead_table(title: str, lines: Sequence[Overhead]) -> Table:
    """Rates with the prefix cache on and off, and their ratio in a pair of turns."""
    table = Table(title=escape(title), title_justify="left")
    table.add_column("")
    for column in ("on", "off", "on / off", "lowest", "on / off by CPU time"):
        table.add_column(column, justify="right")
    median = statistics.median
    for line in lines:
        rates = (f"{line.count / median(turns.wall):,.1f} {line.unit}/s" for turns in (line.on, line.off))
        ratios = (median(line.ratios), min(line.ratios), median(line.cpu_ratios))
        table.add_row(escape(line.traffic), *rates, *(f"{ratio:.3f}" for ratio in ratios))
    return table


def trace_table(title: str, traces: Sequence[TraceReport]) -> Table:
    """The same trace, server by server; ratios of time are to the first."""
    table = Table(title=escape(title), title_justify="left")
    table.add_column("")
    columns = ("ok", "failed", "requests/s", "total time", "first token, p50", "p95", "prompt tokens", "cached")
    ratio = () if len(traces) == 1 else (f"total / {traces[0].run.label}", "first token, p50 /")
    for column in (*columns, "computed", "computed / ideal", *ratio):
        table.add_column(escape(column), justify="right")
    first = traces[0].run
    for trace in traces:
        run = trace.run
        cells = [str(run.ok), str(sum(run.errors.values())), f"{run.requests_per_s:.2f}", duration(run.wall_s)]
        cells += ["-", "-"] if run.ttft_s is None else [duration(run.ttft_s.p50), duration(run.ttft_s.p95)]
        cells += [f"{run.prompt_tokens:,}", _count(run.cached_tokens), _count(trace.computed)]
        cells.append("-" if trace.ratio is None else f"{trace.ratio:.3f}")
        if ratio:
            cells.append(f"{run.wall_s / first.wall_s:.2f}")
            cells.append("-" if run.ttft_s is None or not first.ttft_s else f"{run.ttft_s.p50 / first.ttft_s.p50:.2f}")
        table.add_row(escape(run.label), *cells)
    return table


def _count(number: int | None) -> str:
    return "-" if number is None else f"{number:,}"
