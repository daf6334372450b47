"""`--metrics-alias`: a few of our metrics under the names that routers and autoscalers read of vLLM too."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

# Ours, without the suffix of counters, to theirs. vLLM renamed its gauge of cache use; both names are still read.
VLLM: Mapping[str, tuple[str, ...]] = {
    "paceline_num_requests_running": ("vllm:num_requests_running",),
    "paceline_num_requests_waiting": ("vllm:num_requests_waiting",),
    "paceline_kv_cache_usage_perc": ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"),
    "paceline_prefix_cache_queries": ("vllm:prefix_cache_queries",),
    "paceline_prefix_cache_hits": ("vllm:prefix_cache_hits",),
    "paceline_prompt_tokens": ("vllm:prompt_tokens",),
    "paceline_generation_tokens": ("vllm:generation_tokens",),
}


class Aliased(Collector):
    """What another collector has, and behind each metric with an alias the same under that name."""

    def __init__(self, metrics: Collector, aliases: Mapping[str, tuple[str, ...]]) -> None:
        self.metrics = metrics
        self.aliases = aliases

    def collect(self) -> Iterable[Metric]:
        for family in self.metrics.collect():
            yield family
            for name in self.aliases.get(family.name, ()):
                yield _renamed(family, name)


def _renamed(family: Metric, name: str) -> Metric:
    renamed = Metric(name, family.documentation, family.type)
    for sample in family.samples:
        renamed.add_sample(name + sample.name.removeprefix(family.name), sample.labels, sample.value)
    return renamed
