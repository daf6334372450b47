"""The `paceline` command. Whatever imports MLX, or takes long to import, is imported inside a command."""

from __future__ import annotations

import asyncio
import difflib
import gc
import inspect
import logging
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast, get_args, get_origin

import typer

from paceline import __version__, logs, model_tables, preflight
from paceline.bench.cli import app as bench
from paceline.cache_cli import app as cache
from paceline.command_line import PlainGroup, SettingsCommand, commands
from paceline.completion import Shell, script, words
from paceline.errors import EngineFailed, PacelineError, SettingsError
from paceline.models_cli import app as models
from paceline.parallel import launch
from paceline.ranks.leaving import LOST, leave
from paceline.ranks.links import RankLost
from paceline.setting_aliases import ALIASES, UNNEEDED
from paceline.setting_sources import flag_name, unneeded
from paceline.settings import Settings

if TYPE_CHECKING:
    from paceline.terminal import Chat

logger = logging.getLogger("paceline")

ACCEPTED = "accepted for command lines of other servers; Paceline needs no flag for this"
ELSEWHERE: Mapping[str, str] = {  # what is nearest to options of other servers that mean something else
    "--gpu-memory-utilization": "--memory-limit-gb",
    "--limit-mm-per-prompt": "--max-images",
    "--cache-memory-percent": "--cache-memory-gb",
    "--temperature": "--default-temperature",
}
OTHERS = tuple(map(flag_name, (*ALIASES, *UNNEEDED)))  # flags of other servers
# click's, or that of the copy which newer releases of Typer carry
USAGE_ERROR = cast(type[Exception], typer.BadParameter.__bases__[0])
SETTINGS_HELP = (
    "Every flag is also a key of the --config file and a variable: --max-num-seqs 8, max_num_seqs = 8, "
    "PACELINE_MAX_NUM_SEQS=8. A flag beats the file, the file beats the variable. A flag that may be repeated is a "
    "list in the file, and commas separate its values in the variable. Many flags of vLLM and vllm-mlx "
    "are taken too: docs/cli.md lists them."
)


class _Commands(PlainGroup):
    """An error that we raised on purpose, or a wrong command line, is one line and an exit code: 3 for an engine that
    gave up, 70 for a rank that is gone, else 2. Ctrl+C is 130."""

    def make_context(self, *arguments: Any, **named: Any) -> Any:
        with _in_one_line():
            return super().make_context(*arguments, **named)

    def invoke(self, ctx: Any) -> Any:
        with _in_one_line():
            return super().invoke(ctx)


@contextmanager
def _in_one_line() -> Iterator[None]:
    try:
        yield
    except PacelineError as error:
        print(f"paceline: error: {error}", file=sys.stderr)
        code = LOST if isinstance(error, RankLost) else 3 if isinstance(error, EngineFailed) else 2
        raise typer.Exit(code) from None
    except KeyboardInterrupt:
        raise typer.Exit(128 + signal.SIGINT) from None
    except USAGE_ERROR as error:
        if type(error).__name__ == "NoArgsIsHelpError":  # its text is the help
            raise
        print(f"paceline: error: {_usage(error)}", file=sys.stderr)
        raise typer.Exit(2) from None


def _usage(error: Any) -> str:
    """What is wrong with the command line, what may have been meant, and where to look."""
    path = "paceline" if error.ctx is None else error.ctx.command_path
    if not hasattr(error, "possibilities") or error.ctx is None:  # it is about something else than an unknown option
        message = error.format_message().rstrip(".")
        return message if message.endswith("?") else f"{message}; see {path} --help"
    options = [name for option in error.ctx.command.params for name in option.opts if name.startswith("--")]
    ours = [name for name in options if name not in OTHERS]
    name = error.option_name
    meant = ELSEWHERE.get(name) or next(iter(difflib.get_close_matches(name, ours, n=1, cutoff=0.65)), None)
    hint = f"did you mean {meant}?" if meant in options else f"{path} --help lists them"
    return f"there is no option {name}; {hint}"


app = commands(cls=_Commands)
app.add_typer(bench, name="bench")
app.add_typer(cache, name="cache")
app.add_typer(models, name="models")


def main() -> None:
    app(prog_name="paceline")


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        under = ", ".join(f"{package} {version(package)}" for package in ("mlx", "mlx-lm", "mlx-vlm"))
        print(f"paceline {__version__} ({under})")
        raise typer.Exit


@app.callback(epilog="`paceline COMMAND --help` explains a command and shows examples.")
def paceline(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print the versions and exit."),
    ] = False,
) -> None:
    """Serve language and vision-language models on MLX to many users at once.

    One engine, one continuous batch: every request, with or without images, runs in it.

    [bold]paceline serve[/bold]   starts an OpenAI-compatible server

    [bold]paceline chat[/bold]    talks to a model in this terminal

    [bold]paceline run[/bold]     answers one prompt

    [bold]paceline models[/bold]  lists, downloads and deletes models

    [bold]paceline doctor[/bold]  checks this machine
    """


PANELS = Settings.panels()


def with_settings(*panels: str, several: bool = False) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command MODEL, --config and a flag for every setting of these panels. `several`: MODEL may be repeated,
    and the command gets `models`, what was given, and `config`, the file.

    The command gets the loaded `Settings` first, then the switches of other servers that were given without need, and
    its own options after. Flags other than switches reach `Settings.load` as text, so that flags, file and variables
    are checked in one place and complain in one way.
    """
    flags = {field: metavar for panel in panels for field, metavar in PANELS[panel].items()}

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        own = list(inspect.signature(command, eval_str=True).parameters.values())[4 if several else 2 :]
        taken = {parameter.name for parameter in own}
        aliases = [name for name, alias in ALIASES.items() if alias.setting in flags and name not in taken]

        def run(**given: Any) -> None:
            values = {field: given.pop(field) for field in ("model", *flags)}
            named = given.pop("model_option")
            models = list(values["model"] or ()) if several else [model for model in [values["model"]] if model]
            if named is not None and models and given.get("prompt", "") is None:  # run's only positional
                given["prompt"], models = models[0], []
            if named is not None and models not in ([], [named]):
                raise SettingsError(f"--model {named} and MODEL {models[0]} are both given; give one of them")
            models = models or ([] if named is None else [named])
            values["model"] = next(iter(models), None)
            values |= {name: given.pop(name) for name in (*aliases, *UNNEEDED)}
            config = given.pop("config")
            settings = Settings.load(values, config, os.environ)
            if several:
                given |= {"models": models, "config": config}
            command(settings, unneeded(values, config, os.environ), **given)

        parameters = [_model_argument(several), _model_option(), _config_option()]
        parameters += [_flag(field, panel) for panel in panels for field in PANELS[panel]]
        parameters += [_other(name) for name in (*aliases, *UNNEEDED)]
        parameters += own
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__name__ = command.__name__
        run.__doc__ = command.__doc__
        return run

    return decorate


def _model_argument(several: bool) -> inspect.Parameter:
    description = Settings.model_fields["model"].description
    if several:
        description = f"{description} More than one: each in a process of its own, loaded when it is asked for."
    info = typer.Argument(metavar="MODEL", help=description, show_default=False)
    return _parameter("model", (list[str] if several else str) | None, info)


def _model_option() -> inspect.Parameter:
    info = typer.Option("--model", metavar="MODEL", help="Another way to give MODEL.", show_default=False)
    return _parameter("model_option", str | None, info)


def _config_option() -> inspect.Parameter:
    info = typer.Option("--config", metavar="FILE", help="A TOML file of settings.", show_default=False)
    return _parameter("config", Path | None, info)


def _flag(field: str, panel: str) -> inspect.Parameter:
    setting = Settings.model_fields[field]
    metavar = PANELS[panel][field]
    switch = setting.annotation is bool
    kinds = (setting.annotation, *get_args(setting.annotation))
    repeatable = any(get_origin(kind) is tuple for kind in kinds)
    default = setting.default
    if default is None and "Default:" not in (setting.description or ""):
        default = next((word for word in ("auto", "none") if word in metavar), None)
    if switch:
        default = "on" if setting.default else "off"
    choices = get_args(setting.annotation) if get_origin(setting.annotation) is Literal else ()
    notes = [" | ".join(map(str, choices))] if choices else []
    notes += [f"default: {default}"] if default not in (None, (), {}) else []
    shown = f" [dim]\\[{', '.join(notes)}][/dim]" if notes else ""
    info = typer.Option(
        f"{flag_name(field)}/{flag_name(f'no_{field}')}" if switch else flag_name(field),
        metavar=metavar or None,
        help=f"{setting.description}{shown}",
        show_default=False,
        rich_help_panel=panel,
    )
    kind = bool if switch else list[str] if repeatable else str
    return _parameter(field, kind | None, info)


def _other(name: str) -> inspect.Parameter:
    """A flag of another server: `--help` does not show it, the docs do."""
    alias = ALIASES.get(name)
    switch = alias is None or alias.switch
    flag = flag_name(name)
    if alias is not None and alias.switch and alias.convert is None:
        flag += f"/{flag_name(f'no_{name}')}"
    kind = bool if switch else list[str] if alias is not None and alias.repeats else str
    return _parameter(name, kind | None, typer.Option(flag, hidden=True))


def _parameter(name: str, kind: Any, info: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind, info])


@app.command(epilog=SETTINGS_HELP, cls=SettingsCommand)
@with_settings(*PANELS, several=True)
def serve(settings: Settings, accepted: list[str], models: list[str], config: Path | None) -> None:
    """Start an OpenAI-compatible server.

    [bold]Examples[/bold]

    [cyan]paceline serve[/cyan]   paceline-mini, a small demonstration model, on http://127.0.0.1:8000

    [cyan]paceline serve mlx-community/Qwen3-4B-4bit[/cyan]   download from Hugging Face, then serve

    [cyan]paceline serve ~/models/qwen --port 9000 --max-num-seqs 16[/cyan]   a folder, another port, fewer at a time

    [cyan]paceline serve --config paceline.toml[/cyan]   the settings from a file

    [cyan]paceline serve ~/models/qwen ~/models/gemma --idle-unload 600[/cyan]   two models at one address
    """
    settings, tables = model_tables.chosen(settings, models, config)
    with _signals_end_it(b"paceline: stopped\n"):
        if settings.several_ranks:
            _serve_over_ranks(settings, accepted, several=tables is not None)
            return
        if settings.port:
            preflight.listen(settings).close()  # a port in use is reported before the imports, which take seconds
        if tables is not None:
            _log(settings, accepted)

            from paceline.front import launch as front

            front.serve(settings, tables)
            return
        _start(settings, accepted)

        from paceline.progress import LoadProgress
        from paceline.service import Service

        service = Service(settings, LoadProgress())
        service.begin()  # the model loads while the server is imported
        try:
            from paceline.server import app as server

            server.run(service, settings)
        except BaseException:
            asyncio.run(service.stop())  # an error before the server ran leaves a load behind
            raise


def _serve_over_ranks(settings: Settings, accepted: list[str], *, several: bool) -> None:
    """One model, of which every rank has a part. Only rank 0 listens."""
    launch.check(settings, several)
    place = launch.find_place(settings, os.environ)
    if place is not None and place.rank > 0:
        _start(settings, accepted, f" [rank {place.rank}]")
        launch.follow(settings, place)
    if settings.port:
        preflight.listen(settings).close()
    _start(settings, accepted)

    from paceline.progress import LoadProgress
    from paceline.server import app as server
    from paceline.service import Service

    ranks = launch.Ranks(settings, place)
    try:
        ranks.start(sys.argv[1:])
        server.run(Service(settings, LoadProgress(), ranks.role()), settings)
    except EngineFailed as error:
        print(f"paceline: error: {error}", file=sys.stderr)
        ranks.kill()
        leave(LOST)  # a thread may wait in a collective for ever
    finally:
        ranks.close()


@app.command(hidden=True)
def worker(listener: int, name: str) -> None:
    """One model's process behind a front, which alone starts it."""
    from paceline.front import launch as front

    with _signals_end_it():
        front.work(listener, lambda settings: _start(settings, [], f" [{name}]"))


@contextmanager
def _signals_end_it(words: bytes = b"") -> Iterator[None]:
    """Until uvicorn handles signals there is no request to drain: the first one ends the process with 0."""

    def leave(*_: object) -> None:
        os.write(2, words)
        os._exit(0)

    before = {sig: signal.signal(sig, leave) for sig in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for sig, handler in before.items():
            signal.signal(sig, handler)


System = Annotated[str | None, typer.Option(metavar="TEXT", help="System prompt.", show_default=False)]
Temperature = Annotated[
    float | None,
    typer.Option(
        min=0.0,
        metavar="T",
        help="0 takes the most likely token every time. Default: the model's own.",
        show_default=False,
    ),
]
MaxTokens = Annotated[
    int | None, typer.Option(min=1, metavar="N", help="Longest answer. Default: as far as the context goes.")
]


@app.command(epilog=SETTINGS_HELP, cls=SettingsCommand)
@with_settings("Engine", "Memory", "Prefix cache", "Sparse prefill (SpecPrefill)")
def chat(
    settings: Settings,
    accepted: list[str],
    *,
    system: System = None,
    temperature: Temperature = None,
    max_tokens: MaxTokens = None,
) -> None:
    """Talk to a model in this terminal.

    /clear forgets the conversation, /exit or Ctrl-D leaves, Ctrl-C stops an answer.

    [bold]Examples[/bold]

    [cyan]paceline chat[/cyan]   paceline-mini, a small demonstration model

    [cyan]paceline chat ~/models/qwen --system "Answer in one sentence." --temperature 0[/cyan]
    """
    _conversation(settings, accepted, system, temperature, max_tokens).run()


@app.command(epilog=SETTINGS_HELP, cls=SettingsCommand)
@with_settings("Engine", "Memory", "Prefix cache", "Sparse prefill (SpecPrefill)")
def run(
    settings: Settings,
    accepted: list[str],
    *,
    prompt: Annotated[
        str | None, typer.Argument(metavar="PROMPT", help="What to say. Default: standard input.", show_default=False)
    ] = None,
    system: System = None,
    temperature: Temperature = None,
    max_tokens: MaxTokens = None,
) -> None:
    """Answer one prompt in this terminal, and exit.

    [bold]Examples[/bold]

    [cyan]paceline run paceline-mini "Who are you?"[/cyan]

    [cyan]paceline run ~/models/qwen --system "Summarize." < report.txt[/cyan]
    """
    if prompt is None and settings.model and " " in settings.model and not Path(settings.model).expanduser().exists():
        raise PacelineError(
            f'"{settings.model}" is taken as MODEL, and is none: the prompt comes after it, as in '
            f'paceline run paceline-mini "{settings.model}"'
        )
    said = sys.stdin.read() if prompt in (None, "-") else prompt
    if not said or not said.strip():
        raise PacelineError("there is nothing to answer: give a PROMPT, or text on standard input")
    _conversation(settings, accepted, system, temperature, max_tokens).once(said)


def _conversation(
    settings: Settings, accepted: list[str], system: str | None, temperature: float | None, max_tokens: int | None
) -> Chat:
    """In this terminal. Answers and log share the screen: warnings only, unless lines were asked for."""
    if "log_level" not in settings.model_fields_set and not settings.log_prompts:
        settings = settings.model_copy(update={"log_level": "warning"})
    _start(settings, accepted)

    from paceline import terminal
    from paceline.progress import LoadProgress
    from paceline.service import Service

    sampling = {"temperature": temperature, "max_tokens": max_tokens}
    return terminal.Chat(Service(settings, LoadProgress()), sampling=sampling, system=system)


@app.command(epilog=SETTINGS_HELP)
def doctor(
    config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A TOML file of settings.", show_default=False)
    ] = None,
    port: Annotated[
        str | None, typer.Option(metavar="N", help="The port that a server will use.", show_default=False)
    ] = None,
) -> None:
    """Check this machine: packages, BLAS, device, memory, disk, port, limits; and say which models fit."""
    settings = Settings.load({"port": port}, config, os.environ)

    from paceline import doctor

    problems = 0
    for finding in doctor.examine(settings):
        print(finding.line(), flush=True)
        problems += finding.level == "problem"
    raise typer.Exit(1 if problems else 0)


@app.command()
def completion(shell: Annotated[Shell, typer.Argument(help="The shell that it is for.", show_default=False)]) -> None:
    """Print a script that completes commands and flags.

    [bold]Examples[/bold]

    [cyan]source <(paceline completion bash)[/cyan]   in ~/.bashrc; zsh: in ~/.zshrc

    [cyan]paceline completion fish > ~/.config/fish/completions/paceline.fish[/cyan]
    """
    print(script(shell, words(typer.main.get_command(app))), end="")


def _log(settings: Settings, accepted: list[str], name: str = "") -> None:
    """Where lines go, and how they look. `name`: of a model among several."""
    logs.configure(settings.log_level, settings.log_format, name)
    if accepted:
        logger.info("%s: %s", ", ".join(accepted), ACCEPTED)
    # Theirs at our level would bury ours: a line for every request to the hub.
    for library in ("httpx", "httpcore", "huggingface_hub", "urllib3", "asyncio"):
        logging.getLogger(library).setLevel(logging.WARNING)


def _start(settings: Settings, accepted: list[str], name: str = "") -> None:
    """What comes before the first import of MLX: what can be refused without it, the log, the BLAS."""
    from paceline import platform

    preflight.check(settings)
    _log(settings, accepted, name)

    # We use its tokenizers and configurations only; it advises every start to install PyTorch.
    os.environ.setdefault("TRANSFORMERS_NO_ADVISORY_WARNINGS", "1")

    platform.prepare(settings.blas, exact=settings.dtype == "float32")
    platform.without_torch()
    gc.freeze()  # what is imported stays: collections while the rest is loaded need not look at it
