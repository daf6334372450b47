"""Agents, each with a scripted run: its first turn calls a tool, its second brings the result."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.clients.install import FOLDER, MACHINE, NPM, install_npm, install_python, run
from tests.clients.served import MODEL, free_port, running

CONTEXT = 65536
FILE, TEXT, EDITED = "hello.txt", "Hello from the file.\n", "Hello from the model."


@dataclass(frozen=True)
class Agent:
    """A program that is to call one tool, send its result back and end."""

    packages: list[str]
    tool: str
    arguments: Callable[[Path], dict[str, str]]  # of the file to read
    command: Callable[[str, Path], list[str]]  # of the server's address, and the agent's home
    environment: Callable[[str], dict[str, str]]
    last: str = "Done."
    sends: tuple[str, ...] = ()  # fields of its own that must reach the server


def provider(server: str) -> dict[str, object]:
    models = {MODEL: {"name": MODEL, "limit": {"context": CONTEXT, "output": 4096}}}
    options = {"baseURL": f"{server}/v1", "apiKey": "x"}
    return {"npm": "@ai-sdk/openai-compatible", "name": "Paceline", "options": options, "models": models}


def opencode(server: str, home: Path) -> list[str]:
    config = {"provider": {"paceline": provider(server)}, "model": f"paceline/{MODEL}", "autoupdate": False}
    (home / ".config" / "opencode").mkdir(parents=True)
    (home / ".config" / "opencode" / "opencode.json").write_text(json.dumps(config))
    return [str(NPM / f"opencode-{MACHINE}" / "bin" / "opencode"), "run", f"Read {FILE}"]


def kilo(server: str, home: Path) -> list[str]:
    config = {"provider": {"paceline": provider(server)}, "model": f"paceline/{MODEL}", "autoupdate": False}
    (home / ".config" / "kilo").mkdir(parents=True)
    (home / ".config" / "kilo" / "kilo.json").write_text(json.dumps(config))
    return [str(NPM / "@kilocode" / f"cli-{MACHINE}" / "bin" / "kilo"), "run", "--auto", f"Read {FILE}"]


def continue_(server: str, home: Path) -> list[str]:
    config = home / "continue.yaml"
    config.write_text(f"""\
name: Paceline
version: 1.0.0
schema: v1
models:
  - name: {MODEL}
    provider: openai
    model: {MODEL}
    apiBase: {server}/v1
    apiKey: x
    capabilities: [tool_use]
    defaultCompletionOptions: {{contextLength: {CONTEXT}, maxTokens: 4096}}
""")
    return [str(NPM / ".bin" / "cn"), "--config", str(config), "-p", f"Read {FILE}", "--auto"]


def codex(server: str, home: Path) -> list[str]:
    provider = f'{{name="local",base_url="{server}/v1",env_key="KEY",wire_api="responses"}}'
    settings = ["-c", "model_provider=local", "-c", f"model_providers.local={provider}"]
    return [str(NPM / ".bin" / "codex"), "exec", "--skip-git-repo-check", "-m", MODEL, *settings, f"Read {FILE}"]


def aider(server: str, home: Path) -> list[str]:
    flags = ["--no-git", "--no-check-update", "--analytics-disable", "--no-show-model-warnings", "--yes-always"]
    message = ["--edit-format", "whole", "--message", "Say hello.", FILE]
    return [str(FOLDER / "aider" / "bin" / "aider"), "--model", f"openai/{MODEL}", *flags, *message]


AGENTS = {
    "aider": Agent(
        ["aider-chat==0.86.2"],
        "",
        lambda file: {},
        aider,
        lambda server: {"OPENAI_API_BASE": f"{server}/v1", "OPENAI_API_KEY": "x"},
        last=f"{FILE}\n```\n{EDITED}\n```\n",
    ),
    "qwen-code": Agent(
        ["node@24", "@qwen-code/qwen-code@0.15.10"],
        "read_file",
        lambda file: {"file_path": str(file)},
        lambda server, home: [str(NPM / ".bin" / "qwen"), "--auth-type", "openai", f"Read {FILE}"],
        lambda server: {"OPENAI_BASE_URL": f"{server}/v1", "OPENAI_API_KEY": "x", "OPENAI_MODEL": MODEL},
    ),
    "opencode": Agent(
        [f"opencode-{MACHINE}@1.18.18"],
        "read",
        lambda file: {"filePath": str(file)},
        opencode,
        lambda server: {},
    ),
    "kilo": Agent(
        [f"@kilocode/cli-{MACHINE}@7.7.7"],
        "read",
        lambda file: {"filePath": str(file)},
        kilo,
        lambda server: {},
    ),
    "continue": Agent(
        ["node@24", "@continuedev/cli@1.5.47"],
        "Read",
        lambda file: {"filepath": str(file)},
        continue_,
        lambda server: {"CONTINUE_TELEMETRY_ENABLED": "0"},
    ),
    "codex": Agent(
        ["node@24", "@openai/codex@0.166.0"],
        "exec_command",
        lambda file: {"cmd": f"cat {FILE}"},
        codex,
        lambda server: {"KEY": "x"},
        sends=("prompt_cache_key", "store", "include"),
    ),
    "claude-code": Agent(
        ["@anthropic-ai/claude-code@2.1.197"],
        "Read",
        lambda file: {"file_path": str(file)},
        lambda server, home: [
            str(NPM / "@anthropic-ai" / f"claude-code-{MACHINE}" / "claude"),
            *("-p", f"Read {FILE}", "--output-format", "json"),
        ],
        lambda server: {
            "ANTHROPIC_BASE_URL": server,
            "ANTHROPIC_API_KEY": "x",
            "ANTHROPIC_MODEL": MODEL,
            "ANTHROPIC_DEFAULT_HAIKU_MODEL": MODEL,
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        },
        sends=("thinking", "output_config", "context_management"),
    ),
}


def attempt(name: str, server: str) -> str:
    """Installs the agent and runs it through the proxy. What was seen, or raises what went wrong."""
    agent = AGENTS[name]
    if name == "aider":
        install_python("aider", agent.packages)
    else:
        install_npm(agent.packages)
    urllib.request.urlopen(urllib.request.Request(f"{server}/v1/cache/clear", method="POST")).close()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        home = Path(folder)
        work = home / "work"
        work.mkdir()
        (work / FILE).write_text(TEXT)
        log = home / "log"
        log.touch()
        port = free_port()
        proxy = f"http://127.0.0.1:{port}"
        arguments = json.dumps(agent.arguments(work / FILE))
        command = ["-m", "tests.clients.force_tool", str(port), server, str(log), agent.tool, arguments, agent.last]
        # The agents' own settings, and those of a session that runs in one, stay out of it.
        kept = {"PATH": f"{NPM / '.bin'}{os.pathsep}{os.environ['PATH']}", "HOME": folder, "TERM": "dumb"}
        with running([sys.executable, *command], f"{proxy}/health"):
            try:
                run(agent.command(proxy, home), cwd=work, env=kept | agent.environment(proxy))
            except Exception as error:
                raise RuntimeError(f"{error}; it had sent {log.read_text()[-800:]}") from error
        turns = [entry for line in log.read_text().splitlines() if "forced" in (entry := json.loads(line))]
        for turn in turns:
            if turn["status"] != 200 or turn["wrong"]:
                raise RuntimeError(f"{turn['path']}: {turn['status']} {turn.get('error')} {turn['wrong']}")
        if not agent.tool:
            if (work / FILE).read_text().strip() != EDITED:
                raise RuntimeError(f"{FILE} is not edited")
            return "edited the file"
        return told(agent, turns)


def told(agent: Agent, turns: list[dict[str, object]]) -> str:
    """What the proxy saw, if the tool was called, its result came back, and that turn's prefix was cached."""
    tool = agent.tool
    second = next((turn for turn in turns if turn["results"]), None)
    if second is None:
        raise RuntimeError(f"no result of {tool} came back; offered were {[turn['offered'] for turn in turns]}")
    if not second.get("cached_tokens"):
        raise RuntimeError(f"nothing of the second turn was cached: {second}")
    sent = second["fields"]
    assert isinstance(sent, list)
    if missing := [name for name in agent.sends if name not in sent]:
        raise RuntimeError(f"no longer sent: {', '.join(missing)}; it sends {', '.join(sent)}")
    own = f", with its {', '.join(agent.sends)}" if agent.sends else ""
    return f"ran {tool}{own}; second turn: cached {second['cached_tokens']} of {second['prompt_tokens']}"
