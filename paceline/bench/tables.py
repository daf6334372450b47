"""Reports as tables for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.markup import escape
from rich.table import Table

from paceline.bench.report import Distribution, LongPromptReport, Ratio, Report, duration


def summary_table(of: Report) -> Table:
    """What happened, in totals."""
    table = Table(title=escape(of.label), title_justify="left", show_header=False)
    table.add_column(style="bold")
    table.add_column(justify="right")
    table.add_row("address", escape(of.url))
    table.add_row("model", escape(of.model))
    table.add_row("requests", f"{of.ok} ok, {sum(of.errors.values())} failed")
    for kind, count in of.errors.items():
        table.add_row(f"  {kind}", f"{count}  [dim]{escape(of.error_examples[kind])}[/dim]")
    counted = {"usage": "", "chunks": " (counted in chunks)", "mixed": " (partly counted in chunks)"}
    table.add_row("output tokens", f"{of.output_tokens:,}{counted[of.tokens_from]}")
    cached = "" if of.cached_tokens is None else f", {of.cached_tokens:,} of them cached"
    table.add_row("prompt tokens", f"{of.prompt_tokens:,}{cached}")
    table.add_row("output tokens per second", f"{of.output_tokens_per_s:,.1f}")
    table.add_row("prompt tokens per second", f"{of.prompt_tokens_per_s:,.1f}")
    table.add_row("tokens per chunk", "-" if of.tokens_per_chunk is None else f"{of.tokens_per_chunk:.2f}")
    table.add_row("wall time", duration(of.wall_s))
    table.add_row("this client's CPU", f"{of.client_cpu_share:.1%} of a core")
    return table


def latency_table(of: Report) -> Table:
    """How long things took, in percentiles."""
    table = Table(title="latency", title_justify="left")
    for column in ("", "p50", "p95", "p99", "max", "samples"):
        table.add_column(column, justify="left" if not column else "right")
    rows: list[tuple[str, Distribution | None]] = [
        ("time to first token", of.ttft_s),
        ("inter-token latency", of.inter_token_s),
        ("chunk gap", of.chunk_gap_s),
        ("end to end", of.end_to_end_s),
    ]
    if (long := of.long_prompt) is not None and long.ttft_s is not None:
        rows.append(("inter-token, long prompt waiting", long.inter_token_s))
        rows.append(("chunk gap, long prompt waiting", long.chunk_gap_s))
    for name, spread in rows:
        if spread is None:
            table.add_row(name, *["-"] * 4, "0")
        else:
            points = (spread.p50, spread.p95, spread.p99, spread.max)
            table.add_row(name, *map(duration, points), f"{spread.count:,}")
    return table


def compare_table(compared: Sequence[Ratio], labels: tuple[str, str], pairs: int) -> Table:
    """Two servers, figure by figure."""
    title = f"{labels[0]} against {labels[1]}, medians of {pairs} interleaved pair{'s' * (pairs != 1)}"
    table = Table(title=escape(title), title_justify="left")
    table.add_column("")
    for column in (*labels, f"{labels[0]} / {labels[1]}", "ahead"):
        table.add_column(escape(column), justify="right")
    for ratio in compared:
        shown = duration if ratio.figure.unit == "s" else "{:,.1f}".format
        ahead = {True: labels[0], False: labels[1], None: "-"}[ratio.first_is_ahead]
        table.add_row(ratio.figure.name, shown(ratio.first), shown(ratio.second), f"{ratio.median:.3f}", escape(ahead))
    return table


def long_prompt_line(of: LongPromptReport) -> str:
    size = of.prompt_tokens or of.asked_prompt_tokens
    if of.ttft_s is None:
        return f"The long prompt ({size:,} tokens) failed: {of.failure or 'an empty answer'}."
    return (
        f"The long prompt ({size:,} tokens) was sent at {duration(of.sent_at_s)} and waited "
        f"{duration(of.ttft_s)} for its first token; {of.streams_decoding} streams were decoding then."
    )
