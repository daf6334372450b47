"""`Service.embed`: the facade's call for Python users."""

from __future__ import annotations

import asyncio
from pathlib import Path

import numpy as np
import pytest

from paceline.errors import InvalidRequest, RequestFailed
from paceline.requests import EmbedRequest
from paceline.service import Service
from paceline.settings import Settings
from paceline.types import RequestId
from tests.engine.test_pooling import reference
from tests.waiting import until_async


async def test_embed_gives_one_vector_and_its_usage(llama: Path) -> None:
    async with Service(Settings(model=str(llama), prefill_chunk=8)) as service:
        ids = [5, 9, 30, 41, 7, 8, 200, 3, 3, 11]
        embedding = await service.embed(EmbedRequest(ids))
        np.testing.assert_allclose(embedding.vector, reference(llama, ids), atol=1e-5)
        assert service.embedding_size == len(embedding.vector)
        assert (embedding.usage.prompt_tokens, embedding.usage.completion_tokens) == (len(ids), 0)
        together = await asyncio.gather(*(service.embed(EmbedRequest(ids[:n])) for n in range(1, 11)))
        for n, one in enumerate(together, 1):
            np.testing.assert_allclose(one.vector, reference(llama, ids[:n]), atol=1e-5)
        with pytest.raises(InvalidRequest, match="empty"):
            await service.embed(EmbedRequest([]))
        assert service.stats().num_requests_running == 0


async def test_the_last_state_is_taken_where_the_server_is_set_so(llama: Path) -> None:
    async with Service(Settings(model=str(llama), embedding_pooling="last")) as service:
        embedding = await service.embed(EmbedRequest([5, 9, 30, 41]))
        np.testing.assert_allclose(embedding.vector, reference(llama, [5, 9, 30, 41], "last"), atol=1e-5)


async def test_a_cancelled_call_leaves_nothing_and_an_aborted_one_says_so(llama: Path) -> None:
    async with Service(Settings(model=str(llama), prefill_chunk=1)) as service:
        long = [7] * 1500
        task = asyncio.create_task(service.embed(EmbedRequest(long, RequestId("gone"))))
        await until_async(lambda: service.stats().num_requests_running)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await at_rest(service)
        task = asyncio.create_task(service.embed(EmbedRequest(long, RequestId("ended"))))
        await until_async(lambda: service.stats().num_requests_running)
        service.abort(RequestId("ended"))
        with pytest.raises(RequestFailed, match="before it was finished"):
            await task
        await at_rest(service)


async def at_rest(service: Service) -> None:
    await until_async(lambda: not service.stats().num_requests_running and not service.stats().num_requests_waiting)
