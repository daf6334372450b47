"""Types of the settings' values: what is accepted for each, and the message for what is not."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    SecretStr,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)
from pydantic_core import PydanticCustomError

from paceline import generation_config as generation

KVLayout = Literal["auto", "rows", "similar", "padded"]
StartupChecks = Literal["auto", "always"]
ShapeBucketing = Literal["auto", "on", "off"]
Dequantize = Literal["auto", "off"]
Pooling = Literal["mean", "last"]
SchedulerPolicy = Literal["fifo", "shortest_first", "priority", "fair"]
MetricsAlias = Literal["none", "vllm"]
Parallel = Literal["none", "tensor"]
SparsePrefill = Literal["off", "auto"]


def _none_if_auto(value: object) -> object:
    return None if value == "auto" else value


def _none_if_none(value: object) -> object:
    return None if value == "none" else value


def _number_or_none(value: object) -> object:
    """A number, also where its source has texts only; "none" is None."""
    return int(value) if isinstance(value, str) and value.isdecimal() else _none_if_none(value)


def _check_speculation(value: object, check: ValidatorFunctionWrapHandler) -> object:
    """One message for the union: pydantic's first would name "off" and "auto" only."""
    try:
        return check(value)
    except ValidationError:
        raise PydanticCustomError("speculation", "input should be 'off', 'auto' or a number from 1 to 8") from None


def _folder(value: object) -> object:
    """Text as a path, also from TOML's strict source, and ~ as the home it stands for."""
    if not isinstance(value, str | Path):
        return value
    if not str(value).strip():
        raise PydanticCustomError("folder", "input should be a path")
    try:
        return Path(value).expanduser()
    except RuntimeError:
        raise PydanticCustomError("folder", "nobody's home is meant by the ~ of this path") from None


def _generation_config(value: object) -> object:
    words = {"vllm": "none"}  # vLLM's word for its own defaults
    return words.get(str(value), value) if value in ("auto", "none", "vllm") else _folder(value)


def _override(value: object) -> object:
    try:
        return generation.overrides(value)
    except ValueError as error:
        raise PydanticCustomError("override", "{reason}", {"reason": str(error)}) from None


def _dtype(value: object) -> object:
    return {"half": "float16", "float": "float32"}.get(str(value), value)  # vLLM's other words


def _lowercase(value: object) -> object:
    return value.lower() if isinstance(value, str) else value


def _as_tuple(value: object) -> object:
    """One text with commas (a variable), a flag given more than once, or a list in the file: always a tuple."""
    items = value if isinstance(value, list | tuple) else (value,)
    pieces: list[object] = []
    for item in items:
        pieces += [piece.strip() for piece in item.split(",")] if isinstance(item, str) else [item]
    if "" in pieces:  # --api-key "$UNSET" must not open the server to all
        raise PydanticCustomError("several", "one of the values is empty")
    return tuple(pieces)


def _methods(value: object) -> object:
    return None if value in (None, "auto", ["auto"], ("auto",)) else _as_tuple(value)


def _loras(value: object) -> object:
    """NAME=FOLDER, any number of them; a table in the file too."""
    if isinstance(value, dict):
        value = [f"{name}={folder}" for name, folder in value.items()]
    return _as_tuple(value)


def _lora(value: str) -> str:
    name, sign, folder = value.partition("=")
    if not re.fullmatch(r"[\w.:/@+-]+", name) or not sign or not folder.strip():
        raise PydanticCustomError("lora", "an adapter is NAME=FOLDER, its name without spaces")
    return value


def _key(value: SecretStr) -> SecretStr:
    if not re.fullmatch(r"[!-~]+", value.get_secret_value()):
        raise PydanticCustomError("key", "a key is made of printable ASCII characters without spaces")
    return value


def _origin(value: str) -> str:
    if value != "*" and not re.fullmatch(r"[a-zA-Z][a-zA-Z0-9+.-]*://[^/?#@\s]+", value):
        raise PydanticCustomError("origin", "an origin is '*' or scheme://host[:port], with nothing after it")
    return value.lower()


def _host(value: str) -> str:
    if not re.fullmatch(r"[a-zA-Z0-9_-]+(\.[a-zA-Z0-9_-]+)*", value):
        raise PydanticCustomError("host", "a host is a name as in 'example.org', without a port")
    return value.lower()


def _media_host(value: str) -> str:
    if not re.fullmatch(r"(\*\.)?[a-zA-Z0-9_-]+(\.[a-zA-Z0-9_-]+)*(:\d{1,5})?", value):
        raise PydanticCustomError("host", "a host is a name as in 'example.org', '*.example.org' or 'example.org:8443'")
    return value.lower()


def _web_address(value: str) -> str:
    if not re.fullmatch(r"https?://[^/?#@\s]+(/[^?#\s]*)?", value):
        raise PydanticCustomError("address", "an address is http(s)://host[:port][/path]")
    return value


# Every source takes "auto", so that a flag can undo what a file fixed.
AutoCount = Annotated[Annotated[int, Field(ge=1)] | None, BeforeValidator(_none_if_auto)]
AutoGigabytes = Annotated[Annotated[float, Field(gt=0, allow_inf_nan=False)] | None, BeforeValidator(_none_if_auto)]
AutoRoom = Annotated[Annotated[float, Field(ge=0, allow_inf_nan=False)] | None, BeforeValidator(_none_if_auto)]
AutoSeconds = Annotated[Annotated[float, Field(gt=0, allow_inf_nan=False)] | None, BeforeValidator(_none_if_none)]
AutoMilliseconds = AutoSeconds
AutoWindow = Annotated[Annotated[int, Field(ge=0)] | None, BeforeValidator(_none_if_auto)]
Count = Annotated[int, Field(ge=1)]
KVBits = Annotated[Literal[8, 4] | None, BeforeValidator(_number_or_none)]
KVGroupSize = Annotated[Literal[32, 64, 128], BeforeValidator(_number_or_none)]
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Folder = Annotated[Path | None, BeforeValidator(_folder)]
ApiKeys = Annotated[tuple[Annotated[SecretStr, AfterValidator(_key)], ...], BeforeValidator(_as_tuple)]
Loras = Annotated[tuple[Annotated[str, AfterValidator(_lora)], ...], BeforeValidator(_loras)]
Origins = Annotated[tuple[Annotated[str, AfterValidator(_origin)], ...], BeforeValidator(_as_tuple)]
Names = Annotated[tuple[Annotated[str, AfterValidator(_host)], ...], BeforeValidator(_as_tuple)]
Hosts = Annotated[tuple[Annotated[str, AfterValidator(_media_host)], ...], BeforeValidator(_as_tuple)]
ServedNames = Annotated[tuple[str, ...] | str, BeforeValidator(_as_tuple)]  # a tuple, once it is checked
GenerationConfig = Annotated[Literal["auto", "none"] | Path, BeforeValidator(_generation_config)]
LogLevel = Annotated[Literal["debug", "info", "warning", "error"], BeforeValidator(_lowercase)]
LogFormat = Annotated[Literal["text", "json"], BeforeValidator(_lowercase)]
WebAddress = Annotated[Annotated[str, AfterValidator(_web_address)] | None, BeforeValidator(_none_if_none)]
DType = Annotated[Literal["auto", "float32", "bfloat16", "float16"], BeforeValidator(_dtype)]
Override = Annotated[dict[str, int | float | bool], BeforeValidator(_override)]
DraftLength = Annotated[int, Field(ge=1, le=8)]
Method = Literal["mtp", "lookup", "draft_model", "grammar"]
Methods = Annotated[tuple[Method, ...] | None, BeforeValidator(_methods)]
SpeculationMode = Annotated[Literal["off", "auto"] | DraftLength, WrapValidator(_check_speculation)]
