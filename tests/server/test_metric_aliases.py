from __future__ import annotations

from dataclasses import replace

import httpx
from prometheus_client.parser import text_string_to_metric_families

from paceline.server.metric_aliases import VLLM
from paceline.settings import Settings
from tests.server.fake_service import MODEL, PREFIX_CACHE, SCHEDULING, FakeService
from tests.server.harness import post_chat, serve

Samples = dict[str, tuple[dict[str, str], float]]


def scrape(settings: Settings) -> Samples:
    """Of a loaded server that has answered once."""
    service = FakeService()
    service.statistics = replace(SCHEDULING, model=MODEL, prefix_cache=PREFIX_CACHE)
    with serve(service, settings) as address, httpx.Client(base_url=address) as http:
        post_chat(http)
        families = list(text_string_to_metric_families(http.get("/metrics").text))
    samples = [sample for family in families for sample in family.samples if not sample.name.endswith("_created")]
    return {sample.name: (sample.labels, sample.value) for sample in samples}


def test_an_alias_has_the_value_and_the_labels_of_its_metric() -> None:
    samples = scrape(Settings(metrics_alias="vllm"))
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
    assert not any(name.startswith("vllm:") for name in scrape(Settings()))
