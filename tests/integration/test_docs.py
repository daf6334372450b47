"""README and docs are true: links and anchors lead somewhere, and code, commands, JSON and TOML work as written."""

from __future__ import annotations

import ast
import builtins
import importlib.util
import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
import typer
import yaml  # type: ignore[import-untyped]
from PIL import Image

from benchmarks.cli import app as benchmarks
from paceline.cli import app as paceline
from paceline.service import Service
from paceline.setting_aliases import ALIASES
from paceline.settings import Settings
from tests.documents import ROOT, Block, Command, anchors, blocks, commands, inline_code, links, pages, split
from tests.server import fake_service
from tests.server.fake_service import FakeService
from tests.server.harness import serve

PAGES = pages()
BLOCKS = [block for page in PAGES for block in blocks(page)]
COMMANDS = [command for block in BLOCKS for command in commands(block)]
PYTHON = [block for block in BLOCKS if block.language == "python"]
CURLS = [command for command in COMMANDS if command.words[0] == "curl"]
PACELINE, BENCHMARKS = typer.main.get_command(paceline), typer.main.get_command(benchmarks)
MAKEFILE = (ROOT / "Makefile").read_text()
NAMES = {*Settings.model_fields, *ALIASES}
ADDRESS = "http://127.0.0.1:8000"
# Names in code blocks of packages that are not installed for tests: such a block is compiled, not run.
THIRD_PARTY = {
    *("litellm", "ChatOpenAI", "ChatAnthropic", "instructor", "OpenAILike"),
    *("OpenAIChatModel", "OpenAIProvider", "Agent", "NativeOutput", "Person"),
}
OTHERS = (
    "CHANGELOG.md",
    "docs/clients.md",
    "docs/benchmarks.md",
    "docs/scale-out.md",
    "training/README.md",
)  # have flags of other programs
# Flags in inline code that belong to other programs.
OTHER_FLAGS = {
    *("--add-host", "--auto", "--max-time", "--network", "--no-git", "--yes-always", "--edit-format", "--excludes"),
    *("--gpu-memory-utilization", "--limit-mm-per-prompt", "--cache-memory-percent", "--strict", "--temperature"),
}


def test_relative_links_and_anchors_resolve() -> None:
    named: dict[Path, set[str]] = {}
    dead = []
    for page in PAGES:
        for link in links(page):
            if re.match(r"[a-z][a-z0-9+.-]*:", link):
                continue
            path, _, anchor = link.partition("#")
            target = ((ROOT / page).parent / path).resolve() if path else ROOT / page
            if not target.exists() or not target.is_relative_to(ROOT):
                dead.append(f"{page}: {link} does not exist")
            elif anchor and target.suffix == ".md":
                known = named.setdefault(target, anchors(target.relative_to(ROOT).as_posix()))
                if anchor not in known:
                    dead.append(f"{page}: {link} has no such heading")
    assert dead == []


def test_the_readme_links_to_every_page_of_the_docs() -> None:
    linked = {link.partition("#")[0] for link in links("README.md")}
    assert {page for page in PAGES if page.startswith("docs/")} - linked == set()


@pytest.mark.parametrize("block", PYTHON, ids=str)
def test_python_blocks_compile(block: Block) -> None:
    compile(block.text, str(block), "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


def test_data_blocks_parse() -> None:
    parsers: dict[str, Any] = {"json": json.loads, "toml": tomllib.loads, "yaml": yaml.safe_load}
    for block in BLOCKS:
        if block.language in parsers:
            try:
                parsers[block.language](block.text)
            except ValueError as error:
                pytest.fail(f"{block}: {error}")


def test_a_block_of_settings_loads(tmp_path: Path) -> None:
    settings = [block for block in BLOCKS if block.language == "toml" and "paceline.toml" in block.text]
    assert settings
    for number, block in enumerate(settings):
        file = tmp_path / f"{number}.toml"
        file.write_text(block.text)
        Settings.load({}, file, {})


def test_commands_have_the_flags_and_targets_that_they_use() -> None:
    checked = 0
    for command in COMMANDS:
        checked += _check(command)
    assert checked > 20


def test_commands_in_the_text_do_too() -> None:
    for page in PAGES:
        for where, code in inline_code(page):
            for words in split(code) if code.startswith(("paceline ", "make ", "python -m ")) else ():
                if not {"COMMAND", "NAME", "..."} & set(words):
                    _check(Command(where, {}, tuple(words)))


def test_flags_in_the_text_exist() -> None:
    known = _flags(PACELINE) | _flags(BENCHMARKS) | OTHER_FLAGS
    unknown = []
    for page in PAGES:
        for where, code in inline_code(page) if page not in OTHERS else ():
            flag = re.match(r"--[a-z][a-z0-9-]*", code)
            if flag and flag[0] not in known:
                unknown.append(f"{where} {flag[0]}")
    assert unknown == []


def _flags(command: Any) -> set[str]:
    found = {name for option in command.params for name in (*option.opts, *option.secondary_opts)}
    return found.union(*(_flags(inner) for inner in getattr(command, "commands", {}).values()), {"--help"})


def _check(command: Command) -> bool:
    """Fails if a command of ours would; False if it is another program's."""
    program, *arguments = command.words
    try:
        if program == "paceline":
            _parse(PACELINE, arguments, command.variables)
        elif program == "make":
            _make(arguments)
        elif program in ("python", "python3") and arguments[:1] == ["-m"]:
            if arguments[1] == "benchmarks":
                _parse(BENCHMARKS, arguments[2:], {})
            else:
                assert _is_module(arguments[1]), f"there is no module {arguments[1]}"
        elif program in ("python", "python3") and arguments[:1] == ["-"]:
            compile(command.here_document, command.where, "exec")
        elif program in ("python", "python3") and arguments[:1] != ["-c"]:
            assert (ROOT / arguments[0]).is_file(), f"there is no {arguments[0]}"
        else:
            return False
    except Exception as error:  # of typer's, which have no common class, of ours, or of compile
        message = error.format_message() if hasattr(error, "format_message") else str(error)
        if command.output == f"paceline: error: {message}":  # the page shows this error
            return True
        pytest.fail(f"{command.where}: {' '.join(command.words)}: {message}")
    return True


def _is_module(name: str) -> bool:
    path = ROOT / name.replace(".", "/")
    return path.with_suffix(".py").is_file() or path.is_dir() or bool(importlib.util.find_spec(name.partition(".")[0]))


def _parse(command: Any, arguments: list[str], variables: dict[str, str]) -> None:
    while hasattr(command, "commands") and arguments and arguments[0] in command.commands:
        command, arguments = command.commands[arguments[0]], arguments[1:]
    if "--help" in arguments or "--version" in arguments or (hasattr(command, "commands") and not arguments):
        return
    given = command.make_context("paceline", [word for word in arguments if word != "..."]).params
    if "served_model_name" in given:
        ours = {name: value for name, value in given.items() if value not in (None, [], ()) and name in NAMES}
        if isinstance(models := ours.get("model"), list):  # `serve` takes several
            ours["model"] = models[0]
        named = {name: value for name, value in variables.items() if name.startswith("PACELINE_")}
        Settings.load(ours, None, {name: value for name, value in named.items() if not value.startswith("$")})


def _make(arguments: list[str]) -> None:
    targets = set(re.findall(r"^([a-z][\w-]*):", MAKEFILE, re.MULTILINE)) | {".venv/.installed-cpu"}
    variables = set(re.findall(r"\$\((\w+)", MAKEFILE))
    wanted = [word for word in arguments if "=" not in word]
    assert set(wanted) <= targets, f"no such target: {wanted}"
    for name, value in (word.split("=", 1) for word in arguments if "=" in word):
        assert name in variables, f"make reads no {name}"
        if name == "ARGS" and wanted in (["serve"], ["chat"]):
            _parse(PACELINE, [*wanted, *next(split(value))], {})


@pytest.fixture(scope="module", params=["fake", pytest.param("paceline-mini", marks=pytest.mark.slow)])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """All that the examples of the docs need, over a service without a model, or over paceline-mini."""
    folder = tmp_path_factory.mktemp("files")
    settings = Settings(
        files_dir=folder, specprefill_draft_model="paceline-mini-draft", served_model_name="paceline-mini"
    )
    backend = Service(settings) if request.param == "paceline-mini" else FakeService(settings)
    monkeypatch = pytest.MonkeyPatch()
    monkeypatch.setattr(fake_service, "REPLY", "Hello")  # a later turn must not read it as one of the fake's commands
    with serve(backend, settings) as address, httpx.Client(base_url=address, timeout=120) as http:
        yield http
    monkeypatch.undo()


@pytest.mark.parametrize("command", CURLS, ids=str)
def test_requests_by_curl_are_answered(command: Command, server: httpx.Client, request: pytest.FixtureRequest) -> None:
    method, url, headers, body = _request(command)
    if "lora_adapter" in url and request.node.callspec.params["server"] != "fake":
        pytest.skip("the page's adapter is not there: tests/integration/test_service_lora.py loads real ones")
    path = httpx.URL(url).raw_path.decode()
    if body is not None:
        body["max_tokens"] = min(body.get("max_tokens", 8), 8)
    if path.startswith("/v1/unload_lora"):  # the page loads it, maybe in another process's test
        server.post("/v1/load_lora_adapter", json=body | {"lora_path": "/models/adapters/novel"})
    answer = server.request(method, path, headers=headers, json=body)
    if answer.status_code == 404 and "..." in path:  # an id that the page abbreviates
        assert "no request" in answer.text.lower() or "unknown" in answer.text.lower() or "id" in answer.text
        return
    assert answer.status_code == 200, answer.text
    if command.output.startswith("{") and "..." not in command.output:
        assert json.loads(command.output).keys() <= answer.json().keys()


def _request(command: Command) -> tuple[str, str, dict[str, str], Any]:
    words = iter(command.words[1:])
    method, url, headers, body = "", "", {}, None
    for word in words:
        if word in ("-X", "--request"):
            method = next(words)
        elif word in ("-H", "--header"):
            name, _, value = next(words).partition(":")
            headers[name] = value.strip()
        elif word in ("-d", "--data", "--json"):
            body = json.loads(next(words))
        elif not word.startswith("-"):
            assert not url, f"{command.where}: two addresses, {url} and {word}"
            url = word if "://" in word else f"http://{word}"
        else:
            assert re.fullmatch(r"-[sSfNiI]+|--no-buffer", word), f"{command.where}: unknown option {word}"
    return method or ("GET" if body is None else "POST"), url, headers, body


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # examples leave files open
@pytest.mark.parametrize("block", PYTHON, ids=str)
def test_python_blocks_run(
    block: Block,
    server: httpx.Client,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Any,
) -> None:
    """With `client`, `model` and `messages`, which many examples leave out."""
    if "Service()" in block.text and request.node.callspec.params["server"] == "fake":
        pytest.skip("loads a model: only in make test-all")
    monkeypatch.chdir(tmp_path)
    line = {"custom_id": "a", "method": "POST", "url": "/v1/chat/completions", "body": {"messages": []}}
    Path("requests.jsonl").write_text(json.dumps(line))
    Image.new("RGB", (64, 64), "red").save("picture.png")
    address = str(server.base_url).rstrip("/")
    with openai.OpenAI(base_url=f"{address}/v1", api_key="x", max_retries=0) as client:
        messages = [{"role": "user", "content": "Hello!"}]
        given = {"client": client, "model": "paceline-mini", "messages": messages, "__name__": "block"}
        missing = _free_names(block.text) - given.keys()
        if missing & {"OpenAI", "Anthropic"}:
            import anthropic

            given |= {"OpenAI": openai.OpenAI, "Anthropic": anthropic.Anthropic}
            missing -= given.keys()
        if missing:
            assert missing <= THIRD_PARTY, f"{block} uses {missing - THIRD_PARTY}, which nothing defines"
            return
        exec(compile(block.text.replace(ADDRESS, address), str(block), "exec"), given)  # noqa: S102


def _free_names(text: str) -> set[str]:
    """Names that a block reads and neither defines nor imports."""
    tree = ast.parse(text)
    names = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
    bound = {name.id for name in names if not isinstance(name.ctx, ast.Load)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            bound |= {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            bound.add(node.name)
        elif isinstance(node, ast.arg):
            bound.add(node.arg)
    return {name.id for name in names} - bound - set(dir(builtins))
