from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from paceline.bench.probe import find_model, probe
from paceline.bench.prompts import Lengths, Workload
from paceline.bench.wire import Address, BenchError
from tests.waiting import WAIT

if TYPE_CHECKING:
    from tests.bench.conftest import Reply, Serve

WORKLOAD = Workload("fake", prompt_tokens=Lengths(105, 105))


async def test_the_first_listed_model_is_taken_and_others_are_mentioned(fake: Serve) -> None:
    one, several = fake(), fake(models=["a", "b"])
    assert await find_model(Address.parse(one.url), timeout=WAIT) == ("fake", ())
    name, notes = await find_model(Address.parse(several.url), timeout=WAIT)
    assert name == "a"
    assert "2 models" in notes[0]


async def test_a_server_that_lists_no_model_is_asked_for_one_by_name(fake: Serve) -> None:
    with pytest.raises(BenchError, match="--model"):
        await find_model(Address.parse(fake(models=[]).url), timeout=WAIT)


@pytest.mark.parametrize("tokenizes", [True, False])
@pytest.mark.parametrize("endpoint", ["chat", "completions"])
async def test_prompts_have_the_length_asked_for(fake: Serve, tokenizes: bool, endpoint: str) -> None:
    server = fake(tokenizes=tokenizes)
    wanted = Workload("fake", endpoint=endpoint, prompt_tokens=Lengths(105, 105))  # type: ignore[arg-type]
    workload = (await probe(Address.parse(server.url), wanted, timeout=WAIT)).workload
    assert workload.calibration.source == ("/tokenize" if tokenizes else "usage")
    assert workload.calibration.tokens_per_word == pytest.approx(2)
    assert workload.calibration.overhead == pytest.approx(5 if endpoint == "chat" else 0)
    assert [body["max_tokens"] for body in server.bodies] == [1] * (1 if tokenizes else 2)


@pytest.mark.parametrize("refused", [{"ignore_eos"}, {"stream_options"}, {"ignore_eos", "stream_options"}])
async def test_optional_fields_that_a_server_refuses_are_not_sent(fake: Serve, refused: set[str]) -> None:
    async def script(reply: Reply) -> None:
        if refused & set(reply.body):
            await reply.answer(400, {"error": {"message": "unknown field"}})
        else:
            await reply.stream()

    probed = await probe(Address.parse(fake(script).url), WORKLOAD, timeout=WAIT)
    assert probed.workload.ignore_eos is ("ignore_eos" not in refused)
    assert probed.workload.include_usage is ("stream_options" not in refused)
    assert sum("refuses" in note for note in probed.notes) == len(refused)


async def test_without_any_count_the_length_is_a_guess_and_a_note_says_so(fake: Serve) -> None:
    async def script(reply: Reply) -> None:
        reply.body["stream_options"] = {}
        await reply.stream()

    probed = await probe(Address.parse(fake(script).url), WORKLOAD, timeout=WAIT)
    assert probed.workload.calibration.source == "a guess"
    assert "guess" in probed.notes[0]


async def test_a_server_that_fails_the_first_request_is_quoted(fake: Serve) -> None:
    async def script(reply: Reply) -> None:
        await reply.answer(503, {"error": {"message": "still loading"}})

    with pytest.raises(BenchError, match="http 503: still loading"):
        await probe(Address.parse(fake(script).url), WORKLOAD, timeout=WAIT)
