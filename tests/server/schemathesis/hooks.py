# mypy: ignore-errors
"""What `tests/server/http/test_openapi.py` tells schemathesis: most requests should reach the model, not for long."""

from __future__ import annotations

import schemathesis

FEW = 4
LENGTHS = {
    "/v1/chat/completions": ("max_tokens", "max_completion_tokens"),
    "/v1/completions": ("max_tokens",),
    "/v1/responses": ("max_output_tokens",),
    "/v1/messages": ("max_tokens",),
}


@schemathesis.hook
def map_body(context, body):
    """The served model's name, and short answers, where the values are of the right type."""
    if not isinstance(body, dict):
        return body
    if isinstance(body.get("model"), str):
        body["model"] = "tiny"
    path = context.operation.path
    names = LENGTHS.get(path, ())
    if path in ("/api/chat", "/api/generate") and isinstance(body.get("options") or {}, dict):
        body["options"] = {**(body.get("options") or {}), "num_predict": FEW}
    for name in (*names, "n"):
        if type(body.get(name)) is int and body[name] > 0:
            body[name] = 1 + body[name] % FEW
    if names and path != "/v1/messages" and all(body.get(name) is None for name in names):
        body[names[0]] = FEW
    return body
