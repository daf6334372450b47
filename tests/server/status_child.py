"""A server process whose CPU time can be asked for: `python -m tests.server.status_child ROWS`, with so many running
sequences, or `python -m tests.server.status_child MODEL`, the real service at rest.

It prints its address, and its CPU seconds for every line on its standard input, at whose end it stops.
"""

from __future__ import annotations

import itertools
import sys
import time
from dataclasses import replace

from paceline.server.state import Backend
from paceline.service import Service
from paceline.settings import Settings
from paceline.stats import Stats
from tests.server.fake_service import PREFIX_CACHE, SCHEDULING, SEQUENCE, FakeService
from tests.server.harness import serve


class Busy(FakeService):
    """So many sequences, each one token further in every look."""

    def __init__(self, rows: int) -> None:
        super().__init__()
        self.rows = rows
        self.looks = itertools.count(1)

    def stats(self) -> Stats:
        step = next(self.looks)
        row = replace(SEQUENCE, prompt_tokens=100, prefilled_tokens=100, generated_tokens=step)
        running = tuple(replace(row, id=f"chatcmpl-{number}", number=number) for number in range(self.rows))
        counted = replace(SCHEDULING, steps=step, num_requests_running=self.rows, prefix_cache=PREFIX_CACHE)
        return replace(counted, running_sequences=running)


if __name__ == "__main__":
    given = sys.argv[1]
    settings = Settings() if given.isdigit() else Settings(model=given)
    backend: Backend = Busy(int(given)) if given.isdigit() else Service(settings)
    with serve(backend, settings) as address:
        print(address, flush=True)
        for _ in sys.stdin:
            print(time.process_time(), flush=True)
