"""How a front and its models' processes are started."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence

from paceline import preflight
from paceline.front.catalog import Catalog
from paceline.front.machine import machine
from paceline.front.pool import Pool
from paceline.server.state import Backend
from paceline.setting_sources import ModelTable
from paceline.settings import Settings

CONTROL = 0  # standard input


def serve(settings: Settings, tables: Sequence[ModelTable]) -> None:
    """A front until a signal. What is wrong with the given models' settings and files is said at once."""
    from paceline.front import app

    catalog = Catalog(settings, tables)
    for entry in catalog.entries():
        if entry.given:
            preflight.check(entry.settings)
    app.run(Pool(catalog, settings, machine(settings)), settings)


def work(listener: int, prepare: Callable[[Settings], None]) -> None:
    """A model's process, which was given its listening socket and, as standard input, a socket to the front."""
    from paceline.front import worker

    def make(settings: Settings, progress: Callable[[str, int, int], None]) -> Backend:
        from paceline.service import Service

        return Service(settings, progress)

    worker.run(socket.socket(fileno=listener), socket.socket(fileno=CONTROL), prepare, make)
