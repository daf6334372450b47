"""Tables of request fields, of refused fields with their reasons, and of paths that are not implemented."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from paceline.server.anthropic.schema import UNSUPPORTED_IN_MESSAGES, MessagesBody
from paceline.server.common.fields import FORMATS, GUIDED, UNSUPPORTED
from paceline.server.common.refusal_reasons import REASONS
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


def fields_table(model: type[BaseModel], *, without: type[BaseModel] | None = None) -> str:
    schema = body_schema(model)["requestBody"]["content"]["application/json"]["schema"]
    skipped = set() if without is None else set(without.model_fields)
    required = schema.get("required", ())
    lines = ["| field | type | |", "|---|---|---|"]
    for name, shape in schema["properties"].items():
        if name in skipped:
            continue
        kind = _kind(shape) + (", required" if name in required else "")
        lines.append(f"| `{name}` | {kind} | {shape['description']} |")
    return "\n".join(lines)


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
    lines = ["| field | refused by | accepted values | why |", "|---|---|---|---|"]
    for name, endpoints in sorted(refused().items()):
        where = "all" if len(endpoints) == len(ENDPOINTS) else ", ".join(endpoints)
        values = [_value(value) for value in next(iter(endpoints.values())) if value is not None]
        lines.append(f"| `{name}` | {where} | {', '.join(values)} | {REASONS[name]} |")
    for name, harmless in ollama.UNSUPPORTED_OPTIONS.items():
        shown = ", ".join(_value(value) for value in harmless if value is not None)
        lines.append(f"| `options.{name}` | Ollama | {shown} | {REASONS[name]} |")
    return "\n".join(lines)


def harmless_list() -> str:
    return ", ".join(f"`{name}`" for name in sorted(HARMLESS))


def paths_table() -> str:
    lines = ["| path | the 404 says |", "|---|---|"]
    lines += [f"| `/v1/{name}` | {reason} |" for name, reason in sorted(NOT_IMPLEMENTED.items())]
    return "\n".join(lines)


def _value(value: Any) -> str:
    shown = {True: "true", False: "false"}.get(value) if isinstance(value, bool) else None
    return f"`{shown or str(value)}`".replace("'", '"')


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
