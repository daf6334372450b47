"""`python -m benchmarks`: each command imports what it needs when it runs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from benchmarks import kv_cli, specprefill_cli, speculate_cli, tiny, traffic_cli
from paceline.bench.cli import Progress, run_offline
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
from paceline.errors import PacelineError

app = commands()


@app.callback()
def benchmarks() -> None:
    """Measure one part of the engine or the server at a time. Figures: docs/benchmarks.md."""


def main() -> None:
    """An error that we raised on purpose is one line and exit code 2."""
    try:
        app(prog_name="python -m benchmarks")
    except PacelineError as error:
        print(f"benchmarks: error: {error}", file=sys.stderr)
        sys.exit(2)


@app.command()
def offline(
    model: Annotated[
        str, typer.Argument(metavar="[MODEL]", help="As for serve, or a shape of random weights.")
    ] = "hybrid-120m",
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
    """The engine against the bare loop, as in `paceline bench offline`, on shapes of random weights too.

    Shapes: paceline-tiny, llama-120m, hybrid-120m (CPU), qwen3.5-4b (a GPU).
    """
    from paceline import platform

    platform.prepare()
    from benchmarks.models import Bench

    bench = Bench(model, layout, compile=compile)
    run_offline(bench, model, rows, prompt_tokens, output_tokens, pairs, together, together_tokens, output)


@app.command()
def streams(
    streams: Annotated[int, option("Load", "N", "Streams at a time.", min=1)] = 32,
    output_tokens: Annotated[int, option("Load", "N", "Tokens of each.", min=2)] = 400,
    turns: Annotated[int, option("Load", "N", "Turns over the APIs.", min=1)] = 5,
    output: JsonFile = None,
) -> None:
    """What streams cost the process that serves them, by API, without a model that computes."""
    import asyncio
    from dataclasses import asdict

    from paceline import platform

    platform.prepare()
    from rich.console import Console
    from rich.table import Table

    from benchmarks import streams as bench

    console = Console(stderr=output == Path("-"))
    with console.status(f"{streams} streams"):
        costs = asyncio.run(bench.measure(streams, output_tokens, turns))
    table = Table(title=f"{streams} streams, medians of {turns} turns")
    for column in ("API", "event loop, us a token", "a step beside them / alone"):
        table.add_column(column, justify="left" if column == "API" else "right")
    for cost in costs:
        table.add_row(*cost.row())
    console.print(table)
    write_json(output, {"streams": streams, "costs": [asdict(cost) for cost in costs]})


@app.command()
def layout(
    model: Annotated[str, typer.Argument(metavar="[MODEL]", help="As for offline.")] = "hybrid-120m",
    rounds: Annotated[int, option("Load", "N", "Rounds over the layouts.", min=1)] = 7,
    output: JsonFile = None,
) -> None:
    """What a decode step costs with rows of different lengths, under each layout of keys and values."""
    from paceline import platform

    platform.prepare()
    from rich.console import Console
    from rich.table import Table

    from benchmarks import layout as bench
    from benchmarks.models import Bench

    console = Console(stderr=output == Path("-"))
    with console.status(f"measuring {model}"), Bench(model) as running:
        figures = running.on_engine_thread(lambda: bench.compare(running.model.language, rounds=rounds))
    table = Table(title=f"{model} on {platform.device_kind()}: milliseconds a decode step, medians of {rounds}")
    table.add_column("rows of cached tokens")
    names = list(next(iter(figures.values())))
    for name in [*names, "best / 8000 alone"]:
        table.add_column(name, justify="right")
    alone = min(figures["8000 alone"].values())
    for case, times in figures.items():
        ratio = f"{min(times.values()) / alone:.2f}"
        table.add_row(case, *(f"{times[name]:.1f}" for name in names), ratio)
    console.print(table)
    write_json(output, {"model": model, "milliseconds": figures})


@app.command()
def prefix(
    model: Annotated[str, typer.Argument(metavar="[MODEL]", help="As for offline.")] = "hybrid-120m",
    shared: Annotated[str, option("Load", "N,N,...", "Lengths of the shared prefix.")] = "1024,4096,8192,16384",
    tail: Annotated[int, option("Load", "N", "Tokens of each prompt that are its own.", min=2)] = 32,
    turns: Annotated[int, option("Load", "N", "Turns of cold, warm and from disk, after a warm-up.", min=1)] = 5,
    cache_dir: Annotated[
        Path | None, option("Engine", "FOLDER", "Where the disk's files go. Default: a temporary folder.")
    ] = None,
    layout: Layout = "auto",
    compile: Traces = True,
    output: JsonFile = None,
) -> None:
    """Time to first token of a prompt whose beginning is known: cold, from memory, from disk, in turns.

    Also what restoring costs by itself, as a share of the prefill it saves.
    """
    import tempfile

    from paceline import platform

    platform.prepare()
    from rich.console import Console

    from benchmarks import prefix as bench
    from benchmarks.tables import prefix_table
    from paceline.bench.wire import BenchError

    lengths = numbers(shared)
    if not lengths or min(lengths) < 1:
        raise BenchError(f"--shared is {shared!r}: give lengths above 0, like 1024,4096.")
    console = Console(stderr=output == Path("-"))
    with (
        tempfile.TemporaryDirectory(dir=cache_dir, prefix="paceline-bench-") as folder,
        console.status(f"loading {model}") as status,
        bench.PrefixBench(model, Path(folder), layout, compile=compile) as running,
    ):
        lines = bench.compare(running, lengths, turns, tail, status.update)
    title = f"{model} on {platform.device_kind()}: time to first token, medians of {turns} turns"
    console.print(prefix_table(title, lines))
    write_json(output, {"model": model, "tail_tokens": tail, "lines": [line.figures() for line in lines]})


@app.command()
def prefix_overhead(
    model: Annotated[str, typer.Argument(metavar="[MODEL]", help="As for offline.")] = "hybrid-120m",
    clients: Annotated[int, option("Load", "N", "Clients with tiny chats.", min=1)] = 64,
    history: Annotated[int, option("Load", "N", "Turns of the conversation.", min=1)] = 300,
    turns: Annotated[int, option("Load", "N", "Pairs of the cache on and off.", min=1)] = 3,
    layout: Layout = "auto",
    compile: Traces = True,
    output: JsonFile = None,
) -> None:
    """What the prefix cache costs traffic that gains little from it: on and off by turns."""
    from paceline import platform

    platform.prepare()
    from rich.console import Console

    from benchmarks.prefix_overhead import OverheadBench, compare
    from benchmarks.tables import overhead_table

    console = Console(stderr=output == Path("-"))
    with console.status(f"loading {model}") as status, OverheadBench(model, layout, compile=compile) as bench:
        traffic = compare(bench, turns, clients, history, watch=status.update)
    title = f"{model} on {platform.device_kind()}: the prefix cache on / off, medians of {turns} pairs"
    console.print(overhead_table(title, traffic))
    write_json(output, {"model": model, "traffic": [line.figures() for line in traffic]})


@app.command()
def trace(
    model: Annotated[
        str | None,
        typer.Argument(
            metavar="[MODEL]",
            help="As for serve, to run in this process; with --url, the name to send. "
            "Default: a small hybrid of random weights; with --url, the first that the server lists.",
        ),
    ] = None,
    url: Annotated[str | None, option("Server", "URL", "Instead: an OpenAI-compatible server.")] = None,
    api_key: Annotated[str | None, option("Server", "KEY", "Sent as a bearer token.")] = None,
    timeout: Annotated[float, option("Server", "SECONDS", "Give a request up after this.")] = 600.0,
    requests: Annotated[int, option("Load", "N", "Of all conversations together.", min=1)] = 200,
    streams: Annotated[int, option("Load", "N", "Conversations at a time.", min=1)] = 8,
    turns: Annotated[int, option("Load", "N", "Requests of a conversation.", min=1)] = 10,
    system_tokens: Annotated[int, option("Requests", "N", "The system prompt's length.", min=1)] = 8192,
    tools_tokens: Annotated[int, option("Requests", "N", "Length of the tools after it.", min=0)] = 1024,
    message_tokens: Annotated[str, option("Requests", "N|MIN:MAX", "Each new message's length.")] = "30:300",
    output_tokens: Annotated[int, option("Requests", "N", "Sent as max_tokens.", min=1)] = 16,
    own_answers: Annotated[
        bool, typer.Option("--own-answers", help="Go on from the server's answers.", rich_help_panel="Requests")
    ] = False,
    seed: Annotated[int, option("Requests", "N", "Of all texts and lengths.")] = 0,
    output: JsonFile = None,
) -> None:
    """Play agents at work: a long shared system prompt, conversations that grow turn by turn.

    Says how many prompt tokens were computed, against every distinct token once.
    """
    import asyncio
    from dataclasses import asdict

    from rich.console import Console

    from benchmarks.tables import trace_table
    from benchmarks.trace import in_process, over_http
    from paceline.bench.prompts import Lengths
    from paceline.bench.trace import Plan
    from paceline.bench.wire import Address

    plan = Plan(
        requests=requests,
        streams=streams,
        turns=turns,
        system=system_tokens,
        tools=tools_tokens,
        message=Lengths.parse(message_tokens),
        answer=output_tokens,
        own_answers=own_answers,
        seed=seed,
    )
    console = Console(stderr=output == Path("-"))
    with Progress(requests) as progress:
        if url is not None:
            playing = over_http(Address.parse(url, api_key), model, plan, timeout, progress.watch)
        else:
            playing = in_process(model, plan, progress.watch)
        result = asyncio.run(playing)
    answers = "its own answers" if own_answers else "scripted answers"
    console.print(trace_table(f"{requests} requests, {streams} at a time, {answers}", [result]))
    for note in result.run.notes:
        console.print(f"Note: {note}", markup=False)
    for kind, count in result.run.errors.items():
        console.print(f"{count} failed: {kind}: {result.run.error_examples[kind]}", markup=False)
    write_json(output, {"plan": asdict(plan), **result.figures()})
    if not result.run.ok:
        sys.exit(1)


@app.command()
def overload(
    model: Annotated[
        str, typer.Argument(metavar="[MODEL]", help="As for serve, or paceline-tiny, of random weights.")
    ] = tiny.NAME,
    clients: Annotated[int, option("Load", "N", "Clients at a time.", min=1)] = 200,
    seconds: Annotated[float, option("Load", "SECONDS", "For so long they send new requests.", min=1)] = 180.0,
    prompt_tokens: Annotated[
        str, option("Load", "MIN:MAX", "Each prompt's length, evenly by its logarithm.")
    ] = "10:8192",
    output_tokens: Annotated[str, option("Load", "MIN:MAX", "Sent as max_tokens.")] = "1:192",
    tenants: Annotated[int, option("Load", "N", "Users that the clients are.", min=1)] = 6,
    seed: Annotated[int, option("Load", "N", "Of all requests and manners.")] = 0,
    memory_limit_gb: Annotated[float, option("Server", "GB", "Memory that the server may use.", min=0.02)] = 0.1,
    policy: Annotated[
        Literal["fifo", "shortest_first", "priority", "fair"], option("Server", "POLICY", "Its scheduling policy.")
    ] = "fair",
    max_queue: Annotated[int, option("Server", "N", "Requests that may wait there.", min=0)] = 96,
    queue_timeout: Annotated[float, option("Server", "SECONDS", "For so long.", min=1)] = 45.0,
    request_timeout: Annotated[float, option("Server", "SECONDS", "A request may take so long.", min=1)] = 120.0,
    output: JsonFile = None,
) -> None:
    """Ask a real server with little memory for more than it can give, and look what became of every request.

    The server is a process of its own. Clients send text and pictures, stream or do not,
    cancel, go away, or hardly read. Exits with 1 when a rule was broken: a crash, a standstill, a request that was
    neither answered nor refused with Retry-After, memory above the limit, anything left behind in an idle server.
    """
    import asyncio

    from rich.console import Console

    from benchmarks import overload as bench
    from benchmarks.crowd import Mix
    from paceline.bench.prompts import Lengths

    plan = bench.Plan(
        clients=clients,
        seconds=seconds,
        memory_limit_gb=memory_limit_gb,
        policy=policy,
        max_queue=max_queue,
        queue_timeout=queue_timeout,
        request_timeout=request_timeout,
        seed=seed,
        model=model,
        mix=Mix(prompt=Lengths.parse(prompt_tokens), answer=Lengths.parse(output_tokens), tenants=tenants),
    )
    console = Console(stderr=output == Path("-"))
    with console.status("") as status:
        report = asyncio.run(bench.overload(plan, status.update))
    console.print(bench.overload_table(report))
    for rule in report.broken:
        console.print(f"Broken: {rule}", markup=False)
    write_json(output, report.figures())
    if report.broken:
        sys.exit(1)


@app.command()
def fairness(
    model: Annotated[str, typer.Argument(metavar="[MODEL]", help="As for offline.")] = "hybrid-120m",
    guest: Annotated[
        str, option("Load", "N,PROMPT,OUTPUT[,GAP]", "The guest's requests, their tokens, seconds between two.")
    ] = "30,32,8",
    hog: Annotated[str, option("Load", "N,PROMPT,OUTPUT", "The other user's, all at once.")] = "50,256,64",
    policies: Annotated[str, option("Load", "NAME,NAME,...", "Policies to compare.")] = "fair,fifo",
    turns: Annotated[int, option("Load", "N", "Turns of alone and every policy.", min=1)] = 1,
    max_rows: Annotated[int, option("Engine", "N", "Requests that run together.", min=1)] = 8,
    stall_target_ms: Annotated[float, option("Engine", "MS", "As for serve; 0: none.", min=0)] = 250.0,
    output: JsonFile = None,
) -> None:
    """How long one user waits for first tokens beside another who has sent fifty long requests, by policy.

    The guest's requests come when the other's are running; its wait is compared with its wait alone.
    """
    from paceline import platform

    platform.prepare()
    from rich.console import Console

    from benchmarks import fairness as bench

    visiting, staying, compared = bench.Requests.parse(guest), bench.Requests.parse(hog), bench.policies(policies)
    console = Console(stderr=output == Path("-"))
    with (
        console.status(f"loading {model}") as status,
        bench.FairnessBench(model, max_rows, stall_target_ms or None) as running,
    ):
        lines = bench.compare(running, visiting, staying, compared, turns, status.update)
    title = f"{model} on {platform.device_kind()}, {max_rows} rows: guest {guest}, hog {hog}, medians of {turns} turns"
    console.print(bench.fairness_table(title, lines))
    write_json(output, {"model": model, "guest": guest, "hog": hog, "lines": bench.figures(lines)})


@app.command()
def stall(
    model: Annotated[str, typer.Argument(metavar="[MODEL]", help="As for offline.")] = "hybrid-120m",
    targets: Annotated[
        str, option("Load", "MS,MS,...", "Stall targets in milliseconds; none is one.")
    ] = "none,250,100",
    streams: Annotated[int, option("Load", "N", "Streams that are running.", min=1)] = 4,
    prompts: Annotated[int, option("Load", "N", "Prompts that arrive among them.", min=1)] = 2,
    prompt_tokens: Annotated[int, option("Load", "N", "Tokens of each.", min=64)] = 8192,
    seconds: Annotated[float, option("Load", "SECONDS", "Measure for so long at most, for each target.", min=1)] = 40.0,
    output: JsonFile = None,
) -> None:
    """Gaps between the tokens of running streams while long prompts are read, by stall target."""
    from paceline import platform

    platform.prepare()
    from rich.console import Console

    from benchmarks import stall as bench

    wanted = bench.targets(targets)
    plan = bench.Plan(streams, prompts, prompt_tokens, seconds)
    console = Console(stderr=output == Path("-"))
    with console.status(f"loading {model}") as status, bench.StallBench(model) as running:
        lines = bench.compare(running, wanted, plan, status.update)
    title = f"{model} on {platform.device_kind()}: {streams} streams, {prompts} prompts of {prompt_tokens} tokens"
    console.print(bench.stall_table(title, lines))
    write_json(output, {"model": model, "lines": [line.figures() for line in lines]})


@app.command()
def lora(
    model: Annotated[str, typer.Argument(metavar="[MODEL]", help="As for offline.")] = "hybrid-120m",
    rows: Annotated[int, option("Load", "N", "Sequences at a time.", min=1)] = 8,
    adapters: Annotated[int, option("Load", "N", "Adapters that they share.", min=1)] = 4,
    rank: Annotated[int, option("Load", "N", "Of each adapter, which changes every linear layer.", min=1)] = 8,
    prompt_tokens: PromptTokens = 32,
    output_tokens: OutputTokens = 64,
    turns: Annotated[int, option("Load", "N", "Turns over the cases, after one to warm up.", min=1)] = 7,
    layout: Layout = "auto",
    compile: Traces = True,
    output: JsonFile = None,
) -> None:
    """Adapters: the base model, the same with adapters loaded that nobody uses, and rows of several adapters."""
    import tempfile

    from paceline import platform

    platform.prepare()
    from rich.console import Console

    from benchmarks import lora as bench
    from benchmarks.models import Bench

    console = Console(stderr=output == Path("-"))
    with (
        tempfile.TemporaryDirectory(prefix="paceline-bench-") as folder,
        console.status(f"loading {model}") as status,
        Bench(model, layout, compile=compile) as running,
    ):
        cases = bench.compare(
            running, Path(folder), rows, adapters, rank, prompt_tokens, output_tokens, turns, status.update
        )
    title = f"{model} on {platform.device_kind()}: {rows} rows, {adapters} adapters of rank {rank}, medians of {turns}"
    console.print(bench.lora_table(title, cases))
    write_json(output, {"model": model, "rows": rows, "cases": [case.figures() for case in cases]})


app.command()(speculate_cli.speculate)
app.command()(kv_cli.kv)
app.command()(specprefill_cli.specprefill)
app.command()(traffic_cli.traffic)
app.command()(traffic_cli.prefill)
app.command()(traffic_cli.steps)


@app.command()
def front(
    pieces: Annotated[int, option("Load", "N", "Pieces of each stream.", min=30)] = 900,
    interval: Annotated[float, option("Load", "MS", "Milliseconds between two of them.", min=0.1)] = 5.0,
    streams: Annotated[int, option("Load", "N", "Streams at a time.", min=1)] = 1,
    json: JsonFile = None,
) -> None:
    """What a front with several models adds to each piece of a stream."""
    from dataclasses import asdict

    from benchmarks.front import measure

    result = measure(pieces, interval / 1e3, streams)
    print(result.line())
    write_json(json, {**asdict(result), "added": result.added})


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def start(
    context: typer.Context,
    model: Annotated[
        str | None, typer.Argument(metavar="[MODEL]", help="As for serve. Default: paceline-mini.", show_default=False)
    ] = None,
    starts: Annotated[int, option("Load", "N", "How often it is started.", min=1)] = 3,
    output: JsonFile = None,
) -> None:
    """How long `paceline serve` takes until it is ready: the first start, and later ones that find what it has kept.

    Other flags are those of `paceline serve`.
    """
    import asyncio
    from dataclasses import asdict

    from benchmarks.start import measure

    found = asyncio.run(measure(model, context.args, starts))
    for number, each in enumerate(found, 1):
        print(f"start {number}: {each.line()}")
    write_json(output, {"model": model, "starts": [asdict(each) for each in found]})
