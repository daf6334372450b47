"""`paceline models`: the models on this machine, without a server and without MLX."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from paceline.command_line import commands, size_text
from paceline.errors import LoadError, PacelineError

if TYPE_CHECKING:
    from paceline.models.description import Description
    from paceline.models.estimate import Estimate
    from paceline.models.library import LocalModel

app = commands()

ModelsDir = Annotated[
    Path | None, typer.Option(metavar="FOLDER", help="Also the models in this folder.", show_default=False)
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
CONTEXTS = (4096, 32768, 131072)  # for which the memory is estimated


@app.callback()
def models() -> None:
    """The models on this machine: list them, download one, delete one, look at one."""


@app.command(name="list")
def list_models(models_dir: ModelsDir = None, as_json: AsJson = False) -> None:
    """List the models in the package, the Hugging Face cache and a folder."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    found = [(model, _described(model.folder)) for model in _models(models_dir)]
    if as_json:
        print(json.dumps([_summary(model, about) for model, about in found], indent=1))
        return
    table = Table()
    table.add_column("model", overflow="fold")
    for column in ("size", "context"):
        table.add_column(column, justify="right", no_wrap=True)
    for column in ("family", "weights", "can", "in"):
        table.add_column(column)
    for model, about in found:
        if about is None:
            table.add_row(escape(model.name), "", "", "", "damaged", "", model.place)
            continue
        can = ", ".join(_abilities(about))
        row = (size_text(about.size), f"{about.context_length:,}", about.family, about.quantization or "dense", can)
        table.add_row(escape(model.name), *map(escape, row), model.place)
    console = Console(highlight=False)
    console.print(table)


@app.command()
def pull(model: Annotated[str, typer.Argument(metavar="ID", help="A Hugging Face id, as owner/name.")]) -> None:
    """Download a model into the Hugging Face cache; after an interruption, the files that are missing."""
    from paceline.models import files, library

    if model.count("/") != 1 or model.startswith((".", "/", "~")):
        raise LoadError(f"{model} is no Hugging Face id, which looks like owner/name.")
    with _left_at_once(library.cache_folder() / f"models--{model.replace('/', '--')}" / "blobs"):
        folder = files.download(model)
    files.read_config(folder)
    files.check_weights(folder)
    about = _described(folder)
    print(f"{model} is in {folder}" + ("" if about is None else f", {size_text(about.size)}"))


@app.command()
def rm(
    model: Annotated[str, typer.Argument(metavar="ID", help="As `paceline models list` names it.")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Delete a model from the Hugging Face cache. Folders of your own are left alone."""
    from paceline.models import library

    if model in (found.name for found in library.in_package()):
        raise PacelineError(f"{model} is part of the package, and is removed with it only")
    folder = library.cache_folder() / f"models--{model.replace('/', '--')}"
    if model.count("/") != 1 or ".." in model or not folder.is_dir():
        cached = ", ".join(found.name for found in library.in_cache()) or "none"
        raise PacelineError(f"the Hugging Face cache has no model {model}; it has: {cached}")
    size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file() and not file.is_symlink())
    if not yes:
        typer.confirm(f"Delete {model}, {size_text(size)}, from {folder.parent}?", abort=True)
    shutil.rmtree(folder)
    print(f"Deleted {model}, {size_text(size)}.")


@app.command()
def show(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A folder, an id, or a name of the list.")],
    context: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Estimate the memory for this many tokens.", show_default=False),
    ] = None,
    models_dir: ModelsDir = None,
    as_json: AsJson = False,
) -> None:
    """Show a model's files, what it can do, and how much memory it will take."""
    from paceline.models.description import describe
    from paceline.models.estimate import estimate

    found = _one(model, models_dir)
    about = describe(found.folder)
    price = estimate(found.folder, cpu=_on_cpu())
    longest = about.context_length
    contexts = [context] if context is not None else [*(size for size in CONTEXTS if size < longest), longest]
    if as_json:
        memory = {str(tokens): price.total(tokens) for tokens in contexts}
        files = dict(about.files)
        print(json.dumps({**_summary(found, about), "files": files, "memory_bytes": memory}, indent=1))
        return
    _print_shown(found, about, price, contexts)


@contextmanager
def _left_at_once(blobs: Path) -> Iterator[None]:
    """Ctrl-C ends the process. The hub's library would first download every file that it has begun."""
    pattern = "*.incomplete"  # never used again
    before = set(blobs.glob(pattern))

    def leave(*_: object) -> None:
        for part in set(blobs.glob(pattern)) - before:
            part.unlink(missing_ok=True)
        print("\nInterrupted; the files that were complete are kept.", file=sys.stderr, flush=True)
        os._exit(128 + signal.SIGINT)

    usual = signal.signal(signal.SIGINT, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, usual)


def _print_shown(model: LocalModel, about: Description, price: Estimate, contexts: list[int]) -> None:
    width = max(len(name) for name, _ in about.files)
    print(f"{model.name}\n  folder   {model.folder}\n  family   {about.family}, {about.quantization or 'dense'}")
    if about.refusal is not None:
        print(f"  refused  it is {about.refusal}")
    print(f"  context  {about.context_length:,} tokens")
    if about.refusal is None:
        print(f"  can      {', '.join(_abilities(about)) or 'complete text'}")
    print(f"  files    {size_text(about.size)}")
    for name, size in about.files:
        print(f"    {name:{width}}  {size_text(size)}")
    print(f"  memory, estimated for this machine, with one conversation ({size_text(price.weights)} of weights)")
    for tokens in contexts:
        print(f"    {tokens:>9,} tokens  {size_text(price.total(tokens))}")


def _abilities(about: Description) -> list[str]:
    has = {
        "chat": about.chats,
        "tools": about.calls_tools,
        "see": about.sees,
        "hear": about.hears,
        "draft": about.drafts,
    }
    return [name for name, given in has.items() if given]


def _summary(model: LocalModel, about: Description | None) -> dict[str, Any]:
    card: dict[str, Any] = {"name": model.name, "folder": str(model.folder), "place": model.place}
    if about is None:
        return {**card, "damaged": True}
    more = {"family": about.family, "context_length": about.context_length, "size_bytes": about.size}
    return {**card, **more, "quantization": about.quantization, "can": _abilities(about), "refused": about.refusal}


def _described(folder: Path) -> Description | None:
    from paceline.models.description import describe

    try:
        return describe(folder)
    except (LoadError, OSError):
        return None


def _models(models_dir: Path | None) -> list[LocalModel]:
    from paceline.models import library

    if models_dir is not None and not models_dir.is_dir():
        raise PacelineError(f"there is no folder {models_dir}")
    extra = [] if models_dir is None else library.in_folder(models_dir)
    return [*library.in_package(), *library.in_cache(), *extra]


def _one(name: str, models_dir: Path | None) -> LocalModel:
    from paceline.models import files, library

    for model in _models(models_dir):
        if name in (model.name, model.name.rpartition("/")[2]):
            return model
    folder = files.find(name)
    if folder is None:
        raise LoadError(f"{name} is not on this machine; `paceline models pull {name}` downloads it.")
    return library.LocalModel(name, folder, "folder")


def _on_cpu() -> bool:
    """Where MLX will compute, without importing it."""
    from paceline import platform

    return sys.platform == "linux" and not platform.has_cuda_build()
