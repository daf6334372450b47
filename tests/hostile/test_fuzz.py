"""All attacks at once and at random, for as long as PACELINE_TEST_FUZZ says in seconds. `make fuzz` gives it minutes.

PACELINE_TEST_SEED draws the same attacks again; how they fall together is still the machine's to say.
"""

from __future__ import annotations

import json
import os
import random
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from tests.hostile import test_bodies, test_pictures, test_prompts, test_schemas
from tests.hostile.harness import Attack, Server, check_refusal, under_attack

SECONDS = float(os.environ.get("PACELINE_TEST_FUZZ", "20"))
SEED = int(os.environ.get("PACELINE_TEST_SEED", time.time_ns() % 10**6))
CLIENTS = 4
PATIENCE = 900.0  # seconds for an answer: those of all the others may come first
CHAT = test_bodies.CHAT
ATTACKS: dict[str, Attack] = {
    f"{module.__name__.rpartition('_')[2]}.{name}": attack
    for module in (test_bodies, test_prompts, test_pictures, test_schemas)
    for name, attack in {**module.ATTACKS, **getattr(module, "TEMPLATE_ATTACKS", {})}.items()
}


class Fuzz:
    """Clients that draw from one seeded sequence until the time is over."""

    def __init__(self, server: Server, seed: int, seconds: float) -> None:
        self._server = server
        self._random = random.Random(seed)
        self._lock = threading.Lock()
        self._deadline = time.monotonic() + seconds
        self.log: list[str] = []

    def client(self) -> None:
        while time.monotonic() < self._deadline:
            with self._lock:
                name = self._random.choice(sorted(ATTACKS))
                leaves = self._random.random() < 0.2
                self.log.append(f"{name}{', and leaves' if leaves else ''}")
            attack = ATTACKS[name]
            body = attack.body()
            if leaves:
                self._send_and_leave(attack.path, body)
                continue
            answer = self._server.request("POST", attack.path, body, PATIENCE)
            assert answer.status in (*attack.allowed, 429, 503), (name, str(answer))
            if answer.status != 200:
                check_refusal(attack.path, answer, attack.fields)

    def _send_and_leave(self, path: str, body: bytes) -> None:
        """With all of the body sent, or a part of it; the answer is never read."""
        with self._lock:
            sent = self._random.choice((len(body), len(body) // 2))
        head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        with socket.create_connection(("127.0.0.1", self._server.port), timeout=PATIENCE) as client:
            try:
                client.sendall(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body[:sent])
            except ConnectionError:  # it was refused before it was sent
                return


def stream_and_leave(server: Server, deadline: float) -> None:
    """Streams that are left after their first words, all the time."""
    body = json.dumps({"messages": test_prompts.said("Go on."), "stream": True, "max_tokens": 4000}).encode()
    head = f"POST {CHAT} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    while time.monotonic() < deadline:
        with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as client:
            client.sendall(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
            client.recv(2000)
        time.sleep(0.2)


@pytest.mark.slow
@pytest.mark.timeout(SECONDS + 2 * PATIENCE)
def test_all_attacks_at_random_hold_up_nobody_and_leave_nothing(server: Server) -> None:
    print(f"PACELINE_TEST_SEED={SEED} PACELINE_TEST_FUZZ={SECONDS:g}")
    with under_attack(server), ThreadPoolExecutor(CLIENTS + 1) as pool:
        fuzz = Fuzz(server, SEED, SECONDS)
        work = [fuzz.client] * CLIENTS + [partial(stream_and_leave, server, time.monotonic() + SECONDS)]
        ends = [pool.submit(each) for each in work]
        try:
            for end in ends:
                end.result()
        finally:
            print("\n".join(fuzz.log))
