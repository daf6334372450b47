from __future__ import annotations

import traceback
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from paceline.errors import SettingsError
from paceline.setting_sources import flag_name, variable_name
from paceline.settings import Settings
from paceline.sparse.rules import MAX_KEEP_RATIO, MIN_KEEP_RATIO
from paceline.types import SPECULATION_METHODS


def toml(folder: Path, text: str) -> Path:
    path = folder / "paceline.toml"
    path.write_text(text)
    return path


def complaint(
    flags: dict[str, object] | None = None, config: Path | None = None, env: dict[str, str] | None = None
) -> str:
    with pytest.raises(SettingsError) as error:
        Settings.load(flags or {}, config, env or {})
    return str(error.value)


def test_without_any_source_the_defaults_hold() -> None:
    assert Settings.load({}, None, {}) == Settings()
    assert Settings().host == "127.0.0.1"
    assert Settings().port == 8000
    assert Settings().max_num_seqs == 64


def test_a_flag_beats_the_file_and_the_file_beats_the_variable(tmp_path: Path) -> None:
    config = toml(tmp_path, "port = 2\nmax_num_seqs = 20\n")
    env = {"PACELINE_PORT": "1", "PACELINE_MAX_NUM_SEQS": "10", "PACELINE_DRAIN_SECONDS": "2.5"}

    settings = Settings.load({"port": "3"}, config, env)

    assert (settings.port, settings.max_num_seqs, settings.drain_seconds) == (3, 20, 2.5)


def test_a_flag_that_was_not_given_and_an_empty_variable_leave_the_weaker_source_alone(
    tmp_path: Path,
) -> None:
    settings = Settings.load({"port": None}, toml(tmp_path, "port = 2"), {"PACELINE_PORT": "", "HOME": "/"})
    assert settings.port == 2


def test_auto_undoes_what_a_weaker_source_fixed(tmp_path: Path) -> None:
    config = toml(tmp_path, "prefill_chunk = 512\ncontext_length = 4096\n")
    settings = Settings.load({"prefill_chunk": "auto"}, config, {})
    assert settings.prefill_chunk is None
    assert settings.context_length == 4096


def test_every_setting_can_be_given_in_every_source(tmp_path: Path) -> None:
    values = Settings().model_dump(exclude_none=True)
    values |= {
        "model": "m",
        "served_model_name": ["s", "t"],
        "prefill_chunk": 1,
        "context_length": 2,
        "blas": "none",
        "cache_memory_gb": 1.5,
        "cache_dir": "/cache",
        "files_dir": "/files",
        "log_prompts": True,
        "otlp": "http://collector:4318",
        "api_key": ["a", "b"],
        "api_key_file": "/keys",
        "admin_key": ["c"],
        "admin_key_file": "/admins",
        "cors_origin": ["https://a.example", "http://localhost:3000"],
        "allowed_host": ["a.example", "b"],
        "allow_remote_media": True,
        "media_allowed_host": ["a.example", "*.b.example:8443"],
        "media_dir": "/pictures",
        "chat_template": "/template.jinja",
        "memory_limit_gb": 2.5,
        "scheduler_headroom_gb": 0.5,
        "first_token_timeout": 3.5,
        "request_timeout": 4.5,
        "speculation_methods": ["mtp", "lookup", "draft_model"],
        "draft_model": "e",
        "specprefill": "auto",
        "specprefill_draft_model": "d",
        "specprefill_chunk": 3,
        "specprefill_window": 4,
        "generation_config": "/generation.json",
        "override_generation_config": '{"temperature": 0.5}',
        "any_model_name": True,
        "models_dir": "/models",
        "ranks": 2,
        "rank_secret_file": "/secret",
        "default_model": "m",
        "idle_unload": 60.5,
        "lora": ["sql=/a", "poet=/b"],
        "kv_bits": 8,
    }
    assert values.keys() == Settings.model_fields.keys()
    text = "\n".join(f"{k} = {str(v).lower() if isinstance(v, bool) else repr(v)}" for k, v in values.items())
    expected = Settings.model_validate(values)
    words = {k: ",".join(v) if isinstance(v, list) else str(v) for k, v in values.items()}

    assert Settings.load({k: v if isinstance(v, list) else str(v) for k, v in values.items()}, None, {}) == expected
    assert Settings.load({}, toml(tmp_path, text), {}) == expected
    assert Settings.load({}, None, {variable_name(k): v for k, v in words.items()}) == expected


def test_an_unknown_key_in_the_file_is_an_error_that_suggests_the_nearest(tmp_path: Path) -> None:
    config = toml(tmp_path, "max-num-seq = 3")
    assert complaint(config=config) == f"unknown key 'max-num-seq' in {config}; did you mean max_num_seqs?"


def test_an_unknown_variable_is_an_error_that_suggests_the_nearest() -> None:
    assert complaint(env={"PACELINE_MAXNUMSEQS": "3"}) == (
        "unknown variable PACELINE_MAXNUMSEQS; did you mean PACELINE_MAX_NUM_SEQS?"
    )


def test_an_unknown_name_that_resembles_nothing_lists_what_there_is() -> None:
    assert "known are: PACELINE_MODEL, PACELINE_SERVED_MODEL_NAME" in complaint(env={"PACELINE_QQ": "3"})


def test_an_unknown_flag_is_an_error() -> None:
    assert complaint({"max_num_seq": 3}) == "unknown flag --max-num-seq; did you mean --max-num-seqs?"


def test_an_older_name_is_taken_in_every_source(tmp_path: Path) -> None:
    expected = Settings(max_num_seqs=3)
    assert Settings.load({"max_rows": "3"}, None, {}) == expected
    assert Settings.load({}, toml(tmp_path, "max_rows = 3"), {}) == expected
    assert Settings.load({}, None, {"PACELINE_MAX_ROWS": "3"}) == expected
    assert Settings.load({"max_rows": "3"}, toml(tmp_path, "max_num_seqs = 5"), {}) == expected


def test_an_error_has_the_name_that_was_written_and_two_names_of_one_setting_are_a_mistake(tmp_path: Path) -> None:
    assert complaint(env={"PACELINE_MAX_ROWS": "0"}).startswith("PACELINE_MAX_ROWS: ")
    config = toml(tmp_path, "max_rows = 3\nmax_num_seqs = 3")
    assert complaint(config=config) == (
        f"max_rows in {config} is the same as max_num_seqs in {config}; give one of them"
    )


def test_the_test_suites_own_variables_are_no_settings() -> None:
    assert Settings.load({}, None, {"PACELINE_TEST_ANYTHING": "1"}) == Settings()


def test_a_bad_value_names_the_source_it_came_from(tmp_path: Path) -> None:
    config = toml(tmp_path, "max_num_seqs = 0")
    assert complaint({"port": "x"}).startswith("--port: ")
    assert complaint(env={"PACELINE_PORT": "70000"}).startswith("PACELINE_PORT: ")
    assert complaint(config=config).startswith(f"max_num_seqs in {config}: ")


def test_a_bad_value_is_quoted_beside_what_was_expected() -> None:
    assert complaint({"kv_layout": "paged"}) == (
        "--kv-layout: input should be 'auto', 'rows', 'similar' or 'padded', got 'paged'"
    )


def test_a_mistake_in_a_weak_source_is_an_error_even_where_a_flag_overrules_it() -> None:
    assert complaint({"port": "1"}, env={"PACELINE_PORT": "x"}).startswith("PACELINE_PORT: ")


def test_bits_of_keys_and_values_come_from_every_source(tmp_path: Path) -> None:
    config = toml(tmp_path, "kv_bits = 4\nkv_group_size = 32\nquantized_kv_start = 100")
    assert Settings.load({}, config, {}).kv_quantization == (4, 32, 100)
    assert Settings.load({"kv_bits": "8"}, None, {}).kv_quantization == (8, 64, 0)
    assert Settings.load({"kv_bits": "none"}, None, {"PACELINE_KV_BITS": "8"}).kv_quantization is None
    assert complaint({"kv_bits": "5"}) == "--kv-bits: input should be 8 or 4, got '5'"
    assert complaint({"kv_bits": "8", "kv_group_size": "48"}).startswith("--kv-group-size: input should be 32, 64 or")
    for name in ("kv_group_size", "quantized_kv_start"):
        assert "set kv_bits too" in complaint({name: "64"})


@pytest.mark.parametrize("value", ["on", "OFF", "0", "9", "-1", "2.5", "true"])
def test_a_speculation_that_is_no_mode_is_one_line_from_every_source(tmp_path: Path, value: str) -> None:
    config = toml(tmp_path, f"speculation = '{value}'")
    for name, line in {
        "--speculation": complaint({"speculation": value}),
        "PACELINE_SPECULATION": complaint(env={"PACELINE_SPECULATION": value}),
        f"speculation in {config}": complaint(config=config),
    }.items():
        assert line.startswith(f"{name}: input should be 'off'")
        assert line.endswith(f", got {value!r}")
        assert len(line.splitlines()) == 1


@pytest.mark.parametrize("value", ["true", "'3'", "3.0", "0", "9", "[3]"])
def test_a_speculation_in_the_file_is_a_word_or_an_integer(tmp_path: Path, value: str) -> None:
    config = toml(tmp_path, f"speculation = {value}")
    assert complaint(config=config).startswith(f"speculation in {config}: input should be 'off'")


@pytest.mark.parametrize("line", ["port = '8000'", "max_num_seqs = true", "model = 3", "drain_seconds = nan"])
def test_the_file_has_types_and_a_value_of_another_type_is_an_error(tmp_path: Path, line: str) -> None:
    assert line.split(" ")[0] in complaint(config=toml(tmp_path, line))


def test_a_file_that_is_missing_or_no_toml_is_one_clear_line(tmp_path: Path) -> None:
    missing = tmp_path / "none.toml"
    assert complaint(config=missing) == f"cannot read {missing}: No such file or directory"
    assert "is not valid TOML" in complaint(config=toml(tmp_path, "port 8000"))


def test_the_log_level_is_read_in_any_case() -> None:
    assert Settings.load({"log_level": "DEBUG"}, None, {}).log_level == "debug"


def test_settings_cannot_be_changed_or_given_unknown_fields() -> None:
    with pytest.raises(ValidationError):
        Settings().port = 1
    with pytest.raises(ValidationError):
        Settings(prot=1)  # type: ignore[call-arg]


def test_every_setting_has_a_description() -> None:
    assert [flag_name(k) for k, field in Settings.model_fields.items() if not field.description] == []


def test_methods_of_speculation_are_those_that_the_engine_knows() -> None:
    assert Settings().draft_methods == SPECULATION_METHODS
    assert Settings(speculation_methods=("lookup",)).draft_methods == ("lookup",)
    assert (
        Settings.load({"speculation_methods": "auto"}, None, {"PACELINE_SPECULATION_METHODS": "mtp,lookup"})
        == Settings()
    )
    assert Settings.load({}, None, {"PACELINE_SPECULATION_METHODS": "mtp,lookup"}).draft_methods == ("mtp", "lookup")
    assert "PACELINE_SPECULATION_METHODS" in complaint(env={"PACELINE_SPECULATION_METHODS": "mtp,eagle"})


def test_a_draft_length_beyond_max_draft_is_refused() -> None:
    with pytest.raises(SettingsError, match="speculation 6 is more than max_draft 4"):
        Settings(speculation=6, max_draft=4)


def test_a_draft_length_and_a_max_draft_from_two_sources_must_fit() -> None:
    with pytest.raises(SettingsError, match="speculation 3 is more than max_draft 2"):
        Settings.load({"max_draft": 2}, None, {"PACELINE_SPECULATION": "3"})


@pytest.mark.parametrize(("written", "on"), [("0", False), ("false", False), ("off", False), ("1", True)])
def test_the_prefix_cache_is_switched_by_a_variable(written: str, on: bool) -> None:
    assert Settings.load({}, None, {"PACELINE_PREFIX_CACHE": written}).prefix_cache is on


def test_the_prefix_cache_is_switched_in_the_file_by_a_boolean_only(tmp_path: Path) -> None:
    assert Settings.load({}, toml(tmp_path, "prefix_cache = false"), {}).prefix_cache is False
    for value in ("0", "'false'"):
        config = toml(tmp_path, f"prefix_cache = {value}")
        assert complaint(config=config).startswith(f"prefix_cache in {config}: input should be a valid boolean")


def test_the_cache_folder_may_begin_with_a_tilde(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    expected = tmp_path / "prefixes"
    assert Settings.load({"cache_dir": "~/prefixes"}, None, {}).cache_dir == expected
    assert Settings.load({}, toml(tmp_path, "cache_dir = '~/prefixes'"), {}).cache_dir == expected
    assert Settings(cache_dir=Path("~/prefixes")).cache_dir == expected


@pytest.mark.parametrize("value", ["", "  ", "~nobody-of-this-name/x"])
def test_a_cache_folder_that_is_no_path_is_one_clear_line(value: str) -> None:
    line = complaint({"cache_dir": value})
    assert line.startswith("--cache-dir: ") and line.endswith(f"got {value!r}")


def test_auto_undoes_a_fixed_memory_for_prefixes(tmp_path: Path) -> None:
    config = toml(tmp_path, "cache_memory_gb = 2")
    assert Settings.load({}, config, {}).cache_memory_gb == 2.0
    assert Settings.load({"cache_memory_gb": "auto"}, config, {}).cache_memory_gb is None


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("cache_memory_gb", "0"),
        ("cache_memory_gb", "inf"),
        ("cache_memory_gb", "much"),
        ("cache_disk_gb", "0"),
        ("cache_disk_gb", "nan"),
        ("vision_cache_mb", "-1"),
        ("prefix_cache", "maybe"),
    ],
)
def test_a_bad_size_of_a_cache_is_one_line(field: str, value: str) -> None:
    assert complaint({field: value, "cache_dir": "/cache"}).startswith(f"{flag_name(field)}: input should be ")


def test_a_limit_of_the_disk_needs_a_folder(tmp_path: Path) -> None:
    line = "cache_disk_gb limits a folder: set cache_dir too, or leave it out"
    assert complaint({"cache_disk_gb": "5"}) == line
    assert complaint(config=toml(tmp_path, "cache_disk_gb = 20.0")) == line
    with pytest.raises(SettingsError, match="cache_disk_gb limits a folder"):
        Settings(cache_disk_gb=5)
    assert Settings().cache_disk_gb == 20.0


def test_the_folder_and_its_limit_may_come_from_two_sources() -> None:
    settings = Settings.load({"cache_disk_gb": "5"}, None, {"PACELINE_CACHE_DIR": "/cache"})
    assert (settings.cache_dir, settings.cache_disk_gb) == (Path("/cache"), 5.0)


def test_prompts_are_logged_at_a_level_that_is_shown() -> None:
    assert not Settings().log_prompts
    assert "the level info" in complaint({"log_prompts": "true", "log_level": "warning"})
    assert complaint({"max_log_len": "5"}).startswith("max_log_len limits prompts in the log: set log_prompts too")
    assert Settings.load({"enable_log_requests": "true", "max_log_len": "5"}, None, {}).max_log_len == 5


@pytest.mark.parametrize("field", ["files_gb", "files_days"])
def test_a_limit_of_files_needs_a_folder(field: str) -> None:
    assert complaint({field: "5"}) == f"{field} limits a folder: set files_dir too, or leave it out"
    assert getattr(Settings.load({field: "5", "files_dir": "/files"}, None, {}), field) == 5.0
    assert complaint({field: "0", "files_dir": "/files"}).startswith(f"{flag_name(field)}: input should be ")


def test_a_draft_model_that_may_not_draft_is_a_mistake() -> None:
    line = "draft_model is for drafting: name it in speculation_methods too, or leave it out"
    assert complaint({"draft_model": "small", "speculation_methods": "mtp,lookup"}) == line
    for methods in ("auto", "draft_model", "lookup,draft_model"):
        assert Settings.load({"draft_model": "small", "speculation_methods": methods}, None, {}).draft_model == "small"
    assert Settings().draft_model is None
    assert complaint({"draft_model": ""}).startswith("--draft-model: ")


DRAFT = {"specprefill_draft_model": "small"}


def test_sparse_prefill_is_off_until_somebody_wants_it() -> None:
    settings = Settings()
    assert (settings.specprefill, settings.specprefill_draft_model) == ("off", None)
    assert (settings.specprefill_threshold, settings.specprefill_max_tokens) == (8192, 196_608)
    assert (settings.specprefill_keep_pct, settings.specprefill_chunk) == (0.3, None)


def test_sparse_prefill_for_all_needs_a_draft() -> None:
    line = "specprefill auto needs a draft model: "
    line += "set specprefill_draft_model (--specprefill-draft-model) too, or leave it off"
    assert complaint({"specprefill": "auto"}) == line
    with pytest.raises(SettingsError, match="needs a draft model"):
        Settings(specprefill="auto")
    settings = Settings.load({"specprefill": "auto"}, None, {"PACELINE_SPECPREFILL_DRAFT_MODEL": "small"})
    assert (settings.specprefill, settings.specprefill_draft_model) == ("auto", "small")
    assert Settings.load(DRAFT, None, {}).specprefill == "off"  # loaded for requests that ask


@pytest.mark.parametrize(
    ("field", "value"), [("threshold", 4096), ("keep_pct", 0.3), ("max_tokens", 9), ("chunk", "auto")]
)
def test_a_setting_of_sparse_prefill_without_a_draft_is_a_mistake(field: str, value: Any) -> None:
    name = f"specprefill_{field}"
    assert complaint({name: value}).startswith(f"{name} is for reading with a draft: set specprefill_draft_model")
    assert Settings.load({name: value, **DRAFT}, None, {}).specprefill_draft_model == "small"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("specprefill", "on"),
        ("specprefill", "true"),
        ("specprefill_threshold", "0"),
        ("specprefill_threshold", "many"),
        ("specprefill_keep_pct", "0.09"),
        ("specprefill_keep_pct", "1.01"),
        ("specprefill_keep_pct", "30"),
        ("specprefill_keep_pct", "nan"),
        ("specprefill_max_tokens", "0"),
        ("specprefill_chunk", "0"),
        ("specprefill_chunk", "1.5"),
    ],
)
def test_a_bad_setting_of_sparse_prefill_is_one_line(field: str, value: str) -> None:
    line = complaint({field: value, **DRAFT})
    assert line.startswith(f"{flag_name(field)}: input should be ") and line.endswith(f", got {value!r}")


def test_a_draft_without_a_name_is_refused() -> None:
    assert complaint({"specprefill_draft_model": ""}).startswith("--specprefill-draft-model: ")


def test_the_shares_that_a_server_may_keep_are_those_that_a_request_may_ask_for() -> None:
    for share in (MIN_KEEP_RATIO, MAX_KEEP_RATIO):
        assert Settings(specprefill_keep_pct=share, specprefill_draft_model="small").specprefill_keep_pct == share


def test_auto_undoes_a_fixed_chunk_of_the_draft(tmp_path: Path) -> None:
    config = toml(tmp_path, "specprefill_chunk = 64\nspecprefill_draft_model = 'small'\n")
    assert Settings.load({}, config, {}).specprefill_chunk == 64
    assert Settings.load({"specprefill_chunk": "auto"}, config, {}).specprefill_chunk is None


def test_limits_that_leave_no_prompt_to_read_sparsely_are_a_mistake() -> None:
    limits = {"specprefill_threshold": 9000, "specprefill_max_tokens": 8999, **DRAFT}
    assert complaint({**limits, "specprefill": "auto"}) == (
        "specprefill_max_tokens 8999 is less than specprefill_threshold 9000: no prompt would be prefilled sparsely"
    )
    assert Settings.load(limits, None, {}).specprefill_max_tokens == 8999  # requests that ask know no threshold


@pytest.mark.parametrize("written", ["two words", "caf\u00e9", "tab\tbed", "", "a,,b", " "])
@pytest.mark.parametrize("field", ["api_key", "admin_key"])
def test_a_key_that_no_client_could_send_is_refused_without_showing_it(field: str, written: str) -> None:
    for flags in ({field: written}, {field: [written]}):
        with pytest.raises(SettingsError) as error:
            Settings.load(flags, None, {})
        line = "".join(traceback.format_exception(error.value))
        assert str(error.value).startswith(f"{flag_name(field)}: ")
        assert not written.strip() or written not in line


def test_a_key_in_the_file_is_text(tmp_path: Path) -> None:
    config = toml(tmp_path, "api_key = ['a', 5]")
    assert complaint(config=config) == f"api_key in {config}: input should be a valid string"


def test_keys_are_never_shown() -> None:
    settings = Settings.load({"api_key": "sk-private", "admin_key": ["sk-secret"]}, None, {})
    for text in (repr(settings), str(settings), settings.model_dump_json(), repr(settings.model_dump())):
        assert "sk-" not in text


@pytest.mark.parametrize("value", ["example.org", "https://example.org/", "https://a b", "https://user@host", "null"])
def test_an_origin_is_written_as_browsers_send_it(value: str) -> None:
    assert "scheme://host[:port]" in complaint({"cors_origin": value})
    assert Settings(cors_origin="HTTPS://Example.org:8443, *").cors_origin == ("https://example.org:8443", "*")  # type: ignore[arg-type]


@pytest.mark.parametrize("value", ["https://example.org", "example.org/x", "*", "a.*.org", "example.org:port", "[::1]"])
def test_a_host_of_media_is_a_name(value: str) -> None:
    assert "a host is a name" in complaint({"media_allowed_host": value, "allow_remote_media": True})


def test_a_list_of_hosts_without_remote_media_is_a_mistake() -> None:
    assert "set allow_remote_media too" in complaint({"media_allowed_host": "example.org"})
    variable = {"PACELINE_ALLOW_REMOTE_MEDIA": "1"}
    assert Settings.load({"media_allowed_host": "A.example"}, None, variable).media_allowed_host == ("a.example",)


def test_adapters_are_names_and_folders_in_every_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    want = {"sql": Path("/a"), "poet": tmp_path / "b=c"}
    assert Settings.load({"lora": ["sql=/a", "poet=~/b=c"]}, None, {}).loras == want
    assert Settings.load({}, None, {"PACELINE_LORA": "sql=/a,poet=~/b=c"}).loras == want
    assert Settings.load({}, toml(tmp_path, 'lora = ["sql=/a", "poet=~/b=c"]'), {}).loras == want
    assert Settings.load({}, toml(tmp_path, '[lora]\nsql = "/a"\npoet = "~/b=c"'), {}).loras == want
    assert Settings().loras == {}


@pytest.mark.parametrize("value", ["sql", "=/a", "sql=", "s ql=/a", ""])
def test_an_adapter_without_a_name_or_a_folder_is_one_line(value: str) -> None:
    assert complaint({"lora": [value]}).startswith("--lora: ")


def test_names_of_adapters_are_their_own() -> None:
    assert complaint({"lora": ["a=/x", "a=/y"]}) == "lora has two adapters of one name"
    said = complaint({"lora": ["a=/x"], "served_model_name": ["b", "a"]})
    assert said == "lora a has the name of the model itself"
