"""Other servers' names of settings: what they mean, and that the docs list exactly these."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from paceline import cli
from paceline.conversation.parsing.formats import check_parsers
from paceline.errors import SettingsError
from paceline.setting_aliases import ALIASES, REASONING_PARSERS, TOOL_PARSERS, UNNEEDED
from paceline.setting_sources import flag_name, variable_name
from paceline.settings import Settings

DOCS = Path(__file__).parents[1] / "docs" / "cli.md"

# Each alias: what is written, and the settings that it must be.
MEANINGS: dict[str, tuple[Any, dict[str, Any]]] = {
    "max_rows": (3, {"max_num_seqs": 3}),
    "max_model_len": (4096, {"context_length": 4096}),
    "max_num_batched_tokens": (512, {"prefill_chunk": 512}),
    "tool_call_parser": ("glm45", {"tool_parser": "glm"}),
    "enable_prefix_caching": (False, {"prefix_cache": False}),
    "num_speculative_tokens": (3, {"speculation": 3}),
    "speculative_model": ("small", {"draft_model": "small"}),
    "scheduling_policy": ("fcfs", {"scheduler_policy": "fifo"}),
    "allowed_origins": (["http://a"], {"cors_origin": ("http://a",)}),
    "allowed_local_media_path": ("/pictures", {"media_dir": "/pictures"}),
    "allowed_media_domains": (["a.example"], {"media_allowed_host": ("a.example",), "allow_remote_media": True}),
    "lora_modules": (['{"name": "poet", "path": "/b"}'], {"lora": ("poet=/b",)}),
    "uvicorn_log_level": ("debug", {"log_level": "debug"}),
    "prefill_step_size": (256, {"prefill_chunk": 256}),
    "chunked_prefill_tokens": (0, {"prefill_chunk": None}),
    "enable_prefix_cache": (True, {"prefix_cache": True}),
    "enable_log_requests": (True, {"log_prompts": True}),
    "disable_log_requests": (True, {"log_prompts": False}),
    "disable_prefix_cache": (True, {"prefix_cache": False}),
    "cache_memory_mb": (1000, {"cache_memory_gb": 1.048576}),
    "ssd_cache_dir": ("/cache", {"cache_dir": "/cache"}),
    "ssd_cache_max_gb": (5.0, {"cache_disk_gb": 5.0, "cache_dir": "/cache"}),
    "mtp_num_draft_tokens": (2, {"speculation": 2}),
    "timeout": (60.0, {"request_timeout": 60.0}),
    "default_temperature": (0.5, {"override_generation_config": {"temperature": 0.5}}),
    "default_top_p": (0.5, {"override_generation_config": {"top_p": 0.5}}),
    "default_top_k": (5, {"override_generation_config": {"top_k": 5}}),
    "default_min_p": (0.5, {"override_generation_config": {"min_p": 0.5}}),
    "default_presence_penalty": (1.5, {"override_generation_config": {"presence_penalty": 1.5}}),
    "default_repetition_penalty": (1.5, {"override_generation_config": {"repetition_penalty": 1.5}}),
    "max_tokens": (50, {"override_generation_config": {"max_new_tokens": 50}}),
    "temp": (0.5, {"override_generation_config": {"temperature": 0.5}}),
    "top_p": (0.5, {"override_generation_config": {"top_p": 0.5}}),
    "top_k": (5, {"override_generation_config": {"top_k": 5}}),
    "min_p": (0.5, {"override_generation_config": {"min_p": 0.5}}),
    "ctx_size": (4096, {"context_length": 4096}),
    "alias": (["a", "b"], {"served_model_name": ("a", "b")}),
}


def load(name: str, written: Any, source: str, folder: Path, others: dict[str, Any]) -> Settings:
    flags: dict[str, Any] = {key: value if isinstance(value, bool) else str(value) for key, value in others.items()}
    if source == "flag":
        plain = written if isinstance(written, bool | list) else str(written)
        return Settings.load({**flags, name: plain}, None, {})
    if source == "file":
        config = folder / "paceline.toml"
        config.write_text(f"{name} = {str(written).lower() if isinstance(written, bool) else repr(written)}\n")
        return Settings.load(flags, config, {})
    text = ",".join(written) if isinstance(written, list) else str(written)
    return Settings.load(flags, None, {variable_name(name): text})


@pytest.mark.parametrize("source", ["flag", "file", "variable"])
@pytest.mark.parametrize("name", ALIASES)
def test_another_servers_name_means_our_setting_in_every_source(name: str, source: str, tmp_path: Path) -> None:
    written, meant = MEANINGS[name]
    others = {key: value for key, value in meant.items() if key != ALIASES[name].setting}
    assert load(name, written, source, tmp_path, others) == Settings.model_validate(meant)


@pytest.mark.parametrize("source", ["flag", "file", "variable"])
@pytest.mark.parametrize("name", UNNEEDED)
def test_what_is_always_so_is_taken_and_changes_nothing(name: str, source: str, tmp_path: Path) -> None:
    assert load(name, True, source, tmp_path, {}) == Settings()
    if source != "flag":  # a switch that was not given is None
        with pytest.raises(SettingsError, match="nothing but true means anything here"):
            load(name, False, source, tmp_path, {})


@pytest.mark.parametrize(
    ("given", "meant"),
    [("32k", 32000), ("32K", 32768), ("1.5k", 1500), ("1M", 2**20), ("-1", None), ("auto", None), ("7", 7)],
)
def test_a_length_is_written_as_vllm_writes_it(given: str, meant: int | None) -> None:
    assert Settings.load({"max_model_len": given}, None, {}).context_length == meant


@pytest.mark.parametrize("given", [["http://a", "http://b"], ['["http://a", "http://b"]']])
def test_origins_are_repeated_flags_or_a_json_list(given: list[str]) -> None:
    assert Settings.load({"allowed_origins": given}, None, {}).cors_origin == ("http://a", "http://b")


def test_vllms_names_of_parsers_are_parsers_here() -> None:
    for theirs, ours in TOOL_PARSERS.items():
        check_parsers(ours, "auto")
        for flag in ("tool_parser", "tool_call_parser"):
            assert Settings.load({flag: theirs}, None, {}).tool_parser == ours
    for theirs, ours in REASONING_PARSERS.items():
        check_parsers("auto", ours)
        assert Settings.load({"reasoning_parser": theirs}, None, {}).reasoning_parser == ours


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ({"max_model_len": "x"}, "--max-model-len: input should be a valid integer"),
        ({"max_model_len": "xk"}, "--max-model-len: input should be a number, got 'xk'"),
        ({"max_model_len": "infk"}, "--max-model-len: input should be a finite number, got 'infk'"),
        ({"max_model_len": "-1e999M"}, "--max-model-len: input should be a finite number, got '-1e999M'"),
        ({"max_model_len": "nanK"}, "--max-model-len: input should be a finite number, got 'nanK'"),
        ({"cache_memory_mb": "0"}, "--cache-memory-mb: input should be greater than 0, got '0'"),
        ({"cache_memory_mb": "much"}, "--cache-memory-mb: input should be a number, got 'much'"),
        ({"default_temperature": "-1"}, "--default-temperature: temperature must be at least 0 and at most 100"),
        ({"allowed_origins": ["[x"]}, "--allowed-origins: input should be a JSON list"),
        ({"prefill_step_size": "1", "prefill_chunk": "2"}, "--prefill-step-size is the same as --prefill-chunk"),
        ({"temp": "1", "default_temperature": "2"}, "is the same as"),
        (
            {"override_generation_config": '{"top_p": 1}', "default_top_p": "1"},
            "--default-top-p is the same as --override-generation-config; give one of them",
        ),
        ({"enable_prefix_caching": True, "disable_prefix_cache": True}, "is the same as"),
    ],
)
def test_a_mistake_is_told_in_the_name_that_was_written(flags: dict[str, Any], words: str) -> None:
    with pytest.raises(SettingsError) as error:
        Settings.load(flags, None, {})
    assert words in str(error.value)


# -- the docs


def test_the_docs_list_exactly_the_flags_that_are_taken() -> None:
    """What each of them means is generated (`docs/reference_cli.py`)."""
    section = DOCS.read_text().partition("### Flags of other servers")[2].partition("\n## ")[0]
    tables = re.findall(r"<!-- generated: .*?<!-- end -->", section, re.DOTALL)
    listed = {flag for table in tables for flag in re.findall(r"`(--[a-z-]+)`", table)}
    ours = {flag_name(alias.setting) for alias in ALIASES.values()}
    assert listed == {flag_name(name) for name in (*ALIASES, *UNNEEDED)} | ours


def test_serve_takes_all_of_them_and_chat_those_of_its_settings() -> None:
    """As click sees them: the flags that the docs list are the flags that are parsed."""
    from typer.main import get_command

    commands = get_command(cli.app).commands  # type: ignore[attr-defined]
    flags = {name: {opt for param in commands[name].params for opt in param.opts} for name in ("serve", "chat")}
    assert {flag_name(name) for name in (*ALIASES, *UNNEEDED)} <= flags["serve"]
    assert {"--max-model-len", "--cache-memory-mb", "--default-top-p", "--mllm"} <= flags["chat"]
    assert not {"--alias", "--timeout"} & flags["chat"]
    assert CliRunner().invoke(cli.app, ["serve", "--help"]).output.count("--max-model-len") == 0
