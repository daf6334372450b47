from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from paceline.conversation import compressed_audio
from paceline.conversation.audio import EncodedAudio
from paceline.conversation.compressed_audio import FORMATS, as_wav, format_of
from paceline.errors import InvalidRequest
from tests.conversation.test_audio import RATE, tone, wav

needs_ffmpeg = pytest.mark.skipif(shutil.which("ffmpeg") is None, reason="needs ffmpeg")


def encoded(format: str, seconds: float) -> bytes:
    source = wav((tone(440, seconds) * 32767).astype("<i2").tobytes())
    codec = ["-c:a", "libmp3lame"] if format == "mp3" else []
    command = ["ffmpeg", "-v", "error", "-i", "pipe:0", *codec, "-f", format, "pipe:1"]
    return subprocess.run(command, input=source, capture_output=True, check=True).stdout


@needs_ffmpeg
@pytest.mark.parametrize("format", FORMATS)
def test_the_samples_are_those_that_were_compressed(format: str) -> None:
    data = encoded(format, 1.0)
    assert format_of(data) == format
    found = EncodedAudio.of(as_wav(data, format, 30.0, "here"), 30.0, "here")
    assert found.seconds == pytest.approx(1.0, abs=0.1)
    samples, wanted = found.decode(RATE), tone(440, 1.0)
    middle = slice(4000, 12000)
    loudest = [int(np.abs(np.fft.rfft(values[middle])).argmax()) for values in (samples, wanted)]
    assert loudest[0] == loudest[1]
    assert float(np.std(samples[middle])) == pytest.approx(float(np.std(wanted[middle])), rel=0.1)


@needs_ffmpeg
def test_a_long_recording_is_refused_and_not_decoded_to_its_end() -> None:
    long = as_wav(encoded("flac", 8.0), "flac", 2.0, "here")
    assert len(long) < 3.1 * 2 * compressed_audio.RATE
    with pytest.raises(InvalidRequest, match=r"3\.0 seconds long, and at most 2 are allowed"):
        EncodedAudio.of(long, 2.0, "here")


@needs_ffmpeg
@pytest.mark.parametrize("data", [b"fLaC" + bytes(500), b"ID3" + bytes(500), b"\xff\xfb" + bytes(500)])
def test_hostile_bytes_are_refused(data: bytes) -> None:
    found = format_of(data)
    assert found is not None
    with pytest.raises(InvalidRequest, match="is a damaged|has no samples") as caught:
        EncodedAudio.of(as_wav(data, found, 30.0, "here"), 30.0, "here")
    assert caught.value.field == "here"


@needs_ffmpeg
def test_a_decoder_that_takes_too_long_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compressed_audio, "SECONDS", 0.0)
    with pytest.raises(InvalidRequest, match="takes more than 0 seconds"):
        as_wav(b"fLaC" + bytes(500), "flac", 30.0, "here")


def test_without_ffmpeg_the_refusal_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InvalidRequest, match="here is FLAC, for which this server needs ffmpeg"):
        as_wav(b"fLaC" + bytes(500), "flac", 30.0, "here")


@pytest.mark.parametrize("data", [b"", b"\xff", b"RIFF", b"OggS", b"#EXTM3U\nfile:///etc/passwd", b"\xff\xd8\xff\xe0"])
def test_nothing_else_is_given_to_the_decoder(data: bytes) -> None:
    assert format_of(data) is None
