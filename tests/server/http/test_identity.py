from __future__ import annotations

import asyncio

from paceline.server.http.identity import RequestContext, answering, current


def test_a_key_is_one_tenant_and_without_keys_users_are_told_apart_by_what_does_not_name_them() -> None:
    assert RequestContext("a", {"user": "key-1"}).tenant("ann") == "key-1"
    ann, bob = RequestContext("a").tenant("ann"), RequestContext("b").tenant("bob")
    assert ann == RequestContext("c").tenant("ann") != bob
    assert "ann" not in ann and RequestContext("a").tenant(None) == ann.partition("/")[0]


def test_what_is_charged_to_another_tenant_is_still_its_owners() -> None:
    context = RequestContext("a", {"user": "key-1"}, charged="batches/key-1")
    assert (context.tenant("ann"), context.owner) == ("batches/key-1", "key-1")


async def test_the_work_of_a_request_knows_whose_it_is_wherever_it_is_done() -> None:
    async def work() -> str:
        return current().id

    async def answer(id: str) -> str:
        with answering(RequestContext(id)):
            return await asyncio.create_task(work())

    assert [*await asyncio.gather(answer("one"), answer("two"))] == ["one", "two"]
    assert current().id == ""
