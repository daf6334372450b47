"""MP3 and FLAC, where the machine has ffmpeg. It runs in a process of its own, with limits on time, memory and output:
decoders are large, written in C, and read hostile bytes."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
from threading import BoundedSemaphore

from paceline.errors import InvalidRequest

FORMATS = ("mp3", "flac")
RATE = 48_000  # samples a second
MEMORY = 256 << 20  # bytes, of the process that decodes
SECONDS = 30.0  # that it may take
MAX_DECODERS = 2  # at a time, beside the engine
_LIMITED = 'ulimit -d "$0" 2> /dev/null; exec nice -n 10 "$@"'

_decoders = BoundedSemaphore(MAX_DECODERS)


def format_of(data: bytes) -> str | None:
    """By its first bytes, so that ffmpeg never guesses: it would follow playlists."""
    if data.startswith(b"fLaC"):
        return "flac"
    frame = len(data) > 1 and data[0] == 0xFF and data[1] & 0xE6 == 0xE2  # MPEG, layer III
    return "mp3" if frame or data.startswith(b"ID3") else None


def as_wav(data: bytes, format: str, max_seconds: float, field: str) -> bytes:
    """A WAV file of one channel. Of a recording that is too long, a little more than `max_seconds`."""
    ffmpeg = shutil.which("ffmpeg")
    name = format.upper()
    if ffmpeg is None:
        raise InvalidRequest.at(field, f"is {name}, for which this server needs ffmpeg. Send WAV.")
    source = ["-protocol_whitelist", "pipe", "-f", format, "-threads", "1", "-i", "pipe:0"]
    wanted = ["-map", "0:a:0", "-t", f"{max_seconds + 1:.3f}", "-ac", "1", "-ar", str(RATE), "-f", "s16le", "pipe:1"]
    command = ["/bin/sh", "-c", _LIMITED, str(MEMORY >> 10), ffmpeg, "-nostdin", "-v", "quiet", *source, *wanted]
    kept = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ}
    try:
        with _decoders:
            done = subprocess.run(command, input=data, capture_output=True, env=kept, timeout=SECONDS, check=True)
    except subprocess.TimeoutExpired:
        raise InvalidRequest.at(field, f"takes more than {SECONDS:g} seconds to decode.") from None
    except (subprocess.CalledProcessError, OSError):
        raise InvalidRequest.at(field, f"is a damaged {name} file.") from None
    samples = done.stdout
    form = struct.pack("<HHIIHH", 1, 1, RATE, 2 * RATE, 2, 16)
    return b"".join(
        (b"RIFF", struct.pack("<I", 36 + len(samples)), b"WAVEfmt ", struct.pack("<I", 16), form)
        + (b"data", struct.pack("<I", len(samples)), samples)
    )
