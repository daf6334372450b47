"""In processes of their own, which end."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from paceline.ranks.leaving import LOST
from tests.waiting import WAIT

HOLD = "import ctypes, time; from paceline.ranks.leaving import *; pulse = end_if_held_up(0.3); pulse(True);"
HELD_UP = "ctypes.PyDLL(None).sleep(1000)"  # a call that keeps the interpreter to itself


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=WAIT)


def test_a_process_whose_threads_cannot_run_is_ended_with_a_traceback() -> None:
    ended = run(f"{HOLD} {HELD_UP}")
    assert ended.returncode == -signal.SIGALRM
    assert 'File "<string>", line 1 in <module>' in ended.stderr


@pytest.mark.parametrize("last", ["pulse(False)", "pulse(False); pulse(True); pulse(False)"])
def test_a_pulse_that_was_ended_ends_nothing(last: str) -> None:
    assert run(f"{HOLD} {last}; ctypes.PyDLL(None).sleep(1); leave({LOST})").returncode == LOST
