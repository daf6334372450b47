"""`paceline bench media`: what text streams suffer while pictures arrive, and how soon a picture is answered.

Streams of text are always in flight. For a while they are alone; then pictures arrive one after another. A rival serves
the same checkpoint in the same run, and is sent the same requests.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

from rich.table import Table

from paceline.bench.load import Outcome, read_outcome
from paceline.bench.process import Process
from paceline.bench.prompts import PATHS, Lengths, Request, Workload
from paceline.bench.report import Distribution, duration
from paceline.bench.wire import Address, BenchError, exchange

PATH = PATHS["chat"]
PACELINE, MLX_VLM = "paceline", "mlx-vlm"
# With the BLAS that Paceline uses: on a Linux CPU, MLX's own is many times slower.
RIVAL = (
    "import runpy; from paceline import platform; platform.prepare(); "
    "runpy.run_module('mlx_vlm.server', run_name='__main__')"
)
PAUSE_AFTER_FAILURE = 0.1
GLANCE = 0.01


@dataclass(frozen=True, slots=True)
class Plan:
    streams: int = 8
    prompt_tokens: int = 64
    output_tokens: int = 128  # of a text stream
    pictures: int = 8
    size: int = 448  # pixels of a picture's side
    answer_tokens: int = 16  # about a picture
    seconds: float = 10.0  # of the streams alone, at least
    timeout: float = 600.0
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Line:
    """What one server did. Rates are tokens of text streams a second."""

    server: str
    alone_tokens_per_s: float
    tokens_per_s: float  # while pictures arrived
    alone_longest_gap_s: float
    longest_gap_s: float
    first_token_s: Distribution  # of pictures
    failures: tuple[str, ...] = ()

    @property
    def kept(self) -> float:
        """The share of its throughput that text keeps."""
        return self.tokens_per_s / self.alone_tokens_per_s

    def figures(self) -> dict[str, Any]:
        return asdict(self) | {"kept": self.kept}


def server(name: str, model: str) -> Process:
    """A server of the checkpoint, not started."""
    if name == PACELINE:
        return Process([sys.executable, "-m", "paceline", "serve", model], "/ready")
    if name == MLX_VLM:
        return Process([sys.executable, "-c", RIVAL, "--model", model], "/health")
    raise BenchError(f"{name!r} is no rival that is known: {MLX_VLM} is.")


async def compare(
    names: Sequence[str], model: str, plan: Plan, watch: Callable[[str], None] = lambda text: None
) -> list[Line]:
    """One server after another, each alone on the machine."""
    lines = []
    for name in names:
        watch(f"{name}: starting")
        async with server(name, model) as started:
            watch(f"{name}: measuring")
            lines.append(await measure(name, started.address, model, plan))
    return lines


async def measure(name: str, address: Address, model: str, plan: Plan) -> Line:
    lengths = Lengths(plan.prompt_tokens, plan.prompt_tokens)
    text = Workload(model, "chat", lengths, Lengths(plan.output_tokens, plan.output_tokens), seed=plan.seed)
    answers = Lengths(plan.answer_tokens, plan.answer_tokens)
    shown = Workload(model, "chat", lengths, answers, image_share=1.0, image_size=plan.size, seed=plan.seed)
    pictures = [shown.request(f"picture {index}") for index in range(plan.pictures)]
    texts: list[Outcome] = []
    done = asyncio.Event()

    async def send(request: Request) -> Outcome:
        return read_outcome(await exchange(address, "POST", PATH, request.body, timeout=plan.timeout), request)

    async def stream(place: int) -> None:
        turn = 0
        while not done.is_set():
            texts.append(await send(text.request(f"stream {place}, turn {turn}")))
            turn += 1
            if texts[-1].failure is not None:
                await asyncio.sleep(PAUSE_AFTER_FAILURE)

    for request in (text.request("warm-up"), shown.request("warm-up")):
        if (found := await send(request)).failure is not None:
            raise BenchError(f"{name} does not answer: {found.failure} {found.message}")
    async with asyncio.TaskGroup() as group:
        for place in range(plan.streams):
            group.create_task(stream(place))
        started = time.perf_counter()
        while time.perf_counter() < started + plan.seconds or len(texts) < plan.streams:
            await asyncio.sleep(GLANCE)  # a slow server gets the time for an answer of each stream
        begun = time.perf_counter()
        seen = [await send(request) for request in pictures]
        ended = time.perf_counter()
        done.set()
    return line_of(name, texts, seen, started, begun, ended)


def line_of(
    name: str, texts: Sequence[Outcome], seen: Sequence[Outcome], started: float, begun: float, ended: float
) -> Line:
    """From `started` the streams were alone; from `begun` to `ended` pictures arrived."""
    first = Distribution.of(outcome.chunk_times[0] - outcome.started for outcome in seen if outcome.chunk_times)
    alone = _rate(texts, started, begun)
    if first is None or not alone:
        raise BenchError(f"{name} brought no tokens of text, or none about a picture.")
    gaps = [pair for outcome in texts for pair in pairwise(outcome.chunk_times)]
    return Line(
        name,
        alone,
        _rate(texts, begun, ended),
        max((end - start for start, end in gaps if end <= begun), default=0.0),
        max((end - start for start, end in gaps if end > begun and start < ended), default=0.0),
        first,
        tuple(f"{each.failure} {each.message}".strip() for each in (*texts, *seen) if each.failure is not None),
    )


def _rate(texts: Sequence[Outcome], start: float, end: float) -> float:
    """Tokens a second. A chunk may hold several: they are spread over a stream's chunks."""
    tokens = 0.0
    for outcome in texts:
        inside = sum(start <= when < end for when in outcome.chunk_times)
        if inside:
            tokens += inside * (outcome.completion_tokens or len(outcome.chunk_times)) / len(outcome.chunk_times)
    return tokens / (end - start)


def media_table(title: str, lines: Sequence[Line]) -> Table:
    table = Table(title=title, title_justify="left")
    for column in ("", *(line.server for line in lines)):
        table.add_column(column, justify="right" if column else "left")
    rows: dict[str, Callable[[Line], str]] = {
        "text alone, tokens/s": lambda line: f"{line.alone_tokens_per_s:.1f}",
        "while pictures arrive": lambda line: f"{line.tokens_per_s:.1f}",
        "share that it keeps": lambda line: f"{line.kept:.2f}",
        "longest gap in a text, alone": lambda line: duration(line.alone_longest_gap_s),
        "longest gap while pictures arrive": lambda line: duration(line.longest_gap_s),
        "a picture's first token, p50": lambda line: duration(line.first_token_s.p50),
        "a picture's first token, longest": lambda line: duration(line.first_token_s.max),
        "failed requests": lambda line: str(len(line.failures)),
    }
    for name, cell in rows.items():
        table.add_row(name, *(cell(line) for line in lines))
    return table
