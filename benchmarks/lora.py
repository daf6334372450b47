"""`python -m benchmarks lora`: what adapters cost.

The base model, the same with adapters loaded that nobody uses, and rows of several adapters in one batch: in turns, in
one process, on the same prompts.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import mlx.core as mx
import mlx.nn as nn
from rich.markup import escape
from rich.table import Table

from benchmarks.models import Bench
from paceline.bench.offline import random_prompts
from paceline.models import lora_files
from paceline.types import Lora

BASE, IDLE, USED = "base", "adapters loaded, none used", "adapters used"


@dataclass(slots=True)
class Case:
    name: str
    rates: list[float] = field(default_factory=list)  # tokens per second, by turn
    ratios: list[float] = field(default_factory=list)  # to the base of the same turn
    work: list[float] = field(default_factory=list)  # processor time to the base's: other processes hardly change it

    @property
    def rate(self) -> float:
        return statistics.median(self.rates)

    @property
    def ratio(self) -> float:
        return statistics.median(self.ratios)

    def figures(self) -> dict[str, object]:
        return {
            "case": self.name,
            "tokens_per_second": self.rate,
            "ratio_to_base": self.ratio,
            "ratios": self.ratios,
            "processor_time": self.work,
        }


def write_random(module: nn.Module, folder: Path, rank: int, seed: int) -> Path:
    """An adapter of every linear layer inside the model's layers, in mlx-lm's layout."""
    folder.mkdir()
    mx.random.seed(seed)
    tensors: dict[str, mx.array] = {}
    for path, part in module.named_modules():
        if ".layers." in f".{path}" and isinstance(part, nn.Linear | nn.QuantizedLinear):
            outputs, inputs = part.weight.shape
            inputs = inputs * 32 // part.bits if isinstance(part, nn.QuantizedLinear) else inputs
            tensors[f"{path}.lora_a"] = mx.random.normal((inputs, rank)) / inputs**0.5
            tensors[f"{path}.lora_b"] = mx.random.normal((rank, outputs)) * 0.01
    mx.save_safetensors(str(folder / "adapters.safetensors"), tensors)
    parameters = {"rank": rank, "scale": 1.0, "dropout": 0.0}
    (folder / lora_files.CONFIG).write_text(json.dumps({"fine_tune_type": "lora", "lora_parameters": parameters}))
    return folder


def compare(
    bench: Bench,
    home: Path,
    rows: int,
    adapters: int,
    rank: int,
    prompt_tokens: int,
    tokens: int,
    turns: int,
    watch: Callable[[str], None] = lambda text: None,
) -> list[Case]:
    """Every case once a turn, in an order that rotates; a first turn warms up."""
    language = bench.model.language
    folders: list[Path] = bench.on_engine_thread(
        lambda: [write_random(language.module, home / str(seed), rank, seed) for seed in range(adapters)]
    )
    cases = [Case(BASE), Case(IDLE), Case(USED)]
    for turn in range(turns + 1):
        prompts = random_prompts(rows, prompt_tokens, language.vocab_size, turn)
        shift = turn % len(cases)
        rates: dict[str, float] = {}
        seconds: dict[str, float] = {}
        for case in cases[shift:] + cases[:shift]:
            watch(f"turn {turn} of {turns}, {case.name}")
            rates[case.name], seconds[case.name] = _rate(bench, case.name, folders, prompts, tokens)
        if turn:
            for case in cases:
                case.rates.append(rates[case.name])
                case.ratios.append(rates[case.name] / rates[BASE])
                case.work.append(seconds[case.name] / seconds[BASE])
    return cases


def _rate(
    bench: Bench, case: str, folders: Sequence[Path], prompts: Sequence[tuple[int, ...]], tokens: int
) -> tuple[float, float]:
    """Tokens per second, and processor seconds."""
    language = bench.model.language
    loras = language.loras

    def load() -> list[Lora]:
        return [loras.add(folder.name, lora_files.read(folder), language.dtype) for folder in folders]

    def unload() -> None:
        for lora in list(loras.loaded):
            loras.remove(lora)
        bench.runner.forget_loras()

    loaded: list[Lora] = [] if case == BASE else bench.on_engine_thread(load)
    chosen = [loaded[place % len(loaded)] if case == USED else None for place in range(len(prompts))]
    if case == USED:  # traces hold the adapters' weights: those of this turn are made here
        bench.engine_run(prompts, 16, loras=chosen)
    begun = time.process_time()
    trace, _ = bench.engine_run(prompts, tokens, loras=chosen)
    seconds = time.process_time() - begun
    bench.on_engine_thread(unload)
    return trace.rate(), seconds


def lora_table(title: str, cases: Sequence[Case]) -> Table:
    table = Table(title=escape(title), title_justify="left")
    table.add_column("")
    for column in ("tokens/s", "ratio to base", "lowest turn", "processor time"):
        table.add_column(column, justify="right")
    for case in cases:
        work = statistics.median(case.work)
        table.add_row(case.name, f"{case.rate:.1f}", f"{case.ratio:.3f}", f"{min(case.ratios):.3f}", f"{work:.3f}")
    return table
