from __future__ import annotations

import pytest

from benchmarks.start import Start, measure, phases_of


def test_the_phases_are_read_off_the_log() -> None:
    log = (
        "12:00:01 INFO paceline: BLAS\n12:00:02 INFO paceline: the engine started in 2.5 s: imports 1.5, warm-up 1.0\n"
    )
    assert phases_of(log) == (2.5, {"imports": 1.5, "warm-up": 1.0})
    with pytest.raises(ValueError, match="does not say"):
        phases_of("nothing of it")


def test_a_start_is_one_line() -> None:
    assert Start(3.14, 2.0, 2.5, {"imports": 1.5}).line() == (
        "ready after 3.1 s, 2.0 s of processor; engine 2.5 s: imports 1.5"
    )


@pytest.mark.slow
async def test_the_real_command_is_started_and_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")
    (found,) = await measure(None, ["--max-num-seqs", "4"], 1)
    assert {"imports", "weights", "layout", "checks", "memory", "warm-up"} <= set(found.phases)
    assert found.ready > 0 and found.processor > 0
