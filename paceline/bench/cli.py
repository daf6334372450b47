"""`paceline bench`: each command imports what it needs when it runs."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from paceline.bench import fabric_cli, memory_cli
from paceline.bench.options import (
    Counts,
    JsonFile,
    Layout,
    OutputTokens,
    Pairs,
    PromptTokens,
    Together,
    TogetherTokens,
    Traces,
    numbers,
    option,
    write_json,
)
from paceline.command_line import commands

if TYPE_CHECKING:
    from rich.console import Console

    from paceline.bench.offline import Bench
    from paceline.bench.report import Ratio, Report


app = commands()

Endpoint = Literal["chat", "completions"]
REQUESTS = 32  # where neither --requests nor --duration is given
CONCURRENCY = 8  # where neither --concurrency nor --rate is given


@app.callback()
def bench() -> None:
    """Measure the engine by itself, or any OpenAI-compatible server under load."""


@app.command()
def serve(
    url: Annotated[str, option("Server", "URL", "Base address of the server.")] = "http://127.0.0.1:8000",
    model: Annotated[str | None, option("Server", "NAME", "Its model. Default: the first that it lists.")] = None,
    endpoint: Annotated[Endpoint, option("Server", "chat|completions", "What to call.")] = "chat",
    api_key: Annotated[str | None, option("Server", "KEY", "Sent as a bearer token.")] = None,
    label: Annotated[str | None, option("Server", "TEXT", "Its name in tables. Default: its address.")] = None,
    concurrency: Annotated[
        int | None, option("Load", "N", "Requests always in flight.", default=CONCURRENCY, min=1)
    ] = None,
    rate: Annotated[
        float | None, option("Load", "R", "Instead of --concurrency: arrivals per second (Poisson).")
    ] = None,
    requests: Annotated[
        int | None, option("Load", "N", "Stop after this many requests.", default=REQUESTS, min=1)
    ] = None,
    duration: Annotated[
        float | None, option("Load", "SECONDS", "Start no request after this; without --requests it is the only limit.")
    ] = None,
    ramp: Annotated[
        float, option("Load", "SECONDS", "Spread the first streams' starts over this: backlogs are short.")
    ] = 0.1,
    warmup: Annotated[int, option("Load", "N", "Requests before the clock starts.", min=0)] = 2,
    timeout: Annotated[float, option("Load", "SECONDS", "Give a request up after this.")] = 600.0,
    long_prompt: Annotated[
        str | None,
        option("Load", "TOKENS@SECONDS", "One extra prompt, and what the other streams suffer from it."),
    ] = None,
    prompt_tokens: Annotated[str, option("Requests", "N|MIN:MAX", "Each prompt's length.")] = "256",
    output_tokens: Annotated[str, option("Requests", "N|MIN:MAX", "Sent as max_tokens.")] = "64",
    ignore_eos: Annotated[
        bool, typer.Option(help="Ask for output past end tokens.", rich_help_panel="Requests")
    ] = True,
    shared_prefix: Annotated[
        float,
        option("Requests", "SHARE", "Of each prompt, common to all (chat: the system message).", min=0, max=1),
    ] = 0.0,
    image_share: Annotated[float, option("Requests", "SHARE", "Of requests, with a picture.", min=0, max=1)] = 0.0,
    image_size: Annotated[int, option("Requests", "PIXELS", "A picture's side.", min=8, max=4096)] = 128,
    temperature: Annotated[float, option("Requests", "T", "0 is greedy.", min=0)] = 0.0,
    extra_body: Annotated[
        str | None, option("Requests", "JSON", "More fields for every body, like '{\"top_p\": 0.9}'.")
    ] = None,
    seed: Annotated[int, option("Requests", "N", "Of prompts, lengths and arrivals.")] = 0,
    compare: Annotated[
        tuple[str, str] | None,
        option("Comparison", "URL LABEL", "A second server: run against both in turn and print the ratios."),
    ] = None,
    compare_model: Annotated[
        str | None, option("Comparison", "NAME", "Its model. Default: the first that it lists.")
    ] = None,
    pairs: Annotated[int, option("Comparison", "P", "Rounds, each on new prompts.", min=1)] = 1,
    json_file: JsonFile = None,
) -> None:
    """Load any OpenAI-compatible server with streams and measure it.

    [bold]Examples[/bold]

    [cyan]paceline bench serve[/cyan]   8 streams at http://127.0.0.1:8000

    [cyan]paceline bench serve --rate 2 --duration 60 --prompt-tokens 128:2048[/cyan]   two arrivals a second

    [cyan]paceline bench serve --output-tokens 256 --long-prompt 4096@5[/cyan]   a long prompt among streams

    [cyan]paceline bench serve --label paceline --compare http://127.0.0.1:8080 mlx_lm --pairs 7[/cyan]
    """
    import asyncio

    from rich.console import Console

    from paceline.bench.load import LongPrompt, Schedule
    from paceline.bench.prompts import Lengths, Workload
    from paceline.bench.report import as_json, ratios
    from paceline.bench.serve import Target, bench
    from paceline.bench.wire import Address, BenchError

    if image_share and endpoint != "chat":
        raise BenchError("--image-share needs --endpoint chat: completions carry no pictures.")
    if compare_model is not None and compare is None:
        raise BenchError("--compare-model names the second server's model: give --compare URL LABEL too.")
    address = Address.parse(url, api_key)
    targets = [Target(label or address.authority, address, model)]
    if compare is not None:
        targets.append(Target(compare[1], Address.parse(compare[0], api_key), compare_model))
        if targets[0].label == targets[1].label:
            raise BenchError(f"Both servers are called {compare[1]!r}: give them two labels.")
    schedule = Schedule(
        concurrency=concurrency if rate is not None else concurrency or CONCURRENCY,
        rate=rate,
        requests=REQUESTS if requests is None and duration is None else requests,
        duration=duration,
        timeout=timeout,
        ramp=ramp,
        long_prompt=None if long_prompt is None else LongPrompt.parse(long_prompt),
    )
    workload = Workload(
        model="",
        endpoint=endpoint,
        prompt_tokens=Lengths.parse(prompt_tokens),
        output_tokens=Lengths.parse(output_tokens),
        shared_prefix=shared_prefix,
        image_share=image_share,
        image_size=image_size,
        temperature=temperature,
        ignore_eos=ignore_eos,
        seed=seed,
        extra=_fields(extra_body),
    )

    console = Console(stderr=json_file == Path("-"))
    with Progress(schedule.requests) as progress:
        reports = asyncio.run(bench(targets, workload, schedule, pairs=pairs, warmup=warmup, watch=progress.watch))
    compared = ratios(*reports) if compare is not None else None
    runs = [run for turn in zip(*reports, strict=True) for run in turn]
    _show(console, runs, compared)
    if json_file is not None:
        from dataclasses import asdict

        settings = {
            "schedule": asdict(schedule),
            "workload": {
                name: value for name, value in asdict(workload).items() if name not in ("model", "calibration")
            },
            "warmup": warmup,
            "pairs": pairs,
        }
        write_json(json_file, as_json(settings, runs, compared))
    if not all(run.ok for run in runs):
        sys.exit(1)


def _fields(text: str | None) -> dict[str, Any]:
    import json

    from paceline.bench.wire import BenchError

    try:
        fields = json.loads(text or "{}")
    except ValueError as error:
        raise BenchError(f"--extra-body is no JSON: {error}") from error
    if not isinstance(fields, dict):
        raise BenchError("--extra-body has to be a JSON object, like '{\"top_p\": 0.9}'.")
    return fields


def _show(console: Console, runs: list[Report], compared: list[Ratio] | None) -> None:
    from paceline.bench.report import compare_table, latency_table, long_prompt_line, summary_table, unequal_work

    for run in runs if compared is None else runs[-2:]:
        console.print(summary_table(run))
        console.print(latency_table(run))
        if run.long_prompt is not None:
            console.print(long_prompt_line(run.long_prompt))
        for note in run.notes:
            console.print(f"Note: {note}", markup=False)
    if compared is not None:
        labels = (runs[0].label, runs[1].label)
        console.print(compare_table(compared, labels, pairs=len(runs) // 2))
        for name, mine in zip(labels, (runs[::2], runs[1::2]), strict=True):
            failed = sum(sum(run.errors.values()) for run in mine)
            console.print(f"{name}: {sum(run.ok for run in mine)} ok, {failed} failed", markup=False)
        if (warning := unequal_work(runs[::2], runs[1::2])) is not None:
            console.print(f"Note: {warning}", markup=False)


class Progress:
    """A bar per run on a terminal's standard error, redrawn twice a second: the server needs the cores."""

    def __init__(self, requests: int | None) -> None:
        from rich import progress
        from rich.console import Console

        console = Console(stderr=True)
        columns = (
            progress.TextColumn("{task.description}"),
            progress.BarColumn(),
            progress.MofNCompleteColumn(),
            progress.TimeElapsedColumn(),
        )
        self.bars = progress.Progress(
            *columns, console=console, refresh_per_second=2, transient=True, disable=not console.is_terminal
        )
        self.requests = requests

    def __enter__(self) -> Progress:
        self.bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.bars.stop()

    def watch(self, title: str) -> Callable[[], None]:
        for done in self.bars.task_ids:
            self.bars.remove_task(done)
        task = self.bars.add_task(title, total=self.requests)
        return lambda: self.bars.advance(task)


@app.command()
def offline(
    model: Annotated[
        str | None, typer.Argument(metavar="[MODEL]", help="As for serve. Default: paceline-mini.")
    ] = None,
    rows: Counts = "1,4,8,16",
    prompt_tokens: PromptTokens = 32,
    output_tokens: OutputTokens = 32,
    pairs: Pairs = 7,
    together: Together = 0,
    together_tokens: TogetherTokens = 1024,
    layout: Layout = "auto",
    compile: Traces = True,
    output: JsonFile = None,
) -> None:
    """The engine against the bare loop: same module, same batch, argmax, in turns, in one process."""
    from paceline import platform

    platform.prepare()
    from paceline.bench.offline import Bench
    from paceline.models.files import DEFAULT_FOLDER, DEFAULT_MODEL

    bench = Bench(model or str(DEFAULT_FOLDER), layout, compile=compile)
    run_offline(
        bench, model or DEFAULT_MODEL, rows, prompt_tokens, output_tokens, pairs, together, together_tokens, output
    )


@app.command()
def traffic(
    model: Annotated[
        str | None, typer.Argument(metavar="[MODEL]", help="As for serve. Default: paceline-mini.")
    ] = None,
    url: Annotated[str | None, option("Server", "URL", "Instead of the engine: a server at this address.")] = None,
    api_key: Annotated[str | None, option("Server", "KEY", "Sent as a bearer token.")] = None,
    streams: Annotated[int, option("Load", "N", "Requests always in flight.", min=1)] = 8,
    prompt_tokens: Annotated[str, option("Load", "N|MIN:MAX", "Each prompt's length.")] = "64:1024",
    output_tokens: Annotated[str, option("Load", "N|MIN:MAX", "Each answer's length.")] = "32:256",
    seconds: Annotated[float, option("Load", "SECONDS", "Of each window.", min=0.1)] = 60.0,
    windows: Annotated[int, option("Load", "N", "Windows, one after another.", min=1)] = 3,
    seed: Annotated[int, option("Load", "N", "Of prompts and lengths.")] = 0,
    speculation: Annotated[
        str | None, option("Load", "off|auto|1..8", "Draft tokens in every step.", default="off; a server's own")
    ] = None,
    output: JsonFile = None,
) -> None:
    """Streams of mixed lengths, always N in flight: what changing shapes cost, window by window.

    [bold]Examples[/bold]

    [cyan]paceline bench traffic --seconds 20[/cyan]   8 streams through the engine, paceline-mini

    [cyan]paceline bench traffic --url http://127.0.0.1:8000 --streams 32[/cyan]   a server
    """
    from paceline import platform

    if url is None:
        platform.prepare()
    import asyncio

    from rich.console import Console

    from paceline.bench.prompts import Lengths
    from paceline.bench.serve import Target
    from paceline.bench.traffic import Traffic, TrafficBench, figures, parse_speculation, served, traffic_table
    from paceline.bench.wire import Address, BenchError
    from paceline.models.files import DEFAULT_FOLDER, DEFAULT_MODEL

    if url is None and api_key is not None:
        raise BenchError("--api-key is for a server: give --url too.")
    lengths = Lengths.parse(prompt_tokens), Lengths.parse(output_tokens)
    load = Traffic(streams, *lengths, seconds, windows, parse_speculation(speculation), seed)
    console = Console(stderr=output == Path("-"))
    if url is not None:
        address = Address.parse(url, api_key)
        with Progress(None) as progress:
            found = asyncio.run(served(Target(address.authority, address, model), load, 600.0, progress.watch))
        name = address.authority
    else:
        name = model or DEFAULT_MODEL
        engine = TrafficBench(model or str(DEFAULT_FOLDER))
        with console.status(f"{name}: {windows} windows of {seconds:g} s"), engine:
            found = engine.run(load)
    console.print(traffic_table(f"{name}: {streams} streams, prompts {lengths[0]}, answers {lengths[1]}", found))
    write_json(output, {"model": name, **figures(load, found)})


@app.command()
def media(
    model: Annotated[
        str | None, typer.Argument(metavar="[MODEL]", help="One that sees, as for serve. Default: paceline-mini.")
    ] = None,
    rival: Annotated[
        Literal["mlx-vlm"] | None, option("Comparison", "mlx-vlm", "A second server of the same checkpoint.")
    ] = None,
    streams: Annotated[int, option("Load", "N", "Text streams always in flight.", min=1)] = 8,
    prompt_tokens: Annotated[int, option("Load", "N", "Words of each prompt.", min=1)] = 64,
    output_tokens: Annotated[int, option("Load", "N", "Tokens of each text.", min=2)] = 128,
    pictures: Annotated[int, option("Load", "N", "Pictures, one after another.", min=1)] = 8,
    image_size: Annotated[int, option("Load", "PIXELS", "A picture's side.", min=8, max=4096)] = 448,
    seconds: Annotated[float, option("Load", "SECONDS", "Of the streams alone, at least.", min=0.1)] = 10.0,
    seed: Annotated[int, option("Load", "N", "Of prompts and pictures.")] = 0,
    output: JsonFile = None,
) -> None:
    """Text streams while pictures arrive: throughput, longest gap, and a picture's first token.

    [bold]Examples[/bold]

    [cyan]paceline bench media[/cyan]   8 streams and 8 pictures, paceline-mini

    [cyan]paceline bench media ./qwen3-vl --rival mlx-vlm[/cyan]   and mlx-vlm's server on the same folder
    """
    import asyncio

    from rich.console import Console

    from paceline.bench.media import PACELINE, Plan, compare, media_table
    from paceline.models.files import DEFAULT_FOLDER, DEFAULT_MODEL

    plan = Plan(streams, prompt_tokens, output_tokens, pictures=pictures, size=image_size, seconds=seconds, seed=seed)
    console = Console(stderr=output == Path("-"))
    names = [PACELINE, *([] if rival is None else [rival])]
    with console.status("starting") as status:
        lines = asyncio.run(compare(names, model or str(DEFAULT_FOLDER), plan, status.update))
    name = model or DEFAULT_MODEL
    console.print(media_table(f"{name}: {streams} text streams, {pictures} pictures of {image_size} pixels", lines))
    for line in lines:
        for failure in line.failures[:3]:
            console.print(f"{line.server}: {failure}", markup=False)
    write_json(output, {"model": name, "lines": [line.figures() for line in lines]})


@app.command()
def replicas(
    model: Annotated[
        str | None, typer.Argument(metavar="[MODEL]", help="As for serve, for replicas started here.")
    ] = None,
    replica: Annotated[
        list[str] | None, option("Servers", "URL", "A replica that runs already; may be repeated. Default: start some.")
    ] = None,
    router: Annotated[
        list[str] | None, option("Servers", "URL", "A router before all of them; may be repeated.")
    ] = None,
    count: Annotated[int, option("Servers", "N", "Replicas to start on this machine.", min=2)] = 3,
    smg: Annotated[
        str | None, option("Servers", "PROGRAM", "The router to start before those.", default="smg on the path")
    ] = None,
    api_key: Annotated[str | None, option("Servers", "KEY", "Sent as a bearer token.")] = None,
    admin_key: Annotated[str | None, option("Servers", "KEY", "For clearing the replicas' prefix caches.")] = None,
    timeout: Annotated[float, option("Servers", "SECONDS", "Give a request up after this.")] = 600.0,
    requests: Annotated[int, option("Load", "N", "Of all conversations together.", min=1)] = 200,
    streams: Annotated[int, option("Load", "N", "Conversations at a time.", min=1)] = 8,
    turns: Annotated[int, option("Load", "N", "Requests of a conversation.", min=1)] = 10,
    system_tokens: Annotated[int, option("Requests", "N", "Length of the shared system prompt.", min=1)] = 1024,
    message_tokens: Annotated[str, option("Requests", "N|MIN:MAX", "Each new message's length.")] = "30:300",
    output_tokens: Annotated[int, option("Requests", "N", "Sent as max_tokens.", min=1)] = 16,
    seed: Annotated[int, option("Requests", "N", "Of all texts and lengths.")] = 0,
    output: JsonFile = None,
) -> None:
    """Several replicas: how many prompt tokens they compute, by how requests are spread, against one replica's ideal.

    The prefix caches of the replicas are cleared.

    [bold]Examples[/bold]

    [cyan]paceline bench replicas[/cyan]   three replicas of paceline-mini on this machine, with SMG if it is installed

    [cyan]paceline bench replicas --replica http://a:8000 --replica http://b:8000 --router http://r:3000[/cyan]
    """
    import asyncio
    from dataclasses import asdict

    from rich.console import Console

    from paceline.bench.prompts import Lengths
    from paceline.bench.replicas import bench, replicas_table
    from paceline.bench.trace import Plan
    from paceline.bench.wire import Address

    plan = Plan(requests, streams, turns, system_tokens, 0, Lengths.parse(message_tokens), output_tokens, seed=seed)
    running = [Address.parse(url, api_key) for url in replica or ()]
    routers = [Address.parse(url, api_key) for url in router or ()]
    console = Console(stderr=output == Path("-"))
    with Progress(requests) as progress:
        results = asyncio.run(
            bench(model, running, routers, count, smg, plan, timeout=timeout, admin_key=admin_key, watch=progress.watch)
        )
    console.print(replicas_table(f"{requests} requests, {streams} at a time, {turns} in a conversation", results))
    for result in results:
        for kind, failed in result.trace.run.errors.items():
            example = result.trace.run.error_examples[kind]
            console.print(f"{result.way.label}: {failed} failed: {kind}: {example}", markup=False)
    write_json(output, {"plan": asdict(plan), "runs": [result.figures() for result in results]})
    if any(result.trace.run.errors for result in results):
        sys.exit(1)


app.command()(memory_cli.memory)
app.command()(fabric_cli.fabric)


def run_offline(
    bench: Bench,
    name: str,
    rows: str,
    prompt_tokens: int,
    output_tokens: int,
    pairs: int,
    together: int,
    together_tokens: int,
    output: Path | None,
) -> None:
    """Measure and print; `name` is the model's in the table."""
    import dataclasses

    from rich.console import Console
    from rich.table import Table

    from paceline import platform
    from paceline.bench.offline import against_bare_loop, against_one_after_another

    counts = numbers(rows)
    console = Console(stderr=output == Path("-"))
    with console.status(f"loading {name}") as status, bench:
        status.update("measuring")
        lines = against_bare_loop(bench, counts, prompt_tokens, output_tokens, pairs)
        apart = None
        if together:
            apart = against_one_after_another(bench, together, prompt_tokens, together_tokens, pairs)
    table = Table(
        title=f"{name} on {platform.device_kind()}, tokens per second, medians of {pairs} pair{'s' * (pairs != 1)}"
    )
    for column in ("rows", "engine", "bare loop", "engine / bare", "engine / its 1 row"):
        table.add_column(column, justify="right")
    alone = next((line.engine for line in lines if line.rows == 1), None)
    for line in lines:
        gain = f"{line.engine / alone:.2f}" if alone else "-"
        table.add_row(str(line.rows), f"{line.engine:.1f}", f"{line.bare:.1f}", f"{line.ratio:.3f}", gain)
    console.print(table)
    if apart is not None:
        console.print(
            f"{apart.requests} requests of {apart.tokens} tokens: together {apart.together:.1f} s, one after another "
            f"through mlx-lm {apart.apart:.1f} s: {apart.ratio:.2f} times faster"
        )
    figures: dict[str, Any] = {"model": name, "lines": [dataclasses.asdict(line) for line in lines]}
    if apart is not None:
        figures["together"] = dataclasses.asdict(apart)
    write_json(output, figures)
