"""The page without a mouse, and what it tells a screen reader."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from paceline.settings import Settings
from tests.browser.showing import Showing
from tests.browser.test_chat import ended
from tests.server.fake_service import REPLY
from tests.server.harness import serve
from tests.waiting import until

MAX_STOPS = 80  # of the Tab key, from one control to another
SEEN = """(selector) => {
  const at = document.activeElement;
  const style = getComputedStyle(at);
  return [at.matches(selector), at === document.body || style.outlineStyle !== "none" || at.tagName === "MAIN"];
}"""


@pytest.fixture
def service() -> Showing:
    return Showing()


@pytest.fixture
def opened(page: Any, service: Showing) -> Iterator[Any]:
    with serve(service, Settings()) as address:
        page.goto(address)
        page.wait_for_selector("#model option", state="attached")
        yield page
        page.goto("about:blank")


def go(page: Any, selector: str, key: str = "Tab") -> None:
    """Tab until there, seeing where the focus is at every stop."""
    for _ in range(MAX_STOPS):
        page.keyboard.press(key)
        arrived, outlined = page.evaluate(SEEN, selector)
        assert outlined, page.evaluate("document.activeElement.outerHTML")
        if arrived:
            return
    raise AssertionError(f"{key} does not lead to {selector}")


def focused(page: Any, selector: str) -> None:
    page.wait_for_function("(selector) => document.activeElement.matches(selector)", arg=selector)


def test_a_whole_task_without_a_mouse(opened: Any, service: Showing) -> None:
    keyboard = opened.keyboard
    go(opened, "#prompt")
    keyboard.type("hi")
    keyboard.press("Enter")  # send
    ended(opened)
    focused(opened, "#prompt")

    go(opened, ".answer ~ .message-actions button:last-child", "Shift+Tab")  # regenerate
    keyboard.press("Enter")
    opened.wait_for_selector(".branches >> text=2/2")
    ended(opened)
    focused(opened, "#thread")
    go(opened, "[aria-label='Previous branch']")
    keyboard.press("Enter")
    opened.wait_for_selector(".branches >> text=1/2")
    focused(opened, "[aria-label='Next branch']")  # there is none before the first

    go(opened, "#toggle-settings", "Shift+Tab")  # open the settings
    keyboard.press("Enter")
    keyboard.press("Enter")
    assert opened.get_attribute("#toggle-settings", "aria-expanded") == "true"
    go(opened, "[name=max_tokens]")
    keyboard.type("9")
    go(opened, "#prompt", "Shift+Tab")
    keyboard.type("!hang 3")
    go(opened, "#send")
    keyboard.press("Enter")
    until(service.hanging.is_set)
    focused(opened, "#stop")
    keyboard.press("Enter")  # stop
    until(service.idle.is_set)
    opened.wait_for_selector("text=ended: stopped")
    focused(opened, "#send")

    service.hanging.clear()
    go(opened, "#prompt", "Shift+Tab")
    keyboard.type("!hang 3")
    keyboard.press("Enter")
    until(service.hanging.is_set)
    go(opened, "#tab-live", "Shift+Tab")  # the other view
    keyboard.press("Enter")
    opened.wait_for_selector(".lanes .lane")
    go(opened, ".lane button")
    with opened.expect_response("**/v1/requests/*") as answer:
        keyboard.press("Enter")  # cancel
    assert answer.value.status == 200
    until(service.idle.is_set)
    opened.wait_for_selector(".lanes .lane", state="detached")
    focused(opened, ".lanes .lane-list")
    assert service.requests[-1].sampling.max_tokens == 9


def test_the_skip_link_leaves_the_view_as_it_is(opened: Any) -> None:
    opened.click("#tab-live")
    opened.wait_for_selector("text=0 of 8 running")
    go(opened, "#skip", "Shift+Tab")
    opened.keyboard.press("Enter")
    focused(opened, "#main")
    assert opened.is_visible("#view-live")


def test_a_screen_reader_is_told_the_places_and_what_happens(opened: Any, service: Showing) -> None:
    opened.fill("#prompt", "hi")
    opened.press("#prompt", "Enter")
    ended(opened)
    for role, name in (
        ("banner", None),
        ("main", None),
        ("navigation", "Views"),
        ("complementary", "Conversations"),
        ("complementary", "Settings"),
        ("log", "Messages"),
        ("article", "You"),
        ("article", "Answer"),
        ("textbox", "Message"),
        ("combobox", "Model"),
        ("button", "Regenerate"),
        ("link", "Live"),
    ):
        assert opened.get_by_role(role, name=name, exact=name is not None).count() == 1, (role, name)
    opened.wait_for_function("(text) => document.getElementById('announce').textContent.includes(text)", arg=REPLY)
    opened.fill("#prompt", "!hang 3")
    opened.press("#prompt", "Enter")
    until(service.hanging.is_set)
    opened.click("#tab-live")
    assert opened.get_attribute("#tab-live", "aria-current") == "page"
    lane = opened.get_by_role("list", name="Running sequences").get_by_role("listitem")
    lane.wait_for()
    assert "writing" in lane.inner_text() and lane.get_by_role("button", name="Cancel key-1 #0").count() == 1
    assert opened.get_by_role("img", name="Memory: 700 B of 1.0 kB").count() == 1
    opened.wait_for_function("() => document.getElementById('announce').textContent.includes('running')")
    service.release()
