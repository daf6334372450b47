"""`paceline bench fabric`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from paceline.bench.options import JsonFile, numbers, option, write_json


def fabric(
    model: Annotated[
        str | None, typer.Argument(metavar="[MODEL]", help="As for serve. Default: only collectives are timed.")
    ] = None,
    ranks: Annotated[str, option("Load", "N,N,...", "Numbers of ranks to start here; not under mlx.launch.")] = "1,2",
    rows: Annotated[str, option("Load", "N,N,...", "Sequences of a decode step.")] = "1,8",
    context: Annotated[int, option("Load", "N", "Tokens of each sequence.", min=1)] = 256,
    steps: Annotated[int, option("Load", "N", "Steps of which the median is taken.", min=1)] = 20,
    dtype: Annotated[str, option("Engine", "TYPE", "As for serve.")] = "auto",
    output: JsonFile = None,
) -> None:
    """The time of a collective and of a step by the number of ranks: does it pay to split this model here?

    [bold]Examples[/bold]

    [cyan]paceline bench fabric ~/models/qwen --ranks 1,2[/cyan]   ranks on this machine

    [cyan]mlx.launch --hostfile hosts.json -- paceline bench fabric ~/models/qwen[/cyan]   the ranks of a hostfile
    """
    from dataclasses import asdict

    from rich.console import Console

    from paceline.bench.fabric import Plan, fabric_tables, local, measure

    plan = Plan(model, dtype, tuple(numbers(rows)), context, steps)
    if "MLX_RANK" in os.environ:
        from paceline import platform

        platform.prepare()
        rank, figures = measure(plan, alone=False)
        if rank:
            return
        found = [figures]
    else:
        found = [local(count, plan) for count in numbers(ranks)]
    console = Console(stderr=output == Path("-"))
    for table in fabric_tables(found, model or ""):
        console.print(table)
    write_json(output, {"model": model, "context": context, "figures": [asdict(figures) for figures in found]})
