"""Videos from bytes to frames: what is sampled, and what becomes of damaged and hostile ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.conversation import video
from paceline.conversation.media import Loader
from paceline.conversation.messages import VideoPart
from paceline.conversation.video import Clip, VideoLimits, decode
from paceline.errors import InvalidRequest
from tests import videos
from tests.lengths import examples
from tests.models.test_vision import picture
from tests.models.test_vision import url as picture_url

LIMITS = VideoLimits()


def refusal(data: bytes, limits: VideoLimits = LIMITS) -> str:
    with pytest.raises(InvalidRequest) as caught:
        decode(data, limits, "here")
    assert caught.value.field == "here"
    return str(caught.value)


@pytest.mark.thin(3)
@pytest.mark.parametrize("kind", ["mkv", "mp4", "avi"])
def test_frames_are_spread_over_the_video_and_know_their_times(kind: str) -> None:
    clip = decode(videos.video(30, 10.0, kind), LIMITS, "here")
    places = [0, 6, 12, 17, 23, 29]  # three seconds, two frames a second
    assert clip.seconds == tuple(place / 10 for place in places)
    for shown, place in zip(clip.frames, places, strict=True):
        expected = videos.frame(place).astype(int)
        assert np.abs(shown.astype(int) - expected).mean() < (0.5 if kind == "mkv" else 12)
    assert clip.times(2) == pytest.approx([0.3, 1.45, 2.6])


@pytest.mark.slow
def test_a_request_says_how_many_frames_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(decode(videos.video(30), LIMITS, "here", fps=4).frames) == 12
    assert len(decode(videos.video(30), LIMITS, "here", fps=0.1).frames) == 4  # a few at least
    assert len(decode(videos.video(30), VideoLimits(frames=8), "here", fps=10).frames) == 8
    assert len(decode(videos.video(1), LIMITS, "here").frames) == 1


@pytest.mark.slow
def test_a_damaged_video_is_refused() -> None:
    whole = videos.video(30, kind="mp4")
    assert "damaged" in refusal(whole[: len(whole) // 2])  # its index is at the end
    assert "damaged" in refusal(b"\x1aE\xdf\xa3" + bytes(200))
    assert "format" in refusal(b"no video at all")
    noise = bytearray(videos.video(30))
    noise[200:] = np.random.default_rng(0).integers(0, 256, len(noise) - 200, dtype=np.uint8).tobytes()
    assert "damaged" in refusal(bytes(noise))


def test_of_a_video_that_breaks_off_the_frames_that_are_there_are_taken() -> None:
    whole = videos.video(60)
    clip = decode(whole[: len(whole) // 2], LIMITS, "here")
    assert 4 <= len(clip.frames) < 12 and clip.seconds[-1] < 4


@settings(max_examples=examples(15))
@given(st.data())
def test_no_bytes_bring_down_the_server(data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(["mkv", "mp4", "avi"]))
    hostile = bytearray(videos.video(12, 10.0, kind))
    for _ in range(data.draw(st.integers(1, 40))):
        hostile[data.draw(st.integers(0, len(hostile) - 1))] = data.draw(st.integers(0, 255))
    try:
        clip = decode(bytes(hostile), LIMITS, "here")
    except InvalidRequest as error:
        assert str(error).startswith("here ")
    else:
        assert 1 <= len(clip.frames) <= LIMITS.frames


def test_a_video_that_is_too_long_or_has_too_many_frames_is_refused() -> None:
    assert "60 seconds long" in refusal(videos.video(120, 2.0), VideoLimits(seconds=30))
    assert "at most 0.05 seconds" in refusal(videos.video(30, 200.0), VideoLimits(seconds=0.05))


@pytest.mark.slow
def test_frames_with_too_many_pixels_are_refused_before_one_is_kept() -> None:
    large = videos.video(2, 10.0, "mkv", 4000, 3000)
    assert "4000 x 3000" in refusal(large, VideoLimits(pixels=1_000_000))


def test_all_frames_together_keep_to_the_limit() -> None:
    clip = decode(videos.video(30), VideoLimits(kept=96 * 64), "here")
    count, height, width, _ = clip.frames.shape
    assert count == 6 and height * width * count <= 96 * 64


def test_a_decoder_that_takes_too_long_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(video, "DECODE_SECONDS", 0.01)
    assert "takes more than" in refusal(videos.video(30))


def test_a_decoder_that_dies_is_a_damaged_video(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    dies = tmp_path / "dies.py"
    dies.write_text("import os; os.kill(os.getpid(), 11)")
    monkeypatch.setattr(video, "DECODER", dies)
    assert "its decoder failed" in refusal(videos.video(30))


@pytest.mark.parametrize(
    "text", ["#EXTM3U\n#EXTINF:1,\nfile:///etc/passwd\n", "ffconcat version 1.0\nfile /etc/passwd\n"]
)
def test_lists_of_other_files_are_no_videos(text: str) -> None:
    assert "format" in refusal(text.encode())


def test_nothing_is_left_on_disk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import tempfile

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    decode(videos.video(30), LIMITS, "here")
    refusal(b"\x1aE\xdf\xa3" + bytes(200))
    assert list(tmp_path.iterdir()) == []


# -- as clients write them


def loaded(part: VideoPart, limits: VideoLimits = LIMITS, **more: object) -> Clip:
    loader = Loader(max_pixels=10**7, max_bytes=10**7, **more)  # type: ignore[arg-type]
    return video.load(part, loader.request(), limits)


def test_frames_by_their_addresses_stand_evenly_apart() -> None:
    urls = tuple(picture_url(picture(place)) for place in (0, 5, 10))
    clip = loaded(VideoPart(urls, "here", frames=True, fps=4))
    assert clip.frames.shape == (3, 64, 96, 3) and clip.seconds == (0, 0.25, 0.5)
    assert clip.times(2) == [0.125, 0.5]
    with pytest.raises(InvalidRequest, match="another size"):
        loaded(VideoPart((urls[0], picture_url(picture(1))), "here", frames=True))
    with pytest.raises(InvalidRequest, match="at most 2"):
        loaded(VideoPart(urls, "here", frames=True), VideoLimits(frames=2))
    with pytest.raises(InvalidRequest, match="together"):
        loaded(VideoPart(urls, "here", frames=True), VideoLimits(kept=10_000))


def test_videos_come_by_the_same_addresses_under_the_same_rules(tmp_path: Path) -> None:
    data = videos.video(30)
    assert len(loaded(VideoPart((videos.url(data),), "here")).frames) == 6
    file = tmp_path / "a.mkv"
    file.write_bytes(data)
    assert len(loaded(VideoPart((file.as_uri(),), "here"), folder=tmp_path).frames) == 6
    for url, words in (
        (file.as_uri(), "local videos are not allowed"),
        ("https://example.org/a.mp4", "remote videos are not allowed"),
        (videos.url(data, "image/png"), "not a video"),
        (videos.url(b""), "empty video"),
        ("a.mp4", "data:video/mp4"),
    ):
        with pytest.raises(InvalidRequest, match=words):
            loaded(VideoPart((url,), "here"))
