"""Streams of mixed lengths through the engine, and the same through mlx-lm's BatchGenerator, in one run."""

from __future__ import annotations

import random
import time
from typing import Any

from mlx_lm.generate import BatchGenerator
from rich.table import Table

from benchmarks.models import model_of
from benchmarks.shapes import SHAPES, random_model
from paceline.bench.offline import random_prompts
from paceline.bench.traffic import Request, Traffic, TrafficBench, Window, window_of
from paceline.models.loader import LoadedModel

PREFILL_BATCH = 8  # BatchGenerator's own default, as is the chunk of 2,048


class Bench(TrafficBench):
    """Also takes shapes of random weights. `drafts`: a shape gets an MTP head, which takes a while to prepare."""

    def __init__(self, source: str, *, drafts: bool = False, **options: Any) -> None:
        super().__init__(source, **options)
        self.drafts = drafts

    def _load(self) -> LoadedModel:
        if self.source in SHAPES:
            return random_model(self.source, drafts=self.drafts)
        return model_of(self.source)

    def mlx_lm(self, traffic: Traffic) -> list[Window]:
        """The same traffic through mlx-lm's own batching, on the same weights, without our kernels."""

        def run() -> list[Window]:
            language = self.model.language
            switched = language.use_kernels(False)
            try:
                return _batch_generator(language.module, language.vocab_size, traffic)
            finally:
                if switched:
                    language.use_kernels(True)

        found: list[Window] = self.on_engine_thread(run)
        return found


def _batch_generator(module: Any, vocab: int, traffic: Traffic) -> list[Window]:
    generator = BatchGenerator(
        module, completion_batch_size=traffic.streams, prefill_batch_size=min(PREFILL_BATCH, traffic.streams)
    )
    chances = [random.Random(f"{traffic.seed}/{stream}") for stream in range(traffic.streams)]
    requests: list[Request] = []
    running: dict[int, tuple[int, Request]] = {}

    def submit(stream: int) -> None:
        chance = chances[stream]
        tokens = traffic.output_tokens.draw(chance)
        [prompt] = random_prompts(1, traffic.prompt_tokens.draw(chance), vocab, chance.randrange(1 << 32))
        request = Request(time.perf_counter(), len(prompt))
        requests.append(request)
        [uid] = generator.insert([list(prompt)], [tokens])
        running[uid] = (stream, request)

    began = time.perf_counter()
    end = began + traffic.seconds * traffic.windows
    for stream in range(traffic.streams):
        submit(stream)
    while (now := time.perf_counter()) < end:
        _, responses = generator.next()
        now = time.perf_counter()
        for response in responses:
            stream, request = running[response.uid]
            request.times.append(now)
            if response.finish_reason is not None:
                del running[response.uid]
                submit(stream)
    generator.close()
    return [
        window_of(requests, {}, began + number * traffic.seconds, began + (number + 1) * traffic.seconds, None)
        for number in range(traffic.windows)
    ]


def ratio_table(title: str, ours: list[Window], theirs: list[Window]) -> Table:
    table = Table(title=title)
    for column in (
        "window",
        "paceline, tok/s",
        "mlx-lm, tok/s",
        "ratio",
        "first token p95",
        "mlx-lm's",
        "longest gap",
        "mlx-lm's",
    ):
        table.add_column(column, justify="right")
    for number, (mine, other) in enumerate(zip(ours, theirs, strict=True), 1):
        first = ["-" if each.ttft_s is None else f"{1e3 * each.ttft_s.p95:.0f} ms" for each in (mine, other)]
        gaps = [f"{1e3 * each.longest_gap_s:.0f} ms" for each in (mine, other)]
        ratio = mine.tokens_per_s / other.tokens_per_s if other.tokens_per_s else float("inf")
        table.add_row(
            str(number), f"{mine.tokens_per_s:.0f}", f"{other.tokens_per_s:.0f}", f"{ratio:.2f}", *first, *gaps
        )
    return table
