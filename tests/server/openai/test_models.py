from __future__ import annotations

import httpx
import openai
import pytest

from paceline.settings import Settings
from tests.server.fake_service import FakeService
from tests.server.harness import post_chat, refused, serve


def test_the_model_list_validates_as_openais_type(client: openai.OpenAI) -> None:
    [model] = client.models.list().data
    assert (model.id, model.object) == ("fake/model", "model")
    assert client.models.retrieve("fake/model").id == "fake/model"
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("other/model")


def test_a_model_is_known_by_its_served_name_and_its_own() -> None:
    settings = Settings(served_model_name="pretty")
    with serve(FakeService(), settings) as address, httpx.Client(base_url=address) as http:
        assert http.get("/v1/models").json()["data"][0]["id"] == "pretty"
        for name in ("pretty", "fake/model"):
            assert post_chat(http, model=name).json()["model"] == "pretty"
        refused(post_chat(http, model="prett"), 404, "model")
