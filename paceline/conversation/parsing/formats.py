"""Which format a model writes: by the parser's name, or by the markers in its chat template.

`choose_format` logs the formats that it takes, and why.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from paceline import setting_aliases
from paceline.conversation.parsing import call_formats
from paceline.conversation.parsing.calls import Calls
from paceline.conversation.parsing.source import Steps
from paceline.errors import SettingsError

log = logging.getLogger("paceline")
AUTO = "auto"
NONE = "none"
HARMONY = "gpt_oss"
HARMONY_OPENS = ("<|start|>", "<|channel|>")
HARMONY_CLOSES = ("<|end|>", "<|call|>", "<|return|>")
HARMONY_MARKERS = (*HARMONY_OPENS, "<|message|>", "<|constrain|>", *HARMONY_CLOSES)
NO_MARKERS = "the chat template has no known markers"
UNKNOWN = (
    "The format of this model's tool calls is unknown: its chat template mentions tools, and has no markers of "
    "%s.%s A call is taken to be a bare JSON object that names a tool; calls that the model writes otherwise are "
    "returned as text. Name the format with --tool-parser, if it is one of these."
)


@dataclass(frozen=True, slots=True)
class ToolFormat:
    read: Callable[[Calls], Steps[None]]  # from an opening marker to the end of the call
    opens: tuple[str, ...] = ()  # markers that begin a call anywhere
    first: tuple[str, ...] = ()  # markers that begin a call only before other text, or right after a call
    inner: tuple[str, ...] = ()  # other markers that may be special tokens


@dataclass(frozen=True, slots=True)
class ThinkFormat:
    open: str
    close: str


_hermes = ToolFormat(call_formats.read_hermes, ("<tool_call>",), inner=("</tool_call>",))
_tool_formats: Mapping[str, ToolFormat] = {
    "qwen": _hermes,
    "hermes": _hermes,
    "qwen3_coder": ToolFormat(
        partial(call_formats.read_tagged, tags=call_formats.QWEN3_CODER),
        ("<tool_call>", "<function="),
        inner=("</tool_call>", "</function>"),
    ),
    "llama3_json": ToolFormat(call_formats.read_llama, ("<|python_tag|>",), ("{", "[", ";")),
    "llama3_pythonic": ToolFormat(
        call_formats.read_pythonic,
        tuple(call_formats.PYTHON_MARKERS),
        ("[",),
        inner=tuple(call_formats.PYTHON_MARKERS.values()),
    ),
    "mistral": ToolFormat(call_formats.read_mistral, ("[TOOL_CALLS]",), inner=("[ARGS]", "[CALL_ID]")),
    "glm": ToolFormat(
        partial(call_formats.read_tagged, tags=call_formats.GLM),
        ("<tool_call>",),
        inner=("</tool_call>", "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"),
    ),
    "deepseek": ToolFormat(
        call_formats.read_deepseek,
        ("<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>"),
        inner=("<｜tool▁sep｜>", "<｜tool▁call▁end｜>", "<｜tool▁calls▁end｜>"),
    ),
    "minimax": ToolFormat(
        partial(call_formats.read_tagged, tags=call_formats.MINIMAX),
        ("<minimax:tool_call>", '<invoke name="'),
        inner=("</minimax:tool_call>",),
    ),
    "gemma": ToolFormat(call_formats.read_gemma, ("<|tool_call>",), inner=("<tool_call|>", '<|"|>')),
    **{
        name: ToolFormat(
            partial(call_formats.read_by_library, name=name), (format.start,), inner=(format.end, *format.inner)
        )
        for name, format in call_formats.LIBRARY_FORMATS.items()
    },
    "json": ToolFormat(
        call_formats.read_json,
        tuple(call_formats.JSON_MARKERS),
        ("{", "["),
        tuple(mark.close for mark in call_formats.JSON_MARKERS.values() if mark.close),
    ),
}
_think = ThinkFormat("<think>", "</think>")
_think_formats: Mapping[str, ThinkFormat] = {
    "think": _think,
    "qwen3": _think,
    "deepseek_r1": _think,
    "mistral": ThinkFormat("[THINK]", "[/THINK]"),
    "gemma": ThinkFormat("<|channel>thought", "<channel|>"),
    "seed": ThinkFormat("<seed:think>", "</seed:think>"),
    "command": ThinkFormat("<|START_THINKING|>", "<|END_THINKING|>"),
    "apertus": ThinkFormat("<|inner_prefix|>", "<|inner_suffix|>"),
}

# What a template writes into the conversation's history, the most specific first.
MARKERS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (HARMONY, ("<|channel|>", "<|message|>")),
    ("minimax", ("<minimax:tool_call>",)),
    ("gemma", ("<|tool_call>", "<tool_call|>")),
    ("function_gemma", ("<start_function_call>",)),
    ("longcat", ("<longcat_tool_call>",)),
    ("kimi_k2", ("<|tool_calls_section_begin|>",)),
    ("muse_spark", ("<atem:function_calls>",)),
    ("deepseek", ("<｜tool▁call▁begin｜>",)),
    ("glm", ("<arg_key>",)),
    ("qwen3_coder", ("<function=", "<parameter=")),
    ("minicpm5", ('<function name="', '<param name="')),
    ("llama3_pythonic", ("<|tool_call_start|>",)),
    ("llama3_pythonic", ("<|tool_list_start|>",)),
    ("mistral", ("[TOOL_CALLS]",)),
    *(("json", (marker,)) for marker in call_formats.JSON_MARKERS if marker != "<tool_call>"),
    ("hermes", ("<tool_call>",)),
    ("llama3_pythonic", ("<|python_start|>",)),
    ("llama3_json", ("<|python_tag|>",)),
    ("llama3_json", ("<|start_header_id|>",)),
)
TOOL_PARSERS = (AUTO, NONE, *_tool_formats, HARMONY)
REASONING_PARSERS = (AUTO, NONE, *_think_formats, HARMONY)


@dataclass(frozen=True, slots=True)
class OutputFormat:
    """What to look for in a model's output. Made by `choose_format`, the same for every request."""

    tools: str = NONE
    reasoning: str = NONE
    # Special tokens in markers: the text must show them.
    special: frozenset[str] = field(default=frozenset(), repr=False)

    @property
    def tool_format(self) -> ToolFormat | None:
        return _tool_formats.get(self.tools)

    @property
    def think_format(self) -> ThinkFormat | None:
        return _think_formats.get(self.reasoning)

    @property
    def is_harmony(self) -> bool:
        return HARMONY in (self.tools, self.reasoning)

    @property
    def markers(self) -> tuple[str, ...]:
        found: tuple[str, ...] = HARMONY_MARKERS if self.is_harmony else ()
        if tools := self.tool_format:
            found += (*tools.opens, *tools.inner)
        if think := self.think_format:
            found += (think.open, think.close)
        return found


def choose_format(
    template: str,
    special_tokens: Collection[str] = (),
    tool_parser: str | None = None,
    reasoning_parser: str | None = None,
    library_parser: str | None = None,
) -> OutputFormat:
    """The format of a model with this chat template. A named parser is taken; None and "auto" go by the template.

    `library_parser` is mlx-lm's tool parser, taken for a template without source: one that is code of mlx-lm's.
    """
    named_tools = _checked("tool-parser", tool_parser, TOOL_PARSERS)
    named_reasoning = _checked("reasoning-parser", reasoning_parser, REASONING_PARSERS)
    theirs = setting_aliases.TOOL_PARSERS.get(library_parser or "", library_parser or "")
    tools = theirs if theirs in _tool_formats and not template else _tools_of(template, special_tokens)
    chosen = OutputFormat(named_tools or tools, named_reasoning or _reasoning_of(template))
    marked = chosen.tools != "json" or any(marker in template for marker in call_formats.JSON_MARKERS)
    log.info(
        "tool calls are parsed as %s (%s), reasoning as %s (%s)",
        chosen.tools,
        "by --tool-parser" if named_tools else "by the chat template" if marked else NO_MARKERS,
        chosen.reasoning,
        "by --reasoning-parser" if named_reasoning else "by the chat template",
    )
    if not named_tools and not marked:
        _warn_of_unknown(template, library_parser)
    # A marker may be longer than its token: Gemma's thought channel is the token <|channel> and a word.
    special = {
        token for token in special_tokens if token and any(marker.startswith(token) for marker in chosen.markers)
    }
    return replace(chosen, special=frozenset(special))


def check_parsers(tool_parser: str | None, reasoning_parser: str | None) -> None:
    """Raises SettingsError for a name that no parser has."""
    _checked("tool-parser", tool_parser, TOOL_PARSERS)
    _checked("reasoning-parser", reasoning_parser, REASONING_PARSERS)


def opens_reasoning(prompt_tail: str, format: OutputFormat) -> bool:
    """Whether the rendered prompt ends with an open think block, so that the output starts inside it."""
    tail = prompt_tail.rstrip()
    if format.reasoning == HARMONY:
        return tail.endswith("<|channel|>analysis<|message|>")
    return format.think_format is not None and tail.endswith(format.think_format.open)


def _warn_of_unknown(template: str, library_parser: str | None) -> None:
    """Not of a template that never mentions tools: it has no calls to read."""
    if "tool" not in template and not library_parser:
        return
    looked_for = ", ".join(f"{name} ({' '.join(markers)})" for name, markers in MARKERS)
    log.warning(UNKNOWN, looked_for, f" mlx-lm would parse them as {library_parser}." if library_parser else "")


def _checked(flag: str, name: str | None, names: Collection[str]) -> str | None:
    if name is not None and name not in names:
        raise SettingsError(f"--{flag} {name!r} is unknown. Use one of: {', '.join(names)}.")
    return None if name in (None, AUTO) else name


def _tools_of(template: str, special_tokens: Collection[str]) -> str:
    """By the markers that the template writes into the conversation's history, the most specific first.

    Without any, a call is a bare JSON object that names one of the request's tools.
    """
    for name, markers in MARKERS:
        if all(marker in template for marker in markers):
            return name
    xtml = ("<|open|>", "<|close|>", "<|sep|>", "<|end_of_msg|>")  # Kimi K3, by its vocabulary, as in mlx-lm
    if all(token in special_tokens for token in xtml):
        return "kimi_k3"
    lfm = ("<|tool_call_start|>", "<|tool_call_end|>")  # LFM2.5, whose template does not name them
    return "llama3_pythonic" if all(token in special_tokens for token in lfm) else "json"


def _reasoning_of(template: str) -> str:
    if "<|channel|>" in template and "<|message|>" in template:
        return HARMONY
    for name in ("think", "mistral", "gemma", "seed", "command", "apertus"):
        markers = _think_formats[name]
        if markers.close in template or markers.open in template:
            return name
    return NONE
