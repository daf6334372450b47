"""What a started service says of itself, and how its caches are cleared."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import mlx.core as mx
import pytest

from paceline.errors import InvalidRequest, QueueTimeout
from paceline.requests import GenerateRequest
from paceline.runtime import Runtime, clear_caches, with_reason
from paceline.service import Service
from paceline.settings import Settings
from paceline.stats import SpecPrefillStats
from paceline.types import Prompt, Sampling
from tests.waiting import until_async

CONTEXT = 600
GREEDY = Sampling(temperature=0, max_tokens=12)


@pytest.fixture(scope="module")
def service(llama: Path) -> Iterator[Service]:
    """Started on one event loop, used on each test's own."""
    service = Service(Settings(model=str(llama), max_num_seqs=4, context_length=CONTEXT, prefill_chunk=64))
    asyncio.run(service.start())
    yield service
    asyncio.run(service.stop())


@pytest.mark.slow
@pytest.mark.own_process
async def test_an_idle_service_tells_what_it_holds_now(hybrid: Path) -> None:
    """Not what it held a moment ago, while the last work that it had submitted was under way."""

    def work() -> None:
        product = mx.ones((1500, 1500))
        for _ in range(12):
            product = product @ product * 1e-4
        mx.async_eval(product)
        gc.collect()

    async with Service(Settings(model=str(hybrid))) as service:
        engine = service._get_runtime().engine
        await asyncio.wrap_future(engine.call(work))
        await until_async(lambda: active_bytes(service) == mx.get_active_memory())


def active_bytes(service: Service) -> int | None:
    memory = service.stats().memory
    return None if memory is None else memory.active_bytes


async def test_stats_tell_what_the_engine_does(service: Service) -> None:
    before = service.stats()
    assert before.state == "ready"
    assert (before.num_requests_running, before.num_requests_waiting) == (0, 0)
    assert before.model is not None and before.model.context_length == CONTEXT
    await service.generate(GenerateRequest("x", GREEDY))
    after = service.stats()
    assert after.generation_tokens - before.generation_tokens == 12
    assert after.requests_finished["length"] == before.requests_finished.get("length", 0) + 1


async def test_without_a_draft_stats_say_why_prompts_are_read_whole(service: Service) -> None:
    said = service.stats().specprefill
    assert not said.enabled and said.reason
    with pytest.raises(InvalidRequest) as caught:
        await service.generate(GenerateRequest("x", Sampling(specprefill=True)))
    assert said.reason in str(caught.value)
    completion = await service.generate(GenerateRequest("x", replace(GREEDY, specprefill=False)))
    assert completion.usage.kept_tokens is None


def test_an_engine_with_a_draft_speaks_for_itself() -> None:
    drafts = SpecPrefillStats(enabled=True, draft="small")
    assert with_reason(drafts, None) == drafts
    assert with_reason(SpecPrefillStats(), "a window") == SpecPrefillStats(enabled=False, reason="a window")


def test_to_clear_the_cache_is_to_forget_what_the_draft_knows_as_well() -> None:
    cleared: list[str] = []
    found = {"entries": 2, "bytes": 300, "disk_entries": 1, "disk_bytes": 200}

    def clear() -> dict[str, int]:
        cleared.append("prefixes")
        return found

    prefix = SimpleNamespace(clear=clear)
    draft = SpecPrefillStats(draft_cache_bytes=50)
    sparse = SimpleNamespace(stats=lambda: draft, clear=lambda: cleared.append("draft"))
    engine: Any = SimpleNamespace(prefix=prefix, sparse=sparse)
    assert clear_caches(engine) == {**found, "bytes": 350} and cleared == ["prefixes", "draft"]
    assert found["bytes"] == 300
    engine.prefix = None
    assert clear_caches(engine) == {"entries": 0, "bytes": 50, "disk_entries": 0, "disk_bytes": 0}
    engine.sparse = None
    assert clear_caches(engine) == {"entries": 0, "bytes": 0, "disk_entries": 0, "disk_bytes": 0}


async def test_a_request_that_no_thread_has_read_in_time_is_refused() -> None:
    """It waits behind others that wait for memory; that is a queue too, and no client waits in it for ever."""
    others = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        settings = Settings(queue_timeout=0.001)
        runtime: Any = SimpleNamespace(media_pool=pool, prompt_pool=None, settings=settings)
        pool.submit(others.wait)
        waiting: asyncio.Task[list[Any]] = asyncio.create_task(Runtime.run_in_executor(runtime, list, heavy=True))
        await until_async(lambda: pool._work_queue.qsize() == 1)
        await asyncio.sleep(0.002)  # twice as long as it may wait
        others.set()
        with pytest.raises(QueueTimeout):
            await waiting
        runtime.settings = Settings(queue_timeout=None)
        assert await Runtime.run_in_executor(runtime, list, heavy=True) == []


@pytest.mark.parametrize(
    ("field", "words"), [("messages", "messages gives an empty prompt."), ("prompt", "prompt is empty.")]
)
def test_a_prompt_without_tokens_is_refused(field: str, words: str) -> None:
    """Messages are none: a template may make nothing of some."""
    runtime: Any = SimpleNamespace()
    with pytest.raises(InvalidRequest, match=f"^{words}$") as caught:
        Runtime._check_prompt(runtime, Prompt(()), field)
    assert caught.value.field == field


async def test_limits_that_cannot_be_kept_are_warned_of(llama: Path, caplog: pytest.LogCaptureFixture) -> None:
    settings = Settings(model=str(llama), memory_limit_gb=999_999, cache_memory_gb=999_999)
    async with Service(settings):
        assert "--memory-limit-gb 999999 is above this machine's memory" in caplog.text
        assert "--cache-memory-gb 999999 is more than the memory that is left" in caplog.text
