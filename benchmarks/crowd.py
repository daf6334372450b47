"""Clients of all kinds for one server: patient ones, and those that cancel, go away, or hardly read.

Each client asks for one thing after another until the time is up, waits when it is told to come back later, and writes
down how every request ended. What a request is comes from the seed; how it ends is for the server to say.
"""

from __future__ import annotations

import asyncio
import json
import math
import random
import socket
import time
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import httpx

from paceline.bench.prompts import WORDS, Lengths, draw_image

Manner = Literal["stays", "cancels", "leaves", "dawdles"]
Ending = Literal["answered", "refused", "never fits", "cancelled", "left", "cut off", "broken"]
DAWDLING = 15.0  # seconds that a dawdler looks away, when it has read a few events
GLIMPSE = 4  # events that it reads before
RECEIVE_BUFFER = 4096  # bytes of a dawdler's socket: what it does not read stays at the server
LONGEST_PAUSE = 10.0  # seconds that a client stays away at most, when it is told to come back later
CANCELLED = "request_cancelled"
CODES = {429: "queue full", 503: "queue timeout", 504: "deadline"}


@dataclass(frozen=True, slots=True)
class Mix:
    """Shares of requests, and what they are made of."""

    prompt: Lengths = Lengths(10, 8192)  # tokens, drawn evenly on a logarithmic scale
    answer: Lengths = Lengths(1, 192)
    streams: float = 0.6
    completions: float = 0.4  # token ids without a template; the others are conversations
    pictures: float = 0.25  # of the conversations
    picture_sides: tuple[int, ...] = (64, 128, 256)
    cancels: float = 0.06
    leaves: float = 0.10
    dawdles: float = 0.04
    patience: float = 3.0  # mean seconds until somebody cancels or leaves
    giants: float = 0.01  # prompts that no memory suffices for
    giant: int = 30_000
    tenants: int = 6
    shared: int = 400  # tokens with which a tenant's conversations begin


@dataclass(frozen=True, slots=True)
class Ask:
    """One request, ready to send, and how its client behaves."""

    id: str
    path: str
    body: dict[str, Any]
    manner: Manner
    patience: float = 0.0  # seconds after which it cancels or leaves

    @property
    def streams(self) -> bool:
        return bool(self.body["stream"])

    @property
    def headers(self) -> dict[str, str]:
        return {"x-request-id": self.id}


@dataclass(frozen=True, slots=True)
class Outcome:
    ending: Ending
    manner: Manner
    cause: str = ""  # of a refusal
    first: float | None = None  # seconds to the first token, of streams that were answered
    seconds: float = 0.0
    detail: str = ""
    retry_after: float = 0.0


@dataclass(slots=True)
class Crowd:
    """`words` says how many words make so many tokens; `never`: how long a prompt is certain never to fit."""

    url: str
    model: str
    mix: Mix
    words: Callable[[int], int]
    timeout: float  # seconds that a request may take at all
    seed: int = 0
    outcomes: list[Outcome] = field(default_factory=list)

    async def play(self, clients: int, seconds: float) -> None:
        """All clients at once, until the time is up and their last requests have ended."""
        end = time.monotonic() + seconds
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=clients)
        timeout = httpx.Timeout(self.timeout)
        options = [(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER)]
        slow = httpx.AsyncHTTPTransport(limits=limits, socket_options=options)
        async with (
            httpx.AsyncClient(base_url=self.url, timeout=timeout, limits=limits, trust_env=False) as client,
            httpx.AsyncClient(base_url=self.url, timeout=timeout, transport=slow, trust_env=False) as dawdler,
            asyncio.TaskGroup() as group,
        ):
            for index in range(clients):
                group.create_task(self._client(index, client, dawdler, end))

    async def _client(self, index: int, client: httpx.AsyncClient, dawdler: httpx.AsyncClient, end: float) -> None:
        chance = random.Random(f"{self.seed}/{index}")
        await asyncio.sleep(chance.random())
        while time.monotonic() < end:
            ask = self.ask(chance, index)
            outcome = await self._send(dawdler if ask.manner == "dawdles" else client, ask)
            self.outcomes.append(outcome)
            pause = min(outcome.retry_after, LONGEST_PAUSE) + chance.random() * 0.2
            await asyncio.sleep(max(min(pause, end - time.monotonic()), 0.0))

    # -- what is asked

    def ask(self, chance: random.Random, index: int) -> Ask:
        mix = self.mix
        shares: dict[Manner, float] = {"cancels": mix.cancels, "leaves": mix.leaves, "dawdles": mix.dawdles}
        shares["stays"] = 1 - sum(shares.values())
        [manner] = chance.choices(list(shares), list(shares.values()))
        tokens = round(math.exp(chance.uniform(math.log(mix.prompt.low), math.log(mix.prompt.high))))
        if chance.random() < mix.giants:
            tokens = mix.giant
        tenant = f"tenant-{index % mix.tenants}"
        body: dict[str, Any] = {"model": self.model, "user": tenant, "max_tokens": mix.answer.draw(chance)}
        body["stream"] = manner == "dawdles" or chance.random() < mix.streams
        body["temperature"] = chance.choice([0.0, 0.8])
        if manner == "dawdles":  # an answer that fills buffers
            body |= {"max_tokens": 4 * mix.answer.high, "ignore_eos": True}
        if manner != "dawdles" and chance.random() < mix.completions:
            path = "/v1/completions"
            body["prompt"] = [chance.randrange(256) for _ in range(tokens)]
        else:
            path = "/v1/chat/completions"
            body["messages"] = self._messages(chance, tokens, tenant)
            if manner == "dawdles":
                body |= {"logprobs": True, "top_logprobs": 20}
        return Ask(f"bench-{chance.getrandbits(64):x}", path, body, manner, chance.expovariate(1 / mix.patience))

    def _messages(self, chance: random.Random, tokens: int, tenant: str) -> list[dict[str, Any]]:
        content: Any = " ".join(chance.choices(WORDS, k=self.words(tokens)))
        if chance.random() < self.mix.pictures:
            url = draw_image(chance, chance.choice(self.mix.picture_sides))
            content = [{"type": "image_url", "image_url": {"url": url}}, {"type": "text", "text": content}]
        messages = [{"role": "user", "content": content}]
        if tokens > 2 * self.mix.shared:
            common = random.Random(tenant).choices(WORDS, k=self.words(self.mix.shared))
            messages.insert(0, {"role": "system", "content": " ".join(common)})
        return messages

    # -- what comes of it

    async def _send(self, client: httpx.AsyncClient, ask: Ask) -> Outcome:
        begun = time.monotonic()
        cancelling = asyncio.create_task(self._cancel(client, ask)) if ask.manner == "cancels" else None
        try:
            async with asyncio.timeout(ask.patience if ask.manner == "leaves" else None):
                outcome = await (self._stream(client, ask) if ask.streams else self._whole(client, ask))
        except TimeoutError:
            outcome = Outcome("left", ask.manner)
        except httpx.TimeoutException:
            outcome = Outcome("broken", ask.manner, detail=f"nothing came for {self.timeout:g} s")
        except httpx.TransportError as error:
            outcome = Outcome("broken", ask.manner, detail=f"{type(error).__name__}: {error}")
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            outcome = Outcome("broken", ask.manner, detail=f"no answer of OpenAI's shape: {error!r}")
        finally:
            if cancelling is not None:
                cancelling.cancel()
        return replace(outcome, seconds=time.monotonic() - begun)

    async def _whole(self, client: httpx.AsyncClient, ask: Ask) -> Outcome:
        response = await client.post(ask.path, json=ask.body, headers=ask.headers)
        if response.status_code != 200:
            return _refused(response, ask)
        return _answered(ask, response.json()["choices"][0]["finish_reason"])

    async def _stream(self, client: httpx.AsyncClient, ask: Ask) -> Outcome:
        begun = time.monotonic()
        async with client.stream("POST", ask.path, json=ask.body, headers=ask.headers) as response:
            if response.status_code != 200:
                await response.aread()
                return _refused(response, ask)
            first = reason = None
            seen = 0
            async for event in _events(response):
                seen += 1
                if first is None:
                    first = time.monotonic() - begun
                if "error" in event:
                    return _broken_off(event["error"], ask, first)
                for choice in event["choices"]:
                    reason = choice.get("finish_reason") or reason
                if ask.manner == "dawdles" and seen == GLIMPSE:
                    await asyncio.sleep(DAWDLING)
            return _answered(ask, reason, first)

    async def _cancel(self, client: httpx.AsyncClient, ask: Ask) -> None:
        await asyncio.sleep(ask.patience)
        with suppress(httpx.HTTPError):  # the request itself tells what is wrong
            await client.delete(f"/v1/requests/{ask.id}")


async def _events(response: httpx.Response) -> AsyncIterator[dict[str, Any]]:
    async for line in response.aiter_lines():
        if line.startswith("data: ") and line != "data: [DONE]":
            yield json.loads(line[6:])


def _answered(ask: Ask, reason: str | None, first: float | None = None) -> Outcome:
    if reason in ("stop", "length", "tool_calls"):
        return Outcome("answered", ask.manner, first=first)
    return Outcome("broken", ask.manner, detail=f"the answer ended with the reason {reason}")


def _refused(response: httpx.Response, ask: Ask) -> Outcome:
    try:
        error = response.json()["error"]
        said, code = str(error["message"]), error.get("code")
    except (ValueError, KeyError, TypeError):
        said, code = response.text[:200], None
    after = response.headers.get("retry-after", "")
    if code == CANCELLED and ask.manner == "cancels":
        return Outcome("cancelled", ask.manner)
    if response.status_code == 400 and code == "memory_limit_exceeded":
        return Outcome("never fits", ask.manner)
    if response.status_code in CODES and after.isdigit():
        cause = CODES[response.status_code] if code is None else str(code).replace("_", " ")
        return Outcome("refused", ask.manner, cause, retry_after=float(after))
    missing = " without Retry-After" if response.status_code in CODES else ""
    return Outcome("broken", ask.manner, detail=f"{response.status_code}{missing}: {said[:200]}")


def _broken_off(error: dict[str, Any], ask: Ask, first: float | None) -> Outcome:
    """An error inside a stream: it was cancelled, nobody read it, its turn did not come, or its time was over.

    A stream begins while its request waits, so a refusal after that has no Retry-After.
    """
    code = error.get("code")
    if code in ("queue_full", "queue_timeout"):
        return Outcome("refused", ask.manner, code.replace("_", " "))
    if code == "memory_limit_exceeded":
        return Outcome("never fits", ask.manner)
    if ask.manner == "cancels" and code == CANCELLED:
        return Outcome("cancelled", ask.manner, first=first)
    if code == "deadline" or (code == "slow_reader" and ask.manner == "dawdles"):
        return Outcome("cut off", ask.manner, code.replace("_", " "), first=first)
    return Outcome("broken", ask.manner, detail=f"in a stream: {str(error.get('message'))[:200]}")
