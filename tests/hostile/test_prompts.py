"""Prompts far longer than any context, in every alphabet, to every endpoint that makes tokens of text."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from tests.hostile.harness import Attack, Server, cases

MB = 10**6


def letters(size: int) -> str:
    return "".join(random.Random(1).choices("abcdefghijklmnopqrstuvwxyz", k=size))


def unicode(size: int) -> str:
    """Every character of the first plane but controls and surrogates, three bytes each on average."""
    known = [chr(code) for code in (*range(0x20, 0xD800), *range(0xE000, 0xFFFE))]
    return "".join(random.Random(2).choices(known, k=size // 3))


TEXTS: dict[str, Callable[[int], str]] = {
    "spaces": lambda size: " " * size,
    "one_letter": lambda size: "a" * size,
    "letters_without_a_space": letters,
    "words": lambda size: "the line opens " * (size // 15),
    "unicode": unicode,
    "emoji": lambda size: "🙂" * (size // 4),
    "digits": lambda size: "".join(random.Random(3).choices("0123456789", k=size)),
    "line_breaks": lambda size: "\n" * size,
}

# How each endpoint is given a text, and the field that a refusal names; Anthropic's API has words of its own.
ENDPOINTS: dict[str, tuple[str, str, Callable[[str], dict[str, Any]]]] = {
    "chat": ("/v1/chat/completions", "messages", lambda text: {"messages": said(text), "max_tokens": 4}),
    "completions": ("/v1/completions", "prompt", lambda text: {"prompt": text, "max_tokens": 4}),
    "messages": ("/v1/messages", "prompt is too long", lambda text: {"messages": said(text), "max_tokens": 4}),
    "count_tokens": ("/v1/messages/count_tokens", "prompt is too long", lambda text: {"messages": said(text)}),
    "responses": ("/v1/responses", "input", lambda text: {"input": text, "max_output_tokens": 16}),
    "embeddings": ("/v1/embeddings", "input", lambda text: {"input": text}),
    "score": ("/v1/score", "text_", lambda text: {"text_1": text, "text_2": text[: len(text) // 4]}),
    "tokenize": ("/tokenize", "prompt", lambda text: {"prompt": text}),
}
SHARP = ("chat_10_mb_letters_without_a_space", "tokenize_20_mb_unicode")


def said(text: str) -> list[dict[str, Any]]:
    return [{"role": "user", "content": text}]


def body_of(endpoint: str, text: str, megabytes: int) -> bytes:
    return json.dumps(ENDPOINTS[endpoint][2](TEXTS[text](megabytes * MB)), ensure_ascii=False).encode()


def attacks() -> dict[str, Attack]:
    found = {}
    for endpoint, (path, field, _) in ENDPOINTS.items():
        for text in TEXTS:
            for megabytes in (10, 20) if endpoint in ("chat", "tokenize") else (10,):
                name = f"{endpoint}_{megabytes}_mb_{text}"
                body = partial(body_of, endpoint, text, megabytes)
                found[name] = Attack(path, body, (field,), sharp=name in SHARP)
    return found


ATTACKS = attacks()


@pytest.mark.thin(2)
@pytest.mark.parametrize("attack", cases(ATTACKS))
def test_a_prompt_far_too_long_holds_up_nobody(server: Server, attack: Attack) -> None:
    attack.run(server)
