"""`python -m benchmarks speculate --trace json|beside`: answers with a schema, and free streams beside such an answer.

`json`: every row answers with a schema; without drafts, and with the tokens drafted that the grammar forces. `beside`:
the pace of free streams alone, with another free one, and with one that answers with a schema. All in turns in one run.

Shapes of random weights have no tokenizer: they take that of `paceline-mini`, and weights that write JSON as it is
usually written (`preferences`). Their text is noise, but it follows the schema, and strings end at their longest.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.models import Bench
from benchmarks.shapes import SHAPES, prefer, random_model
from benchmarks.speculate import MAX_SEQS, Measured, Mode, counted, in_turns
from paceline.bench.offline import Trace, random_prompts
from paceline.bench.wire import BenchError
from paceline.conversation.grammar import Compiled, Grammars, GrammarSpec
from paceline.conversation.tokenizer import Tokenizer
from paceline.models.files import DEFAULT_FOLDER, read_config, resolve
from paceline.models.loader import LoadedModel
from paceline.types import Grammar, RequestId, Sampling, Speculation

MAX_TOKENS = 512  # of an answer with a schema, which ends before
BESIDE = 300  # items of the answer beside free streams: more than it is given time for
WAIT = 600.0  # seconds until a run has failed


def _record(**properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _text(most: int) -> dict[str, Any]:
    """Bounded, so that random weights end; without signs that could also end the object around it."""
    return {"type": "string", "pattern": f"^[A-Za-z0-9 .-]{{1,{most}}}$"}


def _integer(most: int) -> dict[str, Any]:
    return {"type": "integer", "minimum": 1, "maximum": most}


ITEM = _record(
    product=_text(24),
    quantity=_integer(99),
    price_in_cents=_integer(99999),
    category={"enum": ["food", "tools", "toys"]},
)
ORDER = _record(
    order_number=_integer(999999),
    status={"enum": ["pending", "shipped", "delivered", "cancelled"]},
    customer=_record(name=_text(24), city=_text(16), country=_text(16)),
    items={"type": "array", "minItems": 2, "maxItems": 2, "items": ITEM},
    paid={"type": "boolean"},
    note=_text(48),
)
ITEMS = {"type": "array", "minItems": BESIDE, "maxItems": BESIDE, "items": ITEM}
_ITEM = {"product": "Rope", "quantity": 2, "price_in_cents": 350, "category": "tools"}
SAMPLE = json.dumps(
    {
        "order_number": 1024,
        "status": "shipped",
        "customer": {"name": "Ann", "city": "Rome", "country": "Italy"},
        "items": [_ITEM, _ITEM],
        "paid": True,
        "note": "None",
    },
    separators=(",", ":"),
)

PEOPLE = (("Ann", "Rome", "Italy"), ("Luis", "Lima", "Peru"), ("Mei", "Osaka", "Japan"), ("Omar", "Cairo", "Egypt"))
THINGS = ("ropes", "apples", "hammers", "dolls", "loaves", "saws", "kites")


def preferences(tokenizer: Tokenizer, vocab_size: int) -> NDArray[np.float32]:
    """How much each token is wanted: those of an order that is written without blanks, then other words; the longest of
    those that are allowed first. That is nearly how a tokenizer splits such a text."""
    usual = set(tokenizer.encode(SAMPLE, add_special_tokens=False))
    scores = np.full(vocab_size, -8.0, dtype=np.float32)
    for token in range(min(tokenizer.vocab_size, vocab_size)):
        text = tokenizer.token_text(token)
        if token in usual:
            scores[token] = min(len(text), 12) if text.isalnum() else 0.5 * len(text) - 6
        elif text.isalnum() and text.isascii():
            scores[token] = min(len(text), 12) / 4 - 4
    return scores


class StructuredBench(Bench):
    """A model with a tokenizer, and grammars that draft."""

    def __init__(self, source: str, layout: str = "auto", compile: bool = True) -> None:
        super().__init__(source, layout, compile=compile, methods=("grammar",))
        self.scheduler.max_num_seqs = MAX_SEQS  # no more rows are warmed up
        folder = DEFAULT_FOLDER if source in SHAPES else self._folder()
        self.tokenizer = Tokenizer.load(folder, read_config(folder))
        self._grammars: Grammars | None = None

    def _folder(self) -> Path:
        return resolve(self.source)

    def _load(self) -> LoadedModel:
        if self.source not in SHAPES:
            return super()._load()
        model = random_model(self.source, drafts=False)
        prefer(model, preferences(self.tokenizer, model.language.vocab_size))
        return model

    def grammar(self, schema: dict[str, Any]) -> Compiled:
        if self._grammars is None:
            vocab = self.model.language.vocab_size
            self._grammars = Grammars(self.tokenizer, vocab, self.tokenizer.eos_ids, drafts=True)
        return self._grammars.compile(GrammarSpec.json_schema(schema))

    def prompt(self, number: int) -> tuple[int, ...]:
        name, city, country = PEOPLE[number % len(PEOPLE)]
        first, second = (THINGS[(number + place) % len(THINGS)] for place in (0, 3))
        told = f"{name} from {city}, {country}, has ordered {2 + number % 7} {first} and {1 + number % 5} {second}."
        asked = f"{told} Order {1000 + number} is shipped and paid. Give me the order as JSON."
        text = self.tokenizer.render([{"role": "user", "content": asked}])
        return tuple(self.tokenizer.encode(text, add_special_tokens=False))

    def add(
        self,
        trace: Trace,
        prompts: Sequence[tuple[int, ...]],
        speculation: Speculation,
        tokens: int,
        grammars: Sequence[Grammar | None],
        name: str = "row",
    ) -> None:
        for place, (prompt, grammar) in enumerate(zip(prompts, grammars, strict=True)):
            sampling = Sampling(0.0, max_tokens=tokens, ignore_eos=grammar is None, speculation=speculation)
            ends = frozenset() if grammar is None else self.tokenizer.eos_ids
            sink = trace.sink(place)
            self.engine.submit(self.sequence(f"{name}-{place}", prompt, sampling, sink, grammar=grammar, ends=ends))

    @staticmethod
    def wait(trace: Trace) -> None:
        if not trace.done.wait(timeout=WAIT):
            raise BenchError(f"A run has not ended within {WAIT:g} seconds.")
        if trace.failures:
            raise BenchError(f"A row has failed: {trace.failures[0]}")


def answers(
    bench: StructuredBench, rows: Sequence[int], turns: int, watch: Callable[[str], None] = lambda text: None
) -> list[Mode]:
    """Every row answers with a schema: without drafts, and with what the grammar forces."""
    compiled = bench.grammar(ORDER)
    modes: list[Mode] = []

    def run(mode: Mode, turn: int) -> Measured:
        prompts = [bench.prompt(97 * turn + place) for place in range(mode.rows)]
        trace = Trace()
        with counted(bench, mode, counts=turn > 0):
            bench.add(trace, prompts, mode.speculation, MAX_TOKENS, [compiled.matcher() for _ in prompts])
            bench.wait(trace)
        mode.text = bench.tokenizer.decode(trace.tokens[0])
        made = sum(map(len, trace.tokens.values()))
        begin = max(times[0] for times in trace.times.values())
        end = max(times[-1] for times in trace.times.values())
        after = sum(moment > begin for times in trace.times.values() for moment in times)
        return Measured(after / (end - begin), made)

    for count in rows:
        mine = [Mode(count, "off"), Mode(count, "auto")]
        for turn in (-1, -2):
            run(mine[-1], turn)  # learns
        in_turns(mine, turns, run, watch)
        modes += mine
    return modes


def beside(
    bench: StructuredBench,
    rows: Sequence[int],
    tokens: int,
    turns: int,
    watch: Callable[[str], None] = lambda text: None,
) -> list[Mode]:
    """The pace of free streams alone and beside one more row: a free one, one that answers with a schema without
    drafts, and with them."""
    compiled = bench.grammar(ITEMS)
    vocab = bench.model.language.vocab_size
    modes: list[Mode] = []

    def run(mode: Mode, turn: int) -> Measured:
        free, other = Trace(), Trace()
        prompts = random_prompts(mode.rows, 32, vocab, 97 + turn)
        with counted(bench, mode, counts=turn > 0):
            if mode.label != ALONE:
                grammar = None if mode.label == FREE else compiled.matcher()
                bench.add(other, [bench.prompt(97 + turn)], mode.speculation, 1 << 14, [grammar], "other")
            bench.add(free, prompts, "auto", tokens, [None] * len(prompts))
            bench.wait(free)
            if mode.label != ALONE:
                bench.engine.abort(RequestId("other-0"))
                bench.wait(other)
        begin = max(times[0] for times in (*free.times.values(), *other.times.values()))
        end = min(times[-1] for times in free.times.values())
        if other.times and other.times[0][-1] < begin + 0.9 * (end - begin):
            raise BenchError("The other row ended before the free ones: give fewer --output-tokens.")
        mode.text = bench.tokenizer.decode(other.tokens[0][:64]) if mode.label in (RULED, DRAFTED) else ""
        after = sum(begin < moment <= end for times in free.times.values() for moment in times)
        return Measured(after / (end - begin), sum(map(len, free.tokens.values())))

    for count in rows:
        mine = [
            Mode(count, "auto", label=ALONE),
            Mode(count, "auto", label=FREE),
            Mode(count, "off", label=RULED),
            Mode(count, "auto", label=DRAFTED),
        ]
        run(mine[-1], -1)  # learns
        in_turns(mine, turns, run, watch)
        modes += mine
    return modes


ALONE, FREE, RULED, DRAFTED = "alone", "+ a free row", "+ a schema, off", "+ a schema, auto"
