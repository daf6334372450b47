"""The table, the choice of figures and the log, with a server that says one thing."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from training import strangers, strangers_sources
from training.strangers_ask import Answer, Judged, Stranger, chat
from training.strangers_filler import Filler
from training.strangers_sources import Material

BOOK = tuple(f"Sentence number {number} of a long and dull book." for number in range(400))
SMALL = Material(frozenset(["hello", "word"]), (BOOK,), "x = 1\ny = 2\n" * 200)


def parrot(request: httpx.Request) -> httpx.Response:
    """A server that answers "5" to every question."""
    if request.url.path == "/v1/models":
        return httpx.Response(200, json={"data": [{"id": "parrot"}]})
    if request.url.path == "/tokenize":
        return httpx.Response(200, json={"count": max(len(json.loads(request.content)["prompt"]) // 4, 1)})
    message = {"role": "assistant", "content": "5"}
    choices = [{"message": message, "finish_reason": "stop"}]
    return httpx.Response(200, json={"choices": choices, "usage": {"prompt_tokens": 7}})


@asynccontextmanager
async def to_a_parrot(target: str, *, together: int, keep: float | None = None) -> AsyncIterator[Stranger]:
    async with httpx.AsyncClient(transport=httpx.MockTransport(parrot), base_url=target) as http:
        partner = Stranger(http, together, keep)
        await partner.connect()
        yield partner


@pytest.fixture(autouse=True)
def without_a_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strangers, "material", lambda: SMALL)
    monkeypatch.setattr(strangers, "stranger", to_a_parrot)


def test_every_figure_has_its_goal_and_its_number_of_prompts() -> None:
    rows = {row.name: row for row in strangers.figures()}
    assert len(rows) == len(strangers.figures())
    assert [rows[f"find {length}"].goal for length in ("1k", "4k", "8k", "16k")] == [0.9, 0.9, 0.9, 0.8]
    assert rows["ruler single 4k"].goal == 0.9 and rows["ruler tracking 8k"].goal is None
    assert rows["sums"].count == 200 and rows["talk story"].count == 100 and rows["first request"].count == 20


def test_only_takes_kinds_and_the_beginnings_of_figures() -> None:
    assert [row.name for row in strangers.chosen(["json", "find 1k"])] == ["find 1k", "json schema", "json asked"]
    assert len(strangers.chosen([])) == len(strangers.figures())
    with pytest.raises(ValueError, match="is no kind"):
        strangers.chosen(["poetry"])


def test_a_run_prints_the_table_and_writes_every_prompt(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "log.jsonl"
    strangers.main(
        ["http://parrot", "--only", "sums", "--only", "first", "--count", "20", "--out", str(log), "--quiet"]
    )
    printed = capsys.readouterr().out.splitlines()
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    sums = [line for line in lines if line["figure"] == "sums"]
    share = sum(line["right"] for line in sums) / 20
    assert printed[0] == "| figure | value | goal | prompts |"
    assert printed[2] == f"| sums | {share:.3f} | 0.90 missed | 20 |"
    assert printed[3] == "| first request | 0.000 | 1.00 missed | 20 |"
    assert len(lines) == 40 and all(line["right"] == (line["expected"] == 5) for line in sums)
    assert sums[0]["answer"] == "5" and sums[0]["prompt_tokens"] == 7 and sums[0]["body"]["temperature"] == 0


def test_prompts_are_read_sparsely_if_asked_so(monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[dict[str, Any]] = []

    def listening(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/v1/chat/completions":
            heard.append(json.loads(request.content))
        return answer(request)

    answer = parrot
    monkeypatch.setitem(globals(), "parrot", listening)
    strangers.main(["http://parrot", "--only", "sums", "--count", "2", "--quiet", "--keep", "0.3"])
    strangers.main(["http://parrot", "--only", "sums", "--count", "2", "--quiet"])
    assert [body.get("specprefill_keep_pct") for body in heard] == [0.3, 0.3, None, None]
    assert [body.get("specprefill") for body in heard] == [True, True, None, None]


def test_an_unknown_kind_ends_the_program(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        strangers.main(["http://127.0.0.1:1", "--only", "poetry"])
    assert "is no kind and no figure" in capsys.readouterr().err


def test_every_figure_builds_and_repeats_with_its_seed() -> None:
    filler = Filler(SMALL)
    for row in strangers.figures():
        first, again, other = (row.build(7, seed, filler) for seed in (0, 0, 1))
        assert [one.body for one in first] == [one.body for one in again], row.name
        assert {one.figure for one in first} == {row.name} and len(first) == 7
        if row.name != "first request":
            assert [one.body for one in first] != [one.body for one in other], row.name


def test_a_figure_without_a_goal_shows_none() -> None:
    row = next(row for row in strangers.figures() if row.name == "passkey 1k")
    judged = Judged(chat("passkey 1k", "?", lambda answer: ""), Answer("x"), "")
    assert strangers.table([row], [judged]).splitlines()[-1] == "| passkey 1k | 1.000 |  | 1 |"


def test_sentences_of_a_book_are_on_one_line_and_of_a_readable_length() -> None:
    text = "CHAPTER I.\n\nAlice was tired of\nsitting there. Oh! She had nothing to do at all."
    assert strangers_sources.sentences(text) == ("Alice was tired of sitting there.", "She had nothing to do at all.")
