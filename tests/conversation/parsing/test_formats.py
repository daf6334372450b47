from __future__ import annotations

import pytest

from paceline.conversation.parsing.formats import (
    REASONING_PARSERS,
    TOOL_PARSERS,
    OutputFormat,
    choose_format,
    opens_reasoning,
)
from paceline.errors import SettingsError

TEMPLATES = {
    # what each family's template says of calls and thoughts, shortened
    '<tool_call>\n{"name": <function-name>, "arguments": <args-json>}\n</tool_call>': ("hermes", "none"),
    "<tool_call>\\n{\"name\": \"' + tool_call.name + '\"}{{ content.split('</think>') }}": ("hermes", "think"),
    "<tool_call>\\n<function=example_function_name>\\n<parameter=x> <think>\\n": ("qwen3_coder", "think"),
    "<tool_call>{{ tc.name }}<arg_key>{{ k }}</arg_key><arg_value></arg_value></tool_call><think></think>": (
        "glm",
        "think",
    ),
    "<|start_header_id|>assistant<|end_header_id|> <|python_tag|> <|eom_id|>": ("llama3_json", "none"),
    "<|start_header_id|>assistant<|end_header_id|>": ("llama3_json", "none"),
    "<|header_start|>assistant<|header_end|> <|python_start|>": ("llama3_pythonic", "none"),
    "List of tools: <|tool_list_start|>[": ("llama3_pythonic", "none"),
    "[INST] [AVAILABLE_TOOLS] [TOOL_CALLS] [/INST]": ("mistral", "none"),
    "[TOOL_CALLS]{{ name }}[ARGS] [THINK][/THINK]": ("mistral", "mistral"),
    "<｜Assistant｜><｜tool▁calls▁begin｜><｜tool▁call▁begin｜> </think>": ("deepseek", "think"),
    "<|start|>assistant<|channel|>analysis<|message|>": ("gpt_oss", "gpt_oss"),
    "<|tool_call>call:{{ name }}<tool_call|> <|channel>thought\n<channel|>": ("gemma", "gemma"),
    "<start_of_turn>model": ("json", "none"),
    "<|im_start|>assistant": ("json", "none"),
    "<minimax:tool_call><invoke name=": ("minimax", "none"),
    "<|tool_calls_section_begin|><|tool_call_begin|>{{ id }}<|tool_call_argument_begin|>": ("kimi_k2", "none"),
    "<longcat_tool_call>{{ name }}<longcat_arg_key>": ("longcat", "none"),
    "<start_function_call>call:{{ name }}": ("function_gemma", "none"),
    '<function name="x"><param name="y"></param></function>': ("minicpm5", "none"),
    "<atem:function_calls><atem:invoke name=": ("muse_spark", "none"),
    "<|tool|>{{ tools }}<|/tool|> <|tool_call|>": ("json", "none"),
    "within <tool_call></tool_call>, or <tool_calls>[{{ calls }}]</tool_calls>": ("json", "none"),
    "<TOOLCALL>[{{ calls }}]</TOOLCALL> <think>": ("json", "think"),
    "<|START_THINKING|><|END_THINKING|><|START_ACTION|>[{{ calls }}]<|END_ACTION|>": ("json", "command"),
    "<|inner_prefix|><|tools_prefix|>[{{ calls }}]<|tools_suffix|>": ("json", "apertus"),
    "<seed:think><seed:tool_call><function={{ name }}><parameter=x>": ("qwen3_coder", "seed"),
}


@pytest.mark.parametrize(("template", "names"), TEMPLATES.items())
def test_the_template_says_which_format_it_is(template: str, names: tuple[str, str]) -> None:
    chosen = choose_format(template)
    assert (chosen.tools, chosen.reasoning) == names
    assert choose_format(template, (), "auto", "auto") == chosen


def test_a_vocabulary_of_kimi_k3_says_so_without_a_template() -> None:
    tokens = {"<|open|>", "<|close|>", "<|sep|>", "<|end_of_msg|>"}
    chosen = choose_format("", tokens)
    assert chosen.tools == "kimi_k3"
    assert chosen.special == tokens - {"<|end_of_msg|>"}
    assert choose_format("", tokens - {"<|sep|>"}).tools == "json"


def test_mlx_lms_parser_counts_where_the_template_is_its_code() -> None:
    assert choose_format("", library_parser="muse_spark").tools == "muse_spark"
    assert choose_format("", library_parser="glm47").tools == "glm"
    assert choose_format("", library_parser="new").tools == "json"
    assert choose_format("<|im_start|>", library_parser="glm47").tools == "json"
    assert choose_format("", (), "mistral", library_parser="glm47").tools == "mistral"


@pytest.mark.parametrize(
    ("template", "parser", "why"),
    [
        ("<tool_call>", None, "parsed as hermes (by the chat template)"),
        ("<tool_call>", "glm", "parsed as glm (by --tool-parser)"),
        ("", "auto", "parsed as json (the chat template has no known markers)"),
    ],
)
def test_the_log_says_which_parser_was_chosen_and_why(
    template: str, parser: str | None, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("INFO", "paceline"):
        choose_format(template, (), parser)
    assert why in caplog.text


@pytest.mark.parametrize(
    ("template", "parser", "library", "said"),
    [
        ("{% if tools %}[[call {{ name }}]]{% endif %}", None, None, ("unknown", "hermes (<tool_call>)", "longcat (")),
        ("", None, "new", ("unknown", "mlx-lm would parse them as new")),
        ("{% if tools %}[[call]]{% endif %}", "json", None, ()),
        ("{% if tools %}<|tool_call|>{% endif %}", None, None, ()),
        ("<start_of_turn>model", None, None, ()),
        ("{% if tools %}<tool_call>{% endif %}", None, None, ()),
    ],
)
def test_an_unknown_format_is_a_warning_that_names_what_was_looked_for(
    template: str, parser: str | None, library: str | None, said: tuple[str, ...], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("WARNING", "paceline"):
        assert choose_format(template, (), parser, library_parser=library).tools in ("json", "hermes")
    assert all(words in caplog.text for words in said)
    assert bool(caplog.records) is bool(said)


def test_the_vocabulary_of_lfm_says_so_where_its_template_does_not() -> None:
    chosen = choose_format("<|im_start|>", {"<|tool_call_start|>", "<|tool_call_end|>"})
    assert chosen.tools == "llama3_pythonic" and "<|tool_call_start|>" in chosen.special


def test_a_parser_that_is_named_is_taken() -> None:
    chosen = choose_format("<tool_call></think>", (), "mistral", "none")
    assert (chosen.tools, chosen.reasoning) == ("mistral", "none")
    for tools in TOOL_PARSERS[1:]:
        for reasoning in REASONING_PARSERS[1:]:
            chosen = choose_format("", (), tools, reasoning)
            assert (chosen.tools, chosen.reasoning) == (tools, reasoning)


def test_a_name_that_is_unknown_is_refused_with_the_list() -> None:
    with pytest.raises(SettingsError, match=r"--tool-parser 'qwn' is unknown\. Use one of: auto, none, qwen, "):
        choose_format("", (), "qwn")
    with pytest.raises(SettingsError, match=r"--reasoning-parser 'x' is unknown\. Use one of: auto, none, think, "):
        choose_format("", (), None, "x")


def test_special_tokens_are_needed_where_marks_are_special_tokens() -> None:
    assert not choose_format("<tool_call>", {"<|im_end|>"}).special
    assert choose_format("[TOOL_CALLS]", {"[TOOL_CALLS]", "[INST]"}).special == {"[TOOL_CALLS]"}
    assert choose_format("<|channel>thought", {"<|channel>", "<channel|>", "<eos>"}).special == {
        "<|channel>",
        "<channel|>",
    }
    assert choose_format("<|channel|><|message|>", {"<|channel|>", "<|endoftext|>"}).special
    assert not choose_format("[TOOL_CALLS]", {"[TOOL_CALLS]"}, "none", "none").special


@pytest.mark.parametrize(
    ("tail", "reasoning", "opens"),
    [
        ("<|im_start|>assistant\n<think>\n", "think", True),
        ("<｜Assistant｜><think>", "think", True),
        ("<|im_start|>assistant\n<think>\n\n</think>\n\n", "think", False),
        ("<|im_start|>assistant\n", "think", False),
        ("<think>\n", "none", False),
        ("<|start|>assistant", "gpt_oss", False),
        ("<|start|>assistant<|channel|>analysis<|message|>", "gpt_oss", True),
        ("[THINK]", "mistral", True),
    ],
)
def test_a_prompt_that_opens_a_thought_is_seen(tail: str, reasoning: str, opens: bool) -> None:
    assert opens_reasoning(tail, OutputFormat("none", reasoning)) is opens
