"""What is refused before it is compiled. llguidance bounds most of its work by fuel; these limits are for the rest.

An object costs the square of its properties, a pattern the square of its length, a multipleOf as many states as its
number, and nested counted repetitions of a pattern as many expressions as their product, at the time of a step.
llguidance follows references by recursion, and a stack that is too small ends the process.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import unquote

from paceline.errors import InvalidRequest

BYTES = 256 * 1024  # of a schema, a pattern, a grammar, or all tools together
GRAMMAR_BYTES = 64 * 1024  # of a Lark or GBNF text, which is read in Python
PATTERN_BYTES = 32 * 1024  # of a pattern, or all patterns of a schema together
DEPTH = 64  # of its JSON
LEVELS = 2_000  # of its JSON and of all that it refers to, added up
PROPERTIES = 1_000
ENTRIES = 5_000  # of enumerations
EXPANSION = 20_000  # of repetitions in repetitions
EXACT = 2.0**53  # of bounds: beyond it doubles leave integers out
MULTIPLES = 20_000  # sum of all multipleOf, in units of their last decimal

_MAPS = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_LISTS = ("allOf", "anyOf", "oneOf", "prefixItems", "items")
_SINGLE = ("items", "additionalItems", "additionalProperties", "not", "if", "then", "else", "contains")
_REFS = ("$ref", "$dynamicRef", "$recursiveRef")


def check_depth(value: Any, field: str | None) -> None:
    if _levels(value) > DEPTH + 1:
        raise InvalidRequest(f"It is nested more than {DEPTH} levels deep.", field=field)


def check_schema(schema: Any) -> None:
    """Raises InvalidRequest (without a field) if the schema is too large, refers outside, or never ends."""
    properties = entries = expanded = multiples = written = 0
    targets = set()
    for node in _schemas(schema):
        for key in _REFS:
            target = node.get(key)
            if isinstance(target, str) and not target.startswith("#"):
                raise InvalidRequest(f"{key} to {target[:80]!r}: only references into the schema itself (#...) work.")
            if isinstance(target, str):
                targets.add(target)
        if "x-guidance" in node:
            raise InvalidRequest("The schema uses x-guidance, which is not for requests to set.")
        named = _size(node.get("properties")) + _size(node.get("patternProperties"))
        properties += max(named, _size(node.get("required")))
        entries += _size(node.get("enum"))
        patterns = [node.get("pattern"), *(node["patternProperties"] if _size(node.get("patternProperties")) else ())]
        texts = [pattern for pattern in patterns if isinstance(pattern, str)]
        written += sum(len(pattern.encode()) for pattern in texts)
        expanded += sum(map(regex_expansion, texts))
        multiples += _units(node.get("multipleOf"))
        _check_bounds(node)
    referred = {id(node): node for node in (schema, *(_pointed(target, schema) for target in targets))}
    levels = sum(map(_levels, referred.values()))
    for name, count, most in (
        ("references", levels, LEVELS),
        ("bytes of patterns", written, PATTERN_BYTES),
        ("properties", properties, PROPERTIES),
        ("enum", entries, ENTRIES),
        ("pattern", expanded, EXPANSION),
        ("multipleOf", multiples, MULTIPLES),
    ):
        if count > most:
            raise InvalidRequest(f"The schema is too large: its {name} come to {count}, and {most} is the most.")
    if isinstance(schema, Mapping):
        check_finite(schema)


def check_regex(pattern: str) -> None:
    size = len(pattern.encode())
    if size > PATTERN_BYTES:
        raise InvalidRequest(f"The pattern has {size} bytes; at most {PATTERN_BYTES} are taken.")
    _check_expansion(regex_expansion(pattern))


def check_lark(text: str) -> None:
    size = len(text.encode())
    if size > GRAMMAR_BYTES:
        raise InvalidRequest(f"The grammar has {size} bytes; at most {GRAMMAR_BYTES} are taken.")
    for directive in ("%json", "%regex"):
        if directive in text:
            raise InvalidRequest(f"{directive} is not taken in a grammar: send a JSON schema or a regex instead.")
    _check_expansion(lark_expansion(text))


def _check_expansion(expanded: int) -> None:
    if expanded > EXPANSION:
        raise InvalidRequest(
            f"Repetitions inside repetitions come to {expanded} when written out, and {EXPANSION} is the most."
        )


def _schemas(schema: Any) -> Iterator[Mapping[str, Any]]:
    """Every object in `schema` that is itself a schema."""
    waiting = [schema]
    while waiting:
        node = waiting.pop()
        if not isinstance(node, Mapping):
            continue
        yield node
        for key in _MAPS:
            if isinstance(node.get(key), Mapping):
                waiting += node[key].values()
        for key in _LISTS:
            if isinstance(node.get(key), list):
                waiting += node[key]
        waiting += [node[key] for key in _SINGLE if key in node]


def _levels(value: Any) -> int:
    """How deep it is nested, up to just above the limit."""
    level, depth = [value], 0
    while level and depth < DEPTH + 2:
        depth += 1
        level = [child for node in level for child in _children(node)]
    return depth


def _children(node: Any) -> Iterator[Any]:
    if isinstance(node, Mapping):
        return iter(node.values())
    return iter(node) if isinstance(node, (list, tuple)) else iter(())


def _size(value: Any) -> int:
    return len(value) if isinstance(value, (list, Mapping)) else 0


def _check_bounds(node: Mapping[str, Any]) -> None:
    """llguidance computes bounds as doubles, and takes 0 for a number between 0 (excluded) and a half."""
    least, above = _bound(node, "minimum"), _bound(node, "exclusiveMinimum")
    most, below = _bound(node, "maximum"), _bound(node, "exclusiveMaximum")
    if max(least, above) >= EXACT or min(most, below) <= -EXACT:
        raise InvalidRequest("The schema's bounds lie beyond 2**53, where they cannot be enforced exactly.")
    if node.get("type") == "integer":
        return
    one_sided = (above >= 0 and above.is_integer() and min(most, below) < above + 1) or (
        below <= 0 and below.is_integer() and max(least, above) > below - 1
    )
    if one_sided:
        name = "exclusiveMinimum" if above >= 0 else "exclusiveMaximum"
        raise InvalidRequest(
            f"{name} cannot be enforced where the other bound is less than 1 away: use "
            f"{name.replace('exclusiveM', 'm')} with a number that is allowed."
        )


def _bound(node: Mapping[str, Any], name: str) -> float:
    value = node.get(name)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return -math.inf if name.endswith("inimum") else math.inf
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _units(number: Any) -> int:
    """A multipleOf as llguidance counts it: 0.25 is 25."""
    if isinstance(number, bool) or not isinstance(number, (int, float)):
        return 0
    mantissa, _, exponent = repr(abs(number)).partition("e")
    digits = int(mantissa.replace(".", "").strip("0") or 0)
    return digits * 10 ** max(0, min(int(exponent or 0), 20)) if isinstance(number, float) else abs(number)


_COUNT = re.compile(r"\{\s*(\d*)\s*(?:,\s*(\d*)\s*)?\}|~\s*(\d+)(?:\s*\.\.\s*(\d+))?")
_DEFINITION = re.compile(r"^[ \t]*[?!]?([A-Za-z_]\w*)(?:\.-?\d+)?[ \t]*(?:\[[^\]\n]*\])?[ \t]*:", re.MULTILINE)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"')
_SLASHED = re.compile(r"/((?:[^/\\\n]|\\.)*)/")
_COMMENT = re.compile(r"(?://|#)[^\n]*")
_CLASS = re.compile(r"\[\^?\]?(?:[^\]\\]|\\.)*\]", re.DOTALL)
_ESCAPE = re.compile(r"\\(?:[pPxuU]\{[^}]*\}|.)", re.DOTALL)

_SIGNS = {"\\": _ESCAPE, "[": _CLASS, "{": _COUNT}


class _Tally:
    """Sizes of groups while a pattern is read. `open[-1]` is the expanded size of the innermost group so far."""

    def __init__(self) -> None:
        self.open = [0]
        self.last = 0  # the expanded size of the last atom
        self.nested = 0  # the sum over all repetitions of repetitions

    def atom(self, size: int = 0) -> None:
        self.last = size
        self.open[-1] += size

    def enter(self) -> None:
        self.open.append(0)

    def leave(self) -> None:
        if len(self.open) > 1:
            self.atom(self.open.pop())

    def repeat(self, count: int) -> None:
        size = max(self.last, 1) * count
        if self.last:
            self.nested += size
        self.open[-1] += size - self.last
        self.last = size


def regex_expansion(pattern: str) -> int:
    """The number of expressions of nested repetitions: (a{10}){10} is 100. A single repetition is cheap."""
    return _read_regex(pattern).nested


def _read_regex(pattern: str) -> _Tally:
    tally, place = _Tally(), 0
    while place < len(pattern):
        sign = pattern[place]
        found = _SIGNS[sign].match(pattern, place) if sign in _SIGNS else None
        if sign == "(":
            tally.enter()
        elif sign == ")":
            tally.leave()
        elif sign == "{" and found:
            tally.repeat(_most(found))
        elif sign not in "*+?":
            tally.atom()
        place = found.end() if found else place + 1
    return tally


def lark_expansion(text: str) -> int:
    """The same for a grammar's terminals, which may contain each other. Repetitions in rules are not expanded."""
    markers = list(_DEFINITION.finditer(text))
    ends = [marker.start() for marker in markers[1:]] + [len(text)]
    bodies = {marker[1]: text[marker.end() : end] for marker, end in zip(markers, ends, strict=False)}
    known: dict[str, int] = {}
    nested = 0

    def size(name: str) -> int:
        nonlocal nested
        if name not in known and name in bodies:
            known[name] = 0  # a rule may contain itself; the compiler refuses a terminal that does
            tally = _read_lark(bodies[name], size, repeats=name.isupper())
            known[name] = sum(tally.open) if name.isupper() else 0
            nested += tally.nested
        return known.get(name, 0)

    for name in bodies:
        size(name)
    return nested


def _read_lark(text: str, size_of: Callable[[str], int], *, repeats: bool) -> _Tally:
    tally, place = _Tally(), 0
    while place < len(text):
        sign = text[place]
        found: re.Match[str] | None = None
        if found := _COMMENT.match(text, place):
            pass
        elif found := _STRING.match(text, place):
            tally.atom()
        elif found := _SLASHED.match(text, place):
            inner = _read_regex(found[1])
            tally.nested += inner.nested
            tally.atom(sum(inner.open))
        elif found := _COUNT.match(text, place):
            tally.repeat(_most(found) if repeats else 1)
        elif found := _NAME.match(text, place):
            tally.atom(size_of(found[0]))
        elif sign in "([":
            tally.enter()
        elif sign in ")]":
            tally.leave()
        place = found.end() if found else place + 1
    return tally


def _most(count: re.Match[str]) -> int:
    return max((int(number[:12]) for number in count.groups() if number), default=1)


# -- whether a JSON schema describes any value that ends

Schema = Mapping[str, Any]
Choice = list[Any]  # schemas of which one must end


def check_finite(schema: Schema) -> None:
    """Raises InvalidRequest (without a field) if no value of `schema` ends: if it only refers to itself.

    A value ends if something that ends can be chosen for everything that its schema requires. A plain type, or a
    reference that leads nowhere, counts as ending: other checks refuse what is wrong with it.
    """
    nodes: dict[int, Schema] = {}
    open_choices: dict[int, int] = {}  # by schema: how many of its choices have no ending member yet
    waiting: dict[int, list[tuple[int, int]]] = defaultdict(list)  # by schema: the choices that it is a member of
    ended: list[int] = []
    found = [schema]
    while found:
        node = found.pop()
        if id(node) in nodes:
            continue
        nodes[id(node)] = node
        choices = [choice for choice in _needs(node, schema) if all(isinstance(each, Mapping) for each in choice)]
        open_choices[id(node)] = len(choices)
        for place, choice in enumerate(choices):
            for each in choice:
                waiting[id(each)].append((id(node), place))
                found.append(each)
        if not choices:
            ended.append(id(node))
    settled: set[tuple[int, int]] = set()
    while ended:
        for owner, place in waiting[ended.pop()]:
            if (owner, place) not in settled:
                settled.add((owner, place))
                open_choices[owner] -= 1
                if not open_choices[owner]:
                    ended.append(owner)
    if open_choices[id(schema)]:
        reference = _circle(schema, open_choices)
        raise InvalidRequest(
            f"The schema refers to itself without ever describing a value: $ref {reference[:80]!r} leads back to "
            "itself, and nothing on the way may end. Give the value a type, or make one of the references optional."
        )


def _needs(node: Schema, root: Schema) -> Iterator[Choice]:
    """What a value of `node` requires: lists of schemas, of each of which one is enough."""
    reference = node.get("$ref")
    if isinstance(reference, str):
        target = _pointed(reference, root)
        if isinstance(target, Mapping):
            yield [target]
    for member in _listed(node.get("allOf")):
        yield [member]
    for key in ("anyOf", "oneOf"):
        if members := _listed(node.get(key)):
            yield members
    properties, items = node.get("properties"), node.get("items")
    if node.get("type") == "object" and isinstance(properties, Mapping):
        yield from ([properties[name]] for name in _listed(node.get("required")) if _names(name, properties))
    least = node.get("minItems")
    if node.get("type") == "array" and isinstance(least, int) and least > 0:
        first = _listed(node.get("prefixItems"))[:least]
        yield from ([item] for item in first)
        if len(first) < least and isinstance(items, Mapping):
            yield [items]


def _circle(root: Schema, open_choices: Mapping[int, int]) -> str:
    """A reference on the path that never ends."""
    node, reference, seen = root, "#", set[int]()
    while id(node) not in seen:
        seen.add(id(node))
        choice = next(c for c in _needs(node, root) if all(isinstance(e, Mapping) and open_choices[id(e)] for e in c))
        if isinstance(node.get("$ref"), str) and choice[0] is _pointed(node["$ref"], root):
            reference = node["$ref"]
        node = choice[0]
    return reference


def _pointed(reference: str, root: Any) -> Any:
    """What a JSON pointer points to; None if it points to nothing or is of another kind."""
    if reference != "#" and not reference.startswith("#/"):
        return None
    node = root
    for step in unquote(reference).split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(node, Mapping) and name in node:
            node = node[name]
        elif isinstance(node, list) and name.isascii() and name.isdigit() and int(name[:9]) < len(node):
            node = node[int(name[:9])]
        else:
            return None
    return node


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _names(name: Any, properties: Mapping[str, Any]) -> bool:
    return isinstance(name, str) and name in properties
