"""What the options of benches share."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer


def option(panel: str, metavar: str, text: str, *, default: int | str | None = None, **more: Any) -> Any:
    """An option in its panel; `default` is one that the command works out, shown but not set."""
    shown = "" if default is None else f" [dim]\\[default: {default}][/dim]"
    return typer.Option(metavar=metavar, help=text + shown, rich_help_panel=panel, **more)


# What the benches of the engine share.
Counts = Annotated[str, option("Load", "N,N,...", "Numbers of rows to measure.")]
PromptTokens = Annotated[int, option("Load", "N", "Tokens of each prompt.", min=1)]
OutputTokens = Annotated[int, option("Load", "N", "Tokens generated in each turn.", min=8)]
Pairs = Annotated[int, option("Load", "N", "Turns of engine and bare loop, after one to warm up.", min=1)]
Together = Annotated[
    int, option("Load", "N", "Also: N requests at once against mlx-lm's own, one after another.", min=0)
]
TogetherTokens = Annotated[int, option("Load", "N", "Tokens each of those generates.", min=8)]
Layout = Annotated[str, option("Engine", "auto|rows|similar|padded", "Layout of keys and values.")]
Traces = Annotated[bool, typer.Option(help="Trace the steps, where that helps.")]


def _writable(output: Path | None) -> Path | None:
    """Asked before anything is measured."""
    if output is None or output == Path("-"):
        return output
    from paceline.bench.wire import BenchError

    if output.is_dir() or not os.access(output if output.exists() else output.parent, os.W_OK):
        raise BenchError(f"--json: {output} cannot be written; give a file in a folder that exists.")
    return output


JsonFile = Annotated[
    Path | None,
    typer.Option(
        "--json", metavar="FILE", help="Write the figures as JSON; - for standard output.", callback=_writable
    ),
]


def numbers(text: str) -> list[int]:
    from paceline.bench.wire import BenchError

    try:
        return [int(number) for number in text.split(",") if number.strip()]
    except ValueError as error:
        raise BenchError(f"{text!r} is no list of numbers like 1,4,8.") from error


def write_json(output: Path | None, figures: dict[str, Any]) -> None:
    import json

    if output is not None:
        text = json.dumps(figures, indent=1, allow_nan=False)
        if output == Path("-"):
            print(text)
        else:
            output.write_text(text + "\n")
