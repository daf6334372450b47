"""Real clients against a server of this checkout: `python -m tests.clients.run [names]`, or `make clients`.

Installs them (pip and npm, about 2 GB) under $CLIENTS_FOLDER, by default ~/.cache/paceline-clients, serves a random
model, and prints a table. A client that cannot be installed is skipped; a failed one makes the exit status 1.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

FOLDER = Path(os.environ.get("CLIENTS_FOLDER", "~/.cache/paceline-clients")).expanduser()
HERE = Path(__file__).parent
NPM = FOLDER / "npm" / "node_modules"
SYSTEM = "darwin" if sys.platform == "darwin" else "linux"
MACHINE = f"{SYSTEM}-{'arm64' if platform.machine() in ('arm64', 'aarch64') else 'x64'}"
MODEL = "tiny"
# Agents' first requests are long, and the synthetic tokenizer makes a token of every 1.4 characters.
SHAPE = "--max-position 131072 --layers 1 --heads 2 --kv-heads 1 --head-dim 32 --hidden 64 --intermediate 64"
TIMEOUT = 180
FILE, TEXT, EDITED = "hello.txt", "Hello from the file.\n", "Hello from the model."

SDKS = [
    "openai==2.54.0",
    "anthropic==2.8.0",
    "litellm==1.106.2",
    "mcp",  # litellm imports it, and does not ask for it
    "langchain-openai==1.7.3",
    "langchain-anthropic==1.7.7",
    "instructor==1.17.0",
    "pydantic-ai-slim[openai,anthropic]==2.31.1",
]


class Skipped(Exception):
    """The client cannot be tried here."""


@dataclass(frozen=True)
class Agent:
    """A program that is to call one tool, send its result back and end."""

    packages: list[str]
    tool: str
    arguments: Callable[[Path], dict[str, str]]  # of the file to read
    command: Callable[[str, Path], list[str]]  # of the server's address, and the agent's home
    environment: Callable[[str], dict[str, str]]
    last: str = "Done."


def run(command: list[str], **options: object) -> str:
    done = subprocess.run(  # type: ignore[call-overload]
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, **{"timeout": TIMEOUT, **options}
    )
    output = f"{done.stdout}\n{done.stderr}".strip()
    if done.returncode:
        raise RuntimeError(f"status {done.returncode}: {output[-800:]}")
    return output


def install_python(name: str, packages: list[str]) -> Path:
    python = FOLDER / name / "bin" / "python"
    done = FOLDER / name / "installed.json"
    if not done.exists() or json.loads(done.read_text()) != packages:
        try:
            run([sys.executable, "-m", "venv", str(FOLDER / name)])
            run([str(python), "-m", "pip", "install", "-q", *packages], timeout=1200)
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            raise Skipped(f"pip: {str(error).splitlines()[-1]}") from error
        done.write_text(json.dumps(packages))
    return python


def install_npm(packages: list[str]) -> None:
    if shutil.which("npm") is None:
        raise Skipped("there is no npm")
    (FOLDER / "npm").mkdir(parents=True, exist_ok=True)
    for package in packages:
        name, _, version = package.rpartition("@")
        manifest = NPM / name / "package.json"
        if manifest.exists() and json.loads(manifest.read_text())["version"].startswith(version):
            continue
        # Some install scripts look for packages of other machines; node's own fetches the binary.
        scripts = [] if name == "node" else ["--ignore-scripts"]
        try:
            run(["npm", "install", "--no-audit", "--no-fund", *scripts, package], cwd=FOLDER / "npm", timeout=600)
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            raise Skipped(f"npm: {str(error).splitlines()[-1]}") from error


def opencode(server: str, home: Path) -> list[str]:
    models = {MODEL: {"name": MODEL, "limit": {"context": 131072, "output": 4096}}}
    options = {"baseURL": f"{server}/v1", "apiKey": "x"}
    provider = {"npm": "@ai-sdk/openai-compatible", "name": "Paceline", "options": options, "models": models}
    config = {"provider": {"paceline": provider}, "model": f"paceline/{MODEL}", "autoupdate": False}
    (home / ".config" / "opencode").mkdir(parents=True)
    (home / ".config" / "opencode" / "opencode.json").write_text(json.dumps(config))
    return [str(NPM / f"opencode-{MACHINE}" / "bin" / "opencode"), "run", f"Read {FILE}"]


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
    "codex": Agent(
        ["node@24", "@openai/codex@0.166.0"],
        "exec_command",
        lambda file: {"cmd": f"cat {FILE}"},
        codex,
        lambda server: {"KEY": "x"},
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
    ),
}


def python_sdk(name: str) -> Callable[[str], str]:
    def attempt(server: str) -> str:
        python = install_python("venv", SDKS)
        environment = os.environ | {"LITELLM_LOCAL_MODEL_COST_MAP": "True"}
        return run([str(python), str(HERE / "python_sdks.py"), server, MODEL, name], env=environment)[-60:]

    return attempt


def npm_sdks(server: str) -> str:
    install_npm(["node@24", "openai@6.49.0", "@anthropic-ai/sdk@1.8.0"])
    script = shutil.copy(HERE / "npm_sdks.mjs", FOLDER / "npm")
    return run([str(NPM / ".bin" / "node"), str(script), server, MODEL])


def agent(name: str) -> Callable[[str], str]:
    def attempt(server: str) -> str:
        agent = AGENTS[name]
        if name == "aider":
            install_python("aider", agent.packages)
        else:
            install_npm(agent.packages)
        urllib.request.urlopen(urllib.request.Request(f"{server}/v1/cache/clear", method="POST")).close()
        with tempfile.TemporaryDirectory() as folder:
            home = Path(folder)
            work = home / "work"
            work.mkdir()
            (work / FILE).write_text(TEXT)
            log = home / "log"
            port = free_port()
            proxy = f"http://127.0.0.1:{port}"
            arguments = json.dumps(agent.arguments(work / FILE))
            command = ["-m", "tests.clients.force_tool", str(port), server, str(log), agent.tool, arguments, agent.last]
            # The agents' own settings, and those of a session that runs in one, stay out of it.
            kept = {"PATH": f"{NPM / '.bin'}{os.pathsep}{os.environ['PATH']}", "HOME": folder, "TERM": "dumb"}
            with running([sys.executable, *command], f"{proxy}/health"):
                run(agent.command(proxy, home), cwd=work, env=kept | agent.environment(proxy))
            entries = [json.loads(line) for line in log.read_text().splitlines()]
            turns = [entry for entry in entries if "forced" in entry]
            errors = [entry for entry in turns if entry["status"] != 200]
            if errors:
                raise RuntimeError(f"{errors[0]['path']}: {errors[0]['status']} {errors[0]['error']}")
            if not agent.tool:
                if (work / FILE).read_text().strip() != EDITED:
                    raise RuntimeError(f"{FILE} is not edited")
                return "edited the file"
            return told(agent.tool, turns)

    return attempt


def told(tool: str, turns: list[dict[str, object]]) -> str:
    """What the proxy saw, if the tool was called, its result came back, and that turn's prefix was cached."""
    second = next((turn for turn in turns if turn["results"]), None)
    if second is None:
        raise RuntimeError(f"no result of {tool} came back; offered were {[turn['offered'] for turn in turns]}")
    if not second.get("cached_tokens"):
        raise RuntimeError(f"nothing of the second turn was cached: {second}")
    return f"ran {tool}; second turn: cached {second['cached_tokens']} of {second['prompt_tokens']}"


CLIENTS: dict[str, Callable[[str], str]] = {
    **{
        name: python_sdk(name)
        for name in (
            *("openai", "openai-responses", "anthropic", "litellm"),
            *("langchain-openai", "langchain-anthropic", "instructor", "pydantic-ai"),
        )
    },
    "npm-sdks": npm_sdks,
    **{name: agent(name) for name in AGENTS},
}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def running(command: list[str], address: str, output: IO[bytes] | int = subprocess.DEVNULL) -> Iterator[None]:
    """A process, from when its address answers."""
    process = subprocess.Popen(command, stdout=output, stderr=output)
    try:
        for _ in range(240):
            try:
                urllib.request.urlopen(address).close()
                break
            except OSError:
                if process.poll() is not None:
                    raise RuntimeError(f"{command} ended with {process.returncode}") from None
                time.sleep(0.25)
        else:
            raise RuntimeError(f"{address} does not answer")
        yield
    finally:
        process.terminate()
        process.wait(60)


def main(names: list[str]) -> int:
    unknown = set(names) - CLIENTS.keys()
    if unknown:
        sys.exit(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(CLIENTS)}")
    FOLDER.mkdir(parents=True, exist_ok=True)
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        model = f"{folder}/model"
        run([sys.executable, "-m", "paceline.models.synthetic", "qwen3", model, *SHAPE.split()])
        port = free_port()
        server = f"http://127.0.0.1:{port}"
        serve = ["-m", "paceline", "serve", model, "--served-model-name", MODEL, "--port", str(port)]
        with running([sys.executable, *serve], f"{server}/ready"):
            for name in names or CLIENTS:
                try:
                    outcome, detail = "ok", CLIENTS[name](server)
                except Skipped as error:
                    outcome, detail = "skipped", str(error)
                except Exception as error:  # whatever a client can do
                    outcome, detail = "failed", str(error)
                    failed += 1
                print(f"{name:20} {outcome:8} {detail}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
