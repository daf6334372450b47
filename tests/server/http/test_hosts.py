from __future__ import annotations

from typing import Any

import httpx
import pytest

from paceline.server.http.hosts import host_of
from paceline.settings import Settings
from tests.server.harness import refused
from tests.server.http.test_auth import CHAT, KEY, asking, bearer, settings

PAGE = "https://chat.example.org"


async def ask(given: Settings, path: str = "/v1/chat/completions", **headers: str) -> httpx.Response:
    async with asking(given) as http:
        return await http.post(path, json=CHAT, headers=headers)


@pytest.mark.parametrize(
    "host", ["localhost", "LocalHost:8000", "localhost.", "127.0.0.1", "127.0.0.1:99", "127.9.9.9", "[::1]", "[::1]:80"]
)
async def test_names_of_this_machine_are_answered(host: str) -> None:
    assert (await ask(settings(), host=host)).status_code == 200


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:8000", "localhost.evil.example", "evil.example:localhost", "192.168.1.5", "", "["],
)
async def test_a_page_that_lets_its_name_point_here_is_refused(host: str) -> None:
    refused(await ask(settings(), host=host), 403, None, "--api-key", "--allowed-host")


@pytest.mark.parametrize("origin", [PAGE, "null", "http://evil.example:8000", "http://localhost.evil.example"])
async def test_a_page_from_elsewhere_makes_nothing_work(origin: str) -> None:
    refused(await ask(settings(), origin=origin), 403, None, "--cors-origin")


async def test_pages_of_this_machine_and_those_that_are_allowed_may() -> None:
    assert (await ask(settings(), origin="http://localhost:3000")).status_code == 200
    assert (await ask(settings(cors_origin=[PAGE]), origin=PAGE)).status_code == 200
    assert (await ask(settings(cors_origin="*"), origin="null")).status_code == 200


async def test_names_can_be_allowed() -> None:
    given = settings(allowed_host="Box.example.org")
    assert (await ask(given, host="box.example.org:8000")).status_code == 200
    refused(await ask(given, host="example.org"), 403, None)


@pytest.mark.parametrize("given", [settings(KEY), settings(host="0.0.0.0")])
async def test_with_a_key_or_for_all_the_network_names_are_not_looked_at(given: Settings) -> None:
    assert (await ask(given, host="any.example", **bearer(KEY))).status_code == 200


async def test_probes_answer_to_every_name_and_anthropics_path_in_its_own_shape() -> None:
    async with asking(settings()) as http:
        assert (await http.get("/health", headers={"host": "any.example"})).status_code == 200
    answer = await ask(settings(), "/v1/messages", host="evil.example")
    assert (answer.status_code, answer.json()["error"]["type"]) == (403, "permission_error")


@pytest.mark.parametrize("value", ["", "a.example:80", "*", "a b", "http://a"])
def test_a_name_that_is_none_is_a_mistake(value: Any) -> None:
    with pytest.raises(Exception, match="allowed-host"):
        settings(allowed_host=value)


def test_the_host_of_what_is_no_address_is_none() -> None:
    assert [host_of(address) for address in ("null", "//[", "", "//:80")] == ["", "", "", ""]
