from __future__ import annotations

import logging

import httpx
import pytest

from paceline.logs import FIELDS
from paceline.server.http.request_log import Figures
from paceline.settings import Settings
from paceline.types import Delta, PromptInfo, Usage
from tests.server.fake_service import FakeService
from tests.server.harness import open_request, post_chat, serve, user
from tests.waiting import WAIT, until


def records(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    return [record for record in caplog.records if record.name == "paceline.access"]


def test_figures_are_the_sum_over_the_sequences_of_a_request() -> None:
    figures = Figures()
    for index in range(2):
        figures.add(Delta(token_ids=(1,), prompt=PromptInfo((1, 2, 3), cached_tokens=2, queued=0.5), index=index))
        usage = Usage(3, 4, 2, accepted_tokens=1, rejected_tokens=2)
        figures.add(Delta(finish_reason="stop", usage=usage, index=index))
    assert (figures.prompt_tokens, figures.cached_tokens, figures.completion_tokens) == (3, 2, 8)
    assert (figures.accepted_tokens, figures.drafted_tokens, figures.queue_seconds) == (2, 6, 0.5)
    assert figures.finish_reasons == ["stop", "stop"] and figures.first_token_seconds is not None


def test_tokens_count_before_their_sequence_has_ended() -> None:
    figures = Figures()
    figures.add(Delta(token_ids=(1, 2), prompt=PromptInfo((1, 2, 3)), index=0))
    figures.add(Delta(token_ids=(1,), index=1))
    assert figures.completion_tokens == 3
    figures.add(Delta(token_ids=(3,), finish_reason="stop", usage=Usage(3, 4, 0), index=0))
    assert figures.completion_tokens == 5


def test_drafts_count_before_their_sequence_has_ended() -> None:
    figures = Figures()
    for index in range(2):
        for drafts in ((0, 3), (2, 4)):
            figures.add(Delta(token_ids=(1,), index=index, drafts=drafts))
    assert (figures.accepted_tokens, figures.drafted_tokens) == (4, 12)
    figures.add(Delta(finish_reason="stop", usage=Usage(3, 4, 0, accepted_tokens=3, rejected_tokens=4), index=0))
    assert (figures.accepted_tokens, figures.drafted_tokens) == (5, 13)


def test_a_line_has_tokens_times_user_and_finish_reason(caplog: pytest.LogCaptureFixture) -> None:
    settings = Settings.load({"api_key": ["sk-none", "sk-one"]}, None, {})
    with (
        caplog.at_level("INFO"),
        serve(FakeService(settings), settings) as address,
        httpx.Client(base_url=address, timeout=WAIT, headers={"authorization": "Bearer sk-one"}) as http,
    ):
        answer = post_chat(http, max_tokens=5)
    [record] = records(caplog)
    line, fields = record.getMessage(), getattr(record, FIELDS)
    assert line.startswith('127.0.0.1 - "POST /v1/chat/completions HTTP/1.1" 200 ')
    assert f" key-2 {answer.headers['x-request-id']} " in line
    usage = answer.json()["usage"]
    assert f"prompt={usage['prompt_tokens']} cached=1 output=5 drafts=0/0 " in line and line.endswith(" finish=length")
    assert fields["prompt_tokens"] == usage["prompt_tokens"] and fields["finish_reasons"] == ["length"]
    assert fields["seconds"] >= fields["first_token_seconds"] >= 0 and fields["user"] == "key-2"
    assert not {"began", "unfinished", "drafts"} & set(fields)  # what the figures are made of


def test_a_refused_request_and_a_look_at_the_state_have_a_line_without_tokens(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with (
        caplog.at_level("INFO"),
        serve(FakeService(), Settings()) as address,
        httpx.Client(base_url=address, timeout=WAIT) as http,
    ):
        http.get("/v1/status")
        http.get("/health")
        http.get("/metrics")
        post_chat(http, max_tokens=-1)
    lines = [record.getMessage() for record in records(caplog)]
    assert len(lines) == 2 and not any("prompt=" in line for line in lines)
    assert '"GET /v1/status HTTP/1.1" 200' in lines[0] and '"POST /v1/chat/completions HTTP/1.1" 400' in lines[1]


@pytest.mark.parametrize(("stream", "status"), [(False, 499), (True, 200)])
def test_a_client_that_goes_away_has_a_line(stream: bool, status: int, caplog: pytest.LogCaptureFixture) -> None:
    body = {"messages": user("!hang 3"), "stream": stream}
    with caplog.at_level("INFO"), serve(FakeService(), Settings()) as address:
        connection = open_request(address, "/v1/chat/completions", body)
        if stream:
            connection.recv(1)
        connection.close()
        until(lambda: records(caplog))
    line = records(caplog)[0].getMessage()
    assert f'" {status} ' in line and line.endswith(" finish=abort")
