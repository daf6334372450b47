from __future__ import annotations

import sys

import pytest

from paceline.bench.local_fleet import find_smg, replica, router
from paceline.bench.wire import Address, BenchError


def test_a_program_that_is_named_has_to_be_there() -> None:
    assert find_smg(sys.executable) == sys.executable
    with pytest.raises(BenchError, match="pip install smg"):
        find_smg("no-such-program")


def test_commands_name_what_they_start() -> None:
    assert replica("folder").command[3:] == ["serve", "folder", "--log-level", "warning"]
    assert replica(None).command[3:5] == ["serve", "--log-level"]
    replicas = [Address.parse("http://a:1"), Address.parse("http://b:2")]
    command = router("smg", replicas, "cache_aware", ["--more"]).command
    assert command[:2] == ["smg", "launch"] and command[-1] == "--more"
    place = command.index("--worker-urls")
    assert command[place + 1 : place + 3] == ["http://a:1", "http://b:2"]
