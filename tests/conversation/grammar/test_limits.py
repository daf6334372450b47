"""What is refused: with a reason that names the culprit, and soon."""

from __future__ import annotations

from typing import Any

import pytest

from paceline.conversation.grammar import Grammars, GrammarSpec, limits
from paceline.errors import InvalidRequest

NESTED = "(((((a{10}){10}){10}){10}){10}){10}"


def deep(levels: int) -> Any:
    schema: Any = {"type": "string"}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


def doubling(levels: int) -> Any:
    found: dict[str, Any] = {"a0": {"anyOf": [{"required": ["x"]}, {"required": ["y"]}]}}
    for level in range(1, levels):
        found[f"a{level}"] = {"allOf": [{"$ref": f"#/$defs/a{level - 1}"}, {"$ref": f"#/$defs/a{level - 1}"}]}
    return {"$defs": found, "$ref": f"#/$defs/a{levels - 1}"}


def chain(length: int) -> Any:
    """Each refers to the next."""
    found: dict[str, Any] = {f"a{i}": {"properties": {"x": {"$ref": f"#/$defs/a{i + 1}"}}} for i in range(length)}
    return {"$defs": {**found, f"a{length}": {"type": "null"}}, "$ref": "#/$defs/a0"}


PRODUCT = {
    "allOf": [{"anyOf": [{"properties": {f"a{i}": {"const": value}}} for value in (1, 2)]} for i in range(20)],
}


@pytest.mark.parametrize(
    ("schema", "named"),
    [
        ({"type": "array", "uniqueItems": True}, "uniqueItems"),
        ({"type": "object", "properties": {"a": {"not": {}}}}, "not"),
        ({"type": "object", "propertyNames": {"pattern": "a"}}, "propertyNames"),
        ({"if": {}, "then": {}}, "if"),
        ({"type": "string", "format": "telephone"}, "format"),
        ({"oneOf": [{"type": "number"}, {"type": "integer"}]}, "oneOf"),
        ({"type": "text"}, "type"),
        ({"$ref": "#/$defs/none"}, r"\$ref"),
        ({"$ref": "https://example.com/schema.json"}, r"\$ref.*example"),
        ({"type": "array", "items": {"$ref": "file:///etc/passwd"}}, r"\$ref.*passwd"),
        ({"$ref": "other.json#/a"}, r"\$ref.*other"),
        ({"type": "string", "x-guidance": {"lenient": True}}, "x-guidance"),
        ({"type": "string", "pattern": "(?=a)b"}, "look-around"),
        ({"type": "string", "pattern": "(a)\\1"}, "backreferences"),
        ({"type": "string", "minLength": 3, "maxLength": 2}, "minLength"),
        ({"type": "object", "properties": {f"p{i}": {} for i in range(limits.PROPERTIES + 1)}}, "properties.*1000"),
        ({"type": "object", "required": [f"p{i}" for i in range(limits.PROPERTIES + 1)]}, "properties.*1000"),
        ({"enum": list(range(limits.ENTRIES + 1))}, "enum.*5000"),
        ({"type": "string", "pattern": NESTED}, "pattern.*20000"),
        ({"type": "object", "patternProperties": {NESTED: {}}}, "pattern.*20000"),
        ({"type": "integer", "multipleOf": 999_983}, "multipleOf"),
        ({"type": "number", "multipleOf": 0.999983}, "multipleOf"),
        ({"type": "integer", "multipleOf": 1e300}, "multipleOf"),
        (PRODUCT, "too large"),
        (doubling(24), "too large"),
        (chain(999), "references.*2000"),
        ({"$defs": {f"a{i}": {"$ref": f"#/$defs/a{i + 1}"} for i in range(3000)}, "$ref": "#/$defs/a0"}, "references"),
        ({"type": "string", "pattern": "(a|b)*" * 6_000}, "bytes of patterns"),
        ("x", "JSON"),
        ("[1]", "object"),
        ({"enum": []}, "empty"),
        ({"const": float("inf")}, "JSON"),
        ({"const": "\ud800"}, "surrogate"),
        ({"description": "x" * limits.BYTES}, "bytes"),
        (deep(40), "deep"),
        (deep(100_000), "deep"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_schema_that_cannot_be_enforced_says_why_at_once(grammars: Grammars, schema: Any, named: str) -> None:
    with pytest.raises(InvalidRequest, match=named) as raised:
        grammars.compile(GrammarSpec.json_schema(schema))
    assert raised.value.field == "response_format"


@pytest.mark.parametrize(
    "schema",
    [
        deep(31),
        chain(400),
        {"type": "string", "pattern": "(a|b)*" * 5_000},
        {"type": "string", "maxLength": 10**9},
        {"type": "array", "minItems": 10**6},
        {"type": "string", "pattern": "^(a+)+$"},
        {"type": "string", "pattern": "^(a|b)*a(a|b){30}$"},
        {"type": "object", "properties": {f"p{i}": {"type": "string"} for i in range(400)}},
        {"enum": [f"value {i}" for i in range(limits.ENTRIES)]},
        {"type": "integer", "multipleOf": 997},
        {"$id": "https://example.com/root", "$defs": {"a": {"type": "null"}}, "$ref": "#/$defs/a"},
        {"properties": {"$ref": {"const": "https://example.com"}, "enum": {"type": "null"}}},
    ],
)
def test_what_only_looks_bad_is_ready_in_time(grammars: Grammars, schema: Any) -> None:
    grammars.compile(GrammarSpec.json_schema(schema)).matcher().allowed(())


@pytest.mark.parametrize(
    ("pattern", "named"),
    [
        ("(a", "unclosed"),
        ("(?<!a)b", "look-around"),
        (NESTED, "20000"),
        (f"{'x' * 300}{NESTED}", "20000"),
        ("(a{200}|b{9}){200}", "20000"),
        ("(?:a{100}){100}" * 3, "20000"),
        ("a" * (limits.BYTES + 1), "bytes"),
        ("(a|b)*" * 6_000, "bytes"),
        (5, "text"),
    ],
)
def test_a_pattern_that_cannot_be_enforced(grammars: Grammars, pattern: Any, named: str) -> None:
    with pytest.raises(InvalidRequest, match=named) as raised:
        grammars.compile(GrammarSpec.regex(pattern))
    assert raised.value.field == "structured_outputs"


@pytest.mark.parametrize("pattern", ["(a+)+b", "(a*)*b", "(a|a)*b", "([a-z]+)*!", "(.*)*(.*)*x", "a{1,100000000}"])
def test_a_pattern_that_would_choke_other_engines_is_fine(grammars: Grammars, pattern: str) -> None:
    matcher = grammars.compile(GrammarSpec.regex(pattern)).matcher()
    for _ in range(60):
        token = int(matcher.allowed(())[0].argmax())
        if not matcher.allowed(())[0, token]:
            break
        matcher.accept(token)
        if matcher._over:
            break


@pytest.mark.parametrize(
    ("grammar", "named"),
    [
        ("start: missing", "missing"),
        ("not a grammar", "neither Lark nor GBNF"),
        ("start: %json {}", "%json"),
        ('start: "a"\n' + "// x" * limits.GRAMMAR_BYTES, "bytes"),
        ("start: F\nA: /a{10}/\nB: A{10}\nC: B{10}\nD: C{10}\nE: D{10}\nF: E{10}", "20000"),
        ("start: A\nA: /((a{100}){100}){100}/", "20000"),
        ('root ::= "a', "GBNF"),
        ("\n".join(f"A{i}: A{i + 1}" for i in range(3000)) + "\nstart: A0", "deep"),
    ],
)
def test_a_grammar_that_cannot_be_enforced(grammars: Grammars, grammar: str, named: str) -> None:
    with pytest.raises(InvalidRequest, match=named):
        grammars.compile(GrammarSpec.lark(grammar))


@pytest.mark.parametrize(
    ("pattern", "expanded"),
    [
        ("a{5}", 0),
        ("(a{5}){6}", 30),
        ("(a{5}b{2}){6}", 42),
        (r"(\{5\}[{(]{3}x){2,7}", 21),
        ("((a{2}){3}){4}", 30),
        (r"(\p{Lu}\x{41}){9}", 0),
        ("(a{2})+", 0),
    ],
)
def test_repetitions_are_counted(pattern: str, expanded: int) -> None:
    assert limits.regex_expansion(pattern) == expanded
