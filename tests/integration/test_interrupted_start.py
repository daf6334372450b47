"""Signals before there is a command: in `paceline.__main__`, while the commands are imported and put together."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

INTERRUPTED = """
import signal, sys
from paceline.__main__ import main

class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == "paceline.cli":
            signal.raise_signal(int(sys.argv[2]))

sys.meta_path.insert(0, Interrupting())
main()
"""


@pytest.mark.parametrize(
    ("command", "sig", "code", "words"),
    [
        ("serve", signal.SIGINT, 0, "paceline: stopped\n"),
        ("serve", signal.SIGTERM, 0, "paceline: stopped\n"),
        ("chat", signal.SIGINT, 130, "Aborted.\n"),
        ("chat", signal.SIGTERM, -signal.SIGTERM, ""),
    ],
)
def test_a_signal_while_the_commands_are_imported_ends_with_one_line(
    command: str, sig: signal.Signals, code: int, words: str
) -> None:
    program = [sys.executable, "-c", INTERRUPTED, command, str(int(sig))]
    ended = subprocess.run(program, capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stdout, ended.stderr) == (code, "", words)


ASSEMBLED = """
import signal, sys
import typer.main
from paceline.__main__ import main

typer.main.get_command = lambda *_: signal.raise_signal(signal.SIGINT)
sys.argv = ["paceline", "run"]
main()
"""


def test_ctrl_c_while_the_commands_are_put_together_ends_with_one_line() -> None:
    ended = subprocess.run([sys.executable, "-c", ASSEMBLED], capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "Aborted.\n")
