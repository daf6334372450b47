"""Links without sockets: what rank 0 orders is recorded, and carried out by a follower afterwards."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

from paceline.ranks.orders import BadOrder, Kind, Order


class Recorder:
    """In place of a `Leader`."""

    lost: str | None = None

    def __init__(self) -> None:
        self.payloads: list[bytes] = []
        self.reason: str | None = None  # why it was closed

    def send(self, kind: Kind, body: Mapping[str, Any]) -> None:
        self.payloads.append(Order(len(self.payloads) + 1, kind, body).encoded())

    def begin_step(self) -> None: ...

    def end_step(self, number: int, digest: str) -> None:
        self.send("digest", {"step": number, "digest": digest})

    def why(self, seconds: float) -> str | None:
        return self.lost

    def close(self, reason: str = "") -> None:
        self.reason = reason

    @property
    def orders(self) -> list[Order]:
        return [Order.decoded(payload) for payload in self.payloads]


class Player:
    """In place of a `Follower`."""

    def __init__(self, orders: list[Order]) -> None:
        self.orders = deque(orders)
        self.said: list[tuple[Kind, Mapping[str, Any]]] = []

    def take(self, *kinds: Kind) -> Order:
        order = self.orders.popleft()
        if order.kind not in kinds:
            raise BadOrder(f"order {order.number} is {order.kind!r}, and this rank expected {' or '.join(kinds)}")
        return order

    def send(self, kind: Kind, body: Mapping[str, Any]) -> None:
        self.said.append((kind, body))
