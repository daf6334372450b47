"""A server process over the real engine: `python -m tests.server.engine_child MODEL DRAIN_SECONDS`.

It runs one row at a time. A line on its standard input breaks the engine: from then on every step fails; or, where the
line is "crash", nothing can be planned any more.
"""

from __future__ import annotations

import sys
import threading
from typing import Any

from paceline import cli, platform

platform.prepare(exact=True)  # before anything imports MLX

import typer  # noqa: E402

from paceline.engine.in_flight import InFlightStep  # noqa: E402
from paceline.server.app import run  # noqa: E402
from paceline.service import Service  # noqa: E402
from paceline.settings import Settings  # noqa: E402


class Breakable(Service):
    async def start(self) -> None:
        await super().start()
        threading.Thread(target=self._break_at_a_word, daemon=True).start()

    def _break_at_a_word(self) -> None:
        word = sys.stdin.readline().strip()
        if word:
            assert self._runtime is not None

            def fails(*arguments: Any) -> InFlightStep:
                raise RuntimeError("the device is gone")

            core = self._runtime.engine.core
            target, name = (core.scheduler, "plan") if word == "crash" else (core.runner, "decode")
            setattr(target, name, fails)


commands = typer.Typer(cls=cli._Commands)


@commands.command()
def serve(model: str, drain_seconds: float) -> None:
    settings = Settings(model=model, served_model_name="tiny", port=0, drain_seconds=drain_seconds, max_num_seqs=1)
    run(Breakable(settings), settings)


@commands.callback()
def group() -> None:
    """Makes a group of one command, which has the CLI's own exit codes."""


if __name__ == "__main__":
    commands(["serve", *sys.argv[1:]])
