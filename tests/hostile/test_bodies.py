"""Bodies that cost more to take apart than to send: the largest that are allowed, of the smallest things."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import pytest

from tests.hostile.harness import GREEDY, WAIT, Attack, Server, at_once, cases, check_refusal, under_attack
from tests.hostile.test_prompts import MB, letters, said

CHAT = "/v1/chat/completions"
SIZE = 30 * MB  # under the 32 MiB that a server takes by default
SLOW_CLIENTS = 200


def repeated(field: str, item: str, size: int = SIZE, **fields: Any) -> Callable[[], bytes]:
    """A chat whose field is a list of as many of these items as the size holds."""

    def body() -> bytes:
        start = json.dumps({"messages": said("hi"), "max_tokens": 4, **fields})[:-1]
        items = f"{item}," * (size // (len(item.encode()) + 1))
        return f'{start}, "{field}": [{items}{item}]}}'.encode()  # of two keys that are equal, the last one counts

    return body


def string(escape: str, field: str = "messages", size: int = SIZE) -> Callable[[], bytes]:
    """A text that is written in escapes."""
    text = escape * (size // len(escape))
    return lambda: f'{{"{field}": [{{"role": "user", "content": "{text}"}}]}}'.encode()


def keys(field: str | None, size: int = SIZE) -> Callable[[], bytes]:
    """An object whose keys are all different: the body itself, or a field of it."""

    def body() -> bytes:
        inside = ",".join(f'"{key}":0' for key in range(size // 12))
        start = json.dumps({"messages": said("hi"), "max_tokens": 4})[:-1]
        return f'{start}, "{field}": {{{inside}}}}}'.encode() if field else f"{start}, {inside}}}".encode()

    return body


def nested(depth: int, times: int) -> Callable[[], bytes]:
    return repeated("messages", "[" * depth + "]" * depth, size=2 * depth * times)


def tools(count: int) -> bytes:
    parameters = {"type": "object", "properties": {"city": {"type": "string"}}}
    made = [
        {"type": "function", "function": {"name": f"tool_{place}", "parameters": parameters}} for place in range(count)
    ]
    return json.dumps({"messages": said("hi"), "max_tokens": 4, "tools": made}).encode()


def with_field(**fields: Any) -> Callable[[], bytes]:
    return lambda: json.dumps({"messages": said("hi"), "max_tokens": 4, **fields}).encode()


def prompt_of(**fields: Any) -> Callable[[], bytes]:
    return lambda: json.dumps({"max_tokens": 4, **fields}).encode()


ATTACKS: dict[str, Attack] = {
    # A list of tiny things, where messages should be, and where nothing is expected.
    "objects": Attack(CHAT, repeated("messages", "{}"), ("messages",), sharp=True),
    "arrays": Attack(CHAT, repeated("messages", "[]"), ("messages",)),
    "ints": Attack(CHAT, repeated("messages", "1"), ("messages",)),
    "nulls": Attack(CHAT, repeated("messages", "null"), ("messages",)),
    "texts": Attack(CHAT, repeated("messages", '""'), ("messages",)),
    "floats": Attack(CHAT, repeated("messages", "1e5"), ("messages",)),
    "unknown_field": Attack(CHAT, repeated("nobody_knows_this", "{}")),
    "small_messages": Attack(CHAT, repeated("messages", '{"role":"user","content":"a"}'), ("messages",), sharp=True),
    "small_parts": Attack(
        CHAT,
        lambda: (
            b'{"messages":[{"role":"user","content":['
            + b",".join([b'{"type":"text","text":"a"}'] * (SIZE // 27))
            + b"]}]}"
        ),
        ("messages",),
    ),
    # A wrong type a million times is one mistake.
    "wrong_stops": Attack(CHAT, repeated("stop", "1"), ("stop",), sharp=True),
    "stops": Attack(CHAT, repeated("stop", '"a"'), ("stop",)),
    "ten_thousand_stops": Attack(CHAT, with_field(stop=[f"stop {n}" for n in range(10_000)]), ("stop",)),
    "long_stop": Attack(CHAT, lambda: with_field(stop=letters(10 * MB))(), ("stop",)),
    "wrong_stop_tokens": Attack(CHAT, repeated("stop_token_ids", '""'), ("stop_token_ids",)),
    "wrong_tools": Attack(CHAT, repeated("tools", "1"), ("tools",)),
    "logit_bias": Attack(CHAT, with_field(logit_bias={str(n): 1 for n in range(100_000)}), ("logit_bias",)),
    "logit_bias_30_mb": Attack(CHAT, keys("logit_bias"), ("logit_bias",)),
    "template_options": Attack(CHAT, keys("chat_template_kwargs"), ("chat_template_kwargs", "messages")),
    "metadata": Attack(
        "/v1/responses", lambda: keys("metadata")().replace(b'"messages": ', b'"input": '), ("metadata", "input")
    ),
    "keys": Attack(CHAT, keys(None)),
    "same_key": Attack(CHAT, lambda: b'{"messages":' + b'[],"messages":' * (SIZE // 14) + b"[]}", ("messages",)),
    "many_tools": Attack(CHAT, lambda: tools(20_000), ("tools", "messages")),
    # Nesting.
    "deep": Attack(CHAT, lambda: b"[" * SIZE),
    "deep_objects": Attack(CHAT, lambda: b'{"a":' * (SIZE // 5)),
    "nested": Attack(CHAT, nested(400, SIZE // 800), ("messages",)),
    # Strings.
    "line_break_escapes": Attack(CHAT, string("\\n"), ("messages",)),
    "unicode_escapes": Attack(CHAT, string("\\u00e9"), ("messages",)),
    "surrogate_escapes": Attack(CHAT, string("\\ud83d\\ude42"), ("messages",), sharp=True),
    "lone_surrogate_at_the_end": Attack(CHAT, lambda: string("\\ud83d\\ude42")()[:-4] + b'\\ud83d"}]}'),
    "long_key": Attack(CHAT, lambda: b'{"' + b"k" * SIZE + b'": 1}', ("messages",)),
    "long_model": Attack(CHAT, lambda: with_field(model=letters(SIZE))(), ("model",)),
    "long_role": Attack(
        CHAT, lambda: json.dumps({"messages": [{"role": letters(SIZE), "content": "hi"}]}).encode(), ("messages",)
    ),
    "long_name": Attack(
        CHAT,
        lambda: json.dumps({"messages": [{"role": "user", "name": letters(SIZE), "content": "hi"}]}).encode(),
        ("messages",),
    ),
    "long_tool_result": Attack(
        CHAT,
        lambda: json.dumps(
            {
                "messages": [
                    *said("hi"),
                    {
                        "role": "assistant",
                        "tool_calls": [
                            {"id": "a", "type": "function", "function": {"name": "f", "arguments": letters(8 * MB)}}
                        ],
                    },
                    {"role": "tool", "tool_call_id": "a", "content": letters(8 * MB)},
                ]
            }
        ).encode(),
        ("messages",),
    ),
    "long_arguments": Attack(
        CHAT,
        lambda: json.dumps(
            {
                "messages": [
                    *said("hi"),
                    {
                        "role": "assistant",
                        "tool_calls": [
                            {
                                "id": "a",
                                "type": "function",
                                "function": {"name": "f", "arguments": json.dumps({"list": [[]] * (5 * MB)})},
                            }
                        ],
                    },
                    {"role": "tool", "tool_call_id": "a", "content": "ok"},
                ]
            }
        ).encode(),
        ("messages",),
    ),
    "long_number": Attack(CHAT, lambda: b'{"messages": [], "seed": ' + b"9" * SIZE + b"}", ("seed",)),
    "long_fraction": Attack(CHAT, lambda: b'{"messages": [], "temperature": 0.' + b"9" * SIZE + b"}", ("messages",)),
    # What is no JSON, found out late.
    "cut_off": Attack(CHAT, lambda: repeated("messages", "{}")()[:-2], allowed=(400,)),
    "cut_off_text": Attack(CHAT, lambda: b'{"messages": "' + b"a" * SIZE, allowed=(400,)),
    "no_utf_8": Attack(CHAT, lambda: b'{"messages": "' + b"a" * SIZE + b'\xff"}', allowed=(400,)),
    "only_spaces": Attack(CHAT, lambda: b" " * SIZE, allowed=(400,)),
    "too_large": Attack(CHAT, lambda: b" " * (40 * MB), allowed=(413,)),
    # Prompts by the million, and tokens.
    "prompts": Attack("/v1/completions", prompt_of(prompt=["a"] * (6 * MB)), ("prompt",)),
    "empty_prompts": Attack("/v1/completions", prompt_of(prompt=[""] * (7 * MB)), ("prompt",)),
    "prompts_of_tokens": Attack("/v1/completions", prompt_of(prompt=[[1]] * (5 * MB)), ("prompt",)),
    "tokens": Attack("/v1/completions", prompt_of(prompt=[1] * (10 * MB)), ("prompt",)),
    "texts_to_embed": Attack("/v1/embeddings", prompt_of(input=["a"] * (6 * MB)), ("input",)),
    "tokens_to_embed": Attack("/v1/embeddings", prompt_of(input=[1] * (10 * MB)), ("input",)),
    "texts_to_score": Attack("/v1/score", prompt_of(text_1="a", text_2=["a"] * (6 * MB)), ("text_2",)),
    "items": Attack("/v1/responses", prompt_of(input=[{}] * (7 * MB)), ("input",)),
    "small_items": Attack("/v1/responses", prompt_of(input=said("a") * 700_000), ("input",)),
    "anthropics_messages": Attack("/v1/messages", prompt_of(messages=said("a") * 700_000), ("messages",)),
    "detokenize": Attack("/detokenize", prompt_of(tokens=[5] * (2 * MB)), ("tokens",)),
    "detokenize_10_million": Attack("/detokenize", prompt_of(tokens=[5] * (10 * MB)), ("tokens",)),
    "detokenize_texts": Attack("/detokenize", prompt_of(tokens=[""] * (7 * MB)), ("tokens",)),
    "detokenize_unknown": Attack("/detokenize", prompt_of(tokens=[-1] * (7 * MB)), ("tokens",)),
    "tokenize_with_texts": Attack(
        "/tokenize", lambda: json.dumps({"prompt": letters(MB), "return_token_strs": True}).encode(), ("prompt",)
    ),
    # Many at once.
    "twenty_of_10_mb": Attack(CHAT, string("a", size=10 * MB), ("messages",), clients=20),
    "eight_of_objects": Attack(CHAT, repeated("messages", "{}"), ("messages",), clients=8),
    "eight_of_30_mb": Attack(CHAT, string("a", size=SIZE), ("messages",), clients=8),
}


@pytest.mark.thin(2)
@pytest.mark.parametrize("attack", cases(ATTACKS))
def test_a_body_of_many_small_things_holds_up_nobody(server: Server, attack: Attack) -> None:
    attack.run(server)


@pytest.mark.slow
def test_clients_that_send_a_large_body_slowly_hold_up_nobody_and_are_cut_off(server: Server) -> None:
    body = string("a", size=10 * MB)()
    head = f"POST {CHAT} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    with ExitStack() as stack:
        with under_attack(server):
            clients = [
                stack.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=WAIT))
                for _ in range(SLOW_CLIENTS)
            ]
            for client in clients:
                client.sendall(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body[:100_000])
            for sent in range(10):
                time.sleep(0.2)
                for client in clients:
                    client.sendall(body[100_000 + sent : 100_001 + sent])
        answers = [client.makefile("rb").read() for client in clients]
    # As many as there is memory for are waited for, and the others are told to come again.
    assert {answer[:12] for answer in answers} <= {b"HTTP/1.1 408", b"HTTP/1.1 503"}, answers[0][:500]
    assert any(answer.startswith(b"HTTP/1.1 408 ") for answer in answers)


@pytest.mark.slow
def test_clients_that_send_half_of_a_body_and_go_leave_nothing(server: Server) -> None:
    body = string("a", size=10 * MB)()
    head = f"POST {CHAT} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(body)}\r\n\r\n"
    with under_attack(server):
        for _ in range(50):
            with socket.create_connection(("127.0.0.1", server.port), timeout=WAIT) as client:
                client.sendall(head.encode() + body[: len(body) // 2])


def test_of_two_keys_that_are_equal_one_counts_or_both_are_refused(server: Server) -> None:
    twice = json.dumps(dict(GREEDY))[:-1] + ', "max_tokens": 1}'
    answer = server.request("POST", CHAT, twice.encode())
    if answer.status == 200:
        assert answer.json()["usage"]["completion_tokens"] == 1
    else:
        check_refusal(CHAT, answer, ("max_tokens",))


@pytest.mark.slow
def test_many_kinds_of_large_bodies_at_once_hold_up_nobody(server: Server) -> None:
    names = ("objects", "small_messages", "surrogate_escapes", "prompts", "wrong_stops", "cut_off")
    requests = [(ATTACKS[name].path, ATTACKS[name].body()) for name in names]
    with under_attack(server):
        answers = at_once(server, requests)
    for (path, _), answer in zip(requests, answers, strict=True):
        check_refusal(path, answer, ())
