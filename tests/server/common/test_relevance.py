from __future__ import annotations

import math
from collections.abc import AsyncGenerator

import httpx
import pytest

from paceline.requests import GenerateRequest
from paceline.server.common.relevance import AFTER, BEFORE, yes_share
from paceline.settings import Settings
from paceline.types import Delta, PromptInfo, TokenLogprob, Usage
from tests.server.fake_service import ByteTokenizer, FakeService
from tests.server.harness import serve

YES, NO = 300, 301


class Words(ByteTokenizer):
    """With tokens for yes and no."""

    vocab_size = 302

    def encode(self, text: str, add_special_tokens: bool = True) -> list[int]:
        return {"yes": [YES], "no": [NO]}.get(text) or super().encode(text, add_special_tokens)


class Reranker(FakeService):
    """Says yes to documents with many letters x."""

    def __init__(self) -> None:
        super().__init__(Settings(model="owner/Qwen3-Reranker-tiny"))
        self.tokenizer = Words()
        self.prompts: list[str] = []

    async def stream_generate(self, request: GenerateRequest) -> AsyncGenerator[Delta, None]:
        assert request.sampling.logprob_token_ids == (YES, NO) and request.sampling.max_tokens == 1
        text = self.tokenizer.decode([int(token) for token in request.prompt])
        self.prompts.append(text)
        share = (text.count("x") + 1) / 10
        top = ((5, -0.1), (YES, math.log(share)), (NO, math.log(1 - share)))
        yield Delta(
            token_ids=(5,),
            logprobs=(TokenLogprob(5, -0.1, top),),
            finish_reason="length",
            usage=Usage(len(request.prompt), 1),
            prompt=PromptInfo(tuple(int(token) for token in request.prompt)),
        )


def test_a_reranker_judges_with_the_prompt_that_it_was_trained_with() -> None:
    service = Reranker()
    with serve(service, service.settings) as address, httpx.Client(base_url=address, timeout=120) as http:
        body = {"query": "q", "documents": ["x", "xxxxx", ""], "instruction": "Find it"}
        results = http.post("/v1/rerank", json=body).json()["results"]
        assert [(result["index"], round(result["relevance_score"], 3)) for result in results] == [
            (1, 0.6),
            (0, 0.2),
            (2, 0.1),
        ]
        [first] = [prompt for prompt in service.prompts if "<Document>: xxxxx" in prompt]
        assert first == f"{BEFORE}<Instruct>: Find it\n<Query>: q\n<Document>: xxxxx{AFTER}"
        scores = http.post("/v1/score", json={"text_1": "q", "text_2": ["xx", "x"]}).json()["data"]
        assert [round(score["score"], 3) for score in scores] == [0.3, 0.2]


@pytest.mark.parametrize(
    ("yes", "no", "share"), [(-1.0, -1.0, 0.5), (0.0, -math.inf, 1.0), (-math.inf, 0.0, 0.0), (-1.0, -2.0, 0.7310586)]
)
def test_the_share_of_yes_is_a_probability(yes: float, no: float, share: float) -> None:
    delta = Delta(logprobs=(TokenLogprob(1, 0.0, ((YES, yes), (NO, no))),))
    assert yes_share(delta, (YES, NO)) == pytest.approx(share)
