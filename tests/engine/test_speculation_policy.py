"""How a request decodes is decided in one place, and the reason reaches every caller."""

from __future__ import annotations

import asyncio
import base64
import io
import subprocess
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image as Pictures

from paceline.engine.speculation_policy import SpeculationMode, SpeculationPolicy
from paceline.errors import InvalidRequest
from paceline.requests import ChatRequest, GenerateRequest
from paceline.service import Service
from paceline.settings import Settings
from paceline.types import Delta, Media, Prompt, Sampling, Speculation, SpeculationMethod

Tiny = Callable[..., Path]
PICTURE = Media("picture", 1, 9, (9,), cost=4)
TEXT, PICTURED = Prompt((1, 2, 3)), Prompt((1, 2, 3), (PICTURE,))
KINDS = {"text only": TEXT, "images, which the head reads too": PICTURED}
SETTINGS: list[Speculation] = ["off", "auto", 3]


def asks(speculation: Speculation | None = None, **rules: Any) -> Sampling:
    return Sampling(speculation=speculation, **rules)


# -- decisions


def test_routing_needs_no_mlx() -> None:
    code = (
        "import sys, paceline.engine.speculation_policy; sys.exit(any(n.split('.')[0] == 'mlx' for n in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("kind", KINDS)
def test_text_and_images_draft_as_deep_as_it_pays_and_say_what_they_are(kind: str) -> None:
    assert SpeculationPolicy("auto").mode(KINDS[kind], asks()) == SpeculationMode(
        None, f"drafts as deep as it pays: {kind}"
    )


@pytest.mark.parametrize("kind", KINDS)
def test_a_fixed_draft_length_says_who_fixed_it(kind: str) -> None:
    prompt = KINDS[kind]
    assert SpeculationPolicy(3).mode(prompt, asks()) == SpeculationMode(
        3, f"drafts 3 a step, as the server says: {kind}"
    )
    assert SpeculationPolicy("auto").mode(prompt, asks(5)) == SpeculationMode(
        5, f"drafts 5 a step, as the request says: {kind}"
    )


@pytest.mark.parametrize("prompt", KINDS.values(), ids=["text", "pictures"])
def test_off_says_who_said_so(prompt: Prompt) -> None:
    assert SpeculationPolicy("off").mode(prompt, asks()) == SpeculationMode(0, "plain: the server says so")
    assert SpeculationPolicy("auto").mode(prompt, asks("off")) == SpeculationMode(0, "plain: the request says so")


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("asked", SETTINGS)
def test_what_the_request_says_is_stronger_than_what_the_server_is_set_to(
    setting: Speculation, asked: Speculation
) -> None:
    route = SpeculationPolicy(setting).mode(TEXT, asks(asked))
    assert route.draft_length == {"off": 0, "auto": None, 3: 3}[asked]
    assert "server" not in route.reason


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("asked", [None, *SETTINGS])
def test_a_model_without_a_head_never_drafts_and_says_why(setting: Speculation, asked: Speculation | None) -> None:
    router = SpeculationPolicy(setting, "the checkpoint has no MTP head")
    assert router.mode(TEXT, asks(asked)) == SpeculationMode(0, "plain: the checkpoint has no MTP head")


@pytest.mark.parametrize("setting", ["auto", 3])
def test_a_request_that_generates_nothing_does_not_draft(setting: Speculation) -> None:
    route = SpeculationPolicy(setting).mode(TEXT, asks(max_tokens=0, prompt_logprobs=0))
    assert route == SpeculationMode(0, "plain: nothing is generated")


def test_without_a_head_the_other_methods_draft_and_a_method_that_is_missing_says_why() -> None:
    router = SpeculationPolicy("auto", "no head", ("mtp", "lookup", "draft_model"), {"draft_model": "no model"})
    assert router.available == ("lookup",) and router.cannot_draft is None
    assert router.mode(TEXT, asks()) == SpeculationMode(
        None, "drafts as deep as it pays, by lookup: text only", ("lookup",)
    )
    assert router.mode(TEXT, asks()).head_length == 0
    assert router.missing == {
        "mtp": "no head",
        "draft_model": "no model",
        "grammar": "the server's speculation_methods leave it out",
    }
    assert (
        SpeculationPolicy("auto", None, ("lookup",)).why_not("mtp") == "the server's speculation_methods leave it out"
    )
    assert SpeculationPolicy("auto", "no head", ("mtp",)).cannot_draft == "no head"


def test_a_model_that_no_method_drafts_for_says_why_prompt_lookup_does_not() -> None:
    reasons: dict[SpeculationMethod, str] = {"draft_model": "no model", "lookup": "no way back"}
    router = SpeculationPolicy("auto", "no head", ("mtp", "lookup", "draft_model"), reasons)
    assert router.cannot_draft == "no way back"
    assert SpeculationPolicy("auto", "no head", ("draft_model",), reasons).cannot_draft == "no model"


def test_a_request_chooses_among_the_methods_of_the_server() -> None:
    router = SpeculationPolicy("auto", None, ("mtp", "lookup"))
    assert router.mode(TEXT, asks()).methods == ("mtp", "lookup")
    for method in ("mtp", "lookup"):
        assert router.mode(TEXT, asks(3, speculation_method=method)).methods == (method,)
    assert router.mode(TEXT, asks(3, speculation_method="lookup")).head_length == 0
    assert router.mode(TEXT, asks(3, speculation_method="mtp")).head_length == 3
    assert not router.mode(TEXT, asks(speculation_method="grammar")).drafts


def test_a_route_drafts_unless_its_draft_length_is_zero() -> None:
    assert SpeculationMode(None, "").drafts and SpeculationMode(2, "").drafts
    assert not SpeculationMode(0, "").drafts


# -- through the four calls


@pytest.fixture(scope="module", params=[*SETTINGS, "no head"], ids=str)
def served(request: pytest.FixtureRequest, tiny: Tiny) -> Iterator[tuple[Service, SpeculationPolicy]]:
    """A service, and the router that it should have."""
    if request.param == "no head":
        setting: Speculation = "auto"
        router = SpeculationPolicy(setting, "the checkpoint has no MTP head")
        folder = tiny("hybrid", layers=4, mtp=False)
    else:
        setting, router = request.param, SpeculationPolicy(request.param)
        folder = tiny("hybrid", layers=4)
    settings = Settings(
        model=str(folder),
        speculation=setting,
        speculation_methods=("mtp",),
        max_num_seqs=4,
        context_length=900,
        prefill_chunk=64,
    )
    service = Service(settings)
    asyncio.run(service.start())
    yield service, router
    asyncio.run(service.stop())


async def reasons(stream: AsyncGenerator[Delta, None]) -> list[str]:
    """Of each choice's first delta, in the order of the choices; no other delta has one."""
    first: dict[int, str] = {}
    async for delta in stream:
        assert (delta.prompt is not None) == (delta.index not in first)
        if delta.prompt is not None:
            first[delta.index] = delta.prompt.route
    return [first[index] for index in sorted(first)]


MESSAGES = [{"role": "user", "content": "Tell me about riders."}]


async def refused(*calls: Awaitable[object]) -> None:
    """A number of guesses is asked of a model that cannot guess."""
    for call in calls:
        with pytest.raises(InvalidRequest, match="cannot draft") as error:
            await call
        assert error.value.field == "speculation"


@pytest.mark.thin(9)
@pytest.mark.parametrize("asked", [None, *SETTINGS], ids=str)
async def test_the_reason_is_the_same_through_all_four_calls(
    served: tuple[Service, SpeculationPolicy], asked: Speculation | None
) -> None:
    service, router = served
    sampling = asks(asked, temperature=0, max_tokens=5)
    chat = ChatRequest(MESSAGES, sampling)
    text = GenerateRequest(service.render(MESSAGES), sampling)
    if router.no_head is not None and isinstance(asked, int):
        await refused(service.chat(chat), service.generate(text))
        return
    expected = router.mode(TEXT, sampling).reason
    assert (await service.chat(chat)).prompt.route == expected
    assert (await service.generate(text)).prompt.route == expected
    assert await reasons(service.stream_chat(chat)) == [expected]
    assert await reasons(service.stream_generate(text)) == [expected]


@pytest.mark.thin(2)
async def test_every_choice_has_the_reason(served: tuple[Service, SpeculationPolicy]) -> None:
    service, router = served
    sampling = asks(temperature=1, seed=3, max_tokens=4)
    request = ChatRequest(MESSAGES, sampling, n=3)
    expected = router.mode(TEXT, sampling).reason
    assert await reasons(service.stream_chat(request)) == [expected] * 3
    assert (await service.chat(request)).prompt.route == expected


@pytest.mark.thin(11)
@pytest.mark.parametrize("asked", [None, *SETTINGS], ids=str)
async def test_for_images_chat_and_stream_chat_have_the_same_reason(
    served: tuple[Service, SpeculationPolicy], asked: Speculation | None
) -> None:
    service, router = served
    file = io.BytesIO()
    Pictures.new("RGB", (40, 40), (200, 30, 90)).save(file, "PNG")
    url = f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"
    parts = [{"type": "image_url", "image_url": {"url": url}}, {"type": "text", "text": "What is this?"}]
    sampling = asks(asked, temperature=0, max_tokens=5)
    request = ChatRequest([{"role": "user", "content": parts}], sampling)
    if router.no_head is not None and isinstance(asked, int):
        await refused(service.chat(request))
        return
    expected = router.mode(PICTURED, sampling).reason
    completion = await service.chat(request)
    assert completion.choices[0].finish_reason in ("length", "stop")
    assert completion.prompt.route == expected
    assert await reasons(service.stream_chat(request)) == [expected]


@pytest.mark.thin(2)
async def test_the_text_is_the_same_however_it_was_asked_for(served: tuple[Service, SpeculationPolicy]) -> None:
    service, router = served
    choices: list[Speculation | None] = [None, *SETTINGS]
    if router.no_head is not None:
        choices = [asked for asked in choices if not isinstance(asked, int)]
    texts = {
        (await service.generate(GenerateRequest("riders", asks(asked, temperature=0, max_tokens=20))))
        .choices[0]
        .token_ids
        for asked in choices
    }
    assert len(texts) == 1


@pytest.mark.thin(2)
async def test_what_was_drafted_shows_in_the_usage(served: tuple[Service, SpeculationPolicy]) -> None:
    service, router = served
    if router.no_head is None:
        usage = (await service.generate(GenerateRequest("riders on", asks(3, temperature=0, max_tokens=20)))).usage
        assert usage.accepted_tokens + usage.rejected_tokens > 0
    usage = (await service.generate(GenerateRequest("riders on", asks("off", temperature=0, max_tokens=20)))).usage
    assert usage.accepted_tokens + usage.rejected_tokens == 0
