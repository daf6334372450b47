from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner

from paceline.cli import app
from paceline.completion import Shell, script

COMMANDS = {
    "": ["serve", "bench", "--help"],
    "serve": ["--port", "--no-web"],
    "bench": ["serve"],
    "bench serve": ["--url"],
}


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_command_and_flag_of_the_program_is_in_the_script(shell: Shell) -> None:
    printed = CliRunner().invoke(app, ["completion", shell])
    assert printed.exit_code == 0
    for word in ("serve", "chat", "bench", "completion", "max-num-seqs", "no-web", "otlp"):
        assert word in printed.output
    assert "gpu-memory-utilization" not in printed.output  # another server's


# What a Tab does, asked without a terminal. zsh runs such functions as sh does.
BASH = "COMP_WORDS=(paceline {words}); COMP_CWORD={count}; _paceline; echo ${{COMPREPLY[@]}}"
PRESSED = {
    "bash": f"source {{file}}; {BASH}",
    "zsh": f"source {{file}}; emulate sh; setopt kshglob noshglob braceexpand; {BASH}",
    "fish": "source {file}; complete -C 'paceline {line}'",
}


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (["se"], ["serve"]),
        (["serve", "--p"], ["--port"]),
        (["serve", "--port", "1", "--no"], ["--no-web"]),
        (["bench", "s"], ["serve"]),
        (["bench", "serve", "--u"], ["--url"]),
        (["bench", "serve", "--p"], []),
    ],
)
def test_a_shell_completes(tmp_path: Path, shell: Shell, line: list[str], expected: list[str]) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"there is no {shell}")
    file = tmp_path / "completion"
    file.write_text(script(shell, COMMANDS))
    words = " ".join(f"'{word}'" for word in line)
    code = PRESSED[shell].format(file=file, words=words, count=len(line), line=" ".join(line))
    plain = {"bash": ["--norc"], "zsh": ["-f"], "fish": ["--no-config"]}[shell]
    done = subprocess.run(
        [shell, *plain, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path, env=home(tmp_path)
    )
    found = [word for word in done.stdout.split() if word.startswith(line[-1])]  # zsh's line editor does that
    assert (found, done.stderr) == (expected, "")


def home(folder: Path) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "HOME": str(folder)}
