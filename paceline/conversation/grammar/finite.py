"""Whether a JSON schema describes any value that ends: one that only refers to itself describes none.

A value ends if, of all that a schema asks for, something that ends can be chosen. What is not known to need more
(a plain type, a reference that leads nowhere) counts as ending: others refuse what is wrong with it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import unquote

from paceline.errors import InvalidRequest

Schema = Mapping[str, Any]
Choice = list[Any]  # schemas of which one must end


def check_finite(schema: Schema) -> None:
    """Raises InvalidRequest (without a field) where no value of `schema` ends."""
    nodes: dict[int, Schema] = {}
    open_choices: dict[int, int] = {}  # of each schema: how many still lack something that ends
    waiting: dict[int, list[tuple[int, int]]] = defaultdict(list)  # by a schema: the choices that it settles
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
    """What a value of `node` needs, each as the schemas of which one will do."""
    reference = node.get("$ref")
    if isinstance(reference, str):
        target = _target(reference, root)
        if target is not None:
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
    """A reference on the way that never ends."""
    node, reference, seen = root, "#", set[int]()
    while id(node) not in seen:
        seen.add(id(node))
        choice = next(c for c in _needs(node, root) if all(isinstance(e, Mapping) and open_choices[id(e)] for e in c))
        if isinstance(node.get("$ref"), str) and choice[0] is _target(node["$ref"], root):
            reference = node["$ref"]
        node = choice[0]
    return reference


def _target(reference: str, root: Schema) -> Schema | None:
    """What a JSON pointer points to; None where that is no schema, or the reference is of another kind."""
    if reference != "#" and not reference.startswith("#/"):
        return None
    place: Any = root
    for step in unquote(reference[2:]).split("/") if len(reference) > 1 else ():
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(place, list) and name.isdecimal() and int(name) < len(place):
            place = place[int(name)]
        elif isinstance(place, Mapping) and name in place:
            place = place[name]
        else:
            return None
    return place if isinstance(place, Mapping) else None


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _names(name: Any, properties: Mapping[str, Any]) -> bool:
    return isinstance(name, str) and name in properties
