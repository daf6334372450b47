"""examples/scale-out is what it says: HAProxy with its configuration, and the files agree with the server."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml  # type: ignore[import-untyped]

from docs.reference_stats import full_stats
from paceline.bench.replicas import CONVERSATION_HEADER
from paceline.server.http.auth import OPEN_PATHS
from paceline.server.metrics import Metrics
from paceline.settings import Settings
from tests.fleet import EXAMPLES, START_SECONDS, Server
from tests.server.child import free_port
from tests.server.fake_service import FakeService
from tests.server.harness import serve, user
from tests.waiting import WAIT, until

HAPROXY = shutil.which("haproxy") or shutil.which("haproxy", path="/usr/sbin:/usr/local/sbin")
LITELLM = os.environ.get("PACELINE_LITELLM") or shutil.which("litellm")
needs_haproxy = pytest.mark.skipif(HAPROXY is None, reason="there is no haproxy here")


class Balanced:
    """HAProxy before three servers, each of which names itself in its answers."""

    def __init__(self, stack: ExitStack, folder: Path) -> None:
        assert HAPROXY is not None
        self.services = {}
        text = (EXAMPLES / "haproxy.cfg").read_text()
        for name, port in (("a", 8001), ("b", 8002), ("c", 8003)):
            settings = Settings(served_model_name=(name,), any_model_name=True)
            self.services[name] = FakeService(settings)
            address = stack.enter_context(serve(self.services[name], settings))
            text = text.replace(f"127.0.0.1:{port}", address.removeprefix("http://"))
        port, statistics = free_port(), free_port()
        config = folder / "haproxy.cfg"
        config.write_text(text.replace("127.0.0.1:3001", f"127.0.0.1:{port}").replace(":8404", f":{statistics}"))
        self.server = Server([HAPROXY, "-f", str(config)], port, "/ready")
        stack.callback(self.server.end)
        stack.callback(self.server.send, signal.SIGTERM)
        self.server.until_ready()

    def answerer(self, headers: dict[str, str] | None = None, **fields: Any) -> str:
        """The name of the server that answers."""
        body = {"messages": user("hi"), **fields}
        reply = httpx.post(
            f"{self.server.url}/v1/chat/completions", json=body, headers=headers, timeout=WAIT, trust_env=False
        )
        assert reply.status_code == 200, reply.text
        name: str = reply.json()["model"]
        return name


@pytest.fixture(scope="module")
def balanced(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Balanced]:
    with ExitStack() as stack:
        yield Balanced(stack, tmp_path_factory.mktemp("haproxy"))


@pytest.mark.slow
@needs_haproxy
@pytest.mark.parametrize("by", ["header", "body", "key"])
def test_haproxy_keeps_a_conversation_with_its_replica_and_spreads_them(balanced: Balanced, by: str) -> None:
    def ask(name: str, turn: int) -> str:
        if by == "header":  # the header comes before what else could be hashed
            return balanced.answerer({CONVERSATION_HEADER: name}, prompt_cache_key=f"{turn}")
        if by == "body":
            return balanced.answerer({"authorization": f"Bearer {turn}"}, prompt_cache_key=name)
        return balanced.answerer({"authorization": f"Bearer {name}"})

    homes = []
    for number in range(12):
        [home] = {ask(f"conversation {number}", turn) for turn in range(3)}
        homes.append(home)
    assert set(homes) == {"a", "b", "c"}


@pytest.mark.slow
@needs_haproxy
def test_haproxy_hashes_a_key_in_a_long_body_too(balanced: Balanced) -> None:
    text = user("word " * 600)  # what the fake takes
    homes = {balanced.answerer(prompt_cache_key=f"long {number}", messages=text) for number in range(8)}
    assert len(homes) > 1


@pytest.mark.slow
@needs_haproxy
def test_haproxy_sends_what_a_loading_replica_refuses_to_another_one(balanced: Balanced) -> None:
    home = balanced.answerer({CONVERSATION_HEADER: "moves"})
    balanced.services[home].ready = False
    try:
        assert {balanced.answerer({CONVERSATION_HEADER: "moves"}) for _ in range(3)}.isdisjoint({home})
    finally:
        balanced.services[home].ready = True
    until(lambda: balanced.answerer({CONVERSATION_HEADER: "moves"}) == home)


@needs_haproxy
def test_haproxy_takes_the_configuration_as_it_is() -> None:
    assert HAPROXY is not None
    subprocess.run([HAPROXY, "-c", "-f", str(EXAMPLES / "haproxy.cfg")], check=True, capture_output=True)


def objects(kind: str) -> list[dict[str, Any]]:
    documents = yaml.safe_load_all((EXAMPLES / "kubernetes.yaml").read_text())
    return [document for document in documents if document["kind"] == kind]


def test_the_manifest_starts_servers_with_flags_that_exist() -> None:
    [replicas] = objects("StatefulSet")
    [container] = replicas["spec"]["template"]["spec"]["containers"]
    program, command, _, *flags = container["args"]
    assert (program, command) == ("paceline", "serve")
    given = dict(flag.removeprefix("--").replace("-", "_").split("=") for flag in flags)
    settings = Settings.load(given, None, {})
    pod = replicas["spec"]["template"]["spec"]
    sleep = int(container["lifecycle"]["preStop"]["exec"]["command"][1])
    assert pod["terminationGracePeriodSeconds"] > settings.drain_seconds + sleep
    assert settings.port == container["ports"][0]["containerPort"]
    for variable in container["env"]:
        assert variable["name"].removeprefix("PACELINE_").lower() in Settings.model_fields


def test_the_manifest_probes_paths_that_need_no_key() -> None:
    [replicas] = objects("StatefulSet")
    [container] = replicas["spec"]["template"]["spec"]["containers"]
    paths = {name: container[f"{name}Probe"]["httpGet"]["path"] for name in ("startup", "readiness", "liveness")}
    assert paths == {"startup": "/ready", "readiness": "/ready", "liveness": "/health"}
    assert set(paths.values()) <= OPEN_PATHS


def test_the_autoscaler_reads_a_metric_that_exists() -> None:
    [autoscaler] = objects("HorizontalPodAutoscaler")
    [metric] = autoscaler["spec"]["metrics"]
    names = {family.name for family in Metrics("m", full_stats).registry.collect()}
    assert metric["pods"]["metric"]["name"] in names
    [replicas] = objects("StatefulSet")
    assert autoscaler["spec"]["scaleTargetRef"]["name"] == replicas["metadata"]["name"]


def test_smg_is_started_alike_by_the_script_and_the_manifest() -> None:
    [deployment] = objects("Deployment")
    [container] = deployment["spec"]["template"]["spec"]["containers"]
    script = (EXAMPLES / "smg.sh").read_text()
    own = ("host", "port", "selector", "service-discovery", "shutdown-grace-period-secs", "prometheus")
    for flag in container["args"][2:]:
        name, _, value = flag.partition("=")
        if not name.removeprefix("--").startswith(own):
            assert f"{name} {value}".strip() in script


def litellm() -> Any:
    return yaml.safe_load((EXAMPLES / "litellm.yaml").read_text())


def test_litellm_points_at_the_routers() -> None:
    [model] = litellm()["model_list"]
    port = model["litellm_params"]["api_base"].rpartition(":")[2].removesuffix("/v1")
    assert f"PORT=${{PORT:-{port}}}" in (EXAMPLES / "smg.sh").read_text()


@pytest.mark.slow
@pytest.mark.skipif(LITELLM is None, reason="there is no litellm here: PACELINE_LITELLM names one")
def test_litellm_knows_keys_budgets_and_rates_from_a_file(tmp_path: Path) -> None:
    assert LITELLM is not None
    settings = Settings(served_model_name=("paceline-mini",))
    with serve(FakeService(settings), settings) as address:
        config = litellm()
        config["model_list"][0]["litellm_params"]["api_base"] = f"{address}/v1"
        (tmp_path / "litellm.yaml").write_text(yaml.safe_dump(config))
        shutil.copy(EXAMPLES / "litellm_keys.py", tmp_path)
        keys = {
            "sk-rich": {"user_id": "a"},
            "sk-poor": {"user_id": "b", "max_budget": 1e-6},
            "sk-slow": {"rpm_limit": 1},
        }
        (tmp_path / "keys.json").write_text(json.dumps(keys))
        port = free_port()
        command = [LITELLM, "--config", str(tmp_path / "litellm.yaml"), "--host", "127.0.0.1", "--port", str(port)]
        env = {"LITELLM_MASTER_KEY": f"sk-{secrets.token_hex(32)}", "LITELLM_KEYS": str(tmp_path / "keys.json")}
        env |= {"PYTHONPATH": "", "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
        proxy = Server(command, port, "/health/liveliness", env)
        try:
            proxy.until_ready()

            def code(key: str) -> int:
                body = {"model": "paceline-mini", "messages": user("hi")}
                headers = {"authorization": f"Bearer {key}"}
                url = f"{proxy.url}/v1/chat/completions"
                return httpx.post(url, json=body, headers=headers, timeout=WAIT, trust_env=False).status_code

            assert [code("sk-rich") for _ in range(3)] == [200, 200, 200]
            assert code("sk-wrong") == 401
            assert code("sk-poor") == 200
            until(lambda: code("sk-poor") == 422)  # what was spent is counted after the answer
            assert [code("sk-slow"), code("sk-slow")] == [200, 429]
        finally:
            proxy.end()


@pytest.mark.parametrize("script", sorted(path.name for path in EXAMPLES.glob("*.sh")))
def test_a_shell_can_read_the_scripts(script: str) -> None:
    subprocess.run(["sh", "-n", str(EXAMPLES / script)], check=True)


@pytest.mark.slow
def test_the_replicas_of_the_script_end_with_it(llama: Path) -> None:
    ports = [free_port(), free_port()]
    env = {"PACELINE": f"{sys.executable} -m paceline", "MODEL": str(llama), "PORTS": " ".join(map(str, ports))}
    script = Server(["sh", str(EXAMPLES / "replicas.sh")], ports[0], "/ready", env)
    try:
        script.until_ready()
        until(lambda: script.log().count("ready: ") == 2, START_SECONDS)
        script.send(signal.SIGTERM)
        assert script.process.wait(WAIT) == 0
        for port in ports:
            with pytest.raises(httpx.TransportError):
                httpx.get(f"http://127.0.0.1:{port}/health", trust_env=False)
    finally:
        script.end()
