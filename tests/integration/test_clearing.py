"""A real process that clears its cache, or stops its service: the memory goes back to the system."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from tests.integration.test_server_failure import Server, started
from tests.lengths import turns

Tiny = Callable[..., Path]
PROMPTS = turns(5, 5, 3)
TIMES = turns(2, 2, 1)
LENGTH = 1000  # tokens


def resident(server: Server) -> int:
    pages = int(Path(f"/proc/{server.process.pid}/statm").read_text().split()[1])
    return pages * 4096


def fill(http: httpx.Client) -> int:
    """Returns the bytes that are cached."""
    for seed in range(PROMPTS):
        prompt = [(seed + place * (seed + 3)) % 480 for place in range(LENGTH)]
        http.post("/v1/completions", json={"prompt": prompt, "max_tokens": 1}).raise_for_status()
    return int(http.get("/v1/status").json()["prefix_cache"]["memory_bytes"])


@pytest.mark.slow
def test_clearing_the_cache_returns_its_memory_to_the_system(tiny: Tiny) -> None:
    with started(tiny("llama", layers=8, kv_heads=4, head_dim=64), drain_seconds=0) as (server, http):
        for _ in range(TIMES):
            counted = fill(http)
            assert counted > PROMPTS * 12e6
            before = resident(server)
            assert http.post("/v1/cache/clear").raise_for_status().json()["cleared"]["bytes"] == counted
            assert before - resident(server) > 0.8 * counted


STOPS = """
import asyncio, sys
from pathlib import Path
from paceline.types import Sampling
from paceline.requests import GenerateRequest
from paceline.service import Service
from paceline.settings import Settings

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

async def main():
    async with Service(Settings(model=sys.argv[1])) as service:
        for seed in range(5):
            prompt = [(seed + place * (seed + 3)) % 480 for place in range(1000)]
            await service.generate(GenerateRequest(prompt, Sampling(max_tokens=1)))
        counted, before = service.stats().prefix_cache.memory_bytes, resident()
    print(counted, before - resident())

asyncio.run(main())
"""


@pytest.mark.slow
def test_a_service_that_stops_returns_its_memory_to_the_system(tiny: Tiny) -> None:
    model = tiny("llama", layers=8, kv_heads=4, head_dim=64)
    command = [sys.executable, "-c", STOPS, str(model)]
    said = subprocess.run(command, check=True, capture_output=True, text=True, timeout=200).stdout
    counted, returned = map(int, said.split())
    assert counted > 60e6 and returned > 0.8 * counted
