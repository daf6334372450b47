from __future__ import annotations

import ast
import json
import logging
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

import paceline.server
from paceline.errors import LoadError, PacelineError
from paceline.logs import JsonFormatter
from paceline.preflight import listen
from paceline.server.app import announce, create_app, run
from paceline.server.http.drain import DrainingServer
from paceline.settings import Settings
from tests.server.fake_service import FakeService

LAYERS = (
    ("app",),
    ("openai", "anthropic", "ollama", "status", "status_stream", "loads", "cache", "not_implemented"),
    ("common",),
    ("state",),
    ("backend", "metrics", "tracing", "web_page"),
    ("http", "history"),
)


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0", "localhost"])
def test_the_announcement_has_an_address_that_works_and_a_command(
    capsys: pytest.CaptureFixture[str], host: str
) -> None:
    announce(Settings(host=host, port=8123, served_model_name="[pretty]"), FakeService())
    said = capsys.readouterr().out
    assert "[pretty]" in said
    assert "http://127.0.0.1:8123 " in said
    [command] = re.findall(r"^curl .*$", said, re.MULTILINE)
    assert "http://127.0.0.1:8123/v1/chat/completions" in command
    body = json.loads(shlex.split(command)[-1])
    assert body["messages"] == [{"role": "user", "content": "Hello! Who are you?"}]  # "Hello!" alone is answered "Hi"


def test_with_a_json_log_the_announcement_is_a_line_of_it(
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        announce(Settings(port=8123, served_model_name="pretty", log_format="json"), FakeService())
    assert capsys.readouterr().out == ""
    line = json.loads(JsonFormatter().format(caplog.records[-1]))
    assert (line["model"], line["url"]) == ("pretty", "http://127.0.0.1:8123")
    assert line["message"] == "pretty is served at http://127.0.0.1:8123"


@pytest.mark.parametrize(
    ("flag", "variable", "shown"),
    [
        (None, "sk-private", "$PACELINE_API_KEY"),
        ("sk-private", None, "YOUR_KEY"),
        ("sk-private", "sk-other", "YOUR_KEY"),
        (None, "sk-one,sk-two", "YOUR_KEY"),
    ],
)
def test_the_command_takes_the_key_from_the_environment_only_if_it_is_there(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    flag: str | None,
    variable: str | None,
    shown: str,
) -> None:
    monkeypatch.delenv("PACELINE_API_KEY", raising=False)
    if variable:
        monkeypatch.setenv("PACELINE_API_KEY", variable)
    environment = {"PACELINE_API_KEY": variable} if variable else {}
    announce(Settings.load({"api_key": flag}, None, environment), FakeService())
    said = capsys.readouterr().out
    assert f'-H "Authorization: Bearer {shown}"' in said and "sk-" not in said


@pytest.mark.parametrize(
    ("host", "key", "warned"), [("127.0.0.1", "", False), ("0.0.0.0", "", True), ("0.0.0.0", "sk-private", False)]
)
def test_a_server_that_is_open_to_the_network_says_so(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, host: str, key: str, warned: bool
) -> None:
    monkeypatch.setattr(DrainingServer, "run", lambda server, sockets: sockets[0].close())
    run(FakeService(), Settings.load({"host": host, "port": 0, "api_key": key or None}, None, {}))
    assert ("--api-key" in caplog.text) == warned and "sk-" not in caplog.text


def test_an_ipv6_address_is_written_in_brackets(capsys: pytest.CaptureFixture[str]) -> None:
    announce(Settings(host="::", port=8123), FakeService())
    assert "http://[::1]:8123" in capsys.readouterr().out


def test_a_port_in_use_is_one_clear_line() -> None:
    with listen(Settings(port=0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(PacelineError, match=f"cannot listen on 127.0.0.1 port {port}: Address already in use"):
            listen(Settings(port=port))


def test_a_host_that_is_not_ours_is_one_clear_line() -> None:
    with pytest.raises(PacelineError, match="cannot listen on 192.0.2.1"):
        listen(Settings(host="192.0.2.1", port=0))


def imports() -> Iterator[tuple[Path, str]]:
    """Every file of the server, relative to it, with each name that it imports."""
    root = Path(paceline.server.__path__[0])
    for file in root.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Import):
                yield from ((file.relative_to(root), alias.name) for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                yield from ((file.relative_to(root), f"{node.module}.{alias.name}") for alias in node.names)


def test_no_file_of_the_server_imports_mlx() -> None:
    assert [found for found in imports() if found[1].startswith("mlx")] == []


def test_every_layer_imports_only_those_below_it() -> None:
    level = {name: number for number, names in enumerate(LAYERS) for name in names}
    checked = 0
    for file, name in imports():
        if name.startswith("paceline.server."):
            importing, imported = Path(file.parts[0]).stem, name.split(".")[2]
            assert importing == imported or level[importing] < level[imported], (file, name)
            checked += 1
    assert checked > 100


async def test_without_a_callback_the_app_listens_after_loading() -> None:
    service = FakeService()
    app = create_app(service, Settings())
    async with app.router.lifespan_context(app):
        assert service.ready
    assert service.stops == 1


async def test_without_a_callback_a_model_that_cannot_be_loaded_stops_the_app() -> None:
    app = create_app(FakeService(load_error="no such file"), Settings())
    with pytest.raises(LoadError, match="no such file"):
        async with app.router.lifespan_context(app):
            pass
