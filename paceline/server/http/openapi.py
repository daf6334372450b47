"""/openapi.json: for every route what it returns, and the errors that any of them may answer with.

The models of answers say what clients may count on. Routes do not build their answers from them: a token's chunk is
written as it is. The tests compare what is sent with these models.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from copy import deepcopy
from functools import cache
from threading import Lock
from typing import Any, Literal

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from paceline.server.http.errors import DEFAULT, DIALECTS, dialect_of
from paceline.server.http.field_descriptions import describe

Answers = dict[int | str, dict[str, Any]]

ERRORS: Mapping[int, str] = {
    400: "Something in the request is wrong; the message names it.",
    401: "A key is needed, or this one is not known.",
    403: "This may not be done with this key, or from this machine.",
    404: "There is no such model, response or path.",
    405: "The path takes other methods.",
    408: "The request did not arrive in time.",
    413: "The body is too large.",
    429: "Too many requests wait already; Retry-After says when to come back.",
    431: "The address and headers are too large.",
    499: "The request was cancelled.",
    500: "The server failed on this request.",
    503: "The model is loading, the server is shutting down, or the request waited for too long.",
    504: "The request took longer than it may.",
}


def returns(model: type[Any], *, streams: bool = False) -> Answers:
    """The `responses` of a route: an object, or with `stream` its events."""
    events: dict[str, Any] = {"content": {"text/event-stream": {"schema": EVENT}}} if streams else {}
    return {200: {"model": model, **events}}


def body_schema(model: type[BaseModel]) -> dict[str, Any]:
    """The body's part of /openapi.json, for routes that parse it themselves."""
    schema = deepcopy(_schema_of(model))  # the document is put together in place
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


@cache
def _schema_of(model: type[BaseModel]) -> dict[str, Any]:
    schema = model.model_json_schema(ref_template="#/components/schemas/{model}")
    describe(model.__name__, schema, *(base.__name__ for base in model.__mro__[1:]))
    for name, inner in schema.get("$defs", {}).items():
        describe(name, inner)
    return schema


class Application(FastAPI):
    """FastAPI, with a document that is true of requests which the routes read themselves. It is made in a thread, when
    somebody first asks: that takes half a second."""

    def __init__(self, **named: Any) -> None:
        super().__init__(openapi_url=None, **named)
        self._making = Lock()
        self.add_route("/openapi.json", self._document, include_in_schema=False)

    async def _document(self, request: Request) -> Response:
        return JSONResponse(await asyncio.to_thread(self.openapi))

    def openapi(self) -> dict[str, Any]:
        with self._making:
            if self.openapi_schema is None:
                self.openapi_schema = _completed(super().openapi())
        return self.openapi_schema


def _completed(document: dict[str, Any]) -> dict[str, Any]:
    schemas = document.setdefault("components", {}).setdefault("schemas", {})
    for unused in ("HTTPValidationError", "ValidationError"):  # FastAPI's own 422, which here is a 400
        schemas.pop(unused, None)
    kinds: list[tuple[type[BaseModel], Literal["serialization"]]] = [
        (dialect.error_model, "serialization") for dialect in (DEFAULT, *DIALECTS.values())
    ]
    _, errors = models_json_schema(kinds, ref_template="#/components/schemas/{model}")
    schemas.update(errors["$defs"])
    for path, operations in document["paths"].items():
        kind = dialect_of(path).error_model.__name__
        content = {"application/json": {"schema": {"$ref": f"#/components/schemas/{kind}"}}}
        for operation in operations.values():
            body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
            schemas.update(body.pop("$defs", {}))  # its references point to where all schemas are
            answers = operation["responses"]
            answers.pop("422", None)
            for status, description in ERRORS.items():
                answers.setdefault(str(status), {"description": description, "content": content})
    return document


# -- schemas


def object_of(required: dict[str, Any], **optional: Any) -> dict[str, Any]:
    return {"type": "object", "properties": required | optional, "required": list(required)}


def list_of(item: Any, **more: Any) -> dict[str, Any]:
    return {"type": "array", "items": item, **more}


TEXT: dict[str, Any] = {"type": "string"}
EVENT = object_of({"data": TEXT}, event=TEXT)  # of a stream
