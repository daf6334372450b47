from __future__ import annotations

from dataclasses import replace
from datetime import datetime

import httpx

from paceline.server.loads import MAX_COUNT, loads_of
from paceline.settings import Settings
from paceline.stats import Stats, ThroughputStats
from tests.server.fake_service import MODEL, PREFIX_CACHE, SCHEDULING, SEQUENCE, FakeService
from tests.server.harness import refused, serve

COUNTS = (
    *("dp_rank", "num_running_reqs", "num_waiting_reqs", "num_total_reqs", "num_waiting_uncached_tokens"),
    *("num_used_tokens", "max_running_requests"),
)
SHARES = ("token_usage", "cache_hit_rate", "utilization")


def test_a_router_reads_how_busy_the_server_is() -> None:
    stats = replace(
        SCHEDULING,
        model=MODEL,
        time=1_800_000_000.5,
        num_requests_running=2,
        num_requests_waiting=3,
        num_uncached_tokens=700,
        running_sequences=(SEQUENCE, SEQUENCE),
        throughput=ThroughputStats(generation_tokens_per_second=12.5),
        prefix_cache=PREFIX_CACHE,
    )
    answer = loads_of(stats).model_dump()
    assert datetime.fromisoformat(answer["timestamp"]).timestamp() == 1_800_000_000.5
    assert answer["dp_rank_count"] == 1
    [load] = answer["loads"]
    assert (load["num_running_reqs"], load["num_waiting_reqs"], load["num_total_reqs"]) == (2, 3, 5)
    assert load["num_waiting_uncached_tokens"] == 700
    assert load["num_used_tokens"] == 2 * (SEQUENCE.prompt_tokens + SEQUENCE.generated_tokens)
    assert load["cache_hit_rate"] == 0.6
    assert (load["gen_throughput"], load["utilization"], load["max_running_requests"]) == (12.5, 0.25, 8)


def test_counts_are_whole_and_shares_at_most_one_as_smg_parses_them() -> None:
    service = FakeService()
    service.statistics = replace(SCHEDULING, model=MODEL, prefix_cache=PREFIX_CACHE)
    with serve(service, Settings()) as address:
        answer = httpx.get(f"{address}/v1/loads?include=core,disagg,queues,memory").json()
    assert set(answer) == {"timestamp", "dp_rank_count", "loads"}
    [load] = answer["loads"]
    assert all(type(load[name]) is int for name in COUNTS)
    assert all(0 <= load[name] <= 1 for name in SHARES)


def test_a_server_that_loads_has_no_load() -> None:
    service = FakeService()
    with serve(service, Settings()) as address:
        service.ready = False
        refused(httpx.get(f"{address}/v1/loads"), 503, None, "loading")


def test_a_count_is_never_more_than_32_bits_hold() -> None:
    assert loads_of(Stats(num_uncached_tokens=2**40)).loads[0].num_waiting_uncached_tokens == MAX_COUNT


def test_the_load_needs_a_key_where_there_are_keys() -> None:
    settings = Settings.load({"api_key": ["sk-one"]}, None, {})
    with serve(FakeService(settings), settings) as address:
        assert httpx.get(f"{address}/v1/loads").status_code == 401
        assert httpx.get(f"{address}/v1/loads", headers={"authorization": "Bearer sk-one"}).status_code == 200


def test_there_is_no_version_that_would_make_a_router_take_us_for_vllm() -> None:
    with serve(FakeService(), Settings()) as address:
        assert httpx.get(f"{address}/version").status_code == 404
