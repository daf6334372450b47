"""What requests take before they are sequences: granted in order, bounded, and given back by whoever held it last."""

from __future__ import annotations

import gc
import threading
import time

import numpy as np
import pytest

from paceline.cache.budget import Budget
from paceline.errors import InvalidRequest, QueueTimeout
from paceline.host_memory import HostMemory, RequestMemory, waits_until
from paceline.stats import RequestMemoryStats

WAIT = 60.0


def test_what_never_fits_is_refused_with_both_numbers() -> None:
    memory = HostMemory(100_000_000)
    with pytest.raises(InvalidRequest, match="The picture needs 512 MB .* 100 MB") as caught:
        memory.take(512_000_000, "The picture", "messages[0]")
    assert (caught.value.field, caught.value.code) == ("messages[0]", "memory_limit_exceeded")
    assert (memory.held, memory.waiting) == (0, 0)


def test_grants_wait_for_room_and_come_in_order() -> None:
    memory = HostMemory(10)
    memory.take(10, "x")
    granted: list[int] = []
    enter = threading.Barrier(2)

    def asking(nbytes: int) -> None:
        enter.wait(WAIT)
        memory.take(nbytes, "x")
        granted.append(nbytes)

    threads = []
    for waiting, nbytes in enumerate((8, 2, 1), 1):  # the small ones do not pass the large one
        threads.append(threading.Thread(target=asking, args=(nbytes,)))
        threads[-1].start()
        enter.wait(WAIT)
        while memory.waiting < waiting:
            pass
    memory.give_back(5)
    assert not memory.try_take(1)
    memory.give_back(5)
    threads[0].join(WAIT)
    threads[1].join(WAIT)
    assert set(granted) == {8, 2} and memory.held == 10
    memory.give_back(8)
    threads[2].join(WAIT)
    assert memory.held == 3


def test_who_waits_too_long_is_sent_away_and_holds_nothing() -> None:
    memory = HostMemory(10, timeout=0.0)
    memory.take(10, "x")
    with pytest.raises(QueueTimeout):
        memory.take(1, "The picture")
    assert (memory.held, memory.waiting) == (10, 0)


def test_a_request_that_asks_again_and_again_waits_no_longer_in_all() -> None:
    memory = HostMemory(10, timeout=WAIT)
    with waits_until(time.monotonic() + 0.01):
        memory.take(10, "x")
        with pytest.raises(QueueTimeout):
            memory.take(1, "The picture")
    with pytest.raises(QueueTimeout), waits_until(time.monotonic() - 1):
        raise AssertionError("its time was over before it began")
    assert (memory.held, memory.waiting) == (10, 0)


def test_memory_of_an_array_is_given_back_when_nobody_holds_it() -> None:
    memory = HostMemory(1000)
    patches = np.zeros(100, dtype=np.uint8)
    memory.take(patches.nbytes, "x")
    memory.give_back_with(patches, patches.nbytes)
    other = patches
    del patches
    assert memory.held == 100
    del other
    gc.collect()
    assert memory.held == 0


def test_requests_and_sequences_share_one_budget() -> None:
    budget = Budget(1000)
    budget.hold("weights", 200)
    woken: list[bool] = []
    memory = RequestMemory.of(budget, lambda: woken.append(True), None)
    assert memory.work.limit == memory.media.limit == 200  # a quarter of what the model leaves
    budget.hold("prefixes", 700)
    memory.media.take(150, "x")
    assert budget.held()["request media"] == 150 and woken  # prefixes have to go
    budget.hold("prefixes", 0)
    budget.hold("sequences", 640)
    assert not memory.media.try_take(20)  # sequences have the rest
    assert memory.work.try_take(20)  # but one piece of work always gets on
    memory.work.give_back(20)
    budget.hold("sequences", 100)
    assert memory.media.try_take(20)
    assert memory.stats() == RequestMemoryStats(limit_bytes=200, media_bytes=170, work_bytes=0, waiting=0)
