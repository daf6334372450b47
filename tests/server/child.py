"""A server process over the fake service: `python -m tests.server.child DRAIN_SECONDS [LOAD_ERROR]`.

A line on its standard input lets the rows that hang go on.
"""

from __future__ import annotations

import asyncio
import logging
import sys

from paceline.errors import PacelineError
from paceline.server.app import run
from paceline.settings import Settings
from tests.server.fake_service import FakeService


class ReleasedByStdin(FakeService):
    async def start(self) -> None:
        asyncio.get_running_loop().add_reader(sys.stdin, self.read_line)
        await super().start()

    def read_line(self) -> None:
        if sys.stdin.readline():
            self.release()


if __name__ == "__main__":
    logging.basicConfig(level="INFO", format="%(name)s: %(message)s")
    service = ReleasedByStdin(load_error=sys.argv[2] if len(sys.argv) > 2 else None)
    try:
        run(service, Settings(port=0, drain_seconds=float(sys.argv[1])))
    except PacelineError as error:
        print(f"failed: {error}", flush=True)
        sys.exit(2)
    print(f"stopped: {service.stops > 0}", flush=True)
