"""The page with a real model (paceline-mini), and the pictures of it in the docs (`make screenshots`)."""

from __future__ import annotations

import io
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image, ImageDraw

from paceline.service import Service
from paceline.settings import Settings
from tests.browser.test_chat import SCHEMA, ended, send
from tests.server.harness import serve

FOLDER = os.environ.get("PACELINE_SCREENSHOTS")  # where pictures are written; none: nowhere
COLORS = 96  # of a palette: the files are small, and nobody sees the difference
SIZE = {"width": 1200, "height": 760}

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    settings = Settings()
    with serve(Service(settings), settings) as address:
        yield address


@pytest.fixture(params=["light", "dark"])
def themed(browser: Any, address: str, request: pytest.FixtureRequest) -> Iterator[tuple[Any, str]]:
    context = browser.new_context(color_scheme=request.param, viewport=SIZE)
    context.set_default_timeout(240_000)
    page = context.new_page()
    page.goto(address)
    yield page, request.param
    context.close()


def circle(color: str) -> bytes:
    drawn = Image.new("RGB", (96, 72), "white")
    ImageDraw.Draw(drawn).ellipse((24, 12, 72, 60), fill=color)
    file = io.BytesIO()
    drawn.save(file, "PNG")
    return file.getvalue()


def keep(page: Any, name: str) -> None:
    content = page.screenshot()
    if FOLDER is not None:
        image = Image.open(io.BytesIO(content)).convert("RGB").quantize(COLORS)
        image.save(Path(FOLDER) / f"{name}.png", optimize=True)


def test_a_chat_with_a_picture_and_a_schema(themed: tuple[Any, str]) -> None:
    page, theme = themed
    send(page, "Hello! Who are you?")
    ended(page)
    page.set_input_files("#file", [{"name": "circle.png", "mimeType": "image/png", "buffer": circle("red")}])
    page.wait_for_selector("#attachments img")
    send(page, "What is in this picture?")
    ended(page, 2)
    assert "red circle" in page.inner_text(".answer >> nth=1").lower()
    keep(page, f"web-chat-{theme}")
    page.click("#new")
    page.click("summary:has-text('JSON schema')")
    page.fill("[name=schema]", json.dumps(SCHEMA))
    page.fill("[name=max_tokens]", "60")
    send(page, "Give me a name as JSON.")
    ended(page)
    assert set(json.loads(page.inner_text(".answer .text"))) == {"name"}


def test_the_load_demo_fills_the_batch(themed: tuple[Any, str]) -> None:
    page, theme = themed
    page.click("#tab-live")
    page.click("text=Load demo")
    began = time.monotonic()
    page.wait_for_function("() => document.querySelectorAll('.lanes .lane:not(.leaving)').length === 9")
    print(f"nine sequences are seen {time.monotonic() - began:.1f} s after the click")
    keep(page, f"web-live-{theme}")
    page.wait_for_selector("text=done: all of them shared one batch")
    page.wait_for_selector("text=0 of 64 running")
