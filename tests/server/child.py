"""A server process over the fake service: `python -m tests.server.child DRAIN_SECONDS [LOAD_ERROR] [FLAG ...]`.

A line on its standard input lets the rows that hang go on. Flags: `--load-forever`; `--never-stop`: the engine does not
end; `--patient`: clients have all the time to read their errors; `--keep-alive`: streams send a sign at once, and the
port is printed.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import sys
import threading

from paceline.errors import PacelineError
from paceline.server import app
from paceline.server.http import drain
from paceline.settings import Settings
from tests.server.fake_service import FakeService


class ReleasedByStdin(FakeService):
    port = 0

    async def start(self) -> None:
        asyncio.get_running_loop().add_reader(sys.stdin, self.read_line)
        if "--load-forever" in sys.argv:
            await asyncio.to_thread(self.load_forever)
        await super().start()

    async def stop(self) -> None:
        if "--never-stop" in sys.argv:
            await asyncio.Event().wait()
        await super().stop()

    def load_forever(self) -> None:
        """In a thread that nothing can interrupt, as a real model is loaded."""
        print("loading", flush=True)
        if self.port:
            print(self.port, flush=True)
        threading.Event().wait()

    def read_line(self) -> None:
        if sys.stdin.readline():
            self.release()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


if __name__ == "__main__":
    logging.basicConfig(level="INFO", format="%(name)s: %(message)s")
    words = [word for word in sys.argv[2:] if not word.startswith("--")]
    service = ReleasedByStdin(load_error=words[0] if words else None)
    settings = Settings(port=0, drain_seconds=float(sys.argv[1]))
    if "--patient" in sys.argv:
        drain.LAST_WORDS_SECONDS = 600.0
    if "--keep-alive" in sys.argv:
        settings = settings.model_copy(update={"port": free_port(), "stream_keepalive_seconds": 0.01})
        service.port = settings.port
    try:
        app.run(service, settings)
    except PacelineError as error:
        print(f"failed: {error}", flush=True)
        sys.exit(2)
    print(f"stopped: {service.stops > 0}", flush=True)
