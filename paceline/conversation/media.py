"""Pictures: from the address a client writes to upright RGB. Hostile bytes end in `InvalidRequest`.

Videos come by the same addresses under the same rules; `conversation/video` decodes them.
"""

from __future__ import annotations

import base64
import binascii
import io
import os
import re
import stat
import time
import warnings
from pathlib import Path
from typing import Literal
from urllib.parse import unquote, unquote_to_bytes, urlsplit

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError, features

from paceline.conversation.remote import Fetcher
from paceline.errors import InvalidRequest
from paceline.settings import Settings

# Pillow reads many more; some of them start other programs (EPS) or are rarely tested against attacks.
FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF", *(("AVIF",) if features.check("avif") else ()))

Kind = Literal["image", "video"]

# Ours is the stricter limit, with an answer to the client; Pillow's warning is a line on the terminal.
warnings.filterwarnings("ignore", category=Image.DecompressionBombWarning)


class Loader:
    """Pictures by their addresses, as the settings allow: `data:` always, http(s) and `file:` where asked for.

    Thread-safe. Without `fetcher` nothing is fetched, without `folder` nothing is read.
    """

    def __init__(
        self,
        *,
        max_pixels: int,
        max_bytes: int,
        fetcher: Fetcher | None = None,
        seconds: float = 10.0,
        folder: Path | None = None,
    ) -> None:
        self.max_pixels = max_pixels
        self.max_bytes = max_bytes
        self.fetcher = fetcher
        self.seconds = seconds
        self.folder = folder

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

    def load(self, url: str, field: str) -> Image.Image:
        return self.request().load(url, field)


class Loading:
    """The pictures and videos of one request: what they may take of time and bytes, they may take together."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader
        self._bytes_left = loader.max_bytes
        self._seconds_left = loader.seconds

    def load(self, url: str, field: str) -> Image.Image:
        """The picture as RGB, upright, transparency on white, the first frame only. `field` is named in every error."""
        return decode(self.bytes_of(url, field), self._loader.max_pixels, field)

    def bytes_of(self, url: str, field: str, kind: Kind = "image") -> bytes:
        """What is at the address, as it is."""
        data = self._data(url, field, kind)
        if not data:
            raise InvalidRequest(f"{field} is an empty {kind}.", field=field)
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
                raise InvalidRequest(
                    f"{field} is a remote address; remote {kind}s are not allowed: send the {kind} as a data: URL "
                    "(the server's --allow-remote-media allows them).",
                    field=field,
                )
            case "file" if loader.folder is not None:
                data = _read_under(loader.folder, url.strip(), self._bytes_left, field)
                self._bytes_left -= len(data)
                return data
            case "file":
                raise InvalidRequest(
                    f"{field} is a local address; local {kind}s are not allowed: send the {kind} as a data: URL "
                    "(the server's --media-dir allows those under a folder).",
                    field=field,
                )
            case _:
                example = "image/png" if kind == "image" else "video/mp4"
                raise InvalidRequest(f"{field} must be a data: URL, as in data:{example};base64,...", field=field)

    def _fetched(self, fetcher: Fetcher, url: str, field: str, kind: Kind) -> bytes:
        began = time.monotonic()
        data = fetcher.fetch(url, self._bytes_left, began + self._seconds_left, field=field, kind=kind)
        self._seconds_left -= time.monotonic() - began
        self._bytes_left -= len(data)
        return data


def decode(data: bytes, max_pixels: int, field: str) -> Image.Image:
    """Its size is checked from the header, before any pixel is decoded."""
    try:
        with Image.open(io.BytesIO(data), formats=FORMATS) as image:
            if image.width * image.height > max_pixels:
                raise _too_many_pixels(field, f"has {image.width} x {image.height} pixels", max_pixels)
            image.load()
            return _on_white(_eight_bit(_upright(image)))
    except InvalidRequest:
        raise
    except UnidentifiedImageError as error:
        known = ", ".join(FORMATS)
        raise InvalidRequest(
            f"{field} is not an image in a format that is read here ({known}).", field=field
        ) from error
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        count = re.search(r"\d+", str(error))  # Pillow's own limit comes first, and names no width and height
        raise _too_many_pixels(field, f"has {count[0] if count else 'far more'} pixels", max_pixels) from error
    except Exception as error:  # a decoder that reads hostile bytes raises nearly anything
        raise InvalidRequest(f"{field} is a damaged image: {error}", field=field) from error


def _read_under(folder: Path, url: str, max_bytes: int, field: str) -> bytes:
    # One message for all that is not there and all that is elsewhere: what files there are is not for clients.
    refusal = InvalidRequest(
        f"{field} is not a file under the server's media folder; local addresses are written file:///folder/cat.png.",
        field=field,
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
    """Step by step from `root`, following no link: `inside` was resolved, but somebody may exchange a part of it."""
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
        raise InvalidRequest(f"{field} is a data: URL without data: there is no comma in it.", field=field)
    kind, *parameters = (piece.strip().lower() for piece in header.split(";"))
    if kind and not kind.startswith(f"{wanted}/") and kind != "application/octet-stream":
        article = "an" if wanted == "image" else "a"
        raise InvalidRequest(f"{field} is of type {kind}, which is not {article} {wanted}.", field=field)
    data = _from_base64(payload, max_bytes, field) if "base64" in parameters else unquote_to_bytes(payload)
    if len(data) > max_bytes:
        raise _too_many_bytes(field, max_bytes)
    return data


def _from_base64(payload: str, max_bytes: int, field: str) -> bytes:
    if "%" in payload:
        payload = unquote(payload)
    payload = "".join(payload.split()).rstrip("=").replace("-", "+").replace("_", "/")
    if len(payload) // 4 * 3 > max_bytes:
        raise _too_many_bytes(field, max_bytes)
    try:
        return base64.b64decode(payload + "=" * (-len(payload) % 4), validate=True)
    except (binascii.Error, ValueError) as error:
        raise InvalidRequest(f"{field} is not valid base64: {error}", field=field) from error


def _upright(image: Image.Image) -> Image.Image:
    try:
        return ImageOps.exif_transpose(image)
    except Exception:  # the note about the camera is broken, the picture is not
        return image


def _eight_bit(image: Image.Image) -> Image.Image:
    """Deep grey scaled to 8 bits. Pillow's own conversion clips: everything above 255 would turn white."""
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
        return image.convert("RGB")
    image = image.convert("RGBA")
    white = Image.new("RGBA", image.size, "white")
    return Image.alpha_composite(white, image).convert("RGB")


def _too_many_pixels(field: str, found: str, max_pixels: int) -> InvalidRequest:
    return InvalidRequest(f"{field} {found}, and at most {max_pixels} pixels are allowed.", field=field)


def _too_many_bytes(field: str, max_bytes: int) -> InvalidRequest:
    return InvalidRequest(f"{field} has more than {max_bytes} bytes, which is the most allowed.", field=field)
