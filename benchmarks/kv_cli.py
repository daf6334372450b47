"""`python -m benchmarks kv`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

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
    bits: Annotated[str, option("Engine", "N,N,...", "Of 16 (not quantized), 8, 4; the first is 1.00.")] = "16,8,4",
    group_size: Annotated[int, option("Engine", "32|64|128", "As for serve --kv-group-size.")] = 64,
    layers: Annotated[int | None, option("Engine", "N", "Layers of a shape, instead of its own number.", min=1)] = None,
    prefill_chunk: Annotated[
        int | None, option("Engine", "N", "Prompt tokens of a step.", default="timed at the start", min=1)
    ] = None,
    checks: Annotated[
        bool, typer.Option(help="Start-up checks and warm-up: minutes where kernels are not compiled yet.")
    ] = True,
    output: JsonFile = None,
) -> None:
    """Keys and values as computed, with 8 bits and with 4: perplexity, facts found in long texts, speed.

    Shapes: llama-120m, hybrid-120m (CPU), qwen3-4b, qwen3.5-4b (a GPU). Every stage is printed when it begins or ends,
    and the figures are written after every turn: a run that is cut has told something.
    """
    import time

    from paceline import platform

    platform.prepare()
    from rich.console import Console

    from benchmarks.kv import BITS, KVBench, kv_table
    from benchmarks.models import Bench
    from benchmarks.shapes import SHAPES
    from paceline.bench.wire import BenchError
    from paceline.conversation.tokenizer import Tokenizer
    from paceline.models.files import DEFAULT_FOLDER, DEFAULT_MODEL, read_config, resolve

    source, shown = model or str(DEFAULT_FOLDER), model or DEFAULT_MODEL
    tokenizer = None
    if source not in SHAPES:
        folder = resolve(source)
        tokenizer = Tokenizer.load(folder, read_config(folder))
    console = Console(stderr=output == Path("-"))
    begun = time.perf_counter()

    def watch(stage: str) -> None:
        console.print(f"{time.perf_counter() - begun:7.1f} s  {stage}", highlight=False, markup=False)

    watch(f"loading {shown}")
    chosen = numbers(bits)
    if not chosen or not set(chosen) <= set(BITS):
        raise BenchError(f"--bits {bits}: take some of {', '.join(map(str, BITS))}.")
    with Bench(source, prefill_chunk=prefill_chunk, checks=checks, watch=watch, layers=layers) as running:
        bench = KVBench(running, tokenizer, group_size, chosen)
        dtype = str(running.on_engine_thread(lambda: running.model.language.dtype)).rpartition(".")[2]
        bench.measure_size()
        watch("; ".join(f"{case.form}: {case.token_bytes} bytes a token" for case in bench.cases))

        def figures() -> dict[str, Any]:
            cases = [case.figures() for case in bench.cases]
            return {"model": shown, "dtype": dtype, "rows": rows, "layers": layers, "cases": cases}

        def keep() -> None:
            write_json(output if output != Path("-") else None, figures())

        if tokenizer is not None:
            bench.measure_text(texts, text_tokens, watch)
            bench.measure_needles(numbers(lengths) if needles else [], needles, watch)
        bench.measure_speed(rows, numbers(prompt_tokens), output_tokens, turns, watch, keep)
    measured = f"; {rows} rows, medians of {turns} turns" if turns else ""
    of = "" if layers is None else f" of {layers} layers"
    console.print(kv_table(f"{shown}{of} on {platform.device_kind()}, {dtype}{measured}", bench.cases))
    write_json(output, figures())
