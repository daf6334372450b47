"""What OpenAI's own types allow in messages, parts and items that this server takes is not unknown."""

from __future__ import annotations

from typing import Any

import pytest
from openai.types import chat, responses
from openai.types.responses import response_input_item_param as items

from paceline.server.openai import message_options


@pytest.mark.parametrize(
    "message",
    [
        chat.ChatCompletionDeveloperMessageParam,
        chat.ChatCompletionSystemMessageParam,
        chat.ChatCompletionUserMessageParam,
        chat.ChatCompletionAssistantMessageParam,
        chat.ChatCompletionToolMessageParam,
        chat.ChatCompletionFunctionMessageParam,
        chat.ChatCompletionMessage,
    ],
)
def test_messages(message: Any) -> None:
    assert set(message.__annotations__) <= message_options.MESSAGE


@pytest.mark.parametrize(
    ("kind", "part"),
    [
        ("text", chat.ChatCompletionContentPartTextParam),
        ("refusal", chat.ChatCompletionContentPartRefusalParam),
        ("image_url", chat.ChatCompletionContentPartImageParam),
        ("input_audio", chat.ChatCompletionContentPartInputAudioParam),
        ("input_text", responses.ResponseInputTextParam),
        ("input_image", responses.ResponseInputImageParam),
        ("output_text", responses.ResponseOutputTextParam),
    ],
)
def test_parts(kind: str, part: Any) -> None:
    assert set(part.__annotations__) <= message_options.PARTS[kind]
    assert message_options.parts_of("messages.content")[f"messages.content {kind}"] == message_options.PARTS[kind]


@pytest.mark.parametrize(
    "item",
    [
        responses.EasyInputMessageParam,
        responses.ResponseOutputMessageParam,
        responses.ResponseFunctionToolCallParam,
        responses.ResponseCustomToolCallParam,
        responses.ResponseReasoningItemParam,
        items.FunctionCallOutput,
        items.ItemReference,
    ],
)
def test_items(item: Any) -> None:
    assert set(item.__annotations__) <= message_options.ITEM


def test_tools() -> None:
    assert set(chat.ChatCompletionFunctionToolParam.__annotations__) <= message_options.TOOL
