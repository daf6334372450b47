from __future__ import annotations

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


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (["se"], ["serve"]),
        (["serve", "--p"], ["--port"]),
        (["serve", "--port", "1", "--no"], ["--no-web"]),
        (["bench", ""], ["serve"]),
        (["bench", "serve", "--"], ["--url"]),
        (["nothing", "--h"], ["--help"]),
    ],
)
def test_bash_completes(tmp_path: Path, line: list[str], expected: list[str]) -> None:
    file = tmp_path / "completion"
    file.write_text(script("bash", COMMANDS))
    words = " ".join(f"'{word}'" for word in ["paceline", *line])
    code = f"source {file}; COMP_WORDS=({words}); COMP_CWORD={len(line)}; _paceline; echo ${{COMPREPLY[@]}}"
    done = subprocess.run(["bash", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == expected


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_take_the_script(tmp_path: Path, shell: Shell) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"there is no {shell}")
    file = tmp_path / "completion"
    file.write_text(script(shell, COMMANDS))
    subprocess.run([shell, "-n", str(file)], check=True)
