from __future__ import annotations

from typing import Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from paceline import cli


def shown(command: str, width: int, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("NO_COLOR", "1")
    return CliRunner().invoke(cli.app, [command, "--help"]).output


@pytest.mark.parametrize("width", [60, 80, 200])
@pytest.mark.parametrize("command", ["serve", "chat", "run"])
def test_every_flag_is_whole_however_narrow_the_terminal_is(
    monkeypatch: pytest.MonkeyPatch, command: str, width: int
) -> None:
    output = shown(command, width, monkeypatch)
    group: Any = get_command(cli.app)
    visible = [param for param in group.commands[command].params if not getattr(param, "hidden", False)]
    flags = {flag for param in visible for flag in (*param.opts, *param.secondary_opts) if flag.startswith("--")}
    assert "--served-model-name" in flags or command != "serve"
    assert flags <= set(output.replace(",", " ").split())
    assert "…" not in output
    assert max(len(line.rstrip()) for line in output.splitlines()) <= width


@pytest.mark.parametrize("command", ["serve", "doctor"])
def test_a_switch_shows_no_value(monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    assert "bool" not in shown(command, 80, monkeypatch)


def test_the_two_names_of_a_switch_share_a_line_where_there_is_room(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "--prefix-cache --no-prefix-cache" in shown("chat", 130, monkeypatch)
    assert "--prefix-cache --no-prefix-cache" not in shown("chat", 129, monkeypatch)
