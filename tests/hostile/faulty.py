"""`paceline` with an engine that can be broken: `python -m tests.hostile.faulty serve ...`.

A line on its standard input breaks a method of the runner, once or from then on: `once decode`, `always decode`.
"""

from __future__ import annotations

import sys
import threading
from typing import Any

from paceline import cli, service


class Faulty(service.Service):
    async def start(self) -> None:
        await super().start()
        threading.Thread(target=self._obey, daemon=True).start()

    def _obey(self) -> None:
        for line in sys.stdin:
            how, name = line.split()
            self._break(name, always=how == "always")

    def _break(self, name: str, always: bool) -> None:
        assert self._runtime is not None
        runner = self._runtime.engine.core.runner
        whole = getattr(runner, name)

        def broken(*arguments: Any, **named: Any) -> Any:
            if not always:
                setattr(runner, name, whole)
            raise RuntimeError("the device is gone" if always else "the device stumbled")

        setattr(runner, name, broken)


if __name__ == "__main__":
    service.Service = Faulty  # type: ignore[misc]
    cli.main()
