"""What text streams suffer from pictures, as a bench counts it."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from paceline.bench.cli import app
from paceline.bench.load import Outcome
from paceline.bench.media import RIVAL, Plan, line_of, measure, media_table, server
from paceline.bench.wire import Address, BenchError

if TYPE_CHECKING:
    from tests.bench.conftest import Reply, Serve

SHORT = Plan(streams=3, output_tokens=4, pictures=2, size=16, answer_tokens=2, seconds=0.2, timeout=20)


def text(*times: float, tokens: int | None = None) -> Outcome:
    return Outcome(0.0, times[-1], chunk_times=times, completion_tokens=tokens)


def test_tokens_and_gaps_count_alone_and_with_pictures() -> None:
    texts = [text(1, 2, 3, 4), text(1.5, 2.5, 3.5, 6.5, 7.0, tokens=10)]
    seen = [Outcome(4.0, 5.0, chunk_times=(4.5, 4.6)), Outcome(5.0, 8.0, chunk_times=(7.5,))]
    line = line_of("paceline", texts, seen, 1.0, 4.0, 8.0)
    assert line.alone_tokens_per_s == (3 + 3 * 2) / 3  # chunks of the second stream hold two tokens
    assert line.tokens_per_s == (1 + 2 * 2) / 4
    assert line.alone_longest_gap_s == 1 and line.longest_gap_s == 3
    assert (line.first_token_s.max, line.failures) == (2.5, ())
    assert line.figures()["kept"] == pytest.approx(1.25 / 3)
    assert len(media_table("media", [line, line]).columns) == 3


def test_a_server_without_tokens_is_an_error() -> None:
    with pytest.raises(BenchError, match="no tokens"):
        line_of("paceline", [], [text(1)], 0.0, 1.0, 2.0)


async def test_streams_stay_in_flight_while_pictures_arrive_one_by_one(fake: Serve) -> None:
    pictures = []

    async def script(reply: Reply) -> None:
        shown = isinstance(reply.body["messages"][-1]["content"], list)
        if shown:
            pictures.append(backend.in_flight)
        await reply.stream(gap=0.02)

    backend = fake(script)
    line = await measure("fake", Address.parse(backend.url), "model", SHORT)
    assert line.failures == () and line.alone_tokens_per_s > 0 and line.first_token_s.count == 2
    assert len(pictures) == 3 and backend.most_in_flight <= SHORT.streams + 1  # one warms up


async def test_a_server_that_refuses_pictures_is_an_error(fake: Serve) -> None:
    async def script(reply: Reply) -> None:
        await asyncio.sleep(0)
        await reply.answer(400, {"error": {"message": "this model takes no images"}})

    with pytest.raises(BenchError, match="takes no images"):
        await measure("fake", Address.parse(fake(script).url), "model", SHORT)


def test_servers_are_started_by_their_own_commands() -> None:
    assert server("paceline", "folder").command[1:] == ["-m", "paceline", "serve", "folder"]
    assert server("mlx-vlm", "folder").command[1:] == ["-c", RIVAL, "--model", "folder"]
    with pytest.raises(BenchError, match="no rival"):
        server("other", "folder")


@pytest.mark.slow
def test_the_embedded_model_is_measured_by_the_command() -> None:
    short = ["--streams", "2", "--output-tokens", "8", "--pictures", "1", "--image-size", "64", "--seconds", "0.5"]
    result = CliRunner().invoke(app, ["media", *short, "--json", "-"])
    assert result.exit_code == 0, result.output
    [line] = json.loads(result.stdout)["lines"]
    assert line["server"] == "paceline" and line["failures"] == [] and line["tokens_per_s"] > 0
