"""The chat in a browser, against a server whose model is a fake."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Iterator
from typing import Any

import pytest
from PIL import Image

from paceline.conversation.parsing.formats import OutputFormat
from paceline.requests import ChatRequest
from paceline.settings import Settings
from tests.server.fake_service import REPLY, FakeService
from tests.server.harness import serve
from tests.waiting import until

SCHEMA = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
TOOLS = [{"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object"}}}]


@pytest.fixture
def service() -> FakeService:
    return FakeService()


@pytest.fixture
def opened(page: Any, service: FakeService) -> Iterator[Any]:
    with serve(service, Settings()) as address:
        page.goto(address)
        yield page
        page.goto("about:blank")


def send(page: Any, text: str) -> None:
    page.fill("#prompt", text)
    page.press("#prompt", "Enter")


def ended(page: Any, count: int = 1) -> None:
    """Until the last of `count` shown answers has its figures."""
    page.wait_for_function(
        "count => document.querySelectorAll('.answer').length === count && "
        "[...document.querySelectorAll('.answer .figures')].every((each) => each.textContent)",
        arg=count,
    )


def last(service: FakeService) -> ChatRequest:
    request = service.requests[-1]
    assert isinstance(request, ChatRequest)
    return request


def picture(color: str) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (32, 24), color).save(file, "PNG")
    return file.getvalue()


def test_an_answer_streams_and_shows_its_figures_and_its_curl(opened: Any) -> None:
    send(opened, "hi")
    ended(opened)
    assert REPLY in opened.inner_text(".answer .text")
    figures = opened.inner_text(".figures")
    assert "first token" in figures and "1 cached" in figures and " out" in figures
    opened.click(".curl summary")
    command = opened.inner_text(".curl pre")
    assert command.startswith("curl http://127.0.0.1:") and '"content":"hi"' in command


def test_an_edited_message_ends_the_answer_that_is_being_written(opened: Any, service: FakeService) -> None:
    send(opened, "!hang 3")
    until(service.hanging.is_set)
    opened.click(".message.user >> text=Edit")
    opened.fill(".edit textarea", "hi")
    opened.click("text=Send as a branch")
    opened.wait_for_selector(".message.user >> text=2/2")
    ended(opened)
    assert REPLY in opened.inner_text(".answer .text") and opened.is_hidden("#stop")


def test_stop_ends_the_request_on_the_server(opened: Any, service: FakeService) -> None:
    send(opened, "!hang 3")
    opened.wait_for_function("() => document.querySelector('.answer .text').textContent.includes('Hel')")
    opened.click("#stop")
    until(service.idle.is_set)
    opened.wait_for_selector("text=ended: stopped")
    assert opened.is_enabled("#send")


def test_regenerating_and_editing_make_branches(opened: Any, service: FakeService, says: Any) -> None:
    send(opened, "one")
    ended(opened)
    says("Another answer")
    opened.click("text=Regenerate")
    opened.wait_for_selector("text=Another answer")
    ended(opened)
    assert opened.inner_text(".branches span") == "2/2"
    opened.click("[aria-label='Previous branch']")
    assert REPLY in opened.inner_text(".answer .text")
    opened.click("text=Edit")
    opened.fill("[aria-label='Edit the message']", "two")
    opened.click("text=Send as a branch")
    until(lambda: len(service.requests) == 3)
    ended(opened)
    assert [message["content"] for message in last(service).messages] == ["two"]
    assert opened.locator(".message.user .branches").inner_text().replace("\n", "") in ("‹2/2›", "‹ 2/2 ›")


def test_conversations_are_kept_in_the_browser(opened: Any, service: FakeService) -> None:
    send(opened, "first words")
    ended(opened)
    opened.click("#new")
    send(opened, "second words")
    ended(opened)
    opened.reload()
    opened.wait_for_selector("#conversation-list >> text=first words")
    opened.click("#conversation-list >> text=first words")
    opened.wait_for_selector(".message.user >> text=first words")
    send(opened, "and on")
    ended(opened, 2)
    assert [message["role"] for message in last(service).messages] == ["user", "assistant", "user"]
    opened.click("[aria-label='Delete second words']")
    opened.wait_for_function("() => document.querySelectorAll('#conversation-list li').length === 1")


def test_two_tabs_with_one_conversation_lose_nothing(opened: Any, service: FakeService) -> None:
    send(opened, "first words")
    ended(opened)
    other = opened.context.new_page()
    other.goto(opened.url)
    other.wait_for_selector(".message.user >> text=first words")
    for tab, text in ((opened, "from one tab"), (other, "from the other")):
        send(tab, text)
        ended(tab, 2)
        assert len(last(service).messages) == 3
    opened.reload()
    opened.wait_for_selector(".message.user >> text=from the other")
    opened.click(
        ".message.user [aria-label='Next branch']:enabled, .message.user [aria-label='Previous branch']:enabled"
    )
    opened.wait_for_selector(".message.user >> text=from one tab")
    other.close()


def test_a_dropped_picture_and_a_text_file_are_sent(opened: Any, service: FakeService) -> None:
    opened.set_input_files("#file", [{"name": "notes.txt", "mimeType": "text/plain", "buffer": b"remember the milk"}])
    content = base64.b64encode(picture("red")).decode()
    opened.evaluate(
        """async (content) => {
          const bytes = Uint8Array.from(atob(content), (letter) => letter.charCodeAt(0));
          const transfer = new DataTransfer();
          transfer.items.add(new File([bytes], "red.png", {type: "image/png"}));
          document.getElementById("view-chat").dispatchEvent(
            new DragEvent("drop", {dataTransfer: transfer, bubbles: true, cancelable: true}));
        }""",
        content,
    )
    opened.wait_for_selector("#attachments img")
    opened.wait_for_selector("#attachments .file")
    send(opened, "what is it?")
    ended(opened)
    image, text = last(service).messages[0]["content"]
    assert image["image_url"]["url"].startswith("data:image/png;base64,")
    assert "notes.txt" in text["text"] and "remember the milk" in text["text"] and "what is it?" in text["text"]


def test_a_pasted_picture_is_sent_and_what_is_no_text_is_refused(opened: Any, service: FakeService) -> None:
    opened.set_input_files("#file", [{"name": "a.bin", "mimeType": "application/x", "buffer": b"\x00\x01"}])
    opened.wait_for_selector(".error >> text=a.bin")
    opened.evaluate(
        """(content) => {
          const bytes = Uint8Array.from(atob(content), (letter) => letter.charCodeAt(0));
          const transfer = new DataTransfer();
          transfer.items.add(new File([bytes], "blue.png", {type: "image/png"}));
          document.getElementById("prompt").dispatchEvent(
            new ClipboardEvent("paste", {clipboardData: transfer, bubbles: true, cancelable: true}));
        }""",
        base64.b64encode(picture("blue")).decode(),
    )
    opened.wait_for_selector("#attachments img")
    send(opened, "and this?")
    ended(opened)
    assert last(service).messages[0]["content"][0]["type"] == "image_url"


def test_a_tool_is_called_and_its_result_is_sent(opened: Any, service: FakeService, says: Any) -> None:
    service.answer_format = OutputFormat("hermes", "think")
    says('<tool_call>\n{"name": "get_weather", "arguments": {"city": "Oslo"}}\n</tool_call>')
    opened.click("summary:has-text('Tools')")
    opened.fill("[name=tools]", json.dumps(TOOLS))
    send(opened, "the weather?")
    opened.wait_for_selector(".call >> text=get_weather")
    opened.wait_for_selector(".tool-form")
    says("It snows.")
    opened.fill("[aria-label='Result of get_weather']", "snow, -3")
    opened.click("text=Send results")
    opened.wait_for_selector("text=It snows.")
    ended(opened, 2)
    call, result = last(service).messages[1:]
    assert call["tool_calls"][0]["function"]["name"] == "get_weather"
    assert result == {"role": "tool", "tool_call_id": call["tool_calls"][0]["id"], "content": "snow, -3"}


def test_a_schema_is_sent_and_wrong_json_is_told(opened: Any, service: FakeService, says: Any) -> None:
    opened.click("summary:has-text('JSON schema')")
    opened.fill("[name=schema]", "{no")
    send(opened, "who?")
    opened.wait_for_selector(".answer .error >> text=not JSON")
    assert service.requests == []
    says('{"name": "Ada"}')
    opened.fill("[name=schema]", json.dumps(SCHEMA))
    opened.click("text=Regenerate")
    opened.wait_for_selector("text=Ada")
    assert last(service).grammar is not None


def test_settings_reach_the_request(opened: Any, service: FakeService) -> None:
    opened.fill("[name=system]", "Be brief.")
    opened.fill("[name=temperature]", "0.5")
    opened.fill("[name=max_tokens]", "5")
    send(opened, "hi")
    ended(opened)
    request = last(service)
    assert request.messages[0] == {"role": "system", "content": "Be brief."}
    assert (request.sampling.temperature, request.sampling.max_tokens) == (0.5, 5)
    assert "ended: length" in opened.inner_text(".figures")


def test_thinking_is_folded(opened: Any, service: FakeService, says: Any) -> None:
    service.answer_format = OutputFormat("hermes", "think")
    says("<think>deep thoughts</think>The answer.")
    send(opened, "why?")
    ended(opened)
    assert "The answer." in opened.inner_text(".answer .text")
    assert not opened.is_visible("text=deep thoughts")
    opened.click("summary:has-text('Thinking')")
    assert opened.is_visible("text=deep thoughts")


def test_probabilities_are_told_on_hover_and_to_arrow_keys(opened: Any) -> None:
    opened.check("text=Probabilities of tokens")
    send(opened, "hi")
    ended(opened)
    opened.hover(".token >> nth=0")
    assert '"H" 22.3%' in opened.inner_text(".tip")
    opened.focus(".tokens")
    opened.press(".tokens", "ArrowRight")
    assert '"e"' in opened.inner_text(".tip")


def test_two_settings_are_compared_side_by_side(opened: Any, service: FakeService) -> None:
    opened.click("#tab-compare")
    opened.fill("#compare-prompt", "hi")
    opened.click("#compare-send")
    ended(opened, 2)
    assert {request.sampling.temperature for request in service.requests} == {0.0, 1.0}
    for side in "ab":
        assert REPLY in opened.inner_text(f"#compare-{side}")
