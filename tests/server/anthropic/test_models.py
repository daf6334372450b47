"""/v1/models for Anthropic's clients."""

from __future__ import annotations

import anthropic
import httpx
import pytest

from tests.server.harness import Address

VERSION = {"anthropic-version": "2023-06-01"}


def test_anthropics_client_lists_and_finds_the_model(claude: anthropic.Anthropic) -> None:
    [model] = list(claude.models.list())
    assert (model.id, model.type, model.display_name) == ("fake/model", "model", "fake/model")
    assert model.max_input_tokens == 4096
    found = claude.models.retrieve("fake/model")
    assert found == model
    with pytest.raises(anthropic.NotFoundError, match="not_found_error"):
        claude.models.retrieve("claude-9")


def test_the_shape_is_anthropics_with_its_header_and_openais_without(http: httpx.Client, address: Address) -> None:
    answer = httpx.get(f"{address}/v1/models", headers=VERSION).json()
    for model in answer["data"]:
        anthropic.types.ModelInfo.model_validate(model)
    assert (answer["has_more"], answer["first_id"], answer["last_id"]) == (False, "fake/model", "fake/model")
    assert http.get("/v1/models").json()["object"] == "list"


def test_pages_are_cut_where_they_are_asked_to_be(address: Address) -> None:
    def ask(query: str) -> httpx.Response:
        return httpx.get(f"{address}/v1/models?{query}", headers=VERSION)

    assert ask("after_id=fake/model").json() == {"data": [], "has_more": False, "first_id": None, "last_id": None}
    assert ask("limit=1&before_id=fake/model").json()["data"] == []
    assert ask("after_id=other").json()["error"]["type"] == "invalid_request_error"
    assert ask("limit=0").status_code == 400
