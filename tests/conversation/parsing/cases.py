"""One way to write two calls in every format, and what the tests do with answers."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from paceline.conversation.parsing.call_formats import LIBRARY_FORMATS
from paceline.conversation.parsing.events import (
    CallArguments,
    CallBroken,
    CallEnd,
    CallStart,
    Event,
    ParsedOutput,
    merge,
)
from paceline.conversation.parsing.formats import OutputFormat
from paceline.conversation.parsing.parser import OutputParser

WEATHER: Mapping[str, Any] = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "days": {"type": "integer"}, "units": {"enum": ["C", "F"]}},
        },
    },
}
CLOCK: Mapping[str, Any] = {"type": "function", "function": {"name": "get_time"}}
TOOLS = [WEATHER, CLOCK]


@dataclass(frozen=True)
class Format:
    """`call(name, arguments)` writes one call; `join` what stands between two."""

    tools: str
    call: Callable[[str, Mapping[str, Any]], str]
    join: str = ""
    before: str = ""  # around all calls
    behind: str = ""
    reasoning: str = "none"
    first: bool = False  # calls are calls only at the answer's beginning

    @property
    def format(self) -> OutputFormat:
        return OutputFormat(self.tools, self.reasoning)

    def calls(self, *calls: tuple[str, Mapping[str, Any]]) -> str:
        return self.before + self.join.join(self.call(*call) for call in calls) + self.behind


def dumps(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _object(key: str) -> Callable[[str, Mapping[str, Any]], str]:
    return lambda name, arguments: f'{{"name": {dumps(name)}, "{key}": {dumps(arguments)}}}'


def _bare(value: Any) -> str:
    return value if isinstance(value, str) else dumps(value)


def _hermes(name: str, arguments: Mapping[str, Any]) -> str:
    return f"<tool_call>\n{_object('arguments')(name, arguments)}\n</tool_call>"


def _coder(name: str, arguments: Mapping[str, Any]) -> str:
    inside = "".join(f"<parameter={key}>\n{_bare(value)}\n</parameter>\n" for key, value in arguments.items())
    return f"<tool_call>\n<function={name}>\n{inside}</function>\n</tool_call>"


def _glm(name: str, arguments: Mapping[str, Any]) -> str:
    inside = "".join(
        f"<arg_key>{key}</arg_key>\n<arg_value>{_bare(value)}</arg_value>\n" for key, value in arguments.items()
    )
    return f"<tool_call>{name}\n{inside}</tool_call>"


def _minimax(name: str, arguments: Mapping[str, Any]) -> str:
    inside = "".join(f'<parameter name="{key}">{_bare(value)}</parameter>\n' for key, value in arguments.items())
    return f'<invoke name="{name}">\n{inside}</invoke>'


def _deepseek(name: str, arguments: Mapping[str, Any]) -> str:
    return f"<｜tool▁call▁begin｜>{name}<｜tool▁sep｜>{dumps(arguments)}<｜tool▁call▁end｜>"


def _deepseek_v3(name: str, arguments: Mapping[str, Any]) -> str:
    fenced = f"\n```json\n{dumps(arguments)}\n```"
    return f"<｜tool▁call▁begin｜>function<｜tool▁sep｜>{name}{fenced}<｜tool▁call▁end｜>"


def _python(name: str, arguments: Mapping[str, Any]) -> str:
    return f"{name}({', '.join(f'{key}={value!r}' for key, value in arguments.items())})"


def _gemma(name: str, arguments: Mapping[str, Any]) -> str:
    inside = ",".join(
        f'{key}:<|"|>{value}<|"|>' if isinstance(value, str) else f"{key}:{dumps(value)}"
        for key, value in arguments.items()
    )
    return f"<|tool_call>call:{name}{{{inside}}}<tool_call|>"


def _harmony(name: str, arguments: Mapping[str, Any]) -> str:
    header = f"<|start|>assistant<|channel|>commentary to=functions.{name} <|constrain|>json<|message|>"
    return f"{header}{dumps(arguments)}<|call|>"


def _kimi_k2(name: str, arguments: Mapping[str, Any]) -> str:
    return f"<|tool_call_begin|>functions.{name}:0<|tool_call_argument_begin|>{dumps(arguments)}<|tool_call_end|>"


def _kimi_k3(name: str, arguments: Mapping[str, Any]) -> str:
    block = f'<|open|>json type="object"<|sep|>{dumps(arguments)}<|close|>json<|sep|>'
    return f'<|open|>call tool="{name}" index="1"<|sep|>{block}<|close|>call<|sep|>'


def _function_gemma(name: str, arguments: Mapping[str, Any]) -> str:
    inside = ",".join(
        f"{key}:<escape>{value}<escape>" if isinstance(value, str) else f"{key}:{dumps(value)}"
        for key, value in arguments.items()
    )
    return f"<start_function_call>call:{name}{{{inside}}}<end_function_call>"


def _minicpm5(name: str, arguments: Mapping[str, Any]) -> str:
    inside = "".join(f'<param name="{key}"><![CDATA[{_bare(value)}]]></param>' for key, value in arguments.items())
    return f'<function name="{name}">{inside}</function>'


def _muse_spark(name: str, arguments: Mapping[str, Any]) -> str:
    inside = "".join(
        f'<atem:parameter name="{key}">{dumps(value)}</atem:parameter>' for key, value in arguments.items()
    )
    return f'<atem:invoke name="{name}">{inside}</atem:invoke>'


def _action(name: str, arguments: Mapping[str, Any]) -> str:
    return f'{{"tool_call_id": "0", "tool_name": {dumps(name)}, "parameters": {dumps(arguments)}}}'


FORMATS = {
    "hermes": Format("hermes", _hermes, "\n"),
    "qwen": Format("qwen", _hermes, "\n"),
    "qwen with thought": Format("qwen", _hermes, "\n", reasoning="think"),
    "qwen3_coder": Format("qwen3_coder", _coder, "\n", reasoning="think"),
    "glm": Format("glm", _glm, "\n", reasoning="think"),
    "minimax": Format("minimax", _minimax, "\n", "<minimax:tool_call>\n", "\n</minimax:tool_call>", reasoning="think"),
    "llama3_json": Format("llama3_json", _object("parameters"), "; ", first=True),
    "llama3_json with tag": Format("llama3_json", _object("parameters"), ";", "<|python_tag|>"),
    "mistral list": Format("mistral", _object("arguments"), ", ", "[TOOL_CALLS] [", "]"),
    "mistral names": Format("mistral", lambda n, a: f"[TOOL_CALLS]{n}[ARGS]{dumps(a)}", reasoning="mistral"),
    "mistral ids": Format("mistral", lambda n, a: f"[TOOL_CALLS]{n}[CALL_ID]aB3[ARGS]{dumps(a)}", reasoning="mistral"),
    "deepseek": Format("deepseek", _deepseek, "", "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>", reasoning="think"),
    "deepseek v3": Format("deepseek", _deepseek_v3, "\n", "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"),
    "llama3_pythonic": Format("llama3_pythonic", _python, ", ", "[", "]", first=True),
    "llama3_pythonic with marks": Format(
        "llama3_pythonic", _python, ", ", "<|tool_call_start|>[", "]<|tool_call_end|>"
    ),
    "gemma": Format("gemma", _gemma, reasoning="gemma"),
    "kimi_k2": Format("kimi_k2", _kimi_k2, "", "<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"),
    "kimi_k3": Format("kimi_k3", _kimi_k3, "", "<|open|>tools<|sep|>", "<|close|>tools<|sep|>"),
    "function_gemma": Format("function_gemma", _function_gemma),
    "minicpm5": Format("minicpm5", _minicpm5, "\n", reasoning="think"),
    "muse_spark": Format("muse_spark", _muse_spark, "\n", "<atem:function_calls>", "</atem:function_calls>"),
    "gpt_oss": Format("gpt_oss", _harmony, reasoning="gpt_oss"),
    "json": Format("json", _object("arguments"), "\n", first=True),
    "json list": Format("json", _object("arguments"), ",\n", "[", "]", first=True),
    "json with marks": Format("json", _object("arguments"), ",", "<|tool_call|>[", "]<|/tool_call|>"),
    "json of apriel": Format("json", _object("arguments"), ", ", "<tool_calls>[", "]</tool_calls>"),
    "json of minimax m1": Format(
        "json", _object("arguments"), "\n", "<tool_calls>\n", "\n</tool_calls>", reasoning="think"
    ),
    "json of nemotron": Format("json", _object("arguments"), ", ", "<TOOLCALL>[", "]</TOOLCALL>", reasoning="think"),
    "json of gigachat": Format("json", lambda n, a: "<|function_call|>" + _object("arguments")(n, a), "\n"),
    "json of command r": Format(
        "json", _action, ",\n    ", "<|START_ACTION|>[\n    ", "\n]<|END_ACTION|>", reasoning="command"
    ),
    "json of apertus": Format(
        "json", lambda n, a: f"{{{dumps(n)}: {dumps(a)}}}", ", ", "<|tools_prefix|>[", "]<|tools_suffix|>", "apertus"
    ),
}
HELD = ("llama3_pythonic", "gemma", *LIBRARY_FORMATS)  # formats that do not stream
THOUGHTS = {
    "think": "<think>\n{}\n</think>\n\n",
    "mistral": "[THINK]{}[/THINK]",
    "gemma": "<|channel>thought\n{}\n<channel|>",
    "gpt_oss": "<|channel|>analysis<|message|>{}<|end|>",
    "command": "<|START_THINKING|>{}<|END_THINKING|>",
    "apertus": "<|inner_prefix|>{}<|inner_suffix|>",
}


def parser(format: OutputFormat, tools: Any = TOOLS, **options: Any) -> OutputParser:
    count = itertools.count()
    return OutputParser(format, tools, new_id=lambda: f"call_{next(count)}", **options)


def stream(pieces: Iterable[str], format: OutputFormat, tools: Any = TOOLS, **options: Any) -> list[Event]:
    reading = parser(format, tools, **options)
    events = [event for piece in pieces for event in reading.push(piece)]
    return events + reading.finish()


def read(text: str, format: OutputFormat, tools: Any = TOOLS, **options: Any) -> ParsedOutput:
    return merge(stream([text], format, tools, **options))


def named(answer: ParsedOutput) -> list[tuple[str, Any]]:
    return [(call.name, json.loads(call.arguments)) for call in answer.calls]


def check_order(events: Iterable[Event]) -> None:
    """Calls follow each other: a start, arguments, an end or a break, with the next number."""
    current = -1
    is_open = False
    for event in events:
        match event:
            case CallStart(index):
                assert not is_open and index == current + 1
                current, is_open = index, True
            case CallArguments(index, text):
                assert is_open and index == current and text
            case CallEnd(index) | CallBroken(index):
                assert is_open and index == current
                is_open = False
            case _:
                assert event.text and not is_open
    assert not is_open
