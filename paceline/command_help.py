"""`--help` of commands with many flags: no name is cut, however narrow the terminal is."""

from __future__ import annotations

import inspect
from typing import Any

from rich.console import Console, Group
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

BESIDE = 130  # columns from which --flag and --no-flag stand on one line


def show(command: Any, ctx: Any) -> None:
    console = Console(highlight=False)
    console.print(Padding(Text(ctx.get_usage(), "bold"), 1))
    console.print(Padding(_paragraphs(command.help), (0, 1, 1, 1)))
    panels: dict[str, list[Any]] = {}
    for param in command.get_params(ctx):
        if not getattr(param, "hidden", False):
            title = "Arguments" if param.param_type_name == "argument" else param.rich_help_panel or "Options"
            panels.setdefault(title, []).append(param)
    for title, params in panels.items():
        table = Table(box=None, show_header=False, expand=True, pad_edge=False, padding=(0, 2, 0, 0))
        table.add_column(no_wrap=True, overflow="fold")
        table.add_column(ratio=1, overflow="fold")
        for param in params:
            table.add_row(_names(param, beside=console.width >= BESIDE), Text.from_markup(param.help or ""))
        console.print(Panel(table, title=title, title_align="left", border_style="dim"))
    if command.epilog:
        console.print(Padding(_paragraphs(command.epilog), 1))


def _paragraphs(text: str | None) -> Group:
    found = [" ".join(part.split("\n")) for part in inspect.cleandoc(text or "").split("\n\n")]
    return Group(*(Text.from_markup("\n" * (place > 0) + part) for place, part in enumerate(found)))


def _names(param: Any, *, beside: bool) -> Text:
    if param.param_type_name == "argument":
        return Text(param.metavar, "bold cyan")
    long_first = sorted(param.opts, key=lambda name: not name.startswith("--"))
    text = Text(", ".join(long_first), "bold cyan")
    for name in param.secondary_opts:
        text.append(f"{' ' if beside else chr(10)}{name}", "magenta")
    if param.metavar:
        text.append(f" {param.metavar}", "yellow")
    return text
