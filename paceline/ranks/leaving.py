"""How a rank ends: with a code that a supervisor can act on, whatever its threads do."""

from __future__ import annotations

import contextlib
import faulthandler
import logging
import os
import signal
import sys
from collections.abc import Callable
from typing import NoReturn

LOST = 70  # another rank is gone: start all ranks again
DONE = 0
HELD_UP = 3  # timeouts that no thread may run


def end_if_held_up(seconds: float) -> Callable[[bool], None]:
    """A pulse: if it stops for so long, some call lets no thread run. Then the process is ended by SIGALRM, after a
    traceback: the kernel needs none of its threads for that, and no exit code can be chosen without one."""
    faulthandler.register(signal.SIGALRM, chain=True)

    def pulse(beats: bool) -> None:
        signal.setitimer(signal.ITIMER_REAL, seconds if beats else 0)

    return pulse


def leave(code: int) -> NoReturn:
    """End the process now, whatever its threads do: one that waits in a collective can be ended in no other way."""
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):  # its reader may be gone
            stream.flush()
    os._exit(code)
