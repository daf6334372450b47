from __future__ import annotations

import json
import os
import random
from collections.abc import Iterator
from typing import Any

import pytest

from paceline.conversation.parsing.events import CallBroken, Content, Event, Reasoning, merge
from paceline.conversation.parsing.formats import REASONING_PARSERS, TOOL_PARSERS, OutputFormat
from paceline.conversation.parsing.parser import OutputParser, parse_output
from tests.conversation.parsing.cases import (
    FORMATS,
    HELD,
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
QWEN = OutputFormat("qwen", "think")
CODER = OutputFormat("qwen3_coder", "think")
STREAMED = [case for case in FORMATS.values() if case.tools not in HELD]


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


@pytest.mark.thin(4)
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


@pytest.mark.thin(2)
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
        assert read(text, case.format) == parse_output(text, OutputFormat())
        assert read(text, case.format).content == text


@EVERY_FORMAT
def test_without_a_list_of_tools_any_identifier_is_a_name(case: Format) -> None:
    text = case.calls(("other-tool_2", {"city": "x"}))
    if case.tools not in ("llama3_pythonic", "function_gemma"):  # their names have no hyphens
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
    for marker in case.format.markers:
        if len(marker) < 3 or marker in ("[ARGS]", '<|"|>'):
            continue
        reading = parser(case.format)
        reading.push("x")
        reading.push(marker[:-1])
        assert merge([*reading.push("§"), *parser(case.format).finish()]).content.endswith("§")


# -- streaming


# -- reasoning


def test_an_answer_may_start_inside_reasoning() -> None:
    events = stream("I see.\n</think>\n\nYes.", QWEN, starts_in_reasoning=True)
    assert merge(events) == read("<think>\nI see.\n</think>\n\nYes.", QWEN)
    assert merge(events).reasoning == "I see."
    harmony = OutputFormat("gpt_oss", "gpt_oss")
    text = "So.<|end|><|start|>assistant<|channel|>final<|message|>Yes."
    assert merge(stream(text, harmony, starts_in_reasoning=True)) == read(
        f"<|channel|>analysis<|message|>{text}", harmony
    )


@pytest.mark.parametrize("message", ["commentary json<|message|>", "commentary<|message|>", "analysis code<|message|>"])
def test_a_call_of_gpt_oss_may_be_addressed_where_the_prompt_ends(message: str) -> None:
    """Its template writes calls like this, and the prompt ends with the role."""
    harmony = OutputFormat("gpt_oss", "gpt_oss")
    text = f' to=functions.get_weather<|channel|>{message}{{"city": "Bonn"}}<|call|>'
    assert named(merge(stream(text, harmony))) == [("get_weather", {"city": "Bonn"})]
    behind = f"<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant{text}"
    answer = merge(stream(behind, harmony))
    assert (answer.reasoning, named(answer)) == ("Hm.", [("get_weather", {"city": "Bonn"})])
    assert read(" to=Bonn by train", harmony).content == " to=Bonn by train"
    unknown = ' to=functions.rm<|channel|>commentary json<|message|>{"city": "Bonn"}'
    assert read(unknown, harmony).content == ' to=functions.rm{"city": "Bonn"}'


@pytest.mark.parametrize("second", ["</think>", "\n</think>", "\n\n</think>"])
def test_an_end_of_the_reasoning_that_is_written_twice_is_no_text(second: str) -> None:
    """A thinking budget forces the end mark; the model may then write its own."""
    said = merge(stream(f"<think>\nI see</think>{second}\n\nYes.", QWEN))
    assert (said.reasoning, said.content) == ("I see", "Yes.")
    assert read(f"<think>a</think>Yes.{second}", QWEN).content == f"Yes.{second}"


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
        assert read(text, OutputFormat("qwen")).content == text
    text = "<|channel|>analysis<|message|>a<|end|>"
    assert read(text, OutputFormat("gpt_oss")).content == text


# -- what goes wrong


# -- properties, on FUZZ random answers

FUZZ = int(os.environ.get("PACELINE_TEST_FUZZ", "2000"))
SENTINELS = [chr(0xE000 + place) for place in range(64)]


def random_answer(random_: random.Random, case: Format) -> str:
    """Marks, beginnings of marks, calls and text in any order, and sentinels between them."""
    markers = [
        *case.format.markers,
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
        marker = random_.choice(markers)
        fragments.append(
            random_.choice(
                (
                    marker,
                    marker[: random_.randint(0, len(marker))],
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
        format = OutputFormat(random_.choice(TOOL_PARSERS[1:]), random_.choice(REASONING_PARSERS[1:]))
        tools = random_.choice((TOOLS, None, []))
        letters = random_.choice(('<|>/[]{}"\\:,=atoolcn_ \n', '{}[]",:\\u0e1-tfn \x00\n', "aé🙂\u2028\ufffd\0<｜▁"))
        start = random_.choice(("", *format.markers, '<tool_call>{"name":"get_time","arguments":{'))
        text = start + "".join(random_.choices(letters, k=random_.randrange(60)))
        events = stream(random_pieces(random_, text), format, tools)
        check_order(events)
        assert merge(events) == read(text, format, tools), (seed, format, text)
        for call in merge(events).calls:
            assert isinstance(json.loads(call.arguments), dict)


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
        "".join(case.format.markers[:2]) * (size // 100),
        case.format.markers[0] * (size // 100),
        '{"name": "get_time", "arguments": ' + "[" * size,
        "[get_time(" * (size // 100),
        "<|tool_call>call:get_time{" * (size // 100) + "<tool_call|>",
        case.calls(("get_weather", {"city": "x" * size})),
        case.calls(("get_weather", {"city": "\n" * size})),
    ):
        read(text, case.format)


def test_many_random_cuts_of_a_long_answer() -> None:
    random_ = random.Random(5)
    calls = [("get_weather", {"city": "".join(random_.choices('ab"\\\n{}é🙂', k=20)), "days": k}) for k in range(20)]
    for case in FORMATS.values():
        if case.tools in ("gemma", "function_gemma"):
            continue
        text = case.calls(*calls)
        for _ in range(5):
            borders = [random_.randrange(len(text)) for _ in range(200)]
            assert named(merge(stream(pieces_of(text, borders), case.format))) == calls, case


def test_two_parsers_share_nothing() -> None:
    one, two = OutputParser(QWEN, TOOLS), OutputParser(QWEN, TOOLS)
    half = FORMATS["qwen"].calls(BONN)
    events: list[list[Event]] = [[], []]
    for letter in half:
        events[0] += one.push(letter)
        events[1] += two.push(letter)
    assert named(merge(events[0])) == named(merge(events[1])) == [BONN]
    assert dumps(BONN[1]) == merge(events[0]).calls[0].arguments


def test_a_message_behind_a_broken_call_is_a_message() -> None:
    call = '<|channel|>commentary to=functions.get_weather<|message|>{"city": '
    answer = read(call + "<|start|>assistant<|channel|>final<|message|>Yes.", OutputFormat("gpt_oss", "gpt_oss"))
    assert answer.calls == ()
    assert answer.content == call + "Yes."


def test_text_in_a_format_holds_no_calls() -> None:
    """A call that stands in a string of the text is part of it; calls that come first are calls."""
    call = FORMATS["qwen3_coder"].calls(NOW)
    for text in (f'{{"a": "{call}"}}', f"x\n{call}"):
        assert read(text, CODER, calls_first=True).content == text
    assert named(read(f"{call}\n{call}", CODER, calls_first=True)) == [NOW, NOW]
    thought = f"<think>So.</think>\n\n{call}"
    assert named(read(thought, CODER, calls_first=True)) == [NOW]
