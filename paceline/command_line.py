"""What all commands have in common, and command lines as other servers take them: a flag without its value, and one
with several."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

BARE = {"--specprefill": "auto"}  # vllm-mlx's switch; here it has a mode
SEVERAL = ("--served-model-name",)  # vLLM takes more than one after the flag


class PlainCommand(TyperCommand):
    """A command whose help shows no `<bool>` after a switch, and whose errors know it."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except Exception as error:  # click's, which knows no command where a flag lacks its value
            if getattr(error, "ctx", error) is None:
                error.ctx = ctx  # type: ignore[attr-defined]
            raise

    def get_params(self, ctx: Any) -> list[Any]:
        return without_bool(super().get_params(ctx))


class PlainGroup(TyperGroup):
    """A group whose help shows no `<bool>` after a switch."""

    def get_params(self, ctx: Any) -> list[Any]:
        return without_bool(super().get_params(ctx))


class Commands(typer.Typer):
    def command(self, *arguments: Any, **more: Any) -> Any:
        return super().command(*arguments, **{"cls": PlainCommand, **more})


def without_bool(params: list[Any]) -> list[Any]:
    for param in params:
        if getattr(param, "is_flag", False):
            param.metavar = ""
    return params


def commands(**more: Any) -> typer.Typer:
    """A group of commands."""
    return Commands(
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode="rich",
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
        **{"cls": PlainGroup, **more},
    )


def size_text(count: float) -> str:
    for unit in ("bytes", "kB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}"
        count /= 1000
    return f"{count:.1f} GB"


class SettingsCommand(PlainCommand):
    """A command that takes settings."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        from paceline import command_help

        command_help.show(self, ctx)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, rewritten(args))


def rewritten(arguments: list[str]) -> list[str]:
    """The same command line as Paceline writes it.

    More than one value after a flag is taken as such only where MODEL came first: otherwise the second is MODEL.
    """
    model_first = bool(arguments) and not arguments[0].startswith("-")
    found: list[str] = []
    flag = ""  # the one whose further values are being read
    for place, argument in enumerate(arguments):
        following = arguments[place + 1 : place + 2]
        if argument == "--":
            return found + arguments[place:]
        if argument in BARE and (not following or following[0].startswith("-")):
            found += [argument, BARE[argument]]
            flag = ""
        elif argument in SEVERAL and model_first:
            flag = argument
            if not following or following[0].startswith("-"):
                found.append(argument)  # its value is missing: an error as of any other flag
        elif argument.startswith("-"):
            found.append(argument)
            flag = ""
        else:
            found += [flag, argument] if flag else [argument]
    return found
