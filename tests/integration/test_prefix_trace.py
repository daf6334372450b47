"""An agent's day: many requests over one long system prompt, from many threads. Nothing is computed twice."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterable, Sequence

import pytest

from paceline.requests import GenerateRequest
from paceline.service import Service
from paceline.settings import Settings
from paceline.types import Sampling
from tests.conftest import Tiny
from tests.prefixes import SMALLEST, next_turn, says, words

THREADS, TURNS = 8, 25
SYSTEM = 8000  # tokens
TOOLS = [
    {"type": "function", "function": {"name": f"tool_{name}", "parameters": {"type": "object", "properties": {}}}}
    for name in ("read", "write", "search", "run", "fetch", "plan")
]
ANSWER = Sampling(temperature=0, max_tokens=32)
Exchange = tuple[list[int], list[int]]  # a prompt, and what was said to it


class Agent(threading.Thread):
    """A conversation that grows: each answer is followed by what a tool returns. On an event loop of its own."""

    def __init__(self, service: Service, place: int) -> None:
        super().__init__(name=f"agent {place}")
        self.service = service
        self.place = place
        self.exchanges: list[Exchange] = []
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            asyncio.run(self._work())
        except BaseException as error:  # noqa: BLE001  raised where the thread is joined
            self.error = error

    async def _work(self) -> None:
        service = self.service
        task = words(service.tokenizer, 60, seed=self.place // 2)  # two agents each have the same task
        system = says("system", words(service.tokenizer, SYSTEM) + "\n" + json.dumps(TOOLS))
        prompt = service.render([system, says("user", task)])
        for turn in range(TURNS):
            answer = await service.generate(GenerateRequest(prompt, ANSWER))
            said = list(answer.choices[0].token_ids)
            self.exchanges.append((prompt, said))
            result = words(service.tokenizer, 40 + 40 * (turn % 4), seed=1000 * self.place + turn)
            prompt = next_turn(service, prompt + said, says("user", f"<tool_response>\n{result}\n</tool_response>"))


def ideal(exchanges: Iterable[Exchange]) -> int:
    """Prompt tokens that somebody must prefill: each distinct one once, and none that was computed in decoding.

    Decoding computes a prompt's last token, and all that is said but the last.
    """
    trie: dict[int, dict[int, object]] = {}
    prompted: set[int] = set()
    decoded: set[int] = set()
    for prompt, said in exchanges:
        for place, node in enumerate(_path(trie, prompt + said[:-1])):
            (prompted if place < len(prompt) - 1 else decoded).add(node)
    return len(prompted - decoded)


def _path(trie: dict[int, dict[int, object]], tokens: Sequence[int]) -> list[int]:
    nodes, path = trie, []
    for token in tokens:
        nodes = nodes.setdefault(token, {})  # type: ignore[assignment]
        path.append(id(nodes))
    return path


def test_the_ideal_counts_each_token_once_and_no_token_that_decoding_computes() -> None:
    assert ideal([([1, 2, 3, 4], [5])]) == 3
    assert ideal([([1, 2, 3, 4], [5]), ([1, 2, 3, 4], [6])]) == 3
    assert ideal([([1, 2, 3, 4], [5, 6]), ([1, 2, 3, 4, 5, 6, 7], [8])]) == 4  # 6 was sampled, but never read
    assert ideal([([1, 2], [3]), ([1, 9, 9], [3])]) == 2


@pytest.mark.slow
@pytest.mark.parametrize("mtp", [False, True])
def test_200_requests_of_8_agents_prefill_hardly_more_than_the_ideal(tiny: Tiny, mtp: bool) -> None:
    service = Service(Settings(model=str(tiny("hybrid", **SMALLEST, mtp=mtp)), max_num_seqs=8))
    asyncio.run(service.start())
    try:
        agents = [Agent(service, place) for place in range(THREADS)]
        for agent in agents:
            agent.start()
        for agent in agents:
            agent.join()
            if agent.error is not None:
                raise agent.error
        stats = service.stats()
        exchanges = [exchange for agent in agents for exchange in agent.exchanges]
        finished = stats.requests_finished
        assert len(exchanges) == THREADS * TURNS == finished["stop"] + finished.get("length", 0)
        sent = sum(len(prompt) - 1 for prompt, _ in exchanges)
        assert stats.prompt_tokens + stats.prefix_cache.hit_tokens == sent
        least = ideal(exchanges)
        assert least <= stats.prompt_tokens <= 1.05 * least

        for prompt, said in exchanges[::17]:
            plain = asyncio.run(service.generate(GenerateRequest(prompt, ANSWER, cache=False)))
            assert list(plain.choices[0].token_ids) == said
    finally:
        asyncio.run(service.stop())
