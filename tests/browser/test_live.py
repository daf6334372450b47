"""The live view in a browser: lanes, figures, what changes the server, and accessibility."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from paceline.settings import Settings
from paceline.stats import Stats
from tests.browser.showing import Showing
from tests.browser.test_chat import ended, send
from tests.server.fake_service import PREFIX_CACHE, SCHEDULING, SEQUENCE, FakeService
from tests.server.harness import serve
from tests.waiting import until

ROWS = 200
COUNTED = 8  # updates
LONG_TASK_MS = 50  # https://www.w3.org/TR/longtasks-1/
FIGURES = ".lanes .lane-figures"
VIEWS = ("chat", "compare", "live")


class Growing(FakeService):
    """So many sequences, each one token further in every look."""

    rows = 0

    def __init__(self) -> None:
        super().__init__()
        self.looks = itertools.count(1)

    def stats(self) -> Stats:
        step = next(self.looks)
        running = tuple(
            replace(
                SEQUENCE,
                id=f"chatcmpl-{number}",
                number=number,
                tenant=f"key-{number % 7}",
                prompt_tokens=100,
                prefilled_tokens=100,
                cached_tokens=number % 100,
                generated_tokens=step + number,
                accepted_tokens=step // 2,
                drafted_tokens=step,
            )
            for number in range(self.rows)
        )
        waiting = replace(SEQUENCE, number=9999, state="waiting", position=1, reason="memory")
        return replace(
            SCHEDULING,
            time=1.7e9 + step,
            steps=step,
            num_requests_running=len(running),
            num_requests_waiting=1 if running else 0,
            running_sequences=running,
            waiting_sequences=(waiting,) if running else (),
            prefix_cache=PREFIX_CACHE,
        )


@pytest.fixture
def service() -> Growing:
    return Growing()


@pytest.fixture
def live(page: Any, service: Growing) -> Iterator[Any]:
    with serve(service, Settings()) as address:
        page.goto(f"{address}/#live")
        page.wait_for_selector("text=0 of 8 running")
        yield page
        page.goto("about:blank")


def lanes(page: Any, count: int) -> None:
    page.wait_for_function(
        "count => document.querySelectorAll('.lanes .lane:not(.leaving)').length === count", arg=count
    )


def wake(page: Any) -> None:
    """A request, so that the stream looks again at once."""
    page.evaluate(
        "fetch('/v1/completions', {method: 'POST', headers: {'content-type': 'application/json'}, "
        "body: JSON.stringify({prompt: 'hi', max_tokens: 1})}).then((response) => response.text())"
    )


UPDATES = """(count) => new Promise((resolve) => {
  const changes = new MutationObserver(() => {
    count -= 1;
    if (count) return;
    changes.disconnect();
    resolve(document.getAnimations().filter((one) => one.effect.target.closest(".lanes")).length);
  });
  changes.observe(document.querySelector(".lanes .lane-figures"), { childList: true });
})"""


def test_two_hundred_rows_do_not_make_the_page_lag(live: Any, service: Growing) -> None:
    """All that an update makes the page do until the next one takes less than a long task, beyond which browsers and
    users call it lag. It is CPU time of the main thread, which other processes can only make longer: the least of
    three counts. And nothing glides, which would lay out all rows in every frame."""
    devtools = live.context.new_cdp_session(live)
    devtools.send("Performance.enable", {"timeDomain": "threadTicks"})

    def cpu_seconds() -> float:
        found = devtools.send("Performance.getMetrics")["metrics"]
        return float(next(metric["value"] for metric in found if metric["name"] == "TaskDuration"))

    service.rows = ROWS
    wake(live)
    lanes(live, ROWS)
    live.wait_for_function("() => !document.querySelector('.lane.leaving, .lane.joining')")
    live.evaluate(UPDATES, 4)  # the lanes have faded in
    costs, gliding = [], 0
    for _ in range(3):
        before = cpu_seconds()
        gliding += live.evaluate(UPDATES, COUNTED)
        costs.append(1000 * (cpu_seconds() - before) / COUNTED)
    print(f"{ROWS} rows: {', '.join(f'{cost:.1f}' for cost in costs)} ms of CPU an update, {gliding} animations")
    assert min(costs) < LONG_TASK_MS
    assert gliding == 0


def test_two_hundred_lanes_are_changed_in_place(live: Any, service: Growing) -> None:
    service.rows = ROWS
    wake(live)
    lanes(live, ROWS)
    live.evaluate(
        """() => {
          window.added = 0;
          window.changed = 0;
          const list = document.querySelector('.lanes .lane-list');
          new MutationObserver((all) => (window.added += all.flatMap((one) => [...one.addedNodes]).length))
            .observe(list, {childList: true});
          new MutationObserver(() => (window.changed += 1)).observe(list, {subtree: true, attributes: true});
        }"""
    )
    live.wait_for_function("() => window.changed > 10")
    assert live.evaluate("window.added") == 0
    first = live.inner_text(".lanes .lane >> nth=0")
    assert "key-0 #0" in first and "100/100 in" in first and "drafts" in first
    assert "waits: memory" in live.inner_text(".queue")
    service.rows = ROWS - 50
    lanes(live, ROWS - 50)


def test_memory_prefixes_faults_and_refusals_are_shown(live: Any) -> None:
    assert "weights 400 B" in live.inner_text(".memory") and "limit 1.0 kB" in live.inner_text(".memory")
    assert "3 prefixes" in live.inner_text(".prefixes")
    assert "preempted: memory" in live.inner_text(".faults")


def test_a_request_is_cancelled_and_the_cache_cleared(live: Any, service: Growing) -> None:
    service.rows = 1
    wake(live)
    lanes(live, 1)
    with live.expect_response("**/v1/requests/chatcmpl-0") as answer:
        live.click(".lanes .lane >> text=Cancel")
    assert answer.value.status == 404  # the fake's sequence belongs to no request
    live.wait_for_selector(".live > .error >> text=chatcmpl-0")
    figures = live.inner_text(".lanes .lane-figures")
    live.wait_for_function("(seen) => document.querySelector('.lane-figures').textContent !== seen", arg=figures)
    assert live.is_visible(".live > .error >> text=chatcmpl-0")  # figures do not take it away
    with live.expect_response("**/v1/cache/clear") as answer:
        live.click("text=Clear")
    assert answer.value.status == 200 and service.clears == 1


def test_the_stream_is_open_only_while_the_view_is_seen(live: Any) -> None:
    with live.expect_event("requestfailed", lambda request: request.url.endswith("/v1/status/stream")):
        live.click("#tab-chat")
    with live.expect_request("**/v1/status/stream"):
        live.click("#tab-live")


def test_the_load_demo_shows_nine_sequences_at_once(page: Any) -> None:
    service = Showing()
    with serve(service, Settings()) as address:
        page.clock.install()
        page.goto(f"{address}/#live")
        page.wait_for_selector("text=0 of 8 running")
        page.click("text=Load demo")
        lanes(page, 9)
        lengths = [
            int(read.split("/")[1].split()[0].replace(",", "")) for read in page.locator(FIGURES).all_inner_texts()
        ]
        assert sum(length > 1000 for length in lengths) == 1 and sum(length < 100 for length in lengths) == 8
        assert "9 of 8 running" in page.inner_text(".live-summary")
        page.clock.fast_forward(60_000)
        service.released = True
        page.wait_for_selector("text=done: all of them shared one batch")
        lanes(page, 0)
        page.goto("about:blank")
    assert len({request.tenant for request in service.requests}) == 4


def test_the_load_demo_asks_again_where_answers_are_quick_and_can_be_stopped(page: Any) -> None:
    service = Showing()
    service.released = True
    with serve(service, Settings()) as address:
        page.goto(f"{address}/#live")
        page.wait_for_selector("text=0 of 8 running")
        page.click("text=Load demo")
        until(lambda: len(service.requests) > 9)
        page.click("text=Stop the demo")
        page.wait_for_selector(".live-head >> text=stopped")
        page.wait_for_selector("text=Load demo")
        page.goto("about:blank")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 768, 3840])
def test_no_view_has_an_accessibility_problem_or_is_too_wide(
    browser: Any, axe: str, service: Growing, scheme: str, width: int
) -> None:
    service.rows = 5
    context = browser.new_context(
        color_scheme=scheme, viewport={"width": width, "height": 800}, reduced_motion="reduce"
    )
    page = context.new_page()
    with serve(service, Settings()) as address:
        page.goto(address)
        send(page, "hi")
        ended(page)
        page.evaluate(axe)
        for view in VIEWS:
            page.click(f"#tab-{view}")
            if view == "live":
                lanes(page, 5)
            result = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
            found = [(problem["id"], [node["html"] for node in problem["nodes"]]) for problem in result["violations"]]
            assert found == [], (view, found)
            overflow = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
            assert overflow <= 0, view
        context.close()
