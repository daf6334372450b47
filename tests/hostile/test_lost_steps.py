"""Steps that fail: once, and nobody notices; for good, and everybody is told."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.hostile.harness import WAIT, Answer, Server, served, wait_for_words
from tests.hostile.test_prompts import said

PROGRAM = ("tests.hostile.faulty", "serve")
TOKENS = 120
ASKED: list[tuple[str, dict[str, Any]]] = [
    ("/v1/chat/completions", {"messages": said("Tell me about rain."), "max_tokens": TOKENS}),
    ("/v1/chat/completions", {"messages": said("Count from one to ten."), "max_tokens": TOKENS, "speculation": "off"}),
    ("/v1/completions", {"prompt": "Once upon a time", "max_tokens": TOKENS}),
    ("/v1/completions", {"prompt": "The wind", "max_tokens": TOKENS, "temperature": 1.0, "seed": 7}),
    ("/v1/messages", {"messages": said("Who are you?"), "max_tokens": TOKENS}),
    ("/v1/responses", {"input": "Name a colour.", "max_output_tokens": TOKENS}),
]
FAULTS = ("decode", "collect", "read")  # of a step that is everybody's
MAX_ASKED = 20  # an engine that fails at every step has given up by then


@pytest.fixture
def breakable() -> Iterator[Server]:
    with served(program=PROGRAM) as server:
        yield server


def tell(server: Server, word: str) -> None:
    assert server.process.stdin is not None
    server.process.stdin.write(f"{word}\n")
    server.process.stdin.flush()


def ask(server: Server, path: str, fields: dict[str, Any], stream: bool) -> Answer:
    greedy = {} if "temperature" in fields else {"temperature": 0}
    endless = {"ignore_eos": True} if path.endswith("completions") else {}
    body = {**fields, **greedy, **endless, "stream": stream, "cache": False}
    return server.request("POST", path, json.dumps(body).encode())


def text_of(path: str, answer: Answer) -> str:
    """What a stream said, without ids and times, which are never the same."""
    assert answer.status == 200, answer
    events = [json.loads(line[6:]) for line in answer.body.decode().splitlines() if line.startswith("data: {")]
    assert events and not any("error" in event for event in events if path != "/v1/responses"), events[-1]
    match path:
        case "/v1/chat/completions":
            return "".join(c["delta"].get("content") or "" for event in events for c in event["choices"])
        case "/v1/completions":
            return "".join(c["text"] for event in events for c in event["choices"])
        case "/v1/messages":
            return "".join(e["delta"].get("text", "") for e in events if e["type"] == "content_block_delta")
        case _:
            assert events[-1]["type"] in ("response.completed", "response.incomplete"), events[-1]
            return "".join(e["delta"] for e in events if e["type"] == "response.output_text.delta")


def ask_all(server: Server) -> list[Answer]:
    with ThreadPoolExecutor(len(ASKED)) as pool:
        return list(pool.map(lambda asked: ask(server, asked[0], asked[1], stream=True), ASKED))


def all_texts(server: Server) -> list[str]:
    answers = ask_all(server)
    return [text_of(path, answer) for (path, _), answer in zip(ASKED, answers, strict=True)]


@pytest.mark.slow
def test_a_step_that_fails_once_changes_no_streams_tokens(breakable: Server) -> None:
    before = all_texts(breakable)
    assert all(before)
    for fault in FAULTS:
        failed = breakable.get("/v1/status").json()["failed_steps"]
        with ThreadPoolExecutor(1) as pool:
            asking = pool.submit(all_texts, breakable)
            breakable.wait_until(lambda status: status["num_requests_decoding"] >= 2)
            tell(breakable, f"once {fault}")
            assert asking.result(WAIT) == before, fault
        assert breakable.get("/v1/status").json()["failed_steps"] > failed, fault
        assert breakable.get("/health").status == 200
    assert all_texts(breakable) == before  # and what was left of a fault harms nobody later


@pytest.mark.slow
def test_a_prompt_that_fails_once_ends_one_request_and_changes_no_others_tokens(breakable: Server) -> None:
    before = all_texts(breakable)
    tell(breakable, "once prefill")
    answers = ask_all(breakable)
    failed = [answer for answer in answers if answer.status == 500 or b'"error"' in answer.body[-500:]]
    assert len(failed) == 1, [str(answer) for answer in answers]
    for (path, _), answer, text in zip(ASKED, answers, before, strict=True):
        assert answer in failed or text_of(path, answer) == text
    assert all_texts(breakable) == before


@pytest.mark.slow
def test_an_engine_that_gives_up_tells_every_client_and_ends_with_3(breakable: Server) -> None:
    long = [(path, {**fields, "max_tokens": 4000}) for path, fields in ASKED if path.endswith("completions")]
    assert breakable.greedy
    with ThreadPoolExecutor(2 * len(long)) as pool:
        asking = [pool.submit(ask, breakable, each[0], each[1], stream) for each in long for stream in (True, False)]
        breakable.wait_until(lambda status: status["num_requests_decoding"] == len(asking))
        tell(breakable, "always decode")
        answers = [each.result(WAIT) for each in asking]
    for answer in answers:
        if answer.headers["content-type"].startswith("text/event-stream"):
            assert b'data: {"error"' in answer.body and answer.body.endswith(b"data: [DONE]\n\n"), answer.body[-500:]
        else:
            assert answer.status in (500, 503) and answer.json()["error"]["message"], answer
    health = breakable.get("/health")
    assert health.status == 503 and "the device is gone" in str(health)
    assert breakable.wait() == 3
    assert "paceline: error: " in breakable.said().rstrip().rpartition("\n")[2]
    assert "Traceback" not in breakable.said()[-1000:]


@pytest.mark.slow
def test_an_idle_engine_that_breaks_answers_the_next_client_with_an_error(breakable: Server) -> None:
    tell(breakable, "always decode")
    for _ in range(MAX_ASKED):
        answer = ask(breakable, "/v1/chat/completions", {"messages": said("hi")}, stream=False)
        assert answer.status in (500, 503), answer
        if answer.status == 503:
            break
    wait_for_words(breakable, "failing steps")
    assert breakable.wait() == 3
