"""`python -m benchmarks specprefill` on the command line: its options, its tables."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from paceline.bench.options import JsonFile, Layout, Traces, numbers, option, write_json

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from benchmarks.needles import Kind
    from benchmarks.specprefill import Beside, Line, SparseBench, Watch
    from benchmarks.specprefill_quality import Cell

MODEL, DRAFT = "paceline-mini", "paceline-mini-draft"
LENGTHS, JUDGED = "8192,16384", "2048,4096,8192,16384"
TURNS, BESIDE, PROMPTS, SEED = 3, 32768, 20, 0
KEEP, KEEPS = "0.3", "1.0,0.5,0.3,0.2,0.1"
ASKED_AT = 0.3  # the share of the last line
WHAT: dict[Kind, str] = {"retrieval": "One fact hidden in a text", "notes": "A text of facts"}


def specprefill(
    model: Annotated[
        str, typer.Argument(metavar="[MODEL]", help="As for serve, or a shape of random weights.")
    ] = MODEL,
    draft_model: Annotated[str, option("Engine", "MODEL", "Scores its prompts; a shape for a shape.")] = DRAFT,
    quality: Annotated[
        bool, typer.Option("--quality", help="Instead: are answers right?", rich_help_panel="Load")
    ] = False,
    streams: Annotated[
        int | None, option("Load", "N", "Instead: what N running streams suffer from one prompt, like 4.", min=1)
    ] = None,
    lengths: Annotated[
        str | None, option("Load", "N,N,...", "Prompt tokens.", default=f"{LENGTHS}; with --quality {JUDGED}")
    ] = None,
    keep: Annotated[
        str | None,
        option("Load", "SHARE", "Of the prompt that is read; with --quality a list.", default=f"{KEEP}; {KEEPS}"),
    ] = None,
    turns: Annotated[
        int | None, option("Load", "N", "Turns of full and sparse, after a warm-up.", min=1, default=TURNS)
    ] = None,
    prompt_tokens: Annotated[
        int | None, option("Load", "N", "The prompt beside --streams.", min=512, default=BESIDE)
    ] = None,
    prompts: Annotated[
        int | None, option("Load", "N", "With --quality: prompts a figure.", min=1, default=PROMPTS)
    ] = None,
    seed: Annotated[int | None, option("Load", "N", "Of the prompts of --quality.", default=SEED)] = None,
    prefill_chunk: Annotated[
        int | None, option("Engine", "N", "Prompt tokens that the model reads in one step. Default: measured.", min=1)
    ] = None,
    draft_chunk: Annotated[
        int | None, option("Engine", "N", "Prompt tokens that the draft reads in one step. Default: measured.", min=1)
    ] = None,
    draft_window: Annotated[
        int | None,
        option("Engine", "N", "Tokens that the draft looks back while it reads; 0: all. Default: its own.", min=0),
    ] = None,
    layout: Layout = "auto",
    compile: Traces = True,
    output: JsonFile = None,
) -> None:
    """Sparse prefill against full prefill: the time to the first token, in turns, in one process.

    With [cyan]--streams[/cyan] 4: how much of their pace running streams keep while one long prompt is scored and read.

    With [cyan]--quality[/cyan]: how many answers are right, beside the same share kept at random and by recency.

    Shapes of random weights for a GPU: qwen3.5-4b with --draft-model qwen3.5-draft.
    """
    from paceline import platform

    platform.prepare()
    from rich.console import Console

    from benchmarks.specprefill import SparseBench
    from paceline.bench.wire import BenchError

    if quality and streams is not None:
        raise BenchError("--quality and --streams are two benches: give one of them.")
    given = {"lengths": lengths, "turns": turns, "prompt-tokens": prompt_tokens, "prompts": prompts, "seed": seed}
    meant: tuple[str, ...] = ("lengths", "prompts", "seed") if quality else ("lengths", "turns")
    meant = meant if streams is None else ("prompt-tokens",)
    for name, value in given.items():
        if value is not None and name not in meant:
            raise BenchError(f"--{name} means nothing to this bench: leave it out.")
    keeps = shares(keep or (KEEPS if quality else KEEP))
    if len(keeps) > 1 and not quality:
        raise BenchError(f"--keep is {keep!r}: one share, unless --quality compares several.")
    if keeps[0] == 1.0 and not quality:
        raise BenchError("--keep 1.0 is full prefill: there is nothing to measure.")
    tokens = numbers(lengths or (JUDGED if quality else LENGTHS))
    if not tokens or min(tokens) < 512:
        raise BenchError(f"--lengths is {lengths!r}: give prompt tokens of 512 or more, like {LENGTHS}.")
    console = Console(stderr=output == Path("-"))
    chunks = {"prefill_chunk": prefill_chunk, "draft_chunk": draft_chunk, "draft_window": draft_window}
    with (
        console.status(f"loading {model} and {draft_model}") as status,
        SparseBench(model, draft_model, layout, compile=compile, **chunks) as running,
    ):
        if quality:
            figures = _quality(console, running, tokens, keeps, prompts or PROMPTS, seed or SEED, status.update)
        elif streams is not None:
            figures = _streams(console, running, streams, prompt_tokens or BESIDE, keeps[0], status.update)
        else:
            figures = _speed(console, running, tokens, keeps[0], turns or TURNS, status.update)
    write_json(output, figures)


def shares(text: str) -> list[float]:
    """Of a prompt, from text like 0.5,0.3."""
    from paceline.bench.wire import BenchError
    from paceline.sparse.rules import MAX_KEEP_RATIO, MIN_KEEP_RATIO

    try:
        found = [float(share) for share in text.split(",")]
    except ValueError:
        found = []
    if not found or not all(MIN_KEEP_RATIO <= share <= MAX_KEEP_RATIO for share in found):
        raise BenchError(f"{text!r}: give shares from {MIN_KEEP_RATIO} to {MAX_KEEP_RATIO}, like {KEEP}.")
    return found


def _speed(
    console: Console, bench: SparseBench, lengths: Sequence[int], keep: float, turns: int, watch: Watch
) -> dict[str, Any]:
    from benchmarks.specprefill import about, whole_run

    lines = whole_run(bench, lengths, keep, turns, watch)
    console.print(_headline(bench), markup=False, soft_wrap=True)
    console.print(speed_table(f"Time to first token, keep {keep:g}, medians of {turns} turns", lines))
    return {**about(bench), "keep": keep, "lines": [line.figures() for line in lines]}


def _streams(
    console: Console, bench: SparseBench, streams: int, length: int, keep: float, watch: Watch
) -> dict[str, Any]:
    from benchmarks.specprefill import about, beside_streams, warm_up_both

    watch("warming up")
    warm_up_both(bench, keep)
    found = beside_streams(bench, streams, length, keep, watch)
    console.print(_headline(bench), markup=False, soft_wrap=True)
    console.print(streams_table(found))
    return {**about(bench), "keep": keep, **found.figures()}


def _quality(
    console: Console,
    bench: SparseBench,
    lengths: Sequence[int],
    keeps: Sequence[float],
    prompts: int,
    seed: int,
    watch: Watch,
) -> dict[str, Any]:
    from benchmarks.needles import KINDS
    from benchmarks.specprefill import about
    from benchmarks.specprefill_quality import judge

    cells = judge(bench, lengths, keeps, prompts, seed, watch)
    console.print(_headline(bench), markup=False, soft_wrap=True)
    for kind in KINDS:
        console.print(quality_table(f"{WHAT[kind]}: right answers of {prompts}", kind, cells))
    console.print(quality_line(cells), markup=False)
    return {**about(bench), "prompts": prompts, "seed": seed, "cells": [cell.figures() for cell in cells]}


def _headline(bench: SparseBench) -> str:
    from paceline import platform

    window = bench.sparse.draft.window
    return (
        f"{bench.source} with {bench.draft_source} on {platform.device_kind()}: the draft has "
        f"{bench.relative_size:.3f} of its parameters, embeddings not counted; it reads {bench.sparse.chunk} tokens a "
        f"step and looks back {'all of them' if window is None else f'{window} tokens more'}; the model reads "
        f"{bench.scheduler.prefill_budget.max_chunk} a step."
    )


def _table(title: str, *columns: str) -> Table:
    from rich.markup import escape
    from rich.table import Table

    table = Table(title=escape(title), title_justify="left")
    for column in columns:
        table.add_column(column, justify="right")
    return table


def speed_table(title: str, lines: Sequence[Line]) -> Table:
    """Both ways by length, and where a sparse prompt's time goes."""
    from paceline.bench.report import duration

    columns = ("prompt tokens", "kept", "full", "sparse", "full / sparse", "range", "draft", "select", "target")
    table = _table(title, *columns)
    for line in lines:
        said = line.figures()
        full, sparse = (
            f"{duration(said[f'{way}_s'])} ({duration(min(seconds))} to {duration(max(seconds))})"
            for way, seconds in (("full", said["full_turns_s"]), ("sparse", said["sparse_turns_s"]))
        )
        ends = f"{min(line.ratios):.2f} to {max(line.ratios):.2f}"
        split = (duration(said[f"{part}_s"]) for part in ("draft", "select", "target"))
        kept = f"{said['kept_tokens']:,.0f}"
        table.add_row(f"{line.length:,}", kept, full, sparse, f"{said['full_over_sparse']:.2f}", ends, *split)
    return table


def streams_table(found: Beside) -> Table:
    table = _table(f"{found.streams} streams, a prompt of {found.prompt:,} tokens, {found.kept:,} kept", "", "")
    table.show_header = False
    table.columns[0].justify = "left"
    for name, value in found.lines():
        table.add_row(name, value)
    return table


def quality_table(title: str, kind: Kind, cells: Sequence[Cell]) -> Table:
    """Shares of right answers; the whole prompt's stands in all columns."""
    from benchmarks.specprefill_quality import CHOICES

    table = _table(title, "prompt tokens", "keep", *CHOICES)
    found = {(cell.length, cell.keep, cell.choice): cell for cell in cells if cell.kind == kind}
    rows = list(dict.fromkeys((cell.length, cell.keep) for cell in found.values()))
    for place, (length, keep) in enumerate(rows):
        shown = []
        for choice in CHOICES:
            cell = found.get((length, keep, choice)) or found[length, keep, None]
            shown.append(f"{cell.accuracy:.2f}")
        last = place + 1 == len(rows) or rows[place + 1][0] != length
        table.add_row(f"{length:,}", f"{keep:g}", *shown, end_section=last)
    return table


def quality_line(cells: Sequence[Cell], keep: float = ASKED_AT) -> str:
    """What sparse prefill costs where prefilling all of the prompt gives the right answer."""
    from benchmarks.specprefill_quality import CHOICES, still_right

    shown = []
    for choice in CHOICES:
        right, of = still_right(cells, choice, keep)
        shown.append(f"{choice} {right / of:.3f} ({right} of {of})" if of else f"{choice} -")
    return f"Of the prompts that are right when read whole, right at keep {keep:g}: {', '.join(shown)}."
