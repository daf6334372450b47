from __future__ import annotations

from typing import Any

import pytest

from paceline.conversation.template import RESERVED_TEMPLATE_OPTIONS, TemplateDialect, Templates
from paceline.conversation.template_fallbacks import RESULT_OPENING, TOOLS_INSTRUCTION, FallbackChange, call_text
from paceline.errors import InvalidRequest, LoadError
from tests.conversation import fuzz

ALL = fuzz.NAMES
TOOL = {
    "type": "function",
    "function": {"name": "weather", "description": "of a {city}", "parameters": {"type": "object", "properties": {}}},
}
PLAIN = "{% for m in messages %}[{{ m.role }}] {{ m.content }}\n{% endfor %}"
ALTERNATING = (
    "{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('roles must alternate') }}{% endif %}[{{ m.role }}] {{ m.content }}\n{% endfor %}"
)


def says(role: str, content: Any, **fields: Any) -> dict[str, Any]:
    return {"role": role, "content": content, **fields}


def call(name: str = "weather", arguments: Any = '{"city": "Rome"}', id: str = "call_1") -> dict[str, Any]:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def result(content: str = "sunny", id: str = "call_1") -> dict[str, Any]:
    return says("tool", content, tool_call_id=id)


def called(content: Any = "", *calls: dict[str, Any]) -> list[dict[str, Any]]:
    return [says("user", "ask"), says("assistant", content, tool_calls=list(calls or [call()])), result()]


def rendered(source: str, messages: list[dict[str, Any]], tools: Any = None, **options: Any) -> str:
    return Templates.of(source).render(messages, tools, add_generation_prompt=False, **options)


# -- the families


@pytest.mark.parametrize("name", ALL)
def test_a_plain_conversation_is_written_as_it_is(name: str, caplog: pytest.LogCaptureFixture) -> None:
    text = fuzz.render(name, [says("user", "one"), says("assistant", "two"), says("user", "three")])
    assert text.index("one") < text.index("two") < text.index("three")
    assert not caplog.records


def test_what_each_family_needs_is_found_out() -> None:
    needs = {name: set().union(*fuzz.templates(name).default._needs.values()) for name in ALL}
    assert needs["qwen3"] == set()
    assert needs["llama3"] == needs["gptoss"] == {FallbackChange.SPLIT}
    assert FallbackChange.IDS in needs["mistral"] and FallbackChange.CALLS not in needs["mistral"]
    assert needs["phi"] == {FallbackChange.CALLS, FallbackChange.DESCRIBE}
    assert needs["gemma2"] == {FallbackChange.SYSTEM, FallbackChange.CALLS, FallbackChange.DESCRIBE}
    assert needs["deepseek"] == {FallbackChange.SPLIT, FallbackChange.DESCRIBE}
    assert fuzz.templates("deepseek").default.dialect == TemplateDialect(objects=False, null=True)
    assert {fuzz.templates(name).default.dialect for name in ALL if name != "deepseek"} == {TemplateDialect()}


@pytest.mark.parametrize("arguments", ['{"city": "Rome"}', {"city": "Rome"}])
@pytest.mark.parametrize(
    "name, expected",
    [
        ("qwen3", '{"name": "weather", "arguments": {"city": "Rome"}}'),
        ("qwen35", "<parameter=city>\nRome\n</parameter>"),
        ("llama3", '{"name": "weather", "parameters": {"city": "Rome"}}'),
        ("mistral", '{"name": "weather", "arguments": {"city": "Rome"}, "id": '),
        ("deepseek", 'weather\n```json\n{"city": "Rome"}\n```'),
        ("gptoss", 'to=functions.weather<|channel|>commentary json<|message|>{"city": "Rome"}<|call|>'),
        ("gemma3", '<start_of_turn>model\n{"name": "weather", "arguments": {"city": "Rome"}}<end_of_turn>'),
    ],
)
def test_arguments_are_objects_or_text_as_the_template_wants(name: str, expected: str, arguments: Any) -> None:
    assert expected in fuzz.render(name, called("", call(arguments=arguments)))


@pytest.mark.parametrize("name", ALL)
def test_arguments_that_are_no_json_are_not_lost(name: str) -> None:
    assert "not json" in fuzz.render(name, called("", call(arguments="{not json")))


@pytest.mark.parametrize("name", ALL)
def test_pictureless_families_keep_calls_beside_text_and_several_at_once(name: str) -> None:
    calls = [call("one", id="a"), call("two", id="b")]
    messages = [says("user", "ask"), says("assistant", "let me see", tool_calls=calls)]
    text = fuzz.render(name, [*messages, result("first", "a"), result("second", "b"), says("user", "thanks")])
    for words in (["ask", "let me see", "one", "two"], ["first", "second", "thanks"]):
        places = [text.index(word) for word in words]
        assert places == sorted(places)


def test_each_of_several_calls_is_answered_before_the_next_where_only_one_is_taken() -> None:
    calls = [call("one", id="a"), call("two", id="b")]
    messages = [
        says("user", "ask"),
        says("assistant", "", tool_calls=calls),
        result("first", "a"),
        result("second", "b"),
    ]
    text = fuzz.render("gptoss", messages)
    assert text.index("functions.one to=assistant") < text.index("first") < text.index("functions.two to=assistant")
    swapped = fuzz.render("gptoss", [*messages[:2], *messages[:1:-1]])
    assert swapped.index("second") < swapped.index("first")


def test_images_of_the_system_message_are_shown_by_the_user() -> None:
    picture = {"type": "image_url", "image_url": {"url": "data:,x"}}
    system = says("system", [{"type": "text", "text": "a logo:"}, picture, {"type": "text", "text": "be brief"}])
    text = fuzz.render("qwen35", [says("user", [picture]), system])
    assert text.count("<|image_pad|>") == 2 and text.index("a logo:") < text.index("be brief")
    text = fuzz.render("gemma3", [says("user", [picture]), system])
    assert text.count("<start_of_image>") == 2 and "be brief" in text


# -- tools


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("system", [True, False])
def test_every_model_is_told_of_its_tools(name: str, system: bool) -> None:
    leading = [says("system", "be brief")] if system else []
    text = fuzz.render(name, [*leading, says("user", "ask")], [TOOL])
    assert "weather" in text and "of a {city}" in text
    knows = "tools" in (fuzz.FOLDER / f"{name}.jinja").read_text().partition("#}")[2]
    assert (TOOLS_INSTRUCTION.splitlines()[-1].replace("{{", "{").replace("}}", "}") in text) != knows


def test_calls_are_told_as_the_instruction_asks_for_them() -> None:
    text = fuzz.render("phi", called("hm"), [TOOL])
    assert f"<|assistant|>\nhm\n\n{call_text(call())}<|end|>" in text
    assert call_text(call()) == '{"name": "weather", "arguments": {"city": "Rome"}}'
    assert f"<|user|>\n{RESULT_OPENING.format(name='weather')}sunny<|end|>" in text


def test_the_template_for_tools_is_used_where_there_are_tools() -> None:
    templates = Templates.of({"default": "plain {{ messages[0].content }}", "tool_use": "tools {{ tools | tojson }}"})
    assert templates.render([says("user", "x")]).startswith("plain x")
    assert templates.render([says("user", "x")], []).startswith("plain x")
    assert "weather" in templates.render([says("user", "x")], [TOOL])
    assert templates.with_tools.source == "tools {{ tools | tojson }}"


def test_named_templates_need_a_default() -> None:
    assert Templates.of({"only": PLAIN}).default.source == PLAIN
    for named in ({"a": PLAIN, "tool_use": PLAIN}, {}):
        with pytest.raises(LoadError, match="default"):
            Templates.of(named)


@pytest.mark.parametrize("source", ["{% if %}", "{{ x", "{% for %}", "(" * 3 + "{{" + "(" * 5000])
def test_a_template_that_is_none_is_refused_at_load(source: str) -> None:
    with pytest.raises(LoadError, match="chat template cannot be read"):
        Templates.of(source)


# -- forms


# -- dialects


def test_content_is_a_list_of_parts_where_a_string_would_be_left_out() -> None:
    source = "{% for m in messages %}{% for part in m.content %}{{ part.text }}{% endfor %}{% endfor %}"
    assert rendered(source, [says("user", "hello")]) == "hello"


def test_a_name_is_kept_where_the_template_has_a_place_for_it() -> None:
    named = Templates.of("{% for m in messages %}{{ m.name or m.role }}: {{ m.content }}\n{% endfor %}")
    assert named.writes_names and not fuzz.templates("qwen3").writes_names
    assert named.render([says("user", "hi", name="ann")]) == "ann: hi\n"


def test_thoughts_go_by_the_name_that_the_template_reads() -> None:
    for field in ("reasoning_content", "reasoning", "thinking"):
        message = says("assistant", "", tool_calls=[call()], **{field: "hm, the weather"})
        assert "analysis<|message|>hm, the weather" in fuzz.render("gptoss", [says("user", "ask"), message, result()])
        assert "<think>\nhm, the weather\n</think>" in fuzz.render("qwen3", [says("user", "ask"), message, result()])


# -- options


def test_thinking_is_what_the_client_says_or_else_the_templates_own() -> None:
    messages = [says("user", "ask")]
    assert fuzz.render("qwen3", messages).endswith("assistant\n")
    assert fuzz.render("qwen3", messages, enable_thinking=False).endswith("</think>\n\n")
    assert fuzz.render("qwen35", messages).endswith("<think>\n")
    assert "Reasoning: high" in fuzz.render("gptoss", messages, reasoning_effort="high")


@pytest.mark.parametrize(
    "name", sorted(RESERVED_TEMPLATE_OPTIONS - {"messages", "tools", "add_generation_prompt", "self"})
)
def test_options_cannot_be_our_own_variables(name: str) -> None:
    with pytest.raises(InvalidRequest, match=rf"chat_template_kwargs\.{name} cannot be set") as caught:
        rendered(PLAIN, [says("user", "x")], **{name: "x"})
    assert caught.value.field == "chat_template_kwargs"


def test_the_tokenizers_own_special_tokens_are_reserved_too() -> None:
    templates = Templates.of("{{ boi_token }}{{ bos_token }}", {"boi_token": "<i>", "bos_token": "<s>"})
    assert templates.render([says("user", "x")]) == "<i><s>"
    with pytest.raises(InvalidRequest, match="boi_token"):
        templates.render([says("user", "x")], boi_token="y")


def test_a_template_that_laughs_a_billion_times_is_stopped_in_time() -> None:
    laughs = (
        "{% set ns = namespace(x=word) %}{% for _ in range(99) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}{{ ns.x }}"
    )
    loops = "{% for a in range(n) %}{% for b in range(n) %}{% endfor %}{% endfor %}"
    for source, options in ((laughs, {"word": "ha"}), (loops, {"n": 99_999})):
        templates = Templates.of("{% if word or n %}" + source + "{% endif %}x")
        with pytest.raises(InvalidRequest, match="was stopped") as caught:
            templates.render([says("user", "x")], **options)
        assert caught.value.field == "messages"


def test_options_nested_without_end_are_refused() -> None:
    nested: list[Any] = []
    for _ in range(100_000):
        nested = [nested]
    with pytest.raises(InvalidRequest):
        rendered("{{ x | tojson }}", [says("user", "x")], x=nested)
