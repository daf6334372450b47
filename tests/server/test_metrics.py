from __future__ import annotations

from dataclasses import replace

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from paceline.conversation.parsing.formats import OutputFormat
from paceline.server.http.request_log import Figures
from paceline.server.metrics import VLLM, Metrics, RequestTimer
from paceline.settings import Settings
from paceline.stats import SpecDecodeStats, SpecPrefillStats, Stats
from paceline.types import Delta, Usage
from tests.server import fake_service
from tests.server.fake_service import MODEL, PREFIX_CACHE, REPLY, SCHEDULING, SPECPREFILL, FakeService
from tests.server.harness import post_chat, post_completion, serve, user
from tests.server.openai.responses.harness import CALL, PARAMETERS
from tests.waiting import WAIT

LENGTH = len(REPLY.encode()) + 1


def scrape(http: httpx.Client) -> dict[str, float]:
    samples = {}
    for family in text_string_to_metric_families(http.get("/metrics").text):
        for sample in family.samples:
            labels = {name: value for name, value in sample.labels.items() if name not in ("model_name", "le")}
            samples[sample.name + "".join(f" {value}" for value in labels.values())] = sample.value
    return samples


def test_vllms_names_count_what_was_served() -> None:
    with serve(FakeService(), Settings()) as address, httpx.Client(base_url=address) as http:
        before = scrape(http)
        assert before["paceline_num_requests_running"] == before["paceline_num_requests_waiting"] == 0
        post_chat(http, n=2)
        post_completion(http, ["a", "b"], max_tokens=3, stream=True)
        post_chat(http, "x" * 5000)  # refused: it never ran
        post_chat(http, "!fail 2")
        after = scrape(http)
    assert after["paceline_generation_tokens_total"] == 2 * LENGTH + 2 * 3 + 2
    assert after["paceline_request_success_total stop"] == 2
    assert after["paceline_request_success_total length"] == 2
    assert after["paceline_request_success_total error"] == 1
    assert after["paceline_request_success_total abort"] == 0
    assert after["paceline_time_to_first_token_seconds_count"] == 4
    assert after["paceline_inter_token_latency_seconds_count"] == 2 * (LENGTH - 1) + 2 * 2 + 1
    assert after["paceline_e2e_request_latency_seconds_count"] == 4
    chat = len("user: hi|assistant: ") + 1
    assert after["paceline_prompt_tokens_total"] == chat + 2 * 2 + len("user: !fail 2|assistant: ") + 1
    assert after["process_resident_memory_bytes"] > 0


def test_a_client_that_went_away_is_counted_as_an_abort() -> None:
    service = FakeService()
    with serve(service, Settings()) as address, httpx.Client(base_url=address) as http:
        body = {"messages": user("!hang 2"), "stream": True}
        with http.stream("POST", "/v1/chat/completions", json=body) as response:
            chunks = response.iter_bytes()  # kept: httpx closes the response with it
            next(chunks)
            assert scrape(http)["paceline_num_requests_running"] == 1
        assert service.idle.wait(WAIT)
        after = scrape(http)
    assert after["paceline_request_success_total abort"] == 1
    assert after["paceline_num_requests_running"] == 0


@pytest.mark.parametrize("n", [1, 3])
def test_a_choice_that_ends_before_its_second_call_has_stopped(monkeypatch: pytest.MonkeyPatch, n: int) -> None:
    monkeypatch.setattr(fake_service, "REPLY", f"{CALL}\n{CALL}")
    service = FakeService()
    service.answer_format = OutputFormat("hermes")
    tool = {"type": "function", "function": {"name": "weather", "parameters": PARAMETERS}}
    with serve(service, Settings()) as address, httpx.Client(base_url=address) as http:
        answer = post_chat(http, tools=[tool], parallel_tool_calls=False, n=n).json()
        after = scrape(http)
    assert [choice["finish_reason"] for choice in answer["choices"]] == ["tool_calls"] * n
    ends = {key.split()[1]: value for key, value in after.items() if key.startswith("paceline_request_success_total ")}
    assert ends == {"stop": n, "length": 0, "abort": 0, "error": 0}


def test_a_choice_is_over_once() -> None:
    metrics, figures = Metrics("m", Stats), Figures()
    timer = RequestTimer(metrics, 3, figures)
    timer.observe(Delta(token_ids=(1,), finish_reason="length", usage=Usage(1, 1)))
    timer.stop(0)  # the API ended it, and its sequence ended by itself before the others had
    timer.stop(1)
    timer.end(refused=False)
    counts = {reason: metrics.finished[reason]._value.get() for reason in ("stop", "length", "abort")}
    assert counts == {"stop": 1, "length": 1, "abort": 1}
    assert figures.finish_reasons == ["length", "stop"] and metrics.history.now().finished == 2


def test_the_first_byte_of_a_stream_is_not_its_first_token() -> None:
    service = FakeService()
    with serve(service, Settings()) as address, httpx.Client(base_url=address) as http:
        with http.stream(
            "POST", "/v1/chat/completions", json={"messages": user("!hang 0"), "stream": True}
        ) as response:
            chunks = response.iter_bytes()
            assert b"assistant" in next(chunks)
            waits = scrape(http)
            assert service.hanging.wait(WAIT)
            service.release()
            b"".join(chunks)
        after = scrape(http)
    for name in ("paceline_time_to_first_token_seconds_count", "paceline_request_queue_time_seconds_count"):
        assert (waits[name], after[name]) == (0, 1)


def test_drafting_is_counted_by_position_and_depth_under_vllms_names() -> None:
    service = FakeService()
    with serve(service, Settings()) as address, httpx.Client(base_url=address) as http:
        assert not any("spec_decode" in name for name in scrape(http))  # not loaded: nothing to count
        drafting = SpecDecodeStats(
            enabled=True,
            num_drafts=7,
            num_draft_tokens=20,
            num_accepted_tokens=9,
            num_accepted_tokens_per_pos=(5, 3, 1, 0, 0, 0, 0, 0),
            num_steps_per_draft_length=(40, 0, 1, 6, 0, 0, 0, 0, 0),
        )
        service.statistics = Stats(model=MODEL, spec_decode=drafting)
        after = scrape(http)
        assert 'paceline_spec_decode_num_drafts_total{model_name="fake/model"} 7.0' in http.get("/metrics").text
    name = "paceline_spec_decode_"
    assert after[f"{name}num_drafts_total"] == 7
    assert after[f"{name}num_draft_tokens_total"] == 20
    assert after[f"{name}num_accepted_tokens_total"] == 9
    accepted = tuple(after[f"{name}num_accepted_tokens_per_pos_total {position}"] for position in range(8))
    assert accepted == drafting.num_accepted_tokens_per_pos
    steps = tuple(after[f"{name}steps_total {length}"] for length in range(9))
    assert steps == drafting.num_steps_per_draft_length
    assert sum("spec_decode" in sample for sample in after) == 3 + 8 + 9


def test_cached_prefixes_are_counted_by_tier_under_vllms_names() -> None:
    service = FakeService()
    with serve(service, Settings()) as address, httpx.Client(base_url=address) as http:
        assert not any("_cache_" in name for name in scrape(http))  # not loaded: nothing to count
        service.statistics = Stats(model=MODEL, prefix_cache=PREFIX_CACHE)
        after = scrape(http)
        assert 'paceline_prefix_cache_hits_total{model_name="fake/model"} 60.0' in http.get("/metrics").text
    assert {name.removeprefix("paceline_"): value for name, value in after.items() if "_cache_" in name} == {
        "prefix_cache_queries_total": 100,
        "prefix_cache_hits_total": 60,
        "prefix_cache_restores_total": 1,
        "prefix_cache_restore_seconds_total": 0.25,
        "prefix_cache_evictions_total memory": 1,
        "prefix_cache_evictions_total disk": 2,
        "prefix_cache_bytes memory": 3000,
        "prefix_cache_bytes disk": 7000,
        "prefix_cache_limit_bytes memory": 9000,
        "prefix_cache_limit_bytes disk": 20000,
        "prefix_cache_entries memory": 3,
        "prefix_cache_entries disk": 7,
        "vision_cache_hits_total": 2,
        "vision_cache_misses_total": 4,
        "vision_cache_bytes": 500,
    }


def test_prompts_read_sparsely_are_counted_by_what_became_of_them() -> None:
    service = FakeService()
    with serve(service, Settings()) as address, httpx.Client(base_url=address) as http:
        assert not any("specprefill" in name for name in scrape(http))  # not loaded
        service.statistics = Stats(model=MODEL, specprefill=SpecPrefillStats(reason="no draft model is loaded"))
        assert not any("specprefill" in name for name in scrape(http))  # and this one has no draft
        service.statistics = Stats(model=MODEL, specprefill=SPECPREFILL)
        after = scrape(http)
        text = http.get("/metrics").text
    assert 'paceline_specprefill_prompts_total{model_name="fake/model",outcome="sparse"} 4.0' in text
    name = "paceline_specprefill_"
    assert {key.removeprefix(name): value for key, value in after.items() if key.startswith(name)} == {
        "prompts_total sparse": 4,
        "prompts_total short": 9,
        "prompts_total long": 1,
        "prompts_total failed": 2,
        "scored_tokens_total": 50_000,
        "kept_tokens_total": 15_000,
        "restored_draft_tokens_total": 700,
        "scoring_seconds_total": 2.5,
    }


def test_a_cache_in_memory_only_has_no_gauges_of_a_disk() -> None:
    service = FakeService()
    service.statistics = Stats(model=MODEL, prefix_cache=replace(PREFIX_CACHE, disk=None))
    with serve(service, Settings()) as address, httpx.Client(base_url=address) as http:
        after = scrape(http)
    assert after["paceline_prefix_cache_entries memory"] == 3
    assert [name for name in after if name.endswith(" disk")] == ["paceline_prefix_cache_evictions_total disk"]


def test_a_refusal_is_counted_by_its_cause_and_is_no_end_of_a_request() -> None:
    with serve(FakeService(), Settings()) as address, httpx.Client(base_url=address) as http:
        before = scrape(http)
        for cause, times in (("queue_full", 2), ("queue_timeout", 1), ("deadline", 1), ("never_fits", 1)):
            for _ in range(times):
                assert post_chat(http, f"!refuse-{cause}", n=2).status_code >= 400
        post_chat(http, "!refuse-slow_reader 2", stream=True)
        after = scrape(http)
        status = http.get("/v1/status").json()
    name = "paceline_requests_refused_total"
    counts = {key.split()[1]: value for key, value in after.items() if key.startswith(f"{name} ")}
    expected = {"queue_full": 2, "queue_timeout": 1, "deadline": 1, "slow_reader": 1, "never_fits": 1}
    expected |= {"draining": 0, "bodies": 0}
    assert counts == status["requests_refused"] == expected
    assert all(before[f"{name} {cause}"] == 0 for cause in expected)
    ends = [value for key, value in after.items() if key.startswith("paceline_request_success_total ")]
    assert len(ends) == 4 and sum(ends) == 0
    assert after["paceline_e2e_request_latency_seconds_count"] == 0


def test_the_time_in_the_queue_is_counted_for_who_ran() -> None:
    with serve(FakeService(), Settings()) as address, httpx.Client(base_url=address) as http:
        post_chat(http, n=2)
        post_chat(http, "!refuse-queue_timeout")
        after = scrape(http)
    assert after["paceline_request_queue_time_seconds_count"] == 1
    assert after["paceline_request_queue_time_seconds_sum"] == 0


def test_scheduling_and_memory_are_read_off_the_engine() -> None:
    service = FakeService()
    with serve(service, Settings()) as address, httpx.Client(base_url=address) as http:
        assert not any("memory_budget" in name or "preemptions" in name for name in scrape(http))
        service.statistics = SCHEDULING
        after = scrape(http)
    names = ("waiting_by_reason", "preemptions", "failed_steps", "out_of_memory", "_memory_", "kv_cache")
    assert {
        name.removeprefix("paceline_"): value
        for name, value in after.items()
        if any(part in name for part in names) and not name.startswith("process_")
    } == {
        "num_requests_waiting_by_reason max_num_seqs": 1,
        "num_requests_waiting_by_reason memory": 2,
        **{f"num_requests_waiting_by_reason {reason}": 0 for reason in ("order", "policy", "fault_isolation", "fault")},
        "num_preemptions_total memory": 3,
        "num_preemptions_total policy": 1,
        "num_preemptions_total fault": 0,
        "failed_steps_total": 2,
        "out_of_memory_total": 1,
        "memory_budget_bytes weights": 400,
        "memory_budget_bytes sequence_images": 200,
        "memory_limit_bytes": 1000,
        "memory_headroom_bytes": 100,
        "memory_free_bytes": 300,
        "kv_cache_usage_perc": 0.4,
        "mlx_memory_bytes active": 500,
        "mlx_memory_bytes peak": 700,
        "mlx_memory_bytes cache": 50,
        "memory_estimate_bytes": 550,
        "memory_estimate_error_ratio": 0.1,
    }


@pytest.mark.parametrize("times", [1, 2])
def test_two_apps_in_one_process_do_not_share_counters(times: int) -> None:
    with serve(FakeService(), Settings()) as address, httpx.Client(base_url=address) as http:
        post_chat(http)
        assert scrape(http)["paceline_request_success_total stop"] == 1


Samples = dict[str, tuple[dict[str, str], float]]


def scrape_of(settings: Settings) -> Samples:
    """Of a loaded server that has answered once."""
    service = FakeService()
    service.statistics = replace(SCHEDULING, model=MODEL, prefix_cache=PREFIX_CACHE)
    with serve(service, settings) as address, httpx.Client(base_url=address) as http:
        post_chat(http)
        families = list(text_string_to_metric_families(http.get("/metrics").text))
    samples = [sample for family in families for sample in family.samples if not sample.name.endswith("_created")]
    return {sample.name: (sample.labels, sample.value) for sample in samples}


def test_an_alias_has_the_value_and_the_labels_of_its_metric() -> None:
    samples = scrape_of(Settings(metrics_alias="vllm"))
    aliases = {name for name in samples if name.startswith("vllm:")}
    expected = set()
    for ours, theirs in VLLM.items():
        suffix = "_total" if f"{ours}_total" in samples else ""
        for name in theirs:
            expected.add(name + suffix)
            assert samples[name + suffix] == samples[ours + suffix]
    assert aliases == expected
    assert samples["vllm:kv_cache_usage_perc"][1] == SCHEDULING.memory_budget.kv_cache_usage  # type: ignore[union-attr]
    assert samples["vllm:prompt_tokens_total"][1] > 0


def test_there_are_no_aliases_unless_asked_for() -> None:
    assert not any(name.startswith("vllm:") for name in scrape_of(Settings()))
