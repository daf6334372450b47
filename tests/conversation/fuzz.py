"""Random conversations over every fixture template: `python -m tests.conversation.fuzz 100000`.

What is well-formed, however oddly ordered, is rendered with all its words, those of each role in their order. What
is not is refused, and nothing but refused.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from paceline.conversation.messages import check_calls, checked, checked_tools
from paceline.conversation.normalize import normalized
from paceline.conversation.template import Templates
from paceline.errors import InvalidRequest

FOLDER = Path(__file__).parent / "templates"
NAMES = tuple(sorted(file.stem for file in FOLDER.glob("*.jinja")))
SPECIAL = {"bos_token": "<s>", "eos_token": "</s>"}
ROLES = ("system", "developer", "user", "user", "assistant", "assistant", "tool", "function", "calls", "calls")
AROUND = (
    "",
    "",
    " ",
    "\n",
    "\n\n",
    '"',
    "'",
    "{{ x }}",
    "{% raw %}",
    "é🙂",
    "\\",
    "</s>",
    "None",
    "null",
    "\t",
    "[]",
    "{",
)
JUNK: tuple[Any, ...] = (
    None, 5, -1.5, True, "", "x", [], {}, [None], [{}], {"type": "text"}, [{"type": "text", "text": 3}], "<think>",
    "a</think><think>b", "\ud800", [{"type": "image_url", "image_url": {"url": "data:,x"}}], {"a": {"b": []}}, "[1",
    [{"function": {"name": "f", "arguments": "{"}}], [{"function": {"name": "f"}, "id": 5}], 10**30, [[[]]], "\x00",
)  # fmt: skip


@cache
def templates(name: str) -> Templates:
    return Templates.of((FOLDER / f"{name}.jinja").read_text(), SPECIAL)


def render(name: str, messages: Any, tools: Any = None, **options: Any) -> str:
    """As a prompt is built, up to its text."""
    conversation, images = checked(messages, takes_images=name in ("qwen35", "gemma3"))
    check_calls(messages)
    tools = checked_tools(tools)
    conversation, _ = normalized(conversation, images, names=templates(name).writes_names)
    return templates(name).render(conversation, tools, **options)


class Writer:
    """Messages whose every text holds a word of its own, by which it is found again."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.words: dict[str, list[str]] = {"system": [], "user": [], "assistant": [], "tool": [], "tools": []}
        self._count = 0

    def conversation(self) -> tuple[list[dict[str, Any]], list[dict[str, Any]] | None]:
        messages = [self._message(self.random.choice(ROLES)) for _ in range(self.random.randint(1, 8))]
        if not any(self.words.values()):  # only empty system messages
            messages.append(self._message("user"))
        tools = [self._tool() for _ in range(self.random.randint(1, 2))] if self.random.random() < 0.4 else None
        return messages, tools

    def word(self, role: str) -> str:
        self._count += 1
        word = f"w{self._count}z"
        self.words[role].append(word)
        return word

    def _message(self, kind: str) -> dict[str, Any]:
        random = self.random
        if kind == "calls":
            content = self._content("assistant") if random.random() < 0.4 else random.choice([None, ""])
            if random.random() < 0.1:
                return {"role": "assistant", "content": content, "function_call": self._call()["function"]}
            calls = [self._call() for _ in range(random.randint(1, 2))]
            return {"role": "assistant", "content": content, "tool_calls": calls}
        role = {"developer": "system", "function": "tool"}.get(kind, kind)
        if role == "system" and random.random() < 0.2:
            return {"role": kind, "content": random.choice(["", " ", "\n", []])}
        message = {"role": kind, "content": self._content(role)}
        if random.random() < 0.2:
            message["name"] = random.choice(["ann", "bob", None])
        if kind == "tool" and random.random() < 0.8:
            message["tool_call_id"] = random.choice(["call_1", "call_2", "abcdefgh9", "toolu_01"])
        if kind == "assistant" and random.random() < 0.2:
            message["tool_calls"] = random.choice([None, []])
        return message

    def _content(self, role: str) -> Any:
        if self.random.random() < 0.7:
            return self._text(role)
        return [{"type": "text", "text": self._text(role)} for _ in range(self.random.randint(1, 3))]

    def _text(self, role: str) -> str:
        return self.random.choice(AROUND) + self.word(role) + self.random.choice(AROUND)

    def _call(self) -> dict[str, Any]:
        id = self.random.choice(["call_1", "call_2", "abcdefgh9"])
        return {
            "id": id,
            "type": "function",
            "function": {"name": self.word("assistant"), "arguments": self._arguments()},
        }

    def _arguments(self) -> Any:
        kind = self.random.randrange(10)
        if kind == 0:
            return self.random.choice(["", "{}", {}, None, "[1, 2]"])
        if kind == 1:
            return self.word("assistant")  # no JSON
        value = self.word("assistant")
        arguments: dict[str, Any] = (
            {value: self.random.choice([5, None, [1], {"x": {}}])} if kind < 4 else {"city": value}
        )
        return json.dumps(arguments) if kind < 8 else arguments

    def _tool(self) -> dict[str, Any]:
        schema = {"type": "object", "properties": {"x": {"type": "string"}}}
        return {"type": "function", "function": {"name": self.word("tools"), "description": "d", "parameters": schema}}


def lost(text: str, words: Mapping[str, Sequence[str]]) -> list[str]:
    """The words that are not in the text, or not behind the word of the same role before them."""
    missing = []
    for role, said in words.items():
        place = 0
        for word in said:
            found = text.find(word, place if role != "tools" else 0)
            if found < 0:
                missing.append(f"{role} {word}")
            else:
                place = found + len(word)
    return missing


def damaged(random: Random, value: Any) -> Any:
    """The same with something else in one place of it."""
    if random.random() < 0.3 or not isinstance(value, dict | list) or not value:
        return random.choice(JUNK)
    if isinstance(value, list):
        place = random.randrange(len(value))
        return [*value[:place], damaged(random, value[place]), *value[place + 1 :]]
    key = random.choice([*value, "name", "tool_calls", "reasoning_content", "refusal", "function_call"])
    return {**value, key: damaged(random, value.get(key))}


def run(seed: int) -> None:
    """One conversation over one template, both by the seed: half of them whole, half damaged."""
    random = Random(seed)
    writer = Writer(random)
    messages, tools = writer.conversation()
    if random.random() < 0.5:
        name = random.choice(NAMES)
        text = render(name, messages, tools, enable_thinking=random.random() < 0.5)
        assert not (missing := lost(text, writer.words)), (seed, name, missing, messages, text)
        return
    for _ in range(random.randint(1, 3)):
        messages = damaged(random, messages)
    with suppress(InvalidRequest):
        render(random.choice(NAMES), messages, tools if random.random() < 0.8 else damaged(random, tools))


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    first = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    for seed in range(first, first + count):
        try:
            run(seed)
        except Exception:
            print(f"seed {seed}", file=sys.stderr)
            raise
    print(f"{count} conversations over {len(NAMES)} templates: no text lost, nothing raised but our 400")


if __name__ == "__main__":
    main()
