"""Ids of requests, whose they are, and cancelling them: over a real server, with a service that hangs on demand."""

from __future__ import annotations

import concurrent.futures
import json
import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from paceline.server.http.identity import RequestContext
from paceline.settings import Settings
from tests.server.fake_service import FakeService
from tests.server.harness import Address, post_chat, refused, serve, user
from tests.waiting import WAIT

KEYS = Settings.load({"api_key": ["sk-one", "sk-two"], "admin_key": "sk-admin"}, None, {})
HANG: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"messages": user("!hang 1")},
    "/v1/completions": {"prompt": "!hang 1"},
    "/v1/responses": {"input": "!hang 1"},
    "/v1/messages": {"messages": user("!hang 1"), "max_tokens": 20},
}


@pytest.fixture(scope="module")
def keyed_service() -> FakeService:
    return FakeService(KEYS)


@pytest.fixture(scope="module")
def keyed(keyed_service: FakeService) -> Iterator[httpx.Client]:
    with serve(keyed_service, KEYS) as address, httpx.Client(base_url=address, timeout=WAIT) as http:
        yield http


def bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


def first_id(line: str) -> str:
    event = json.loads(line.removeprefix("data: "))
    inner = event.get("response") or event.get("message") or event
    return str(inner["id"])


def until_gone(service: FakeService) -> None:
    assert service.idle.wait(WAIT)


@pytest.mark.parametrize("path", HANG)
def test_a_stream_is_cancelled_by_the_id_in_its_first_event(
    http: httpx.Client, service: FakeService, path: str
) -> None:
    with http.stream("POST", path, json={**HANG[path], "stream": True}) as response:
        lines = response.iter_lines()
        first = next(line for line in lines if line.startswith("data: "))
        answer = http.delete(f"/v1/requests/{first_id(first)}")
        assert answer.status_code == 200 and answer.json()["cancelled"] is True
        rest = "\n".join(lines)
    if path == "/v1/responses":
        assert "event: response.incomplete" in rest and '"status":"cancelled"' in rest
    else:
        assert "The request was cancelled." in rest
    until_gone(service)
    refused(http.delete(f"/v1/requests/{first_id(first)}"), 404, None, "running or waiting")


@pytest.mark.parametrize("path", [*HANG, "/v1/embeddings", "/v1/score"])
def test_a_request_that_nobody_has_answered_is_cancelled_by_the_clients_own_id(
    http: httpx.Client, service: FakeService, path: str
) -> None:
    bodies = {**HANG, "/v1/embeddings": {"input": ["a", "!hang 0"]}, "/v1/score": {"text_1": "!hang", "text_2": "b"}}
    mine = {"x-request-id": f"my.own:{path.rpartition('/')[2]}"}
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        asked = pool.submit(http.post, path, json=bodies[path], headers=mine)
        assert service.hanging.wait(WAIT)
        assert http.delete(f"/v1/requests/{mine['x-request-id']}").status_code == 200
        answer = asked.result(WAIT)
    if path == "/v1/responses":
        assert (answer.status_code, answer.json()["status"]) == (200, "cancelled")
    else:
        assert answer.status_code == 499  # which no SDK tries again
        assert answer.json()["error"]["message"] == "The request was cancelled."
    assert answer.headers["x-request-id"] == mine["x-request-id"]
    until_gone(service)


def test_every_answer_has_an_id_of_its_own(http: httpx.Client) -> None:
    answers = [http.get("/health"), http.get("/v1/nothing"), post_chat(http), post_chat(http, n=0)]
    ids = [answer.headers["x-request-id"] for answer in answers]
    assert all(ids) and len(set(ids)) == len(ids)


def test_a_request_to_cancel_is_nothing_that_can_be_cancelled(http: httpx.Client) -> None:
    refused(http.delete("/v1/requests/mine", headers={"x-request-id": "mine"}), 404, None)


@pytest.mark.parametrize("odd", ["", "with space", "x" * 129, "-dash", "semi;colon"])
def test_an_odd_id_is_not_repeated(http: httpx.Client, odd: str) -> None:
    assert http.get("/health", headers={"x-request-id": odd}).headers["x-request-id"].startswith("req_")


def test_anthropics_header_and_error_have_the_same_id(http: httpx.Client) -> None:
    answer = http.post("/v1/messages", json={"max_tokens": 1, "messages": []})
    assert answer.headers["request-id"] == answer.json()["request_id"] == answer.headers["x-request-id"]
    assert "request-id" not in http.get("/health").headers


def test_only_the_owners_key_and_an_administrators_cancel(keyed: httpx.Client, keyed_service: FakeService) -> None:
    body = {"messages": user("!hang 1"), "stream": True}
    for who in ("sk-one", "sk-admin"):
        with keyed.stream("POST", "/v1/chat/completions", json=body, headers=bearer("sk-one")) as response:
            lines = response.iter_lines()
            path = f"/v1/requests/{first_id(next(lines))}"
            assert keyed.delete(path).status_code == 401
            foreign = keyed.delete(path, headers=bearer("sk-two"))
            unknown = keyed.delete("/v1/requests/chatcmpl-none", headers=bearer("sk-two"))
            assert foreign.status_code == unknown.status_code == 404
            assert set(foreign.json()["error"].values()) & {"request_not_found"}
            assert keyed_service.running
            assert keyed.delete(path, headers=bearer(who)).status_code == 200
            assert "cancelled" in "".join(lines)
        assert keyed_service.idle.wait(WAIT)


def test_an_id_that_two_users_chose_is_each_ones_own(keyed: httpx.Client, keyed_service: FakeService) -> None:
    keyed_service.hanging.clear()
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        named = {**bearer("sk-one"), "x-request-id": "same"}
        asked = pool.submit(keyed.post, "/v1/completions", json={"prompt": "!hang 1"}, headers=named)
        assert keyed_service.hanging.wait(WAIT)
        assert keyed.delete("/v1/requests/same", headers=bearer("sk-two")).status_code == 404
        assert keyed.delete("/v1/requests/same", headers=bearer("sk-one")).status_code == 200
        assert asked.result(WAIT).status_code == 499


@pytest.mark.parametrize(
    ("path", "named", "body"),
    [
        ("/v1/chat/completions", {"user": "ann"}, {"messages": user("hi")}),
        ("/v1/completions", {"user": "ann"}, {"prompt": "hi"}),
        ("/v1/responses", {"user": "ann"}, {"input": "hi"}),
        ("/v1/messages", {"metadata": {"user_id": "ann"}}, {"messages": user("hi"), "max_tokens": 20}),
    ],
)
def test_priority_and_tenant_reach_the_engine(
    http: httpx.Client, service: FakeService, path: str, named: dict[str, Any], body: dict[str, Any]
) -> None:
    assert http.post(path, json={**body, **named, "priority": -5}).status_code == 200
    request = service.requests[-1]
    assert request.priority == -5
    here = RequestContext("", address="127.0.0.1")
    assert request.tenant == here.tenant("ann") != here.tenant("bob")
    assert "ann" not in request.tenant
    assert http.post(path, json=body).status_code == 200
    assert (service.requests[-1].priority, service.requests[-1].tenant) == (0, here.tenant(None))
    for wrong in (1001, -1001, 1.5, "1", True):
        answer = http.post(path, json={**body, "priority": wrong})
        assert answer.status_code == 400 and "priority" in answer.text


def test_a_key_is_one_tenant_whatever_user_it_names(keyed: httpx.Client, keyed_service: FakeService) -> None:
    tenants = []
    for key, name in (("sk-one", "ann"), ("sk-one", "bob"), ("sk-two", "ann"), ("sk-one", None)):
        body = {"messages": user("hi"), "user": name}
        assert keyed.post("/v1/chat/completions", json=body, headers=bearer(key)).status_code == 200
        tenants.append(keyed_service.requests[-1].tenant)
    assert tenants[0] == tenants[1] == tenants[3] != tenants[2]
    assert not any("sk-" in tenant for tenant in tenants)


def test_without_keys_a_name_divides_the_share_of_its_address_and_no_other(
    http: httpx.Client, service: FakeService
) -> None:
    tenants = []
    for address, name in (("192.0.2.1", "ann"), ("192.0.2.1", "bob"), ("192.0.2.1", None), ("192.0.2.2", "ann")):
        body = {"messages": user("hi"), "user": name}
        headers = {"x-forwarded-for": address}  # as a proxy on this machine says it
        assert http.post("/v1/chat/completions", json=body, headers=headers).status_code == 200
        tenants.append(service.requests[-1].tenant)
    shares = [tenant.partition("/")[0] for tenant in tenants]
    assert shares[0] == shares[1] == shares[2] != shares[3]
    assert len(set(tenants)) == 4
    assert not any("192.0.2" in tenant for tenant in tenants)


def test_a_client_with_many_ipv6_addresses_is_one_tenant() -> None:
    def tenant(address: str) -> str:
        return RequestContext("", address=address).tenant(None)

    assert tenant("2001:db8::1") == tenant("2001:db8::ffff:2") != tenant("2001:db8:0:1::1")
    assert tenant("::ffff:192.0.2.1") == tenant("192.0.2.1") != tenant("192.0.2.2")
    assert tenant("testclient") != tenant("")


def test_a_user_id_must_be_text(http: httpx.Client) -> None:
    body = {"messages": user("hi"), "max_tokens": 1, "metadata": {"user_id": 7}}
    answer = http.post("/v1/messages", json=body)
    assert answer.status_code == 400 and "metadata.user_id" in answer.text


CAUSES = {"queue_full": 429, "queue_timeout": 503, "deadline": 504}


@pytest.mark.parametrize("path", HANG)
@pytest.mark.parametrize("cause", CAUSES)
def test_a_refusal_says_when_to_come_back(http: httpx.Client, path: str, cause: str) -> None:
    for stream in (False, True) if cause == "queue_full" else (False,):  # others are known when a stream has begun
        text = json.dumps(HANG[path]).replace("!hang 1", f"!refuse-{cause}")
        answer = http.post(path, json={**json.loads(text), "stream": stream})
        assert (answer.status_code, answer.headers["retry-after"]) == (CAUSES[cause], "7")


@pytest.mark.parametrize("path", HANG)
@pytest.mark.parametrize("cause", ["slow_reader 2", "deadline 2", "deadline 0", "queue_timeout 0"])
def test_a_stream_that_is_cut_off_ends_with_an_error(http: httpx.Client, path: str, cause: str) -> None:
    text = json.dumps(HANG[path]).replace("!hang 1", f"!refuse-{cause}")
    answer = http.post(path, json={**json.loads(text), "stream": True})
    assert answer.status_code == 200 and "not now" in answer.text
    if path == "/v1/responses":
        assert "event: response.failed" in answer.text
    elif path == "/v1/messages":
        assert answer.text.rstrip().rpartition("event: ")[2].startswith("error")
    else:
        assert answer.text.endswith("data: [DONE]\n\n")


def test_what_never_fits_is_a_400_with_the_numbers(http: httpx.Client) -> None:
    refused(post_chat(http, "!refuse-never_fits"), 400, "messages", "9.00 GB", "1.00 GB")


@pytest.fixture(scope="module")
def plain_http(address: Address) -> Iterator[httpx.Client]:
    """Not the one that checks answers by their path as it is written."""
    with httpx.Client(base_url=address, timeout=WAIT) as client:
        yield client


@pytest.fixture(scope="module")
def locked() -> Iterator[httpx.Client]:
    settings = Settings.load({"api_key": "sk-one"}, None, {})
    with serve(FakeService(settings), settings) as address, httpx.Client(base_url=address, timeout=WAIT) as http:
        yield http


@pytest.mark.slow
def test_every_route_is_served_with_a_slash_behind_it(plain_http: httpx.Client) -> None:
    document = plain_http.get("/openapi.json/").json()
    assert document == plain_http.get("/openapi.json").json()
    for path, operations in document["paths"].items():
        for method in operations:
            place = re.sub(r"\{[^}]*\}", "none", path)
            body: dict[str, object] | None = {} if method == "post" else None
            plain = plain_http.request(method, place, json=body)
            slashed = plain_http.request(method, f"{place}/", json=body)
            assert slashed.status_code == plain.status_code and slashed.headers.get("location") is None, path


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/chat/completions", {"messages": user("hi")}),
        ("/v1/completions", {"prompt": "hi"}),
        ("/v1/messages", {"messages": user("hi"), "max_tokens": 5}),
        ("/tokenize", {"prompt": "hi"}),
    ],
)
@pytest.mark.parametrize("behind", ["/", "//", "/?query=1"])
def test_a_post_with_a_slash_behind_its_path_is_answered(
    plain_http: httpx.Client, path: str, body: dict[str, object], behind: str
) -> None:
    answer = plain_http.post(path + behind, json=body)
    assert answer.status_code == 200 and answer.history == []
    assert ("request-id" in answer.headers) == (path == "/v1/messages")


def test_an_unknown_path_is_a_404_with_and_without(plain_http: httpx.Client) -> None:
    for path in ("/v1/nothing", "/v1/nothing/", "/nothing//", "/v1/chat/completions/x/"):
        refused(plain_http.get(path), 404, None)
    wrong = plain_http.get("/v1/chat/completions/")
    assert wrong.status_code == 405 and wrong.headers["allow"] == "POST"
    assert plain_http.get("/v1/messages/nothing/").json()["type"] == "error"


def test_a_slash_neither_opens_nor_closes_a_door(locked: httpx.Client) -> None:
    assert locked.get("/health/").status_code == 200
    for path in ("/v1/models/", "/metrics/", "/v1/models//"):
        assert locked.get(path).status_code == 401
    assert locked.get("/v1/models/", headers={"authorization": "Bearer sk-one"}).status_code == 200
