from __future__ import annotations

import gc
import logging
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import paceline
from paceline import cli, doctor, platform, preflight, terminal
from paceline.errors import LoadError, SettingsError
from paceline.service import Service
from paceline.setting_sources import flag_name
from paceline.settings import Settings


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in [name for name in os.environ if name.startswith("PACELINE_")]:
        monkeypatch.delenv(variable)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("NO_COLOR", "1")


class Started:
    """A service that loads nothing."""

    stopped = False

    def __init__(self, settings: Settings, seen: list[Settings]) -> None:
        seen.append(settings)

    def begin(self) -> None:
        """Loads nothing."""

    async def stop(self) -> None:
        Started.stopped = True


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Settings]]:
    """The settings that `serve` or `chat` started with; nothing is loaded and nothing listens."""
    handlers = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)}
    seen: list[Settings] = []
    monkeypatch.setattr(platform, "prepare", lambda blas, exact: None)
    monkeypatch.setattr(preflight, "check", lambda settings: None)
    monkeypatch.setattr(preflight, "listen", lambda settings: socket.socket())
    monkeypatch.setattr("paceline.service.Service", lambda settings, progress: Started(settings, seen))
    monkeypatch.setattr("paceline.server.app.run", lambda service, settings: None)
    monkeypatch.setattr(terminal.Chat, "run", lambda self: None)
    yield seen
    gc.unfreeze()
    for each, handler in handlers.items():  # `serve` sets its own
        signal.signal(each, handler)


def invoke(*arguments: str) -> Any:
    return CliRunner().invoke(cli.app, arguments)


def test_help_names_the_commands_and_shows_how_to_begin() -> None:
    result = invoke("--help")
    assert result.exit_code == 0
    for words in ("serve", "chat", "bench", "cache", "--version", "paceline COMMAND --help"):
        assert words in result.output


def test_the_help_of_serve_has_every_setting_with_its_description_and_default() -> None:
    output = " ".join(invoke("serve", "--help").output.replace("│", " ").split())
    for name, field in Settings.model_fields.items():
        assert str(field.description) in output
        if name != "model":
            assert flag_name(name) in output
    assert "[default: 64]" in output
    assert "auto | rows | similar | padded" in output
    assert "--prefix-cache --no-prefix-cache" in output and "[default: on]" in output
    assert "--speculation MODE" in output and "--max-draft N" in output
    assert "PACELINE_MAX_NUM_SEQS=8" in output
    assert "paceline serve --config paceline.toml" in output


def test_every_setting_has_its_place_in_a_panel() -> None:
    placed = [field for fields in cli.PANELS.values() for field in fields]
    assert sorted([*placed, "model"]) == sorted(Settings.model_fields)


def test_version_names_paceline_and_the_libraries_under_it() -> None:
    result = invoke("--version")
    assert result.exit_code == 0
    assert result.output.startswith(f"paceline {paceline.__version__} (mlx 0.")


def test_help_imports_neither_mlx_nor_the_server() -> None:
    code = (
        "import sys, paceline.cli\n"
        "from typer.testing import CliRunner\n"
        "assert CliRunner().invoke(paceline.cli.app, ['serve', '--help']).exit_code == 0\n"
        "heavy = ('mlx', 'mlx_lm', 'transformers', 'fastapi', 'uvicorn', 'numpy')\n"
        "print([name for name in heavy if name in sys.modules])"
    )
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert output.stdout == "[]\n"


def test_flags_the_file_and_variables_reach_the_service_in_their_order_of_strength(
    started: list[Settings], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    config = tmp_path / "paceline.toml"
    config.write_text("port = 2\nmax_num_seqs = 2\n")
    monkeypatch.setenv("PACELINE_PORT", "1")
    monkeypatch.setenv("PACELINE_HOST", "0.0.0.0")

    result = invoke("serve", "folder", "--config", str(config), "--port", "3")

    assert result.exit_code == 0, result.output
    assert started == [Settings(model="folder", host="0.0.0.0", port=3, max_num_seqs=2)]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["serve", "--port", "x"], "--port: input should be a valid integer"),
        (["serve", "--max-num-seqs", "0"], "--max-num-seqs: input should be greater than or equal to 1, got '0'"),
        (["serve", "--config", "/no/such.toml"], "cannot read /no/such.toml: No such file or directory"),
        (["serve", "--speculation", "on"], "--speculation: input should be 'off'"),
        (["chat", "--speculation", "9"], "--speculation: input should be 'off'"),
        (["serve", "--max-draft", "33"], "--max-draft: input should be less than or equal to 32, got '33'"),
        (["serve", "--cache-disk-gb", "5"], "cache_disk_gb limits a folder: set cache_dir too"),
        (["chat", "--cache-memory-gb", "0"], "--cache-memory-gb: input should be greater than 0, got '0'"),
        (["serve", "--specprefill", "auto"], "set specprefill_draft_model (--specprefill-draft-model) too"),
        (["serve", "--speculation-methods", "sql"], "or 'grammar', got 'sql'"),
        (["serve", "--context-length", "many K"], "32k = 32000, 32K = 32768), or auto, got 'many K'"),
        (["chat", "--specprefill-keep-pct", "0"], "--specprefill-keep-pct: input should be greater than or equal to"),
        (["chat", "--dtype", "int4"], "--dtype: input should be 'auto', 'float32', 'bfloat16' or 'float16'"),
    ],
)
def test_a_bad_setting_is_one_line_and_exit_code_2(started: list[Settings], arguments: list[str], words: str) -> None:
    result = invoke(*arguments)
    assert result.exit_code == 2
    assert result.stderr.startswith("paceline: error: ")
    assert words in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert started == []


def test_several_models_get_a_front(started: list[Settings], monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    monkeypatch.setattr("paceline.front.launch.serve", lambda settings, tables: seen.append((settings, tables)))
    assert invoke("serve", "owner/a", "owner/b", "--port", "0", "--idle-unload", "60").exit_code == 0
    [(settings, tables)] = seen
    assert [table.path for table in tables] == ["owner/a", "owner/b"]
    assert (settings.idle_unload, started) == (60.0, [])


def test_run_answers_a_prompt_or_standard_input(started: list[Settings], monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(terminal.Chat, "once", lambda self, text: said.append(text))
    assert invoke("run", "folder", "Who are you?", "--max-tokens", "5").exit_code == 0
    assert CliRunner().invoke(cli.app, ["run", "folder"], input="from a file\n").exit_code == 0
    assert invoke("run", "--model", "folder", "Who are you?").exit_code == 0
    assert invoke("run", "folder", "--model", "folder", "Who?").exit_code == 0
    assert said == ["Who are you?", "from a file\n", "Who are you?", "Who?"]
    assert [settings.model for settings in started] == ["folder"] * 4
    result = CliRunner().invoke(cli.app, ["run", "folder"], input=" ")
    assert result.exit_code == 2 and "there is nothing to answer" in result.stderr
    result = invoke("run", "Who are you?")
    assert result.exit_code == 2 and "taken as MODEL" in result.stderr and "paceline run paceline-mini" in result.stderr


def test_run_that_is_stopped_exits_with_130(started: list[Settings], monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(self: object, text: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(terminal.Chat, "once", stop)
    result = invoke("run", "folder", "hello")
    assert (result.exit_code, result.output) == (130, "")


def test_doctor_exits_with_1_if_something_must_be_fixed(monkeypatch: pytest.MonkeyPatch) -> None:
    for level, code in (("ok", 0), ("warning", 0), ("problem", 1)):
        found = doctor.Finding(level, "disk", "is full", "delete something")  # type: ignore[arg-type]
        monkeypatch.setattr(doctor, "examine", lambda settings, found=found: iter([found]))
        result = invoke("doctor", "--port", "9")
        assert result.exit_code == code and "disk: is full" in result.output and "fix: delete" in result.output


def test_a_vllm_command_line_works(started: list[Settings], monkeypatch: pytest.MonkeyPatch) -> None:
    line = "folder --max-model-len 32K --served-model-name a b --enable-auto-tool-choice --tool-call-parser qwen3_xml"
    line += (
        " --reasoning-parser glm45 --no-enable-prefix-caching --dtype half --generation-config vllm --trust-remote-code"
    )
    assert invoke("serve", *line.split(), "--override-generation-config", '{"temperature": 0.7}').exit_code == 0
    assert started == [
        Settings(
            model="folder",
            context_length=32768,
            served_model_name=("a", "b"),
            tool_parser="qwen3_coder",
            reasoning_parser="think",
            prefix_cache=False,
            dtype="float16",
            generation_config="none",
            override_generation_config={"temperature": 0.7},
        )
    ]


@pytest.mark.parametrize("command", ["serve", "chat"])
def test_a_vllm_mlx_command_line_prefills_sparsely_with_a_bare_switch(started: list[Settings], command: str) -> None:
    line = "folder --specprefill --specprefill-draft-model d --default-temperature 0.5 --default-top-p 0.9"
    line += " --prefill-step-size 512 --cache-memory-mb 1000"
    assert invoke(command, *line.split()).exit_code == 0
    [settings] = started
    assert (settings.specprefill, settings.prefill_chunk, settings.cache_memory_gb) == ("auto", 512, 1.048576)
    assert settings.override_generation_config == {"temperature": 0.5, "top_p": 0.9}


@pytest.mark.parametrize(("flags", "given"), [([], None), (["--temperature", "0"], 0.0)])
def test_chat_samples_as_the_model_wants_unless_it_is_told(
    started: list[Settings], monkeypatch: pytest.MonkeyPatch, flags: list[str], given: float | None
) -> None:
    seen: list[Any] = []
    monkeypatch.setattr(terminal.Chat, "run", lambda self: seen.append(self.sampling["temperature"]))
    assert invoke("chat", "folder", *flags).exit_code == 0
    assert seen == [given]


@pytest.mark.parametrize(("written", "tokens"), [("32k", 32_000), ("32K", 32_768), ("4096", 4096), ("auto", None)])
def test_a_context_length_may_be_written_in_thousands(
    started: list[Settings], written: str, tokens: int | None
) -> None:
    assert invoke("serve", "--context-length", written).exit_code == 0
    assert started[0].context_length == tokens


def test_an_older_flag_is_taken(started: list[Settings]) -> None:
    assert invoke("serve", "--max-rows", "3").exit_code == 0
    assert started == [Settings(max_num_seqs=3)]


@pytest.mark.parametrize(("written", "mode"), [("off", "off"), ("auto", "auto"), ("3", 3)])
@pytest.mark.parametrize("source", ["flag", "file", "variable"])
def test_speculation_is_read_from_a_flag_a_file_and_a_variable(
    started: list[Settings],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    source: str,
    written: str,
    mode: str | int,
) -> None:
    arguments = ["--speculation", written, "--max-draft", "4"]
    if source == "file":
        config = tmp_path / "paceline.toml"
        config.write_text(f"speculation = {mode!r}\nmax_draft = 4\n")
        arguments = ["--config", str(config)]
    elif source == "variable":
        monkeypatch.setenv("PACELINE_SPECULATION", written)
        monkeypatch.setenv("PACELINE_MAX_DRAFT", "4")
        arguments = []
    assert invoke("serve", "folder", *arguments).exit_code == 0
    [settings] = started
    assert (settings.speculation, settings.max_draft) == (mode, 4)
    assert type(settings.speculation) is type(mode)


@pytest.mark.parametrize("command", ["serve", "chat"])
def test_sparse_prefill_has_a_panel_of_its_own_and_seven_flags(started: list[Settings], command: str) -> None:
    output = " ".join(invoke(command, "--help").output.replace("│", " ").split())
    assert "Sparse prefill (SpecPrefill)" in output and "[off | auto, default: off]" in output
    flags = ["--specprefill", "auto", "--specprefill-draft-model", "small", "--specprefill-threshold", "4096"]
    flags += ["--specprefill-keep-pct", "0.2", "--specprefill-max-tokens", "100000", "--specprefill-chunk", "256"]
    flags += ["--specprefill-window", "512"]
    assert invoke(command, "folder", *flags).exit_code == 0
    [settings] = started
    given = {name: value for name, value in settings.model_dump().items() if name.startswith("specprefill")}
    assert given == {
        "specprefill": "auto",
        "specprefill_draft_model": "small",
        "specprefill_threshold": 4096,
        "specprefill_keep_pct": 0.2,
        "specprefill_max_tokens": 100_000,
        "specprefill_chunk": 256,
        "specprefill_window": 512,
    }


@pytest.mark.parametrize("command", ["serve", "chat"])
def test_the_prefix_cache_is_a_switch_and_its_settings_are_flags(started: list[Settings], command: str) -> None:
    flags = ["--cache-memory-gb", "1.5", "--cache-dir", "/cache", "--cache-disk-gb", "5", "--vision-cache-mb", "0"]
    for arguments in ([], ["--no-prefix-cache", "folder"], ["--prefix-cache", *flags]):
        assert invoke(command, *arguments).exit_code == 0
    default, off, on = started
    assert (default.prefix_cache, off.prefix_cache, on.prefix_cache) == (True, False, True)
    assert (off.model, on.cache_dir) == ("folder", Path("/cache"))
    assert (on.cache_memory_gb, on.cache_disk_gb, on.vision_cache_mb) == (1.5, 5.0, 0)


def test_the_switch_beats_the_variable_and_is_silent_when_not_given(
    started: list[Settings], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PACELINE_PREFIX_CACHE", "0")
    assert invoke("serve").exit_code == invoke("serve", "--prefix-cache").exit_code == 0
    assert [settings.prefix_cache for settings in started] == [False, True]


def test_keys_and_other_lists_are_flags_that_may_be_repeated(
    started: list[Settings], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PACELINE_API_KEY", "one,two")
    monkeypatch.setenv("PACELINE_CORS_ORIGIN", "https://a.example")
    config = tmp_path / "paceline.toml"
    config.write_text("admin_key = ['three']\nallow_remote_media = true\nmedia_allowed_host = 'a.example'\n")
    assert invoke("serve", "--config", str(config)).exit_code == 0
    flags = ["--api-key", "four", "--api-key", "five", "--no-allow-remote-media", "--media-dir", str(tmp_path)]
    assert invoke("serve", *flags, "--cors-origin", "*").exit_code == 0
    weak, strong = started
    assert [key.get_secret_value() for key in weak.api_key] == ["one", "two"]
    assert [key.get_secret_value() for key in weak.admin_key] == ["three"]
    assert (weak.cors_origin, weak.media_allowed_host) == (("https://a.example",), ("a.example",))
    assert [key.get_secret_value() for key in strong.api_key] == ["four", "five"]
    assert (strong.cors_origin, strong.allow_remote_media, strong.media_dir) == (("*",), False, tmp_path)


def test_a_bad_key_is_one_line_that_does_not_show_it(started: list[Settings]) -> None:
    result = invoke("serve", "--api-key", "my private key")
    assert result.exit_code == 2 and started == []
    assert result.stderr == "paceline: error: --api-key: a key is made of printable ASCII characters without spaces\n"


def test_an_unknown_variable_is_an_error(started: list[Settings], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PACELINE_PROT", "1")
    result = invoke("serve", "folder")
    assert result.exit_code == 2
    assert "did you mean PACELINE_PORT?" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["serve", "--prot", "1"], "there is no option --prot; did you mean --port?"),
        (
            ["serve", "--gpu-memory-utilization", "1"],
            "there is no option --gpu-memory-utilization; did you mean --memory-limit-gb?",
        ),
        (["chat", "--modle", "X"], "there is no option --modle; did you mean --model?"),
        (["serve", "--frob"], "there is no option --frob; paceline serve --help lists them"),
        (["--frob"], "there is no option --frob; paceline --help lists them"),
        (["srve"], "No such command 'srve'. Did you mean 'serve'?"),
        (["chat", "one", "two"], "Got unexpected extra argument(s) (two); see paceline chat --help"),
        (["serve", "one", "--model", "two"], "--model two and MODEL one are both given; give one of them"),
        (["serve", "--port"], "Option '--port' requires an argument; see paceline serve --help"),
        (["serve", "--temperature", "1"], "there is no option --temperature; did you mean --default-temperature?"),
    ],
)
def test_a_wrong_command_line_is_one_line_that_says_what_may_have_been_meant(
    started: list[Settings], arguments: list[str], line: str
) -> None:
    result = CliRunner().invoke(cli.app, arguments, prog_name="paceline")
    assert (result.exit_code, result.stderr) == (2, f"paceline: error: {line}\n")
    assert started == []


@pytest.mark.parametrize("arguments", [["--model", "folder"], ["folder", "--model", "folder"], ["folder"]])
@pytest.mark.parametrize("command", ["serve", "chat"])
def test_the_model_may_be_given_as_an_option(started: list[Settings], command: str, arguments: list[str]) -> None:
    assert invoke(command, *arguments).exit_code == 0
    assert [settings.model for settings in started] == ["folder"]


@pytest.mark.parametrize("command", ["serve", "chat"])
def test_what_can_be_known_without_loading_is_refused_before_the_service_is_made(
    started: list[Settings], monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    def refuse(settings: Settings) -> None:
        raise LoadError(f"there is no {settings.model}")

    monkeypatch.setattr(preflight, "check", refuse)
    result = invoke(command, "folder")
    assert (result.exit_code, result.stderr) == (2, "paceline: error: there is no folder\n")
    assert started == []


@pytest.mark.usefixtures("started")
def test_a_server_that_cannot_be_made_stops_the_load_that_has_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(service: object, settings: Settings) -> None:
        raise SettingsError("no such key file")

    monkeypatch.setattr(Started, "stopped", False)
    monkeypatch.setattr("paceline.server.app.run", refuse)
    result = invoke("serve")
    assert (result.exit_code, result.stderr) == (2, "paceline: error: no such key file\n")
    assert Started.stopped


def test_a_port_in_use_is_one_line_before_anything_is_loaded(
    started: list[Settings], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = invoke("serve", "--port", str(port))
    line = f"cannot listen on 127.0.0.1 port {port}: Address already in use. Choose another with --port."
    assert (result.exit_code, result.stderr) == (2, f"paceline: error: {line}\n")


def test_a_model_that_does_not_load_is_one_line_and_exit_code_2(
    started: list[Settings], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(service: object, settings: Settings) -> None:
        raise LoadError("folder has no config.json")

    monkeypatch.setattr("paceline.server.app.run", fail)
    result = invoke("serve", "folder")
    assert result.exit_code == 2
    assert result.stderr.splitlines()[-1] == "paceline: error: folder has no config.json"
    assert "Traceback" not in result.output


def test_without_a_model_the_service_takes_the_built_in_one(started: list[Settings]) -> None:
    assert invoke("serve").exit_code == 0
    assert started[0].model is None
    assert Service(started[0]).model_name == "paceline-mini"


def test_a_vllm_mlx_command_line_works_and_the_log_says_what_became_of_its_flags(
    started: list[Settings], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "paceline"):
        result = invoke("serve", "folder", "--continuous-batching", "--enable-mtp", "--mllm", "--port", "1")
    assert result.exit_code == 0, result.output
    assert started == [Settings(model="folder", port=1)]
    assert f"--continuous-batching, --enable-mtp, --mllm: {cli.ACCEPTED}" in caplog.messages


def test_the_blas_is_loaded_before_anything_else_and_the_log_is_set_up_to_say_so(
    started: list[Settings], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[object] = []
    monkeypatch.setattr(logging, "basicConfig", lambda **options: seen.append(options["level"]))
    monkeypatch.setattr(platform, "prepare", lambda blas, exact: seen.append(blas))
    assert invoke("serve", "folder", "--blas", "/a/lib.so").exit_code == 0
    assert seen == ["INFO", "/a/lib.so"]


def test_chat_keeps_the_log_off_the_screen_unless_it_was_asked_for(
    started: list[Settings], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert invoke("chat", "folder").exit_code == 0
    monkeypatch.setenv("PACELINE_LOG_LEVEL", "debug")
    assert invoke("chat", "folder").exit_code == 0
    assert [settings.log_level for settings in started] == ["warning", "debug"]
