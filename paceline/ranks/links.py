"""The connections of rank 0 with all others, and who notices when one is gone.

An idle rank waits on its socket, never inside a collective, which would take a core. A collective whose other end is
gone or stopped may wait for ever, and nothing can interrupt it. So other threads than the engine's read the sockets and
watch the clock:
- a process that is gone closes its socket: known at once;
- a process that is stopped, or a machine that is gone, answers no ping: known after `timeout` seconds;
- a step that does not end, although all answer, is known after `STUCK` times as long.
"""

from __future__ import annotations

import contextlib
import json
import logging
import queue
import socket
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from paceline.errors import PacelineError
from paceline.ranks.channel import Channel, ChannelClosed, NotAuthentic, accepted, connected
from paceline.ranks.handshake import Identity, RankRefused
from paceline.ranks.orders import BadOrder, Kind, Order

log = logging.getLogger("paceline")
PINGS = 4  # within a timeout
STUCK = 20  # timeouts that one step may take
RETRY_SECONDS = 0.1
END_SECONDS = 2.0  # for another rank to hear that rank 0 ends
UNNUMBERED = 0  # what is said between the processes is no order
OPEN_DIGESTS = 64  # steps that a follower may be behind
Lost = Callable[[str], None]
Pulse = Callable[[bool], None]  # called again and again while threads can run; False: no more


class RankLost(PacelineError):
    """A rank is gone, or never came (the CLI exits with 70: a supervisor may start all of them again)."""


class Leader:
    """Rank 0's end of all connections. `listen` first; then `gather` waits for the others."""

    def __init__(self, identity: Identity, secret: bytes, timeout: float) -> None:
        self.identity = identity
        self.timeout = timeout
        self._secret = secret
        self._listener: socket.socket | None = None
        self._channels: dict[int, Channel] = {}
        self._heard: dict[int, float] = {}
        self._ready: queue.SimpleQueue[tuple[int, Mapping[str, Any]]] = queue.SimpleQueue()
        self._number = 0
        self._digests: dict[int, str] = {}  # of the latest steps
        self._busy_since: float | None = None
        self._lost_lock = threading.Lock()
        self._is_lost = threading.Event()
        self._on_lost: Lost | None = None
        self._readers: list[threading.Thread] = []
        self.lost: str | None = None  # why the ranks cannot go on
        self.closed = False
        self.pulse: Pulse = lambda beats: None

    def listen(self, host: str, port: int) -> int:
        """Raises PacelineError where that fails; returns the port."""
        try:
            self._listener = socket.create_server((host, port), family=_family(host))
        except OSError as error:
            reason = (error.strerror or str(error)).partition(" (while")[0]
            raise PacelineError(f"cannot listen for other ranks on {host} port {port}: {reason}") from error
        return int(self._listener.getsockname()[1])

    def gather(self, seconds: float, on_lost: Lost, alive: Callable[[], str | None] = lambda: None) -> None:
        """Until all ranks are here; then all of them go on. Raises RankRefused or RankLost. `alive` says if one that
        was started has ended."""
        assert self._listener is not None
        deadline, last = time.monotonic() + seconds, ""
        self._listener.settimeout(RETRY_SECONDS)
        while len(self._channels) < self.identity.world - 1:
            if time.monotonic() > deadline:
                missing = sorted(set(range(1, self.identity.world)) - set(self._channels))
                names = ", ".join(map(str, missing))
                raise self._given_up(RankLost(f"Rank {names} did not come within {seconds:g} seconds.{last}"))
            if (ended := alive()) is not None and self._listener is not None:
                raise self._given_up(RankLost(ended))
            try:
                connection, address = self._listener.accept()
            except TimeoutError:
                continue
            try:
                self._admit(connection)
            except (NotAuthentic, ChannelClosed) as error:
                connection.close()
                last = f" A connection from {address[0]} was refused: {error}."
                log.warning("refused a connection from %s: %s", address[0], error)
            except RankRefused as error:
                raise self._given_up(error) from None
        self._listener.close()
        for rank, channel in self._channels.items():  # not before: they go on to wait for each other inside MLX
            try:
                channel.send(b'{"accepted":true}')
            except ChannelClosed as error:
                raise self._given_up(RankLost(f"Rank {rank} is gone: {error}")) from error
            channel.limit(None)
        self._on_lost = on_lost
        for rank in self._channels:
            self._heard[rank] = time.monotonic()
            reader = threading.Thread(target=self._read, args=(rank,), name=f"paceline-rank-{rank}", daemon=True)
            self._readers.append(reader)
            reader.start()
        threading.Thread(target=self._watch, name="paceline-ranks", daemon=True).start()

    def _admit(self, connection: socket.socket) -> None:
        channel = accepted(connection, self._secret)
        payload = channel.receive()
        try:
            other = Identity.from_json(json.loads(payload))
            self.identity.check(other)
            if other.rank in self._channels:
                raise RankRefused(f"rank {other.rank} is here already.")
        except (RankRefused, ValueError) as error:
            channel.send(json.dumps({"refused": str(error)}).encode())
            channel.close()
            raise RankRefused(f"Another rank was refused: {error}") from error
        self._channels[other.rank] = channel

    def _given_up(self, error: PacelineError) -> PacelineError:
        self.close(str(error))
        return error

    @property
    def admitted(self) -> set[int]:
        """Ranks that are here."""
        return set(self._channels)

    # -- orders: on the engine's thread

    def send(self, kind: Kind, body: Mapping[str, Any]) -> None:
        """To all others. Raises RankLost."""
        self._number += 1
        self._broadcast(Order(self._number, kind, body))
        if self.lost is not None:
            raise RankLost(self.lost)

    def begin_step(self) -> None:
        self._busy_since = time.monotonic()

    def end_step(self, number: int, digest: str) -> None:
        """The others compare the digest with their own, and send theirs."""
        self._digests[number] = digest
        self._digests.pop(number - OPEN_DIGESTS, None)
        self.send("digest", {"step": number, "digest": digest})
        self._busy_since = None

    def ready(self, seconds: float) -> dict[int, Mapping[str, Any]]:
        """Wait until every other rank has loaded; returns what they say of themselves. Raises RankLost."""
        found: dict[int, Mapping[str, Any]] = {}
        deadline = time.monotonic() + seconds
        while len(found) < self.identity.world - 1:
            try:
                rank, body = self._ready.get(timeout=max(deadline - time.monotonic(), 0.01))
            except queue.Empty:
                raise RankLost(f"Not all ranks had loaded the model after {seconds:g} seconds.") from None
            found[rank] = body
        return found

    def why(self, seconds: float) -> str | None:
        """Which rank is gone, if that is known by then: a collective may fail before."""
        self._is_lost.wait(seconds)
        return self.lost

    def close(self, reason: str = "") -> None:
        """Tell all others to end. Any thread; again does nothing."""
        self.closed = True
        self.pulse(False)
        if self._listener is not None:
            self._listener.close()
        channels, self._channels = self._channels, {}
        last = Order(UNNUMBERED, "lost" if reason else "stop", {"reason": reason}).encoded()
        for channel in channels.values():
            with contextlib.suppress(ChannelClosed):
                channel.send(last, wait=self.lost is None)  # another thread may wait for ever while it sends
                channel.end()
        for reader in self._readers:  # until the others have read it: what is unread is lost with the connection
            if reader is not threading.current_thread() and channels:
                reader.join(END_SECONDS)
        for channel in channels.values():
            channel.close()

    # -- other threads

    def _broadcast(self, order: Order, *, wait: bool = True) -> None:
        payload = order.encoded()
        for rank, channel in list(self._channels.items()):
            try:
                channel.send(payload, wait=wait)
            except ChannelClosed as error:
                self._lose(f"Rank {rank} is gone: {error}")

    def _read(self, rank: int) -> None:
        channel = self._channels[rank]
        try:
            while True:
                order = Order.decoded(channel.receive())
                self._heard[rank] = time.monotonic()
                if order.kind == "ready":
                    self._ready.put((rank, order.body))
                elif order.kind == "digest":
                    self._compare(rank, order.body)
                elif order.kind == "lost":
                    self._lose(f"Rank {rank} cannot go on: {order.body.get('reason')}")
        except ChannelClosed as error:
            self._lose(f"Rank {rank} is gone: {error}")
        except (NotAuthentic, BadOrder) as error:
            self._lose(f"Rank {rank} sent something wrong: {error}")

    def _compare(self, rank: int, body: Mapping[str, Any]) -> None:
        mine = self._digests.get(body.get("step", 0))
        if mine is not None and mine != body.get("digest"):
            self._lose(f"Rank {rank} computed something else in step {body['step']}.")

    def _watch(self) -> None:
        pause = self.timeout / PINGS
        while not self.closed:
            self.pulse(True)
            time.sleep(pause)
            self._broadcast(Order(UNNUMBERED, "ping"), wait=False)
            now = time.monotonic()
            for rank, heard in self._heard.items():
                if now - heard > self.timeout:
                    self._lose(f"Rank {rank} has not answered for {self.timeout:g} seconds.")
            busy = self._busy_since
            if busy is not None and now - busy > STUCK * self.timeout:
                self._lose(f"A step has taken more than {STUCK * self.timeout:g} seconds.")

    def _lose(self, reason: str) -> None:
        with self._lost_lock:
            if self.closed or self.lost is not None:
                return
            self.lost = reason
            self._is_lost.set()
        log.critical("%s", reason)
        if self._on_lost is not None:  # on a thread of its own: this one may be the engine's
            threading.Thread(target=self._on_lost, args=(reason,), name="paceline-lost", daemon=True).start()


class Follower:
    """Another rank's end. `take` gives rank 0's orders as they come."""

    def __init__(self, identity: Identity, secret: bytes, timeout: float) -> None:
        self.identity = identity
        self.timeout = timeout
        self._secret = secret
        self._channel: Channel | None = None
        self._orders: queue.SimpleQueue[Order] = queue.SimpleQueue()
        self._taken = 0
        self._heard = 0.0
        self._on_lost: Lost | None = None
        self.pulse: Pulse = lambda beats: None

    def connect(self, host: str, port: int, seconds: float, on_lost: Lost) -> None:
        """Raises RankRefused, WrongSecret or RankLost. `on_lost` is called by another thread when rank 0 is gone or
        has ended; an empty reason: it ended as it should."""
        deadline = time.monotonic() + seconds
        while True:
            try:
                connection = socket.create_connection((host, port), timeout=RETRY_SECONDS * 20)
                if connection.getsockname() != connection.getpeername():
                    break
                connection.close()  # TCP has connected the port with itself, and rank 0 could not have it
                raise ConnectionRefusedError("nobody listens there")
            except OSError as error:
                if time.monotonic() > deadline:
                    raise RankLost(f"Rank 0 did not answer at {host} port {port}: {error}.") from error
                time.sleep(RETRY_SECONDS)
        try:
            channel = self._admitted(connection, deadline)
        except BaseException:
            connection.close()
            raise
        channel.limit(None)
        self._channel, self._on_lost, self._heard = channel, on_lost, time.monotonic()
        threading.Thread(target=self._read, name="paceline-rank-0", daemon=True).start()
        threading.Thread(target=self._watch, name="paceline-ranks", daemon=True).start()

    def _admitted(self, connection: socket.socket, deadline: float) -> Channel:
        try:
            channel = connected(connection, self._secret, max(deadline - time.monotonic(), 1.0))
            channel.send(json.dumps(self.identity.to_json()).encode())
            answer = json.loads(channel.receive())
        except (NotAuthentic, ChannelClosed) as error:
            raise RankLost(f"Rank 0 did not admit this rank: {error}.") from error
        if "refused" in answer:
            raise RankRefused(f"Rank 0 refused this rank: {answer['refused']}")
        if "accepted" not in answer:
            raise RankLost(f"Rank 0 has given up: {answer.get('body', {}).get('reason')}")
        return channel

    def take(self, *kinds: Kind) -> Order:
        """The next order, which must be one of these. On the engine's thread. Raises BadOrder."""
        order = self._orders.get()
        self._taken += 1
        if order.number != self._taken:
            raise BadOrder(f"order {order.number} came where {self._taken} was due")
        if order.kind not in kinds:
            raise BadOrder(f"order {order.number} is {order.kind!r}, and this rank expected {' or '.join(kinds)}")
        return order

    def send(self, kind: Kind, body: Mapping[str, Any]) -> None:
        """Raises ChannelClosed."""
        assert self._channel is not None
        self._channel.send(Order(UNNUMBERED, kind, body).encoded())

    def close(self) -> None:
        if self._channel is not None:
            self._on_lost = None
            self._channel.close()

    def _read(self) -> None:
        assert self._channel is not None
        try:
            while True:
                order = Order.decoded(self._channel.receive())
                self._heard = time.monotonic()
                if order.kind == "ping":
                    self.send("pong", {})
                elif order.kind in ("stop", "lost"):
                    self._lose(str(order.body.get("reason") or ""))
                    return
                else:
                    self._orders.put(order)
        except ChannelClosed as error:
            self._lose(f"Rank 0 is gone: {error}")
        except (NotAuthentic, BadOrder) as error:
            self._lose(f"Rank 0 sent something wrong: {error}")

    def _watch(self) -> None:
        while self._on_lost is not None:
            self.pulse(True)
            time.sleep(self.timeout / PINGS)
            if time.monotonic() - self._heard > self.timeout:
                self._lose(f"Rank 0 has not been heard for {self.timeout:g} seconds.")

    def _lose(self, reason: str) -> None:
        on_lost, self._on_lost = self._on_lost, None
        if on_lost is not None:
            on_lost(reason)


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET
