from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner, Result

from paceline import platform
from paceline.bench.cli import app
from paceline.bench.options import numbers, write_json
from paceline.bench.wire import BenchError

if TYPE_CHECKING:
    from tests.bench.conftest import Reply, Serve

SMALL = ["--requests", "2", "--warmup", "0", "--ramp", "0", "--prompt-tokens", "45", "--output-tokens", "3"]


@pytest.fixture(autouse=True)
def wide_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")


def serve(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["serve", *arguments])


def test_a_run_prints_its_totals_and_latencies(fake: Serve) -> None:
    result = serve("--url", fake().url, "--label", "ours", *SMALL)
    assert result.exit_code == 0, result.output
    for text in ("ours", "2 ok, 0 failed", "output tokens per second", "p99", "inter-token latency"):
        assert text in result.output


def test_json_on_the_standard_output_is_alone_there(fake: Serve) -> None:
    result = serve("--url", fake().url, "--json", "-", "--long-prompt", "205@0", *SMALL)
    document = json.loads(result.stdout)
    [run] = document["runs"]
    assert (run["ok"], run["output_tokens"], run["tokens_from"]) == (2, 9, "usage")
    assert document["settings"]["schedule"]["requests"] == 2
    assert document["settings"]["schedule"]["long_prompt"] == {"tokens": 205, "at": 0.0}
    assert "output tokens per second" in result.stderr


def test_a_comparison_prints_and_writes_ratios(fake: Serve, tmp_path: Path) -> None:
    file = tmp_path / "figures.json"
    arguments = ["--label", "ours", "--compare", fake().url, "theirs", "--pairs", "2", "--json", str(file)]
    result = serve("--url", fake().url, *arguments, *SMALL)
    assert result.exit_code == 0, result.output
    for text in (
        "ours against theirs, medians of 2 interleaved pairs",
        "ours / theirs",
        "theirs: 4 ok, 0 failed",
    ):
        assert text in result.output
    document = json.loads(file.read_text())
    assert [run["label"] for run in document["runs"]] == ["ours", "theirs", "ours", "theirs"]
    assert len(document["compare"]["figures"]["output_tokens_per_s"]["ratios"]) == 2
    assert document["compare"]["warning"] is None


def test_a_comparison_of_unequal_work_warns(fake: Serve) -> None:
    async def brief(reply: Reply) -> None:
        await reply.output()
        await reply.end(1, "stop")

    result = serve("--url", fake().url, "--label", "ours", "--compare", fake(brief).url, "theirs", *SMALL)
    assert "not the same work" in result.output
    assert "2 of 2 streams met an end token" in result.output


def test_a_run_without_a_single_answer_exits_with_1(fake: Serve) -> None:
    async def script(reply: Reply) -> None:
        if reply.body["max_tokens"] == 1:  # the probe
            await reply.stream()
        else:
            await reply.answer(500, {"error": {"message": "out of [bold] luck"}})

    result = serve("--url", fake(script).url, *SMALL)
    assert result.exit_code == 1
    for text in ("0 ok, 2 failed", "http 500", "out of [bold] luck"):
        assert text in result.output


def test_settings_reach_the_request(fake: Serve) -> None:
    server = fake()
    arguments = [
        "--model",
        "named",
        "--no-ignore-eos",
        "--extra-body",
        '{"top_p": 0.5}',
        "--image-share",
        "1",
    ]
    result = serve("--url", server.url, "--image-size", "16", "--shared-prefix", "0.5", *arguments, *SMALL)
    assert result.exit_code == 0, result.output
    body: dict[str, Any] = server.bodies[-1]
    assert (body["model"], body["top_p"], body["max_tokens"]) == ("named", 0.5, 3)
    assert "ignore_eos" not in body
    assert [message["role"] for message in body["messages"]] == ["system", "user"]
    assert body["messages"][1]["content"][0]["type"] == "image_url"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--concurrency", "2", "--rate", "1"], "either a concurrency or a rate"),
        (["--image-share", "1", "--endpoint", "completions"], "--endpoint chat"),
        (["--compare-model", "m"], "--compare URL LABEL"),
        (["--label", "x", "--compare", "http://127.0.0.1:9", "x"], "two labels"),
        (["--extra-body", "{"], "no JSON"),
        (["--extra-body", "[]"], "JSON object"),
        (["--prompt-tokens", "none"], "no length"),
        (["--long-prompt", "5"], "TOKENS@SECONDS"),
        (["--rate", "0"], "above 0"),
        (["--json", "/nowhere/figures.json"], "cannot be written"),
        (["--json", "/"], "cannot be written"),
    ],
)
def test_a_wrong_setting_is_named_before_anything_is_sent(arguments: list[str], message: str) -> None:
    error = serve("--url", "http://127.0.0.1:9", *arguments).exception
    assert isinstance(error, BenchError)
    assert message in str(error)


def test_the_help_teaches() -> None:
    result = serve("--help")
    assert result.exit_code == 0
    for text in ("--long-prompt", "TOKENS@SECONDS", "Examples", "--compare"):
        assert text in result.output


@pytest.mark.slow
@pytest.mark.parametrize("model", [pytest.param([], marks=pytest.mark.slow), ["paceline-mini-draft"]])
def test_offline_measures_paceline_mini_unless_another_model_is_named(model: list[str]) -> None:
    small = ["--rows", "1,2", "--prompt-tokens", "4", "--output-tokens", "8", "--pairs", "1"]
    result = CliRunner().invoke(app, ["offline", *model, *small, "--json", "-"])
    assert result.exit_code == 0, result.output
    figures = json.loads(result.stdout)
    assert figures["model"] == (model or ["paceline-mini"])[0]
    assert [line["rows"] for line in figures["lines"]] == [1, 2]
    assert f"{figures['model']} on {platform.device_kind()}, tokens per second, medians of 1 pairs" in result.stderr


def test_the_command_line_imports_nothing_heavy() -> None:
    check = (
        "import sys, paceline.bench.cli\n"
        "assert not {'mlx', 'mlx_lm', 'h11', 'PIL', 'numpy', 'asyncio'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", check], check=True, timeout=240)


def test_numbers_are_separated_by_commas() -> None:
    assert numbers("1,4, 8,") == [1, 4, 8]
    with pytest.raises(BenchError, match="1,4,8"):
        numbers("one")


def test_figures_go_to_a_file_or_to_the_output(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_json(None, {"a": 1})
    write_json(tmp_path / "figures.json", {"a": 1})
    assert json.loads((tmp_path / "figures.json").read_text()) == {"a": 1}
    assert capsys.readouterr().out == ""
    write_json(Path("-"), {"a": 1})
    assert json.loads(capsys.readouterr().out) == {"a": 1}
