"""/v1/score, on a service without a model; `test_embeddings.py` has it with one."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.server.harness import refused


def score(http: httpx.Client, **fields: Any) -> httpx.Response:
    return http.post("/v1/score", json=fields)


def test_one_text_is_compared_with_each_and_as_many_in_pairs(http: httpx.Client) -> None:
    one = score(http, text_1="abc", text_2=["abc", "other"]).json()
    assert [entry["index"] for entry in one["data"]] == [0, 1]
    assert one["data"][0]["score"] == pytest.approx(1)
    pairs = score(http, text_1=["abc", "other"], text_2=["abc", "other"]).json()
    assert [entry["score"] for entry in pairs["data"]] == pytest.approx([1, 1])
    assert one["usage"]["total_tokens"] == one["usage"]["prompt_tokens"] > 0


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"text_1": [], "text_2": "a"}, "text_1"),
        ({"text_1": "a", "text_2": []}, "text_2"),
        ({"text_1": ["a", "b"], "text_2": ["a", "b", "c"]}, "text_1"),
        ({"text_1": "a"}, "text_2"),
        ({"text_1": "a", "text_2": "b", "stream": True}, "stream"),
    ],
)
def test_what_cannot_be_compared_is_refused_by_name(http: httpx.Client, fields: dict[str, Any], param: str) -> None:
    refused(score(http, **fields), 400, param)
