"""One frozen settings object: everything that can be set. `setting_sources` reads it from where it is set."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Self, cast, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationInfo, model_validator

from paceline.errors import SettingsError
from paceline.setting_aliases import REASONING_PARSERS, TOOL_PARSERS, over, renamed
from paceline.setting_sources import ONE_SOURCE, from_env, from_flags, from_toml
from paceline.setting_values import (
    NEEDED,
    ApiKeys,
    AutoCount,
    AutoGigabytes,
    AutoMilliseconds,
    AutoRoom,
    AutoSeconds,
    AutoTokens,
    AutoWindow,
    Count,
    Dequantize,
    DType,
    Folder,
    GenerationConfig,
    Hosts,
    KVBits,
    KVGroupSize,
    KVLayout,
    LogFormat,
    LogLevel,
    Loras,
    Method,
    Methods,
    MetricsAlias,
    Names,
    Origins,
    Override,
    Parallel,
    Pooling,
    SchedulerPolicy,
    Seconds,
    ServedNames,
    ShapeBucketing,
    SparsePrefill,
    SpeculationMode,
    StartupChecks,
    WebAddress,
)


def setting(metavar: str, default: Any, description: str, *, panel: str | None = None, **limits: Any) -> Any:
    """A field, and how `--help` shows its flag. `metavar`: the word for its value, "" for a switch. `panel` begins a
    group of flags."""
    shown: dict[str, Any] = {"panel": panel, "metavar": metavar}
    return Field(default=default, description=description, json_schema_extra=shown, **limits)


class Settings(BaseModel):
    """Everything that can be set."""

    # hide_input_in_errors: a traceback must not show a key that was mistyped.
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True, hide_input_in_errors=True)

    model: str | None = setting(
        "MODEL", None, "A folder or a Hugging Face id. Default: paceline-mini, the small demonstration model inside."
    )

    served_model_name: ServedNames = setting(
        "NAME",
        (),
        "The name clients use for the model; may be repeated: all answer, and the first is shown. "
        "Default: MODEL as you gave it.",
        panel="Server",
    )
    any_model_name: bool = setting("", False, "Answer requests for a model of any name, whatever is served.")
    host: str = setting("ADDRESS", "127.0.0.1", "Address to listen on.", min_length=1)
    port: int = setting("N", 8000, "Port to listen on; 0 takes any free one.", ge=0, le=65535)
    drain_seconds: float = setting(
        "SECONDS", 30.0, "On SIGTERM or Ctrl+C, how long requests may go on.", ge=0, allow_inf_nan=False
    )
    stream_keepalive_seconds: AutoSeconds = setting(
        "SECONDS|none", 10.0, "A stream that has sent nothing for so long sends an SSE comment; none: it stays silent."
    )
    metrics_alias: MetricsAlias = setting(
        "vllm|none", "none", "Show a few metrics under vLLM's names too, for routers and autoscalers that read those."
    )
    web: bool = setting("", True, "Show browsers a page at /: a chat, and the batch as it runs.")
    log_level: LogLevel = setting("LEVEL", "info", "The least important line that is logged.")
    log_format: LogFormat = setting("FORMAT", "text", "How lines are logged: as text, or as one JSON object a line.")
    log_prompts: bool = setting("", False, "Log the text of every prompt; otherwise no text of a request is logged.")
    max_log_len: Count = setting("N", 2000, "With --log-prompts, so many characters of each.")
    otlp: WebAddress = setting(
        "URL",
        None,
        "OpenTelemetry collector to send a span of every request to, such as http://127.0.0.1:4318. Default: none.",
    )

    models_dir: Folder = setting(
        "FOLDER",
        None,
        "Serve every model in this folder too (FOLDER/name or FOLDER/owner/name). Default: none.",
        panel="Several models",
    )
    hf_cache: bool = setting("", False, "Serve every model in the Hugging Face cache of this user too.")
    default_model: str | None = setting(
        "NAME",
        None,
        "The model that answers requests for unknown names. Default: such a request is a 404; one without a name goes "
        "to the first model.",
        min_length=1,
    )
    idle_unload: AutoSeconds = setting(
        "SECONDS|none", None, "Unload a model that nobody has used for this long; none: only to make room."
    )

    ranks: int = setting(
        "N",
        1,
        "Split the model over so many processes of this machine, as tensor parallel ranks.",
        panel="Several ranks",
        ge=1,
        le=64,
    )
    parallel: Parallel = setting(
        "tensor|none", "none", "This process is one of the ranks that mlx.launch started: they split the model."
    )
    rank_port: int = setting("N", 32390, "Port where rank 0 waits for the others.", ge=1, le=65535)
    rank_secret_file: Folder = setting(
        "FILE", None, "File with the secret that ranks have in common. Default: the variable PACELINE_RANK_SECRET."
    )
    rank_start_seconds: Seconds = setting("SECONDS", 120.0, "How long rank 0 waits for the others to come.")
    rank_timeout_seconds: Seconds = setting(
        "SECONDS", 10.0, "A rank that has not answered for this long is lost, and all ranks end."
    )

    api_key: ApiKeys = setting(
        "KEY",
        (),
        "Key that clients must send; may be repeated. Other users see it in the process list: "
        "the file and the variable are more private.",
        panel="Access",
    )
    api_key_file: Folder = setting("FILE", None, "File with one such key per line.")
    admin_key: ApiKeys = setting(
        "KEY",
        (),
        "Key for what changes the server, such as clearing the cache; may be repeated. "
        "Default: only from this machine.",
    )
    admin_key_file: Folder = setting("FILE", None, "File with one such key per line.")
    cors_origin: Origins = setting(
        "ORIGIN",
        (),
        "Origin whose web pages may use the server, such as https://chat.example.org; may be repeated. Default: none.",
    )
    allowed_host: Names = setting(
        "HOST",
        (),
        "Name by which clients may reach a server without keys on this machine, as my-laptop.local; may be "
        "repeated. Default: names of this machine's own addresses only.",
    )

    max_num_seqs: Count = setting(
        "N", 64, "Sequences that run together, each choice of a request being one; later ones wait.", panel="Engine"
    )
    prefill_chunk: AutoCount = setting(
        "N|auto", None, "Prompt tokens a step may take beside decoding; auto: the engine chooses."
    )
    kv_layout: KVLayout = setting(
        "LAYOUT", "auto", "How the sequences' keys and values lie in memory; auto: what is faster on this device."
    )
    kv_bits: KVBits = setting(
        "8|4|none",
        None,
        "Quantize keys and values to so many bits: about twice or four times the sequences or context in the same "
        "memory, for a small error and some speed. none: they keep the type that the model computes in.",
    )
    kv_group_size: KVGroupSize = setting("N", 64, "Numbers that share a scale in quantized keys and values.")
    quantized_kv_start: int = setting(
        "N", 0, "The first N tokens of a sequence keep exact keys and values, in layers without a window.", ge=0
    )
    shape_buckets: ShapeBucketing = setting(
        "MODE",
        "auto",
        "Pad batches, prompts and buffers to a few sizes, so that a GPU sees no new shapes; auto: on a GPU.",
    )
    dtype: DType = setting("TYPE", "auto", "Type to compute in; auto: float32 on CPU, the checkpoint's own elsewhere.")
    dequantize: Dequantize = setting(
        "MODE",
        "auto",
        "On CPU, make quantized weights dense at load, which is several times faster: auto (where memory allows), "
        "or off (they stay quantized). Other devices always keep them.",
    )
    speculation: SpeculationMode = setting(
        "MODE", "auto", "Draft tokens and verify them: off, auto (as many as pay), or a fixed number of tokens."
    )
    speculation_methods: Methods = setting(
        "NAME,...|auto",
        None,
        "Who may draft: mtp (the model's own head), lookup (what the prompt or the answer repeats), grammar (what a "
        "grammar forces), draft_model; auto: all that the model allows.",
    )
    draft_model: str | None = setting(
        "MODEL",
        None,
        "A smaller model with the same tokenizer that drafts, loaded beside the model; a folder or an id, as MODEL. "
        "Default: none.",
        min_length=1,
    )
    lookup_answers: bool = setting("", True, "Lookup also in recent answers to the same tenant.")
    max_draft: int = setting(
        "N",
        32,
        "Most tokens that a sequence may draft in one step; the MTP head and a draft model draft 8 at most.",
        ge=1,
        le=32,
    )
    context_length: AutoTokens = setting(
        "N|auto",
        None,
        "Longest prompt plus answer, in tokens (32k: 32000, 32K: 32768); auto: what the model was made for.",
    )
    tool_parser: Annotated[str, BeforeValidator(partial(renamed, names=TOOL_PARSERS))] = setting(
        "NAME", "auto", "How the model writes tool calls: auto (from its template), none, or a name."
    )
    reasoning_parser: Annotated[str, BeforeValidator(partial(renamed, names=REASONING_PARSERS))] = setting(
        "NAME", "auto", "How the model marks its reasoning: auto (from its template), none, or a name."
    )
    chat_template: Folder = setting("FILE", None, "A Jinja file to use instead of the model's own chat template.")
    generation_config: GenerationConfig = setting(
        "FILE|auto|none",
        "auto",
        "Where sampling defaults come from: auto (the model's generation_config.json), none, or such a file.",
    )
    override_generation_config: Override = setting(
        "JSON",
        {},
        "Sampling defaults over those, such as '{\"temperature\": 0.7}'; a request's own fields come first. "
        "Default: none.",
    )
    lora: Loras = setting(
        "NAME=FOLDER",
        (),
        "A LoRA adapter of the model, in mlx-lm's or PEFT's layout; requests choose it by its name as their model; "
        "may be repeated. Default: none.",
    )
    embedding_pooling: Pooling = setting(
        "KIND", "mean", "What /v1/embeddings makes of a text's hidden states: their mean, or the last one."
    )
    startup_checks: StartupChecks = setting(
        "MODE", "auto", "Check the model at start: always, or auto (where something has changed since it passed)."
    )
    blas: str | None = setting(
        "PATH|none",
        None,
        "Linux CPU: path of the BLAS library to load, or 'none'. Default: search for a fast one.",
        min_length=1,
    )

    memory_limit_gb: AutoGigabytes = setting(
        "GB|auto", None, "Memory that the server may use in all; auto: what the device recommends.", panel="Memory"
    )
    scheduler_headroom_gb: AutoRoom = setting(
        "GB|auto", None, "Of that, what stays free for allocations that cannot be counted; auto: a tenth."
    )

    scheduler_policy: SchedulerPolicy = setting(
        "POLICY",
        "fifo",
        "Who comes next: fifo (in order of arrival), shortest_first (fewest prompt tokens to compute), "
        "priority (the request's own number, lower first), fair (the user who was served least, by key or address).",
        panel="Scheduling",
    )
    starvation_seconds: Seconds = setting(
        "SECONDS", 30.0, "A request that has waited this long comes first, whatever the policy."
    )
    max_queue: int = setting(
        "N", 256, "Requests that may wait for their turn; more are refused (429, Retry-After).", ge=0
    )
    queue_timeout: AutoSeconds = setting(
        "SECONDS|none", 300.0, "Seconds a request may wait for its turn, then 503 with Retry-After; none: no limit."
    )
    first_token_timeout: AutoSeconds = setting(
        "SECONDS|none", None, "Seconds until a request's first token must have come; none: no limit."
    )
    request_timeout: AutoSeconds = setting(
        "SECONDS|none", None, "Seconds a request may take from its arrival to its end; none: no limit."
    )
    max_unread_tokens: Count = setting(
        "N", 16384, "Tokens of an answer that may wait for a slow reader, before it is cut off."
    )
    stall_target_ms: AutoMilliseconds = setting(
        "MS|none",
        250.0,
        "Longest pause between two tokens of a running stream that prompts of others should cause; prefill "
        "chunks shrink and grow to keep it. none: chunks are always as large as they may be.",
    )

    prefix_cache: bool = setting(
        "", True, "Keep what was computed for prompts, for prompts that begin alike.", panel="Prefix cache"
    )
    cache_memory_gb: AutoGigabytes = setting(
        "GB|auto", None, "Memory for cached prefixes; auto: half of what the weights leave."
    )
    cache_dir: Folder = setting("FOLDER", None, "Folder where prefixes are kept across restarts. Default: memory only.")
    cache_disk_gb: float = setting("GB", 20.0, "Most that the folder may hold.", gt=0, allow_inf_nan=False)
    vision_cache_mb: int = setting("MB", 256, "Memory for features of images seen before; 0: none.", ge=0)

    files_dir: Folder = setting(
        "FOLDER", None, "Folder for /v1/files and /v1/batches. Default: there are neither.", panel="Files and batches"
    )
    files_gb: float = setting("GB", 10.0, "Most that files may have together.", gt=0, allow_inf_nan=False)
    files_days: float = setting("DAYS", 30.0, "How long files and batches are kept.", gt=0, le=3650)

    specprefill: SparsePrefill = setting(
        "MODE",
        "off",
        "Prefill long prompts sparsely: a draft model finds the parts that matter, and only those are prefilled. "
        "An approximation. auto: wherever enough is left to compute; off: only for requests that ask for it.",
        panel="Sparse prefill (SpecPrefill)",
    )
    specprefill_draft_model: str | None = setting(
        "MODEL",
        None,
        "The draft: a small model with the same tokenizer, loaded beside the model; a folder or an id, as "
        "MODEL. Default: none, and no request can ask for sparse prefill.",
        min_length=1,
    )
    specprefill_threshold: Count = setting(
        "N", 8192, "Prompt tokens that must be left to compute, behind the instructions, before auto prefills sparsely."
    )
    specprefill_keep_pct: float = setting(
        "SHARE",
        0.3,
        "Share of them that is read, from 0.1 to 1.0, unless a request says another; 1.0: all.",
        ge=0.1,
        le=1.0,
        allow_inf_nan=False,
    )
    specprefill_max_tokens: Count = setting(
        "N", 196_608, "With more left to compute than this, a prompt is read whole, and counted."
    )
    specprefill_chunk: AutoCount = setting(
        "N|auto", None, "Prompt tokens that the draft reads in one step; auto: the engine chooses."
    )
    specprefill_window: AutoWindow = setting(
        "N|auto",
        None,
        "Tokens that the draft looks back while it reads, like 512: far cheaper for long prompts. "
        "0: all, as published; auto: what the draft's config.json says, or all. What it scores with sees all.",
    )

    strict_fields: bool = setting(
        "",
        False,
        "Refuse requests with unknown fields (400). Default: they are named in the log and in a response header.",
        panel="Request limits",
    )
    trust_request_chat_template: bool = setting(
        "", False, "Take a chat_template from requests. It runs in a sandbox, with limits."
    )
    max_choices: Count = setting("N", 16, "Most choices (n) a request may ask for.")
    max_stop_strings: Count = setting("N", 16, "Most stop strings a request may have.")
    max_logprobs: int = setting("N", 20, "Most top_logprobs a request may ask for.", ge=0)
    max_body_mb: Count = setting("N", 32, "Largest request body, in MiB.")
    body_timeout_seconds: Seconds = setting(
        "SECONDS", 30.0, "How long a client may pause while it sends a request, before it is cut off."
    )
    max_connections: Count = setting("N", 1000, "Most connections at a time, idle ones included.")
    max_images: Count = setting("N", 64, "Most images a request may carry.")
    max_image_pixels: Count = setting("N", 64_000_000, "Most pixels an image may have.")
    max_videos: Count = setting("N", 4, "Most videos a request may carry.")
    max_video_seconds: Seconds = setting("SECONDS", 300.0, "Longest video, in seconds.")
    video_fps: Annotated[float, Field(gt=0, le=240)] = setting(
        "N", 2.0, "Frames taken of a video's second, where a request does not say."
    )
    video_max_frames: Count = setting(
        "N", 64, "Most frames taken of a video; of a longer one they are taken further apart."
    )

    allow_remote_media: bool = setting(
        "", False, "Fetch images from http(s) addresses; never from private networks.", panel="Remote media"
    )
    media_allowed_host: Hosts = setting(
        "HOST",
        (),
        "Fetch from this host only, as in example.org, *.example.org or example.org:8443; may be repeated. "
        "Default: any public host, ports 80 and 443.",
    )
    media_timeout_seconds: Seconds = setting(
        "SECONDS", 10.0, "How long fetching the images of one request may take in all."
    )
    media_dir: Folder = setting(
        "FOLDER", None, "Read images from file: addresses under this folder. Default: from none."
    )

    @classmethod
    def load(cls, flags: Mapping[str, Any], config: Path | None, env: Mapping[str, str]) -> Self:
        """Flags over the TOML file over `PACELINE_*` variables over the defaults.

        Every source is checked in full, also where a stronger one overrules it: a mistake that waits in a
        file is still a mistake. A flag that is None and a variable that is empty count as not given.
        """
        given = from_env(cls, env)
        if config is not None:
            given = over(from_toml(cls, config), given)
        return cls.model_validate(over(from_flags(cls, flags), given))

    @classmethod
    def panels(cls) -> dict[str, dict[str, str]]:
        """What `--help` groups together, and the word it shows for each flag's value."""
        panels: dict[str, dict[str, str]] = {}
        for field, setting in cls.model_fields.items():
            shown = cast(dict[str, str], setting.json_schema_extra)
            if shown["panel"]:
                flags = panels.setdefault(shown["panel"], {})
            if field != "model":  # an argument
                flags[field] = shown["metavar"]
        return panels

    @property
    def given(self) -> dict[str, Any]:
        """What was set."""
        return {name: getattr(self, name) for name in self.model_fields_set}

    @property
    def draft_methods(self) -> tuple[Method, ...]:
        """The methods that may draft, as far as the model allows them."""
        return get_args(Method) if self.speculation_methods is None else self.speculation_methods

    @property
    def kv_quantization(self) -> tuple[int, int, int] | None:
        """Bits, group size, and tokens that are not quantized."""
        return None if self.kv_bits is None else (self.kv_bits, self.kv_group_size, self.quantized_kv_start)

    @property
    def loras(self) -> dict[str, Path]:
        """Folders of the adapters by name."""
        pairs = (given.partition("=") for given in self.lora)
        return {name: Path(folder).expanduser() for name, _, folder in pairs}

    @property
    def several_ranks(self) -> bool:
        return self.ranks > 1 or self.parallel != "none"

    @property
    def served_names(self) -> tuple[str, ...]:
        return tuple(self.served_model_name)

    @property
    def served_name(self) -> str | None:
        """The name that answers and metrics show, if one is set."""
        return next(iter(self.served_names), None)

    @model_validator(mode="after")
    def _check_combinations(self, info: ValidationInfo) -> Self:
        if isinstance(self.speculation, int) and self.speculation > self.max_draft:
            raise SettingsError(f"speculation {self.speculation} is more than max_draft {self.max_draft}")
        if len(self.loras) < len(self.lora):
            raise SettingsError("lora has two adapters of one name")
        if info.context == ONE_SOURCE:
            return self
        for name in self.loras:
            if name in (*self.served_names, self.model):
                raise SettingsError(f"lora {name} has the name of the model itself")
        if self.media_allowed_host and not self.allow_remote_media:
            raise SettingsError(
                "media_allowed_host limits what is fetched: set allow_remote_media too, or leave it out"
            )
        if self.specprefill == "auto" and self.specprefill_draft_model is None:
            raise SettingsError(
                "specprefill auto needs a draft model: "
                "set specprefill_draft_model (--specprefill-draft-model) too, or leave it off"
            )
        for names, purpose, needed in NEEDED:
            wanted = any(getattr(self, name) != Settings.model_fields[name].default for name in needed)
            for name in () if wanted else names:
                if name in self.model_fields_set:
                    raise SettingsError(f"{name} {purpose}: set {' or '.join(needed)} too, or leave it out")
        if self.log_prompts and self.log_level not in ("debug", "info"):
            raise SettingsError(f"log_prompts logs at the level info, and log_level is {self.log_level}")
        if self.draft_model is not None and "draft_model" not in self.draft_methods:
            raise SettingsError("draft_model is for drafting: name it in speculation_methods too, or leave it out")
        if self.specprefill == "auto" and self.specprefill_max_tokens < self.specprefill_threshold:
            raise SettingsError(
                f"specprefill_max_tokens {self.specprefill_max_tokens} is less than specprefill_threshold "
                f"{self.specprefill_threshold}: no prompt would be prefilled sparsely"
            )
        return self
