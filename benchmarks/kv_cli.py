"""`python -m benchmarks kv`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from paceline.bench.options import JsonFile, numbers, option, write_json


def kv(
    model: Annotated[
        str | None,
        typer.Argument(metavar="[MODEL]", help="As for serve, or a shape (speed only). Default: paceline-mini."),
    ] = None,
    texts: Annotated[int, option("Quality", "N", "Texts for perplexity; 0: none.", min=0)] = 4,
    text_tokens: Annotated[int, option("Quality", "N", "Tokens of each.", min=2)] = 1024,
    lengths: Annotated[str, option("Quality", "N,N,...", "Tokens of the texts with a fact to find.")] = "1024,4096",
    needles: Annotated[int, option("Quality", "N", "Texts of each length; 0: none.", min=0)] = 20,
    rows: Annotated[int, option("Speed", "N", "Sequences of a batch.", min=1)] = 8,
    prompt_tokens: Annotated[str, option("Speed", "N,N,...", "Of each.")] = "512",
    output_tokens: Annotated[int, option("Speed", "N", "Of each.", min=4)] = 32,
    turns: Annotated[int, option("Speed", "N", "Turns over the cases, after one to warm up; 0: none.", min=0)] = 5,
    group_size: Annotated[int, option("Engine", "32|64|128", "As for serve --kv-group-size.")] = 64,
    output: JsonFile = None,
) -> None:
    """Keys and values as computed, with 8 bits and with 4: perplexity, facts found in long texts, speed.

    Shapes: llama-120m, hybrid-120m (CPU), qwen3-4b, qwen3.5-4b (a GPU).
    """
    from paceline import platform

    platform.prepare()
    from rich.console import Console

    from benchmarks.kv import KVBench, kv_table
    from benchmarks.models import Bench
    from benchmarks.shapes import SHAPES
    from paceline.conversation.tokenizer import Tokenizer
    from paceline.models.files import DEFAULT_FOLDER, DEFAULT_MODEL, read_config, resolve

    source, shown = model or str(DEFAULT_FOLDER), model or DEFAULT_MODEL
    tokenizer = None
    if source not in SHAPES:
        folder = resolve(source)
        tokenizer = Tokenizer.load(folder, read_config(folder))
    console = Console(stderr=output == Path("-"))
    with console.status(f"loading {shown}") as status, Bench(source) as running:
        bench = KVBench(running, tokenizer, group_size)
        bench.measure_size()
        if tokenizer is not None:
            bench.measure_text(texts, text_tokens, status.update)
            bench.measure_needles(numbers(lengths) if needles else [], needles, status.update)
        bench.measure_speed(rows, numbers(prompt_tokens), output_tokens, turns, status.update)
        dtype = str(running.on_engine_thread(lambda: running.model.language.dtype)).rpartition(".")[2]
    measured = f"; {rows} rows, medians of {turns} turns" if turns else ""
    title = f"{shown} on {platform.device_kind()}, {dtype}{measured}"
    console.print(kv_table(title, bench.cases))
    cases = [case.figures() for case in bench.cases]
    write_json(output, {"model": shown, "dtype": dtype, "rows": rows, "cases": cases})
