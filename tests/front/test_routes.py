from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

from paceline.front.client import Answer, Broken, Client
from paceline.settings import Settings
from tests.front.harness import Front, front, table
from tests.server.harness import refused, user
from tests.waiting import until


@pytest.fixture(scope="module")
def served() -> Any:
    with front([table("a", aliases=("gpt",)), table("owner/b")]) as found:
        yield found


def test_models_are_listed_with_their_states_and_aliases(served: Front) -> None:
    served.chat("a")
    cards = served.http.get("/v1/models").json()["data"]
    assert [(card["id"], card["root"]) for card in cards] == [("a", "a"), ("gpt", "a"), ("owner/b", "owner/b")]
    assert cards[0]["state"] == "resident" and cards[0]["why"].startswith("loaded in ")
    assert cards[0]["max_model_len"] == 32768 and cards[0]["sampling_defaults"]["temperature"] == 0.0
    assert served.http.get("/v1/models/owner/b").json()["id"] == "owner/b"
    refused(served.http.get("/v1/models/nope"), 404, "model", "'nope'")


def test_models_are_listed_in_anthropics_form_for_its_clients(served: Front) -> None:
    headers = {"anthropic-version": "2023-06-01"}
    page = served.http.get("/v1/models", headers=headers, params={"limit": 2}).json()
    assert ([card["id"] for card in page["data"]], page["has_more"]) == (["a", "gpt"], True)
    page = served.http.get("/v1/models", headers=headers, params={"after_id": "gpt"}).json()
    assert ([card["id"] for card in page["data"]], page["has_more"]) == (["owner/b"], False)
    assert served.http.get("/v1/models", headers=headers, params={"after_id": "x"}).json()["type"] == "error"
    assert served.http.get("/v1/models/nope", headers=headers).json()["type"] == "error"


def test_models_are_listed_in_ollamas_form(served: Front) -> None:
    served.chat("a")
    assert [model["name"] for model in served.http.get("/api/tags").json()["models"]] == ["a", "gpt", "owner/b"]
    assert "a" in [model["name"] for model in served.http.get("/api/ps").json()["models"]]
    for name in ("a", "owner/b"):  # one is loaded
        shown = served.http.post("/api/show", json={"model": name}).json()
        assert "completion" in shown["capabilities"] and shown["details"]["format"] == "mlx"
    assert served.http.post("/api/show", json={"model": "x"}).status_code == 404
    assert served.http.post("/api/show", json={}).status_code == 400
    assert served.http.post("/api/pull", json={"model": "a"}).json() == {"status": "success"}


def test_an_administrator_loads_and_unloads(served: Front) -> None:
    assert served.http.post("/v1/models/owner/b/load").json()["state"] == "resident"
    assert served.http.post("/v1/models/owner/b/unload").json() == {
        "id": "owner/b",
        "object": "model.state",
        "state": "unloaded",
        "why": "asked for by an administrator",
    }
    assert served.http.post("/v1/models/owner/b/unload").json()["state"] == "unloaded"
    refused(served.http.post("/v1/models/nope/load"), 404, "model", "'nope'")


def test_a_model_that_answers_is_not_unloaded_by_an_administrator(served: Front) -> None:
    body = {"model": "a", "messages": user("!hang 1"), "stream": True}
    with httpx.stream("POST", f"{served.address}/v1/chat/completions", json=body, timeout=120):
        until(lambda: served.state("a")["status"]["num_requests_running"])
        refused(served.http.post("/v1/models/a/unload"), 409, None, "it cannot leave now")
    until(lambda: not served.state("a")["requests"])


@pytest.mark.slow
def test_only_administrators_load_and_unload() -> None:
    settings = Settings(api_key=("k",), admin_key=("adm",))  # type: ignore[arg-type]
    with front([table("a")], settings=settings) as served:
        for key, status in (("k", 403), ("adm", 200)):
            headers = {"x-api-key": key}
            assert served.http.post("/v1/models/a/load", headers=headers).status_code == status
            assert served.http.post("/v1/models/a/unload", headers=headers).status_code == status
            assert served.http.post("/v1/cache/clear", headers=headers).status_code == status


def test_the_caches_of_all_loaded_models_are_cleared(served: Front) -> None:
    served.chat("a")
    served.chat("owner/b")
    assert served.http.post("/v1/cache/clear").json()["cleared"]["entries"] == 4


def test_a_model_that_leaves_meanwhile_is_not_loaded_to_clear_its_cache(
    served: Front, monkeypatch: pytest.MonkeyPatch
) -> None:
    served.chat("a")
    served.http.post("/v1/models/owner/b/unload")
    monkeypatch.setattr(served.pool, "resident", served.pool.slots)  # as it was before
    assert served.http.post("/v1/cache/clear").json()["cleared"]["entries"] == 2
    assert served.state("owner/b")["state"] == "unloaded"


def test_a_model_that_breaks_meanwhile_keeps_no_others_cache(served: Front, monkeypatch: pytest.MonkeyPatch) -> None:
    served.chat("a")
    served.chat("owner/b")
    whole = Client.whole

    async def broken(client: Client, method: str, target: bytes, *more: Any) -> Answer:
        if target == b"/v1/cache/clear" and client is lost:
            raise Broken(answered=False)
        return await whole(client, method, target, *more)

    worker = served.pool.resident()[0].worker
    assert worker is not None
    lost = worker.client
    monkeypatch.setattr(Client, "whole", broken)
    assert served.http.post("/v1/cache/clear").json()["cleared"]["entries"] == 2


def test_adapters_come_and_go_while_the_front_runs_and_stay_with_their_model(tmp_path: Path) -> None:
    with front([table("a"), table("b")]) as served:

        def ask(what: str, **fields: Any) -> httpx.Response:
            return served.http.post(f"/v1/{what}_lora_adapter", json=fields)

        loaded = ask("load", model="b", lora_name="poet", lora_path=str(tmp_path))
        assert loaded.status_code == 200 and "added successfully" in loaded.text
        assert served.chat("poet").json()["model"] == "poet"
        assert served.state("b")["aliases"] == ["poet"] and served.state("a")["state"] == "unloaded"
        for taken in ("a", "poet"):
            refused(ask("load", lora_name=taken, lora_path=str(tmp_path)), 400, "lora_name", "already")
        refused(ask("load", lora_name="x", lora_path="not/whole"), 400, "lora_path", "whole path")
        refused(ask("load", model="nobody", lora_name="x", lora_path="/x"), 404, "model", "nobody")
        served.http.post("/v1/models/b/unload")
        entry = served.pool.catalog.named("poet")
        assert entry is not None and entry.name == "b" and entry.settings.loras == {"poet": tmp_path}
        assert ask("unload", lora_name="poet").text == "Success: LoRA adapter 'poet' removed successfully."
        assert served.state("b")["state"] == "unloaded"  # it was not loaded for this
        refused(served.chat("poet"), 404, "model", "poet")
        for name in ("poet", "a"):
            refused(ask("unload", lora_name=name), 404, "lora_name", name)
        assert ask("load", lora_name="poet", lora_path=str(tmp_path)).status_code == 200
        assert served.state("a")["aliases"] == ["poet"]
        assert ask("unload", lora_name="poet").status_code == 200
        refused(served.chat("poet"), 404, "model", "poet")
