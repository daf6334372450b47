"""What is refused: with a reason that names the culprit, and soon."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from paceline.conversation.grammar import Grammars, GrammarSpec, limits
from paceline.conversation.tokenizer import Tokenizer
from paceline.errors import InvalidRequest
from tests.conversation.grammar.walks import takes

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
        ({"$ref": "#/$defs/none"}, r"\$ref '#/\$defs/none' points to nothing"),
        ({"type": "object", "properties": {"a": {"$ref": "#none"}}}, r"\$ref '#none' points to nothing"),
        ({"allOf": [{"type": "string"}, {"type": "integer"}]}, "^No value fits the schema"),
        ({"type": "string", "pattern": "("}, "pattern"),
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


def leads_on(name: str, **other: Any) -> dict[str, Any]:
    return {"$ref": f"#/$defs/{name}", **other}


@pytest.mark.parametrize(
    ("schema", "reference"),
    [
        ({"$ref": "#"}, "#"),
        ({"$ref": "#", "type": "object"}, "#"),
        ({"allOf": [{"$ref": "#"}]}, "#"),
        ({"anyOf": [{"$ref": "#"}, {"allOf": [{"$ref": "#"}]}]}, "#"),
        ({"$defs": {"a": leads_on("a")}, "$ref": "#/$defs/a"}, "#/$defs/a"),
        ({"$defs": {"a": leads_on("b"), "b": leads_on("a")}, "$ref": "#/$defs/b"}, "#/$defs/b"),
        ({"$defs": {"a": {"allOf": [leads_on("b")]}, "b": {"oneOf": [leads_on("a")]}}, **leads_on("a")}, "#/$defs/a"),
        ({"$defs": {"a/b": {"$ref": "#/$defs/a~1b"}}, "$ref": "#/$defs/a~1b"}, "#/$defs/a~1b"),
        ({"type": "object", "properties": {"next": {"$ref": "#"}}, "required": ["next"]}, "#"),
        ({"type": "array", "items": {"$ref": "#"}, "minItems": 1}, "#"),
        ({"type": "array", "prefixItems": [{"type": "null"}, {"$ref": "#"}], "minItems": 2}, "#"),
    ],
)
def test_a_schema_that_only_refers_to_itself_is_told_so(grammars: Grammars, schema: Any, reference: str) -> None:
    with pytest.raises(InvalidRequest) as raised:
        grammars.compile(GrammarSpec.json_schema(schema, field="guided_json"))
    said = "The schema refers to itself without ever describing a value: $ref "
    assert str(raised.value).startswith(f"{said}{reference!r} leads back to itself")
    assert raised.value.field == "guided_json"


TREE = {"type": "object", "properties": {"kids": {"type": "array", "items": {"$ref": "#"}}}, "required": ["kids"]}
LIST = {"type": "object", "properties": {"next": {"anyOf": [leads_on("a"), {"type": "null"}]}}, "required": ["next"]}


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (TREE, '{"kids": [{"kids": []}]}'),
        ({"$defs": {"a": LIST}, **leads_on("a", description="a list")}, '{"next": {"next": null}}'),
        ({"anyOf": [{"$ref": "#"}, {"type": "string"}]}, '"x"'),
        ({"$defs": {"a": leads_on("a")}, "type": "string"}, '"x"'),
        ({"type": "array", "prefixItems": [{"type": "null"}, {"$ref": "#"}], "minItems": 1}, "[null, [null]]"),
        ({"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["b"]}, '{"a": {"b": 1}, "b": 1}'),
        ({"$ref": "#a", "$defs": {"x": {"$anchor": "a", "type": "null"}}}, "null"),
    ],
)
def test_a_schema_that_refers_to_itself_and_may_end_works(
    grammars: Grammars, tokenizer: Tokenizer, schema: Any, value: str
) -> None:
    compiled = grammars.compile(GrammarSpec.json_schema(schema))
    assert takes(compiled, tokenizer, value)


CHAINS = """
import sys
from pathlib import Path
from paceline.conversation.grammar import Grammars, GrammarSpec
from paceline.errors import InvalidRequest
from tests.conversation import vocabularies

tokenizer = vocabularies.byte_level(Path(sys.argv[1]))
grammars = Grammars(tokenizer, 600, tokenizer.eos_ids, seconds=60.0)
for form in ('{}', '{"allOf":[{}]}', '{"anyOf":[{},{"type":"null"}]}', '{"type":"array","items":{}}'):
    links = (form.replace("{}", '{"$ref":"#/$defs/%d"}' % (place + 1), 1) for place in range(3500))
    definitions = ",".join(f'"{place}":{link}' for place, link in enumerate(links))
    text = '{"$defs":{%s,"3500":{"type":"null"}},"$ref":"#/$defs/0"}' % definitions
    try:
        grammars.compile(GrammarSpec.json_schema(text)).matcher().allowed(())
    except InvalidRequest:
        pass
print("alive")
"""


@pytest.mark.slow
def test_references_that_lead_on_to_each_other_for_long_do_not_end_the_process(tmp_path: Path) -> None:
    command = [sys.executable, "-c", CHAINS, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert (done.returncode, done.stdout) == (0, "alive\n"), done.stderr


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


@pytest.mark.parametrize(
    "bounds",
    [
        {"exclusiveMinimum": 0, "maximum": 0.5},
        {"exclusiveMinimum": 1, "exclusiveMaximum": 1.01},
        {"exclusiveMaximum": 0, "minimum": -0.01},
        {"exclusiveMaximum": -1, "minimum": -1.5},
        {"type": "integer", "minimum": 2**53 + 1, "maximum": 2**53 + 3},
        {"type": "integer", "minimum": 10**400},
        {"maximum": -(2**60)},
    ],
)
def test_bounds_that_are_not_enforced_are_refused(grammars: Grammars, bounds: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest, match="cannot be enforced"):
        grammars.compile(GrammarSpec.json_schema({"properties": {"a": {"type": "number", **bounds}}}))


@pytest.mark.parametrize(
    "bounds",
    [
        {"exclusiveMinimum": 0, "maximum": 1},
        {"exclusiveMinimum": 0.5, "maximum": 0.6},
        {"minimum": 0, "exclusiveMaximum": 0.5},
        {"exclusiveMinimum": 0},
        {"type": "integer", "minimum": 0, "maximum": 2**63 - 1},
        {"type": "integer", "exclusiveMinimum": 0, "exclusiveMaximum": 2},
    ],
)
def test_other_bounds_work(grammars: Grammars, bounds: dict[str, Any]) -> None:
    grammars.compile(GrammarSpec.json_schema({"properties": {"a": {"type": "number", **bounds}}}))
