"""Messages as clients send them, checked and put into the form that templates take.

Volatile headers are lines that agents put in front of their system prompt and change with every request. They are
removed here, because no cached prefix would match otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from paceline.errors import InvalidRequest

ROLES = ("system", "developer", "user", "assistant", "tool", "function")
INSTRUCTING = ("system", "developer")  # templates know only `system`
TEXT_PARTS = ("text", "input_text", "output_text")
IMAGE_PARTS = ("image_url", "input_image")
DETAILS = ("auto", "low", "high", "original")  # of an image: the model's own size is used for all
REASONING = ("reasoning_content", "reasoning", "thinking")  # three names for the same field
LONGEST_NAME = 256
LONG_TEXT = 1 << 18  # characters; shorter texts take too little memory to count
AUDIO_FORMATS = ("wav", "mp3", "flac")  # whichever is named: the bytes decide
AUDIO_PARTS = ("input_audio", "audio", "audio_url")
VIDEO_PARTS = ("video_url", "video", "input_video")
MEDIA_TYPES = ("image", "video", "audio")  # of parts, as templates know them
# Fields of Qwen's clients that are refused: the server's settings apply to every request.
REFUSED = (
    *("max_frames", "min_frames", "nframes", "max_pixels", "min_pixels", "total_pixels"),
    *("resized_height", "resized_width", "video_start", "video_end", "raw_fps", "sample_fps"),
)
FASTEST = 240.0  # frames a second that can be asked for

HEADERS = ("x-anthropic-billing-header",)  # Claude Code puts it in front of its system prompt

_FRONT = re.compile(rf"(?:(?:{'|'.join(map(re.escape, HEADERS))}):[^\n]*(?:\n|\Z))+", re.IGNORECASE)

Parts = list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class ImagePart:
    """An image in a conversation. `place` is its field in the request, for error messages."""

    url: str
    place: str


@dataclass(frozen=True, slots=True)
class VideoPart:
    """A video's address or, with `frames`, the addresses of its frames. `place` is named in error messages."""

    urls: tuple[str, ...]
    place: str
    frames: bool = False
    fps: float | None = None  # frames to sample per second; with `frames`, their rate


@dataclass(frozen=True, slots=True)
class AudioPart:
    """A recording in a conversation. `place` is named in error messages."""

    url: str
    place: str


MediaPart = ImagePart | VideoPart | AudioPart


def is_heavy(messages: Any) -> bool:
    """Whether the messages have media or very long texts, so that reading them may wait for memory.

    The messages are not checked yet and may have any type.
    """
    if not isinstance(messages, Sequence):
        return False
    contents = [message.get("content") for message in messages if isinstance(message, Mapping)]
    parts = [part for content in contents if isinstance(content, list) for part in content if isinstance(part, Mapping)]
    texts = [*contents, *(part.get("text") for part in parts)]
    characters = sum(len(text) for text in texts if isinstance(text, str))
    return characters > LONG_TEXT or any(part.get("type") not in TEXT_PARTS for part in parts)


def checked(
    messages: Sequence[Mapping[str, Any]],
    *,
    takes_images: bool,
    takes_video: bool = False,
    takes_audio: bool = False,
) -> tuple[list[dict[str, Any]], list[MediaPart]]:
    """The conversation for the template (media as parts of MEDIA_TYPES), and its media in order.

    A system message of nothing but volatile headers is left out.
    """
    if not isinstance(messages, Sequence) or isinstance(messages, str | bytes) or not messages:
        raise InvalidRequest.at("messages", "must be a list with at least one message.")
    conversation: list[dict[str, Any]] = []
    media: list[MediaPart] = []
    takes = {"image": takes_images, "video": takes_video, "audio": takes_audio}
    for index, message in enumerate(messages):
        place = f"messages[{index}]"
        if not isinstance(message, Mapping):
            raise InvalidRequest.at(place, "must be an object.")
        role = role_of(message, ROLES, place)
        _check_texts(message, place)
        content, found = _content(message, place, takes)
        if role in INSTRUCTING:
            role = "system"
            content = without_headers(content)
            if content is None:
                continue
        media += found
        if isinstance(content, list) and not found:  # most templates of text models take only a string
            content = "\n".join(part["text"] for part in content)
        conversation.append({**message, "role": role, "content": content})
    if not conversation:
        raise InvalidRequest.at("messages", "holds nothing but a client's header lines.")
    return conversation, media


def role_of(message: Any, roles: Sequence[str], place: str) -> str:
    role = message.get("role") if isinstance(message, Mapping) else None
    if role not in roles:
        given = "missing" if role is None else repr(role)
        raise InvalidRequest.at(f"{place}.role", f"is {given}; it must be one of {', '.join(roles)}.")
    return str(role)


def _check_texts(message: Mapping[str, Any], place: str) -> None:
    """Check fields that a template writes beside the content. It would fail on other types, or write nonsense."""
    for field in ("name", *REASONING):
        text = message.get(field)
        if text is not None and not isinstance(text, str):
            raise InvalidRequest.at(f"{place}.{field}", "must be text.")
    if len(message.get("name") or "") > LONGEST_NAME:
        raise InvalidRequest.at(f"{place}.name", f"has more than {LONGEST_NAME} characters.")


def checked_tools(tools: Any) -> list[Mapping[str, Any]] | None:
    """The tools for the template, or None. The server checks their schemas."""
    if tools is None:
        return None
    if not isinstance(tools, Sequence) or isinstance(tools, str | bytes):
        raise InvalidRequest.at("tools", "must be a list.")
    for index, tool in enumerate(tools):
        if not isinstance(tool, Mapping):
            raise InvalidRequest.at(f"tools[{index}]", "must be an object.")
    return list(tools) or None


def check_calls(messages: Sequence[Mapping[str, Any]]) -> None:
    """Check the tool calls of `checked` messages. Templates would fail on bad ones, or write nonsense."""
    for index, message in enumerate(messages):
        place = f"messages[{index}]"
        if message["role"] == "assistant":
            _check_calls(message, place)
        elif message.get("tool_calls") or message.get("function_call"):
            raise InvalidRequest.at(place, "has tool calls; only the assistant's messages may have them.")


def _check_calls(message: Mapping[str, Any], place: str) -> None:
    calls = message.get("tool_calls")
    if calls is not None and (not isinstance(calls, Sequence) or isinstance(calls, str | bytes)):
        raise InvalidRequest.at(f"{place}.tool_calls", "must be a list.")
    functions = [
        (call.get("function") if isinstance(call, Mapping) else None, f"{place}.tool_calls[{index}].function")
        for index, call in enumerate(calls or ())
    ]
    if message.get("function_call") is not None:
        functions.append((message["function_call"], f"{place}.function_call"))
    for function, where in functions:
        if not isinstance(function, Mapping):
            raise InvalidRequest.at(where, "must be an object.")
        if not isinstance(function.get("name"), str):
            raise InvalidRequest.at(f"{where}.name", "must be text.")
        if not isinstance(function.get("arguments"), str | Mapping | None):
            raise InvalidRequest.at(f"{where}.arguments", "must be JSON text.")


def _content(message: Mapping[str, Any], place: str, takes: Mapping[str, bool]) -> tuple[Any, list[MediaPart]]:
    """The content as text or as parts, and its media."""
    content = message.get("content")
    field = f"{place}.content"
    if isinstance(content, str):
        return content, []
    if content is None:
        if message.get("role") == "assistant":
            refusal = message.get("refusal")
            return refusal if isinstance(refusal, str) else "", []
        if message.get("role") in ("tool", "function"):
            return "", []
        raise InvalidRequest.at(field, "is missing.")
    if not isinstance(content, Sequence):
        raise InvalidRequest.at(field, "must be text or a list of parts.")
    parts: list[dict[str, Any]] = []
    media: list[MediaPart] = []
    for index, part in enumerate(content):
        _part(part, f"{field}[{index}]", parts, media, takes)
    return parts, media


def _part(
    part: Any, place: str, parts: list[dict[str, Any]], media: list[MediaPart], takes: Mapping[str, bool]
) -> None:
    if not isinstance(part, Mapping):
        raise InvalidRequest.at(place, 'must be an object, as in {"type": "text", "text": "..."}.')
    kind = part.get("type")
    if kind in TEXT_PARTS:
        text = part.get("text")
        if not isinstance(text, str):
            raise InvalidRequest.at(f"{place}.text", "must be text.")
        parts.append({"type": "text", "text": text})
    elif kind == "refusal" and isinstance(part.get("refusal"), str):
        parts.append({"type": "text", "text": part["refusal"]})
    elif kind in IMAGE_PARTS:
        if not takes["image"]:
            raise InvalidRequest.at(place, ": this model takes no images.")
        address = part.get("image_url")
        url = address.get("url") if isinstance(address, Mapping) else address
        if not isinstance(url, str):
            raise InvalidRequest.at(f"{place}.image_url", "must be an address.")
        _check_detail(part, place)
        if isinstance(address, Mapping):
            _check_detail(address, f"{place}.image_url")
        media.append(ImagePart(url, f"{place}.image_url"))
        parts.append({"type": "image"})
    elif kind in VIDEO_PARTS:
        if not takes["video"]:
            raise InvalidRequest.at(place, ": this model takes no video.")
        media.append(video_part(part, place))
        parts.append({"type": "video"})
    elif kind in AUDIO_PARTS:
        if not takes["audio"]:
            raise InvalidRequest.at(place, ": this model takes no audio.")
        media.append(audio_part(part, place))
        parts.append({"type": "audio"})
    else:
        raise InvalidRequest.at(place, f"has the unknown type {kind!r}.")


def video_part(part: Mapping[str, Any], place: str) -> VideoPart:
    """`video_url` as an address or an object with `url`; `video` also as a list of its frames' addresses."""
    name = "video" if "video" in part else "video_url"
    here = f"{place}.{name}"
    given, fps = part.get(name), part.get("fps")
    if isinstance(given, Mapping):
        fps = given.get("fps", fps)
        given = given.get("url")
    for field in REFUSED:
        if part.get(field) is not None:
            raise InvalidRequest(
                f"{place}.{field} is not supported: the server's settings decide; leave it out.",
                field=f"{place}.{field}",
                code="unsupported_parameter",
            )
    if fps is not None and not (type(fps) in (int, float) and 0 < fps <= FASTEST):
        raise InvalidRequest.at(f"{place}.fps", f"must be above 0 and at most {FASTEST:g}.")
    if isinstance(given, str):
        return VideoPart((given,), here, fps=fps)
    if isinstance(given, list) and given and all(isinstance(url, str) for url in given):
        return VideoPart(tuple(given), here, frames=True, fps=fps)
    raise InvalidRequest.at(here, "must be an address, or a list of the addresses of its frames.")


def audio_part(part: Mapping[str, Any], place: str) -> AudioPart:
    """OpenAI's `input_audio`, an object with `data` and `format`; or `audio_url` (or `audio`) with an address."""
    if part["type"] != "input_audio":
        name = "audio" if "audio" in part else "audio_url"
        given = part.get(name)
        url = given.get("url") if isinstance(given, Mapping) else given
        if not isinstance(url, str):
            raise InvalidRequest.at(f"{place}.{name}", "must be an address.")
        return AudioPart(url, f"{place}.{name}")
    here, given = f"{place}.input_audio", part.get("input_audio")
    if not isinstance(given, Mapping) or not isinstance(given.get("data"), str):
        raise InvalidRequest.at(here, "must be an object with data in base64, and a format.")
    if given.get("format") not in AUDIO_FORMATS:
        raise InvalidRequest.at(f"{here}.format", f"is {given.get('format')!r}; it must be 'wav', 'mp3' or 'flac'.")
    return AudioPart(f"data:audio/wav;base64,{given['data']}", f"{here}.data")


# -- volatile headers


def without_headers(content: str | Parts) -> str | Parts | None:
    """A system message's content without the volatile headers at its start; None if it has nothing else.

    A header line is removed with its line break; every other character stays. A part of nothing but headers is
    removed, and the next part is then the start. Content without headers is returned unchanged, even if empty.
    """
    if isinstance(content, str):
        text = _cut(content)
        return text if text or not content else None
    parts = _cut_parts(content)
    says_something = any(part["type"] != "text" or part["text"] for part in parts)
    return parts if says_something or parts == content else None


def _cut_parts(parts: Parts) -> Parts:
    for place, part in enumerate(parts):
        if part["type"] != "text" or not part["text"]:
            return parts[place:]
        if text := _cut(part["text"]):
            return [{**part, "text": text}, *parts[place + 1 :]]
    return []


def _cut(text: str) -> str:
    front = _FRONT.match(text)
    return text[front.end() :] if front else text


def _check_detail(given: Mapping[str, Any], place: str) -> None:
    detail = given.get("detail")
    if detail is not None and detail not in DETAILS:
        raise InvalidRequest.at(f"{place}.detail", f"is {detail!r}; it must be one of {', '.join(DETAILS)}.")
