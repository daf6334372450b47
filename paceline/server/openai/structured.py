"""From `response_format`, `structured_outputs` and vLLM's `guided_*` fields to a grammar."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from paceline.conversation.grammar import GrammarSpec
from paceline.errors import InvalidRequest

Maker = Callable[..., GrammarSpec]
_KINDS: Mapping[str, Maker] = {
    "json": GrammarSpec.json_schema,
    "regex": GrammarSpec.regex,
    "choice": GrammarSpec.choice,
    "grammar": GrammarSpec.lark,
}


def response_grammar(fields: Mapping[str, Any]) -> GrammarSpec | None:
    """At most one of the fields may ask for something."""
    format = format_grammar(fields.get("response_format"), "response_format", "json_schema")
    asked = [spec for spec in (format, *_vllm(fields)) if spec is not None]
    if len(asked) > 1:
        names = " and ".join(str(spec.field) for spec in asked)
        raise InvalidRequest(f"{names} cannot be asked for together.", field=asked[1].field)
    return asked[0] if asked else None


def format_grammar(given: Any, field: str, inside: str = "") -> GrammarSpec | None:
    """OpenAI's formats: text, json_object, json_schema, whose schema stands in the object `inside`, if there is one."""
    if given is None:
        return None
    kind = given.get("type") if isinstance(given, Mapping) else None
    match kind:
        case "text":
            return None
        case "json_object":
            return GrammarSpec.json_object(field=field)
        case "json_schema":
            described = given.get(inside) if inside else given
            place = f"{field}.{inside}" if inside else field
            if not isinstance(described, Mapping) or not isinstance(described.get("schema"), Mapping | bool):
                raise InvalidRequest(f"{place}.schema must be a JSON schema.", field=field)
            return GrammarSpec.json_schema(described["schema"], field=f"{place}.schema")
        case _:
            raise InvalidRequest(
                f'{field}.type is {kind!r}; it must be "text", "json_object" or "json_schema".', field=field
            )


def _vllm(fields: Mapping[str, Any]) -> list[GrammarSpec | None]:
    found: list[GrammarSpec | None] = []
    outputs = fields.get("structured_outputs")
    if outputs is not None and not isinstance(outputs, Mapping):
        raise InvalidRequest.at("structured_outputs", "must be an object.")
    for name, value in (outputs or {}).items():
        if value is None:
            continue
        if name == "json_object":
            found.append(GrammarSpec.json_object(field="structured_outputs") if value else None)
        elif name in _KINDS:
            found.append(_KINDS[name](value, field=f"structured_outputs.{name}"))
        else:
            raise InvalidRequest.at(
                f"structured_outputs.{name}", "is not supported by this server yet.", code="unsupported_parameter"
            )
    for name, make in _KINDS.items():
        value = fields.get(f"guided_{name}")
        if value is not None:
            found.append(make(value, field=f"guided_{name}"))
    return found
