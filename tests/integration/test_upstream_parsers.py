"""mlx-lm's parsers read whole calls. On calls as the models' templates write them, ours say the same."""

from __future__ import annotations

import importlib
import json
import pkgutil
from typing import Any

import pytest
from mlx_lm import tool_parsers

from paceline import setting_aliases
from paceline.conversation.parsing.call_formats import LIBRARY_FORMATS
from paceline.conversation.parsing.formats import TOOL_PARSERS, OutputFormat, check_parsers
from paceline.settings import Settings
from tests.conversation.parsing.cases import FORMATS, TOOLS, named, read

ARGUMENTS: list[dict[str, Any]] = [
    {},
    {"city": "Bonn"},
    {"city": 'a "b" \\ {c} <d>', "days": 3},
    {"city": "x\ny", "days": -1, "units": "C"},
]
TWINS = [
    ("hermes", "json_tools", "<tool_call>", "</tool_call>"),
    ("qwen3_coder", "qwen3_coder", "<tool_call>\n", "\n</tool_call>"),
    ("glm", "glm47", "<tool_call>", "</tool_call>"),
    ("mistral list", "mistral", "[TOOL_CALLS]", ""),
    ("mistral names", "mistral", "[TOOL_CALLS]", ""),
    ("minimax", "minimax_m2", "<minimax:tool_call>", "</minimax:tool_call>"),
    ("llama3_pythonic", "pythonic", "", ""),
    ("gemma", "gemma4", "<|tool_call>", "<tool_call|>"),
]


@pytest.mark.parametrize(("name", "twin", "before", "behind"), TWINS, ids=[name for name, *_ in TWINS])
@pytest.mark.parametrize("arguments", ARGUMENTS, ids=str)
def test_a_call_is_what_mlx_lm_says(name: str, twin: str, before: str, behind: str, arguments: dict[str, Any]) -> None:
    case = FORMATS[name]
    text = case.calls(("get_weather", arguments))
    parse = importlib.import_module(f"mlx_lm.tool_parsers.{twin}").parse_tool_call
    theirs = parse(text.removeprefix(before).removesuffix(behind), TOOLS)
    theirs = theirs if isinstance(theirs, list) else [theirs]
    assert named(read(text, case.format)) == [(call["name"], call["arguments"]) for call in theirs]


@pytest.mark.parametrize("name", LIBRARY_FORMATS)
def test_the_markers_of_mlx_lms_parsers_are_as_we_know_them(name: str) -> None:
    module = importlib.import_module(f"mlx_lm.tool_parsers.{name}")
    format = LIBRARY_FORMATS[name]
    assert (format.start, format.end) == (module.tool_call_start, module.tool_call_end)


def test_there_is_a_format_for_each_of_mlx_lms_parsers() -> None:
    names = [module.name for module in pkgutil.iter_modules(tool_parsers.__path__)]
    assert "kimi_k2" in names
    assert [name for name in names if setting_aliases.TOOL_PARSERS.get(name, name) not in TOOL_PARSERS] == []
    for name in names:  # by mlx-lm's own name, too
        chosen = Settings.load({"tool_parser": name}, None, {}).tool_parser
        check_parsers(chosen, None)
        assert chosen == setting_aliases.TOOL_PARSERS.get(name, name)


def test_longcats_calls_are_read_with_the_types_of_their_schema() -> None:
    inside = "<longcat_arg_key>{}</longcat_arg_key>\n<longcat_arg_value>{}</longcat_arg_value>\n"
    text = f"get_weather\n{inside.format('city', '7')}{inside.format('days', '7')}"
    answer = read(f"So: <longcat_tool_call>{text}</longcat_tool_call>", OutputFormat("longcat"))
    assert named(answer) == [("get_weather", {"city": "7", "days": 7})]
    assert answer.content == "So: "


@pytest.mark.parametrize(
    "inside",
    ['{"name": "get_weather", "arguments": {"city": "7"}}', '{"name":"get_weather","arguments":{"city":"7"}}\n'],
)
def test_longcats_calls_may_be_json(inside: str) -> None:
    text = f"<longcat_tool_call>\n{inside}</longcat_tool_call>"
    assert named(read(text, OutputFormat("longcat"))) == [("get_weather", {"city": "7"})]
    wrong = text.replace("get_weather", "rm")
    assert read(wrong, OutputFormat("longcat")).content == wrong


def test_python_values_become_json() -> None:
    text = "[get_weather(city='a', days=[1, {'b': None}], on=True, off=false), get_time()]"
    answer = read(text, OutputFormat("llama3_pythonic"))
    assert named(answer) == [
        ("get_weather", {"city": "a", "days": [1, {"b": None}], "on": True, "off": False}),
        ("get_time", {}),
    ]
    for wrong in ("[get_time(a={1})]", "[get_time(a=b'x')]", "[get_time(a=1e999)]", "[get_time(), rm()]"):
        assert read(wrong, OutputFormat("llama3_pythonic")).content == wrong


def test_arguments_inside_a_string_are_taken_out() -> None:
    inside = json.dumps({"city": "Bonn"})
    text = f'<tool_call>{{"name": "get_weather", "arguments": {json.dumps(inside)}}}</tool_call>'
    assert named(read(text, OutputFormat("hermes"))) == [("get_weather", {"city": "Bonn"})]
