"""`paceline bench memory`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from paceline.bench.options import JsonFile, Layout, option, write_json


def memory(
    model: Annotated[
        str | None, typer.Argument(metavar="[MODEL]", help="As for serve. Default: paceline-mini.")
    ] = None,
    context: Annotated[int, option("Load", "N", "Tokens of each sequence.", min=8)] = 4096,
    most: Annotated[int, option("Load", "N", "Sequences to try at most.", min=1)] = 256,
    memory_limit_gb: Annotated[
        float | None, option("Engine", "GB", "As for serve.", default="what the device recommends")
    ] = None,
    group_size: Annotated[int, option("Engine", "32|64|128", "As for serve --kv-group-size.")] = 64,
    layout: Layout = "auto",
    output: JsonFile = None,
) -> None:
    """Sequences that fit into memory with keys and values as computed, with 8 bits and with 4: estimated, and tried.

    [bold]Examples[/bold]

    [cyan]paceline bench memory --context 8192 --memory-limit-gb 0.5[/cyan]   paceline-mini in half a gigabyte
    """
    from paceline import platform

    platform.prepare()
    from rich.console import Console

    from paceline.bench.memory import measure, memory_table
    from paceline.bench.offline import Bench
    from paceline.engine.memory import budget_for
    from paceline.models.files import DEFAULT_FOLDER, DEFAULT_MODEL
    from paceline.settings import Settings

    shown = model or DEFAULT_MODEL
    settings = Settings(memory_limit_gb=memory_limit_gb)
    console = Console(stderr=output == Path("-"))
    with console.status(f"loading {shown}") as status, Bench(model or str(DEFAULT_FOLDER), layout) as bench:
        budget = bench.on_engine_thread(lambda: budget_for(settings, bench.model.nbytes))
        lines = measure(bench, budget, context, most, group_size, status.update)
        dtype = str(bench.on_engine_thread(lambda: bench.model.language.dtype)).rpartition(".")[2]
    where = f"{shown} on {platform.device_kind()}, {dtype}"
    title = f"{where}: sequences of {context} tokens in {budget.usable / 1e9:.2f} GB"
    console.print(memory_table(title, lines))
    write_json(output, {"model": shown, "context": context, "lines": [line.figures() for line in lines]})
