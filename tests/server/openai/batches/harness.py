"""A server with a folder for files, and batches as clients send them."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import openai
from openai.types import Batch

from paceline.settings import Settings
from tests.server.fake_service import FakeService
from tests.server.harness import serve, user
from tests.waiting import WAIT

CHAT = "/v1/chat/completions"


@contextlib.contextmanager
def serving(folder: Path, service: FakeService | None = None, **settings: Any) -> Iterator[openai.OpenAI]:
    chosen = Settings.model_validate({"files_dir": folder, **settings})
    with (
        serve(service or FakeService(chosen), chosen) as address,
        openai.OpenAI(base_url=f"{address}/v1", api_key="secret", max_retries=0, timeout=120) as client,
    ):
        yield client


def asking(*texts: str, **fields: Any) -> list[dict[str, Any]]:
    """Requests to chat, named by their places."""
    bodies = [{"messages": user(text), **fields} for text in texts]
    return [{"custom_id": f"r{i}", "method": "POST", "url": CHAT, "body": body} for i, body in enumerate(bodies)]


def start(client: openai.OpenAI, lines: Sequence[Any], endpoint: Any = CHAT, **more: Any) -> Batch:
    content = "\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines)
    file = client.files.create(file=("in.jsonl", content.encode()), purpose="batch")
    return client.batches.create(input_file_id=file.id, endpoint=endpoint, completion_window="24h", **more)


def wait(client: openai.OpenAI, batch: Batch, *statuses: str) -> Batch:
    deadline = time.monotonic() + WAIT
    while time.monotonic() < deadline:
        batch = client.batches.retrieve(batch.id)
        if batch.status in (statuses or ("completed", "failed", "cancelled", "expired")):
            return batch
        time.sleep(0.02)
    raise AssertionError(batch)


def results(client: openai.OpenAI, file_id: str | None) -> dict[str, dict[str, Any]]:
    """By custom_id."""
    if file_id is None:
        return {}
    found = [json.loads(line) for line in client.files.content(file_id).text.splitlines()]
    assert len({result["custom_id"] for result in found}) == len(found)
    return {result["custom_id"]: result for result in found}
