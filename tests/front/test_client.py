from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from paceline.front.client import Broken, Client

Handle = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
HEAD = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n"


@asynccontextmanager
async def serving(path: Path, handle: Handle) -> AsyncIterator[Client]:
    async def closing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await handle(reader, writer)
        writer.close()

    server = await asyncio.start_unix_server(closing, str(path))
    client = Client(path)
    try:
        yield client
    finally:
        client.close()
        server.close()


async def test_a_connection_is_used_again_and_a_stale_one_is_replaced(tmp_path: Path) -> None:
    connections = 0

    async def twice(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        for _ in range(2):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(HEAD + b"ok")

    async with serving(tmp_path / "s", twice) as client:
        for _ in range(4):
            assert (await client.get("/x")).body == b"ok"
    assert connections == 2


async def test_an_answer_that_breaks_off_is_broken_and_nobody_there_too(tmp_path: Path) -> None:
    async def half(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(HEAD + b"o")

    async with serving(tmp_path / "s", half) as client:
        with pytest.raises(Broken) as broken:
            await client.get("/x")
        assert broken.value.answered
    with pytest.raises(Broken) as broken:
        await Client(tmp_path / "nobody").get("/x")
    assert not broken.value.answered


async def test_an_answer_that_is_left_early_closes_the_connection(tmp_path: Path) -> None:
    closed = asyncio.Event()

    async def endless(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\nx\r\n")
        await reader.read()
        closed.set()

    async with serving(tmp_path / "s", endless) as client:
        async with client.request("GET", b"/", [(b"host", b"x")]) as response:
            async for piece in response.body():
                assert piece == b"x"
                break
        await asyncio.wait_for(closed.wait(), 60)


async def test_what_is_no_http_is_broken(tmp_path: Path) -> None:
    async def nonsense(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"\x00" * 100 + b"\r\n\r\n")

    async with serving(tmp_path / "s", nonsense) as client:
        with pytest.raises(Broken):
            await client.get("/x")


async def test_pieces_that_came_together_are_one_and_none_is_lost_when_the_end_came_with_them(tmp_path: Path) -> None:
    async def at_once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        pieces = b"".join(b"1\r\n%d\r\n" % number for number in range(10))
        writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + pieces + b"0\r\n\r\n")
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + pieces)

    async with serving(tmp_path / "s", at_once) as client:
        assert (await client.get("/x")).body == b"0123456789"
        got = list[bytes]()
        with pytest.raises(Broken):
            async with client.request("GET", b"/", [(b"host", b"x")]) as response:
                async for piece in response.body():
                    got.append(piece)
        assert b"".join(got) == b"0123456789"  # what came before the break is passed on


CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"


async def test_a_connection_is_used_again_after_an_answer_in_chunks(tmp_path: Path) -> None:
    connections = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        for _ in range(3):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(CHUNKED + b"2\r\nok\r\n")
            await writer.drain()
            writer.write(b"1\r\n!\r\n0\r\n\r\n")

    async with serving(tmp_path / "s", serve) as client:
        for _ in range(3):
            assert (await client.get("/x")).body == b"ok!"
    assert connections == 1


@pytest.mark.parametrize("sent", [b"5\r\nab", b"2\r\nok\r\n", b"2\r\nokay\r\n"])
async def test_chunks_that_break_off_or_are_none_are_broken(tmp_path: Path, sent: bytes) -> None:
    async def half(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(CHUNKED + sent)

    async with serving(tmp_path / "s", half) as client:
        with pytest.raises(Broken) as broken:
            await client.get("/x")
    assert broken.value.answered


async def test_an_answer_without_a_body_may_say_chunked(tmp_path: Path) -> None:
    async def head(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(2):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(CHUNKED)

    async with serving(tmp_path / "s", head) as client:
        for _ in range(2):
            assert (await client.whole("HEAD", b"/x")).body == b""
