"""Admission and scheduling as clients meet them: a real engine with one place and a queue of two."""

from __future__ import annotations

import concurrent.futures
import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from paceline.server.state import Backend
from paceline.service import Service
from paceline.settings import Settings
from tests import waiting
from tests.server.harness import post_chat, refused, serve, user
from tests.server.test_metrics import scrape
from tests.waiting import WAIT


@pytest.fixture(scope="module")
def narrow(hybrid: Path) -> Iterator[httpx.Client]:
    settings = Settings(
        model=str(hybrid), max_num_seqs=1, max_queue=2, scheduler_policy="priority", memory_limit_gb=0.5
    )
    backend: Backend = Service(settings)
    with serve(backend, settings) as address, httpx.Client(base_url=address, timeout=WAIT) as http:
        yield http


def until(http: httpx.Client, holds: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    status: dict[str, Any] = {}

    def look() -> bool:
        status.update(http.get("/v1/status").json())
        return holds(status)

    waiting.until(look)
    return status


def counts(status: dict[str, Any]) -> tuple[int, int]:
    return status["num_requests_running"], status["num_requests_waiting"]


@contextmanager
def crowded(http: httpx.Client) -> Iterator[list[concurrent.futures.Future[httpx.Response]]]:
    """One request runs, of which there is no end, and two wait."""
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        asked = []
        for name in ("first", "second", "third"):
            body = {"messages": user(name), "ignore_eos": True, "user": "ann"}
            headers = {"x-request-id": name}
            asked.append(pool.submit(http.post, "/v1/chat/completions", json=body, headers=headers))
            until(http, lambda status: sum(counts(status)) == len(asked))
        try:
            yield asked
        finally:
            for name in ("third", "second", "first"):
                http.delete(f"/v1/requests/{name}")
    until(http, lambda status: counts(status) == (0, 0))


def _is_in_full_swing(status: dict[str, Any]) -> bool:
    """Tokens come, and memory was looked at since."""
    running = status["running_sequences"]
    if not running or not running[0]["generated_tokens"] or not status["memory"]:
        return False
    return bool(status["memory"]["estimate_bytes"] > status["memory_budget"]["parts"]["weights"])


def test_status_shows_sequences_the_queue_the_budget_and_the_pace(narrow: httpx.Client) -> None:
    with crowded(narrow):
        status = until(narrow, _is_in_full_swing)
        [row], queue = status["running_sequences"], status["waiting_sequences"]
        assert row["state"] == "decode" and row["id"].startswith("chatcmpl-")
        assert row["tenant"].startswith("client-") and "/user-" in row["tenant"]
        assert [(each["position"], each["reason"]) for each in queue] == [(1, "max_num_seqs"), (2, "max_num_seqs")]
        assert row["age_seconds"] >= queue[0]["age_seconds"] >= queue[1]["age_seconds"]
        assert "Go on" not in str(status) and "first" not in str(status["running_sequences"])
        assert status["num_requests_waiting_by_reason"] == {"max_num_seqs": 2}
        # The one that runs decodes: what is left are the prompts of those that wait.
        assert 0 < status["num_uncached_tokens"] <= sum(each["prompt_tokens"] for each in queue)
        [load] = narrow.get("/v1/loads").json()["loads"]
        assert (load["num_running_reqs"], load["num_waiting_reqs"]) == (1, 2)
        assert load["num_waiting_uncached_tokens"] == status["num_uncached_tokens"]
        assert 0 < load["token_usage"] <= 1
        assert status["scheduler"]["policy"] == "priority" and status["scheduler"]["max_queue"] == 2
        budget = status["memory_budget"]
        assert budget["limit_bytes"] == 500_000_000
        assert budget["parts"]["weights"] > 0 and budget["parts"]["sequences"] > 0
        memory = status["memory"]
        assert 0 < memory["active_bytes"] <= memory["peak_bytes"]
        assert memory["estimate_bytes"] > budget["parts"]["weights"]
        assert status["scheduler"]["prefill_chunk_tokens"] > 0 and status["scheduler"]["stall_target_ms"] == 250
        assert status["throughput"]["generation_tokens_per_second"] >= 0
        after = scrape(narrow)
    assert after["paceline_num_requests_waiting_by_reason max_num_seqs"] == 2
    assert after["paceline_memory_limit_bytes"] == 500_000_000
    assert after["paceline_memory_budget_bytes sequences"] > 0
    assert "paceline_memory_estimate_error_ratio" in after


def test_whoever_finds_the_queue_full_is_told_when_to_come_back(narrow: httpx.Client) -> None:
    with crowded(narrow):
        answer = post_chat(narrow, "one too many", max_tokens=1)
        error = refused(answer, 429, None, "2 requests wait")
        assert (error["type"], error["code"]) == ("rate_limit_error", "queue_full")
        assert 1 <= int(answer.headers["retry-after"]) <= 600
        body = {"messages": user("one too many"), "max_tokens": 1}
        assert narrow.post("/v1/messages", json=body).json()["error"]["type"] == "rate_limit_error"
    assert post_chat(narrow, "later", max_tokens=1).status_code == 200  # nothing latches
    assert scrape(narrow)["paceline_requests_refused_total queue_full"] >= 2


def test_a_stream_begins_while_its_request_waits_and_is_refused_with_a_status_where_it_may_not(
    narrow: httpx.Client,
) -> None:
    body = {"messages": user("streamed"), "max_tokens": 2, "stream": True}
    paths = {"/v1/chat/completions": '"role":"assistant"', "/v1/messages": "message_start"}
    with crowded(narrow):
        for path in paths:
            assert narrow.post(path, json=body).status_code == 429
        narrow.delete("/v1/requests/third")
        until(narrow, lambda status: counts(status) == (1, 1))
        first_tokens = scrape(narrow)["paceline_time_to_first_token_seconds_count"]
        for path, first in paths.items():
            with narrow.stream("POST", path, json=body) as response:
                assert response.status_code == 200
                pieces = response.iter_text()  # kept: httpx closes the response with it
                assert first in next(pieces)
                assert counts(narrow.get("/v1/status").json()) == (1, 2)
            until(narrow, lambda status: counts(status) == (1, 1))  # it has gone away
        assert scrape(narrow)["paceline_time_to_first_token_seconds_count"] == first_tokens
        with narrow.stream("POST", "/v1/chat/completions", json=body, headers={"x-request-id": "mine"}) as response:
            pieces = response.iter_text()
            text = next(pieces)
            assert narrow.delete("/v1/requests/mine").status_code == 200
            text += "".join(pieces)
        assert '"code":"request_cancelled"' in text and text.endswith("data: [DONE]\n\n")


def test_a_message_begins_with_the_count_of_its_prompt(narrow: httpx.Client) -> None:
    body = {"messages": user("counted " * 40), "max_tokens": 2}
    counted = narrow.post("/v1/messages/count_tokens", json={"messages": body["messages"]}).json()["input_tokens"]
    for _ in range(2):  # the second time, a part of it is cached
        answer = narrow.post("/v1/messages", json={**body, "stream": True}).text
        events = [json.loads(line[6:]) for line in answer.splitlines() if line.startswith("data: ")]
        start, end = events[0]["message"]["usage"], events[-2]["usage"]
        for usage in (start, end):
            assert usage["input_tokens"] + usage["cache_read_input_tokens"] == counted
        assert start["cache_read_input_tokens"] == end["cache_read_input_tokens"]
        assert (start["output_tokens"], end["output_tokens"]) == (0, 2)


def test_who_waits_and_who_runs_can_be_cancelled(narrow: httpx.Client) -> None:
    with crowded(narrow) as asked:
        assert narrow.delete("/v1/requests/third").status_code == 200
        assert asked[2].result(WAIT).status_code == 499
        assert counts(until(narrow, lambda status: status["num_requests_waiting"] == 1)) == (1, 1)
        assert narrow.delete("/v1/requests/first").status_code == 200
        assert asked[0].result(WAIT).status_code == 499
        status = until(narrow, lambda status: counts(status) == (1, 0))  # the second has its turn
        assert narrow.delete(f"/v1/requests/{status['running_sequences'][0]['id']}").status_code == 200
        assert asked[1].result(WAIT).status_code == 499


def test_a_lower_priority_number_comes_first_and_sets_the_others_back(narrow: httpx.Client) -> None:
    with crowded(narrow):
        answer = post_chat(narrow, "urgent", max_tokens=3, ignore_eos=True, priority=-10)
        assert answer.status_code == 200 and answer.json()["usage"]["completion_tokens"] == 3
        status = narrow.get("/v1/status").json()
        assert status["preemptions"]["policy"] >= 1
        assert sum(row["preemptions"] for row in (*status["running_sequences"], *status["waiting_sequences"])) >= 1


@pytest.mark.slow
def test_what_never_fits_is_refused_at_once_with_the_numbers(hybrid: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(hybrid, tmp_path / "model"))
    config = json.loads((folder / "config.json").read_text())
    config["text_config"]["max_position_embeddings"] = 200_000
    (folder / "config.json").write_text(json.dumps(config))
    settings = Settings(model=str(folder), memory_limit_gb=0.05, scheduler_headroom_gb=0.001)
    backend: Backend = Service(settings)
    with serve(backend, settings) as address, httpx.Client(base_url=address, timeout=WAIT) as http:
        answer = http.post("/v1/completions", json={"prompt": [5] * 190_000, "max_tokens": 1})
        error = refused(answer, 400, "prompt", "190000 tokens", "GB of memory", "--memory-limit-gb")
        assert error["code"] == "memory_limit_exceeded"
        assert scrape(http)["paceline_requests_refused_total never_fits"] == 1


@pytest.mark.slow
def test_whoever_waits_too_long_is_told_so(hybrid: Path) -> None:
    settings = Settings(model=str(hybrid), max_num_seqs=1, queue_timeout=0.5)
    backend: Backend = Service(settings)
    body = {"messages": user("Go on"), "ignore_eos": True, "stream": True}
    with serve(backend, settings) as address, httpx.Client(base_url=address, timeout=WAIT) as http:
        with http.stream("POST", "/v1/chat/completions", json=body) as response:
            lines = response.iter_lines()  # kept: httpx closes the response with it
            assert next(lines).startswith("data: ")
            waited = post_chat(http, "me too", max_tokens=1)
            error = refused(waited, 503, None, "0.5 s")
            assert error["code"] == "queue_timeout" and int(waited.headers["retry-after"]) >= 1
        until(http, lambda status: counts(status) == (0, 0))
        assert http.get("/v1/status").json()["requests_refused"]["queue_timeout"] == 1


@pytest.mark.slow
def test_whoever_takes_too_long_is_told_so(hybrid: Path) -> None:
    settings = Settings(model=str(hybrid), max_num_seqs=1, request_timeout=1.0)
    backend: Backend = Service(settings)
    with serve(backend, settings) as address, httpx.Client(base_url=address, timeout=WAIT) as http:
        answer = post_chat(http, "Go on", ignore_eos=True, stream=True)
        assert '"code":"deadline"' in answer.text and "1 s" in answer.text
        assert answer.status_code == 504 or answer.text.endswith("data: [DONE]\n\n")  # without, or with a first token
        until(http, lambda status: counts(status) == (0, 0))
        assert http.get("/v1/status").json()["requests_refused"]["deadline"] == 1
