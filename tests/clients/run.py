"""Real clients against a server of this checkout: `python -m tests.clients.run [names]`, or `make clients`.

Installs them (pip and npm, about 10 GB, most of it Open WebUI) under $CLIENTS_FOLDER, by default
~/.cache/paceline-clients, serves a random hybrid model with 64k of context, and prints a table. A client that cannot be
installed is skipped; a failed one makes the exit status 1. With $CLIENTS_MODEL, a folder, that model is served instead.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial

from tests.clients import agents, open_webui
from tests.clients.install import FOLDER, HERE, NPM, Skipped, install_npm, install_python, run
from tests.clients.served import MODEL, free_port, running

# Agents' first requests are long, and the synthetic tokenizer makes a token of every 1.4 characters: small layers.
SHAPE = "--layers 2 --attention-every 2 --no-mtp --heads 2 --kv-heads 1 --head-dim 32 --hidden 64 --intermediate 64"
STATES = "--state-key-heads 1 --state-value-heads 2"

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
OPENAI_AGENTS = ["openai-agents==0.24.0"]
LLAMA_INDEX = ["llama-index-llms-openai-like==0.8.1"]
LM_EVAL = ["lm-eval[api]==0.4.13", "transformers", "mlx-lm==0.32.2", "mlx[cpu]; platform_system == 'Linux'"]

Client = Callable[[str, str], str]  # of the server's address, and the model's folder


def python_sdk(name: str, environment: str, packages: list[str], server: str, folder: str) -> str:
    python = install_python(environment, packages)
    settings = os.environ | {"LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    output = run([str(python), str(HERE / "python_sdks.py"), server, MODEL, name], env=settings)
    return "; ".join(line for line in output.splitlines() if line.startswith("cached"))


def npm_sdks(server: str, folder: str) -> str:
    install_npm(["node@24", "openai@6.49.0", "@anthropic-ai/sdk@1.8.0"])
    script = shutil.copy(HERE / "npm_sdks.mjs", FOLDER / "npm")
    return run([str(NPM / ".bin" / "node"), str(script), server, MODEL])


def lm_eval(server: str, folder: str) -> str:
    python = install_python("lm-eval", LM_EVAL)
    output = run([str(python), str(HERE / "lm_eval_scores.py"), server, MODEL, folder])
    return "as mlx-lm: " + "; ".join(line for line in output.splitlines() if line.startswith(("completions", "chat")))


def agent(name: str, server: str, folder: str) -> str:
    return agents.attempt(name, server)


CLIENTS: dict[str, Client] = {
    **{
        name: partial(python_sdk, name, "venv", SDKS)
        for name in (
            *("openai", "openai-responses", "anthropic", "litellm"),
            *("langchain-openai", "langchain-anthropic", "instructor", "pydantic-ai"),
        )
    },
    "openai-agents": partial(python_sdk, "openai-agents", "openai-agents", OPENAI_AGENTS),
    "llama-index": partial(python_sdk, "llama-index", "llama-index", LLAMA_INDEX),
    "npm-sdks": npm_sdks,
    "lm-eval": lm_eval,
    **{name: partial(agent, name) for name in agents.AGENTS},
    "open-webui": lambda server, folder: open_webui.attempt(server),
}


def main(names: list[str]) -> int:
    unknown = set(names) - CLIENTS.keys()
    if unknown:
        sys.exit(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(CLIENTS)}")
    FOLDER.mkdir(parents=True, exist_ok=True)
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        model = os.environ.get("CLIENTS_MODEL") or f"{folder}/model"
        if "CLIENTS_MODEL" not in os.environ:
            sizes = [*SHAPE.split(), *STATES.split(), "--max-position", str(agents.CONTEXT)]
            run([sys.executable, "-m", "tests.synthetic", "hybrid", model, *sizes])
        port = free_port()
        server = f"http://127.0.0.1:{port}"
        serve = ["-m", "paceline", "serve", model, "--served-model-name", MODEL, "--port", str(port)]
        with running([sys.executable, *serve], f"{server}/ready"):
            for name in names or CLIENTS:
                began = time.monotonic()
                try:
                    outcome, detail = "ok", CLIENTS[name](server, model)
                except Skipped as error:
                    outcome, detail = "skipped", str(error)
                except Exception as error:  # whatever a client can do
                    outcome, detail = "failed", str(error)
                    failed += 1
                print(f"{name:20} {outcome:8} {time.monotonic() - began:4.0f} s  {detail}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
