"""Open WebUI: its own server in front of ours, asked as its page asks it."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

import httpx

from tests.clients.install import install_python
from tests.clients.served import MODEL, free_port, running

PACKAGES = ["open-webui==0.12.4"]


def attempt(server: str) -> str:
    python = install_python("open-webui", PACKAGES)
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    command = [str(python.with_name("open-webui")), "serve", "--host", "127.0.0.1", "--port", str(port)]
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        settings = {
            "PATH": os.environ["PATH"],
            "HOME": folder,
            "DATA_DIR": folder,
            "WEBUI_AUTH": "False",
            "OFFLINE_MODE": "True",
            "HF_HUB_OFFLINE": "1",
            "ENABLE_OLLAMA_API": "False",
            "OPENAI_API_BASE_URL": f"{server}/v1",
            "OPENAI_API_KEY": "x",
            "RAG_EMBEDDING_ENGINE": "openai",
        }
        with running(command, f"{address}/health", env=settings, cwd=Path(folder)):
            return chat(address)


def chat(address: str) -> str:
    with httpx.Client(base_url=address, timeout=120) as http:
        token = http.post("/api/v1/auths/signin", json={"email": "", "password": ""}).json()["token"]
        http.headers["authorization"] = f"Bearer {token}"
        models = [model["id"] for model in http.get("/api/models").json()["data"]]
        if models != [MODEL]:
            raise RuntimeError(f"it lists {models}")
        ask: dict[str, Any] = {"model": MODEL, "stream": True, "max_tokens": 32}
        ask["messages"] = [{"role": "user", "content": "Hello"}]
        pieces = []
        with http.stream("POST", "/api/chat/completions", json=ask) as answer:
            if answer.status_code != 200:
                raise RuntimeError(f"{answer.status_code} {answer.read().decode()[:500]}")
            for line in answer.iter_lines():
                if line.startswith("data: {"):
                    pieces += json.loads(line.removeprefix("data: ")).get("choices", [])
    if not any(piece["delta"].get("content") for piece in pieces) or not pieces[-1]["finish_reason"]:
        raise RuntimeError(f"the stream is {pieces}")
    return f"lists the model, streamed a chat in {len(pieces)} pieces"
