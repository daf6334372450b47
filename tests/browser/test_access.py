"""Keys, restarts and attacks, in a browser."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from paceline.conversation.parsing.formats import OutputFormat
from paceline.preflight import listen
from paceline.settings import Settings
from tests.browser.test_chat import TOOLS, ended, send
from tests.server.fake_service import MODEL, PREFIX_CACHE, REPLY, SCHEDULING, SEQUENCE, FakeService
from tests.server.harness import serve

ATTACKS = (
    "<img src=x onerror=\"document.title='pwned'\">",
    "<script>document.title='pwned'</script>",
    "[x](javascript:document.title='pwned') **<b onclick=alert(1)>**",
    "```html\n<iframe srcdoc=\"<script>parent.document.title='pwned'</script>\"></iframe>\n```",
)


def test_a_key_is_asked_for_once_and_kept_for_the_tab(page: Any) -> None:
    settings = Settings.load({"api_key": "sk-right"}, None, {})
    with serve(FakeService(settings), settings) as address:
        page.goto(address)
        page.wait_for_selector("#key-dialog[open]")
        page.fill("#key-value", "sk-wrong")
        page.click("#key-form >> text=Use")
        page.wait_for_selector("#key-dialog >> text=not known here")
        page.fill("#key-value", "sk-right")
        page.click("#key-form >> text=Use")
        page.wait_for_selector("#model option", state="attached")
        send(page, "hi")
        ended(page)
        page.reload()
        page.wait_for_selector("#model option", state="attached")
        assert not page.is_visible("#key-dialog")
        assert page.evaluate("localStorage.length && JSON.stringify(localStorage).includes('sk-right')") in (0, False)
        page.goto("about:blank")


def test_who_gives_no_key_is_not_asked_again_and_again(page: Any) -> None:
    settings = Settings.load({"api_key": "sk-right"}, None, {})
    with serve(FakeService(settings), settings) as address:
        page.clock.install()
        page.goto(f"{address}/#live")
        page.wait_for_selector("#key-dialog[open]")
        page.click("#key-cancel")
        page.wait_for_selector(".live > .error >> text=needs an API key")
        page.clock.fast_forward(600_000)
        assert not page.is_visible("#key-dialog")
        page.click("#key")
        page.fill("#key-value", "sk-right")
        page.click("#key-form >> text=Use")
        page.wait_for_selector("text=0 running")
        page.goto("about:blank")


def test_without_a_key_the_page_says_what_the_server_said(page: Any) -> None:
    settings = Settings.load({"api_key": "sk-right"}, None, {})
    with serve(FakeService(settings), settings) as address:
        page.goto(address)
        page.wait_for_selector("#key-dialog[open]")
        page.click("#key-cancel")
        page.wait_for_selector(".error >> text=needs an API key")
        page.goto("about:blank")


def test_a_page_survives_a_restart_of_its_server(page: Any) -> None:
    with listen(Settings(port=0)) as found:
        port = int(found.getsockname()[1])
    with serve(FakeService(), Settings(), port) as address:
        page.goto(f"{address}/#live")
        page.wait_for_selector("text=0 running")
        page.click("#tab-chat")
        send(page, "hi")
        ended(page)
        page.click("#tab-live")
        page.wait_for_selector("#dot[data-state=bad]")  # the fake service says that it loads
    page.wait_for_selector("text=connection to the server was lost")
    page.click("#tab-chat")
    send(page, "are you there?")
    page.wait_for_selector(".answer .error >> text=cannot be reached")
    with serve(FakeService(), Settings(), port):
        page.wait_for_selector("#dot[data-state=ok]")
        page.click("text=Regenerate >> nth=-1")
        page.wait_for_function("() => [...document.querySelectorAll('.answer')].at(-1).innerText.includes('Hello')")
        page.click("#tab-live")
        page.wait_for_selector("text=connection to the server was lost", state="hidden")
        page.goto("about:blank")
    assert REPLY


@pytest.mark.parametrize("attack", ATTACKS)
def test_what_a_model_writes_is_text(page: Any, says: Any, attack: str) -> None:
    says(attack)
    with serve(FakeService(), Settings()) as address:
        page.goto(address)
        send(page, attack)
        ended(page)
        page.check("text=Probabilities of tokens")
        page.click("text=Regenerate")
        page.wait_for_selector(".tokens")
        title = page.title()
        inserted = page.evaluate("document.querySelectorAll('.thread :is(img, script, iframe, a, b)').length")
        page.goto("about:blank")
    assert (title, inserted) == ("Paceline · Chat", 0)


def test_names_and_errors_are_text(page: Any) -> None:
    attack = ATTACKS[0]
    settings = Settings(served_model_name=(attack,))
    service = FakeService(settings)
    with serve(service, settings) as address:
        page.goto(address)
        page.wait_for_selector("#model option", state="attached")
        assert page.evaluate("document.querySelector('#model option').textContent") == attack
        service.failure = attack
        send(page, "hi")
        page.wait_for_selector(".answer .error >> text=onerror")
        page.wait_for_selector("#server >> text=onerror")
        assert page.title() == "Paceline · Chat"
        assert page.evaluate("document.querySelectorAll('.answer img, .server img').length") == 0
        page.goto("about:blank")


def test_what_the_live_view_shows_is_text(page: Any) -> None:
    attack = ATTACKS[0]
    service = FakeService()
    waiting = replace(SEQUENCE, number=2, state="waiting", reason=attack)
    assert SCHEDULING.memory_budget is not None
    budget = replace(SCHEDULING.memory_budget, parts={attack: 400})
    service.statistics = replace(
        SCHEDULING,
        model=replace(MODEL, name=attack),
        running_sequences=(replace(SEQUENCE, tenant=attack),),
        waiting_sequences=(waiting,),
        memory_budget=budget,
        preemptions={attack: 3},
        prefix_cache=replace(PREFIX_CACHE, enabled=False, reason=attack),
    )
    with serve(service, Settings()) as address:
        page.goto(f"{address}/#live")
        for place in (".live-summary", ".lanes .lane", ".queue .lane", ".memory", ".faults", ".prefixes"):
            page.wait_for_selector(f"{place} >> text=onerror")
        assert page.title() == "Paceline · Live"
        assert page.evaluate("document.querySelectorAll('.live img').length") == 0
        page.goto("about:blank")


def test_tools_files_and_titles_are_text(page: Any, says: Any) -> None:
    attack = ATTACKS[0]
    service = FakeService()
    service.answer_format = OutputFormat("hermes", "think")
    says(f"<tool_call>\n{json.dumps({'name': 'get_weather', 'arguments': {'city': attack}})}\n</tool_call>")
    with serve(service, Settings()) as address:
        page.goto(address)
        page.click("summary:has-text('Tools')")
        page.fill("[name=tools]", json.dumps(TOOLS))
        page.set_input_files("#file", [{"name": attack, "mimeType": "text/plain", "buffer": attack.encode()}])
        page.wait_for_selector("#attachments >> text=onerror")
        send(page, attack)
        page.wait_for_selector(".call >> text=onerror")
        says("Thanks.")
        page.fill(".tool-form textarea", attack)
        page.click("text=Send results")
        page.wait_for_selector("text=Thanks.")
        for place in ("#conversation-list", ".message.user .file", ".message.user p", ".message.tool .result"):
            page.wait_for_selector(f"{place} >> text=onerror")
        assert page.title() == "Paceline · Chat"
        assert page.evaluate("document.querySelectorAll('#view-chat img').length") == 0
        page.goto("about:blank")


def test_a_long_answer_without_a_break_is_shown_whole_on_a_narrow_screen(page: Any, says: Any) -> None:
    says("**word** `code` " * 180 + "\n\n" + "x" * 900 + "\n\nThe end.")
    with serve(FakeService(), Settings()) as address:
        page.set_viewport_size({"width": 360, "height": 640})
        page.goto(address)
        send(page, "hi")
        ended(page)
        page.wait_for_selector(".answer .text >> text=The end.")
        assert page.locator(".answer strong").count() == 180
        assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
        page.goto("about:blank")
