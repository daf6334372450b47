"""What operators are given in deploy/: every query names metrics and labels that a running server exposes."""

from __future__ import annotations

import json
import plistlib
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml  # type: ignore[import-untyped]
from prometheus_client.parser import text_string_to_metric_families

from paceline.service import Service
from paceline.settings import Settings
from tests.server.child import free_port
from tests.server.harness import post_chat, serve
from tests.waiting import WAIT, until

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
DASHBOARD: dict[str, Any] = json.loads((DEPLOY / "grafana/dashboards/paceline.json").read_text())
ALERTS: list[dict[str, Any]] = yaml.safe_load((DEPLOY / "prometheus/alerts.yml").read_text())["groups"][0]["rules"]
ADDED = {"instance", "job", "le"}  # labels of Prometheus, and of histograms


def queries() -> dict[str, str]:
    panels = {
        f"{panel['title']} {target['refId']}": target["expr"]
        for panel in DASHBOARD["panels"]
        for target in panel["targets"]
    }
    variables = {variable["name"]: variable.get("definition", "") for variable in DASHBOARD["templating"]["list"]}
    return panels | variables | {rule["alert"]: rule["expr"] for rule in ALERTS}


@pytest.fixture(scope="module")
def exposed(hybrid: Path) -> Iterator[dict[str, set[str]]]:
    """The labels of every sample of a server that has answered a request, by name."""
    settings = Settings(model=str(hybrid), max_num_seqs=4)
    with serve(Service(settings), settings) as address, httpx.Client(base_url=address, timeout=WAIT) as http:
        assert post_chat(http, max_tokens=8, speculation=1, ignore_eos=True).status_code == 200
        found: dict[str, set[str]] = {}
        for family in text_string_to_metric_families(http.get("/metrics").text):
            for sample in family.samples:
                found.setdefault(sample.name, set()).update(sample.labels)
    yield found


def test_every_query_names_metrics_and_labels_that_a_server_exposes(exposed: dict[str, set[str]]) -> None:
    for title, query in queries().items():
        names = set(re.findall(r"\bpaceline_\w+", query))
        assert names <= exposed.keys(), title
        grouped = {label.strip() for group in re.findall(r"by \(([^)]*)\)", query) for label in group.split(",")}
        selected = {label for group in re.findall(r"\{([^}]*)\}", query) for label in re.findall(r"(\w+)=", group)}
        known = set().union(*(exposed[name] for name in names)) | ADDED
        assert grouped | selected <= known, title


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("prometheus") is None, reason="there is no Prometheus here")
def test_prometheus_answers_every_query_from_a_running_server(hybrid: Path, tmp_path: Path) -> None:
    """The whole way: our configuration, a scrape, the panels' queries and the alerts. Every query has a result."""
    shutil.copytree(DEPLOY / "prometheus", tmp_path, dirs_exist_ok=True)
    settings = Settings(model=str(hybrid), max_num_seqs=4)
    with serve(Service(settings), settings) as address, httpx.Client(base_url=address, timeout=WAIT) as http:
        config = tmp_path / "prometheus.yml"
        target = address.removeprefix("http://")
        text = config.read_text().replace("paceline:8000", target).replace("interval: 10s", "interval: 1s")
        config.write_text(text.replace("rule_files:", "  evaluation_interval: 1s\nrule_files:"))
        port = free_port()
        command = ["prometheus", f"--config.file={config}", f"--storage.tsdb.path={tmp_path / 'data'}"]
        with (tmp_path / "log").open("w") as log:
            process = subprocess.Popen([*command, f"--web.listen-address=127.0.0.1:{port}"], stderr=log)
        try:
            with httpx.Client(base_url=f"http://127.0.0.1:{port}/api/v1/", timeout=WAIT) as prometheus:
                until(lambda: _asked(prometheus, f'up{{instance="{target}"}} == 1'))
                assert post_chat(http, max_tokens=8, speculation=1, ignore_eos=True).status_code == 200
                until(lambda: _asked(prometheus, "increase(paceline_generation_tokens_total[1m]) > 0"))
                panels = [query["expr"] for panel in DASHBOARD["panels"] for query in panel["targets"]]
                until(lambda: all(_asked(prometheus, query) for query in panels))  # a rate needs two scrapes
                until(lambda: all(rule["health"] == "ok" for rule in _rules(prometheus)))
                assert {rule["name"] for rule in _rules(prometheus)} == {rule["alert"] for rule in ALERTS}
                assert {rule["state"] for rule in _rules(prometheus)} == {"inactive"}
        finally:
            process.terminate()
            process.wait(WAIT)


def _asked(prometheus: httpx.Client, query: str) -> list[Any]:
    """The result of a query, as Grafana sends it."""
    try:
        answer = prometheus.get(
            "query", params={"query": query.replace("$__rate_interval", "1m").replace("$model", ".*")}
        )
    except httpx.TransportError:
        return []  # it is starting
    assert answer.status_code in (200, 503), answer.text
    return answer.json()["data"]["result"] if answer.status_code == 200 else []


def _rules(prometheus: httpx.Client) -> list[dict[str, Any]]:
    return [rule for group in prometheus.get("rules").json()["data"]["groups"] for rule in group["rules"]]


def test_panels_have_queries_and_their_own_place() -> None:
    panels = DASHBOARD["panels"]
    assert all(target["expr"] for panel in panels for target in panel["targets"])
    assert len({panel["id"] for panel in panels}) == len(panels)
    cells = [
        (x, y)
        for panel in panels
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    assert len(cells) == len(set(cells)) and max(x for x, _ in cells) < 24


def test_alerts_say_what_is_wrong_and_how_bad() -> None:
    for rule in ALERTS:
        assert rule["labels"]["severity"] in ("warning", "critical") and rule["annotations"]["summary"]
    about = " ".join(rule["expr"] for rule in ALERTS)
    for metric in ("num_requests_waiting", "requests_refused", "memory_free", "failed_steps", "generation_tokens"):
        assert metric in about


MODEL = 'job="paceline",instance="a",model_name="m"'
WELL = {  # series of half an hour, a value a minute, of a server that is well
    'up{job="paceline",instance="a"}': "1x30",
    f"paceline_num_requests_waiting{{{MODEL}}}": "3x30",
    f"paceline_num_requests_running{{{MODEL}}}": "8x30",
    f"paceline_generation_tokens_total{{{MODEL}}}": "0+9000x30",
    f'paceline_requests_refused_total{{{MODEL},cause="queue_full"}}': "0+1x30",
    f"paceline_memory_free_bytes{{{MODEL}}}": "500x30",
    f"paceline_memory_limit_bytes{{{MODEL}}}": "1000x30",
    f"paceline_out_of_memory_total{{{MODEL}}}": "4x30",
    f"paceline_failed_steps_total{{{MODEL}}}": "2x30",
    f'paceline_inter_token_latency_seconds_bucket{{{MODEL},le="1"}}': "0+600x30",
    f'paceline_inter_token_latency_seconds_bucket{{{MODEL},le="2.5"}}': "0+601x30",
    f'paceline_inter_token_latency_seconds_bucket{{{MODEL},le="+Inf"}}': "0+601x30",
}
ILL = {  # what fires each alert: the metric, and its values
    "PacelineDown": ("up{", "0x30"),
    "PacelineQueueGrows": ("paceline_num_requests_waiting", "40x30"),
    "PacelineRefusesRequests": ("paceline_requests_refused", "0+60x30"),
    "PacelineMemoryLow": ("paceline_memory_free", "10x30"),
    "PacelineOutOfMemory": ("paceline_out_of_memory", "4x25 5x5"),
    "PacelineFailedSteps": ("paceline_failed_steps", "2x28 3x2"),
    "PacelineStalls": ("paceline_generation_tokens", "9000x30"),
    "PacelineSlowTokens": (f'paceline_inter_token_latency_seconds_bucket{{{MODEL},le="1"}}', "0+300x30"),
}


@pytest.mark.skipif(shutil.which("promtool") is None, reason="there is no promtool here")
def test_every_alert_fires_when_it_should_and_none_on_a_server_that_is_well(tmp_path: Path) -> None:
    assert ILL.keys() == {rule["alert"] for rule in ALERTS}
    firing = 'ALERTS{alertstate="firing"}'
    tests = [_rule_test(WELL, f"count({firing}) or vector(0)", 0)]
    for alert, (metric, values) in ILL.items():
        series = {name: values if name.startswith(metric) else usual for name, usual in WELL.items()}
        assert series != WELL
        one = firing.replace("}", f',alertname="{alert}"}}')
        tests += [_rule_test(series, f"count({one})", 1), _rule_test(series, f"count({firing})", 1)]
    shutil.copy(DEPLOY / "prometheus/alerts.yml", tmp_path)
    file = tmp_path / "tests.yml"
    file.write_text(yaml.safe_dump({"rule_files": ["alerts.yml"], "evaluation_interval": "1m", "tests": tests}))
    checked = subprocess.run(
        ["promtool", "test", "rules", str(file)], capture_output=True, text=True, check=False, timeout=WAIT
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr


def _rule_test(series: dict[str, str], query: str, value: int) -> dict[str, Any]:
    given = [{"series": name, "values": values} for name, values in series.items()]
    expected = {"expr": query, "eval_time": "30m", "exp_samples": [{"labels": "{}", "value": value}]}
    return {"interval": "1m", "input_series": given, "promql_expr_test": [expected]}


def test_compose_starts_the_three_with_files_that_exist() -> None:
    compose = yaml.safe_load((DEPLOY / "compose.yml").read_text())
    assert set(compose["services"]) == {"paceline", "prometheus", "grafana"}
    for service in compose["services"].values():
        for volume in service["volumes"]:
            source = volume.partition(":")[0]
            assert not source.startswith(".") or (DEPLOY / source).exists(), source
    assert compose["services"]["paceline"]["tmpfs"] == ["/tmp:exec"]  # MLX loads the kernels that it compiles there
    assert (DEPLOY.parent / compose["services"]["paceline"]["build"]["dockerfile"]).exists()
    scraped = yaml.safe_load((DEPLOY / "prometheus/prometheus.yml").read_text())
    assert scraped["scrape_configs"][0]["static_configs"][0]["targets"] == ["paceline:8000"]


def test_the_image_runs_without_root_checks_its_health_and_copies_what_exists() -> None:
    text = (DEPLOY / "Dockerfile").read_text()
    stages = re.split(r"^FROM ", text, flags=re.MULTILINE)[1:]
    assert [stage.split()[2] for stage in stages] == ["base", "cuda", "cpu"]
    assert "HEALTHCHECK" in stages[0] and all("USER 10001" in stage for stage in stages[1:])
    volume = yaml.safe_load((DEPLOY / "compose.yml").read_text())["services"]["paceline"]["volumes"][0].partition(":")[
        2
    ]
    assert f"install -d -o paceline -g paceline {volume}" in stages[0]  # a volume there is root's otherwise
    for sources in re.findall(r"^COPY (.*) \S+$", text, flags=re.MULTILINE):
        assert all((DEPLOY.parent / source).exists() for source in sources.split())


@pytest.mark.parametrize("name", ["paceline", "paceline-rank"])
def test_launchd_gets_a_property_list(name: str) -> None:
    job = plistlib.loads((DEPLOY / f"{name}.plist").read_bytes())
    assert job["Label"] == name and job["ProgramArguments"][1] == "serve"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd here")
@pytest.mark.parametrize("name", ["paceline.service", "paceline-rank.service"])
def test_systemd_takes_the_unit(tmp_path: Path, name: str) -> None:
    unit = (DEPLOY / name).read_text().replace("/opt/paceline/bin/paceline", "/bin/true")
    file = tmp_path / name
    file.write_text(unit)
    checked = subprocess.run(
        ["systemd-analyze", "verify", str(file)], capture_output=True, text=True, check=False, timeout=WAIT
    )
    assert (checked.returncode, checked.stderr) == (0, "")
