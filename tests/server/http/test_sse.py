from __future__ import annotations

import httpx
import pytest

from tests.server.fake_service import FakeService
from tests.server.harness import Address, open_request, post_chat, user
from tests.waiting import WAIT


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("tokens", [0, 3])
def test_a_client_that_goes_away_frees_its_row(
    address: Address, service: FakeService, stream: bool, tokens: int
) -> None:
    with open_request(address, "/v1/chat/completions", {"messages": user(f"!hang {tokens}"), "stream": stream}):
        assert service.hanging.wait(WAIT)
        assert not service.idle.is_set()
    assert service.idle.wait(WAIT)


def test_a_client_that_leaves_a_list_of_prompts_frees_all_of_them(address: Address, service: FakeService) -> None:
    with (
        httpx.Client(base_url=address) as http,
        http.stream("POST", "/v1/completions", json={"prompt": ["!hang 1"] * 3, "stream": True}) as response,
    ):
        chunks = response.iter_bytes()  # kept: httpx closes the response with it
        next(chunks)
        assert service.hanging.wait(WAIT)
    assert service.idle.wait(WAIT)


def test_headers_wait_for_the_first_token_and_then_go_at_once(address: Address, service: FakeService) -> None:
    with (
        httpx.Client(base_url=address) as http,
        http.stream("POST", "/v1/chat/completions", json={"messages": user("!hang 1"), "stream": True}) as response,
    ):
        assert response.status_code == 200
        assert response.headers["content-type"].startswith("text/event-stream")
        assert b'"content":"H"' in next(response.iter_bytes())
    assert service.idle.wait(WAIT)


def test_a_stream_leaves_its_connection_usable(http: httpx.Client) -> None:
    for _ in range(3):
        assert post_chat(http, stream=True).text.endswith("data: [DONE]\n\n")


def test_text_is_not_escaped_to_ascii(http: httpx.Client) -> None:
    assert "🙂" in post_chat(http, stream=True).text
