"""What Anthropic's own types allow in messages and blocks that this server takes is not unknown."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from anthropic import types
from anthropic.types import beta

from paceline.server.anthropic import message_options

TAKEN = {
    "text": (types.TextBlockParam, types.TextBlock, beta.BetaTextBlockParam),
    "image": (types.ImageBlockParam, beta.BetaImageBlockParam),
    "document": (types.DocumentBlockParam, beta.BetaRequestDocumentBlockParam),
    "search_result": (types.SearchResultBlockParam, beta.BetaSearchResultBlockParam),
    "thinking": (types.ThinkingBlockParam, types.ThinkingBlock),
    "redacted_thinking": (types.RedactedThinkingBlockParam, types.RedactedThinkingBlock),
    "tool_use": (types.ToolUseBlockParam, types.ToolUseBlock, beta.BetaToolUseBlockParam),
    "tool_result": (types.ToolResultBlockParam, beta.BetaToolResultBlockParam),
    "tool_reference": (types.ToolReferenceBlockParam, beta.BetaToolReferenceBlockParam),
}


def test_messages() -> None:
    for message in get_args(types.MessageParam) or (types.MessageParam,):  # one type, or one for each role
        assert set(message.__annotations__) <= message_options.MESSAGE


@pytest.mark.parametrize("kind", message_options.BLOCKS)
def test_blocks(kind: str) -> None:
    for block in TAKEN[kind]:
        assert set(block.__annotations__) <= message_options.BLOCKS[kind]


@pytest.mark.parametrize(
    "source",
    [
        types.Base64ImageSourceParam,
        types.URLImageSourceParam,
        types.PlainTextSourceParam,
        types.ContentBlockSourceParam,
    ],
)
def test_sources(source: Any) -> None:
    assert set(source.__annotations__) <= message_options.SOURCE
