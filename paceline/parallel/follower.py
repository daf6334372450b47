"""A rank that follows: it loads its part of the model, and carries out rank 0's orders until rank 0 ends."""

from __future__ import annotations

import logging
import signal
import threading
from types import FrameType
from typing import NoReturn

from paceline.engine.core import EngineCore
from paceline.engine.startup import Startup
from paceline.errors import PacelineError
from paceline.parallel.answers import RanksFailed
from paceline.parallel.cores import FollowerCore
from paceline.parallel.roles import FollowerRole
from paceline.parallel.wire import Sequences
from paceline.ranks.channel import ChannelClosed
from paceline.ranks.leaving import DONE, LOST, leave
from paceline.ranks.links import Follower
from paceline.ranks.orders import BadOrder, Order
from paceline.settings import Settings
from paceline.types import RequestId

log = logging.getLogger("paceline")
MARGIN_SECONDS = 10.0  # beyond the drain of rank 0, after a signal


def follow(settings: Settings, link: Follower) -> NoReturn:
    """Load and follow, on this thread. Does not return; raises what kept it from loading."""
    startup = Startup(settings, None, ranks=FollowerRole(link))
    try:
        core = startup.build(lambda: None)
    except PacelineError as error:
        _tell(link, str(error))
        raise
    try:
        obey(core, link)
    except (RanksFailed, Exception) as error:
        log.critical("this rank ends: %s", error, exc_info=error)
        _tell(link, f"{type(error).__name__}: {error}")
    leave(LOST)


def obey(core: EngineCore, link: Follower) -> None:
    """Carry out orders for ever; the thread that reads them ends the process."""
    assert isinstance(core, FollowerCore)
    sequences = Sequences(core.runner.language.vocab_size)
    while True:
        carry_out(core, link, sequences, link.take("add", "abort", "step", "clear"))


def carry_out(core: FollowerCore, link: Follower, sequences: Sequences, order: Order) -> None:
    with core.order(float(order.body["now"])):
        match order.kind:
            case "add":
                core.add(sequences.made(order.body["sequence"]))
            case "abort":
                core.abort(RequestId(order.body["id"]))
            case "clear" if core.prefix is not None:
                core.prefix.clear()
            case "step":
                core.step()
                core.steps += 1
                compare(core, link)


def compare(core: FollowerCore, link: Follower) -> None:
    """Has this rank done what rank 0 did? Both compare."""
    due, mine = link.take("digest"), core.digest()
    link.send("digest", {"step": core.steps, "digest": mine})
    if due.body["step"] != core.steps or due.body["digest"] != mine:
        raise BadOrder(f"this rank computed something else in step {core.steps}")


def ended(reason: str) -> None:
    """Rank 0 has ended, or is gone."""
    if reason:
        log.critical("%s This rank ends.", reason)
        leave(LOST)
    log.info("rank 0 has ended, and this rank with it")
    leave(DONE)


def outlive_signals(drain_seconds: float) -> None:
    """A signal to all ranks at once must not cut off what rank 0 still drains: it ends this one when it has ended."""

    def later(number: int, frame: FrameType | None) -> None:
        last = threading.Timer(drain_seconds + MARGIN_SECONDS, leave, (DONE,))
        last.daemon = True
        last.start()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, later)


def _tell(link: Follower, reason: str) -> None:
    try:
        link.send("lost", {"reason": reason})
    except ChannelClosed:
        log.debug("rank 0 is gone too")
