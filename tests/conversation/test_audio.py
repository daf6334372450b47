"""WAV files become mono samples at the model's rate, and hostile ones a message."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from paceline.conversation.audio import EXTENSIBLE, FLOAT, PCM, EncodedAudio, resampled
from paceline.errors import InvalidRequest

RATE = 16_000


def tone(hertz: float, seconds: float, rate: int = RATE) -> NDArray[np.float32]:
    wave = 0.5 * np.sin(2 * np.pi * hertz * np.arange(int(seconds * rate)) / rate)
    return wave.astype(np.float32)


def wav(samples: bytes, bits: int = 16, channels: int = 1, rate: int = RATE, encoding: int = PCM) -> bytes:
    block = channels * bits // 8
    form = struct.pack("<HHIIHH", encoding, channels, rate, rate * block % (1 << 32), block % (1 << 16), bits)
    return riff((b"fmt ", form), (b"data", samples))


def riff(*chunks: tuple[bytes, bytes]) -> bytes:
    body = b"".join(name + struct.pack("<I", len(data)) + data + b"\0" * (len(data) % 2) for name, data in chunks)
    return b"RIFF" + struct.pack("<I", len(body) + 4) + b"WAVE" + body


def sixteen_bits(samples: NDArray[np.float32]) -> bytes:
    return (samples * 32767).round().astype("<i2").tobytes()


def opened(data: bytes, seconds: float = 30) -> EncodedAudio:
    return EncodedAudio.of(data, seconds, "audio")


def refused(data: bytes, seconds: float = 30) -> str:
    with pytest.raises(InvalidRequest) as caught:
        opened(data, seconds).decode(RATE)
    assert caught.value.field == "audio"
    return str(caught.value)


def test_every_form_of_samples_gives_the_same_sound() -> None:
    sound = tone(440, 0.1)
    wide = (sound.astype(np.float64) * (2**31 - 1)).round().astype("<i4")
    forms = {
        (16, PCM): sixteen_bits(sound),
        (8, PCM): (sound * 127 + 128).round().astype("u1").tobytes(),
        (24, PCM): wide.view("u1").reshape(-1, 4)[:, 1:].tobytes(),
        (32, PCM): wide.tobytes(),
        (32, FLOAT): sound.astype("<f4").tobytes(),
        (64, FLOAT): sound.astype("<f8").tobytes(),
    }
    for (bits, encoding), data in forms.items():
        found = opened(wav(data, bits, encoding=encoding)).decode(RATE)
        assert found.dtype == np.float32 and found.shape == sound.shape
        assert np.abs(found - sound).max() < (0.02 if bits == 8 else 1e-4), bits


def test_channels_are_averaged() -> None:
    left, right = tone(440, 0.1), tone(300, 0.1)
    found = opened(wav(sixteen_bits(np.stack([left, right], axis=1)), channels=2)).decode(RATE)
    assert np.abs(found - (left + right) / 2).max() < 1e-4


def test_another_chunk_before_the_samples_and_the_extensible_form_are_read() -> None:
    sound = tone(440, 0.1)
    form = (
        struct.pack("<HHIIHH", EXTENSIBLE, 1, RATE, RATE * 2, 2, 16) + struct.pack("<HHIH", 22, 16, 4, PCM) + b"\0" * 14
    )
    found = opened(riff((b"LIST", b"odd"), (b"fmt ", form), (b"data", sixteen_bits(sound)))).decode(RATE)
    assert np.abs(found - sound).max() < 1e-4


@pytest.mark.parametrize("rate", [8_000, 22_050, 44_100, 48_000])
def test_another_rate_gives_the_same_sound(rate: int) -> None:
    found = opened(wav(sixteen_bits(tone(440, 0.5, rate)), rate=rate)).decode(RATE)
    wanted = tone(440, 0.5)
    assert abs(len(found) - len(wanted)) <= 1
    inner = slice(800, 7000)  # a tone that stops in the middle of a wave rings at its ends
    assert np.abs(found[inner] - wanted[inner]).max() < 0.01


def test_frequencies_that_the_rate_cannot_hold_do_not_fold_back() -> None:
    found = resampled(tone(11_000, 0.5, 48_000), 48_000, RATE)
    assert np.abs(found[800:7000]).max() < 0.01


def test_a_long_recording_is_refused_by_its_header() -> None:
    assert "2.0 seconds long, and at most 1.5 are allowed" in refused(wav(bytes(4 * RATE)), 1.5)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "not a WAV file"),
        (b"OggS" + bytes(50), "it is Ogg"),
        (b"RIFF\0\0\0\0WAVE", "no format"),
        (riff((b"data", bytes(10))), "before their format"),
        (riff((b"fmt ", bytes(8)), (b"data", bytes(10))), "less than 16 bytes"),
        (riff((b"fmt ", bytes(16))), "no samples"),
        (wav(b""), "no samples"),
        (riff(*[(b"note", b"")] * 100_000, (b"fmt ", bytes(16))), "no format"),
        (wav(bytes(100), channels=0), "0 channels"),
        (wav(bytes(100), channels=9), "9 channels"),
        (wav(bytes(100), rate=0), "0 samples a second"),
        (wav(bytes(100), rate=4_000_000_000), "4000000000 samples a second"),
        (wav(bytes(100), bits=12), "of another form"),
        (wav(bytes(100), encoding=85), "of another form"),
        (wav(bytes(100))[:-40], "promises 100 bytes where 60 are left"),
        (b"RIFF\0\0\0\0WAVEfmt \xff\xff\xff\xff" + bytes(50), "promises 4294967295 bytes"),
        (riff((b"fmt ", struct.pack("<HHIIHH", PCM, 2, RATE, 0, 7, 16)), (b"data", bytes(70))), "do not have 7 bytes"),
        (wav(np.array([np.nan, 1], "<f4").tobytes(), 32, encoding=FLOAT), "no numbers"),
    ],
)
def test_hostile_bytes_are_refused(data: bytes, why: str) -> None:
    assert why in refused(data)


def test_loud_floats_are_clipped() -> None:
    data = wav(np.array([1e30, -1e30, 0.5], "<f4").tobytes(), 32, encoding=FLOAT)
    assert opened(data).decode(RATE).tolist() == [1, -1, 0.5]


@given(st.binary(max_size=120), st.integers(0, 44))
def test_any_bytes_are_samples_or_a_message(noise: bytes, at: int) -> None:
    data = wav(bytes(80))
    damaged = data[:at] + noise + data[at + len(noise) :]
    try:
        found = opened(damaged).decode(RATE)
    except InvalidRequest:
        return
    assert np.isfinite(found).all() and np.abs(found).max() <= 8
