from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from tests.front.harness import front, table


def test_status_and_metrics_say_what_each_model_does_and_why() -> None:
    with front([table("a"), table("b", pinned=True), table("c")]) as served:
        served.chat("a")
        status = served.http.get("/v1/status").json()
        assert status["default_model"] == "a"
        models = {model["name"]: model for model in status["models"]}
        assert (models["b"]["state"], models["b"]["pinned"], models["b"]["requests"]) == ("resident", True, 0)
        assert (models["c"]["state"], models["c"]["why"]) == ("unloaded", "nobody has asked for it yet")
        assert models["c"]["status"] is None and models["a"]["status"]["num_requests_running"] == 0
        assert status["memory"]["free_bytes"] == status["memory"]["limit_bytes"] - status["memory"]["granted_bytes"]

        page = served.http.get("/metrics").text
        families = {family.name: family for family in text_string_to_metric_families(page)}
        assert page.count("# TYPE paceline_num_requests_running ") == 1
        running = {sample.labels["model_name"] for sample in families["paceline_num_requests_running"].samples}
        assert running == {"a", "b"}
        states = families["paceline_model_state"].samples
        assert {s.labels["model_name"] for s in states if s.labels["state"] == "resident" and s.value} == {"a", "b"}
        memory = families["process_resident_memory_bytes"].samples
        assert {sample.labels.get("model_name") for sample in memory} == {None, "a", "b"}
