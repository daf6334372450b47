from __future__ import annotations

import os
import shutil
import signal
import threading
from pathlib import Path

import httpx
import pytest

from paceline.front import catalog
from paceline.models.files import DEFAULT_FOLDER
from paceline.settings import Settings
from tests.front.harness import Front, front, table
from tests.server.harness import refused, user
from tests.waiting import until


def states(served: Front) -> dict[str, str]:
    return {model["name"]: model["state"] for model in served.http.get("/v1/status").json()["models"]}


def test_a_model_is_loaded_by_its_first_request_and_answers_the_next_ones() -> None:
    with front([table("a"), table("b")]) as served:
        assert states(served) == {"a": "unloaded", "b": "unloaded"}
        assert served.chat("b").json()["model"] == "b"
        assert states(served) == {"a": "unloaded", "b": "resident"}
        pid = served.state("b")["pid"]
        assert served.chat("b").status_code == 200
        assert (served.state("b")["pid"], served.state("b")["loads"]) == (pid, 1)


def test_the_least_recently_used_model_makes_room_and_says_so() -> None:
    with front([table("a"), table("b"), table("c")], room=2) as served:
        for name in ("a", "b", "a", "c"):
            assert served.chat(name).status_code == 200
        assert states(served) == {"a": "resident", "b": "unloaded", "c": "resident"}
        assert served.state("b")["why"] == "makes room for c"


@pytest.mark.slow
def test_a_model_that_answers_and_a_pinned_one_never_leave_and_the_503_says_who_holds_the_memory() -> None:
    with front([table("busy"), table("pin", pinned=True), table("c")], room=2) as served:
        assert states(served)["pin"] == "resident"
        with httpx.stream(
            "POST",
            f"{served.address}/v1/chat/completions",
            json={"model": "busy", "messages": user("!hang 1"), "stream": True},
            timeout=120,
        ) as stream:
            until(lambda: (served.state("busy")["status"] or {}).get("num_requests_running"))
            answer = served.chat("c")
            refused(answer, 503, None, "'busy'", "answers 1", "'pin'", "pinned", "are free")
            assert int(answer.headers["retry-after"]) > 0
            assert stream.status_code == 200
        until(lambda: not served.state("busy")["requests"])
        assert served.chat("c").status_code == 200
        assert states(served) == {"busy": "unloaded", "pin": "resident", "c": "resident"}


@pytest.mark.slow
def test_a_model_that_can_never_fit_is_a_503_and_moves_nobody() -> None:
    with front([table("a"), table("large", own={"memory_limit_gb": 50.0})], room=2) as served:
        assert served.chat("a").status_code == 200
        refused(served.chat("large"), 503, None, "'large' needs about 50.00 GB", "the test")
        assert states(served)["a"] == "resident"


@pytest.mark.slow
def test_an_idle_model_is_unloaded_and_comes_back() -> None:
    with front([table("a")], settings=Settings(idle_unload=0.2)) as served:
        assert served.chat("a").status_code == 200
        served.until_state("a", "unloaded")
        assert served.state("a")["why"] == "idle for 0.2 s"
        assert served.state("a")["pid"] is None
        assert served.chat("a").status_code == 200


@pytest.mark.slow
def test_a_response_in_the_background_keeps_its_model() -> None:
    with front([table("a")], settings=Settings(idle_unload=0.2)) as served:
        body = {"model": "a", "input": "!hang 1", "background": True}
        made = served.http.post("/v1/responses", json=body).json()
        until(lambda: "runs in it" in served.state("a")["why"])
        assert served.http.post(f"/v1/responses/{made['id']}/cancel").status_code == 200
        served.until_state("a", "unloaded")


@pytest.mark.slow
def test_a_model_that_cannot_be_loaded_is_a_503_with_the_reason_and_is_not_tried_again_at_once() -> None:
    with front([table("fails"), table("b")]) as served:
        refused(served.chat("fails"), 503, None, "'fails' cannot be loaded", "its weights are damaged")
        answer = served.chat("fails")
        refused(answer, 503, None, "its weights are damaged")
        assert int(answer.headers["retry-after"]) > 0
        assert served.state("fails")["loads"] == 1
        assert served.chat("b").status_code == 200


@pytest.mark.slow
def test_a_stream_for_a_model_that_cannot_be_loaded_is_told_why() -> None:
    with front([table("fails")]) as served:
        answer = served.chat("fails", stream=True)
        assert "its weights are damaged" in answer.text


def test_a_process_that_leaves_late_has_not_crashed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("paceline.front.worker_process.LEAVE_SECONDS", 0.01)
    with front([table("a")]) as served:
        assert served.chat("a").status_code == 200
        pid = served.state("a")["pid"]
        os.kill(pid, signal.SIGSTOP)
        refused(served.http.post("/v1/models/a/unload"), 409, None, "it cannot leave now")
        os.kill(pid, signal.SIGCONT)
        served.until_state("a", "unloaded")
        assert served.state("a")["crashes"] == 0
        assert served.chat("a").status_code == 200
        assert served.state("a")["pid"] != pid


def test_a_crash_is_an_error_for_its_own_clients_only_and_the_next_request_starts_it_again() -> None:
    with front([table("a"), table("b")]) as served:
        assert served.chat("b").status_code == 200
        refused(served.chat("a", "!exit"), 503, None, "'a' ended before its answer did")
        served.until_state("a", "failed")
        assert served.state("a")["why"] == "its process ended with code 7"
        assert served.chat("b").status_code == 200
        assert served.chat("a").status_code == 200
        assert (served.state("a")["crashes"], served.state("b")["crashes"]) == (1, 0)


@pytest.mark.slow
def test_a_process_that_is_killed_is_noticed_without_a_request() -> None:
    with front([table("a")]) as served:
        assert served.chat("a").status_code == 200
        os.kill(served.state("a")["pid"], signal.SIGKILL)
        served.until_state("a", "failed")
        assert "SIGKILL" in served.state("a")["why"]


def test_a_process_that_is_killed_while_it_loads_has_crashed() -> None:
    with front([table("slow"), table("fails")]) as served:
        waiting = threading.Thread(target=lambda: served.chat("slow"))
        waiting.start()
        until(lambda: served.state("slow")["pid"])
        os.kill(served.state("slow")["pid"], signal.SIGKILL)
        served.until_state("slow", "failed")
        waiting.join()
        served.chat("fails")
        served.until_state("fails", "failed")
        assert (served.state("slow")["crashes"], served.state("fails")["crashes"]) == (1, 0)


@pytest.mark.slow
def test_crashes_in_a_row_are_answered_after_a_pause() -> None:
    with front([table("a")]) as served:
        for _ in range(2):
            served.chat("a", "!exit")
            served.until_state("a", "failed")
        answer = served.chat("a")
        refused(answer, 503, None, "'a' is not available")
        assert int(answer.headers["retry-after"]) >= 1


def test_requests_wait_for_a_load_and_a_stream_is_kept_alive(tmp_path: Path) -> None:
    gate = tmp_path / "loaded"
    own = {"chat_template": gate}
    with front([table("slow", own=own)], settings=Settings(stream_keepalive_seconds=0.05)) as served:
        answers: list[httpx.Response] = []
        threads = [threading.Thread(target=lambda: answers.append(served.chat("slow"))) for _ in range(2)]
        for thread in threads:
            thread.start()
        body = {"model": "slow", "messages": user("hi"), "stream": True}
        with httpx.stream("POST", f"{served.address}/v1/chat/completions", json=body, timeout=120) as stream:
            text = stream.iter_text()
            assert next(text).startswith(": keep-alive")
            until(lambda: served.state("slow")["waiting_for_load"] == 2)
            assert served.state("slow")["requests"] == 3
            assert served.state("slow")["load_progress"] == 0.5
            gate.touch()
            assert "".join(text).endswith("data: [DONE]\n\n")
        for thread in threads:
            thread.join()
        assert [answer.status_code for answer in answers] == [200] * 2
        assert served.state("slow")["loads"] == 1


@pytest.mark.slow
def test_more_requests_than_may_wait_are_a_429(tmp_path: Path) -> None:
    gate = tmp_path / "loaded"
    with front([table("slow", own={"chat_template": gate})], settings=Settings(max_queue=1)) as served:
        first = threading.Thread(target=served.chat, args=("slow",))
        first.start()
        until(lambda: served.state("slow")["waiting_for_load"])
        assert served.chat("slow").status_code == 429
        gate.touch()
        first.join()


@pytest.mark.slow
def test_all_given_models_share_the_memory_and_a_model_of_its_own_limit_gets_that() -> None:
    with front([table("a"), table("b", own={"memory_limit_gb": 0.3})], room=10) as served:
        for name in ("a", "b"):
            assert served.chat(name).status_code == 200
        memory = served.http.get("/v1/status").json()["memory"]
        assert served.state("b")["granted_bytes"] == 300_000_000
        assert served.state("a")["estimate_bytes"] <= served.state("a")["granted_bytes"]
        assert memory["granted_bytes"] <= memory["limit_bytes"]


def test_a_process_that_cannot_be_started_is_a_503(monkeypatch: pytest.MonkeyPatch) -> None:
    with front([table("a")]) as served:
        monkeypatch.setattr(served.pool, "_command", ["/no/such/program"])
        refused(served.chat("a"), 503, None, "cannot be started")
        assert served.state("a")["granted_bytes"] == 0 and served.state("a")["state"] == "failed"


@pytest.mark.slow
def test_a_model_that_comes_to_the_folder_can_be_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalog, "RESCAN_SECONDS", 0.0)
    shutil.copytree(DEFAULT_FOLDER, tmp_path / "one")
    with front([], settings=Settings(models_dir=tmp_path)) as served:
        assert served.chat("owner/two").status_code == 404
        shutil.copytree(DEFAULT_FOLDER, tmp_path / "owner" / "two")
        assert served.chat("owner/two").json()["model"] == "owner/two"
        assert [card["id"] for card in served.http.get("/v1/models").json()["data"]] == ["one", "owner/two"]
        shutil.rmtree(tmp_path / "owner")
        assert [card["id"] for card in served.http.get("/v1/models").json()["data"]] == ["one", "owner/two"]  # loaded
        assert served.chat("owner/two").status_code == 404


@pytest.mark.slow
def test_a_model_leaves_room_for_a_smaller_one_that_fits_beside_it() -> None:
    large = table("large", own={"memory_limit_gb": 0.25})
    with front([table("a"), large, table("c")], room=4) as served:
        for name in ("a", "large", "c"):
            assert served.chat(name).status_code == 200
        assert set(states(served).values()) == {"resident"}
