"""Audio: from a WAV file's bytes to mono samples at the model's rate. Hostile bytes end in `InvalidRequest`.

WAV is read here, in numpy: libraries for compressed formats are C code, which reads no client's bytes in this process
(`compressed_audio`).
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from paceline.errors import InvalidRequest

Samples = NDArray[np.float32]
MAX_CLIPS = 8  # of a request
MAX_CHANNELS = 8
MAX_CHUNKS = 64  # before the samples: some programs write notes there
RATES = (4_000, 192_000)  # samples a second
SAMPLE_BYTES = 64  # memory per sample while it is decoded and resampled
PCM, FLOAT, EXTENSIBLE = 1, 3, 0xFFFE
FORMATS = "16-bit PCM, or PCM of 8, 24 or 32 bits, or floats of 32 or 64 bits"
# What else files begin with: the message can name it.
OTHERS = ((b"OggS", "Ogg"), (b"#!AMR", "AMR"), (b"\x1aE\xdf\xa3", "WebM"))


@dataclass(frozen=True, slots=True)
class EncodedAudio:
    """A WAV file whose header was read and believed as far as its bytes reach."""

    data: memoryview  # of the samples
    encoding: int
    bits: int
    channels: int
    rate: int
    field: str

    @classmethod
    def of(cls, data: bytes, max_seconds: float, field: str) -> EncodedAudio:
        if data[:4] != b"RIFF" or data[8:12] != b"WAVE":
            named = next((f": it is {name}" for start, name in OTHERS if data.startswith(start)), "")
            raise InvalidRequest.at(field, f"is not a WAV file{named}. WAV, MP3 and FLAC are read here.")
        form, samples = _chunks(data, field)
        if len(form) < 16:
            raise _damaged(field, "its format has less than 16 bytes")
        encoding, channels, rate, _, block, bits = struct.unpack_from("<HHIIHH", form)
        if encoding == EXTENSIBLE and len(form) >= 26:
            encoding = struct.unpack_from("<H", form, 24)[0]
        if (encoding, bits) not in _TYPES:
            raise InvalidRequest.at(field, f"has samples of another form than {FORMATS}.")
        if not 1 <= channels <= MAX_CHANNELS:
            raise _damaged(field, f"it has {channels} channels, and may have 1 to {MAX_CHANNELS}")
        if not RATES[0] <= rate <= RATES[1]:
            raise _damaged(field, f"it has {rate} samples a second, and may have {RATES[0]} to {RATES[1]}")
        if block != channels * bits // 8:
            raise _damaged(field, f"{channels} samples of {bits} bits do not have {block} bytes")
        found = cls(samples[: len(samples) // block * block], encoding, bits, channels, rate, field)
        if not found.samples:
            raise InvalidRequest.at(field, "has no samples.")
        if found.seconds > max_seconds:
            raise InvalidRequest.at(
                field, f"is {found.seconds:.1f} seconds long, and at most {max_seconds:g} are allowed."
            )
        return found

    @property
    def samples(self) -> int:
        """Of each channel."""
        return len(self.data) // (self.channels * self.bits // 8)

    @property
    def seconds(self) -> float:
        return self.samples / self.rate

    @property
    def decoding_bytes(self) -> int:
        """Memory that `decode` takes, with its result."""
        return SAMPLE_BYTES * (self.samples + self.rate) + 8 * self.samples * self.channels

    def decode(self, rate: int) -> Samples:
        """The mean of the channels, at this rate."""
        kind, zero, full = _TYPES[self.encoding, self.bits]
        if self.bits == 24:
            bytes = np.frombuffer(self.data, np.uint8).reshape(-1, 3)
            wide = np.zeros((len(bytes), 4), np.uint8)
            wide[:, 1:] = bytes  # the upper three of four: the sign comes with them
            values = wide.view("<i4")[:, 0]
        else:
            values = np.frombuffer(self.data, kind)
        mono = ((values.astype(np.float32) - zero) / full).reshape(-1, self.channels).mean(axis=1, dtype=np.float32)
        if not np.isfinite(mono).all():
            raise _damaged(self.field, "it has samples that are no numbers")
        return resampled(mono.clip(-1, 1), self.rate, rate)


# Number type, value of silence, and of the loudest sample, by encoding and bits.
_TYPES: dict[tuple[int, int], tuple[str, float, float]] = {
    (PCM, 8): ("u1", 128, 128),
    (PCM, 16): ("<i2", 0, 1 << 15),
    (PCM, 24): ("<i4", 0, 1 << 31),
    (PCM, 32): ("<i4", 0, 1 << 31),
    (FLOAT, 32): ("<f4", 0, 1),
    (FLOAT, 64): ("<f8", 0, 1),
}


def resampled(samples: Samples, rate: int, wanted: int) -> Samples:
    """Frequencies that the new rate cannot hold are cut off."""
    if rate == wanted:
        return samples
    shared = math.gcd(rate, wanted)
    whole = -(-len(samples) // (rate // shared))  # in steps after which both rates have a sample
    before, after = whole * (rate // shared), whole * (wanted // shared)
    spectrum = np.fft.rfft(samples, before)[: after // 2 + 1]
    count = math.ceil(len(samples) * wanted / rate)
    return (np.fft.irfft(spectrum, after)[:count] * (after / before)).astype(np.float32)


def _chunks(data: bytes, field: str) -> tuple[memoryview, memoryview]:
    """The chunks with the format and with the samples."""
    view, place = memoryview(data), 12
    form: memoryview | None = None
    for _ in range(MAX_CHUNKS):
        if place + 8 > len(data):
            break
        name, size = data[place : place + 4], struct.unpack_from("<I", data, place + 4)[0]
        here = place + 8
        if size > len(data) - here:
            raise _damaged(field, f"its header promises {size} bytes where {len(data) - here} are left")
        if name == b"fmt ":
            form = view[here : here + size]
        elif name == b"data":
            if form is None:
                raise _damaged(field, "its samples come before their format")
            return form, view[here : here + size]
        place = here + size + size % 2
    raise _damaged(field, "it has no samples" if form is not None else "it has no format")


def _damaged(field: str, why: str) -> InvalidRequest:
    return InvalidRequest.at(field, f"is a damaged WAV file: {why}.")
