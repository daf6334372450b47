"""How much of what was computed before is used again, on hybrid models; and that nobody can tell from the answers."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterator
from contextlib import aclosing
from typing import Any

import pytest

from paceline.engine.checkpoints import MIN_STORED
from paceline.requests import ChatRequest, Completion, GenerateRequest
from paceline.service import Service
from paceline.settings import Settings
from paceline.types import RequestId, Sampling
from tests.conftest import Tiny
from tests.prefixes import ANSWER, ENOUGH, SMALLEST, Client, Message, common, next_turn, says, without_thinking, words
from tests.waiting import WAIT, until_async

THINK = 2  # tokens of a prompt that no later one repeats: `<think>` and a line break
LONG = Sampling(temperature=0, max_tokens=24, ignore_eos=True)


@contextlib.contextmanager
def started(**fields: Any) -> Iterator[Service]:
    """A service that is started on one event loop and used on each test's own."""
    service = Service(Settings(max_num_seqs=8, prefill_chunk=128, **fields))
    asyncio.run(service.start())
    try:
        yield service
    finally:
        asyncio.run(service.stop())


@pytest.fixture(scope="module", params=["drafts and thinks", pytest.param("plain", marks=pytest.mark.slow)])
def service(request: pytest.FixtureRequest, tiny: Tiny, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A model with an MTP head whose template opens `<think>` for each answer; and one with neither."""
    if request.param == "plain":
        model = without_thinking(tiny("hybrid", **SMALLEST, mtp=False), tmp_path_factory.mktemp("plain"))
    else:
        model = tiny("hybrid", **SMALLEST)
    with started(model=str(model)) as service:
        yield service


@pytest.fixture
def client(service: Service, request: pytest.FixtureRequest) -> Client:
    return Client(service, salt=request.node.name)


@pytest.fixture(autouse=True)
def _nothing_goes_wrong(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    yield
    records = caplog.get_records("call")
    assert [record.getMessage() for record in records if record.levelno >= logging.WARNING] == []


@pytest.fixture
def system(service: Service) -> Message:
    return says("system", words(service.tokenizer, 250))


def question(service: Service, place: int, tokens: int = 30) -> Message:
    """Questions begin with different tokens, so that what two chats share ends where one expects it."""
    return says("user", f"{chr(ord('a') + place)}{place} {words(service.tokenizer, tokens, seed=100 + place)}")


def reply(service: Service, place: int, tokens: int = 30) -> Message:
    return says("assistant", f"{chr(ord('A') + place)}{place} {words(service.tokenizer, tokens, seed=200 + place)}")


def prefilled(service: Service) -> int:
    return service.stats().prompt_tokens


async def until_idle(service: Service) -> None:
    await until(service, 0)


async def until(service: Service, rows: int) -> None:
    await until_async(lambda: service.stats().num_requests_running == rows and not service.stats().num_requests_waiting)


# -- conversations


@pytest.mark.thin(2)
@pytest.mark.parametrize("tokens", [250, 775])
async def test_a_new_user_of_a_known_system_prompt_reuses_it(client: Client, tokens: int) -> None:
    await new_users(client, tokens)


@pytest.mark.slow
async def test_a_new_user_of_a_known_system_prompt_of_8000_tokens_reuses_it(client: Client) -> None:
    await new_users(client, 8000)


async def new_users(client: Client, tokens: int) -> None:
    service = client.service
    system = says("system", words(service.tokenizer, tokens))
    for place in range(4):
        answer = await client.chat([system, question(service, place)])
        if place:
            assert answer.shared >= tokens
            assert answer.reused >= ENOUGH


async def test_each_turn_of_a_chat_reuses_the_turns_before(client: Client, system: Message) -> None:
    service = client.service
    chat = [system, question(service, 0)]
    for turn in range(1, 11):
        answer = await client.chat(chat)
        if turn > 1:
            assert answer.shared >= len(client.answers[-2].prompt) - THINK > 250 + 60 * (turn - 2)
            assert answer.reused >= ENOUGH, turn
        chat += [reply(service, turn), question(service, turn)]


@pytest.mark.thin(4, first=1)
@pytest.mark.parametrize("sampling", [LONG, Sampling(temperature=1, seed=3, max_tokens=20)])
async def test_what_was_generated_is_part_of_what_the_next_turn_reuses(
    client: Client, system: Message, sampling: Sampling
) -> None:
    service, client.sampling = client.service, sampling
    prompt = service.render([system, question(service, 0)])
    for turn in range(1, 11):
        answer = await client.generate(prompt)
        if turn > 1:
            assert answer.shared >= 250 + 30 * (turn - 1)
            assert answer.reused >= ENOUGH, turn
        prompt = next_turn(service, answer.prompt + answer.said, question(service, turn))


@pytest.mark.slow
async def test_three_interleaved_chats_reuse_each_its_own(client: Client, system: Message) -> None:
    service = client.service
    chats = [[system, question(service, place)] for place in range(3)]
    for turn in range(5):
        for place, chat in enumerate(chats):
            answer = await client.chat(chat)
            if turn or place:
                assert answer.reused >= ENOUGH, (turn, place)
            chat += [reply(service, 3 * turn + place), question(service, 3 * turn + place)]


async def test_a_branch_reuses_all_that_lies_before_it(client: Client, system: Message) -> None:
    service = client.service
    chat = [system, question(service, 0)]
    for turn in range(1, 6):
        await client.chat(chat)
        chat += [reply(service, turn), question(service, turn)]
    branch = [*chat[:5], question(service, 20)]  # another third question
    answer = await client.chat(branch)
    assert common(answer.prompt, service.render(chat[:6])) == answer.shared
    assert answer.reused >= ENOUGH
    again = await client.chat([*branch, reply(service, 21), question(service, 22)])
    assert again.reused >= ENOUGH


@pytest.mark.thin(2)
@pytest.mark.parametrize("thinking", [True, False])
async def test_a_template_with_thinking_reuses_what_history_keeps(
    client: Client, system: Message, thinking: bool
) -> None:
    service = client.service
    if "plain" in client.salt:
        pytest.skip("its template knows no thinking")
    chat = [system, question(service, 0)]
    for turn in range(1, 6):
        answer = await client.chat(chat, enable_thinking=thinking)
        assert service.tokenizer.decode(answer.prompt).endswith("<think>\n" if thinking else "</think>\n\n")
        if turn > 1:  # `<think>` ends the prompt before, and is not in the history
            assert answer.shared < len(client.answers[-2].prompt)
            assert answer.reused >= ENOUGH, turn
        chat += [reply(service, turn), question(service, turn)]


async def test_an_exact_repeat_computes_nothing_but_the_last_token(client: Client, system: Message) -> None:
    chat = [system, question(client.service, 0)]
    await client.chat(chat)
    for _ in range(2):
        before = prefilled(client.service)
        answer = await client.chat(chat)
        assert answer.cached == len(answer.prompt) - 1
        assert prefilled(client.service) - before == len(answer.prompt) - 1  # for the answer without a cache


@pytest.mark.slow
async def test_a_prompt_that_is_the_beginning_of_a_known_one_reuses_its_turns(client: Client, system: Message) -> None:
    service = client.service
    turns_of_100 = (make(service, place, 100) for place in range(4) for make in (question, reply))
    chat = [system, *turns_of_100, question(service, 9)]
    whole = await client.chat(chat)
    for turns in (3, 2, 1):
        answer = await client.chat(chat[: 2 * turns])
        assert answer.shared >= len(answer.prompt) - 6
        assert answer.reused >= ENOUGH, turns
    for length in (len(whole.prompt) - 1, len(whole.prompt) - 40, 100, 2, 1):  # anywhere, as completions may
        first = await client.generate(whole.prompt[:length])
        assert first.shared == length
        again = await client.generate(whole.prompt[:length])
        assert again.cached == (length - 1 if length > MIN_STORED else 0)  # less is not worth it


async def test_a_prompt_that_goes_on_where_a_known_one_ends_reuses_all_of_it(client: Client, system: Message) -> None:
    first = await client.chat([system, question(client.service, 0)])
    other = client.service.tokenizer.encode("7 riders")
    longer = await client.generate(first.prompt + other)
    assert longer.cached >= len(first.prompt) - 1


async def test_an_edited_turn_reuses_what_lies_before_the_edit(client: Client, system: Message) -> None:
    service = client.service
    chat = [system, question(service, 0), reply(service, 0), question(service, 1), reply(service, 1)]
    await client.chat([*chat, question(service, 2)])
    text = chat[3]["content"]
    half = text[: len(text) // 2]
    first = await client.chat([*chat[:3], says("user", half + " 42 then"), *chat[4:], question(service, 2)])
    turn = common(service.render(chat[:4]), service.render([*chat[:3], question(service, 30)]))
    assert ENOUGH * turn <= first.cached < first.shared
    again = await client.chat([*chat[:3], says("user", half + " in Lisbon"), *chat[4:], question(service, 2)])
    assert again.reused >= ENOUGH  # the first edit has left something where it began
    system_edited = await client.chat([says("system", "7" + system["content"]), *chat[1:4]])
    assert system_edited.cached == 0


# -- at the same time


async def test_choices_prefill_their_prompt_once(client: Client, system: Message) -> None:
    service = client.service
    sampling = Sampling(temperature=1, seed=5, max_tokens=12, ignore_eos=True)
    chat = [system, question(service, 0)]
    before = prefilled(service)
    request = ChatRequest(chat, sampling, n=4, cache_salt=client.salt)
    together = await service.chat(request)
    assert prefilled(service) - before == together.usage.prompt_tokens - 1
    assert together.usage.cached_tokens == 0  # the first choice's
    plain = await service.chat(ChatRequest(chat, sampling, n=4, cache=False))
    assert together.choices == plain.choices
    assert prefilled(service) - before == 5 * (together.usage.prompt_tokens - 1)


async def test_the_same_request_twice_in_flight_is_prefilled_once(client: Client, system: Message) -> None:
    service = client.service
    requests = [ChatRequest([system, question(service, 0)], ANSWER, cache_salt=client.salt)] * 2
    before = prefilled(service)
    one, other = await asyncio.gather(*map(service.chat, requests))
    assert prefilled(service) - before == one.usage.prompt_tokens - 1
    assert {one.usage.cached_tokens, other.usage.cached_tokens} == {0, one.usage.prompt_tokens - 1}
    assert one.choices == other.choices == await client.uncached(requests[0].messages)


async def test_requests_in_flight_compute_the_prefix_that_they_share_once(client: Client, system: Message) -> None:
    service = client.service
    chats = [[system, question(service, place)] for place in range(6)]
    before = prefilled(service)
    answers = await asyncio.gather(*(service.chat(ChatRequest(chat, ANSWER, cache_salt=client.salt)) for chat in chats))
    prompts = [service.render(chat) for chat in chats]
    shared = common(prompts[0], prompts[1])
    ideal = shared + sum(len(prompt) - 1 - shared for prompt in prompts)
    assert ideal <= prefilled(service) - before <= ideal + 6 * (1 - ENOUGH) * shared
    for chat, answer in zip(chats, answers, strict=True):
        assert answer.choices == await client.uncached(chat)


@pytest.mark.thin(4)
@pytest.mark.parametrize("way", ["abort", "leave"])
async def test_a_request_that_is_cancelled_does_not_hold_up_the_one_that_waits_for_it(client: Client, way: str) -> None:
    service = client.service
    chat = [says("system", words(service.tokenizer, 2500)), question(service, 0)]
    name = RequestId(f"first {client.salt}")
    first = asyncio.create_task(
        service.chat(ChatRequest(chat, ANSWER, request_id=name, cache_salt=client.salt)), name=name
    )
    await until(service, 1)
    second = asyncio.create_task(service.chat(ChatRequest(chat, ANSWER, cache_salt=client.salt)))
    await until(service, 2)
    if way == "abort":
        service.abort(name)
        assert (await first).choices[0].finish_reason == "abort"
    else:
        first.cancel()
    answer = await asyncio.wait_for(second, WAIT)
    assert answer.choices == await client.uncached(chat)
    await until_idle(service)


async def test_a_prompt_that_is_cancelled_half_way_is_continued_by_the_next_attempt(client: Client) -> None:
    service = client.service
    chat = [says("system", words(service.tokenizer, 2500)), question(service, 0)]
    name = RequestId(f"first {client.salt}")
    first = asyncio.create_task(
        service.chat(ChatRequest(chat, ANSWER, request_id=name, cache_salt=client.salt)), name=name
    )
    await until_async(lambda: any(each.prefilled_tokens >= 512 for each in service.stats().running_sequences))
    service.abort(name)
    await first
    again = await service.chat(ChatRequest(chat, ANSWER, cache_salt=client.salt))
    assert again.usage.cached_tokens >= 512
    assert again.choices == await client.uncached(chat)


async def test_a_request_that_is_cancelled_while_it_waits_leaves_the_other_alone(client: Client) -> None:
    service = client.service
    chat = [says("system", words(service.tokenizer, 1500)), question(service, 0)]
    first = asyncio.create_task(service.chat(ChatRequest(chat, ANSWER, cache_salt=client.salt)))
    await until(service, 1)
    second = asyncio.create_task(service.chat(ChatRequest(chat, ANSWER, cache_salt=client.salt)))
    await until(service, 2)
    second.cancel()
    assert (await first).choices == await client.uncached(chat)
    await until_idle(service)


# -- who shares


async def test_a_request_without_cache_neither_reads_nor_writes(client: Client, system: Message) -> None:
    service = client.service
    request = ChatRequest([system, question(service, 0)], ANSWER, cache=False, cache_salt=client.salt)
    before, entries = prefilled(service), service.stats().prefix_cache
    plain = await service.chat(request)
    assert prefilled(service) - before == plain.usage.prompt_tokens - 1
    after = service.stats().prefix_cache
    for name in ("queries", "hits", "stored", "entries", "memory_bytes"):
        assert getattr(after, name) == getattr(entries, name), name
    first = await client.chat(request.messages)
    assert first.cached == 0
    assert (await service.chat(request)).usage.cached_tokens == 0
    assert (await client.chat(request.messages)).cached == len(first.prompt) - 1


async def test_different_salts_never_share_and_equal_ones_do(service: Service, system: Message) -> None:
    chat = [system, question(service, 0)]
    tokens = len(service.render(chat))

    async def cached(**fields: Any) -> int:
        return (await service.chat(ChatRequest(chat, ANSWER, **fields))).usage.cached_tokens

    for fields in ({}, {"cache_salt": "alice"}, {"cache_salt": "bob"}, {"cache_salt": "alice "}):
        assert await cached(**fields) == 0, fields
        assert await cached(**fields) == tokens - 1, fields
    assert await cached(cache_salt="alice") == tokens - 1


async def test_different_salts_do_not_wait_for_each_other(service: Service, system: Message) -> None:
    chat = [system, question(service, 0)]
    before = prefilled(service)
    requests = [ChatRequest(chat, ANSWER, cache_salt=f"apart {place}") for place in range(3)]
    answers = await asyncio.gather(*map(service.chat, requests))
    assert [answer.usage.cached_tokens for answer in answers] == [0, 0, 0]
    assert prefilled(service) - before == 3 * (answers[0].usage.prompt_tokens - 1)


async def test_routes_with_and_without_drafting_give_the_same_answers(client: Client, system: Message) -> None:
    """With a head there are two kinds of entries: those that it has read, and others."""
    service = client.service
    chat = [system, question(service, 0)]
    client.sampling = Sampling(temperature=0, max_tokens=24, speculation="off")
    plain = await client.chat(chat)
    client.sampling = Sampling(temperature=0, max_tokens=24, speculation="auto")
    drafted = await client.chat(chat)
    assert plain.completion.choices == drafted.completion.choices
    assert drafted.cached == len(drafted.prompt) - 1


async def test_prompts_that_want_their_own_scores_are_computed_and_still_feed_the_cache(
    client: Client, system: Message
) -> None:
    service = client.service
    prompt = service.render([system, question(service, 0)])
    scored = Sampling(temperature=0, max_tokens=8, prompt_logprobs=0)
    first = await service.generate(GenerateRequest(prompt, scored, cache_salt=client.salt))
    plain = await service.generate(GenerateRequest(prompt, ANSWER, cache_salt=client.salt))
    assert plain.usage.cached_tokens == len(prompt) - 1
    again = await service.generate(GenerateRequest(prompt, scored, cache_salt=client.salt))
    assert again.usage.cached_tokens == 0
    assert again.prompt.logprobs == first.prompt.logprobs
    assert again.choices == first.choices


# -- the whole


async def test_the_numbers_agree_with_the_usages(client: Client, system: Message) -> None:
    service = client.service
    before, tokens = service.stats().prefix_cache, prefilled(service)
    chats = [[system, question(service, place % 3)] for place in range(6)]
    answers = [await service.chat(ChatRequest(chat, ANSWER, cache_salt=client.salt)) for chat in chats]
    after = service.stats().prefix_cache
    gained = {
        name: getattr(after, name) - getattr(before, name) for name in ("queries", "query_tokens", "hits", "hit_tokens")
    }
    usages = [answer.usage for answer in answers]
    assert gained == {
        "queries": 6,
        "query_tokens": sum(usage.prompt_tokens for usage in usages),
        "hits": sum(usage.cached_tokens > 0 for usage in usages),
        "hit_tokens": sum(usage.cached_tokens for usage in usages),
    }
    assert prefilled(service) - tokens == sum(usage.prompt_tokens - 1 - usage.cached_tokens for usage in usages)
    assert after.enabled and 0 < after.memory_bytes <= after.memory_limit_bytes
    assert len(after.largest) == min(10, after.entries)
    assert not any(entry.in_use for entry in after.largest)
    assert [answer.prompt.cached_tokens for answer in answers] == [usage.cached_tokens for usage in usages]


@pytest.mark.slow
async def test_clearing_while_requests_run_changes_no_answer(client: Client, system: Message) -> None:
    service = client.service
    chats = [[system, question(service, place)] for place in range(6)]
    expected = [await client.uncached(chat) for chat in chats]

    async def clear() -> None:
        for _ in range(20):
            await service.clear_cache()
            await asyncio.sleep(0.005)

    async def ask(chat: list[Message]) -> list[Completion]:
        return [await service.chat(ChatRequest(chat, ANSWER, cache_salt=client.salt)) for _ in range(2)]

    clearing = asyncio.create_task(clear())
    answers = await asyncio.gather(*map(ask, chats))
    await clearing
    for mine, choices in zip(answers, expected, strict=True):
        assert [answer.choices for answer in mine] == [choices] * 2
    await until_idle(service)
    await service.clear_cache()
    stats = service.stats().prefix_cache
    assert (stats.entries, stats.memory_bytes, stats.largest) == (0, 0, ())
    assert (await client.chat(chats[0])).cached == 0
    assert (await client.chat(chats[0])).cached > 0


async def test_to_clear_says_what_that_freed(client: Client, system: Message) -> None:
    await client.chat([system, question(client.service, 0)])
    stats = client.service.stats().prefix_cache
    freed = await client.service.clear_cache()
    assert freed == {"entries": stats.entries, "bytes": stats.memory_bytes, "disk_entries": 0, "disk_bytes": 0}
    assert await client.service.clear_cache() == dict.fromkeys(freed, 0)


def test_a_service_without_a_cache_computes_every_prompt(tiny: Tiny) -> None:
    async def ask_twice(service: Service) -> None:
        chat = [says("system", words(service.tokenizer, 250)), question(service, 0)]
        before = prefilled(service)
        one, other = [await service.chat(ChatRequest(chat, ANSWER)) for _ in range(2)]
        assert one.choices == other.choices
        assert one.usage.cached_tokens == other.usage.cached_tokens == 0
        assert prefilled(service) - before == 2 * (one.usage.prompt_tokens - 1)
        stats = service.stats().prefix_cache
        assert not stats.enabled and stats.queries == stats.entries == 0
        assert set(await service.clear_cache()) == {"entries", "bytes", "disk_entries", "disk_bytes"}

    with started(model=str(tiny("hybrid", **SMALLEST, mtp=False)), prefix_cache=False) as service:
        asyncio.run(ask_twice(service))


@pytest.mark.slow
def test_the_memory_bound_is_kept_and_answers_stay_right(tiny: Tiny) -> None:
    async def ask(service: Service) -> None:
        client = Client(service, "")
        for place in range(12):
            await client.chat([says("system", words(service.tokenizer, 300, seed=place)), question(service, place)])
            stats = service.stats().prefix_cache
            assert stats.memory_bytes <= stats.memory_limit_bytes == 500_000
        assert stats.evictions["memory"] > 0
        last = client.answers[-1]
        assert (await client.generate(last.prompt)).cached == len(last.prompt) - 1

    with started(model=str(tiny("hybrid", **SMALLEST, mtp=False)), cache_memory_gb=0.0005) as service:
        asyncio.run(ask(service))


async def test_a_stream_says_with_its_first_delta_what_was_cached(client: Client, system: Message) -> None:
    request = ChatRequest([system, question(client.service, 0)], ANSWER, cache_salt=client.salt)
    await client.service.chat(request)
    async with aclosing(client.service.stream_chat(request)) as stream:
        deltas = [delta async for delta in stream]
    assert deltas[0].prompt is not None and deltas[-1].usage is not None
    assert deltas[0].prompt.cached_tokens == deltas[-1].usage.cached_tokens == deltas[-1].usage.prompt_tokens - 1
