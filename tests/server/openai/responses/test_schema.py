"""Fields of /v1/responses that are refused by name."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.server.harness import refused
from tests.server.openai.responses.harness import WEATHER, respond


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"background": True, "store": False}, "background"),
        ({"background": "yes"}, "background"),
        ({"conversation": 1}, "conversation"),
        ({"prompt": {"id": "x"}}, "prompt"),
        ({"service_tier": "flex"}, "service_tier"),
        ({"n": 2}, "n"),
        ({"max_tokens": 5}, "max_tokens"),
        ({"response_format": {"type": "json_object"}}, "response_format"),
        ({"max_output_tokens": 0}, "max_output_tokens"),
        ({"max_output_tokens": 10**9}, "max_output_tokens"),
        ({"temperature": -1}, "temperature"),
        ({"temperature": "warm"}, "temperature"),
        ({"top_logprobs": 21}, "top_logprobs"),
        ({"include": ["everything"]}, "include[0]"),
        ({"truncation": "maybe"}, "truncation"),
        ({"metadata": {"a": 1}}, "metadata.a"),
        ({"reasoning": {"effort": "heroic"}}, "reasoning.effort"),
        ({"reasoning": {"summary": "long"}}, "reasoning.summary"),
        ({"reasoning": {"mode": "pro"}}, "reasoning.mode"),
        ({"text": {"verbosity": "high"}}, "text.verbosity"),
        ({"text": {"format": {"type": "xml"}}}, "text.format"),
        ({"text": {"format": {"type": "json_schema", "name": "x"}}}, "text.format"),
        ({"chat_template_kwargs": {"chat_template": "x"}}, "chat_template_kwargs"),
        ({"stream": True, "stream_options": {"include_obfuscation": True}}, "stream_options.include_obfuscation"),
        ({"text": {"format": {"type": "json_object"}}, "guided_regex": "a"}, "guided_regex"),
    ],
)
def test_what_cannot_be_honoured_is_refused_by_name(http: httpx.Client, fields: dict[str, Any], param: str) -> None:
    refused(respond(http, **fields), 400, param, param.split("[")[0].split(".")[0])


@pytest.mark.parametrize("depth", [130, 400, 850])
def test_what_is_nested_too_deeply_is_refused(http: httpx.Client, depth: int) -> None:
    deep: Any = {}
    for _ in range(depth):
        deep = {"a": deep}
    refused(respond(http, tools=[{**WEATHER, "parameters": deep}]), 400, "tools", "deeply")
    refused(
        respond(http, [{"role": "user", "content": [{"type": "input_text", "text": deep}]}]),
        400,
        "input[0].content[0].text",
    )
    refused(respond(http, [{"role": "user", "content": [{"type": "smell", "text": deep}]}]), 400, "input[0].content[0]")
    assert respond(http, unknown=deep).status_code == 200
