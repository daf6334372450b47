"""The process that decodes videos."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from paceline.conversation import video
from paceline.conversation.video_decoder import chosen
from tests import videos


@given(
    count=st.integers(1, 100_000),
    rate=st.floats(0.1, 240),
    fps=st.floats(0.01, 240),
    most=st.integers(1, 1000),
)
def test_what_is_chosen_is_rising_inside_the_video_and_bounded(count: int, rate: float, fps: float, most: int) -> None:
    places = chosen(count, rate, fps, most)
    assert places == sorted(set(places)) and places[0] == 0 and places[-1] < count
    assert len(places) <= min(most, count) and (len(places) == 1 or len(places) % 2 == 0)


def test_the_decoder_needs_nothing_of_the_server(tmp_path: Path) -> None:
    """It is run by its path, isolated, wherever the package is installed."""
    file = tmp_path / "video"
    file.write_bytes(videos.video(30))
    asked = {"fps": 2, "frames": 8, "seconds": 60, "pixels": 10**6, "kept": 10**6, "memory": 2**30}
    command = [sys.executable, "-I", str(video.DECODER), str(file), json.dumps(asked)]
    done = subprocess.run(command, capture_output=True, env={"PATH": os.environ["PATH"]}, cwd=tmp_path, check=True)
    assert json.loads(done.stdout.partition(b"\n")[0])["shape"] == [6, 64, 96]
