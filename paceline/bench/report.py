"""From recordings to figures and JSON.

What the figures mean. A *chunk* is a server-sent event that carries output (text, reasoning, a tool call);
a bare role, a bare finish reason, usage and comments are none. Times are seconds.

- `ttft_s`: from before the connection is opened to a stream's first chunk.
- `chunk_gap_s`: from each chunk of a stream to its next, all streams' gaps together: what a reader sees.
- `inter_token_s`: each of those gaps divided by its stream's mean tokens per chunk. Servers hold tokens back
  (half a character, a word, an accepted draft) and then send several in one chunk, so that gaps alone would
  call the one that sends less often the slower one. Where a chunk is a token, the two are equal.
- `end_to_end_s`: from before the connection is opened to the stream's last event.
- `output_tokens_per_s`, `prompt_tokens_per_s`: tokens of all whole streams over the wall time, which is from
  the run's first request to the end of its last. Prompt tokens include those that the server had cached.
- `long_prompt`: the one extra prompt. Its tokens and time count in the totals, its latencies only here. Its
  *window* lasts from its sending to its first chunk; a gap of another stream belongs to the window when it
  overlaps it, however early it began or late it ended.

Latencies and tokens are those of whole streams; a failed one counts under its kind of error and nowhere else.
Token counts are the server's usage. Where it sends none, output tokens are counted in chunks, prompt tokens
are the number asked for, and `tokens_from` says so. Percentiles interpolate between neighbours.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from rich.markup import escape
from rich.table import Table

from paceline.bench.load import LongPrompt, Outcome, Recording

SCHEMA = "paceline.bench.serve/1"
UNEQUAL = 0.02  # share of tokens by which two servers' work may differ
NOTABLE_CACHE = 0.05  # share of prompt tokens
SLOW_CONNECT = 0.2  # seconds; a loopback connection takes less than a millisecond


@dataclass(frozen=True, slots=True)
class Distribution:
    count: int
    mean: float
    p50: float
    p95: float
    p99: float
    max: float

    @classmethod
    def of(cls, values: Iterable[float]) -> Distribution | None:
        """None of no values."""
        ordered = sorted(values)
        if not ordered:
            return None
        p50, p95, p99 = np.percentile(ordered, (50, 95, 99)).tolist()
        return cls(len(ordered), statistics.fmean(ordered), p50, p95, p99, ordered[-1])


@dataclass(frozen=True, slots=True)
class LongPromptReport:
    asked_prompt_tokens: int
    prompt_tokens: int | None  # the server's count
    sent_at_s: float
    failure: str | None
    ttft_s: float | None
    streams_decoding: int  # when it was sent
    streams_in_window: int  # with a gap in it
    chunk_gap_s: Distribution | None  # the others', in the window
    inter_token_s: Distribution | None


@dataclass(frozen=True, slots=True)
class Report:
    """One run against one server."""

    label: str
    url: str
    model: str
    ok: int
    errors: Mapping[str, int]  # by kind
    error_examples: Mapping[str, str]  # one message of each kind
    wall_s: float
    output_tokens: int
    prompt_tokens: int
    cached_tokens: int | None
    tokens_from: Literal["usage", "chunks", "mixed"]
    tokens_per_chunk: float | None
    output_tokens_per_s: float
    prompt_tokens_per_s: float
    requests_per_s: float
    ttft_s: Distribution | None
    chunk_gap_s: Distribution | None
    inter_token_s: Distribution | None
    end_to_end_s: Distribution | None
    connect_s: Distribution | None
    client_cpu_share: float  # of one core
    long_prompt: LongPromptReport | None
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Figure:
    """A number to print and to compare; `path` finds it in a report."""

    name: str
    path: str
    higher_is_better: bool = False
    unit: Literal["s", "per s"] = "s"


FIGURES: Sequence[Figure] = (
    Figure("output tokens per second", "output_tokens_per_s", higher_is_better=True, unit="per s"),
    Figure("prompt tokens per second", "prompt_tokens_per_s", higher_is_better=True, unit="per s"),
    Figure("wall time", "wall_s"),
    *(
        Figure(f"{name}, {point}", f"{path}.{point}")
        for name, path in (
            ("time to first token", "ttft_s"),
            ("inter-token latency", "inter_token_s"),
            ("chunk gap", "chunk_gap_s"),
            ("end to end", "end_to_end_s"),
        )
        for point in ("p50", "p95", "p99", "max")
    ),
    Figure("long prompt: its time to first token", "long_prompt.ttft_s"),
    *(
        Figure(f"long prompt: others' {name}, {point}", f"long_prompt.{path}.{point}")
        for name, path in (("inter-token latency", "inter_token_s"), ("chunk gap", "chunk_gap_s"))
        for point in ("p50", "p99", "max")
    ),
)


@dataclass(frozen=True, slots=True)
class Ratio:
    """One figure of two servers: medians over the pairs of runs, and the median of the pairs' ratios."""

    figure: Figure
    first: float
    second: float
    ratios: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.ratios)

    @property
    def first_is_ahead(self) -> bool | None:
        """None when neither is."""
        if self.median == 1:
            return None
        return (self.median > 1) == self.figure.higher_is_better


def report(
    recording: Recording,
    *,
    label: str,
    url: str,
    model: str,
    long_prompt: LongPrompt | None = None,
    notes: Iterable[str] = (),
) -> Report:
    """Work out one run's figures."""
    whole = [outcome for outcome in recording.outcomes if outcome.failure is None]
    failed = [outcome for outcome in recording.outcomes if outcome.failure is not None]
    counted = whole + ([recording.long] if recording.long and recording.long.failure is None else [])
    wall = max(recording.ended - recording.started, 1e-9)
    output_tokens = sum(output_tokens_of(outcome) for outcome in counted)
    prompt_tokens = sum(_prompt_tokens_of(outcome) for outcome in counted)
    chunks = sum(len(outcome.chunk_times) for outcome in counted)
    cached = [outcome.cached_tokens for outcome in counted if outcome.cached_tokens is not None]
    with_usage = sum(outcome.completion_tokens is not None for outcome in counted)
    connects = Distribution.of(o.connected - o.started for o in whole if o.connected is not None)
    return Report(
        label=label,
        url=url,
        model=model,
        ok=len(whole),
        errors=dict(Counter(str(outcome.failure) for outcome in failed)),
        error_examples={str(outcome.failure): outcome.message for outcome in reversed(failed)},
        wall_s=wall,
        output_tokens=output_tokens,
        prompt_tokens=prompt_tokens,
        cached_tokens=sum(cached) if cached else None,
        tokens_from="usage" if with_usage == len(counted) else "mixed" if with_usage else "chunks",
        tokens_per_chunk=output_tokens / chunks if chunks else None,
        output_tokens_per_s=output_tokens / wall,
        prompt_tokens_per_s=prompt_tokens / wall,
        requests_per_s=len(whole) / wall,
        ttft_s=Distribution.of(o.chunk_times[0] - o.started for o in whole if o.chunk_times),
        chunk_gap_s=Distribution.of(end - start for o in whole for start, end in pairwise(o.chunk_times)),
        inter_token_s=Distribution.of(
            (end - start) / _tokens_per_chunk(o) for o in whole for start, end in pairwise(o.chunk_times)
        ),
        end_to_end_s=Distribution.of(o.ended - o.started for o in whole),
        connect_s=connects,
        client_cpu_share=recording.client_cpu / wall,
        long_prompt=_long_prompt(recording, long_prompt, whole),
        notes=(*notes, *_notes(recording, whole, connects, long_prompt)),
    )


def ratios(first: Sequence[Report], second: Sequence[Report]) -> list[Ratio]:
    """Compare runs pair by pair, leaving out a pair of which one lacks the figure."""
    compared: list[Ratio] = []
    for figure in FIGURES:
        pairs = [(value(a, figure), value(b, figure)) for a, b in zip(first, second, strict=True)]
        present = [(a, b) for a, b in pairs if a is not None and b]
        if present:
            ours, theirs = zip(*present, strict=True)
            quotients = tuple(a / b for a, b in present)
            compared.append(Ratio(figure, statistics.median(ours), statistics.median(theirs), quotients))
    return compared


def unequal_work(first: Sequence[Report], second: Sequence[Report]) -> str | None:
    """A warning when two servers did not do the same: their figures then cannot be set side by side."""
    for name in ("prompt_tokens", "output_tokens"):
        ours, theirs = (sum(getattr(run, name) for run in runs) for runs in (first, second))
        if abs(ours - theirs) > UNEQUAL * max(ours, theirs):
            return (
                f"{first[0].label} counts {ours:,} {name.replace('_', ' ')}, {second[0].label} {theirs:,}: "
                "not the same work. If one ignores ignore_eos, compare with --no-ignore-eos."
            )
    return None


def value(of: Report, figure: Figure) -> float | None:
    found: Any = of
    for name in figure.path.split("."):
        found = getattr(found, name, None)
    return None if found is None else float(found)


def output_tokens_of(outcome: Outcome) -> int:
    return len(outcome.chunk_times) if outcome.completion_tokens is None else outcome.completion_tokens


def as_json(
    settings: Mapping[str, Any], runs: Sequence[Report], compared: Sequence[Ratio] | None = None
) -> dict[str, Any]:
    """The document that `--json` writes. With `compared`, the runs alternate between two servers."""
    document: dict[str, Any] = {
        "schema": SCHEMA,
        "settings": dict(settings),
        "runs": [asdict(run) for run in runs],
    }
    if compared is not None:
        document["compare"] = {
            "ratio": f"{runs[0].label} / {runs[1].label}",
            "warning": unequal_work(runs[::2], runs[1::2]),
            "figures": {
                ratio.figure.path: {
                    "first_median": ratio.first,
                    "second_median": ratio.second,
                    "ratio_median": ratio.median,
                    "ratios": list(ratio.ratios),
                    "higher_is_better": ratio.figure.higher_is_better,
                }
                for ratio in compared
            },
        }
    return document


def duration(seconds: float) -> str:
    return f"{seconds * 1000:,.1f} ms" if seconds < 1 else f"{seconds:,.2f} s"


def _long_prompt(recording: Recording, asked: LongPrompt | None, others: Sequence[Outcome]) -> LongPromptReport | None:
    long = recording.long
    if long is None or asked is None:
        return None
    end = long.chunk_times[0] if long.chunk_times else long.ended
    gaps = [(other, list(_overlapping(other, long.started, end))) for other in others]
    return LongPromptReport(
        asked_prompt_tokens=asked.tokens,
        prompt_tokens=long.prompt_tokens,
        sent_at_s=long.started - recording.started,
        failure=long.failure,
        ttft_s=end - long.started if long.chunk_times else None,
        streams_decoding=_decoding(others, long.started),
        streams_in_window=sum(bool(found) for _, found in gaps),
        chunk_gap_s=Distribution.of(gap for _, found in gaps for gap in found),
        inter_token_s=Distribution.of(gap / _tokens_per_chunk(other) for other, found in gaps for gap in found),
    )


def _decoding(outcomes: Sequence[Outcome], when: float) -> int:
    return sum(bool(o.chunk_times) and o.chunk_times[0] <= when < o.chunk_times[-1] for o in outcomes)


def _overlapping(outcome: Outcome, start: float, end: float) -> Iterator[float]:
    for one, other in pairwise(outcome.chunk_times):
        if one < end and other > start:
            yield other - one


def _tokens_per_chunk(outcome: Outcome) -> float:
    return (output_tokens_of(outcome) / len(outcome.chunk_times)) or 1.0


def _prompt_tokens_of(outcome: Outcome) -> int:
    return outcome.asked_prompt_tokens if outcome.prompt_tokens is None else outcome.prompt_tokens


def _notes(
    recording: Recording,
    whole: Sequence[Outcome],
    connects: Distribution | None,
    long_prompt: LongPrompt | None,
) -> Iterator[str]:
    """What a reader must know before believing the figures."""
    early = sum(outcome.finish_reason == "stop" for outcome in whole)
    if early:
        yield f"{early} of {len(whole)} streams met an end token before their output length."
    prompts = sum(_prompt_tokens_of(outcome) for outcome in whole)
    cached = sum(outcome.cached_tokens or 0 for outcome in whole)
    if prompts and cached / prompts > NOTABLE_CACHE:
        yield f"{cached / prompts:.0%} of the prompt tokens were cached: for cold prompts take a new --seed."
    silent = sum(outcome.prompt_tokens is None for outcome in whole)
    if silent:
        yield f"{silent} of {len(whole)} streams had no usage: output counted in chunks, prompts as asked."
    if connects is not None and connects.max > SLOW_CONNECT:
        yield f"Connecting took up to {duration(connects.max)}, within the time to first token."
    if recording.long is not None:
        begun = [outcome for outcome in whole if outcome.started <= recording.long.started < outcome.ended]
        if (decoding := _decoding(begun, recording.long.started)) < len(begun) or not begun:
            yield (
                f"{decoding} of {len(begun)} streams were decoding when the long prompt was sent: "
                "for the cost to all of them send it later, or lengthen the outputs."
            )
    elif long_prompt is not None:
        yield f"The run ended before {long_prompt.at:g} s, so the long prompt was not sent: make it longer."


def summary_table(of: Report) -> Table:
    """What happened, in totals."""
    table = Table(title=escape(of.label), title_justify="left", show_header=False)
    table.add_column(style="bold")
    table.add_column(justify="right")
    table.add_row("address", escape(of.url))
    table.add_row("model", escape(of.model))
    table.add_row("requests", f"{of.ok} ok, {sum(of.errors.values())} failed")
    for kind, count in of.errors.items():
        table.add_row(f"  {kind}", f"{count}  [dim]{escape(of.error_examples[kind])}[/dim]")
    counted = {"usage": "", "chunks": " (counted in chunks)", "mixed": " (partly counted in chunks)"}
    table.add_row("output tokens", f"{of.output_tokens:,}{counted[of.tokens_from]}")
    cached = "" if of.cached_tokens is None else f", {of.cached_tokens:,} of them cached"
    table.add_row("prompt tokens", f"{of.prompt_tokens:,}{cached}")
    table.add_row("output tokens per second", f"{of.output_tokens_per_s:,.1f}")
    table.add_row("prompt tokens per second", f"{of.prompt_tokens_per_s:,.1f}")
    table.add_row("tokens per chunk", "-" if of.tokens_per_chunk is None else f"{of.tokens_per_chunk:.2f}")
    table.add_row("wall time", duration(of.wall_s))
    table.add_row("this client's CPU", f"{of.client_cpu_share:.1%} of a core")
    return table


def latency_table(of: Report) -> Table:
    """How long things took, in percentiles."""
    table = Table(title="latency", title_justify="left")
    for column in ("", "p50", "p95", "p99", "max", "samples"):
        table.add_column(column, justify="left" if not column else "right")
    rows: list[tuple[str, Distribution | None]] = [
        ("time to first token", of.ttft_s),
        ("inter-token latency", of.inter_token_s),
        ("chunk gap", of.chunk_gap_s),
        ("end to end", of.end_to_end_s),
    ]
    if (long := of.long_prompt) is not None and long.ttft_s is not None:
        rows.append(("inter-token, long prompt waiting", long.inter_token_s))
        rows.append(("chunk gap, long prompt waiting", long.chunk_gap_s))
    for name, spread in rows:
        if spread is None:
            table.add_row(name, *["-"] * 4, "0")
        else:
            points = (spread.p50, spread.p95, spread.p99, spread.max)
            table.add_row(name, *map(duration, points), f"{spread.count:,}")
    return table


def compare_table(compared: Sequence[Ratio], labels: tuple[str, str], pairs: int) -> Table:
    """Two servers, figure by figure."""
    title = f"{labels[0]} against {labels[1]}, medians of {pairs} interleaved pair{'s' * (pairs != 1)}"
    table = Table(title=escape(title), title_justify="left")
    table.add_column("")
    for column in (*labels, f"{labels[0]} / {labels[1]}", "ahead"):
        table.add_column(escape(column), justify="right")
    for ratio in compared:
        shown = duration if ratio.figure.unit == "s" else "{:,.1f}".format
        ahead = {True: labels[0], False: labels[1], None: "-"}[ratio.first_is_ahead]
        table.add_row(ratio.figure.name, shown(ratio.first), shown(ratio.second), f"{ratio.median:.3f}", escape(ahead))
    return table


def long_prompt_line(of: LongPromptReport) -> str:
    size = of.prompt_tokens or of.asked_prompt_tokens
    if of.ttft_s is None:
        return f"The long prompt ({size:,} tokens) failed: {of.failure or 'an empty answer'}."
    return (
        f"The long prompt ({size:,} tokens) was sent at {duration(of.sent_at_s)} and waited "
        f"{duration(of.ttft_s)} for its first token; {of.streams_decoding} streams were decoding then."
    )
