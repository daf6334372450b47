"""Types of the settings' values: what is accepted for each, and the message for what is not."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Literal, LiteralString

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
from paceline.setting_aliases import SUFFIXES, length

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


def _tokens(value: object) -> object:
    """32k and 32K too, as `--max-model-len` takes them."""
    if isinstance(value, str) and value[-1:] in SUFFIXES:
        try:
            return length(value, False)
        except ValueError:
            raise PydanticCustomError(
                "tokens", "input should be a number of tokens (32000, 32k = 32000, 32K = 32768), or auto"
            ) from None
    return value


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


def _key(value: SecretStr) -> SecretStr:
    if not re.fullmatch(r"[!-~]+", value.get_secret_value()):
        raise PydanticCustomError("key", "a key is made of printable ASCII characters without spaces")
    return value


def _matching(pattern: str, kind: LiteralString, message: LiteralString, *, lower: bool = False) -> AfterValidator:
    def checked(value: str) -> str:
        if not re.fullmatch(pattern, value):
            raise PydanticCustomError(kind, message)
        return value.lower() if lower else value

    return AfterValidator(checked)


_name = r"[a-zA-Z0-9_-]+(\.[a-zA-Z0-9_-]+)*"
_origin = _matching(
    r"\*|[a-zA-Z][a-zA-Z0-9+.-]*://[^/?#@\s]+",
    "origin",
    "an origin is '*' or scheme://host[:port], with nothing after it",
    lower=True,
)
_host = _matching(_name, "host", "a host is a name as in 'example.org', without a port", lower=True)
_media_host = _matching(
    rf"(\*\.)?{_name}(:\d{{1,5}})?",
    "host",
    "a host is a name as in 'example.org', '*.example.org' or 'example.org:8443'",
    lower=True,
)
_web_address = _matching(r"https?://[^/?#@\s]+(/[^?#\s]*)?", "address", "an address is http(s)://host[:port][/path]")
_lora = _matching(r"(?s)[\w.:/@+-]+=.*\S.*", "lora", "an adapter is NAME=FOLDER, its name without spaces")


# Every source takes "auto", so that a flag can undo what a file fixed.
AutoCount = Annotated[Annotated[int, Field(ge=1)] | None, BeforeValidator(_none_if_auto)]
AutoTokens = Annotated[AutoCount, BeforeValidator(_tokens)]
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
Loras = Annotated[tuple[Annotated[str, _lora], ...], BeforeValidator(_loras)]
Origins = Annotated[tuple[Annotated[str, _origin], ...], BeforeValidator(_as_tuple)]
Names = Annotated[tuple[Annotated[str, _host], ...], BeforeValidator(_as_tuple)]
Hosts = Annotated[tuple[Annotated[str, _media_host], ...], BeforeValidator(_as_tuple)]
ServedNames = Annotated[tuple[str, ...] | str, BeforeValidator(_as_tuple)]  # a tuple, once it is checked
GenerationConfig = Annotated[Literal["auto", "none"] | Path, BeforeValidator(_generation_config)]
LogLevel = Annotated[Literal["debug", "info", "warning", "error"], BeforeValidator(_lowercase)]
LogFormat = Annotated[Literal["text", "json"], BeforeValidator(_lowercase)]
WebAddress = Annotated[Annotated[str, _web_address] | None, BeforeValidator(_none_if_none)]
DType = Annotated[Literal["auto", "float32", "bfloat16", "float16"], BeforeValidator(_dtype)]
Override = Annotated[dict[str, int | float | bool], BeforeValidator(_override)]
DraftLength = Annotated[int, Field(ge=1, le=8)]
Method = Literal["mtp", "lookup", "draft_model", "grammar"]
Methods = Annotated[tuple[Method, ...] | None, BeforeValidator(_methods)]
SpeculationMode = Annotated[Literal["off", "auto"] | DraftLength, WrapValidator(_check_speculation)]

# Settings that mean something only where one of others is set: what they are for.
NEEDED = (
    (("kv_group_size", "quantized_kv_start"), "is for quantized keys and values", ("kv_bits",)),
    (
        ("rank_port", "rank_secret_file", "rank_start_seconds", "rank_timeout_seconds"),
        "is for several ranks",
        ("ranks", "parallel"),
    ),
    (("cache_disk_gb",), "limits a folder", ("cache_dir",)),
    (("files_gb", "files_days"), "limits a folder", ("files_dir",)),
    (("max_log_len",), "limits prompts in the log", ("log_prompts",)),
    (
        tuple(f"specprefill_{name}" for name in ("threshold", "keep_pct", "max_tokens", "chunk", "window")),
        "is for reading with a draft",
        ("specprefill_draft_model",),
    ),
)
