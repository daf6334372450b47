"""Tables of request fields, of refused fields with their reasons, and of paths that are not implemented."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from paceline.server.anthropic.schema import UNSUPPORTED_IN_MESSAGES, MessagesBody
from paceline.server.common.fields import FORMATS, GUIDED
from paceline.server.common.refused_fields import UNSUPPORTED
from paceline.server.common.unknown_fields import HARMLESS
from paceline.server.http.openapi import body_schema
from paceline.server.not_implemented import NOT_IMPLEMENTED
from paceline.server.ollama import schema as ollama
from paceline.server.openai.embeddings import UNSUPPORTED_IN_EMBEDDINGS, EmbeddingBody
from paceline.server.openai.responses.schema import UNSUPPORTED_IN_RESPONSES, ResponsesBody
from paceline.server.openai.schema import (
    UNSUPPORTED_IN_CHAT,
    UNSUPPORTED_IN_COMPLETIONS,
    ChatBody,
    CompletionBody,
)

ENDPOINTS: Mapping[str, tuple[frozenset[str], Mapping[str, tuple[Any, ...]]]] = {
    "chat": (frozenset(ChatBody.model_fields), UNSUPPORTED_IN_CHAT),
    "completions": (frozenset(CompletionBody.model_fields), UNSUPPORTED_IN_COMPLETIONS),
    "responses": (frozenset(ResponsesBody.model_fields), UNSUPPORTED_IN_RESPONSES),
    "messages": (frozenset(MessagesBody.model_fields), UNSUPPORTED_IN_MESSAGES),
    "embeddings": (frozenset(EmbeddingBody.model_fields), UNSUPPORTED_IN_EMBEDDINGS),
    "Ollama": (
        frozenset(ollama.ChatBody.model_fields) | frozenset(ollama.GenerateBody.model_fields),
        ollama.UNSUPPORTED_IN_OLLAMA,
    ),
}


def fields_table(model: type[BaseModel], *above: type[BaseModel]) -> str:
    """The fields of a request without its parent's. What a table above describes in the same words is only named."""
    described = {(name, *shown) for other in above for name, shown in _fields(other).items()}
    described |= {(name, "any", text) for name, _, text in described}
    fields = _fields(model)
    own = {name: shown for name, shown in fields.items() if (name, *shown) not in described}
    lines = []
    inherited = {name for other in above if issubclass(model, other) for name in other.model_fields}
    if common := [f"`{name}`" + _required(fields[name][0]) for name in fields if name not in {*own, *inherited}]:
        lines += [f"As above: {', '.join(common)}."]
    if own:
        lines += ["", "| field | |", "|---|---|"] if lines else ["| field | |", "|---|---|"]
        lines += [f"| `{name}` | {_typed(kind, text)}{text} |" for name, (kind, text) in own.items()]
    return "\n".join(lines)


def _typed(kind: str, text: str) -> str:
    """What the description of a field does not say about its type: ranges, choices, and whether it is required."""
    plain, required = kind.removesuffix(", required"), kind.endswith(", required")
    shown = plain.removeprefix("integer, ") if plain.startswith(("integer, ", "`")) else ""
    if shown.startswith("`") and shown.split()[0].strip("`") in text:
        shown = ""
    parts = [*(["required"] if required else []), *([shown] if shown else [])]
    return f"({'; '.join(parts)}) " if parts else ""


def _fields(model: type[BaseModel]) -> dict[str, tuple[str, str]]:
    """By name: the type, and the description."""
    schema = body_schema(model)["requestBody"]["content"]["application/json"]["schema"]
    required = schema.get("required", ())
    return {
        name: (_kind(shape) + (", required" if name in required else ""), shape["description"])
        for name, shape in schema["properties"].items()
    }


def _required(kind: str) -> str:
    return " (required)" if kind.endswith(", required") else ""


def refused() -> dict[str, dict[str, tuple[Any, ...]]]:
    """By field: the endpoints that refuse it, each with the values that it accepts."""
    found: dict[str, dict[str, tuple[Any, ...]]] = {}
    for endpoint, (known, own) in ENDPOINTS.items():
        honoured = known | {*GUIDED, *FORMATS}
        for name, harmless in {**UNSUPPORTED, **own}.items():
            if name in own or name not in honoured:
                found.setdefault(name, {})[endpoint] = harmless
    return found


def refused_table() -> str:
    """By the APIs that refuse them: the fields. Why is in the 400."""
    rows: dict[str, list[str]] = {}
    for name, endpoints in sorted(refused().items()):
        others = [other for other in ENDPOINTS if other not in endpoints]
        where = ", ".join(endpoints)
        if len(others) < len(endpoints):
            where = f"all but {' and '.join(others)}" if others else "all"
        rows.setdefault(where, []).append(_with_values(name, next(iter(endpoints.values()))))
    for name, harmless in ollama.UNSUPPORTED_OPTIONS.items():
        rows.setdefault("Ollama", []).append(_with_values(f"options.{name}", harmless))
    lines = ["| refused by | fields |", "|---|---|"]
    order = sorted(rows, key=lambda where: -len(rows[where]))
    return "\n".join(lines + [f"| {where} | {', '.join(rows[where])} |" for where in order])


def _with_values(name: str, harmless: tuple[Any, ...]) -> str:
    """A refused field, and the values that it may have."""
    values = [_value(value) for value in harmless if value is not None]
    return f"`{name}`" + (f" ({', '.join(values)})" if values else "")


def harmless_list() -> str:
    return ", ".join(f"`{name}`" for name in sorted(HARMLESS))


def paths_list() -> str:
    return ", ".join(f"`/v1/{name}`" for name in sorted(NOT_IMPLEMENTED))


def _value(value: Any) -> str:
    shown = {True: "true", False: "false"}.get(value) if isinstance(value, bool) else None
    return f"`{shown or str(value) or chr(34) * 2}`".replace("'", '"')


def _kind(shape: Mapping[str, Any]) -> str:
    """A JSON schema in one or two words."""
    if "anyOf" in shape:
        kinds = [_kind(inner) for inner in shape["anyOf"] if inner.get("type") != "null"]
        return " or ".join(dict.fromkeys(kinds))
    if "enum" in shape or "const" in shape:
        return " or ".join(f"`{value}`" for value in shape.get("enum", [shape.get("const")]))
    if "$ref" in shape:
        return "object"
    kind = shape.get("type")
    if kind == "array":
        return f"list of {_plural(_kind(shape.get('items', {})))}"
    if kind in ("integer", "number") and ("minimum" in shape or "maximum" in shape):
        low, high = shape.get("minimum"), shape.get("maximum")
        if low is not None and high is not None and -1e6 < low < high < 1e6:
            return f"{kind}, {low} to {high}"
        return kind if low is None or low < -1e6 else f"{kind}, at least {low}"
    return {"string": "text", None: "any"}.get(kind, str(kind))


def _plural(kind: str) -> str:
    return {"text": "texts", "any": "values", "integer": "integers", "object": "objects"}.get(kind, kind)
