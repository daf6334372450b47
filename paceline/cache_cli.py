"""`paceline cache`: the prefixes on disk, without a server and without MLX."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from paceline.command_line import commands, size_text
from paceline.errors import PacelineError
from paceline.settings import Settings

if TYPE_CHECKING:
    from rich.console import Console

    from paceline.cache.disk_summary import Summary

app = commands()

FINGERPRINT = 8  # characters of it that are shown, unless two begin alike
CacheDir = Annotated[
    str | None,
    typer.Option(
        metavar="FOLDER",
        help="The folder. Default: cache_dir of the --config file, or PACELINE_CACHE_DIR.",
        show_default=False,
    ),
]
Config = Annotated[Path | None, typer.Option(metavar="FILE", help="A TOML file of settings.", show_default=False)]


@app.callback()
def cache() -> None:
    """List or delete the prefixes that a server with --cache-dir keeps on disk."""


@app.command()
def ls(cache_dir: CacheDir = None, config: Config = None) -> None:
    """List what the folder holds, model by model."""
    from rich.console import Console

    from paceline.cache import disk_summary

    folder = _folder(cache_dir, config)
    found = disk_summary.summaries(folder)
    console = Console(highlight=False, soft_wrap=True)
    if not found:
        console.print(f"{folder} holds no cached prefixes.", markup=False)
        return
    found.sort(key=lambda of: of.last_used, reverse=True)
    _print_table(console, found)
    entries, size = sum(of.entries for of in found), sum(of.bytes for of in found)
    console.print(f"{_prefixes(entries)}, {size_text(size)}, in {folder}", markup=False)


@app.command()
def clear(
    cache_dir: CacheDir = None,
    config: Config = None,
    model: Annotated[
        str | None,
        typer.Option(
            metavar="FINGERPRINT",
            help="Only this model's, by its fingerprint in `paceline cache ls` or the beginning of it.",
            show_default=False,
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Delete what the folder holds. A running server clears its own: POST /v1/cache/clear."""
    from paceline.cache import disk_summary

    folder = _folder(cache_dir, config)
    found = disk_summary.summaries(folder)
    if model is not None:
        found = [_only(found, model, folder)]
    if not found:
        print(f"{folder} holds no cached prefixes.")
        return
    entries, size = sum(of.entries for of in found), sum(of.bytes for of in found)
    names = ", ".join(sorted({_name(of) for of in found}))
    if not yes and not any(of.in_use for of in found):
        typer.confirm(f"Delete {_prefixes(entries)} of {names}, {size_text(size)}, in {folder}?", abort=True)
    entries, size = disk_summary.clear(folder, found[0].fingerprint if model is not None else None)
    print(f"Deleted {_prefixes(entries)}, {size_text(size)}.")


def _folder(given: str | None, config: Path | None) -> Path:
    folder = Settings.load({"cache_dir": given}, config, os.environ).cache_dir
    if folder is None:
        raise PacelineError("which folder? Give --cache-dir, or set cache_dir as for the server")
    return folder


def _only(found: list[Summary], model: str, folder: Path) -> Summary:
    matching = [of for of in found if of.fingerprint.startswith(model)]
    if len(matching) != 1:
        known = ", ".join(f"{of.fingerprint} ({_name(of)})" for of in found) or "none"
        how_many = "several models have" if matching else "no model has"
        raise PacelineError(f"{how_many} a fingerprint that begins with {model!r} in {folder}; there are: {known}")
    return matching[0]


def _print_table(console: Console, found: list[Summary]) -> None:
    from rich.markup import escape
    from rich.table import Table

    # `clear --model` takes the beginning of a fingerprint. The model's name is folded, and nothing is cut.
    table = Table()
    table.add_column("model", overflow="fold", min_width=9)
    table.add_column("fingerprint", no_wrap=True)
    for column in ("prefixes", "size", "longest\n(tokens)", "last used"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("", overflow="fold")
    shown = _beginnings([of.fingerprint for of in found])
    for of in found:
        notes = ["in use"] if of.in_use else []
        notes += [f"{of.damaged} damaged"] if of.damaged else []
        table.add_row(
            escape(_name(of)),
            escape(shown[of.fingerprint]),
            f"{of.entries:,}",
            size_text(of.bytes),
            f"{of.tokens:,}",
            _ago(of.last_used),
            ", ".join(notes),
        )
    console.print(table)


def _beginnings(fingerprints: list[str]) -> dict[str, str]:
    """By fingerprint: as much of it as tells it from the others."""
    length = FINGERPRINT
    while len({each[:length] for each in fingerprints}) < len(set(fingerprints)):
        length += 1
    return {each: each[:length] for each in fingerprints}


def _name(of: Summary) -> str:
    return of.model or "unknown"  # its files are damaged


def _prefixes(count: int) -> str:
    return f"{count:,} {'prefix' if count == 1 else 'prefixes'}"


def _ago(moment: float) -> str:
    if not moment:
        return "never"
    seconds = max(time.time() - moment, 0)
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{seconds / length:.0f} {unit} ago"
    return "just now"
