"""Schemas, patterns and grammars that are short to write and long to follow, and what a chat template can be given."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.hostile.harness import Attack, Server, cases
from tests.hostile.test_prompts import MB, letters, said

CHAT = "/v1/chat/completions"
TOKENS = 24  # for the engine follows a grammar step by step
HUGE = 10**9
CALLS = 10_000  # more than any context holds


def asked(**fields: Any) -> bytes:
    return json.dumps({"messages": said("hi"), "max_tokens": TOKENS, "cache": False, **fields}).encode()


def formatted(schema: Any) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}


def schema(make: Callable[[], Any], clients: int = 1, sharp: bool = False) -> Attack:
    return Attack(CHAT, lambda: asked(response_format=formatted(make())), ("response_format",), clients, sharp)


def outputs(kind: str, make: Callable[[], Any], clients: int = 1, sharp: bool = False) -> Attack:
    return Attack(CHAT, lambda: asked(structured_outputs={kind: make()}), ("structured_outputs",), clients, sharp)


def both(pattern: str) -> dict[str, Attack]:
    """A pattern for a text in a schema, and one for the whole answer."""
    return {
        "pattern": schema(lambda: text(pattern=pattern), clients=4),
        "regex": outputs("regex", lambda: pattern, clients=4),
    }


def text(**limits: Any) -> dict[str, Any]:
    return {"type": "string", **limits}


def nested(depth: int, key: str = "properties") -> Any:
    """Written as text: Python's own writer gives up on thousands of levels."""
    inside = {"properties": '{"properties":{"a":', "items": '{"items":{"items":', "anyOf": '{"anyOf":[{"anyOf":['}[key]
    outside = "]}]}" if key == "anyOf" else "}}"
    return inside * (depth // 2) + '{"type":"string"}' + outside * (depth // 2)


def guided(make: Callable[[], str]) -> Attack:
    return Attack(CHAT, lambda: asked(guided_json=make()), ("guided_json",))


def inlined(make: Callable[[], str]) -> Attack:
    """A schema that is written into the body as it is."""

    def body() -> bytes:
        return asked(guided_json=0).replace(b'"guided_json": 0', b'"guided_json": ' + make().encode())

    return Attack(CHAT, body, ("guided_json",))


def cycle(length: int) -> Any:
    """Each refers to the next one, and the last to the first: there is no answer that ends."""
    kinds = {f"a{n}": {"$ref": f"#/$defs/a{(n + 1) % length}"} for n in range(length)}
    return {"$defs": kinds, "$ref": "#/$defs/a0"}


def doubled(levels: int, key: str) -> Any:
    """Every level holds the one below twice."""
    kinds: dict[str, Any] = {"a0": {"type": "object", "properties": {"x": text()}}}
    for level in range(1, levels):
        below = {"$ref": f"#/$defs/a{level - 1}"}
        two = [below, {**below, "title": "again"}]
        kinds[f"a{level}"] = {"properties": {"l": below, "r": below}, "required": ["l", "r"]} if not key else {key: two}
    return {"$defs": kinds, "$ref": f"#/$defs/a{levels - 1}"}


def tree() -> Any:
    """Of itself, without an end."""
    return {"type": "object", "properties": {"child": {"$ref": "#"}}, "required": ["child"]}


def tool(number: int, parameters: Any, **more: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": f"tool_{number}", "parameters": parameters, **more}}


def tools(count: int, properties: int, choice: str = "required", clients: int = 1, sharp: bool = False) -> Attack:
    def body() -> bytes:
        parameters = {"type": "object", "properties": {f"p{n}": text() for n in range(properties)}}
        return asked(tools=[tool(n, parameters, strict=True) for n in range(count)], tool_choice=choice)

    return Attack(CHAT, body, ("tools", "messages"), clients, sharp)


def lark_doubling(levels: int) -> str:
    rules = [f"a{n}: a{n - 1} a{n - 1}" for n in range(1, levels)]
    return "\n".join([f"start: a{levels - 1}", *rules, 'a0: "x" | "y"'])


CATASTROPHES = (
    "^(a+)+$",
    "(.*a){40}",
    "(a|b)*a(a|b){200}",
    "(x+x+)+y",
    r"(\w+\s?)*z",
    "(a?){3000}a{3000}",
    "((a{100}){100}){100}",
    "(.{1,1000}){1,1000}",
    "[^a]*" * 2000,
    "(" * 20_000 + "a" + ")" * 20_000,
    "|".join(f"(a{n}.*b)" for n in range(3000)),
    r"(\p{L}|\p{N}|\p{S}){1,5000}",
    "(.*x.*){1,15}" * 10,
)

ATTACKS: dict[str, Attack] = {
    # Deep.
    "deep_as_text": guided(lambda: nested(100_000)),
    "deep": inlined(lambda: nested(600)),
    "deep_items": inlined(lambda: nested(60, "items")),
    "deep_any_of": inlined(lambda: nested(60, "anyOf")),
    # Round and round.
    "itself": schema(lambda: {"$ref": "#"}),
    "tree_without_end": schema(tree),
    "cycle": schema(lambda: cycle(3)),
    "long_cycle": schema(lambda: cycle(3000), sharp=True),
    "references_to_nothing": schema(lambda: {"anyOf": [{"$ref": f"#/{n}"} for n in range(12_000)]}),
    "doubled_properties": schema(lambda: doubled(40, "")),
    "doubled_all_of": schema(lambda: doubled(24, "allOf"), clients=8),
    "doubled_any_of": schema(lambda: doubled(24, "anyOf"), clients=8),
    # Wide.
    "enum": schema(lambda: {"enum": [f"value {n}" for n in range(10_000)]}),
    "enum_allowed": schema(lambda: {"enum": [letters(30)[:20] + str(n) for n in range(5_000)]}, clients=8),
    "properties": schema(lambda: {"type": "object", "properties": {f"p{n}": text() for n in range(10_000)}}),
    "properties_allowed": schema(
        lambda: {"type": "object", "properties": {f"p{n}": text() for n in range(999)}, "required": []}, clients=8
    ),
    "required": schema(lambda: {"type": "object", "required": [f"p{n}" for n in range(10_000)]}),
    "patterns_of_names": schema(lambda: {"patternProperties": {f"^a{n}.*b": text() for n in range(900)}}, clients=4),
    "all_of": schema(lambda: {"allOf": [{"properties": {f"p{n}": text()}} for n in range(900)]}, clients=4),
    "any_of": schema(lambda: {"anyOf": [{"properties": {f"p{n}": text()}} for n in range(900)]}, clients=4),
    "one_of": schema(lambda: {"oneOf": [{"const": n} for n in range(5_000)]}, clients=4),
    "description": schema(lambda: {"type": "string", "description": letters(20 * MB)}),
    # Long.
    "max_length": schema(lambda: text(maxLength=HUGE, minLength=HUGE // 2)),
    "max_items": schema(lambda: {"type": "array", "items": text(), "maxItems": HUGE}),
    "min_items": schema(lambda: {"type": "array", "items": text(), "minItems": HUGE}),
    "items_of_items": schema(
        lambda: {"type": "array", "minItems": 10**4, "items": {"type": "array", "minItems": 10**4, "items": text()}}
    ),
    "lengths_in_properties": schema(
        lambda: {"properties": {f"p{n}": text(minLength=n, maxLength=HUGE + n) for n in range(500)}}, clients=4
    ),
    "prefix_items": schema(lambda: {"type": "array", "prefixItems": [text()] * 20_000}),
    "multiple_of": schema(lambda: {"allOf": [{"type": "integer", "multipleOf": n} for n in (97, 89, 83, 79, 73)]}),
    "bounds": schema(lambda: {"type": "number", "minimum": -1e300, "maximum": 1e-300}),
    "long_bounds": schema(lambda: {"type": "integer", "minimum": -(10**4000), "maximum": 10**4000}),
    "properties_at_least": schema(lambda: {"type": "object", "minProperties": HUGE, "maxProperties": HUGE}),
    # Patterns and grammars.
    **{f"{kind}_{n}": attack for n, each in enumerate(CATASTROPHES) for kind, attack in both(each).items()},
    "long_regex": outputs("regex", lambda: "(a|b)*" * 40_000, clients=8, sharp=True),
    "choices": outputs("choice", lambda: [f"{letters(40)}{n}" for n in range(10_000)]),
    "choices_allowed": outputs("choice", lambda: [f"{n} {letters(30)}" for n in range(5_000)], clients=8),
    "long_choice": outputs("choice", lambda: [letters(200_000)], clients=4),
    "lark_left_recursion": outputs("grammar", lambda: 'start: start start | "a" | ""'),
    "lark_ambiguous": outputs("grammar", lambda: 'start: a\na: a a a | a a | "x" | ' + " | ".join(['"x"'] * 500)),
    "lark_doubling": outputs("grammar", lambda: lark_doubling(60)),
    "lark_repeated": outputs("grammar", lambda: f"start: a{{{HUGE}}}\na: b{{{HUGE}}}\nb: /x/"),
    "lark_of_itself": outputs("grammar", lambda: "start: A\nA: B\nB: A"),
    "lark_long_chain": outputs("grammar", lambda: "start: a0\n" + "\n".join(f"a{n}: a{n + 1}" for n in range(4000))),
    "lark_chain_of_terminals": outputs(
        "grammar", lambda: "start: A0\n" + "\n".join(f"A{n}: A{n + 1}" for n in range(3000)) + '\nA3000: "x"'
    ),
    "lark_parentheses": outputs("grammar", lambda: "start: " + "(" * 30_000 + '"a"' + ")" * 30_000),
    "lark_comments": outputs("grammar", lambda: "start: /a/\n" + "//" * 30_000),
    "lark_long": outputs("grammar", lambda: letters(10 * MB)),
    "gbnf": outputs("grammar", lambda: "root ::= " + '("a" root? | ' * 5000 + '"b"' + ")" * 5000),
    # Tools.
    "hundred_tools": tools(100, 4),
    "tools_of_eight_clients": tools(8, 4, clients=8),  # prompts of 20 take this model two minutes on a busy CPU
    "five_hundred_tools": tools(500, 2),
    "too_many_tools": tools(5_000, 1),
    "hundred_tools_large": tools(100, 1000),
    "hundred_tools_auto": tools(30, 9, choice="auto"),
    "tool_without_end": Attack(CHAT, lambda: asked(tools=[tool(0, tree())], tool_choice="required"), ("tools",)),
    "tool_described_at_length": Attack(
        CHAT, lambda: asked(tools=[tool(0, {}, description=letters(5 * MB))]), ("tools", "messages")
    ),
    "tool_of_depth": Attack(
        CHAT,
        lambda: asked(tools=[tool(0, 0)]).replace(b'"parameters": 0', b'"parameters": ' + nested(900).encode()),
        ("tools", "messages"),
    ),
}


@pytest.mark.parametrize("attack", cases(ATTACKS))
def test_a_schema_that_grows_holds_up_nobody_and_others_schemas_are_followed(server: Server, attack: Attack) -> None:
    attack.run(server)
    answer = server.chat(response_format=formatted({"enum": ["yes", "no"]}))
    assert json.loads(answer) in ("yes", "no")


# -- what a template is given


def options(**fields: Any) -> Callable[[], bytes]:
    return lambda: asked(chat_template_kwargs=fields)


def deep_option(depth: int) -> bytes:
    return asked(chat_template_kwargs={"a": 0}).replace(b'"a": 0', b'"a": ' + b"[" * depth + b"]" * depth)


def call(number: int, arguments: Any = "{}", name: Any = "f", identity: Any = None) -> dict[str, Any]:
    said = {"name": name, "arguments": arguments}
    return {"id": f"call_{number}" if identity is None else identity, "type": "function", "function": said}


def called(calls: list[Any], results: int = 1, **result: Any) -> bytes:
    answered = [{"role": "tool", "tool_call_id": f"call_{n}", "content": "ok", **result} for n in range(results)]
    return asked(messages=[*said("hi"), {"role": "assistant", "tool_calls": calls}, *answered, *said("and?")])


def deep_arguments(depth: int) -> str:
    return '{"a":' * depth + "1" + "}" * depth


MANY = range(CALLS)
WRONG: tuple[Any, ...] = (7, 1.5, True, [], {}, ["f"], {"name": "f"}, "", "\u0000", "f" * 5_000, "{{ 7 * 7 }}")
NAMES = ("messages",)

TEMPLATE_ATTACKS: dict[str, Attack] = {
    "options": Attack(CHAT, options(**{f"option_{n}": n for n in range(50_000)}), ("chat_template_kwargs",)),
    "long_option": Attack(CHAT, lambda: options(a=letters(20 * MB))(), ("chat_template_kwargs",)),
    "deep_option": Attack(CHAT, lambda: deep_option(500), ("chat_template_kwargs",)),
    "options_that_hide": Attack(
        CHAT,
        options(**dict.fromkeys(("messages", "tools", "raise_exception", "range", "namespace", "loop"), 1)),
        ("messages", "chat_template_kwargs"),
    ),
    "options_of_wrong_types": Attack(CHAT, options(enable_thinking=[[]] * 1000), ("chat_template_kwargs",)),
    "calls": Attack(CHAT, lambda: called([call(n) for n in MANY], CALLS), NAMES, sharp=True),
    "calls_in_turn": Attack(
        CHAT,
        lambda: asked(
            messages=[
                *said("hi"),
                *[
                    message
                    for n in MANY
                    for message in (
                        {"role": "assistant", "tool_calls": [call(n)]},
                        {"role": "tool", "tool_call_id": f"call_{n}", "content": "ok"},
                    )
                ],
            ]
        ),
        NAMES,
    ),
    "results_without_calls": Attack(CHAT, lambda: called([], 3 * CALLS), NAMES),
    "calls_of_one_identity": Attack(CHAT, lambda: called([call(n, identity="same") for n in MANY], 1), NAMES),
    "deep_arguments": Attack(CHAT, lambda: called([call(0, deep_arguments(100_000))]), NAMES),
    "deep_arguments_that_are_read": Attack(CHAT, lambda: called([call(n, deep_arguments(150)) for n in MANY]), NAMES),
    "arguments_of_many_keys": Attack(
        CHAT, lambda: called([call(0, json.dumps({f"k{n}": n for n in range(200_000)}))]), NAMES
    ),
    "names_of_wrong_types": Attack(CHAT, lambda: called([call(0, name=WRONG[0])]), NAMES, allowed=(400,)),
    "long_results": Attack(CHAT, lambda: called([call(n) for n in range(50)], 50, content=letters(MB // 3)), NAMES),
    "parts_of_results": Attack(
        CHAT, lambda: called([call(0)], content=[{"type": "text", "text": "a"}] * 20_000), NAMES
    ),
}


@pytest.mark.parametrize("attack", cases(TEMPLATE_ATTACKS))
def test_what_a_template_is_given_holds_up_nobody(server: Server, attack: Attack) -> None:
    attack.run(server)


def wrong_bodies() -> list[tuple[str, bytes]]:
    """Each field that must be text, or of one shape, with something else in it."""
    found = []
    for wrong in WRONG:
        messages: dict[str, dict[str, Any]] = {
            "role": {"role": wrong, "content": "hi"},
            "content": {"role": "user", "content": wrong},
            "name": {"role": "user", "content": "hi", "name": wrong},
            "tool_calls": {"role": "assistant", "tool_calls": wrong},
            "call": {"role": "assistant", "tool_calls": [wrong]},
            "function": {"role": "assistant", "tool_calls": [{"id": "a", "type": "function", "function": wrong}]},
            "arguments": {"role": "assistant", "tool_calls": [call(0, arguments=wrong)]},
            "function_name": {"role": "assistant", "tool_calls": [call(0, name=wrong)]},
            "identity": {"role": "assistant", "tool_calls": [call(0, identity=wrong)]},
            "tool_call_id": {"role": "tool", "tool_call_id": wrong, "content": "ok"},
            "reasoning": {"role": "assistant", "content": "hi", "reasoning_content": wrong},
        }
        found += [(place, asked(messages=[*said("hi"), message, *said("?")])) for place, message in messages.items()]
        found += [
            (place, asked(**{place: wrong}))
            for place in ("chat_template_kwargs", "tools", "tool_choice", "response_format", "structured_outputs")
        ]
        found += [("tool", asked(tools=[wrong])), ("tool_name", asked(tools=[{**tool(0, {}), "function": wrong}]))]
        found += [(f"guided_{kind}", asked(**{f"guided_{kind}": wrong})) for kind in ("json", "regex", "grammar")]
    return found


@pytest.mark.slow
def test_a_name_of_a_wrong_type_is_the_clients_mistake(server: Server) -> None:
    for place, body in wrong_bodies():
        answer = server.request("POST", CHAT, body)
        assert answer.status in (200, 400), (place, body[:300], str(answer))
    assert "Traceback" not in server.said(), server.said()[-4000:]
