"""`python -m benchmarks traffic`, `prefill` and `steps` on the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from paceline.bench.options import Counts, JsonFile, OutputTokens, PromptTokens, numbers, option, write_json


def traffic(
    model: Annotated[
        str, typer.Argument(metavar="[MODEL]", help="As for serve, or a shape of random weights.")
    ] = "llama-120m",
    streams: Counts = "8",
    prompt_tokens: Annotated[str, option("Load", "N|MIN:MAX", "Each prompt's length.")] = "64:1024",
    output_tokens: Annotated[str, option("Load", "N|MIN:MAX", "Each answer's length.")] = "32:256",
    seconds: Annotated[float, option("Load", "SECONDS", "Of each window.", min=0.1)] = 60.0,
    windows: Annotated[int, option("Load", "N", "Windows, one after another.", min=1)] = 2,
    speculation: Annotated[str, option("Load", "off|auto|1..8,...", "One run for each.")] = "off",
    mlx_lm: Annotated[
        bool, typer.Option("--mlx-lm", help="Also mlx-lm's BatchGenerator, under the same traffic.")
    ] = False,
    prefill_chunk: Annotated[int | None, option("Engine", "N", "Prompt tokens a step may take.")] = None,
    shape_buckets: Annotated[Literal["auto", "on", "off"], option("Engine", "MODE", "As for serve.")] = "auto",
    output: JsonFile = None,
) -> None:
    """Streams of mixed lengths, as in `paceline bench traffic`, on shapes of random weights too.

    Shapes: llama-120m, hybrid-120m (CPU), qwen3-4b, qwen3.5-4b (a GPU).
    """
    from paceline import platform

    platform.prepare()
    from rich.console import Console

    from benchmarks.traffic import Bench, ratio_table
    from paceline.bench.prompts import Lengths
    from paceline.bench.traffic import Traffic, figures, parse_speculation, traffic_table

    modes = [parse_speculation(mode.strip()) for mode in speculation.split(",")]
    drafts = any(mode != "off" for mode in modes)
    console = Console(stderr=output == Path("-"))
    results = []
    with Bench(model, drafts=drafts, prefill_chunk=prefill_chunk, shape_buckets=shape_buckets) as bench:
        for count in numbers(streams):
            lengths = Lengths.parse(prompt_tokens), Lengths.parse(output_tokens)
            for mode in modes:
                load = Traffic(count, *lengths, seconds, windows, mode)
                found = bench.run(load)
                console.print(traffic_table(f"{model}: {count} streams, speculation {mode}", found))
                results.append(figures(load, found))
            if mlx_lm:
                load = Traffic(count, *lengths, seconds, windows, "off")
                theirs = bench.mlx_lm(load)
                console.print(ratio_table(f"{model}: {count} streams, the last run and mlx-lm's", found, theirs))
                results.append({"mlx_lm": figures(load, theirs)})
    write_json(output, {"model": model, "runs": results})


def prefill(
    model: Annotated[
        str, typer.Argument(metavar="[MODEL]", help="As for serve, or a shape of random weights.")
    ] = "llama-120m",
    prompts: Annotated[
        str, option("Load", "N x TOKENS,...", "How many prompts at once, and how long.")
    ] = "1x256,1x2048,1x8192,8x64,32x512",
    turns: Annotated[int, option("Load", "N", "Of each; the best counts.", min=1)] = 3,
    prefill_chunk: Annotated[int | None, option("Engine", "N", "Prompt tokens a step may take.")] = None,
    shape_buckets: Annotated[Literal["auto", "on", "off"], option("Engine", "MODE", "As for serve.")] = "auto",
    output: JsonFile = None,
) -> None:
    """Prompt tokens per second, of one prompt or of many at once."""
    from paceline import platform

    platform.prepare()
    from rich.console import Console

    from benchmarks.prefill import prefill_table, tokens_per_second
    from benchmarks.traffic import Bench

    loads = [(int(count), int(tokens)) for count, tokens in (load.split("x") for load in prompts.split(","))]
    with Bench(model, prefill_chunk=prefill_chunk, shape_buckets=shape_buckets) as bench:
        rates = [(count, tokens, tokens_per_second(bench, count, tokens, turns)) for count, tokens in loads]
    Console(stderr=output == Path("-")).print(prefill_table(model, rates))
    write_json(output, {"model": model, "rates": rates})


def steps(
    model: Annotated[
        str, typer.Argument(metavar="[MODEL]", help="As for serve, or a shape of random weights.")
    ] = "llama-120m",
    rows: Counts = "1,8,32,64",
    prompt_tokens: PromptTokens = 256,
    output_tokens: OutputTokens = 129,
    turns: Annotated[int, option("Load", "N", "Of each.", min=1)] = 4,
    shape_buckets: Annotated[Literal["auto", "on", "off"], option("Engine", "MODE", "As for serve.")] = "auto",
    output: JsonFile = None,
) -> None:
    """How long a decode step takes, by the number of rows."""
    from paceline import platform

    platform.prepare()
    from rich.console import Console

    from benchmarks.steps import milliseconds, steps_table
    from benchmarks.traffic import Bench

    with Bench(model, shape_buckets=shape_buckets) as bench:
        times = {count: milliseconds(bench, count, prompt_tokens, output_tokens, turns) for count in numbers(rows)}
    Console(stderr=output == Path("-")).print(steps_table(model, times))
    write_json(output, {"model": model, "milliseconds": times})
