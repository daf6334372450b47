"""`paceline bench`: each command imports what it needs when it runs."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from paceline.bench import specprefill_cli, tiny
from paceline.bench.options import Counts, JsonFile, Layout, Traces, numbers, option, write_json

if TYPE_CHECKING:
    from rich.console import Console

    from paceline.bench.report import Ratio, Report

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

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
    rate: Annotated[float | None, option("Load", "R", "Instead: arrivals a second (Poisson).")] = None,
    requests: Annotated[int | None, option("Load", "N", "Stop after so many.", default=REQUESTS, min=1)] = None,
    duration: Annotated[float | None, option("Load", "SECONDS", "Instead, or too: start none after this.")] = None,
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
    json_file: Annotated[
        Path | None,
        typer.Option(
            "--json",
            metavar="FILE",
            help="Write all figures there; - is the standard output.",
            rich_help_panel="Output",
        ),
    ] = None,
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

    to_stdout = json_file is not None and str(json_file) == "-"
    console = Console(stderr=to_stdout)
    with _Progress(schedule.requests) as progress:
        reports = asyncio.run(bench(targets, workload, schedule, pairs=pairs, warmup=warmup, watch=progress.watch))
    compared = ratios(*reports) if compare is not None else None
    runs = [run for turn in zip(*reports, strict=True) for run in turn]
    _show(console, runs, compared)
    if json_file is not None:
        import json
        from dataclasses import asdict

        settings = {
            "schedule": asdict(schedule),
            "workload": {
                name: value for name, value in asdict(workload).items() if name not in ("model", "calibration")
            },
            "warmup": warmup,
            "pairs": pairs,
        }
        document = json.dumps(as_json(settings, runs, compared), indent=2, allow_nan=False) + "\n"
        if to_stdout:
            sys.stdout.write(document)
        else:
            json_file.write_text(document)
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
    from paceline.bench.report import unequal_work
    from paceline.bench.tables import compare_table, latency_table, long_prompt_line, summary_table

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


class _Progress:
    """A bar per run on a terminal's standard error, redrawn twice a second: the server needs the cores."""

    def __init__(self, requests: int | None) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        console = Console(stderr=True)
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        self.bars = Progress(
            *columns, console=console, refresh_per_second=2, transient=True, disable=not console.is_terminal
        )
        self.requests = requests

    def __enter__(self) -> _Progress:
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
        str, typer.Argument(metavar="[MODEL]", help="As for serve, or a shape of random weights.")
    ] = "hybrid-120m",
    rows: Counts = "1,4,8,16",
    prompt_tokens: Annotated[int, option("Load", "N", "Tokens of each prompt.", min=1)] = 32,
    output_tokens: Annotated[int, option("Load", "N", "Tokens generated in each turn.", min=8)] = 32,
    pairs: Annotated[int, option("Load", "N", "Turns of engine and bare loop, after one to warm up.", min=1)] = 7,
    together: Annotated[
        int, option("Load", "N", "Also: N requests at once against mlx-lm's own, one after another.", min=0)
    ] = 0,
    together_tokens: Annotated[int, option("Load", "N", "Tokens each of those generates.", min=8)] = 1024,
    layout: Layout = "auto",
    compile: Traces = True,
    output: JsonFile = None,
) -> None:
    """The engine against the bare loop: same module, same batch, argmax, in turns, in one process.

    Shapes of random weights: paceline-tiny, llama-120m, hybrid-120m (CPU), qwen3.5-4b (a GPU).
    """
    import dataclasses

    from paceline import platform

    platform.prepare()
    from rich.console import Console
    from rich.table import Table

    from paceline.bench import offline as bench

    counts = numbers(rows)
    console = Console(stderr=output == Path("-"))
    with console.status(f"loading {model}"):
        running = bench.Bench(model, layout, compile=compile).__enter__()
    try:
        with console.status("measuring"):
            lines = bench.against_bare_loop(running, counts, prompt_tokens, output_tokens, pairs)
            apart = None
            if together:
                apart = bench.against_one_after_another(running, together, prompt_tokens, together_tokens, pairs)
    finally:
        running.engine.stop()
    table = Table(title=f"{model} on {platform.device_kind()}, tokens per second, medians of {pairs} pairs")
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
    figures: dict[str, Any] = {"model": model, "lines": [dataclasses.asdict(line) for line in lines]}
    if apart is not None:
        figures["together"] = dataclasses.asdict(apart)
    write_json(output, figures)


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

    from paceline.bench import layout as bench
    from paceline.bench.offline import Bench

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
def speculate(
    model: Annotated[str, typer.Argument(metavar="[MODEL]", help="As for offline; one with an MTP head.")] = tiny.NAME,
    rows: Counts = "1,4,8,16",
    depths: Annotated[str, option("Load", "N,N,...", "Fixed depths, beside off and auto.")] = "1,2,3,4",
    prompt_tokens: Annotated[int, option("Load", "N", "Tokens of each prompt.", min=2)] = 32,
    output_tokens: Annotated[int, option("Load", "N", "Tokens generated in each turn.", min=16)] = 64,
    pairs: Annotated[int, option("Load", "N", "Turns over all modes, after one to warm up.", min=1)] = 7,
    layout: Layout = "auto",
    compile: Traces = True,
    output: JsonFile = None,
) -> None:
    """Drafting with the MTP head against plain decoding: off, fixed depths and auto, in turns, in one process.

    Prompts are random tokens. Shapes of random weights whose head agrees with the model about 0.7 of the time:
    hybrid-120m (CPU, takes a while), qwen3.5-4b (a GPU).
    """
    from paceline import platform

    platform.prepare()
    from rich.console import Console

    from paceline.bench import speculate as bench
    from paceline.bench.offline import Bench
    from paceline.bench.tables import cost_table, speculation_table
    from paceline.bench.wire import BenchError

    counts = numbers(rows)
    tried = numbers(depths)
    console = Console(stderr=output == Path("-"))
    with console.status(f"loading {model}") as status, Bench(model, layout, compile=compile) as running:
        if isinstance(running.model.head, str):
            raise BenchError(f"{model} cannot draft: {running.model.head}.")
        modes = bench.compare(running, counts, tried, prompt_tokens, output_tokens, pairs, status.update)
        costs = bench.costs(running, counts)
        launches = bench.launches(running, [0, *tried])
    title = f"{model} on {platform.device_kind()}, medians of {pairs} turns"
    console.print(speculation_table(title, modes))
    console.print(cost_table(costs, launches))
    write_json(
        output,
        {
            "model": model,
            "modes": [mode.figures() for mode in modes],
            "step_ms_by_rows_and_depth": costs,
            "operations_by_depth": launches,
        },
    )


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

    from paceline.bench import prefix as bench
    from paceline.bench.tables import prefix_table
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

    from paceline.bench.prompts import Lengths
    from paceline.bench.tables import trace_table
    from paceline.bench.trace import Plan, in_process, over_http
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
    with _Progress(requests) as progress:
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

    from paceline.bench import overload as bench
    from paceline.bench.crowd import Mix
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

    from paceline.bench import fairness as bench

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

    from paceline.bench import stall as bench

    wanted = bench.targets(targets)
    plan = bench.Plan(streams, prompts, prompt_tokens, seconds)
    console = Console(stderr=output == Path("-"))
    with console.status(f"loading {model}") as status, bench.StallBench(model) as running:
        lines = bench.compare(running, wanted, plan, status.update)
    title = f"{model} on {platform.device_kind()}: {streams} streams, {prompts} prompts of {prompt_tokens} tokens"
    console.print(bench.stall_table(title, lines))
    write_json(output, {"model": model, "lines": [line.figures() for line in lines]})


app.command()(specprefill_cli.specprefill)
