"""Several streams at once against a running server, drawn as a terminal: the picture in the README.

paceline serve & python examples/record.py http://127.0.0.1:8000 docs/assets/streams.svg
"""

from __future__ import annotations

import asyncio
import base64
import io
import json
import sys
import time
from typing import Any

import httpx
from PIL import Image, ImageDraw
from rich import box
from rich.console import Console
from rich.table import Table

ADDRESS, TARGET = sys.argv[1], sys.argv[2]


def picture() -> dict[str, Any]:
    image = Image.new("RGB", (64, 64), "white")
    ImageDraw.Draw(image).ellipse((14, 14, 50, 50), fill="red")
    file = io.BytesIO()
    image.save(file, "PNG")
    return {
        "type": "image_url",
        "image_url": {"url": "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()},
    }


LONG = {"max_tokens": 160}
# Seconds after the start, what the table shows, the content, other fields
STREAMS: list[tuple[float, str, Any, dict[str, Any]]] = [
    (0.0, "Tell me a story about a fox.", "Tell me a story about a fox.", LONG),
    (0.0, "Tell me a story about an owl. (temperature 1)", "Tell me a story about an owl.", {**LONG, "temperature": 1}),
    (
        0.4,
        "Tell me a story about a king. (no drafting)",
        "Tell me a story about a king.",
        {**LONG, "speculation": "off"},
    ),
    (0.6, "What shape is this? (an image)", [{"type": "text", "text": "What shape is this?"}, picture()], {}),
    (0.8, "What is the capital of Japan?", "What is the capital of Japan?", {}),
]


async def stream(http: httpx.AsyncClient, begun: float, row: list[Any], content: Any, fields: dict[str, Any]) -> None:
    body = {"messages": [{"role": "user", "content": content}], "stream": True, "max_tokens": 60, **fields}
    await asyncio.sleep(max(0.0, row[1] - (time.perf_counter() - begun)))
    async with http.stream("POST", "/v1/chat/completions", json=body) as answer:
        async for line in answer.aiter_lines():
            if line.startswith("data: {") and (choices := json.loads(line[6:])["choices"]):
                if text := choices[0]["delta"].get("content"):
                    row[2] = row[2] or time.perf_counter() - begun
                    row[4] += text
                if choices[0]["finish_reason"]:
                    row[3] = time.perf_counter() - begun


async def main() -> None:
    async with httpx.AsyncClient(base_url=ADDRESS, timeout=300) as http:
        before = (await http.get("/v1/status")).json()
        rows: list[list[Any]] = [[shown, at, 0.0, 0.0, ""] for at, shown, _, _ in STREAMS]
        begun = time.perf_counter()
        tasks = [
            asyncio.create_task(stream(http, begun, row, content, fields))
            for row, (_, _, content, fields) in zip(rows, STREAMS, strict=True)
        ]
        while not rows[-1][3]:
            await asyncio.sleep(0.01)
        taken = time.perf_counter() - begun
        status = (await http.get("/v1/status")).json()
        await asyncio.gather(*tasks)
    model, spec = status["model"], status["spec_decode"]
    console = Console(record=True, width=118, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    console.print("[bold green]$[/] paceline serve & python examples/record.py http://127.0.0.1:8000 streams.svg")
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("request", "sent", "first text", "done", "answer"):
        table.add_column(name, no_wrap=name != "request", overflow="ellipsis")
    for shown, sent, first, done, text in rows:
        table.add_row(shown, f"{sent:.1f} s", f"{first:.2f} s", f"{done:.2f} s", " ".join(text.split())[:48])
    console.print(table)
    console.print(f"[bold]/v1/status, after {taken:.1f} s[/]: {model['name']} on {model['device']}")
    decode_steps, tokens = (status[name] - before[name] for name in ("decode_steps", "generation_tokens"))
    console.print(f"  {status['num_requests_running']} running; {tokens} tokens in {decode_steps} decode steps so far")
    accepted, drafted = (
        spec[name] - before["spec_decode"][name] for name in ("num_accepted_tokens", "num_draft_tokens")
    )
    console.print(f"  {accepted} of {drafted} draft tokens accepted")
    console.save_svg(TARGET, title="Five requests, one batch")


asyncio.run(main())
