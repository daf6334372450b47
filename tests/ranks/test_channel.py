from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from paceline.ranks.channel import (
    MAGIC,
    MAX_FIRST_BYTES,
    Channel,
    ChannelClosed,
    NotAuthentic,
    WrongSecret,
    accepted,
    connected,
)

SECRET = b"a secret of both ends"
Ends = tuple[Channel, Channel, socket.socket, socket.socket]


@pytest.fixture
def ends() -> Iterator[Ends]:
    """Rank 0's channel, another rank's, and their sockets."""
    mine, theirs = pair()
    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(connected, theirs, SECRET)
        leader = accepted(mine, SECRET)
        yield leader, other.result(), mine, theirs
    mine.close()
    theirs.close()


def pair() -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        theirs = socket.create_connection(listener.getsockname())
        return listener.accept()[0], theirs


def test_both_ends_hear_what_the_other_says(ends: Ends) -> None:
    leader, follower, _, _ = ends
    for payload in (b"", b"one", b"x" * 100_000):
        with ThreadPoolExecutor(1) as pool:
            sent = pool.submit(follower.send, payload)
            assert leader.receive() == payload
            assert sent.result()
    leader.send(b"back")
    assert follower.receive() == b"back"


def test_a_changed_frame_is_refused(ends: Ends) -> None:
    leader, follower, mine, theirs = ends
    leader.send(b"pay 1")
    frame = bytearray(theirs.recv(1000))
    frame[-1] += 1
    mine.sendall(frame)
    with pytest.raises(NotAuthentic, match="wrong code"):
        follower.receive()


def test_a_repeated_frame_is_refused(ends: Ends) -> None:
    leader, follower, mine, theirs = ends
    leader.send(b"once")
    frame = theirs.recv(1000)
    mine.sendall(frame + frame)
    assert follower.receive() == b"once"
    with pytest.raises(NotAuthentic):
        follower.receive()


def test_a_reflected_frame_is_refused(ends: Ends) -> None:
    leader, _, _, theirs = ends
    leader.send(b"to you")
    theirs.sendall(theirs.recv(1000))
    with pytest.raises(NotAuthentic):
        leader.receive()


def test_before_the_secret_is_shown_frames_are_small(ends: Ends) -> None:
    leader, _, _, theirs = ends
    theirs.sendall(struct.pack("!I", MAX_FIRST_BYTES + 1))
    with pytest.raises(NotAuthentic, match=f"{MAX_FIRST_BYTES + 1} bytes"):
        leader.receive()


def test_an_end_that_is_gone_is_known(ends: Ends) -> None:
    leader, follower, _, _ = ends
    follower.close()
    with pytest.raises(ChannelClosed):
        leader.receive()


def test_another_secret_is_refused_by_the_follower() -> None:
    mine, theirs = pair()
    with ThreadPoolExecutor(1) as pool:
        leader = pool.submit(accepted, mine, SECRET)
        with pytest.raises(WrongSecret, match="not that of rank 0"):
            connected(theirs, b"another secret")
        leader.result()
    mine.close()
    theirs.close()


def test_a_stranger_is_refused_by_the_leader() -> None:
    mine, theirs = pair()
    theirs.sendall(b"GET / HTTP/1.1\r\nHost: paceline.example.org\r\nAccept: */*\r\n\r\n")
    with pytest.raises(NotAuthentic, match="does not speak"):
        accepted(mine, SECRET)
    mine.close()
    theirs.close()


def test_a_leader_of_another_protocol_is_refused() -> None:
    mine, theirs = pair()
    mine.sendall(b"x" * (len(MAGIC) + 64))
    with pytest.raises(NotAuthentic, match="no rank"):
        connected(theirs, SECRET)
    mine.close()
    theirs.close()
