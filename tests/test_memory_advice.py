from __future__ import annotations

import logging

import pytest

from paceline.memory_advice import machine_memory, warn_of_limit, warn_of_prefixes
from paceline.settings import Settings


def test_a_limit_above_the_machines_memory_is_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    memory = machine_memory()
    assert 100_000_000 < memory < 10**15
    with caplog.at_level(logging.INFO):
        for limit in (None, memory / 2e9):
            warn_of_limit(Settings(memory_limit_gb=limit), memory)
        assert caplog.messages == []
        warn_of_limit(Settings(memory_limit_gb=999), 16_000_000_000)
    assert caplog.messages == ["--memory-limit-gb 999 is above this machine's memory, 16.00 GB"]
    assert caplog.records[0].levelname == "WARNING"


def test_a_prefix_cache_that_gets_less_than_was_asked_is_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        for asked in (None, 2.0):
            warn_of_prefixes(Settings(cache_memory_gb=asked), 2_000_000_000)
        assert caplog.messages == []
        warn_of_prefixes(Settings(cache_memory_gb=50), 1_500_000_000)
    assert caplog.messages == ["--cache-memory-gb 50 is more than the memory that is left: prefixes get up to 1.50 GB"]
