"""One frozen settings object, and where each of its values may come from."""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from paceline.errors import SettingsError as SettingsError

PREFIX = "PACELINE_"
TEST_PREFIX = "PACELINE_TEST_"  # the test suite's own switches; never settings

SECRETS = ("api_key", "admin_key")  # never quoted in an error

ONE_SOURCE = {"sources": "one"}  # validation's context while the values of other sources are not known

KVLayout = Literal["auto", "rows", "similar", "padded"]
DType = Literal["auto", "float32", "bfloat16", "float16"]
Pooling = Literal["mean", "last"]
LogLevel = Literal["debug", "info", "warning", "error"]
SchedulerPolicy = Literal["fifo", "shortest_first", "priority", "fair"]
SparsePrefill = Literal["off", "auto"]


def _none_if_auto(value: object) -> object:
    return None if value == "auto" else value


def _none_if_none(value: object) -> object:
    return None if value == "none" else value


def _named_whole(value: object, check: ValidatorFunctionWrapHandler) -> object:
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


def _lowered(value: object) -> object:
    return value.lower() if isinstance(value, str) else value


def _several(value: object) -> object:
    """One text with commas (a variable), a flag given more than once, or a list in the file: always a tuple."""
    items = value if isinstance(value, list | tuple) else (value,)
    pieces: list[object] = []
    for item in items:
        pieces += [piece.strip() for piece in item.split(",")] if isinstance(item, str) else [item]
    if "" in pieces:  # --api-key "$UNSET" must not open the server to everybody
        raise PydanticCustomError("several", "one of the values is empty")
    return tuple(pieces)


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


# "auto" can be said in every source, so that a flag can undo what a file fixed.
AutoCount = Annotated[Annotated[int, Field(ge=1)] | None, BeforeValidator(_none_if_auto)]
AutoGigabytes = Annotated[Annotated[float, Field(gt=0, allow_inf_nan=False)] | None, BeforeValidator(_none_if_auto)]
AutoRoom = Annotated[Annotated[float, Field(ge=0, allow_inf_nan=False)] | None, BeforeValidator(_none_if_auto)]
AutoSeconds = Annotated[Annotated[float, Field(gt=0, allow_inf_nan=False)] | None, BeforeValidator(_none_if_none)]
AutoMilliseconds = AutoSeconds
AutoWindow = Annotated[Annotated[int, Field(ge=0)] | None, BeforeValidator(_none_if_auto)]
Count = Annotated[int, Field(ge=1)]
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Folder = Annotated[Path | None, BeforeValidator(_folder)]
Keys = Annotated[tuple[Annotated[SecretStr, AfterValidator(_key)], ...], BeforeValidator(_several)]
Origins = Annotated[tuple[Annotated[str, AfterValidator(_origin)], ...], BeforeValidator(_several)]
Names = Annotated[tuple[Annotated[str, AfterValidator(_host)], ...], BeforeValidator(_several)]
Hosts = Annotated[tuple[Annotated[str, AfterValidator(_media_host)], ...], BeforeValidator(_several)]
SpeculationMode = Annotated[Literal["off", "auto"] | Annotated[int, Field(ge=1, le=8)], WrapValidator(_named_whole)]


class Settings(BaseModel):
    """Everything that can be set. Each field's description is what `--help` shows for its flag."""

    # hide_input_in_errors: a traceback must not show a key that was mistyped.
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True, hide_input_in_errors=True)

    model: str | None = Field(
        default=None,
        description="A folder or a Hugging Face id. Default: paceline-mini, the small demonstration model inside.",
    )
    served_model_name: str | None = Field(
        default=None, description="The name clients use for the model. Default: MODEL as you gave it."
    )

    host: str = Field(default="127.0.0.1", min_length=1, description="Address to listen on.")
    port: int = Field(default=8000, ge=0, le=65535, description="Port to listen on; 0 takes any free one.")
    drain_seconds: float = Field(
        default=30.0,
        ge=0,
        allow_inf_nan=False,
        description="On SIGTERM, how long running requests may go on.",
    )
    log_level: Annotated[LogLevel, BeforeValidator(_lowered)] = Field(
        default="info", description="The least important line that is logged."
    )

    api_key: Keys = Field(
        default=(),
        description="Key that clients must send; may be repeated. Other users see it in the process list: "
        "the file and the variable are more private.",
    )
    api_key_file: Folder = Field(default=None, description="File with one such key a line.")
    admin_key: Keys = Field(
        default=(),
        description="Key for what changes the server, as clearing the cache does; may be repeated. "
        "Default: only from this machine.",
    )
    admin_key_file: Folder = Field(default=None, description="File with one such key a line.")
    cors_origin: Origins = Field(
        default=(),
        description="Origin whose web pages may use the server, as https://chat.example.org; may be repeated. "
        "Default: none.",
    )
    allowed_host: Names = Field(
        default=(),
        description="Name by which clients may reach a server without keys on this machine, as my-laptop.local; may be "
        "repeated. Default: names of this machine's own addresses only.",
    )

    max_rows: Count = Field(default=64, description="Requests that run together; later ones wait for their turn.")
    scheduler_policy: SchedulerPolicy = Field(
        default="fifo",
        description="Who comes next: fifo (in order of arrival), shortest_first (fewest prompt tokens to compute), "
        "priority (the request's own number, lower first), fair (whoever was served least, by key or address).",
    )
    starvation_seconds: Seconds = Field(
        default=30.0, description="Whoever has waited this long comes first, whatever the policy says."
    )
    max_queue: int = Field(
        default=256, ge=0, description="Requests that may wait for their turn; more are refused (429, Retry-After)."
    )
    queue_timeout: AutoSeconds = Field(
        default=300.0, description="Seconds a request may wait for its turn, then 503 with Retry-After; none: no limit."
    )
    first_token_timeout: AutoSeconds = Field(
        default=None, description="Seconds until a request's first token must have come; none: no limit."
    )
    request_timeout: AutoSeconds = Field(
        default=None, description="Seconds a request may take from its arrival to its end; none: no limit."
    )
    max_unread_tokens: Count = Field(
        default=16384, description="Tokens of an answer that may wait for a slow reader, before it is cut off."
    )
    stall_target_ms: AutoMilliseconds = Field(
        default=250.0,
        description="Longest pause between two tokens of a running stream that prompts of others should cause; prefill "
        "chunks shrink and grow to keep it. none: chunks are always as large as they may be.",
    )
    memory_limit_gb: AutoGigabytes = Field(
        default=None, description="Memory that the server may use in all; auto: what the device recommends."
    )
    scheduler_headroom_gb: AutoRoom = Field(
        default=None, description="Of that, what stays free for what nobody can count; auto: a tenth."
    )
    prefill_chunk: AutoCount = Field(
        default=None, description="Prompt tokens a step may take beside decoding; auto: the engine chooses."
    )
    kv_layout: KVLayout = Field(
        default="auto",
        description="How the rows' keys and values lie in memory; auto: what is faster on this device.",
    )
    dtype: DType = Field(
        default="auto",
        description="Type to compute in; auto: float32 on CPU, the checkpoint's own elsewhere.",
    )
    speculation: SpeculationMode = Field(
        default="auto",
        description="Draft with the model's MTP head: off, auto (as deep as it pays), or a fixed number of tokens.",
    )
    max_draft: int = Field(default=8, ge=1, le=8, description="Most tokens a row may draft in one step.")
    context_length: AutoCount = Field(
        default=None, description="Longest prompt plus answer, in tokens; auto: what the model was made for."
    )
    tool_parser: str = Field(
        default="auto", description="How the model writes tool calls: auto (from its template), none, or a name."
    )
    reasoning_parser: str = Field(
        default="auto", description="How the model marks its reasoning: auto (from its template), none, or a name."
    )
    chat_template: Annotated[Path | None, BeforeValidator(_folder)] = Field(
        default=None, description="A Jinja file to use instead of the model's own chat template."
    )
    embedding_pooling: Pooling = Field(
        default="mean", description="What /v1/embeddings makes of a text's hidden states: their mean, or the last one."
    )
    blas: str | None = Field(
        default=None,
        min_length=1,
        description="Linux CPU: path of the BLAS library to load, or 'none'. Default: search for a fast one.",
    )

    prefix_cache: bool = Field(
        default=True, description="Keep what was computed for prompts, for prompts that begin alike."
    )
    cache_memory_gb: AutoGigabytes = Field(
        default=None, description="Memory for cached prefixes; auto: half of what the weights leave."
    )
    cache_dir: Folder = Field(
        default=None, description="Folder where prefixes are kept across restarts. Default: memory only."
    )
    cache_disk_gb: float = Field(default=20.0, gt=0, allow_inf_nan=False, description="Most that the folder may hold.")
    vision_cache_mb: int = Field(default=256, ge=0, description="Memory for features of pictures seen before; 0: none.")

    specprefill: SparsePrefill = Field(
        default="off",
        description="Read long prompts sparsely: a draft model finds the parts that matter, and only those are read. "
        "An approximation. auto: wherever enough is left to compute; off: only for requests that ask for it.",
    )
    specprefill_draft_model: str | None = Field(
        default=None,
        min_length=1,
        description="The draft: a small model with the same tokenizer, loaded beside the model; a folder or an id, as "
        "MODEL. Default: none, and no request can ask for sparse reading.",
    )
    specprefill_threshold: Count = Field(
        default=8192,
        description="Prompt tokens that must be left to compute, behind the instructions, before auto reads sparsely.",
    )
    specprefill_keep_pct: float = Field(
        default=0.3,
        ge=0.1,
        le=1.0,
        allow_inf_nan=False,
        description="Share of them that is read, from 0.1 to 1.0, unless a request says another; 1.0: all.",
    )
    specprefill_max_tokens: Count = Field(
        default=196_608, description="With more left to compute than this, a prompt is read whole, and counted."
    )
    specprefill_chunk: AutoCount = Field(
        default=None, description="Prompt tokens that the draft reads in one step; auto: measured at start."
    )
    specprefill_window: AutoWindow = Field(
        default=None,
        description="Tokens that the draft looks back while it reads, like 512: far cheaper for long prompts. "
        "0: all, as published; auto: what the draft's config.json says, or all. What it scores with sees all.",
    )

    max_choices: Count = Field(default=16, description="Most choices (n) a request may ask for.")
    max_stop_strings: Count = Field(default=16, description="Most stop strings a request may have.")
    max_logprobs: int = Field(default=20, ge=0, description="Most top_logprobs a request may ask for.")
    max_body_mb: Count = Field(default=32, description="Largest request body, in MiB.")
    body_timeout_seconds: Seconds = Field(
        default=30.0,
        description="How long a client may pause while it sends a request, before it is cut off.",
    )
    max_connections: Count = Field(default=1000, description="Most connections at a time, idle ones included.")
    max_images: Count = Field(default=64, description="Most images a request may carry.")
    max_image_pixels: Count = Field(default=64_000_000, description="Most pixels an image may have.")
    max_videos: Count = Field(default=4, description="Most videos a request may carry.")
    max_video_seconds: Seconds = Field(default=300.0, description="Longest video, in seconds.")
    video_fps: Annotated[float, Field(gt=0, le=240)] = Field(
        default=2.0, description="Frames taken of a video's second, where a request does not say."
    )
    video_max_frames: Count = Field(
        default=64, description="Most frames taken of a video; of a longer one they are taken further apart."
    )

    allow_remote_media: bool = Field(
        default=False, description="Fetch pictures from http(s) addresses; never from private networks."
    )
    media_allowed_host: Hosts = Field(
        default=(),
        description="Fetch from this host only, as in example.org, *.example.org or example.org:8443; may be repeated. "
        "Default: any public host, ports 80 and 443.",
    )
    media_timeout_seconds: Seconds = Field(
        default=10.0, description="How long fetching the pictures of one request may take in all."
    )
    media_dir: Folder = Field(
        default=None, description="Read pictures from file: addresses under this folder. Default: from none."
    )

    @classmethod
    def load(cls, flags: Mapping[str, Any], config: Path | None, env: Mapping[str, str]) -> Self:
        """Flags over the TOML file over `PACELINE_*` variables over the defaults.

        Every source is checked in full, also where a stronger one overrules it: a mistake that waits in a
        file is still a mistake. A flag that is None and a variable that is empty count as not given.
        """
        given = _from_env(cls, env)
        if config is not None:
            given |= _from_toml(cls, config)
        given |= _from_flags(cls, flags)
        return cls.model_validate(given)

    @model_validator(mode="after")
    def _within_max_draft(self) -> Self:
        if isinstance(self.speculation, int) and self.speculation > self.max_draft:
            raise SettingsError(f"speculation {self.speculation} is more than max_draft {self.max_draft}")
        return self

    @model_validator(mode="after")
    def _hosts_are_fetched_from(self, info: ValidationInfo) -> Self:
        if info.context != ONE_SOURCE and self.media_allowed_host and not self.allow_remote_media:
            raise SettingsError(
                "media_allowed_host limits what is fetched: set allow_remote_media too, or leave it out"
            )
        return self

    @model_validator(mode="after")
    def _disk_has_a_folder(self, info: ValidationInfo) -> Self:
        if info.context != ONE_SOURCE and self.cache_dir is None and "cache_disk_gb" in self.model_fields_set:
            raise SettingsError("cache_disk_gb limits a folder: set cache_dir too, or leave it out")
        return self

    @model_validator(mode="after")
    def _sparse_reading_has_a_draft(self, info: ValidationInfo) -> Self:
        if info.context == ONE_SOURCE:
            return self
        if self.specprefill_draft_model is None:
            if self.specprefill == "auto":
                raise SettingsError(
                    "specprefill auto needs a draft model: set specprefill_draft_model too, or leave it off"
                )
            for field in ("threshold", "keep_pct", "max_tokens", "chunk", "window"):
                if f"specprefill_{field}" in self.model_fields_set:
                    raise SettingsError(
                        f"specprefill_{field} is for reading with a draft: set specprefill_draft_model too, "
                        "or leave it out"
                    )
        if self.specprefill == "auto" and self.specprefill_max_tokens < self.specprefill_threshold:
            raise SettingsError(
                f"specprefill_max_tokens {self.specprefill_max_tokens} is less than specprefill_threshold "
                f"{self.specprefill_threshold}: no prompt would be read sparsely"
            )
        return self


def flag_name(field: str) -> str:
    return "--" + field.replace("_", "-")


def variable_name(field: str) -> str:
    return PREFIX + field.upper()


def _from_flags(cls: type[Settings], flags: Mapping[str, Any]) -> dict[str, Any]:
    for field in flags:
        if field not in cls.model_fields:
            raise SettingsError(f"unknown flag {flag_name(field)}{_suggestion(field, cls, flag_name)}")
    values = {field: value for field, value in flags.items() if value is not None}
    return _checked(cls, values, names={field: flag_name(field) for field in values})


def _from_env(cls: type[Settings], env: Mapping[str, str]) -> dict[str, Any]:
    fields = {variable_name(field): field for field in cls.model_fields}
    values = {}
    for variable, text in env.items():
        if not variable.startswith(PREFIX) or variable.startswith(TEST_PREFIX):
            continue
        if variable not in fields:
            near = _suggestion(variable.removeprefix(PREFIX), cls, variable_name)
            raise SettingsError(f"unknown variable {variable}{near}")
        if text:
            values[fields[variable]] = text
    return _checked(cls, values, names={field: variable for variable, field in fields.items()})


def _from_toml(cls: type[Settings], path: Path) -> dict[str, Any]:
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"cannot read {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path} is not valid TOML: {error}") from error
    for key in values:
        if key not in cls.model_fields:
            raise SettingsError(f"unknown key {key!r} in {path}{_suggestion(key, cls, str)}")
    # TOML has types: the string "8000" or `true` for a number is a slip, not a spelling.
    return _checked(cls, values, names={key: f"{key} in {path}" for key in values}, strict=True)


def _checked(
    cls: type[Settings], values: Mapping[str, Any], *, names: Mapping[str, str], strict: bool = False
) -> dict[str, Any]:
    """The values of one source, converted; `names` says what the user wrote for each field."""
    try:
        settings = cls.model_validate(values, strict=strict, context=ONE_SOURCE)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = str(first["loc"][0])
        message = first["msg"][0].lower() + first["msg"][1:]
        if field in SECRETS:
            raise SettingsError(f"{names.get(field, field)}: {message}") from None
        raise SettingsError(f"{names.get(field, field)}: {message}, got {values.get(field)!r}") from error
    return {field: getattr(settings, field) for field in values}


def _suggestion(name: str, cls: type[Settings], spell: Callable[[str], str]) -> str:
    """The known name nearest to `name`, as its source spells it; all of them when none is near."""
    near = difflib.get_close_matches(name.lower().replace("-", "_"), cls.model_fields, n=1)
    if near:
        return f"; did you mean {spell(near[0])}?"
    return f"; known are: {', '.join(spell(field) for field in cls.model_fields)}"
