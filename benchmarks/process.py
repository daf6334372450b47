"""A real `paceline serve` in a process of its own, for as long as a bench needs it."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import httpx

from paceline.bench.process import Process


class ServerProcess(Process):
    """`flags` are those of `paceline serve`, the port left out."""

    def __init__(self, flags: Sequence[str], env: Mapping[str, str] | None = None) -> None:
        super().__init__([sys.executable, "-m", "paceline", "serve", *flags], "/ready", env)


async def status(client: httpx.AsyncClient) -> dict[str, Any]:
    answer: dict[str, Any] = (await client.get("/v1/status")).raise_for_status().json()
    return answer
