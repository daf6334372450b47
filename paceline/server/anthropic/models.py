"""/v1/models as Anthropic's clients read it: for requests with its `anthropic-version` header, OpenAI's for others."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Response
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from starlette.routing import Match
from starlette.types import Scope

from paceline.errors import InvalidRequest, PacelineError
from paceline.server.anthropic.errors import MESSAGES
from paceline.server.http.errors import error_response
from paceline.server.state import AppState

HEADER = b"anthropic-version"


class ForAnthropic(APIRoute):
    """A route for requests with the header; others go on to the next route of this path."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        if scope["type"] == "http" and not any(name == HEADER for name, _ in scope["headers"]):
            return Match.NONE, {}
        return super().matches(scope)


@dataclass(frozen=True, slots=True)
class Page:
    """The part of a list that a request asks for."""

    limit: Annotated[int, Query(ge=1, le=1000)] = 20
    after_id: str | None = None
    before_id: str | None = None

    def of(self, cards: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        names = [card["id"] for card in cards]
        for field, given in (("after_id", self.after_id), ("before_id", self.before_id)):
            if given is not None and given not in names:
                raise InvalidRequest.at(field, f"names the model {given!r}, which is not in the list.")
        begin = 0 if self.after_id is None else names.index(self.after_id) + 1
        end = len(names) if self.before_id is None else names.index(self.before_id)
        shown = cards[begin:end][: self.limit]
        first, last = (shown[0]["id"], shown[-1]["id"]) if shown else (None, None)
        return {"data": shown, "has_more": end - begin > self.limit, "first_id": first, "last_id": last}


AskedPage = Annotated[Page, Depends()]


def routes(state: AppState) -> APIRouter:
    router = APIRouter(route_class=ForAnthropic)
    started = datetime.fromtimestamp(int(time.time()), UTC).isoformat().replace("+00:00", "Z")

    def model_card(name: str) -> dict[str, Any]:
        return {
            "type": "model",
            "id": name,
            "display_name": name,
            "created_at": started,
            "lifecycle": "active",
            "max_input_tokens": state.backend.context_length,
            "max_tokens": state.backend.context_length,
        }

    @router.get("/v1/models", include_in_schema=False)
    async def list_models(page: AskedPage) -> Response:
        try:
            state.check_ready()
            names = (*state.model_names, *state.backend.loras)
            return JSONResponse(page.of([model_card(name) for name in names]))
        except PacelineError as error:
            return error_response(error, MESSAGES)

    @router.get("/v1/models/{name:path}", include_in_schema=False)
    async def retrieve_model(name: str) -> Response:
        try:
            state.check_ready()
            state.check_model(name)
        except PacelineError as error:
            return error_response(error, MESSAGES)
        return JSONResponse(model_card(name))

    return router
