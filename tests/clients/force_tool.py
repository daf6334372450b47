"""A proxy that makes a client's first turn call one tool, as a random model never would by itself.

`python -m tests.clients.force_tool PORT SERVER LOG TOOL ARGUMENTS [LAST]` listens on PORT. In every request that offers
TOOL, its schema allows only ARGUMENTS (a JSON object); while no result has come back, `tool_choice` names it. Other
requests are answered with LAST. All else reaches the server as it was sent. Each answer is held against the SDKs' types
and is one JSON line in LOG, with counts but without any text.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.routing import Route

from tests.server.sdk_types import check

PATHS = ("/v1/chat/completions", "/v1/messages", "/v1/responses")
HOP_HEADERS = {"host", "content-length", "transfer-encoding", "connection", "accept-encoding", "content-encoding"}


def function_of(tool: dict[str, Any]) -> dict[str, Any]:
    """The part of a tool that has its name."""
    function: dict[str, Any] = tool.get("function", tool)
    return function


def narrow(tool: dict[str, Any], arguments: dict[str, Any]) -> None:
    """Leave the tool one way to be called."""
    schema = {
        "type": "object",
        "properties": {name: {"enum": [value]} for name, value in arguments.items()},
        "required": list(arguments),
        "additionalProperties": False,
    }
    function = function_of(tool)
    function["input_schema" if "input_schema" in function else "parameters"] = schema


def choice(path: str, name: str) -> dict[str, Any]:
    if path == "/v1/chat/completions":
        return {"type": "function", "function": {"name": name}}
    return {"type": "tool" if path == "/v1/messages" else "function", "name": name}


def results(body: dict[str, Any]) -> int:
    """How many results of tools a request carries."""
    found = 0
    for item in body.get("messages") or body.get("input") or []:
        if not isinstance(item, dict):
            continue
        content = item.get("content")
        blocks = content if isinstance(content, list) else []
        found += item.get("role") == "tool" or item.get("type") == "function_call_output"
        found += sum(isinstance(block, dict) and block.get("type") == "tool_result" for block in blocks)
    return found


def usages(text: str) -> list[dict[str, Any]]:
    """The `usage` objects of an answer, whole or streamed."""
    found = []
    lines = [line[5:] for line in text.splitlines() if line.startswith("data:")] or [text]
    for line in lines:
        try:
            data = json.loads(line)
        except ValueError:  # [DONE]
            continue
        inner = data.get("response") or data.get("message") or {}
        found += [part["usage"] for part in (data, inner) if isinstance(part, dict) and part.get("usage")]
    return found


def cached(usage: dict[str, Any]) -> int | None:
    details = usage.get("prompt_tokens_details") or usage.get("input_tokens_details") or {}
    return details.get("cached_tokens", usage.get("cache_read_input_tokens"))


def prompt(usage: dict[str, Any]) -> int:
    read = usage.get("cache_read_input_tokens") or 0  # Anthropic's input_tokens are without these
    return int(usage.get("prompt_tokens", usage.get("input_tokens", 0))) + int(read)


def wrong(path: str, answer: httpx.Response, text: str, *, beta: bool) -> str | None:
    """How an answer differs from the SDKs' types, if it does."""
    try:
        check(path, answer.status_code, answer.headers.get("content-type", ""), text, beta=beta)
    except (AssertionError, KeyError, ValueError) as error:
        return str(error)[:500]
    return None


class Proxy:
    def __init__(self, server: str, log: Path, tool: str, arguments: dict[str, Any], last: str) -> None:
        self._client = httpx.AsyncClient(base_url=server, timeout=None)
        self._log = log
        self._tool = tool
        self._arguments = arguments
        self._last = last

    def force(self, path: str, body: dict[str, Any]) -> bool:
        """Change a request so that it calls the tool; false if that has been done, or cannot be."""
        offered = [tool for tool in body.get("tools") or [] if function_of(tool).get("name") == self._tool]
        for tool in offered:
            narrow(tool, self._arguments)
        if offered and not results(body):
            body["tool_choice"] = choice(path, self._tool)
            return True
        # A random model may never end by itself, and agents take a length limit for an error.
        if path == "/v1/messages":
            format = {"type": "json_schema", "schema": {"enum": [self._last]}}
            body["output_config"] = {**(body.get("output_config") or {}), "format": format}
        else:
            body["structured_outputs"] = {"choice": [self._last]}
        return False

    async def handle(self, request: Request) -> StreamingResponse:
        raw = await request.body()
        path = request.url.path
        entry: dict[str, Any] = {"method": request.method, "path": path}
        if request.method == "POST" and path in PATHS:
            body = json.loads(raw)
            entry |= {
                "bytes": len(raw),
                "fields": sorted(body),
                "offered": [function_of(tool).get("name") for tool in body.get("tools") or []],
                "forced": self.force(path, body),
                "results": results(body),
                "stream": bool(body.get("stream")),
            }
            raw = json.dumps(body).encode()
        headers = {name: value for name, value in request.headers.items() if name not in HOP_HEADERS}
        outgoing = self._client.build_request(
            request.method, path, params=request.query_params, headers=headers, content=raw
        )
        began = time.monotonic()
        answer = await self._client.send(outgoing, stream=True)

        async def relay() -> AsyncIterator[bytes]:
            parts = []
            try:
                async for part in answer.aiter_bytes():
                    parts.append(part)
                    yield part
            finally:
                await answer.aclose()
                text = b"".join(parts).decode(errors="replace")
                found = usages(text)
                entry.update(status=answer.status_code, seconds=round(time.monotonic() - began, 2))
                entry["wrong"] = wrong(path, answer, text, beta="beta" in request.query_params)
                if answer.status_code >= 400:
                    entry["error"] = text[:500]
                if found:
                    entry.update(prompt_tokens=prompt(found[-1]), cached_tokens=cached(found[-1]))
                with self._log.open("a") as log:
                    log.write(json.dumps(entry) + "\n")

        kept = {name: value for name, value in answer.headers.items() if name not in HOP_HEADERS}
        return StreamingResponse(relay(), answer.status_code, kept)

    def app(self) -> Starlette:
        return Starlette(routes=[Route("/{path:path}", self.handle, methods=["GET", "POST", "DELETE", "HEAD"])])


def main(port: str, server: str, log: str, tool: str, arguments: str, last: str = "Done.") -> None:
    proxy = Proxy(server, Path(log), tool, json.loads(arguments), last)
    uvicorn.run(proxy.app(), port=int(port), log_level="warning")


if __name__ == "__main__":
    main(*sys.argv[1:])
