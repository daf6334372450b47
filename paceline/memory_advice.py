"""Warnings about limits of memory that cannot be kept as they were set."""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING

from paceline import platform

if TYPE_CHECKING:
    from paceline.settings import Settings

log = logging.getLogger("paceline")


def machine_memory() -> int:
    """All that the device has, in bytes, whoever uses it now."""
    name = {"cuda": "total_memory", "metal": "memory_size"}.get(platform.device_kind(), "")
    size = platform.device_info().get(name) if name else None
    return size if isinstance(size, int) and size > 0 else os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def warn_of_limit(settings: Settings, memory: int) -> None:
    """Not refused: what a Mac gives its GPU can be raised."""
    asked = settings.memory_limit_gb
    if asked is not None and asked * 1e9 > memory:
        log.warning("--memory-limit-gb %g is above this machine's memory, %.2f GB", asked, memory / 1e9)


def warn_of_prefixes(settings: Settings, room: int) -> None:
    """`room`: the bytes that prefixes may really take now."""
    asked = settings.cache_memory_gb
    if asked is not None and asked * 1e9 > room:
        log.warning(
            "--cache-memory-gb %g is more than the memory that is left: prefixes get up to %.2f GB", asked, room / 1e9
        )
