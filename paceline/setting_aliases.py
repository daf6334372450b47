"""Names that other servers have for our settings, and flags of theirs that need no setting here.

Every source takes them: flags, the file, variables. docs/cli.md lists them; a test compares.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from paceline import generation_config
from paceline.errors import SettingsError
from paceline.generation_config import OVERRIDE

Convert = Callable[[Any, bool], Any]  # a value, and whether its source has types (TOML); raises ValueError


@dataclass(frozen=True, slots=True)
class Alias:
    """`convert` makes our value of theirs; without one the value is the same. `switch`: a flag
    without a value; `repeats`: it may be given more than once."""

    setting: str
    whose: str
    convert: Convert | None = None
    switch: bool = False
    repeats: bool = False
    note: str = ""  # what is different, for the docs


def _number(value: Any, strict: bool) -> float:
    if isinstance(value, str) and not strict:
        try:
            value = int(value)
        except ValueError:
            try:
                value = float(value)
            except ValueError:
                raise ValueError("input should be a number") from None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError("input should be a number")
    return value


SUFFIXES = {"k": 1000, "m": 1000**2, "g": 1000**3, "K": 2**10, "M": 2**20, "G": 2**30}


def length(value: Any, strict: bool) -> Any:
    """vLLM writes 32k for 32000 and 32K for 32768, and -1 for what the model was made for."""
    if isinstance(value, str) and value[-1:] in SUFFIXES:
        number = _number(value[:-1], False)
        if not math.isfinite(number):
            raise ValueError("input should be a finite number")
        return int(number * SUFFIXES[value[-1]])
    return "auto" if value in (-1, "-1", "auto") else value


def _or_auto(value: Any, strict: bool) -> Any:
    return "auto" if value in (0, "0") and value is not False else value


def _mebibytes(value: Any, strict: bool) -> float:
    number = _number(value, strict)
    if number <= 0:
        raise ValueError("input should be greater than 0")
    return number * 2**20 / 1e9


def _negated(value: Any, strict: bool) -> bool:
    given = str(value).lower()
    if isinstance(value, bool) or (not strict and given in ("true", "false", "1", "0", "yes", "no", "on", "off")):
        return given not in ("true", "1", "yes", "on")
    raise ValueError("input should be true or false")


def _json_list(value: Any, strict: bool) -> Any:
    """vLLM's lists are JSON."""
    items = [value] if isinstance(value, str) else value
    if isinstance(items, list | tuple) and len(items) == 1 and str(items[0]).startswith("["):
        try:
            return json.loads(items[0])
        except ValueError:
            raise ValueError("input should be a JSON list") from None
    return items


def _lora_modules(value: Any, strict: bool) -> Any:
    """vLLM's are name=path, or JSON with both."""
    items = [value] if isinstance(value, str) else value
    if not isinstance(items, list | tuple):
        return items
    found = []
    for item in items:
        if isinstance(item, str) and item.startswith("{"):
            try:
                given = json.loads(item)
                item = f"{given['name']}={given['path']}"
            except (ValueError, LookupError, TypeError):
                raise ValueError("input should be NAME=FOLDER, or JSON with name and path") from None
        found.append(item)
    return found


POLICIES = {"fcfs": "fifo"}
TOOL_PARSERS = {  # vLLM's and mlx-lm's names of what has another one here
    **dict.fromkeys(("deepseek_v3", "deepseek_v31"), "deepseek"),
    **dict.fromkeys(("glm45", "glm47", "laguna"), "glm"),
    **dict.fromkeys(("llama3", "llama", "llama4_json"), "llama3_json"),
    **dict.fromkeys(("pythonic", "llama4_pythonic"), "llama3_pythonic"),
    **dict.fromkeys(("openai", "harmony"), "gpt_oss"),
    **dict.fromkeys(("granite", "phi4_mini_json"), "json"),
    "functiongemma": "function_gemma",
    "gemma4": "gemma",
    "json_tools": "hermes",
    "minimax_m2": "minimax",
    **dict.fromkeys(("qwen3_xml", "seed_oss"), "qwen3_coder"),
}


REASONING_PARSERS = {
    **dict.fromkeys(("deepseek_v3", "glm4", "glm45", "kimi_k2", "minimax_m2", "olmo3"), "think"),
    **dict.fromkeys(("openai_gptoss", "harmony"), "gpt_oss"),
    "gemma4": "gemma",
    "seed_oss": "seed",
}


def renamed(value: object, names: Mapping[str, str]) -> object:
    """Our name of what another server calls otherwise."""
    return names.get(value, value) if isinstance(value, str) else value


def _one_key(key: str) -> Convert:
    def convert(value: Any, strict: bool) -> dict[str, Any]:
        return {key: generation_config.check_key(key, _number(value, strict))}

    return convert


def _default(key: str, whose: str) -> Alias:
    return Alias(OVERRIDE, whose, _one_key(key), note=f"its `{key}`")


BOTH = "vLLM, vllm-mlx"
ALIASES: Mapping[str, Alias] = {
    "max_rows": Alias("max_num_seqs", "Paceline, earlier"),
    "max_model_len": Alias("context_length", "vLLM", length, note="`32k` is 32000, `32K` is 32768, `-1` is `auto`"),
    "max_num_batched_tokens": Alias("prefill_chunk", "vLLM"),
    "tool_call_parser": Alias("tool_parser", BOTH, note="also vLLM's and mlx-lm's names of parsers"),
    "enable_prefix_caching": Alias("prefix_cache", "vLLM", switch=True),
    "num_speculative_tokens": Alias("speculation", "vLLM"),
    "speculative_model": Alias("draft_model", "vLLM"),
    "scheduling_policy": Alias(
        "scheduler_policy", "vLLM", lambda value, strict: renamed(value, POLICIES), note="`fcfs` is `fifo`"
    ),
    "allowed_origins": Alias("cors_origin", "vLLM, mlx-lm", _json_list, repeats=True, note="also a JSON list"),
    "allowed_local_media_path": Alias("media_dir", "vLLM"),
    "allowed_media_domains": Alias("media_allowed_host", "vLLM", repeats=True),
    "lora_modules": Alias("lora", "vLLM", _lora_modules, repeats=True, note="also JSON with `name` and `path`"),
    "uvicorn_log_level": Alias("log_level", "vLLM"),
    "enable_log_requests": Alias("log_prompts", "vLLM", switch=True, note="at the level info; vLLM's is debug"),
    "disable_log_requests": Alias("log_prompts", "vLLM", _negated, switch=True, note="the opposite"),
    "prefill_step_size": Alias("prefill_chunk", "vllm-mlx, mlx-lm"),
    "chunked_prefill_tokens": Alias("prefill_chunk", "vllm-mlx", _or_auto, note="`0` is `auto`"),
    "enable_prefix_cache": Alias("prefix_cache", "vllm-mlx", switch=True),
    "disable_prefix_cache": Alias("prefix_cache", "vllm-mlx", _negated, switch=True, note="the opposite"),
    "cache_memory_mb": Alias("cache_memory_gb", "vllm-mlx", _mebibytes, note="in MiB"),
    "ssd_cache_dir": Alias("cache_dir", "vllm-mlx"),
    "ssd_cache_max_gb": Alias("cache_disk_gb", "vllm-mlx"),
    "mtp_num_draft_tokens": Alias("speculation", "vllm-mlx"),
    "timeout": Alias("request_timeout", "vllm-mlx"),
    "default_temperature": _default("temperature", "vllm-mlx"),
    "default_top_p": _default("top_p", "vllm-mlx"),
    "default_top_k": _default("top_k", "vllm-mlx"),
    "default_min_p": _default("min_p", "vllm-mlx"),
    "default_presence_penalty": _default("presence_penalty", "vllm-mlx"),
    "default_repetition_penalty": _default("repetition_penalty", "vllm-mlx"),
    "max_tokens": _default("max_new_tokens", "vllm-mlx, mlx-lm"),
    "temp": _default("temperature", "mlx-lm"),
    "top_p": _default("top_p", "mlx-lm"),
    "top_k": _default("top_k", "mlx-lm"),
    "min_p": _default("min_p", "mlx-lm"),
    "ctx_size": Alias("context_length", "llama.cpp", _or_auto, note="`0` is `auto`"),
    "alias": Alias("served_model_name", "llama.cpp", repeats=True),
}
# Switches of others for what is always so here.
UNNEEDED: Mapping[str, tuple[str, str]] = {
    "continuous_batching": ("vllm-mlx", "batching is always continuous"),
    "enable_mtp": ("vllm-mlx", "an MTP head is found in the model's files, and used under `--speculation`"),
    "mllm": ("vllm-mlx", "vision is found in the model's files"),
    "use_paged_cache": ("vllm-mlx", "memory is always managed for all sequences together"),
    "enable_metrics": ("vllm-mlx", "`/metrics` is always there"),
    "enable_auto_tool_choice": (BOTH, "tools are always taken"),
    "enable_chunked_prefill": ("vLLM", "prefill is always chunked"),
    "enable_lora": ("vLLM", "adapters are served where they are named"),
    "trust_remote_code": (BOTH, "a model's own code is never run"),
}


def resolve(
    given: Mapping[str, Any], spell: Callable[[str], str], *, strict: bool
) -> tuple[dict[str, Any], dict[str, str]]:
    """One source's values by our names, and the names that they were given by. Raises SettingsError."""
    values: dict[str, Any] = {}
    names: dict[str, str] = {}
    for name, value in given.items():
        if name in UNNEEDED:
            if value not in (True, "1", "true", "True"):
                raise SettingsError(f"{spell(name)}: nothing but true means anything here, got {value!r}")
            continue
        alias = ALIASES.get(name)
        setting = name if alias is None else alias.setting
        try:
            if alias is not None and alias.convert is not None:
                value = alias.convert(value, strict)
            elif name == OVERRIDE:
                value = generation_config.overrides(value)
        except ValueError as error:
            raise SettingsError(f"{spell(name)}: {error}, got {value!r}") from None
        if setting in values:
            before = values[setting]
            twice = setting != OVERRIDE or any(key in before for key in value)
            if twice:
                other, again = (name, names[setting]) if alias is not None else (names[setting], name)
                raise SettingsError(f"{spell(other)} is the same as {spell(again)}; give one of them")
            value = {**before, **value}
        values[setting] = value
        names[setting] = name
    return values, names


def over(strong: Mapping[str, Any], weak: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a source over those of a weaker one; sampling defaults key by key."""
    both = {**weak, **strong}
    if OVERRIDE in weak and OVERRIDE in strong:
        both[OVERRIDE] = {**weak[OVERRIDE], **strong[OVERRIDE]}
    return both
