"""`paceline` and `python -m paceline`. Signals while the commands are imported end the process with one line."""

from __future__ import annotations

import os
import signal
import sys


def main() -> None:
    serves = sys.argv[1:2] == ["serve"]

    def leave(*_: object) -> None:
        os.write(2, b"paceline: stopped\n" if serves else b"Aborted.\n")
        os._exit(0 if serves else 128 + signal.SIGINT)

    signal.signal(signal.SIGINT, leave)
    if serves:  # until it has handlers of its own
        signal.signal(signal.SIGTERM, leave)
    from paceline.cli import main as run

    if not serves:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        run()
    except KeyboardInterrupt:  # while the commands were put together: inside a command it is handled
        leave()


if __name__ == "__main__":
    main()
