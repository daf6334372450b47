"""`python -m benchmarks trace`: the trace of paceline.bench.trace, played to a service in this process."""

from __future__ import annotations

import asyncio
import random
import tempfile
import time
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from paceline.bench.load import Outcome
from paceline.bench.prompts import WORDS, Calibration
from paceline.bench.serve import SAMPLE_WORDS, Watch
from paceline.bench.trace import HttpServer, Message, Plan, TraceReport, play
from paceline.bench.wire import Address
from paceline.errors import PacelineError

if TYPE_CHECKING:
    from paceline.service import Service


async def in_process(model: str | None, plan: Plan, watch: Watch = lambda title: lambda: None) -> TraceReport:
    """Without a model: a small hybrid of random weights with room for long prompts."""
    from paceline.service import Service
    from paceline.settings import Settings
    from tests import synthetic

    with tempfile.TemporaryDirectory(prefix="paceline-bench-") as folder:
        source = model or str(synthetic.build("hybrid", Path(folder) / "hybrid", max_position=1 << 17))
        async with Service(Settings(model=source)) as service:
            server = InProcess(service)
            plan = replace(plan, calibration=await server.calibrate())
            return await play(server, plan, finished=watch(server.label))


async def over_http(
    address: Address, model: str | None, plan: Plan, timeout: float, watch: Watch = lambda title: lambda: None
) -> TraceReport:
    server = HttpServer(address, model, timeout=timeout)
    plan = replace(plan, calibration=await server.calibrate())
    return await play(server, plan, finished=watch(server.label))


class InProcess:
    """A service in this process, without HTTP."""

    def __init__(self, service: Service, label: str = "paceline") -> None:
        self.service = service
        self.label = label
        self.notes: list[str] = []

    async def calibrate(self) -> Calibration:
        chance = random.Random("calibration")
        short, long = (
            len(self.service.tokenizer.encode(" ".join(chance.choices(WORDS, k=words)), False))
            for words in SAMPLE_WORDS
        )
        return Calibration((long - short) / (SAMPLE_WORDS[1] - SAMPLE_WORDS[0]), 0.0, "the tokenizer")

    async def ask(self, messages: Sequence[Message], max_tokens: int) -> Outcome:
        from paceline.requests import ChatRequest
        from paceline.types import Sampling

        sampling = Sampling(temperature=0, max_tokens=max_tokens, ignore_eos=True)
        outcome = Outcome(started=time.perf_counter(), ended=0.0)
        times: list[float] = []
        texts: list[str] = []
        try:
            async with aclosing(self.service.stream_chat(ChatRequest(messages, sampling))) as stream:
                async for delta in stream:
                    if delta.text:
                        times.append(time.perf_counter())
                        texts.append(delta.text)
                    if delta.error is not None:
                        outcome = replace(outcome, failure="error in stream", message=delta.error)
                    if (usage := delta.usage) is not None:
                        outcome = replace(
                            outcome,
                            prompt_tokens=usage.prompt_tokens,
                            completion_tokens=usage.completion_tokens,
                            cached_tokens=usage.cached_tokens,
                            finish_reason=delta.finish_reason,
                        )
        except PacelineError as error:
            outcome = replace(outcome, failure=type(error).__name__, message=str(error))
        return replace(outcome, ended=time.perf_counter(), chunk_times=tuple(times), text="".join(texts))

    async def prefilled(self) -> int | None:
        return self.service.stats().prompt_tokens

    async def tokens(self, messages: Sequence[Message]) -> list[int] | None:
        return await asyncio.to_thread(self.service.render, messages)
