"""`python -m benchmarks kv`: what quantized keys and values cost in quality and speed.

The same model with keys and values as it computes them, with 8 bits and with 4, in turns, in one process: perplexity of
plain text, facts found in long texts, and the rates at which rows prefill and decode. A shape of random weights has
speed only.
"""

from __future__ import annotations

import math
import statistics
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

import mlx.core as mx
from rich.markup import escape
from rich.table import Table

from benchmarks.models import Bench
from benchmarks.needles import Kind, plain_text
from benchmarks.specprefill_quality import ANSWER, Question, questions
from paceline.bench.offline import Trace, random_prompts
from paceline.bench.wire import BenchError
from paceline.cache.kv_quantization import KVQuantization
from paceline.cache.layers import AttentionCache
from paceline.cache.slot_plan import ROWS
from paceline.conversation.text import TextStream
from paceline.conversation.tokenizer import Tokenizer
from paceline.engine import sequence
from paceline.types import RequestId, Sampling

BITS = (16, 8, 4)  # 16: not quantized, whatever the type
CHARACTERS = 8  # a token of text has fewer, on average
CHUNK = 256  # tokens of a pass over a text
KIND: Kind = "retrieval"
Watch = Callable[[str], None]


@dataclass(slots=True)
class Speed:
    """By turn; ratios are to the first case of the same turn."""

    prefill: list[float] = field(default_factory=list)  # tokens per second, all rows together
    prefill_ratios: list[float] = field(default_factory=list)
    decode: list[float] = field(default_factory=list)
    decode_ratios: list[float] = field(default_factory=list)
    work: list[float] = field(default_factory=list)  # processor time to the first's: other processes hardly change it


@dataclass(slots=True)
class Case:
    bits: int | None  # None: not quantized
    token_bytes: int = 0  # of a token in all attention layers
    form: str = ""  # how keys and values lie
    losses: list[float] = field(default_factory=list)  # mean negative log likelihoods, by text
    right: dict[int, tuple[bool, ...]] = field(default_factory=dict)  # by length of the prompts
    answers: dict[int, list[str]] = field(default_factory=dict)
    speeds: dict[int, Speed] = field(default_factory=dict)  # by length of the prompts

    @property
    def perplexity(self) -> float:
        return math.exp(statistics.mean(self.losses))

    def figures(self) -> dict[str, Any]:
        return {
            "kv_bits": self.bits,
            "form": self.form,
            "bytes_per_token": self.token_bytes,
            "perplexity": self.perplexity if self.losses else None,
            "found": {length: [int(one) for one in right] for length, right in self.right.items()},
            "speed": {length: asdict(speed) for length, speed in self.speeds.items()},
        }


class KVBench:
    def __init__(
        self, bench: Bench, tokenizer: Tokenizer | None, group_size: int = 64, bits: Sequence[int] = BITS
    ) -> None:
        self.bench, self.tokenizer = bench, tokenizer
        self.cases = [Case(None if each == 16 else each) for each in bits]
        self.group_size = group_size

    def quantized(self, case: Case) -> AbstractContextManager[None]:
        return self.bench.quantized_kv(None if case.bits is None else KVQuantization(case.bits, self.group_size))

    def measure_size(self) -> None:
        for case in self.cases:
            with self.quantized(case):
                case.token_bytes = self.bench.on_engine_thread(self._token_bytes)
                case.form = str(self.bench.model.language.kv or "not quantized")

    def measure_text(self, texts: int, tokens: int, watch: Watch) -> None:
        """Perplexity of so many texts of so many tokens."""
        for place in range(texts):
            text = plain_text(tokens * CHARACTERS, place)
            ids = self._words.encode(text, add_special_tokens=False)[:tokens]
            for case in self.cases:
                watch(f"text {place + 1} of {texts}, {name(case.bits)}")
                with self.quantized(case):
                    case.losses.append(self.bench.on_engine_thread(partial(self._loss, ids)))

    def measure_needles(self, lengths: Sequence[int], prompts: int, watch: Watch) -> None:
        for length in lengths:
            asked = questions(self._words, KIND, length, prompts)
            for case in self.cases:
                watch(f"{prompts} texts of {length} tokens, {name(case.bits)}")
                with self.quantized(case):
                    case.answers[length] = said = self._answers(asked)
                case.right[length] = tuple(one.needle.fact.is_in(text) for one, text in zip(asked, said, strict=True))

    def measure_speed(
        self,
        rows: int,
        lengths: Sequence[int],
        tokens: int,
        turns: int,
        watch: Watch,
        keep: Callable[[], None] = lambda: None,
    ) -> None:
        """Every case once a turn, in an order that rotates; a first turn warms up. `keep` is called after every other
        one."""
        for length in lengths if turns else ():
            speeds = [case.speeds.setdefault(length, Speed()) for case in self.cases]
            for turn in range(turns + 1):
                prompts = random_prompts(rows, length, self.bench.model.language.vocab_size, turn)
                order = deque(range(len(self.cases)))
                order.rotate(turn)
                measured = {}
                for place in order:
                    case = self.cases[place]
                    what = f"{rows} rows of {length} tokens, turn {turn} of {turns}, {name(case.bits)}"
                    watch(what)
                    with self.quantized(case):
                        begun = time.process_time()
                        trace, _ = self.bench.engine_run(prompts, tokens)
                        work = time.process_time() - begun
                    if trace.failures:
                        raise BenchError(f"{what}: {trace.failures[0]}")
                    first = max(times[0] for times in trace.times.values()) - trace.begun
                    prefill, decode = rows * length / first, trace.rate(skip=tokens // 4)
                    measured[place] = (prefill, decode, work)
                    watch(f"  prefill {first:.2f} s, {prefill:,.0f} tokens/s; decode {decode:,.1f} tokens/s")
                for place, speed in enumerate(speeds if turn else ()):
                    prefill, decode, work = measured[place]
                    speed.prefill.append(prefill)
                    speed.prefill_ratios.append(prefill / measured[0][0])
                    speed.decode.append(decode)
                    speed.decode_ratios.append(decode / measured[0][1])
                    speed.work.append(work / measured[0][2])
                if turn:
                    keep()

    @property
    def _words(self) -> Tokenizer:
        if self.tokenizer is None:
            raise BenchError(f"{self.bench.source} has no tokenizer: its speed can be measured, its answers cannot.")
        return self.tokenizer

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
        eos = self._words.eos_ids
        for place, question in enumerate(asked):
            request = sequence.EngineRequest(
                RequestId(f"question-{place}"), question.prompt, sampling, ANSWER, eos_ids=eos
            )
            text = TextStream(self._words.detokenizer())
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
    for length in cases[0].speeds:
        speeds = [case.speeds[length] for case in cases]
        rows = (
            (f"prefill of {length} tokens, tokens/s", "{:,.0f}", [speed.prefill for speed in speeds]),
            ("ratio", "{:.2f}", [speed.prefill_ratios for speed in speeds]),
            (f"decode after {length} tokens, tokens/s", "{:,.1f}", [speed.decode for speed in speeds]),
            ("ratio", "{:.2f}", [speed.decode_ratios for speed in speeds]),
            ("processor time of both", "{:.2f}", [speed.work for speed in speeds]),
        )
        for label, form, figures in rows:
            table.add_row(label, *(form.format(statistics.median(turns)) for turns in figures))
    return table
