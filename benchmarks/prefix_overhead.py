"""`python -m benchmarks prefix-overhead`: what the prefix cache costs traffic that gains little from it.

Two kinds of traffic, each with the cache on and off by turns in one process. *clients*: many clients with tiny chats,
each of its own words after a short system prompt that all share. *conversation*: one conversation of many short turns,
read at once. Every turn starts with an empty cache. The ratio is that of the rates, on / off, of a pair of turns; that
of the process's CPU time is steadier where other programs run.
"""

from __future__ import annotations

import itertools
import random
import statistics
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field

import mlx.core as mx

from benchmarks.models import Bench
from paceline.bench.wire import BenchError
from paceline.cache.prefix import PrefixCache
from paceline.engine.core import EngineCore
from paceline.engine.prefix_manager import PrefixManager
from paceline.types import Delta, Sampling, Speculation

GIGABYTES = 2.0  # that prefixes may take
SYSTEM = 12  # tokens of the system prompt that all clients share
OPENING = 3  # tokens that open a turn: after the system prompt they are shared too
GENERATION = 4  # tokens of the generation prompt, which no later prompt repeats


@dataclass(frozen=True, slots=True)
class Chat:
    """A prompt, its cache boundaries and the tokens of its answer."""

    prompt: tuple[int, ...]
    boundaries: tuple[int, ...]
    answer: int


@dataclass(slots=True)
class Turns:
    """Lists by pair of turns, in seconds."""

    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)  # of all threads


@dataclass(slots=True)
class Overhead:
    """One kind of traffic."""

    traffic: str
    unit: str
    count: int  # units of a turn
    on: Turns = field(default_factory=Turns)
    off: Turns = field(default_factory=Turns)

    @property
    def ratios(self) -> list[float]:
        return [off / on for on, off in zip(self.on.wall, self.off.wall, strict=True)]

    @property
    def cpu_ratios(self) -> list[float]:
        return [off / on for on, off in zip(self.on.cpu, self.off.cpu, strict=True)]

    def figures(self) -> dict[str, object]:
        return {
            "traffic": self.traffic,
            "unit": self.unit,
            "on_per_s": self.count / statistics.median(self.on.wall),
            "off_per_s": self.count / statistics.median(self.off.wall),
            "on_to_off": {"median": statistics.median(self.ratios), "lowest": min(self.ratios)},
            "on_to_off_by_cpu_time": {"median": statistics.median(self.cpu_ratios), "lowest": min(self.cpu_ratios)},
            "turns": {"on": asdict(self.on), "off": asdict(self.off)},
        }


class OverheadBench(Bench):
    """A bench whose prefix cache, in memory only, can be switched."""

    def _build(self, wake: Callable[[], None]) -> EngineCore:
        core = super()._build(wake)
        self.speculation: Speculation = "off" if isinstance(self.model.head, str) else "auto"
        cache = PrefixCache(lambda: int(GIGABYTES * 1e9))
        self.manager = PrefixManager(cache, core.runner, feeds_head=self.speculation != "off")
        self._names = itertools.count()
        return core

    def switch(self, on: bool) -> None:
        """An empty cache, or none."""

        def work() -> None:
            self.manager.clear()
            self.engine.core.prefix = self.manager if on else None
            mx.clear_cache()

        self.on_engine_thread(work)

    def play(self, clients: list[list[Chat]]) -> float:
        """Seconds until all clients are done, each with one chat after another."""
        done = threading.Event()
        failures: list[str] = []
        open_clients = len(clients)

        def follow(chats: list[Chat]) -> None:
            chat, *rest = chats

            def take(delta: Delta) -> None:
                nonlocal open_clients
                if delta.error is not None:
                    failures.append(delta.error)
                if delta.finish_reason is None:
                    return
                if rest:
                    follow(rest)
                    return
                open_clients -= 1
                if not open_clients:
                    done.set()

            sampling = Sampling(temperature=0, max_tokens=chat.answer, ignore_eos=True, speculation=self.speculation)
            name = f"bench-{next(self._names)}"
            seq = self.sequence(name, chat.prompt, sampling, take, boundaries=chat.boundaries)
            if self.engine.core.prefix is not None:
                seq.prefix.key = self.manager.cache_key(seq.prompt)
            self.engine.submit(seq)

        begun = time.perf_counter()
        for chats in clients:
            follow(chats)
        done.wait(timeout=3600)
        if failures:
            raise BenchError(f"A request failed: {failures[0]}")
        return time.perf_counter() - begun


def tiny_chats(clients: int, chats: int, vocab: int, seed: int) -> list[list[Chat]]:
    """For each client its chats: prompts of 20 to 60 tokens, answers of 8 to 16."""
    drawn = random.Random(seed)
    shared = _tokens(drawn, SYSTEM + OPENING, vocab)

    def chat() -> Chat:
        size = drawn.randint(20, 60)
        prompt = shared + _tokens(drawn, size - len(shared), vocab)
        return Chat(prompt, (SYSTEM, len(shared), size - GENERATION), drawn.randint(8, 16))

    return [[chat() for _ in range(chats)] for _ in range(clients)]


def conversation(turns: int, vocab: int, seed: int) -> Chat:
    """One prompt of so many turns of 8 to 24 tokens."""
    drawn = random.Random(seed)
    sizes = [drawn.randint(8, 24) for _ in range(turns)]
    ends = list(itertools.accumulate(sizes, initial=SYSTEM))
    prompt = _tokens(drawn, ends[-1] + GENERATION, vocab)
    return Chat(prompt, (SYSTEM, SYSTEM + OPENING, *ends[1:]), 1)


def _tokens(drawn: random.Random, count: int, vocab: int) -> tuple[int, ...]:
    return tuple(drawn.randrange(vocab) for _ in range(count))


def compare(
    bench: OverheadBench,
    pairs: int,
    clients: int = 64,
    turns: int = 300,
    chats: int = 1,
    watch: Callable[[str], None] = lambda text: None,
) -> list[Overhead]:
    """Both kinds of traffic, `pairs` pairs of turns each after one that warms up; who is first changes by turns."""
    vocab = bench.model.language.vocab_size
    small = Overhead(f"{clients} clients, tiny chats", "requests", clients * chats)
    lines = [small, Overhead(f"a conversation of {turns} turns", "tokens", 0)]
    for pair in range(pairs + 1):
        for line in lines:
            if line is small:
                traffic = tiny_chats(clients, chats, vocab, pair)
            else:
                traffic = [[conversation(turns, vocab, pair)]]
                line.count = len(traffic[0][0].prompt)
            for on in (True, False) if pair % 2 else (False, True):
                watch(f"{line.traffic}, pair {pair} of {pairs}, cache {'on' if on else 'off'}")
                bench.switch(on)
                before = time.process_time()
                seconds = bench.play(traffic)
                if pair:
                    into = line.on if on else line.off
                    into.wall.append(seconds)
                    into.cpu.append(time.process_time() - before)
    return lines
