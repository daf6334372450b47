"""Requests that are announced: their streams begin when they are accepted."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path

import pytest

from paceline.errors import QueueFull
from paceline.requests import ChatRequest, GenerateRequest
from paceline.service import Service
from paceline.settings import Settings
from paceline.types import Sampling
from tests.test_service import GREEDY, MESSAGES, endless, read, summed, until_idle, until_running


async def test_an_announced_request_has_one_delta_more_and_it_comes_first(llama: Path) -> None:
    async with Service(Settings(model=str(llama), max_num_seqs=2, max_queue=1, context_length=600)) as service:
        for n in (1, 3):
            request = ChatRequest(MESSAGES, GREEDY, n=n)
            first, *rest = await read(service.stream_chat(replace(request, announce=True)))
            assert first.accepted is not None and first.token_ids == () and first.finish_reason is None
            prompt = rest[0].prompt
            assert prompt is not None and first.accepted.prompt_tokens == len(prompt.token_ids)
            assert all(delta.accepted is None for delta in rest)
            plain = await read(service.stream_chat(request))
            assert all(delta.accepted is None for delta in plain)
            assert [summed(rest, index) for index in range(n)] == [summed(plain, index) for index in range(n)]

        one_token = GenerateRequest(
            [5], Sampling(max_tokens=0, prompt_logprobs=0), announce=True
        )  # ends before any step
        first, last = await read(service.stream_generate(one_token))
        assert first.accepted is not None and first.accepted.prompt_tokens == 1
        assert last.finish_reason == "length"

        running = asyncio.create_task(service.generate(endless(n=2)))
        await until_running(service, 2)
        async with aclosing(service.stream_generate(endless(n=2, announce=True))) as waits:
            assert (await anext(waits)).accepted is not None
            assert service.stats().num_requests_waiting == 2
            with pytest.raises(QueueFull):
                await anext(service.stream_generate(endless(announce=True)))
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await until_idle(service)
