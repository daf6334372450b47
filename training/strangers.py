"""A stranger's examination of a model: what people ask, in other words than those it was trained with.

    python -m training.strangers [MODEL_OR_URL] [--only KIND ...] [--count N] [--seed N] [--out FILE.jsonl]

The questions were written without a look at the training data. They are greedy, but for the README's first request.
Each kind has its written rules in the docstring of its module:

| kind | module | figures |
|---|---|---|
| find | strangers_find | retrieval at 1k, 4k, 8k and 16k tokens |
| ruler, passkey, haystack | strangers_public | published formats at 1k, 4k and 8k tokens |
| pictures | strangers_pictures | drawn shapes |
| json, tools | strangers_json, strangers_tools | unseen schemas |
| sums | strangers_sums | arithmetic to two digits |
| talk | strangers_talk | eight sorts of talk |
| know | strangers_know | what cannot be known, and what can |
| first | strangers_talk | the README's first request |

It prints a table, and with --out writes one line of JSON for each prompt. `--only` takes kinds or figures; a figure's
name may be cut short ("find 1").
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from training import (
    strangers_find,
    strangers_json,
    strangers_know,
    strangers_pictures,
    strangers_public,
    strangers_sums,
    strangers_talk,
    strangers_tools,
)
from training.strangers_ask import Clock, Judged, Question, Stranger, stranger
from training.strangers_filler import KINDS, Filler
from training.strangers_sources import Material, material

LENGTHS = {"1k": 1_000, "4k": 4_000, "8k": 8_000, "16k": 16_000}
TALK = ("greeting", "thanks", "who", "abilities", "story", "three", "definition", "yes or no")
PUBLIC = (*strangers_public.RULER, "passkey", "haystack")

Builder = Callable[[int, int, Filler], list[Question]]  # count, seed, filler


@dataclass(frozen=True, slots=True)
class Figure:
    name: str
    kind: str
    goal: float | None  # None: shown, without a goal
    count: int
    build: Builder


def figures() -> list[Figure]:
    """All rows of the table, in order."""
    rows = []
    for name, tokens in LENGTHS.items():
        build: Builder = partial(_find, tokens, f"find {name}")
        rows.append(Figure(f"find {name}", "find", 0.8 if name == "16k" else 0.9, 200, build))
    for task in PUBLIC:
        for name in ("1k", "4k", "8k"):
            goal = 0.9 if (task, name) == ("ruler single", "4k") else None
            build = partial(_public, LENGTHS[name], task, f"{task} {name}")
            rows.append(Figure(f"{task} {name}", task.split()[0], goal, 200, build))
    rows += [
        Figure("pictures", "pictures", 0.95, 200, lambda n, s, f: strangers_pictures.questions(n, s, "pictures")),
        Figure("json schema", "json", 0.95, 200, partial(_json, "json schema", True)),
        Figure("json asked", "json", 0.95, 200, partial(_json, "json asked", False)),
        Figure("tools", "tools", 0.95, 200, lambda n, s, f: strangers_tools.questions(n, s, "tools")),
        Figure("sums", "sums", 0.9, 200, lambda n, s, f: strangers_sums.questions(n, s, "sums")),
    ]
    rows += [Figure(f"talk {sort}", "talk", 0.9, 100, partial(_talk, sort, f"talk {sort}")) for sort in TALK]
    rows += [
        Figure("unknowable", "know", 0.8, 200, partial(_know, "unknowable", False)),
        Figure("knowable", "know", 0.95, 200, partial(_know, "knowable", True)),
        Figure("first request", "first", 1.0, 20, partial(_first, "first request")),
    ]
    return rows


def _find(tokens: int, figure: str, count: int, seed: int, filler: Filler) -> list[Question]:
    return strangers_find.questions(count, seed, filler, tokens, figure)


def _public(tokens: int, task: str, figure: str, count: int, seed: int, filler: Filler) -> list[Question]:
    return strangers_public.questions(count, seed, filler, tokens, task, figure)


def _json(figure: str, with_schema: bool, count: int, seed: int, filler: Filler) -> list[Question]:
    return strangers_json.questions(count, seed, figure, with_schema=with_schema)


def _talk(sort: str, figure: str, count: int, seed: int, filler: Filler) -> list[Question]:
    return strangers_talk.questions(count, seed, figure, filler.material.words, sort)


def _know(figure: str, knowable: bool, count: int, seed: int, filler: Filler) -> list[Question]:
    return strangers_know.questions(count, seed, figure, filler.material.words, knowable=knowable)


def _first(figure: str, count: int, seed: int, filler: Filler) -> list[Question]:
    return strangers_talk.first_requests(count, figure, filler.material.words)


def chosen(only: Iterable[str]) -> list[Figure]:
    """Those of a kind, or whose names begin so. Raises ValueError for what is neither."""
    rows, wanted = figures(), list(only)
    for name in wanted:
        if not any(row.kind == name or row.name.startswith(name) for row in rows):
            raise ValueError(
                f"{name!r} is no kind and no figure; kinds are {', '.join(dict.fromkeys(r.kind for r in rows))}"
            )
    return [row for row in rows if not wanted or any(row.kind == n or row.name.startswith(n) for n in wanted)]


async def measured(partner: Stranger, known: Material) -> Filler:
    """Filler that knows how many characters of each kind this model's tokens have."""
    plain = Filler(known)
    per_token = {}
    for kind in KINDS:
        sample = plain.sample(kind)
        per_token[kind] = len(sample) / await partner.count_tokens(sample)
    needles = "\n".join(strangers_public.needle_samples(60))
    per_token["needles"] = len(needles) / await partner.count_tokens(needles)
    return Filler(known, per_token)


def table(rows: Sequence[Figure], judged: Sequence[Judged]) -> str:
    lines = ["| figure | value | goal | prompts |", "|---|---|---|---|"]
    for row in rows:
        own = [one for one in judged if one.question.figure == row.name]
        right = sum(not one.wrong for one in own)
        goal = "" if row.goal is None else f"{row.goal:.2f}" + ("" if right >= row.goal * len(own) else " missed")
        if own:
            lines.append(f"| {row.name} | {right / len(own):.3f} | {goal} | {len(own)} |")
    return "\n".join(lines)


async def examine(
    target: str,
    rows: Sequence[Figure],
    *,
    count: int | None,
    seed: int,
    out: Path | None,
    together: int,
    keep: float | None,
    quiet: bool,
) -> list[Judged]:
    known = material()
    for reason in known.missing:
        print(reason, file=sys.stderr)
    judged: list[Judged] = []
    async with stranger(target, together=together, keep=keep) as partner:
        filler = await measured(partner, known)
        with out.open("w") if out else nullcontext() as log:
            for row in rows:
                asked = row.build(min(count or row.count, row.count), seed, filler)
                clock = Clock(len(asked))

                def done(one: Judged, row: Figure = row, clock: Clock = clock) -> None:
                    line = clock.line(one)
                    if not quiet:
                        print(f"\r{row.name}: {line}", end="", file=sys.stderr, flush=True)
                    if log is not None:
                        log.write(json.dumps(one.record(), ensure_ascii=False) + "\n")
                        log.flush()

                judged += await partner.ask_all(asked, done)
                if not quiet:
                    print(file=sys.stderr)
    return judged


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m training.strangers", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("target", nargs="?", default="paceline-mini", help="a model's folder or id, or a server's URL")
    parser.add_argument(
        "--only", action="append", default=[], metavar="KIND", help="a kind or a figure; may be repeated"
    )
    parser.add_argument("--count", type=int, help="prompts a figure, at most its own number (200, 100 or 20)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="file for every prompt, answer and verdict, as JSON lines")
    parser.add_argument("--together", type=int, default=16, help="prompts in flight at a time")
    parser.add_argument(
        "--keep", type=float, metavar="SHARE", help="read prompts sparsely (SpecPrefill), so much of them"
    )
    parser.add_argument("--quiet", action="store_true")
    given = parser.parse_args(arguments)
    try:
        rows = chosen(given.only)
    except ValueError as error:
        parser.error(str(error))
    options = {
        "count": given.count,
        "seed": given.seed,
        "out": given.out,
        "together": given.together,
        "keep": given.keep,
    }
    judged = asyncio.run(examine(given.target, rows, quiet=given.quiet, **options))
    print(table(rows, judged))


if __name__ == "__main__":
    main()
