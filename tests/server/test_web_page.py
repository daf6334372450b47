from __future__ import annotations

import re
from collections.abc import Iterator

import httpx
import pytest

from paceline.server.web_page import FOLDER, INDEX, PREFIX, TYPES, web_files
from paceline.settings import Settings
from tests.server.fake_service import FakeService
from tests.server.harness import serve
from tests.waiting import WAIT

BROWSER = {"accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}
LARGEST = 150_000  # bytes of all files
SOURCES = [path for path in sorted(FOLDER.iterdir()) if path.suffix in (".js", ".html", ".css")]


@pytest.fixture(scope="module")
def keyed() -> Iterator[httpx.Client]:
    settings = Settings.load({"api_key": "sk-one"}, None, {})
    with serve(FakeService(settings), settings) as address, httpx.Client(base_url=address, timeout=WAIT) as http:
        yield http


def test_a_browser_gets_the_page_and_other_clients_get_json(http: httpx.Client) -> None:
    page = http.get("/", headers=BROWSER)
    assert page.headers["content-type"] == "text/html; charset=utf-8" and "<title>Paceline</title>" in page.text
    for headers in ({}, {"accept": "*/*"}, {"accept": "application/json"}):
        assert http.get("/", headers=headers).json()["server"].startswith("paceline")


def test_the_page_needs_no_key_and_shows_nothing_that_does(keyed: httpx.Client) -> None:
    assert keyed.get("/", headers=BROWSER).status_code == 200
    for name in web_files():
        if name != INDEX:
            assert keyed.get(f"{PREFIX}{name}").status_code == 200
    assert keyed.get("/").status_code == 401
    assert keyed.get("/v1/models", headers=BROWSER).status_code == 401
    assert keyed.post("/", headers=BROWSER).status_code == 401


def test_the_page_may_run_and_load_only_its_own_files(http: httpx.Client) -> None:
    for path in ("/", f"{PREFIX}main.js", f"{PREFIX}style.css"):
        headers = http.get(path, headers=BROWSER).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy and "http" not in policy
        assert "frame-ancestors 'none'" in policy and "require-trusted-types-for 'script'" in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"


def test_a_file_that_has_not_changed_is_not_sent_again(http: httpx.Client) -> None:
    first = http.get(f"{PREFIX}main.js")
    again = http.get(f"{PREFIX}main.js", headers={"if-none-match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert http.head("/", headers=BROWSER).status_code == 200


@pytest.mark.parametrize(
    "path", ["index.html", "nothing.js", "../web_page.py", "..%2fweb_page.py", "", "%2e%2e/app.py"]
)
def test_nothing_else_is_served(http: httpx.Client, path: str) -> None:
    assert http.get(f"{PREFIX}{path}").status_code == 404


def test_the_page_can_be_switched_off() -> None:
    settings = Settings(web=False)
    with serve(FakeService(settings), settings) as address, httpx.Client(base_url=address, timeout=WAIT) as http:
        assert "server" in http.get("/", headers=BROWSER).json()
        assert http.get(f"{PREFIX}main.js").status_code == 404


def test_all_files_are_small_and_of_known_types() -> None:
    paths = list(FOLDER.iterdir())
    assert {path.suffix for path in paths} <= TYPES.keys()
    assert sum(path.stat().st_size for path in paths) < LARGEST
    assert all(len(path.read_text().splitlines()) <= 500 for path in paths)


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.name)
def test_text_is_only_ever_inserted_as_text_and_nothing_comes_from_elsewhere(path: str) -> None:
    text = FOLDER.joinpath(path).read_text()
    for forbidden in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function"):
        assert forbidden not in text
    assert set(re.findall(r"https?://[^\s\"'`]+", text)) <= {"http://www.w3.org/2000/svg"}
    assert not re.search(r"<script(?![^>]*src=)|\son\w+=\"|\sstyle=\"|<style", text)


def test_every_file_that_is_named_exists() -> None:
    names = set(web_files())
    for path in SOURCES:
        text = path.read_text()
        assert {*re.findall(r"\"/web/([^\"]+)\"", text), *re.findall(r"from \"\./([^\"]+)\"", text)} <= names
