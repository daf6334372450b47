"""Adapters behind the facade and over HTTP, on a real engine: as mlx-lm answers with each alone."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import httpx
import numpy as np
import pytest

from paceline.errors import InvalidRequest, LoadError, UnknownLora
from paceline.requests import EmbedRequest, GenerateRequest
from paceline.service import Service
from paceline.settings import Settings
from paceline.types import Sampling
from tests.integration.test_exactness import prompt
from tests.loras import ATTENTION, make, reference, write_mlx_lm, write_peft
from tests.reference import greedy_text
from tests.server.harness import serve
from tests.waiting import until_async

GREEDY = Sampling(temperature=0, max_tokens=10, ignore_eos=True)
TEXT = prompt(24)


@pytest.fixture(scope="module")
def folders(hybrid: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    home = tmp_path_factory.mktemp("adapters")
    wide = write_mlx_lm(home / "wide", make(hybrid, rank=6, seed=1))
    return wide, write_peft(home / "narrow", make(hybrid, ATTENTION, rank=2, seed=2))


@pytest.fixture(scope="module")
def service(hybrid: Path, folders: tuple[Path, Path]) -> Iterator[Service]:
    lora = (f"wide={folders[0]}",)
    service = Service(Settings(model=str(hybrid), lora=lora, max_num_seqs=8, context_length=600))
    asyncio.run(service.start())
    yield service
    asyncio.run(service.stop())


def ask(service: Service, lora: str | None, **fields: object) -> GenerateRequest:
    return GenerateRequest(**{"prompt": TEXT, "sampling": GREEDY, "lora": lora, **fields})  # type: ignore[arg-type]


async def test_requests_choose_and_share_a_batch(service: Service, hybrid: Path, folders: tuple[Path, Path]) -> None:
    names = ["wide", None, "wide", None]
    answers = await asyncio.gather(*(service.generate(ask(service, name)) for name in names))
    want = {"wide": greedy_text(reference(hybrid, folders[0]), TEXT, 10), None: greedy_text(hybrid, TEXT, 10)}
    for name, answer in zip(names, answers, strict=True):
        assert list(answer.choices[0].token_ids) == want[name]
    assert want["wide"] != want[None]


async def test_choices_and_seeds_are_as_without_company(service: Service) -> None:
    seeded = Sampling(temperature=1.0, seed=5, max_tokens=8, ignore_eos=True)
    request = ask(service, "wide", sampling=seeded, n=2, cache=False)
    alone = await service.generate(request)
    crowd = await asyncio.gather(service.generate(request), *(service.generate(ask(service, None)) for _ in range(3)))
    assert [choice.token_ids for choice in crowd[0].choices] == [choice.token_ids for choice in alone.choices]
    assert alone.choices[0].token_ids != alone.choices[1].token_ids


async def test_a_salt_does_not_reach_the_prefixes_of_an_adapter(service: Service) -> None:
    long = prompt(400)
    await service.generate(ask(service, "wide", prompt=long))
    again = await service.generate(ask(service, "wide", prompt=long))
    assert again.usage.cached_tokens > 0
    runtime = service._runtime
    assert runtime is not None
    [lora] = runtime.loras.loaded
    forged = await service.generate(ask(service, None, prompt=long, cache_salt=f"lora/{lora.digest}/"))
    salted = await service.generate(ask(service, "wide", prompt=long, cache_salt="tenant"))
    assert (forged.usage.cached_tokens, salted.usage.cached_tokens) == (0, 0)
    assert salted.choices[0].token_ids == again.choices[0].token_ids


async def test_embeddings_are_the_adapters(service: Service) -> None:
    base = (await service.embed(EmbedRequest(TEXT))).vector
    adapted = (await service.embed(EmbedRequest(TEXT, lora="wide"))).vector
    assert np.abs(base - adapted).max() > 1e-3


async def test_an_adapter_comes_and_goes_at_run_time(
    service: Service, hybrid: Path, folders: tuple[Path, Path], tmp_path: Path
) -> None:
    weights = service.stats().memory_budget
    assert weights is not None
    before = weights.parts["weights"]
    with pytest.raises(UnknownLora):
        await service.generate(ask(service, "narrow"))
    lora = await service.load_lora("narrow", folders[1])
    assert (lora.rank, service.loras) == (2, ("wide", "narrow"))
    alone = write_mlx_lm(tmp_path / "narrow", make(hybrid, ATTENTION, rank=2, seed=2))
    streams = [service.generate(ask(service, name)) for name in ("narrow", "wide", None)]
    answers = await asyncio.gather(*streams)
    assert list(answers[0].choices[0].token_ids) == greedy_text(reference(hybrid, alone), TEXT, 10)
    assert list(answers[1].choices[0].token_ids) == greedy_text(reference(hybrid, folders[0]), TEXT, 10)
    stream = service.stream_generate(ask(service, "narrow", cache=False))
    first = await anext(stream)
    await service.unload_lora("narrow")
    assert service.loras == ("wide",)
    rest = [delta async for delta in stream]
    tokens = [token for delta in (first, *rest) for token in delta.token_ids]
    assert tokens == greedy_text(reference(hybrid, alone), TEXT, 10)
    await until_async(lambda: lora.slot == 0)
    after = service.stats().memory_budget
    assert after is not None and after.parts["weights"] == before


async def test_a_bad_adapter_at_run_time_is_the_requests_fault(service: Service, tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match=str(tmp_path)):
        await service.load_lora("odd", tmp_path)
    assert service.loras == ("wide",)


async def test_a_bad_adapter_at_start_is_refused_before_the_server_is_ready(llama: Path, tmp_path: Path) -> None:
    service = Service(Settings(model=str(llama), lora=(f"odd={tmp_path}",)))
    with pytest.raises(LoadError, match=r"The adapter 'odd' cannot be used\. .* has no adapter_config\.json"):
        await service.start()
    other = write_mlx_lm(tmp_path, make(llama, rank=2))
    tensor = "model.layers.9.self_attn.q_proj.lora_a"
    made = make(llama, rank=2)
    made.factors["model.layers.9.self_attn.q_proj"] = made.factors["model.layers.0.self_attn.q_proj"]
    write_mlx_lm(other, made)
    with pytest.raises(LoadError, match=rf"adapters\.safetensors: the tensor {tensor} is for layers\.9"):
        await Service(Settings(model=str(llama), lora=(f"odd={tmp_path}",))).start()


def test_over_http(service: Service, hybrid: Path, folders: tuple[Path, Path]) -> None:
    with serve(service, service.settings) as address, httpx.Client(base_url=address, timeout=120) as http:
        body = {"prompt": list(TEXT), "max_tokens": 10, "temperature": 0, "ignore_eos": True, "return_token_ids": True}
        found = {}
        for name in (str(hybrid), "wide"):
            answer = http.post("/v1/completions", json={"model": name, **body}).json()
            assert answer["model"] == name
            found[name] = answer["choices"][0]["token_ids"]
        assert found["wide"] == greedy_text(reference(hybrid, folders[0]), TEXT, 10)
        assert found[str(hybrid)] == greedy_text(hybrid, TEXT, 10)
        load = {"lora_name": "late", "lora_path": str(folders[1])}
        assert http.post("/v1/load_lora_adapter", json=load).status_code == 200
        assert http.post("/v1/completions", json={"model": "late", **body}).json()["model"] == "late"
        assert http.post("/v1/unload_lora_adapter", json={"lora_name": "late"}).status_code == 200
        assert http.post("/v1/completions", json={"model": "late", **body}).status_code == 404
