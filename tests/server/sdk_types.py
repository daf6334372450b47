"""OpenAI's and Anthropic's own types as the judge of what the server sends."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import anthropic.types
import anthropic.types.beta
import httpx
import openai.types
import openai.types.chat
import openai.types.responses
from pydantic import BaseModel, TypeAdapter

ANTHROPIC = "/v1/messages"
WHOLE: Mapping[str, type[BaseModel]] = {
    "/v1/chat/completions": openai.types.chat.ChatCompletion,
    "/v1/completions": openai.types.Completion,
    "/v1/responses": openai.types.responses.Response,
    "/v1/messages": anthropic.types.Message,
    "/v1/messages?beta": anthropic.types.beta.BetaMessage,
    "/v1/messages/count_tokens": anthropic.types.MessageTokensCount,
    "/v1/embeddings": openai.types.CreateEmbeddingResponse,
}
EVENTS: Mapping[str, TypeAdapter[Any]] = {
    "/v1/chat/completions": TypeAdapter(openai.types.chat.ChatCompletionChunk),
    "/v1/completions": TypeAdapter(openai.types.Completion),
    "/v1/responses": TypeAdapter(openai.types.responses.ResponseStreamEvent),
    "/v1/messages": TypeAdapter(anthropic.types.RawMessageStreamEvent),
    "/v1/messages?beta": TypeAdapter(anthropic.types.beta.BetaRawMessageStreamEvent),
}
MODEL = TypeAdapter(openai.types.Model)


class TypedClient(httpx.Client):
    """Every answer that is read whole must be of the SDKs' types."""

    def send(self, request: httpx.Request, *, stream: bool = False, **options: Any) -> httpx.Response:
        response = super().send(request, stream=stream, **options)
        if not stream and request.method in ("GET", "POST"):
            kind = response.headers.get("content-type", "")
            check(request.url.path, response.status_code, kind, response.text, beta="beta" in request.url.params)
        return response


def check(path: str, status: int, content_type: str, text: str, *, beta: bool = False) -> None:
    """Raises what is wrong with an answer."""
    if not path.startswith("/v1/"):
        return
    kind = f"{path}?beta" if beta and path == ANTHROPIC else path
    if content_type.startswith("text/event-stream"):
        if path.startswith("/v1/responses/"):  # a stream that is read again
            kind = "/v1/responses"
        for event in sent(text):
            if "error" in event and event.get("type", "error") == "error":
                _check_error(path, event)
            elif event.get("type") != "ping":
                EVENTS[kind].validate_python(_as_typed(event) if path == "/v1/completions" else event, strict=True)
    elif status != 200:
        _check_error(path, json.loads(text))
    elif kind in WHOLE:
        answer = json.loads(text)
        WHOLE[kind].model_validate(_as_typed(answer) if path == "/v1/completions" else answer, strict=True)
    elif path == "/v1/models":
        for model in json.loads(text)["data"]:
            MODEL.validate_python(model, strict=True)
    elif path.startswith("/v1/models/"):
        MODEL.validate_python(json.loads(text), strict=True)


def sent(text: str) -> list[dict[str, Any]]:
    lines = [line.removeprefix("data:").strip() for line in text.splitlines() if line.startswith("data:")]
    return [json.loads(line) for line in lines if line != "[DONE]"]


def _as_typed(completion: dict[str, Any]) -> dict[str, Any]:
    """Where OpenAI's API has null and its type has none: a chunk before the end, the first token of an echo."""
    choices = [dict(choice) for choice in completion["choices"]]
    for choice in choices:
        choice["finish_reason"] = choice["finish_reason"] or "stop"
        if choice["logprobs"] is not None and None in choice["logprobs"]["token_logprobs"][:1]:
            choice["logprobs"] = {name: values[1:] for name, values in choice["logprobs"].items()}
    return {**completion, "choices": choices}


def _check_error(path: str, body: dict[str, Any]) -> None:
    if path == ANTHROPIC or path.startswith(f"{ANTHROPIC}/"):
        if body["error"]["type"] == "request_too_large":  # in Anthropic's documentation of 413, not in its types
            body = {**body, "error": {**body["error"], "type": "invalid_request_error"}}
        anthropic.types.ErrorResponse.model_validate(body, strict=True)
    else:
        assert set(body) == {"error"} and {"message", "type", "param", "code"} == set(body["error"]), body
        assert isinstance(body["error"]["message"], str)
