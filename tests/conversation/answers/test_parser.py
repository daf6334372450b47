from __future__ import annotations

import json
import os
import random
import re
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.conversation.answers import (
    AnswerFormat,
    AnswerParser,
    CallArguments,
    CallBroken,
    CallEnd,
    CallStart,
    Content,
    Event,
    Reasoning,
    call_id,
    merge,
    parse_whole,
)
from paceline.conversation.answers.formats import REASONING_PARSERS, TOOL_PARSERS
from tests.conversation.answers.cases import (
    FORMATS,
    THOUGHTS,
    TOOLS,
    Format,
    check_order,
    dumps,
    named,
    parser,
    read,
    stream,
)

EVERY_FORMAT = pytest.mark.parametrize("case", FORMATS.values(), ids=FORMATS)
BONN: tuple[str, dict[str, Any]] = ("get_weather", {"city": 'Köln "am" Rhein\n{]<x>', "days": 3})
NOW: tuple[str, dict[str, Any]] = ("get_time", {})
QWEN = AnswerFormat("qwen", "think")
CODER = AnswerFormat("qwen3_coder", "think")
STREAMED = [case for case in FORMATS.values() if case.tools not in ("llama3_pythonic", "gemma")]


def pieces_of(text: str, borders: list[int]) -> list[str]:
    ends = sorted(border % (len(text) + 1) for border in borders)
    return [text[low:high] for low, high in zip([0, *ends], [*ends, len(text)], strict=True)]


# -- every format


@EVERY_FORMAT
def test_two_calls_are_read(case: Format) -> None:
    answer = read(case.calls(BONN, NOW), case.format)
    assert named(answer) == [BONN, NOW]
    assert (answer.content, answer.reasoning) == ("", "")
    assert [call.id for call in answer.calls] == ["call_0", "call_1"]


@EVERY_FORMAT
def test_thought_text_and_calls_are_told_apart(case: Format) -> None:
    thought = THOUGHTS[case.reasoning].format("Hm.\n\nSo.") if case.reasoning != "none" else ""
    said = "" if case.first else "Let me see:\n\n1 < 2 {\n"
    message = f"<|start|>assistant<|channel|>commentary<|message|>{said}<|end|>" if case.tools == "gpt_oss" else said
    text = thought + message + case.calls(BONN, NOW) + "\n"
    answer = read(text, case.format)
    assert named(answer) == [BONN, NOW]
    assert answer.content == said.rstrip("\n")
    assert answer.reasoning == ("Hm.\n\nSo." if thought else "")


@EVERY_FORMAT
def test_wherever_the_text_is_cut_in_two_the_answer_is_the_same(case: Format) -> None:
    thought = THOUGHTS[case.reasoning].format("a\nb") if case.reasoning != "none" else ""
    text = thought + case.calls(BONN, NOW) + "\nDone.\n"
    expected = read(text, case.format)
    for border in range(len(text) + 1):
        events = stream([text[:border], text[border:]], case.format)
        check_order(events)
        assert merge(events) == expected
    assert merge(stream(text, case.format)) == expected


@EVERY_FORMAT
def test_wherever_the_text_ends_nothing_is_lost(case: Format) -> None:
    """A call either ended and is whole, or its text is content as it was written."""
    text = case.calls(BONN, NOW)
    for end in range(len(text)):
        answer = read(text[:end], case.format)
        events = stream(text[:end], case.format)
        assert merge(events) == answer
        assert named(answer) == [BONN, NOW][: len(answer.calls)]
        assert answer.content == text[:end] or answer.calls
        assert text[:end].endswith(answer.content)


@EVERY_FORMAT
def test_a_call_of_no_tool_is_text(case: Format) -> None:
    for name in ("rm", "get_weather2", "get_weather ", 'get_weather", "x": "', "get_\x00", "<b>"):
        if case.tools == "gpt_oss" and name.endswith(" "):
            continue  # a header's words may have more than one space between them
        text = case.calls((name, {"city": "Bonn"}))
        assert read(text, case.format) == parse_whole(text, AnswerFormat())
        assert read(text, case.format).content == text


@EVERY_FORMAT
def test_without_a_list_of_tools_any_identifier_is_a_name(case: Format) -> None:
    text = case.calls(("other-tool_2", {"city": "x"}))
    if case.tools != "llama3_pythonic":
        assert named(read(text, case.format, None)) == [("other-tool_2", {"city": "x"})]
    text = case.calls(('a"b', {"city": "x"}))
    assert read(text, case.format, None).content == text


@EVERY_FORMAT
def test_calls_that_are_not_wanted_are_raw_text(case: Format) -> None:
    text = "Yes.\n" + case.calls(BONN, NOW)
    assert read(text, case.format, calls=False).content == text
    assert read(text, case.format, []).content == text


@EVERY_FORMAT
def test_text_that_begins_like_a_mark_comes_out_as_soon_as_it_is_none(case: Format) -> None:
    for mark in case.format.marks:
        if len(mark) < 3 or mark in ("[ARGS]", '<|"|>'):
            continue
        reading = parser(case.format)
        reading.push("x")
        reading.push(mark[:-1])
        assert merge([*reading.push("§"), *parser(case.format).finish()]).content.endswith("§")


# -- streaming


def test_a_name_comes_first_and_arguments_follow_letter_by_letter() -> None:
    text = '<tool_call>{"name": "get_weather", "arguments": {"city": "Bonn"}}</tool_call>'
    reading = parser(QWEN)
    seen = [(letter, reading.push(letter)) for letter in text]
    begin = text.index('{"city')
    assert [event for _, events in seen[:begin] for event in events] == []
    assert seen[begin][1] == [CallStart(0, "call_0", "get_weather"), CallArguments(0, "{")]
    for letter, events in seen[begin + 1 : text.index("}}")]:
        assert events == [CallArguments(0, letter)]
    assert seen[text.index("}}")][1] == [CallArguments(0, "}"), CallEnd(0)]
    assert [event for _, events in seen[text.index("}}") + 1 :] for event in events] == []


def test_a_string_parameter_streams_inside_its_tags() -> None:
    reading = parser(CODER)
    reading.push("<tool_call>\n<function=get_weather>\n<parameter=city>\n")  # the newline is layout
    assert reading.push('Bonn "') == [CallArguments(0, 'Bonn \\"')]
    assert reading.push("am\nRhein\n") == [CallArguments(0, "am\\nRhein")]
    assert reading.push("</parameter>\n<parameter=days>\n1") == [CallArguments(0, '"' + ', "days": ')]
    assert reading.push("2\n</parameter>") == [CallArguments(0, "12")]
    assert reading.push("</function>") == [CallArguments(0, "}"), CallEnd(0)]


def test_text_is_not_held_back() -> None:
    reading = parser(QWEN)
    assert reading.push("a <tool") == [Content("a ")]
    assert reading.push("s") == [Content("<tools")]
    assert reading.push(" <") == [Content(" ")]
    assert reading.push("\n") == [Content("<")]
    assert reading.push("b") == [Content("\nb")]


def test_a_call_whose_name_is_no_tool_is_let_go_at_the_first_wrong_letter() -> None:
    reading = parser(QWEN)
    assert reading.push('<tool_call>{"name": "get_') == []
    assert reading.push("s") == [Content('<tool_call>{"name": "get_s')]


def test_an_object_that_is_no_call_is_let_go_at_its_first_key() -> None:
    reading = parser(AnswerFormat("json"))
    assert reading.push('{"') == []
    assert reading.push("x") == [Content('{"x')]


def test_a_tool_whose_name_begins_another_is_told_from_it() -> None:
    tools = [{"name": "get"}, {"name": "get_all"}, {"function": {"name": "ge"}}]
    for name in ("ge", "get", "get_all"):
        for case in FORMATS.values():
            assert named(read(case.calls((name, {})), case.format, tools)) == [(name, {})], case


# -- reasoning


def test_an_answer_may_start_inside_reasoning() -> None:
    events = stream("I see.\n</think>\n\nYes.", QWEN, starts_in_reasoning=True)
    assert merge(events) == read("<think>\nI see.\n</think>\n\nYes.", QWEN)
    assert merge(events).reasoning == "I see."
    harmony = AnswerFormat("gpt_oss", "gpt_oss")
    text = "So.<|end|><|start|>assistant<|channel|>final<|message|>Yes."
    assert merge(stream(text, harmony, starts_in_reasoning=True)) == read(
        f"<|channel|>analysis<|message|>{text}", harmony
    )


def test_reasoning_that_never_ends_is_reasoning() -> None:
    assert merge(stream("<think>\nHm, </thin", QWEN)).reasoning == "Hm, </thin"


def test_a_think_mark_behind_text_is_text() -> None:
    text = "The tag <think> opens and </think> closes."
    assert read(text, QWEN).content == text
    behind_a_call = FORMATS["qwen"].calls(NOW) + "<think>a</think>"
    assert read(behind_a_call, QWEN).content == "<think>a</think>"


def test_a_call_inside_reasoning_is_reasoning() -> None:
    call = FORMATS["qwen"].calls(BONN)
    assert read(f"<think>Maybe {call}?</think>No.", QWEN).reasoning == f"Maybe {call}?"


def test_without_a_reasoning_parser_the_marks_stay() -> None:
    for text in ("<think>a</think>b", "[THINK]a[/THINK]b"):
        assert read(text, AnswerFormat("qwen")).content == text
    text = "<|channel|>analysis<|message|>a<|end|>"
    assert read(text, AnswerFormat("gpt_oss")).content == text


# -- what goes wrong


def test_a_call_whose_arguments_stop_being_json_is_no_call_but_text() -> None:
    """Closed where it breaks it would be another call: think of a command that deletes "/tmp/x"."""
    text = 'So:\n<tool_call>{"name": "get_weather", "arguments": {"city": "a"b", "days": 3}}</tool_call>\nx'
    answer = read(text, QWEN)
    assert (answer.calls, answer.content) == ((), text)
    events = stream(text + FORMATS["qwen"].calls(NOW), QWEN)
    broken = [event for event in events if isinstance(event, CallBroken)]
    assert broken == [CallBroken(0, '\n<tool_call>{"name": "get_weather", "arguments": {"city": "a"')]
    assert [event.index for event in events if isinstance(event, CallStart)] == [0, 1], "the next is another call"
    assert named(merge(events)) == [NOW]


def test_arguments_twice_are_the_first_and_the_rest_is_text() -> None:
    again = ', "arguments": {"city": "b"}}</tool_call>'
    answer = read('<tool_call>{"name": "get_weather", "arguments": {"city": "a"}' + again, QWEN)
    assert (named(answer), answer.content) == ([("get_weather", {"city": "a"})], again)
    text = '<tool_call>{"arguments": {"city": "a"}, "arguments": {"city": "b"}, "name": "get_weather"}</tool_call>'
    assert read(text, QWEN).content == text


def test_a_message_behind_a_broken_call_is_a_message() -> None:
    call = '<|channel|>commentary to=functions.get_weather<|message|>{"city": '
    answer = read(call + "<|start|>assistant<|channel|>final<|message|>Yes.", AnswerFormat("gpt_oss", "gpt_oss"))
    assert answer.calls == ()
    assert answer.content == call + "Yes."


def test_a_tag_that_breaks_off_makes_text_of_the_call() -> None:
    for text in (
        "<function=get_weather>\n<parameter=city>\nBonn\n</parameter>\nand so on",
        "<function=get_weather>\n<parameter=city\n</function>",
    ):
        answer = read(text, CODER)
        assert (answer.calls, answer.content) == ((), text)


def test_a_started_call_that_is_cut_off_has_no_end_and_comes_back_as_text() -> None:
    text = 'So:\n<tool_call>{"name": "get_weather", "arguments": {"city": "Bo'
    events = stream([text], QWEN)
    assert events == [
        Content("So:"),
        CallStart(0, "call_0", "get_weather"),
        CallArguments(0, '{"city": "Bo'),
        CallBroken(0, "\n" + text.removeprefix("So:\n")),
    ]
    assert merge(events).calls == ()


@pytest.mark.parametrize(
    "inside",
    [
        "",
        "{}",
        "[]",
        "null",
        '{"name": "get_weather"',
        '{"name": 3, "arguments": {}}',
        '{"arguments": {}}',
        '{"name": "get_weather", "arguments": 3}',
        '{"name": "get_weather", "arguments": "no"}',
        '{"name": "get_weather", "arguments": [1]}',
        '{"name": "get_weather", "name": "get_time"}',
        '{"name": get_weather}',
        '{"name": "get_weather", "command": "x"}',
        "<function=get_weather>",
        "get_weather(city=3)",
        "\x00",
    ],
)
def test_what_is_not_a_call_comes_back_as_it_was_written(inside: str) -> None:
    text = f"<tool_call>\n{inside}\n</tool_call>"
    assert read(text, QWEN) == read(text, AnswerFormat())
    call = FORMATS["qwen"].calls(NOW)
    assert named(read(text + call, QWEN)) == [NOW], "the next call is a call"


def test_a_call_without_its_closing_mark_is_a_call() -> None:
    for cut in range(len("\n</tool_call>") + 1):
        text = FORMATS["qwen"].calls(NOW)
        assert named(read(text[: len(text) - cut], QWEN)) == [NOW]
    unclosed = '<tool_call>{"name": "get_time", "arguments": {}}'
    assert named(read(unclosed * 2, QWEN)) == [NOW, NOW]


def test_a_json_answer_is_not_taken_for_a_call() -> None:
    json_format = AnswerFormat("json")
    for text in ('{"name": "get_time"}', '{"name": "Ada", "arguments": {}}', "[1, 2]", '[{"a": 1}]', "{}", '{"name"'):
        assert read(text, json_format).content == text
    behind = 'See: {"name": "get_time", "arguments": {}}'
    assert read(behind, json_format).content == behind


def test_ids_are_like_openais_and_all_different() -> None:
    ids = {call_id() for _ in range(100)}
    assert len(ids) == 100
    assert all(re.fullmatch(r"call_[A-Za-z0-9]{24}", id) for id in ids)
    assert parse_whole(FORMATS["qwen"].calls(NOW), QWEN, TOOLS).calls[0].id.startswith("call_")


def test_an_answer_without_marks_is_the_same_to_the_letter() -> None:
    text = "\n \n Hello,\r\n\n  world!\t\n\n"
    for tools in TOOL_PARSERS:
        for reasoning in REASONING_PARSERS:
            assert merge(stream(text, AnswerFormat(tools, reasoning))).content == text


# -- properties, on FUZZ random answers

FUZZ = int(os.environ.get("PACELINE_TEST_FUZZ", "2000"))
SENTINELS = [chr(0xE000 + place) for place in range(64)]


def random_answer(random_: random.Random, case: Format) -> str:
    """Marks, beginnings of marks, calls and text in any order, and sentinels between them."""
    marks = [
        *case.format.marks,
        *"{}[],\"':;\\\n ",
        '"name": ',
        '"arguments": ',
        "{}",
        "functions.",
        "analysis",
        "final",
    ]
    whole = [case.calls(BONN), case.calls(NOW), "get_weather", "get_time", "<parameter=", "city", "days", '"city": "']
    if case.reasoning != "none":
        whole.append(THOUGHTS[case.reasoning].format("t"))
    fragments = []
    for _ in range(random_.randrange(14)):
        mark = random_.choice(marks)
        fragments.append(
            random_.choice(
                (
                    mark,
                    mark[: random_.randint(0, len(mark))],
                    random_.choice(whole),
                    "\0",  # becomes a sentinel
                    "".join(random_.choices("ab<|>/\n ", k=random_.randrange(5))),
                )
            )
        )
    text = "".join(fragments)
    for sentinel in SENTINELS:
        text = text.replace("\0", sentinel, 1)
    return text


def random_pieces(random_: random.Random, text: str) -> list[str]:
    return pieces_of(text, [random_.randrange(len(text) + 1) for _ in range(random_.randrange(12))])


def test_cut_anywhere_the_answer_is_the_same_and_no_text_is_lost_doubled_or_moved() -> None:
    """What holds for every text:

    - it never raises, and however it is cut, the events merge to the same answer;
    - a call that ends has a tool's name and an object for arguments;
    - if no call ended and there is no think block, the content is the input, to the letter;
    - content and reasoning, in the order of their events, are the input with something left out, never put in;
    - what is left out is marks, calls and their layout: every sentinel is in the content, the reasoning or the
      arguments once, in order. (Held calls are parsed by mlx-lm, which may leave out what it does not understand.)
    """
    cases = list(FORMATS.values())
    for seed in range(FUZZ):
        random_ = random.Random(seed)
        case = cases[seed % len(cases)]
        text = random_answer(random_, case)
        thinking = random_.random() < 0.2
        events = stream(random_pieces(random_, text), case.format, starts_in_reasoning=thinking)
        merged = merge(events)
        said = f"{seed}: {case.tools} {text!r}"
        check_order(events)
        assert merged == read(text, case.format, starts_in_reasoning=thinking), said
        for call in merged.calls:
            assert call.name in ("get_weather", "get_time"), said
            assert isinstance(json.loads(call.arguments), dict), said
        if not merged.calls and case.reasoning == "none":
            assert merged.content == text, said
        shown = "".join(event.text for event in events if isinstance(event, Content | Reasoning | CallBroken))
        assert is_subsequence(shown, text), said
        if case in STREAMED:
            parts = [merged.content, merged.reasoning, *(call.arguments for call in merged.calls)]
            found = [[letter for letter in part if letter in SENTINELS] for part in parts]
            assert all(letters == sorted(letters) for letters in found), said
            assert sorted(sum(found, [])) == [letter for letter in text if letter in SENTINELS], said


def test_garbage_never_raises() -> None:
    for seed in range(FUZZ):
        random_ = random.Random(seed)
        format = AnswerFormat(random_.choice(TOOL_PARSERS[1:]), random_.choice(REASONING_PARSERS[1:]))
        tools = random_.choice((TOOLS, None, []))
        letters = random_.choice(('<|>/[]{}"\\:,=atoolcn_ \n', '{}[]",:\\u0e1-tfn \x00\n', "aé🙂\u2028\ufffd\0<｜▁"))
        start = random_.choice(("", *format.marks, '<tool_call>{"name":"get_time","arguments":{'))
        text = start + "".join(random_.choices(letters, k=random_.randrange(60)))
        events = stream(random_pieces(random_, text), format, tools)
        check_order(events)
        assert merge(events) == read(text, format, tools), (seed, format, text)
        for call in merge(events).calls:
            assert isinstance(json.loads(call.arguments), dict)


TEXT = st.text("ab {}\n", min_size=1, max_size=8).map(lambda text: f"x{text}x")
BORDERS = st.lists(st.integers(0, 10_000), max_size=12)


@settings(max_examples=100, deadline=None)
@given(
    st.sampled_from([case for case in FORMATS.values() if not case.first and case.tools != "gpt_oss"]),
    st.lists(st.one_of(TEXT, st.sampled_from([BONN, NOW])), max_size=6),
    BORDERS,
)
def test_content_is_the_text_between_the_calls_without_the_newlines_that_touch_them(
    case: Format, parts: list[Any], borders: list[int]
) -> None:
    text = "\n".join(part if isinstance(part, str) else case.calls(part) for part in parts)
    answer = merge(stream(pieces_of(text, borders), case.format))
    assert named(answer) == [part for part in parts if not isinstance(part, str)]
    runs = "\n".join(part if isinstance(part, str) else "\0" for part in parts).split("\0")
    inner = [run.removeprefix("\n") if place else run for place, run in enumerate(runs)]
    assert answer.content == "".join(
        run.removesuffix("\n") if place < len(inner) - 1 else run for place, run in enumerate(inner)
    )


def is_subsequence(part: str, whole: str) -> bool:
    rest: Iterator[str] = iter(whole)
    return all(letter in rest for letter in part)


# -- cost


@pytest.mark.timeout(60)
@EVERY_FORMAT
def test_long_and_hostile_answers_are_read_in_time(case: Format) -> None:
    """Within a second or so. Quadratic would be minutes."""
    size = 50_000
    for text in (
        "".join(case.format.marks[:2]) * (size // 100),
        case.format.marks[0] * (size // 100),
        '{"name": "get_time", "arguments": ' + "[" * size,
        "[get_time(" * (size // 100),
        "<|tool_call>call:get_time{" * (size // 100) + "<tool_call|>",
        case.calls(("get_weather", {"city": "x" * size})),
        case.calls(("get_weather", {"city": "\n" * size})),
    ):
        read(text, case.format)


def test_deep_nesting_is_text_and_does_not_exhaust_the_stack() -> None:
    text = '<tool_call>{"name": "get_weather", "arguments": {"a": ' + "[" * 5_000
    answer = read(text, QWEN)
    assert (answer.calls, answer.content) == ((), text)


def test_many_random_cuts_of_a_long_answer() -> None:
    random_ = random.Random(5)
    calls = [("get_weather", {"city": "".join(random_.choices('ab"\\\n{}é🙂', k=20)), "days": k}) for k in range(20)]
    for case in FORMATS.values():
        if case.tools == "gemma":
            continue
        text = case.calls(*calls)
        for _ in range(5):
            borders = [random_.randrange(len(text)) for _ in range(200)]
            assert named(merge(stream(pieces_of(text, borders), case.format))) == calls, case


def test_two_parsers_share_nothing() -> None:
    one, two = AnswerParser(QWEN, TOOLS), AnswerParser(QWEN, TOOLS)
    half = FORMATS["qwen"].calls(BONN)
    events: list[list[Event]] = [[], []]
    for letter in half:
        events[0] += one.push(letter)
        events[1] += two.push(letter)
    assert named(merge(events[0])) == named(merge(events[1])) == [BONN]
    assert dumps(BONN[1]) == merge(events[0]).calls[0].arguments
