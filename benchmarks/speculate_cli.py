"""`python -m benchmarks speculate`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from benchmarks import tiny
from paceline.bench.options import JsonFile, Layout, Traces, numbers, option, write_json

if TYPE_CHECKING:
    from benchmarks.models import Bench
    from benchmarks.speculate import Mode


def speculate(
    model: Annotated[str, typer.Argument(metavar="[MODEL]", help="As for offline; one with an MTP head.")] = tiny.NAME,
    rows: Annotated[
        str | None,
        option(
            "Load", "N,N,...", "Numbers of rows to measure. Default: 1,4,8,16 with random, 8 with beside, else 1,8."
        ),
    ] = None,
    trace: Annotated[
        Literal["random", "edit", "rewrite", "prose", "json", "beside"],
        option(
            "Load",
            "random|edit|rewrite|prose|json|beside",
            "Random tokens for the MTP head; for prompt lookup a file to rewrite, in the model's own words or the "
            "file's, or prose; for grammars answers with a schema, or free streams beside one such answer.",
        ),
    ] = "random",
    draft_model: Annotated[str | None, option("Load", "MODEL", "Drafts, with trace prose, edit or rewrite.")] = None,
    depths: Annotated[str | None, option("Load", "N,N,...", "Fixed depths, beside off and auto.")] = None,
    prompt_tokens: Annotated[int, option("Load", "N", "Tokens of each prompt of trace random.", min=2)] = 32,
    output_tokens: Annotated[int, option("Load", "N", "Tokens generated in each turn; not with json.", min=16)] = 64,
    pairs: Annotated[int, option("Load", "N", "Turns over all modes, after one to warm up.", min=1)] = 7,
    layout: Layout = "auto",
    compile: Traces = True,
    output: JsonFile = None,
) -> None:
    """Drafting against plain decoding: off, fixed depths and auto, in turns, in one process.

    Prompts are random tokens, and the MTP head drafts; with --trace they are text, and prompt lookup drafts, or what a
    grammar forces. Shapes of random weights whose head agrees with the model about 0.7 of the time: hybrid-120m (CPU,
    takes a while), qwen3.5-4b (a GPU). For edit they get weights that copy, for json and beside weights that write
    JSON. With rewrite the model computes, and says what the changed file says.
    """
    from paceline import platform

    platform.prepare()
    from rich.console import Console

    from benchmarks import speculate as bench
    from benchmarks.tables import cost_table, speculation_table
    from paceline.bench.wire import BenchError

    counts = numbers(rows or {"random": "1,4,8,16", "beside": "8"}.get(trace, "1,8"))
    heads = trace == "random"
    tried = numbers(depths or "1,2,3,4") if depths or heads else []
    if depths and trace in ("json", "beside"):
        raise BenchError(f"--depths has no meaning with --trace {trace}: grammars draft what they force.")
    if trace != "random" and max(counts, default=0) >= bench.MAX_SEQS:
        raise BenchError(f"--rows is {rows}: with --trace {trace} fewer than {bench.MAX_SEQS}.")
    console = Console(stderr=output == Path("-"))
    with console.status(f"loading {model}") as status, _bench(model, trace, draft_model, layout, compile) as running:
        if heads and draft_model is None and isinstance(running.model.head, str):
            raise BenchError(f"{model} cannot draft: {running.model.head}.")
        if running.model.no_rollback is not None:
            raise BenchError(f"{model} cannot draft: {running.model.no_rollback}.")
        modes = _measured(running, trace, counts, tried, prompt_tokens, output_tokens, pairs, status.update)
        costs = bench.costs(running, sorted({*counts, *(count + 1 for count in counts if trace == "beside")}))
        launches = bench.launches(running, [0, *tried]) if heads and draft_model is None else {}
    title = f"{model} on {platform.device_kind()}, {trace}, medians of {pairs} turns"
    console.print(speculation_table(title, modes))
    console.print(cost_table(costs, launches))
    write_json(
        output,
        {
            "model": model,
            "trace": trace,
            "modes": [mode.figures() for mode in modes],
            "step_ms_by_rows_and_depth": costs,
            "operations_by_depth": launches,
        },
    )


def _bench(model: str, trace: str, draft_model: str | None, layout: str, compile: bool) -> Bench:
    from benchmarks import speculate as bench
    from benchmarks.models import Bench
    from benchmarks.rewrite import RewriteBench
    from benchmarks.structured import StructuredBench
    from paceline.bench.wire import BenchError

    if trace == "rewrite":
        return RewriteBench(model, "rewrite", layout, compile, draft_model)
    if trace in ("edit", "prose"):
        return bench.TextBench(model, "edit" if trace == "edit" else "prose", layout, compile, draft_model)
    if draft_model is not None:
        raise BenchError(f"--draft-model drafts text: it goes with --trace prose, edit or rewrite, not {trace}.")
    if trace == "random":
        return Bench(model, layout, compile=compile, methods=("mtp",))
    return StructuredBench(model, layout, compile)


def _measured(
    running: Bench,
    trace: str,
    counts: Sequence[int],
    tried: Sequence[int],
    prompt_tokens: int,
    output_tokens: int,
    pairs: int,
    watch: Callable[[str], None],
) -> list[Mode]:
    from benchmarks import speculate as bench
    from benchmarks.structured import StructuredBench, answers, beside

    if not isinstance(running, StructuredBench):
        return bench.compare(running, counts, tried, prompt_tokens, output_tokens, pairs, watch)
    if trace == "json":
        return answers(running, counts, pairs, watch)
    return beside(running, counts, output_tokens, pairs, watch)
