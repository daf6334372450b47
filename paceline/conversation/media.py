"""Pictures: from the address a client writes to upright RGB. Hostile bytes end in `InvalidRequest`."""

from __future__ import annotations

import base64
import binascii
import io
from urllib.parse import unquote, unquote_to_bytes

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError, features

from paceline.errors import InvalidRequest

# Pillow reads many more; some of them start other programs (EPS) or are rarely tested against attacks.
FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF", *(("AVIF",) if features.check("avif") else ()))


def decode_image(url: str, max_pixels: int, max_bytes: int, *, field: str = "image_url") -> Image.Image:
    """The picture behind a `data:` address as RGB, upright, transparency on white, the first frame only.

    Its size is checked from the header, before any pixel is decoded. `field` is named in every error.
    """
    data = _data_of(url, max_bytes, field)
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
        raise _too_many_pixels(field, "has far more", max_pixels) from error
    except Exception as error:  # a decoder that reads hostile bytes raises nearly anything
        raise InvalidRequest(f"{field} is a damaged image: {error}", field=field) from error


def _data_of(url: str, max_bytes: int, field: str) -> bytes:
    scheme, _, rest = url.partition(":")
    match scheme.strip().lower() if rest else "":
        case "data":
            pass
        case "http" | "https":
            raise InvalidRequest(
                f"{field} is a remote address; remote images are not allowed: send the image as a data: URL.",
                field=field,
            )
        case "file":
            raise InvalidRequest(
                f"{field} is a local address; local images are not allowed: send the image as a data: URL.",
                field=field,
            )
        case _:
            raise InvalidRequest(f"{field} must be a data: URL, as in data:image/png;base64,...", field=field)
    header, comma, payload = rest.partition(",")
    if not comma:
        raise InvalidRequest(f"{field} is a data: URL without data: there is no comma in it.", field=field)
    kind, *parameters = (piece.strip().lower() for piece in header.split(";"))
    if kind and not kind.startswith("image/") and kind != "application/octet-stream":
        raise InvalidRequest(f"{field} is of type {kind}, which is not an image.", field=field)
    data = _from_base64(payload, max_bytes, field) if "base64" in parameters else unquote_to_bytes(payload)
    if len(data) > max_bytes:
        raise _too_many_bytes(field, max_bytes)
    if not data:
        raise InvalidRequest(f"{field} is an empty image.", field=field)
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
