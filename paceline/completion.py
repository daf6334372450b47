"""Shell completion: scripts with every command and flag in them, so that a Tab starts no Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

Shell = Literal["bash", "zsh", "fish"]
Commands = Mapping[str, Sequence[str]]  # by name, as in "bench serve"; "" is the program itself: what may follow

ZSH = (
    "(( $+functions[compdef] )) || { autoload -U compinit && compinit -i -D }",
    "autoload -U +X bashcompinit && bashcompinit",
)


def script(shell: Shell, commands: Commands) -> str:
    return _fish(commands) if shell == "fish" else _bash(commands, zsh=shell == "zsh")


def _bash(commands: Commands, *, zsh: bool) -> str:
    # The longest name first: `bench serve` in front of `bench`.
    names = sorted(filter(None, commands), key=lambda name: -len(name.split()))
    cases = [f'    "{name} "*) words="{" ".join(commands[name])}" ;;' for name in names]
    lines = [
        "# paceline completion " + ("zsh" if zsh else "bash"),
        *(ZSH if zsh else ()),
        "_paceline() {",
        '  local current="${COMP_WORDS[COMP_CWORD]}" words',
        '  case "${COMP_WORDS[*]:1:$((COMP_CWORD-1))} " in',
        *cases,
        f'    *) words="{" ".join(commands[""])}" ;;',
        "  esac",
        '  COMPREPLY=($(compgen -W "$words" -- "$current"))',
        "}",
        "complete -o default -F _paceline paceline",
    ]
    return "\n".join(lines) + "\n"


def _fish(commands: Commands) -> str:
    lines = [
        "# paceline completion fish",
        "complete -c paceline -e",
        "complete -c paceline -n __fish_use_subcommand -f",
    ]
    for name, words in commands.items():
        parts = name.split()
        # `serve` is a command, and one of `bench` too.
        outer = {other.split()[0] for other in commands if name and other.endswith(f" {name}")}
        seen = [f"__fish_seen_subcommand_from {part}" for part in parts]
        seen += [f"not __fish_seen_subcommand_from {part}" for part in sorted(outer)]
        when = f'"{"; and ".join(seen)}"' if name else "__fish_use_subcommand"
        lines += [
            f"complete -c paceline -n {when} " + (f"-l {word[2:]}" if word.startswith("--") else f"-f -a {word}")
            for word in words
            if not word.startswith("-") or word.startswith("--")
        ]
    return "\n".join(lines) + "\n"


def words(command: Any, name: str = "") -> dict[str, list[str]]:
    """What may follow the program and each of its commands."""
    visible = [option for option in command.params if not getattr(option, "hidden", False)]
    options = [word for option in visible for word in option.opts]
    options += [word for option in visible for word in option.secondary_opts]
    below: Mapping[str, Any] = getattr(command, "commands", {})
    shown = {part: inner for part, inner in below.items() if not inner.hidden}
    found = {name: [*shown, *(word for word in options if word.startswith("--")), "--help"]}
    for part, inner in shown.items():
        found |= words(inner, f"{name} {part}".strip())
    return found
