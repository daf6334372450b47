"""A real browser. `make web` installs what it takes; without it these tests are skipped."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest

from tests.server import fake_service
from tests.waiting import WAIT

NAMES = ("chromium", "chromium-browser", "google-chrome")
AXE = Path(os.environ.get("PACELINE_AXE", Path(__file__).parents[2] / ".venv/axe/package/axe.min.js"))


REQUIRED = bool(os.environ.get("PACELINE_TEST_BROWSER"))  # `make web`: what is missing fails


def missing(reason: str) -> NoReturn:
    if REQUIRED:
        pytest.fail(reason)
    pytest.skip(reason)


def executable() -> str | None:
    """Debian's Chromium or another that is installed; otherwise Playwright's own, if it has been downloaded."""
    found = os.environ.get("PACELINE_BROWSER") or next(filter(None, map(shutil.which, NAMES)), None)
    return found


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Of one module: Playwright's loop must not run beside that of asynchronous tests."""
    try:
        from playwright import sync_api as api
    except ImportError:
        missing("Playwright is not installed: make web")
    with api.sync_playwright() as playwright:
        path = executable()
        if path is None and not Path(playwright.chromium.executable_path).exists():
            missing("there is no Chromium: apt install chromium, or playwright install chromium")
        sandbox = [] if os.geteuid() else ["--no-sandbox"]  # Chromium's own does not run as root
        browser = playwright.chromium.launch(executable_path=path, args=sandbox)
        yield browser
        browser.close()


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    """A tab with storage of its own. An error of a script, or a breach of the policy, fails the test."""
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    context.set_default_timeout(WAIT * 1000)
    page = context.new_page()
    wrong: list[str] = []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("console", lambda line: wrong.append(line.text) if "Content Security Policy" in line.text else None)
    page.on("dialog", lambda dialog: dialog.accept())
    yield page
    context.close()
    assert wrong == []


@pytest.fixture
def says(monkeypatch: pytest.MonkeyPatch) -> Any:
    """`says(text)` makes it the fake model's next answers."""
    return lambda text: monkeypatch.setattr(fake_service, "REPLY", text)


@pytest.fixture(scope="session")
def axe() -> str:
    if not AXE.exists():
        missing("axe-core is not installed: make web")
    return AXE.read_text()
