"""Tables of flags: those of commands, and those of other servers."""

from __future__ import annotations

import re
from typing import Any

from typer.main import get_command

from paceline import cli
from paceline.setting_aliases import ALIASES, UNNEEDED
from paceline.setting_sources import flag_name
from paceline.settings import Settings

MARKUP = re.compile(r"\[/?[a-z ]+\]")  # rich's


def alias_table() -> str:
    """By our flag: the flags of others, whose they are, and what is different."""
    rows: dict[str, list[str]] = {}
    for name, alias in ALIASES.items():
        remarks = "; ".join(filter(None, (alias.whose, alias.note)))
        rows.setdefault(flag_name(alias.setting), []).append(f"`{flag_name(name)}` ({remarks})")
    lines = ["| here | there |", "|---|---|"]
    return "\n".join(lines + [f"| `{here}` | {', '.join(there)} |" for here, there in rows.items()])


def unneeded_list() -> str:
    return ", ".join(f"`{flag_name(name)}`" for name in UNNEEDED)


def options_table(*path: str) -> str:
    """A command's own options. Flags of settings are in configuration.md, and hidden ones in the tables above."""
    command: Any = get_command(cli.app)
    for name in path:
        command = command.commands[name]
    settings = (
        {flag_name(field) for field in (*Settings.model_fields, "config")}
        if path in (("chat",), ("run",))
        else {"--help"}
    )
    lines = ["| option | default | |", "|---|---|---|"]
    for option in command.params:
        if getattr(option, "hidden", False) or settings & set(option.opts) or option.param_type_name == "argument":
            continue
        spelled = "/".join((*option.opts, *option.secondary_opts))
        metavar = "" if option.is_flag else f" {option.metavar or option.type.name.upper()}"
        metavar = metavar.replace("|", "\\|")
        lines.append(f"| `{spelled}{metavar}` | {_default(option)} | {_plain(option.help or '')} |")
    return "\n".join(lines)


def _default(option: Any) -> str:
    value = option.default() if callable(option.default) else option.default
    if value in (None, (), [], ""):
        return "" if not option.required else "required"
    if isinstance(value, bool):
        return "on" if value else "off"
    return f"`{', '.join(map(str, value)) if isinstance(value, list | tuple) else getattr(value, 'value', value)}`"


def _plain(text: str) -> str:
    return MARKUP.sub("", text).replace("\\[", "[").replace("|", "\\|").replace("\n", " ").strip()
