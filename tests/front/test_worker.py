from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path

from paceline.settings import Settings
from tests.waiting import WAIT


def started(tmp_path: Path, name: str = "a") -> tuple[subprocess.Popen[bytes], socket.socket]:
    ours, theirs = socket.socketpair()
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(tmp_path / "s"))
    listener.listen()
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.front.fake_worker", str(listener.fileno()), name],
        stdin=theirs.fileno(),
        stderr=subprocess.DEVNULL,
        pass_fds=(listener.fileno(),),
    )
    theirs.close()
    listener.close()
    return process, ours


def give_settings(control: socket.socket, **settings: object) -> None:
    given = Settings.model_validate({"model": "m", **settings})
    control.sendall(given.model_dump_json(include=given.model_fields_set).encode() + b"\n")


def test_a_worker_tells_how_its_load_goes_and_leaves_when_it_is_told_to_and_idle(tmp_path: Path) -> None:
    process, control = started(tmp_path)
    control.settimeout(WAIT)
    give_settings(control, chat_template="/x", served_model_name=["a", "b"])
    lines = control.makefile("rb")
    assert json.loads(lines.readline()) == {"progress": ["reading weights", 1, 2]}
    assert json.loads(lines.readline()) == {"loaded": True}
    control.sendall(b'{"do": "leave"}\n')
    assert json.loads(lines.readline()) == {"leaving": True}
    assert process.wait(WAIT) == 0
    lines.close()
    control.close()


def test_a_worker_ends_with_its_front_also_while_it_loads(tmp_path: Path) -> None:
    process, control = started(tmp_path, "slow")
    give_settings(control)
    control.recv(4096)
    control.close()
    assert process.wait(WAIT) == 0


def test_a_worker_that_cannot_load_says_why(tmp_path: Path) -> None:
    process, control = started(tmp_path, "fails")
    control.settimeout(WAIT)
    give_settings(control)
    lines = control.makefile("rb")
    said = [json.loads(line) for line in lines]
    assert {"failed": "its weights are damaged"} in said
    assert process.wait(WAIT) != 0
    lines.close()
    control.close()
