"""`paceline serve A B`: two real models at one address, from the command line to the last process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from paceline.models.files import EMBEDDED
from tests import loras
from tests.server.child import free_port
from tests.server.harness import events, user
from tests.waiting import WAIT, until


@pytest.mark.slow
def test_two_models_answer_at_one_address_and_leave_nothing_behind(tmp_path: Path) -> None:
    config = tmp_path / "paceline.toml"
    config.write_text("[models.mini]\npath = 'paceline-mini'\naliases = ['gpt-4o']\nmax_num_seqs = 2\n")
    port = free_port()
    command = ["serve", "paceline-mini-draft", "mini", "--config", str(config), "--port", str(port)]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PACELINE_")}
    with subprocess.Popen([sys.executable, "-m", "paceline", *command], env=environment) as process:
        http = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=4 * WAIT)
        try:
            until(lambda: _ready(http))
            assert [card["id"] for card in http.get("/v1/models").json()["data"]] == [
                "paceline-mini-draft",
                "mini",
                "gpt-4o",
            ]
            body = {"messages": user("Who are you?"), "max_tokens": 8, "temperature": 0}
            streamed = http.post("/v1/chat/completions", json={**body, "model": "gpt-4o", "stream": True})
            whole = http.post("/v1/chat/completions", json={**body, "model": "mini"}).json()
            text = "".join(event["choices"][0]["delta"].get("content") or "" for event in events(streamed))
            assert text == whole["choices"][0]["message"]["content"] != ""
            assert http.post("/v1/chat/completions", json=body).json()["model"] == "paceline-mini-draft"
            models = {model["name"]: model for model in http.get("/v1/status").json()["models"]}
            assert {model["state"] for model in models.values()} == {"resident"}
            assert models["mini"]["status"]["model"]["max_num_seqs"] == 2
            estimate, loaded = models["mini"]["estimate_bytes"], models["mini"]["status"]["model"]["weights_bytes"]
            assert loaded < estimate <= models["mini"]["granted_bytes"]
        finally:
            process.send_signal(signal.SIGTERM)
            http.close()
        assert process.wait(WAIT) == 0
    for model in models.values():
        until(lambda pid=model["pid"]: not Path(f"/proc/{pid}").exists() or _gone(pid))  # type: ignore[misc]


@pytest.mark.slow
def test_a_killed_model_hurts_no_other_and_an_adapter_loaded_at_run_time_comes_back_with_it(tmp_path: Path) -> None:
    adapter = loras.write_mlx_lm(tmp_path / "adapter", loras.make(EMBEDDED / "paceline-mini-draft"))
    port = free_port()
    command = ["serve", "paceline-mini", "paceline-mini-draft", "--port", str(port)]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PACELINE_")}
    with subprocess.Popen([sys.executable, "-m", "paceline", *command], env=environment) as process:
        http = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=4 * WAIT)
        body = {"messages": user("Who are you?"), "max_tokens": 8, "temperature": 0}

        def says(model: str) -> str:
            answer = http.post("/v1/chat/completions", json={**body, "model": model}).raise_for_status().json()
            assert answer["model"] == model
            return str(answer["choices"][0]["message"]["content"])

        try:
            until(lambda: _ready(http))
            plain = says("paceline-mini-draft")
            named = {"lora_name": "novel", "lora_path": str(adapter), "model": "paceline-mini-draft"}
            assert http.post("/v1/load_lora_adapter", json=named).status_code == 200
            changed = says("novel")
            assert changed != plain == says("paceline-mini-draft")
            assert says("paceline-mini")
            pids = {model["name"]: model["pid"] for model in http.get("/v1/status").json()["models"]}
            long = {**body, "model": "paceline-mini", "stream": True, "max_tokens": 200, "ignore_eos": True}
            with http.stream("POST", "/v1/chat/completions", json=long) as streamed:
                lines = streamed.iter_lines()
                assert next(lines).startswith("data: ")
                os.kill(pids["paceline-mini-draft"], signal.SIGKILL)
                assert [line for line in lines if line][-1] == "data: [DONE]"
            assert says("novel") == changed
            assert http.post("/v1/unload_lora_adapter", json={"lora_name": "novel"}).status_code == 200
            assert http.post("/v1/chat/completions", json={**body, "model": "novel"}).status_code == 404
        finally:
            process.send_signal(signal.SIGTERM)
            http.close()
        assert process.wait(WAIT) == 0


def _ready(http: httpx.Client) -> bool:
    try:
        return http.get("/ready").status_code == 200
    except httpx.TransportError:
        return False


def _gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False
