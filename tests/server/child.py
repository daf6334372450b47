"""A server process over the fake service: `python -m tests.server.child DRAIN_SECONDS [LOAD_ERROR | --load-forever]`.

A line on its standard input lets the rows that hang go on.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import threading

from paceline.errors import PacelineError
from paceline.server.app import run
from paceline.settings import Settings
from tests.server.fake_service import FakeService


class ReleasedByStdin(FakeService):
    async def start(self) -> None:
        asyncio.get_running_loop().add_reader(sys.stdin, self.read_line)
        if "--load-forever" in sys.argv:
            await asyncio.to_thread(self.load_forever)
        await super().start()

    def load_forever(self) -> None:
        """In a thread that nothing can interrupt, as a real model is loaded."""
        print("loading", flush=True)
        threading.Event().wait()

    def read_line(self) -> None:
        if sys.stdin.readline():
            self.release()


if __name__ == "__main__":
    logging.basicConfig(level="INFO", format="%(name)s: %(message)s")
    error = sys.argv[2] if len(sys.argv) > 2 and "--load-forever" not in sys.argv else None
    service = ReleasedByStdin(load_error=error)
    try:
        run(service, Settings(port=0, drain_seconds=float(sys.argv[1])))
    except PacelineError as error:
        print(f"failed: {error}", flush=True)
        sys.exit(2)
    print(f"stopped: {service.stops > 0}", flush=True)
