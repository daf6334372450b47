"""What clients of other servers may ask for and this one does not do: a 404 that says so, and the front page."""

from __future__ import annotations

from collections.abc import Mapping

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

from paceline import __version__
from paceline.server.http.errors import NotServed, refuse_below
from paceline.server.state import AppState

# By the path below /v1: what it would be.
NOT_IMPLEMENTED: Mapping[str, str] = {
    "audio": "Speech and transcription are not served here",
    "images": "Pictures are not generated here; to ask about one, send it in a chat message",
    "videos": "Videos are not generated here; to ask about one, send it in a chat message",
    "moderations": "There is no moderation model here",
    "fine_tuning": "Models are not trained here",
    "files": "Files are not stored here: start the server with --files-dir, or send their content in a message",
    "uploads": "Files are not stored here; send their content in a message",
    "vector_stores": "Files are not stored or searched here",
    "batches": "There are no batch jobs here: start the server with --files-dir, or send the requests themselves",
    "realtime": "There are no realtime sessions here; chat answers can be streamed",
    "assistants": "There are no assistants and threads here; use /v1/responses or /v1/chat/completions",
    "messages/batches": "There are no batches of messages here; send the messages themselves: they share one batch",
    "complete": "Anthropic's old text completions are not served here; use /v1/messages or /v1/completions",
    "threads": "There are no assistants and threads here; use /v1/responses or /v1/chat/completions",
}


def routes(state: AppState) -> APIRouter:
    router = APIRouter()

    @router.get("/", include_in_schema=False)
    async def front_page() -> Response:
        """For browsers, and for clients that only check whether the server answers."""
        return JSONResponse(
            {
                "server": f"paceline {__version__}",
                "model": state.model_name,
                "ready": state.backend.ready and state.backend.failure is None,
                "openai": "/v1",
                "anthropic": "/v1/messages",
                "ollama": "/api",
                "health": "/health",
                "docs": "/openapi.json",
            }
        )

    @router.post("/v1/models/{name:path}/load", include_in_schema=False)
    @router.post("/v1/models/{name:path}/unload", include_in_schema=False)
    async def refuse(request: Request, name: str) -> Response:
        raise NotServed(
            "This server has one model, for as long as it runs. A server with several loads and unloads them: start it "
            f"with more than one MODEL, or with --models-dir ({request.method} {request.url.path})."
        )

    for name, reason in NOT_IMPLEMENTED.items():
        refuse_below(router, f"/v1/{name}", reason)
    return router
