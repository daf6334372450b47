"""/v1/rerank: by embeddings, whose numbers the fake service makes of a text's length."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.server.harness import refused

TEXTS = ["a" * 200, "aaaa", "a" * 30]


def rerank(http: httpx.Client, path: str = "/v1/rerank", **fields: Any) -> httpx.Response:
    return http.post(path, json={"query": "aaaa", "documents": TEXTS, **fields})


@pytest.mark.parametrize("path", ["/v1/rerank", "/rerank", "/v2/rerank"])
def test_documents_come_in_the_order_of_their_relevance(http: httpx.Client, path: str) -> None:
    answer = rerank(http, path).json()
    assert [result["index"] for result in answer["results"]] == [1, 2, 0]
    assert answer["results"][0]["relevance_score"] == pytest.approx(1, abs=1e-5)
    assert answer["usage"]["prompt_tokens"] > 0 and answer["model"] == "fake/model"
    assert "document" not in answer["results"][0]


def test_only_the_first_are_returned_with_their_texts_if_that_is_asked_for(http: httpx.Client) -> None:
    documents = [{"text": text} for text in TEXTS]
    results = rerank(http, documents=documents, top_n=2, return_documents=True).json()["results"]
    assert [result["document"]["text"] for result in results] == [TEXTS[1], TEXTS[2]]


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"documents": []}, "documents"),
        ({"documents": ["a"] * 3000}, "documents"),
        ({"documents": [3]}, "documents[0]"),
        ({"documents": [{"title": "x"}]}, "documents[0]"),
        ({"documents": "a"}, "documents"),
        ({"query": 3}, "query"),
        ({"top_n": 0}, "top_n"),
        ({"rank_fields": ["x"]}, "rank_fields"),
    ],
)
def test_what_is_wrong_is_refused_by_name(http: httpx.Client, fields: dict[str, Any], param: str) -> None:
    refused(rerank(http, **fields), 400, param)
