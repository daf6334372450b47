from __future__ import annotations

import contextlib
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from fastapi import Request

from paceline.errors import SettingsError
from paceline.server.app import create_app
from paceline.server.http import errors
from paceline.server.http.auth import Access, ApiKeys, host_of
from paceline.settings import Settings
from tests.server.fake_service import FakeService
from tests.server.harness import refused, serve, user

KEY, OTHER, ADMIN = "sk-first", "sk-second", "sk-admin"
CHAT = {"messages": user("hi")}


@contextlib.asynccontextmanager
async def asking(settings: Settings, client: str = "127.0.0.1") -> AsyncIterator[httpx.AsyncClient]:
    app = create_app(FakeService(settings), settings)

    @app.get("/whoami")
    async def whoami(request: Request) -> dict[str, Any]:
        return {"user": request.state.user}

    transport = httpx.ASGITransport(app, client=(client, 1234))
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8000") as http,
    ):
        yield http


def settings(api: str = "", admin: str = "", **more: Any) -> Settings:
    flags = {"api_key": api or None, "admin_key": admin or None, **more}
    return Settings.load(flags, None, {})


def bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


async def test_without_keys_nobody_is_asked_for_one() -> None:
    async with asking(settings()) as http:
        assert (await http.post("/v1/chat/completions", json=CHAT)).status_code == 200
        assert (await http.get("/whoami", headers=bearer("anything"))).json() == {"user": None}


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/v1/chat/completions"),
        ("POST", "/v1/completions"),
        ("POST", "/tokenize"),
        ("POST", "/v1/cache/clear"),
        ("GET", "/v1/models"),
        ("GET", "/v1/status"),
        ("GET", "/metrics"),
        ("GET", "/openapi.json"),
        ("GET", "/no/such/path"),
        ("GET", "/health/x"),
        ("GET", "//health"),
        ("OPTIONS", "/v1/models"),
        ("DELETE", "/v1/models"),
    ],
)
async def test_every_path_needs_a_key(method: str, path: str) -> None:
    async with asking(settings(KEY)) as http:
        for headers in (
            {},
            bearer("sk-wrong"),
            {"x-api-key": "sk-wrong"},
            bearer(""),
            {"authorization": f"Basic {KEY}"},
        ):
            response = await http.request(method, path, headers=headers)
            error = refused(response, 401, None, "API key", "Authorization: Bearer")
            assert (error["code"], error["type"]) == ("invalid_api_key", "invalid_request_error")
            assert response.headers["www-authenticate"] == 'Bearer realm="paceline"'
            assert "sk-" not in response.text


@pytest.mark.parametrize("headers", [bearer(""), {"x-api-key": ""}])
async def test_an_empty_key_is_no_key(headers: dict[str, str]) -> None:
    async with asking(settings(KEY)) as http:
        refused(await http.get("/v1/models", headers=headers), 401, None, "needs an API key")


@pytest.mark.parametrize("path", ["/health", "/ready"])
async def test_probes_need_none(path: str) -> None:
    async with asking(settings(KEY, ADMIN)) as http:
        assert (await http.get(path)).status_code == 200


@pytest.mark.thin(3)
@pytest.mark.parametrize(
    "headers",
    [
        bearer(KEY),
        {"authorization": f"bearer   {KEY} "},
        {"x-api-key": KEY},
        {"X-Api-Key": f" {KEY}"},
        {"x-api-key": "none", **bearer(KEY)},
        {"x-api-key": KEY, **bearer("none")},
    ],
)
async def test_a_key_is_taken_in_both_headers(headers: dict[str, str]) -> None:
    async with asking(settings(f"{OTHER},{KEY}")) as http:
        assert (await http.get("/whoami", headers=headers)).json() == {"user": "key-2"}
        assert (await http.post("/v1/chat/completions", json=CHAT, headers=headers)).status_code == 200


@pytest.mark.parametrize("near", ["sk-firs", "sk-first1", "SK-FIRST", "sk-first,sk-second", "\u00e9"])
async def test_what_is_nearly_a_key_is_none(near: str) -> None:
    async with asking(settings(f"{KEY},{OTHER}")) as http:
        headers = {b"authorization": f"Bearer {near}".encode()}
        refused(await http.get("/v1/models", headers=headers), 401, None, "not known")


def test_openais_client_sends_its_key() -> None:
    with serve(FakeService(), settings(KEY)) as address:
        with openai.OpenAI(base_url=f"{address}/v1", api_key=KEY, max_retries=0) as client:
            assert client.models.list().data
        with openai.OpenAI(base_url=f"{address}/v1", api_key="none", max_retries=0) as client:
            with pytest.raises(openai.AuthenticationError, match="not known") as caught:
                client.models.list()
            assert caught.value.code == "invalid_api_key"


# --- administration ----------------------------------------------------------------------------------


@pytest.mark.thin(3)
@pytest.mark.parametrize(
    ("api", "admin", "client", "key", "status"),
    [
        ("", "", "127.0.0.1", "", 200),
        ("", "", "192.0.2.7", "", 403),
        (KEY, "", "127.0.0.1", KEY, 200),
        (KEY, "", "127.0.0.1", "", 401),
        (KEY, "", "192.0.2.7", KEY, 403),
        (KEY, ADMIN, "192.0.2.7", ADMIN, 200),
        (KEY, ADMIN, "127.0.0.1", KEY, 403),
        (KEY, ADMIN, "127.0.0.1", "", 401),
        ("", ADMIN, "127.0.0.1", "", 401),
        ("", ADMIN, "127.0.0.1", "wrong", 401),
        ("", ADMIN, "192.0.2.7", ADMIN, 200),
    ],
)
async def test_administration_needs_the_admin_key_or_this_machine(
    api: str, admin: str, client: str, key: str, status: int
) -> None:
    async with asking(settings(api, admin), client) as http:
        response = await http.post("/v1/cache/clear", headers=bearer(key) if key else {})
        assert response.status_code == status, response.text
        assert ("www-authenticate" in response.headers) == (status == 401)


async def test_a_page_from_elsewhere_is_refused_in_a_local_browser_also_with_an_api_key() -> None:
    async with asking(settings(KEY)) as http:
        headers = {"origin": "https://evil.example", **bearer(KEY)}
        refused(await http.post("/v1/cache/clear", headers=headers), 403, None, "web page")


async def test_an_admin_key_opens_everything_and_alone_closes_nothing_else() -> None:
    async with asking(settings(KEY, ADMIN)) as http:
        assert (await http.get("/whoami", headers=bearer(ADMIN))).json() == {"user": "admin-1"}
    async with asking(settings("", ADMIN)) as http:
        assert (await http.get("/whoami")).json() == {"user": None}


# --- keys in files -----------------------------------------------------------------------------------


def test_keys_of_flags_and_files_are_all_accepted(tmp_path: Path) -> None:
    (tmp_path / "keys").write_text(f"# of the team\n\n  {OTHER}  \r\n{KEY}\nsk-third\n")
    (tmp_path / "admins").write_text(ADMIN)
    keys = ApiKeys.of(settings(KEY, api_key_file=str(tmp_path / "keys"), admin_key_file=str(tmp_path / "admins")))
    assert keys.access([b"sk-third"]) == Access("key-3", False, True)
    assert keys.access([KEY.encode()]).user == "key-1" and keys.access([OTHER.encode()]).user == "key-2"
    assert keys.access([ADMIN.encode()]) == Access("admin-1", True, True)
    assert keys.access([b"# of the team", b""]).user is None


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "cannot read the keys in .*: No such file"),
        (b"", "holds no key"),
        (b"# none yet\n\n", "holds no key"),
        (b"two words\n", "printable ASCII"),
        ("ключ".encode(), "printable ASCII"),
        (b"\xff\xfe", "not text"),
    ],
)
@pytest.mark.parametrize("field", ["api_key_file", "admin_key_file"])
def test_a_file_without_keys_is_an_error_before_anything_listens(
    tmp_path: Path, field: str, content: bytes | None, words: str
) -> None:
    file = tmp_path / "keys"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(SettingsError, match=words) as caught:
        create_app(FakeService(), settings(**{field: str(file)}))
    assert "two words" not in str(caught.value)


# --- nothing shows a key -----------------------------------------------------------------------------


async def test_keys_are_in_no_answer_and_no_log(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        async with asking(settings(KEY, ADMIN)) as http:
            for path in ("/v1/status", "/metrics", "/openapi.json", "/v1/models"):
                response = await http.get(path, headers=bearer(KEY))
                assert response.status_code == 200 and "sk-" not in response.text
            await http.get("/v1/models", headers=bearer("sk-wrong"))
    assert "sk-" not in caplog.text
    assert KEY not in repr(vars(ApiKeys([KEY])))


async def test_a_path_may_have_errors_of_its_own_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    def shape(error: Exception) -> dict[str, Any]:
        return {"type": "error", "error": {"message": str(error)}}

    monkeypatch.setitem(errors.DIALECTS, "/v1/messages", errors.Dialect(shape, errors.Error))
    async with asking(settings(KEY)) as http:
        for path in ("/v1/messages", "/v1/messages/count_tokens"):
            answer = await http.post(path)
            assert answer.status_code == 401 and answer.json()["type"] == "error"
            answer = await http.post(path, headers=bearer(KEY))
            assert answer.status_code == 400 and answer.json()["type"] == "error"
        refused(await http.post("/v1/messages2"), 401, None)


# --- web pages ---------------------------------------------------------------------------------------


PAGE = "https://chat.example.org"
PREFLIGHT = {
    "origin": PAGE,
    "access-control-request-method": "POST",
    "access-control-request-headers": "authorization,content-type,x-api-key",
}


async def test_web_pages_are_not_helped_unless_asked_for() -> None:
    async with asking(settings()) as http:
        answer = await http.options("/v1/chat/completions", headers=PREFLIGHT)
        assert answer.status_code == 403
        assert not [name for name in answer.headers if name.startswith("access-control")]
        answer = await http.get("/v1/models", headers={"origin": PAGE})
        assert not [name for name in answer.headers if name.startswith("access-control")]


async def test_a_preflight_needs_no_key_and_what_follows_does() -> None:
    async with asking(settings(KEY, cors_origin=[PAGE, "http://localhost:3000"])) as http:
        answer = await http.options("/v1/chat/completions", headers=PREFLIGHT)
        assert answer.status_code == 200
        assert answer.headers["access-control-allow-origin"] == PAGE
        assert "POST" in answer.headers["access-control-allow-methods"]
        assert "x-api-key" in answer.headers["access-control-allow-headers"]
        assert "access-control-allow-credentials" not in answer.headers

        answer = await http.post("/v1/chat/completions", json=CHAT, headers={"origin": PAGE})
        refused(answer, 401, None)
        assert answer.headers["access-control-allow-origin"] == PAGE  # or the page could not read why

        answer = await http.post("/v1/chat/completions", json=CHAT, headers={"origin": PAGE, **bearer(KEY)})
        assert answer.status_code == 200
        assert answer.headers["access-control-allow-origin"] == PAGE and "Origin" in answer.headers["vary"]


async def test_other_pages_get_no_leave() -> None:
    async with asking(settings(cors_origin=[PAGE])) as http:
        answer = await http.options("/v1/models", headers={**PREFLIGHT, "origin": "https://evil.example"})
        assert answer.status_code == 400 and "access-control-allow-origin" not in answer.headers
        answer = await http.get("/v1/models", headers={"origin": "https://evil.example"})
        assert "access-control-allow-origin" not in answer.headers


async def test_a_star_is_every_page() -> None:
    async with asking(settings(cors_origin="*")) as http:
        assert (await http.get("/v1/models", headers={"origin": PAGE})).headers["access-control-allow-origin"] == "*"


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


def test_of_a_routers_key_and_behind_it_the_clients_the_last_one_counts() -> None:
    keys = ApiKeys(["sk-router", "sk-ann"])
    assert keys.access([b"sk-router", b"sk-ann"]).user == "key-2"
    assert keys.access([b"sk-router", b"sk-unknown"]).user == "key-1"
