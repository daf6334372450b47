"""Both ends in one process, over TCP on this machine."""

from __future__ import annotations

import queue
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from paceline.errors import PacelineError
from paceline.ranks.channel import WrongSecret
from paceline.ranks.handshake import Identity, RankRefused
from paceline.ranks.links import Follower, Leader, RankLost
from paceline.ranks.orders import BadOrder
from tests.waiting import WAIT, until

SECRET = b"a secret of all ranks"
LEADER = Identity(0, 2, "1.0", "mlx 1", "abc", {})
OTHER = replace(LEADER, rank=1)
HOST = "127.0.0.1"


class Ranks:
    """A leader and a follower that have met, and what each hears of the other's end."""

    def __init__(self, timeout: float = WAIT) -> None:
        self.leader, self.follower = Leader(LEADER, SECRET, timeout), Follower(OTHER, SECRET, timeout)
        self.lost: queue.SimpleQueue[str] = queue.SimpleQueue()
        self.ended: queue.SimpleQueue[str] = queue.SimpleQueue()
        port = self.leader.listen(HOST, 0)
        with ThreadPoolExecutor(1) as pool:
            gathered = pool.submit(self.leader.gather, WAIT, self.lost.put)
            self.follower.connect(HOST, port, WAIT, self.ended.put)
            gathered.result()

    def close(self) -> None:
        self.follower.close()
        self.leader.close()


@pytest.fixture
def ranks() -> Iterator[Ranks]:
    made = Ranks()
    yield made
    made.close()


def test_orders_arrive_in_order(ranks: Ranks) -> None:
    ranks.leader.send("step", {"now": 1.0})
    ranks.leader.send("plan", {"value": 3})
    assert ranks.follower.take("add", "step").body == {"now": 1.0}
    assert ranks.follower.take("plan").body == {"value": 3}


def test_an_order_that_was_not_due_is_an_error(ranks: Ranks) -> None:
    ranks.leader.send("abort", {"id": "a"})
    with pytest.raises(BadOrder, match="order 1 is 'abort', and this rank expected plan"):
        ranks.follower.take("plan")


def test_rank_0_learns_when_others_are_ready(ranks: Ranks) -> None:
    ranks.follower.send("ready", {"room": 5})
    assert ranks.leader.ready(WAIT) == {1: {"room": 5}}


def test_another_digest_is_the_end(ranks: Ranks) -> None:
    ranks.leader.end_step(1, "abc")
    assert ranks.follower.take("digest").body == {"step": 1, "digest": "abc"}
    ranks.follower.send("digest", {"step": 1, "digest": "abd"})
    assert ranks.lost.get(timeout=WAIT) == "Rank 1 computed something else in step 1."
    with pytest.raises(RankLost):
        ranks.leader.send("step", {})


def test_a_rank_that_cannot_go_on_says_why(ranks: Ranks) -> None:
    ranks.follower.send("lost", {"reason": "no memory"})
    assert ranks.lost.get(timeout=WAIT) == "Rank 1 cannot go on: no memory"


def test_a_rank_that_is_gone_is_known_at_once(ranks: Ranks) -> None:
    ranks.follower.close()
    assert ranks.lost.get(timeout=WAIT).startswith("Rank 1 is gone")


def test_followers_know_whether_rank_0_ended_or_is_gone() -> None:
    for reason, heard in (("", ""), ("The engine gave up.", "The engine gave up.")):
        ranks = Ranks()
        ranks.leader.close(reason)
        assert ranks.ended.get(timeout=WAIT) == heard
        ranks.close()


def test_a_rank_that_answers_no_ping_is_lost_after_the_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Follower, "send", lambda *_: None)  # as if its process was stopped
    ranks = Ranks(timeout=0.2)
    assert ranks.lost.get(timeout=WAIT) == "Rank 1 has not answered for 0.2 seconds."
    ranks.close()


def test_a_rank_0_that_sends_no_ping_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Leader, "_watch", lambda *_: None)
    ranks = Ranks(timeout=0.2)
    assert ranks.ended.get(timeout=WAIT) == "Rank 0 has not been heard for 0.2 seconds."
    ranks.close()


def test_a_step_that_never_ends_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("paceline.ranks.links.STUCK", 0)
    ranks = Ranks(timeout=1.0)
    ranks.leader.begin_step()
    assert ranks.lost.get(timeout=WAIT) == "A step has taken more than 0 seconds."
    ranks.close()


def test_a_rank_that_never_comes_is_named() -> None:
    leader = Leader(replace(LEADER, world=3), SECRET, WAIT)
    leader.listen(HOST, 0)
    with pytest.raises(RankLost, match=r"Rank 1, 2 did not come within 0\.01 seconds"):
        leader.gather(0.01, lambda reason: None)


def test_ranks_go_on_when_the_last_one_has_come() -> None:
    leader = Leader(replace(LEADER, world=3), SECRET, WAIT)
    port = leader.listen(HOST, 0)
    followers = [Follower(replace(OTHER, rank=rank, world=3), SECRET, WAIT) for rank in (1, 2)]
    with ThreadPoolExecutor(2) as pool:
        gathered = pool.submit(leader.gather, WAIT, lambda reason: None)
        first = pool.submit(followers[0].connect, HOST, port, WAIT, lambda reason: None)
        until(lambda: leader.admitted == {1})
        assert not first.done()
        followers[1].connect(HOST, port, WAIT, lambda reason: None)
        first.result()
        gathered.result()
    for follower in followers:
        follower.close()
    leader.close()


def test_a_rank_that_waits_hears_that_another_does_not_come() -> None:
    leader = Leader(replace(LEADER, world=3), SECRET, WAIT)
    port = leader.listen(HOST, 0)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(
            Follower(replace(OTHER, world=3), SECRET, WAIT).connect, HOST, port, WAIT, lambda reason: None
        )
        with pytest.raises(RankLost, match="Rank 2 has ended"):
            leader.gather(WAIT, lambda reason: None, lambda: "Rank 2 has ended." if leader.admitted else None)
        with pytest.raises(RankLost, match="Rank 0 has given up: Rank 2 has ended"):
            waiting.result()


def test_a_process_that_ended_is_not_waited_for() -> None:
    leader = Leader(LEADER, SECRET, WAIT)
    leader.listen(HOST, 0)
    with pytest.raises(RankLost, match="has ended with code 1"):
        leader.gather(WAIT, lambda reason: None, lambda: "Rank 1 has ended with code 1.")


def test_a_rank_0_that_never_comes_is_given_up() -> None:
    with socket.create_server((HOST, 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(RankLost, match="did not answer"):
        Follower(OTHER, SECRET, WAIT).connect(HOST, port, 0.01, lambda reason: None)


def test_a_port_in_use_is_an_error() -> None:
    with socket.create_server((HOST, 0)) as taken, pytest.raises(PacelineError, match="cannot listen for other ranks"):
        Leader(LEADER, SECRET, WAIT).listen(HOST, taken.getsockname()[1])


def test_a_rank_that_differs_is_refused_with_the_reason_on_both_sides() -> None:
    leader = Leader(LEADER, SECRET, WAIT)
    port = leader.listen(HOST, 0)
    with ThreadPoolExecutor(1) as pool:
        gathered = pool.submit(leader.gather, WAIT, lambda reason: None)
        with pytest.raises(RankRefused, match="Rank 0 refused this rank: its weights"):
            Follower(replace(OTHER, weights="abd"), SECRET, WAIT).connect(HOST, port, WAIT, lambda reason: None)
        with pytest.raises(RankRefused, match="Another rank was refused: its weights"):
            gathered.result()


def test_a_wrong_secret_ends_that_rank_and_not_the_others() -> None:
    leader, follower = Leader(LEADER, SECRET, WAIT), Follower(OTHER, SECRET, WAIT)
    port = leader.listen(HOST, 0)
    with ThreadPoolExecutor(1) as pool:
        gathered = pool.submit(leader.gather, WAIT, lambda reason: None)
        with pytest.raises(WrongSecret):
            Follower(OTHER, b"another secret", WAIT).connect(HOST, port, WAIT, lambda reason: None)
        follower.connect(HOST, port, WAIT, lambda reason: None)
        gathered.result()
    follower.close()
    leader.close()
