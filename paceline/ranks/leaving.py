"""How a rank ends: with a code that a supervisor can act on, whatever its threads do."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from typing import NoReturn

LOST = 70  # another rank is gone: start all ranks again
DONE = 0


def leave(code: int) -> NoReturn:
    """At once: a thread that waits inside a collective can be ended in no other way."""
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):  # its reader may be gone
            stream.flush()
    os._exit(code)
