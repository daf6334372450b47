"""The facade over a real engine: four calls, one path."""

from __future__ import annotations

import asyncio
import base64
import io
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest
from PIL import Image

from paceline.errors import EngineUnavailable, InvalidRequest, LoadError, PromptTooLong
from paceline.requests import ChatRequest, Choice, Completion, GenerateRequest
from paceline.service import Service
from paceline.settings import Settings
from paceline.stats import Stats
from paceline.types import Delta, RequestId, Sampling
from tests.memory import held
from tests.reference import greedy_text
from tests.waiting import WAIT, until_async

CONTEXT = 600
MESSAGES = [{"role": "user", "content": "Tell me about riders, é 🙂."}]
GREEDY = Sampling(temperature=0, max_tokens=12)
SAMPLINGS = {
    "greedy": GREEDY,
    "seeded": Sampling(temperature=1.5, seed=3, max_tokens=20),
    "stopped": Sampling(temperature=1.2, seed=4, max_tokens=40, stop=("e", "a t", "�"), min_tokens=3),
    "penalised": Sampling(temperature=0, max_tokens=16, repetition_penalty=1.4, frequency_penalty=0.7, logprobs=2),
    "raw": Sampling(temperature=2, seed=5, max_tokens=24, ignore_eos=True, skip_special_tokens=False),
}


@pytest.fixture(scope="module")
def service(llama: Path) -> Iterator[Service]:
    """Started on one event loop, used on each test's own."""
    service = Service(Settings(model=str(llama), max_num_seqs=4, context_length=CONTEXT, prefill_chunk=64))
    asyncio.run(service.start())
    yield service
    asyncio.run(service.stop())


async def until_running(service: Service, rows: int) -> None:
    """Rows enter and leave at the engine's next step, of which nobody tells the caller."""

    def reached() -> bool:
        stats = service.stats()
        return stats.num_requests_running == rows and (rows > 0 or not stats.num_requests_waiting)

    await until_async(reached)


async def until_idle(service: Service) -> None:
    await until_running(service, 0)


async def read(stream: AsyncIterator[Delta]) -> list[Delta]:
    deltas = [delta async for delta in stream]
    for delta in deltas:
        delta.text.encode()  # raises where it is no valid UTF-8
    return deltas


def summed(deltas: list[Delta], index: int = 0) -> Choice:
    mine = [delta for delta in deltas if delta.index == index]
    assert [delta.finish_reason for delta in mine[:-1]] == [None] * (len(mine) - 1)
    assert mine[-1].finish_reason is not None
    return Choice(
        index,
        "".join(delta.text for delta in mine),
        tuple(token for delta in mine for token in delta.token_ids),
        tuple(score for delta in mine for score in delta.logprobs),
        mine[-1].finish_reason,
        mine[-1].stop_reason,
    )


def endless(**fields: Any) -> GenerateRequest:
    """As long as the context goes."""
    return GenerateRequest("on and on", Sampling(temperature=0, ignore_eos=True), **fields)


# -- the four calls


@pytest.mark.thin(2)
@pytest.mark.parametrize("name", SAMPLINGS)
async def test_the_four_calls_give_the_same_tokens_for_the_same_request(service: Service, name: str) -> None:
    messages = [{"role": "user", "content": "Who opens the line, and who closes it? " * 8}]  # worth caching
    request = ChatRequest(messages, SAMPLINGS[name])
    chat = await service.chat(request)
    streamed = await read(service.stream_chat(request))
    same = GenerateRequest(service.render(messages), SAMPLINGS[name])
    generated = await service.generate(same)
    stream_generated = await read(service.stream_generate(same))
    assert chat.choices == generated.choices == (summed(streamed),) == (summed(stream_generated),)
    usages = [chat.usage, generated.usage, streamed[-1].usage, stream_generated[-1].usage]
    # From the second call on, the prompt is cached, and prompt lookup knows the answer.
    told = [replace(usage, cached_tokens=0, accepted_tokens=0, rejected_tokens=0) for usage in usages if usage]
    assert len(told) == 4 and len(set(told)) == 1
    assert usages[-1] is not None and usages[-1].cached_tokens == usages[-1].prompt_tokens - 1
    prompts = [chat.prompt, generated.prompt, streamed[0].prompt, stream_generated[0].prompt]
    assert len({replace(prompt, cached_tokens=0, tail="", queued=0.0) for prompt in prompts if prompt is not None}) == 1
    assert chat.choices[0].text.encode() == "".join(delta.text for delta in streamed).encode()


async def test_greedy_text_is_mlx_lms(service: Service, llama: Path) -> None:
    completion = await service.chat(ChatRequest(MESSAGES, GREEDY))
    assert list(completion.choices[0].token_ids) == greedy_text(llama, service.render(MESSAGES), 12)


async def test_text_and_its_tokens_are_the_same_prompt(service: Service) -> None:
    ids = service.tokenizer.encode("the line opens")
    assert (await service.generate(GenerateRequest("the line opens", GREEDY))).choices == (
        await service.generate(GenerateRequest(ids, GREEDY))
    ).choices


async def test_usage_counts_every_token(service: Service) -> None:
    completion = await service.chat(ChatRequest(MESSAGES, GREEDY))
    assert completion.usage.prompt_tokens == len(service.render(MESSAGES)) == len(completion.prompt.token_ids)
    assert completion.usage.completion_tokens == len(completion.choices[0].token_ids) == 12
    assert completion.choices[0].finish_reason == "length"


async def test_options_of_the_template_change_the_prompt(service: Service) -> None:
    plain = await service.chat(ChatRequest(MESSAGES, GREEDY))
    brief = await service.chat(ChatRequest(MESSAGES, GREEDY, template_options={"enable_thinking": False}))
    assert brief.usage.prompt_tokens > plain.usage.prompt_tokens
    assert list(brief.prompt.token_ids) == service.render(MESSAGES, enable_thinking=False)


async def test_a_stop_string_ends_the_text_and_is_not_in_it(service: Service) -> None:
    free = (await service.chat(ChatRequest(MESSAGES, GREEDY))).choices[0]
    stop = free.text[4:7]
    stopped = (await service.chat(ChatRequest(MESSAGES, replace(GREEDY, stop=(stop,))))).choices[0]
    assert (stopped.finish_reason, stopped.stop_reason) == ("stop", stop)
    assert stopped.text == free.text[: free.text.index(stop)]
    assert stopped.token_ids == free.token_ids[: len(stopped.token_ids)]


async def test_a_stop_token_ends_the_text_and_is_told(service: Service) -> None:
    free = (await service.chat(ChatRequest(MESSAGES, GREEDY))).choices[0]
    token = free.token_ids[5]
    stopped = (await service.chat(ChatRequest(MESSAGES, replace(GREEDY, stop_token_ids=(token,))))).choices[0]
    assert (stopped.finish_reason, stopped.stop_reason) == ("stop", token)
    first = free.token_ids.index(token)
    assert stopped.token_ids == free.token_ids[: first + 1]
    assert free.text.startswith(stopped.text)


# -- choices


async def test_choices_are_numbered_differ_and_are_the_same_every_time(service: Service) -> None:
    request = ChatRequest(MESSAGES, Sampling(temperature=3, seed=8, max_tokens=10, ignore_eos=True), n=3)
    completion = await service.chat(request)
    assert [choice.index for choice in completion.choices] == [0, 1, 2]
    assert len({choice.token_ids for choice in completion.choices}) == 3
    assert (await service.chat(request)).choices == completion.choices
    assert completion.usage.completion_tokens == 30
    assert completion.usage.prompt_tokens == len(service.render(MESSAGES))
    streamed = await read(service.stream_chat(request))
    assert tuple(summed(streamed, index) for index in range(3)) == completion.choices
    alone = await service.chat(ChatRequest(MESSAGES, request.sampling))
    assert alone.choices[0] == completion.choices[0]


async def test_more_choices_than_sequences_wait_their_turn(service: Service) -> None:
    request = GenerateRequest("go", Sampling(temperature=0, max_tokens=5, ignore_eos=True), n=9)
    completion = await service.generate(request)
    assert len({choice.token_ids for choice in completion.choices}) == 1
    assert len(completion.choices) == 9


# -- company


async def test_requests_together_answer_as_alone(service: Service) -> None:
    requests = [
        GenerateRequest([7 + i, *range(20 + 17 * i)], sampling) for i, sampling in enumerate([*SAMPLINGS.values()] * 2)
    ]
    alone = [await service.generate(request) for request in requests]
    together = await asyncio.gather(*(service.generate(request) for request in requests))
    assert [c.choices for c in together] == [c.choices for c in alone]


async def test_one_callers_bad_request_is_nobody_elses_trouble(service: Service) -> None:
    good = GenerateRequest("the line", GREEDY)
    expected = await service.generate(good)
    bad = GenerateRequest("x", Sampling(temperature=-1))
    results = await asyncio.gather(
        service.generate(good), service.generate(bad), service.generate(good), return_exceptions=True
    )
    assert isinstance(results[1], InvalidRequest)
    for result in (results[0], results[2]):
        assert isinstance(result, Completion) and result.choices == expected.choices


# -- ending early


async def test_an_aborted_stream_ends_and_frees_its_sequence(service: Service) -> None:
    name = RequestId("mine")
    deltas = []
    async for delta in service.stream_generate(endless(request_id=name)):
        deltas.append(delta)
        if len(deltas) == 3:
            assert service.stats().num_requests_running == 1
            service.abort(name)
    choice = summed(deltas)
    assert choice.finish_reason == "abort"
    assert 3 <= len(choice.token_ids) < CONTEXT - 50
    assert deltas[-1].usage is not None and deltas[-1].usage.completion_tokens >= len(choice.token_ids)
    await until_idle(service)


async def test_to_abort_ends_all_choices_of_a_request_and_of_no_other(service: Service) -> None:
    name = RequestId("mine")
    other = asyncio.create_task(service.generate(GenerateRequest("the line", GREEDY)))
    stream = service.stream_generate(endless(request_id=name, n=2))
    deltas = [await anext(stream)]
    service.abort(name)
    deltas += await read(stream)
    assert {summed(deltas, index).finish_reason for index in range(2)} == {"abort"}
    assert (await other).choices[0].finish_reason == "length"


async def test_an_unknown_request_may_be_aborted(service: Service) -> None:
    service.abort(RequestId("nobody"))
    assert (await service.generate(GenerateRequest("x", GREEDY))).choices[0].finish_reason == "length"


async def test_a_stream_that_is_closed_frees_its_sequences(service: Service) -> None:
    async with aclosing(service.stream_generate(endless(n=3))) as stream:
        await anext(stream)
        await until_running(service, 3)
    await until_idle(service)


async def test_a_caller_that_is_cancelled_frees_its_sequence_even_while_it_waits(service: Service) -> None:
    tasks = [asyncio.create_task(service.generate(endless())) for _ in range(6)]  # of which four fit
    await until_running(service, 4)
    for task in reversed(tasks):
        task.cancel()
    assert all(isinstance(r, asyncio.CancelledError) for r in await asyncio.gather(*tasks, return_exceptions=True))
    await until_idle(service)


async def test_a_stream_that_was_never_read_costs_nothing(service: Service) -> None:
    stream = service.stream_generate(endless())
    await stream.aclose()
    assert service.stats().num_requests_running == 0


# -- what is refused


async def test_a_prompt_longer_than_the_context_is_refused_with_both_numbers(service: Service) -> None:
    for length in (CONTEXT, CONTEXT + 1, 5000):
        with pytest.raises(PromptTooLong, match=f"{CONTEXT}.*{length}") as caught:
            await service.generate(GenerateRequest([5] * length, GREEDY))
        assert (caught.value.prompt_tokens, caught.value.context_length) == (length, CONTEXT)
        assert caught.value.field == "prompt"
    with pytest.raises(PromptTooLong) as caught:
        await service.chat(ChatRequest([{"role": "user", "content": "long " * CONTEXT}], GREEDY))
    assert caught.value.field == "messages"


async def test_an_answer_ends_where_the_context_ends(service: Service) -> None:
    whole = await service.generate(replace(endless(), prompt=[5] * (CONTEXT - 20)))
    assert whole.choices[0].finish_reason == "length"
    assert whole.usage.prompt_tokens + whole.usage.completion_tokens == CONTEXT
    last = await service.generate(GenerateRequest([5] * (CONTEXT - 1), replace(GREEDY, ignore_eos=True)))
    assert last.usage.completion_tokens == 1


@pytest.mark.parametrize(
    "request_, field",
    [
        (GenerateRequest("", GREEDY), "prompt"),
        (GenerateRequest([], GREEDY), "prompt"),
        (GenerateRequest([5, 10**9], GREEDY), "prompt"),
        (GenerateRequest([5, -1], GREEDY), "prompt"),
        (GenerateRequest("x", GREEDY, n=0), "n"),
        (GenerateRequest("x", GREEDY, n=1000), "n"),
        (GenerateRequest("x", Sampling(max_tokens=10**12)), "max_tokens"),
        (GenerateRequest("x", Sampling(top_p=float("nan"))), "top_p"),
        (GenerateRequest("x", Sampling(stop=("a",) * 10_000)), "stop"),
        (GenerateRequest("x", Sampling(specprefill=True)), "specprefill"),  # there is no draft
        (ChatRequest(MESSAGES, Sampling(specprefill_keep=0.5)), "specprefill_keep_pct"),
        (ChatRequest(MESSAGES, Sampling(specprefill=False, specprefill_keep=0.5)), "specprefill_keep_pct"),
        (ChatRequest([], GREEDY), "messages"),
        (ChatRequest([{"role": "robot", "content": "x"}], GREEDY), "messages[0].role"),
    ],
    ids=str,
)
async def test_a_bad_request_is_refused_by_both_kinds_of_calls_before_anything_runs(
    service: Service, request_: ChatRequest | GenerateRequest, field: str
) -> None:
    for streams in (False, True):
        with pytest.raises(InvalidRequest) as caught:
            if isinstance(request_, ChatRequest):
                await (read(service.stream_chat(request_)) if streams else service.chat(request_))
            else:
                await (read(service.stream_generate(request_)) if streams else service.generate(request_))
        assert caught.value.field == field
    assert service.stats().num_requests_running == 0


async def test_rules_at_the_edge_of_their_range_harm_nobody(service: Service) -> None:
    """A row whose sampler cannot be made must not take the engine down with it."""
    odd = [
        Sampling(top_k=10**30, max_tokens=3),
        Sampling(temperature=1e-40, max_tokens=3),
        Sampling(top_p=1e-45, min_p=1.0, max_tokens=3),
        Sampling(seed=-(10**40), max_tokens=3),
        Sampling(min_tokens=10**12, temperature=2),
        Sampling(logit_bias=dict.fromkeys(range(512), -100.0), max_tokens=3),
    ]
    prompt = [5] * (CONTEXT - 10)
    await asyncio.gather(*(service.generate(GenerateRequest(prompt, sampling)) for sampling in odd))
    assert service.failure is None
    assert service.ready


async def test_a_prompt_can_be_scored_without_an_answer(service: Service) -> None:
    request = GenerateRequest([5, 6, 7, 8], Sampling(max_tokens=0, prompt_logprobs=1))
    completion = await service.generate(request)
    scores = completion.prompt.logprobs
    assert scores is not None and scores[0] is None
    assert [score.token_id for score in scores[1:] if score is not None] == [6, 7, 8]
    assert completion.choices[0].token_ids == ()
    assert (await service.generate(replace(request, prompt=[5]))).prompt.logprobs == (None,)


# -- event loops


def test_two_event_loops_may_use_one_service_one_after_the_other(service: Service) -> None:
    request = GenerateRequest("the line", GREEDY)
    first = asyncio.run(service.generate(request))
    second = asyncio.run(service.generate(request))
    assert first.choices == second.choices


def test_two_event_loops_may_use_one_service_at_the_same_time(service: Service) -> None:
    results: list[Completion] = []

    def caller() -> None:
        results.append(asyncio.run(service.generate(GenerateRequest("the line", GREEDY))))

    threads = [threading.Thread(target=caller) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT)
    assert len(results) == 3
    assert results[0].choices == results[1].choices == results[2].choices


@pytest.mark.slow
async def test_calls_that_are_cancelled_while_chats_run_harm_no_chat(service: Service) -> None:
    streams = [service.stream_generate(endless(request_id=RequestId(f"chat {place}"))) for place in range(3)]
    reading = [asyncio.create_task(read(stream)) for stream in streams]
    await until_running(service, 3)
    for _ in range(20):
        call = asyncio.create_task(service.clear_cache())
        await asyncio.sleep(0)  # it has begun: its word is in the engine's inbox
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
    async with asyncio.timeout(WAIT):
        assert [summed(deltas).finish_reason for deltas in await asyncio.gather(*reading)] == ["length"] * 3
        assert set(await service.clear_cache()) == {"entries", "bytes", "disk_entries", "disk_bytes"}
    assert service.failure is None


def test_a_loop_that_ends_in_the_middle_of_a_stream_takes_its_sequence_with_it(service: Service) -> None:
    async def leave() -> None:
        stream = service.stream_generate(endless())
        await anext(stream)

    asyncio.run(leave())
    asyncio.run(until_idle(service))
    assert service.ready


# -- life


@pytest.mark.slow
@pytest.mark.own_process
def test_start_stop_start_and_the_memory_is_back(hybrid: Path) -> None:
    """Language model, vision tower, draft head, caches: nothing of them stays."""
    service = Service(Settings(model=str(hybrid), prefill_chunk=64))
    answers = []
    before = held()
    for _ in range(2):
        asyncio.run(service.start())
        assert mx.get_active_memory() > before + 4_000_000
        answers.append(asyncio.run(service.chat(ChatRequest(MESSAGES, GREEDY))).choices)
        asyncio.run(service.stop())
        assert mx.get_active_memory() < before + 1_000_000
        assert mx.get_cache_memory() < 1_000_000
    assert answers[0] == answers[1]


async def test_to_stop_aborts_what_runs_and_to_start_again_serves(llama: Path) -> None:
    service = Service(Settings(model=str(llama), prefill_chunk=64))
    await service.start()
    stream = service.stream_generate(endless())
    deltas = [await anext(stream)]
    await service.stop()
    deltas += await read(stream)
    assert summed(deltas).finish_reason == "abort"
    await service.stop()  # twice is once
    assert service.stats() == Stats(state="stopped")
    assert not service.ready
    with pytest.raises(EngineUnavailable):
        await service.generate(GenerateRequest("x", GREEDY))
    await service.start()
    await service.start()
    assert service.ready
    assert (await service.generate(GenerateRequest("x", GREEDY))).choices[0].finish_reason == "length"
    await service.stop()


async def test_a_service_says_that_it_is_loading(llama: Path) -> None:
    service = Service(Settings(model=str(llama)))
    starting = asyncio.create_task(service.start())
    states = set()
    while not starting.done():
        states.add(service.stats().state)
        await asyncio.sleep(0)
    await starting
    assert "loading" in states and service.stats().state == "ready"
    await service.stop()


async def test_a_model_that_cannot_be_loaded_leaves_a_service_that_can_be_asked_why(tmp_path: Path) -> None:
    service = Service(Settings(model=str(tmp_path / "nothing")))
    with pytest.raises(LoadError):
        await service.start()
    assert not service.ready
    assert service.stats().state == "stopped"
    await service.stop()


# -- as in the documentation


async def test_a_python_program_uses_the_service_like_this(hybrid: Path) -> None:
    file = io.BytesIO()
    Image.new("RGB", (40, 40), "red").save(file, "PNG")
    picture = f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"
    question = [
        {
            "role": "user",
            "content": [
                {"type": "image_url", "image_url": {"url": picture}},
                {"type": "text", "text": "What is this?"},
            ],
        }
    ]
    async with Service(Settings(model=str(hybrid), prefill_chunk=64)) as service:
        assert service.takes_images
        answer = await service.chat(ChatRequest(question, GREEDY))
        text = ""
        async for delta in service.stream_chat(ChatRequest(question, GREEDY)):
            text += delta.text
        assert text == answer.choices[0].text
    assert not service.ready
