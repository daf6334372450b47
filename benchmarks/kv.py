"""`python -m benchmarks kv`: what quantized keys and values cost in quality and speed.

The same model with keys and values as it computes them, with 8 bits and with 4, in turns, in one process: perplexity of
plain text, facts found in long texts, and the rate at which rows decode.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import mlx.core as mx
from rich.markup import escape
from rich.table import Table

from benchmarks.models import Bench
from benchmarks.needles import Kind, plain_text
from benchmarks.specprefill_quality import ANSWER, Question, questions
from paceline.bench.offline import Trace, random_prompts
from paceline.cache.kv_quantization import KVQuantization
from paceline.cache.layers import AttentionCache
from paceline.cache.slot_plan import ROWS
from paceline.conversation.text import TextStream
from paceline.conversation.tokenizer import Tokenizer
from paceline.engine import sequence
from paceline.types import RequestId, Sampling

BITS = (None, 8, 4)
CHARACTERS = 8  # a token of text has fewer, on average
CHUNK = 256  # tokens of a pass over a text
KIND: Kind = "retrieval"
Watch = Callable[[str], None]


@dataclass(slots=True)
class Case:
    bits: int | None  # None: not quantized
    token_bytes: int = 0  # of a token in all attention layers
    losses: list[float] = field(default_factory=list)  # mean negative log likelihoods, by text
    right: dict[int, tuple[bool, ...]] = field(default_factory=dict)  # by length of the prompts
    answers: dict[int, list[str]] = field(default_factory=dict)
    rates: list[float] = field(default_factory=list)  # tokens per second, by turn
    ratios: list[float] = field(default_factory=list)  # to the first case of the same turn
    work: list[float] = field(default_factory=list)  # processor time to the first's: other processes hardly change it

    @property
    def perplexity(self) -> float:
        return math.exp(statistics.mean(self.losses))

    def figures(self) -> dict[str, Any]:
        return {
            "kv_bits": self.bits,
            "bytes_per_token": self.token_bytes,
            "perplexity": self.perplexity if self.losses else None,
            "found": {length: [int(one) for one in right] for length, right in self.right.items()},
            "tokens_per_second": statistics.median(self.rates) if self.rates else None,
            "ratio": statistics.median(self.ratios) if self.ratios else None,
            "processor_time": self.work,
        }


class KVBench:
    def __init__(self, bench: Bench, tokenizer: Tokenizer, group_size: int = 64) -> None:
        self.bench, self.tokenizer = bench, tokenizer
        self.cases = [Case(bits) for bits in BITS]
        self.group_size = group_size

    def quantized(self, case: Case) -> AbstractContextManager[None]:
        return self.bench.quantized_kv(None if case.bits is None else KVQuantization(case.bits, self.group_size))

    def measure_size(self) -> None:
        for case in self.cases:
            with self.quantized(case):
                case.token_bytes = self.bench.on_engine_thread(self._token_bytes)

    def measure_text(self, texts: int, tokens: int, watch: Watch) -> None:
        """Perplexity of so many texts of so many tokens."""
        for place in range(texts):
            text = plain_text(tokens * CHARACTERS, place)
            ids = self.tokenizer.encode(text, add_special_tokens=False)[:tokens]
            for case in self.cases:
                watch(f"text {place + 1} of {texts}, {name(case.bits)}")
                with self.quantized(case):
                    case.losses.append(self.bench.on_engine_thread(partial(self._loss, ids)))

    def measure_needles(self, lengths: Sequence[int], prompts: int, watch: Watch) -> None:
        for length in lengths:
            asked = questions(self.tokenizer, KIND, length, prompts)
            for case in self.cases:
                watch(f"{prompts} texts of {length} tokens, {name(case.bits)}")
                with self.quantized(case):
                    case.answers[length] = said = self._answers(asked)
                case.right[length] = tuple(one.needle.fact.is_in(text) for one, text in zip(asked, said, strict=True))

    def measure_speed(self, rows: int, prompt_tokens: int, tokens: int, turns: int, watch: Watch) -> None:
        """Every case once a turn, in an order that rotates; a first turn warms up."""
        for turn in range(turns + 1 if turns else 0):
            prompts = random_prompts(rows, prompt_tokens, self.bench.model.language.vocab_size, turn)
            shift = turn % len(self.cases)
            rates: dict[int | None, float] = {}
            seconds: dict[int | None, float] = {}
            for case in self.cases[shift:] + self.cases[:shift]:
                watch(f"decode, turn {turn} of {turns}, {name(case.bits)}")
                with self.quantized(case):
                    begun = time.process_time()
                    rates[case.bits] = self.bench.engine_run(prompts, tokens)[0].rate()
                    seconds[case.bits] = time.process_time() - begun
            for case in self.cases if turn else ():
                case.rates.append(rates[case.bits])
                case.ratios.append(rates[case.bits] / rates[None])
                case.work.append(seconds[case.bits] / seconds[None])

    def _token_bytes(self) -> int:
        row = self.bench.model.language.batch(ROWS)
        row.begin(1)
        self.bench.model.language.module(mx.array([[0]]), cache=row.layers)
        row.drop()
        caches = [cache for cache in row.flat if isinstance(cache, AttentionCache)]
        return sum(cache.slot_bytes[0] for cache in caches)

    def _loss(self, ids: Sequence[int]) -> float:
        """Mean negative log likelihood of every token but the first, read in chunks."""
        language = self.bench.model.language
        row, total = language.batch(ROWS), 0.0
        for start in range(0, len(ids) - 1, CHUNK):
            part = ids[start : min(start + CHUNK, len(ids) - 1)]
            row.begin(len(part))
            logits = language.module(mx.array([list(part)]), cache=row.layers)[0].astype(mx.float32)
            row.commit()
            following = mx.array(list(ids[start + 1 : start + 1 + len(part)]))
            chosen = mx.take_along_axis(logits, following[:, None], axis=-1)[:, 0]
            loss: Any = (mx.logsumexp(logits, axis=-1) - chosen).sum().item()
            total += loss
            mx.eval(row.arrays())
        return total / (len(ids) - 1)

    def _answers(self, asked: Sequence[Question]) -> list[str]:
        """Greedy, in one batch."""
        sampling = Sampling(temperature=0, max_tokens=ANSWER, speculation="off")
        heard = Trace()
        eos = self.tokenizer.eos_ids
        for place, question in enumerate(asked):
            request = sequence.EngineRequest(
                RequestId(f"question-{place}"), question.prompt, sampling, ANSWER, eos_ids=eos
            )
            text = TextStream(self.tokenizer.detokenizer())
            self.bench.engine.submit(sequence.Sequence(request, text, heard.sink(place)))
        heard.done.wait(timeout=3600)
        return list(heard.texts.values())


def name(bits: int | None) -> str:
    return "not quantized" if bits is None else f"{bits} bits"


def kv_table(title: str, cases: Sequence[Case]) -> Table:
    table = Table(title=escape(title), title_justify="left")
    for column in ("", *(name(case.bits) for case in cases)):
        table.add_column(column, justify="right" if column else "left")
    table.add_row("bytes of a token", *(str(case.token_bytes) for case in cases))
    if cases[0].losses:
        table.add_row("perplexity", *(f"{case.perplexity:.3f}" for case in cases))
    for length, before in cases[0].right.items():
        found = (f"{sum(case.right[length])} of {len(before)}" for case in cases)
        table.add_row(f"facts found in {length} tokens", *found)
        same = (
            sum(one == other for one, other in zip(case.answers[length], cases[0].answers[length], strict=True))
            for case in cases
        )
        table.add_row("answers as not quantized", *(f"{count} of {len(before)}" for count in same))
    if cases[0].rates:
        table.add_row("decode, tokens/s", *(f"{statistics.median(case.rates):.1f}" for case in cases))
        table.add_row("ratio", *(f"{statistics.median(case.ratios):.2f}" for case in cases))
        table.add_row("processor time, with prefill", *(f"{statistics.median(case.work):.2f}" for case in cases))
    return table
