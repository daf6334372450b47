"""Images: from the address that a client writes to upright RGB. Hostile bytes end in `InvalidRequest`.

Pillow decodes. The code here is what Pillow and mlx-vlm's `load_image` leave open: which addresses and files may be
read, limits on bytes and pixels before anything is decoded, and calls short enough not to hold up other threads.
Videos and audio come by the same addresses under the same rules; `conversation/video` and `audio` decode them.
"""

from __future__ import annotations

import base64
import binascii
import io
import math
import os
import re
import stat
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import unquote, unquote_to_bytes, urlsplit

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError, features

from paceline.conversation.remote import KINDS, Fetcher
from paceline.errors import InvalidRequest
from paceline.settings import Settings

# Pillow reads many more formats; some start other programs (EPS) or are rarely tested against attacks.
FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF", *(("AVIF",) if features.check("avif") else ()))

Kind = Literal["image", "video", "audio"]
EXAMPLES: dict[Kind, str] = {"image": "image/png", "video": "video/mp4", "audio": "audio/wav"}
PLURALS: dict[Kind, str] = {"image": "images", "video": "videos", "audio": "audio"}
PIECE = 1 << 20  # characters of an address that are decoded in one call
STRIP = 1 << 18  # pixels that are composed in one call
LARGE = 1 << 24  # pixels; image processors scale every image below this

# Our limit is stricter and is reported to the client; Pillow's warning would be a line on the terminal.
warnings.filterwarnings("ignore", category=Image.DecompressionBombWarning)


@dataclass(slots=True, kw_only=True)
class Loader:
    """Loads media by address: `data:` always, http(s) with `fetcher`, `file:` with `folder`. Thread-safe."""

    max_pixels: int
    max_bytes: int
    fetcher: Fetcher | None = None
    seconds: float = 10.0
    folder: Path | None = None

    @classmethod
    def of(cls, settings: Settings) -> Loader:
        return cls(
            max_pixels=settings.max_image_pixels,
            max_bytes=settings.max_body_mb << 20,
            fetcher=Fetcher(hosts=settings.media_allowed_host) if settings.allow_remote_media else None,
            seconds=settings.media_timeout_seconds,
            folder=settings.media_dir,
        )

    def request(self) -> Loading:
        return Loading(self)


class Loading:
    """The media of one request, which share one limit on time and one on bytes."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader
        self._bytes_left = loader.max_bytes
        self._seconds_left = loader.seconds

    def open(self, url: str, field: str) -> EncodedImage:
        """The image at the address, not decoded yet. `field` is named in every error."""
        return EncodedImage.of(self.bytes_of(url, field), self._loader.max_pixels, field)

    def load(self, url: str, field: str) -> Image.Image:
        return self.open(url, field).decode()

    def bytes_of(self, url: str, field: str, kind: Kind = "image") -> bytes:
        """The bytes at the address."""
        data = self._data(url, field, kind)
        if not data:
            raise InvalidRequest.at(field, f"is an empty {kind}.")
        return data

    def _data(self, url: str, field: str, kind: Kind) -> bytes:
        scheme, _, rest = url.partition(":")
        loader = self._loader
        match scheme.strip().lower() if rest else "":
            case "data":
                return _in_data_url(rest, loader.max_bytes, field, kind)
            case "http" | "https" if loader.fetcher is not None:
                return self._fetched(loader.fetcher, url.strip(), field, kind)
            case "http" | "https":
                raise InvalidRequest.at(
                    field,
                    f"is a remote address; remote {PLURALS[kind]} are not allowed: send it as a data: URL "
                    "(the server's --allow-remote-media allows them).",
                )
            case "file" if loader.folder is not None:
                data = _read_under(loader.folder, url.strip(), self._bytes_left, field)
                self._bytes_left -= len(data)
                return data
            case "file":
                raise InvalidRequest.at(
                    field,
                    f"is a local address; local {PLURALS[kind]} are not allowed: send it as a data: URL "
                    "(the server's --media-dir allows those under a folder).",
                )
            case _:
                raise InvalidRequest.at(field, f"must be a data: URL, as in data:{EXAMPLES[kind]};base64,...")

    def _fetched(self, fetcher: Fetcher, url: str, field: str, kind: Kind) -> bytes:
        began = time.monotonic()
        data = fetcher.fetch(url, self._bytes_left, began + self._seconds_left, field=field, kind=kind)
        self._seconds_left -= time.monotonic() - began
        self._bytes_left -= len(data)
        return data


@dataclass(frozen=True, slots=True)
class EncodedImage:
    """An image that is not decoded. Its size comes from its header."""

    data: bytes
    width: int
    height: int
    deep: bool  # more than eight bits a channel
    field: str

    @classmethod
    def of(cls, data: bytes, max_pixels: int, field: str) -> EncodedImage:
        with _readable(field, max_pixels), Image.open(io.BytesIO(data), formats=FORMATS) as image:
            if image.width * image.height > max_pixels:
                raise _too_many_pixels(field, f"has {image.width} x {image.height} pixels", max_pixels)
            return cls(data, image.width, image.height, image.mode[:1] in ("I", "F"), field)

    @property
    def pixels(self) -> int:
        return self.width * self.height

    @property
    def decoding_bytes(self) -> int:
        """Memory that `decode` takes, with its result: Pillow has four bytes per pixel, twice while it converts."""
        return len(self.data) + 9 * self.pixels + (24 * min(self.pixels, LARGE) if self.deep else 0)

    def decode(self) -> Image.Image:
        """The first frame as upright RGB, transparency on white. A very large image is scaled down."""
        with _readable(self.field), Image.open(io.BytesIO(self.data), formats=FORMATS) as image:
            image.load()
            return _on_white(_eight_bit(_upright(_reduced(image))))


@contextmanager
def _readable(field: str, max_pixels: int = 0) -> Iterator[None]:
    """Turns Pillow's errors into InvalidRequest."""
    try:
        yield
    except InvalidRequest:
        raise
    except UnidentifiedImageError as error:
        known = ", ".join(FORMATS)
        raise InvalidRequest.at(field, f"is not an image in a format that is read here ({known}).") from error
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        count = re.search(r"\d+", str(error))  # Pillow's own limit comes first, and names no width and height
        raise _too_many_pixels(field, f"has {count[0] if count else 'far more'} pixels", max_pixels) from error
    except Exception as error:  # a decoder may raise anything on hostile bytes
        raise InvalidRequest.at(field, f"is a damaged image: {error}") from error


def _read_under(folder: Path, url: str, max_bytes: int, field: str) -> bytes:
    # One message for files that are missing and files that are elsewhere: clients may not learn which files exist.
    refusal = InvalidRequest.at(
        field, "is not a file under the server's media folder; local addresses are written file:///folder/cat.png."
    )
    try:
        parts = urlsplit(url)
        if parts.netloc not in ("", "localhost") or not parts.path.startswith("/"):
            raise refusal
        root = folder.resolve(strict=True)
        inside = Path(unquote(parts.path, errors="strict")).resolve(strict=True).relative_to(root)
        file = _open_inside(root, inside)
        try:
            if not stat.S_ISREG(os.fstat(file).st_mode):
                raise refusal
            with os.fdopen(file, "rb", closefd=False) as opened:
                data = opened.read(max_bytes + 1)
        finally:
            os.close(file)
    except (OSError, ValueError, RuntimeError):  # a loop of links is a RuntimeError before Python 3.13
        raise refusal from None
    if len(data) > max_bytes:
        raise _too_many_bytes(field, max_bytes)
    return data


def _open_inside(root: Path, inside: Path) -> int:
    """Open step by step from `root` without following links: a part of `inside` may have been replaced meanwhile."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK  # a pipe would hold up the open
    here = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in inside.parts:
            below = os.open(part, flags, dir_fd=here)
            os.close(here)
            here = below
    except BaseException:
        os.close(here)
        raise
    return here


def _in_data_url(rest: str, max_bytes: int, field: str, wanted: Kind) -> bytes:
    header, comma, payload = rest.partition(",")
    if not comma:
        raise InvalidRequest.at(field, "is a data: URL without data: there is no comma in it.")
    kind, *parameters = (piece.strip().lower() for piece in header.split(";"))
    if kind and not kind.startswith(f"{wanted}/") and kind != "application/octet-stream":
        raise InvalidRequest.at(field, f"is of type {kind}, which is not {KINDS[wanted]}.")
    if "base64" in parameters:
        return _from_base64(_unquoted(payload).decode("latin-1") if "%" in payload else payload, max_bytes, field)
    data = _unquoted(payload)
    if len(data) > max_bytes:
        raise _too_many_bytes(field, max_bytes)
    return data


def _from_base64(payload: str, max_bytes: int, field: str) -> bytes:
    """In pieces: one call would hold up every other thread."""
    decoded: list[bytes] = []
    left, size = "", 0
    for begin in range(0, len(payload), PIECE):
        left += "".join(payload[begin : begin + PIECE].split())
        if begin + PIECE >= len(payload):
            left = left.rstrip("=")
            left += "=" * (-len(left) % 4)
        whole = len(left) // 4 * 4
        piece, left = left[:whole].replace("-", "+").replace("_", "/"), left[whole:]
        try:
            decoded.append(base64.b64decode(piece, validate=True))
        except (binascii.Error, ValueError) as error:
            raise InvalidRequest.at(field, f"is not valid base64: {error}") from error
        size += len(decoded[-1])
        if size > max_bytes:
            raise _too_many_bytes(field, max_bytes)
    return b"".join(decoded)


def _unquoted(payload: str) -> bytes:
    """Decodes percent escapes, in pieces that end before one."""
    decoded: list[bytes] = []
    begin = 0
    while begin < len(payload):
        end = begin + PIECE // 16  # escapes take far longer than base64
        cut = payload.rfind("%", end - 2, end)
        end = cut if cut > begin else end
        decoded.append(unquote_to_bytes(payload[begin:end]))
        begin = end
    return b"".join(decoded)


def _upright(image: Image.Image) -> Image.Image:
    # The EXIF data may be broken while the image is not.
    with suppress(Exception):
        ImageOps.exif_transpose(image, in_place=True)
    return image


def _reduced(image: Image.Image) -> Image.Image:
    """Scales an image that is larger than any processor needs down, by the mean of squares of pixels."""
    factor = math.ceil(math.sqrt(image.width * image.height / LARGE))
    if factor < 2:
        return image
    if image.mode in ("1", "P", "PA"):  # a mean of palette indices is no colour
        image = image.convert("RGBA" if image.has_transparency_data else "RGB")
    elif image.mode.startswith("I;16"):
        image = image.convert("I")
    exif = image.getexif()
    smaller = image.reduce((min(factor, image.width), min(factor, image.height)))
    smaller.info["exif"] = exif.tobytes()
    return smaller


def _eight_bit(image: Image.Image) -> Image.Image:
    """Scales deep grey to 8 bits. Pillow's conversion would clip everything above 255 to white."""
    if image.mode.startswith("I;16"):
        return Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
    if image.mode not in ("I", "F"):
        return image
    pixels = np.nan_to_num(np.asarray(image, dtype=np.float32), nan=0.0, posinf=0.0, neginf=0.0)
    top = float(pixels.max())
    steps = (255.0, 65535.0) if image.mode == "I" else (1.0, 255.0)
    full = next((step for step in steps if top <= step), top)
    return Image.fromarray((pixels.clip(0, full) * (255.0 / full)).round().astype(np.uint8))


def _on_white(image: Image.Image) -> Image.Image:
    if not image.has_transparency_data:
        return image if image.mode == "RGB" else image.convert("RGB")
    image = image if image.mode == "RGBA" else image.convert("RGBA")
    flat = Image.new("RGB", image.size)
    rows = max(STRIP // image.width, 1)
    for top in range(0, image.height, rows):  # Pillow keeps the interpreter's lock while it composes
        strip = image.crop((0, top, image.width, min(top + rows, image.height)))
        flat.paste(Image.alpha_composite(Image.new("RGBA", strip.size, "white"), strip).convert("RGB"), (0, top))
    return flat


def _too_many_pixels(field: str, found: str, max_pixels: int) -> InvalidRequest:
    return InvalidRequest.at(field, f"{found}, and at most {max_pixels} pixels are allowed.")


def _too_many_bytes(field: str, max_bytes: int) -> InvalidRequest:
    return InvalidRequest.at(field, f"has more than {max_bytes} bytes, which is the most allowed.")
