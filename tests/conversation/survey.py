"""`python -m tests.conversation.survey FOLDER`: how chat templates of public models take conversations of agents.

FOLDER has Jinja files, such as those in llama.cpp's models/templates. Of each it is asked whether every word of every
conversation is in the prompt, and whether calls are read again as the template writes them.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from paceline.conversation.messages import checked
from paceline.conversation.normalize import Message, normalized
from paceline.conversation.parsing.formats import choose_format, opens_reasoning
from paceline.conversation.parsing.parser import parse_output
from paceline.conversation.template import Templates
from paceline.errors import PacelineError

SPECIAL = {"bos_token": "<BOS>", "eos_token": "<EOS>", "pad_token": "<PAD>", "unk_token": "<UNK>"}
# Special tokens of vocabularies, by which a format is known too.
VOCABULARY = ("<|open|>", "<|close|>", "<|sep|>", "<|end_of_msg|>")
TYPES = {"city": {"type": "string"}, "days": {"type": "integer"}, "wet": {"type": "boolean"}}
PROPERTIES = {**TYPES, "tags": {"type": "array", "items": {"type": "string"}}}
PARAMETERS = {"type": "object", "properties": PROPERTIES, "required": ["city"]}
TOOLS = [
    {"type": "function", "function": {"name": "get_weather", "description": "of a place", "parameters": PARAMETERS}},
    {"type": "function", "function": {"name": "list_files", "description": "here", "parameters": {"type": "object"}}},
]
ARGUMENTS = {"city": 'Sao Paulo "x" <b>', "days": 3, "wet": True, "tags": ["a", "b"]}


def _says(role: str, content: str | None, **fields: Any) -> Message:
    return {"role": role, "content": content, **fields}


def _call(name: str, arguments: Any, id: str) -> dict[str, Any]:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}


WEATHER, FILES = _call("get_weather", ARGUMENTS, "call_abc123456"), _call("list_files", {}, "call_def123456")
USER, AGAIN, SYSTEM = _says("user", "w-user"), _says("user", "w-again"), _says("system", "w-system")
ANSWER = _says("assistant", "w-answer")


def _calling(*calls: dict[str, Any], text: str | None = None, **fields: Any) -> list[Message]:
    results = [_says("tool", f"w-result{place}", tool_call_id=call["id"]) for place, call in enumerate(calls)]
    return [_says("assistant", text, tool_calls=list(calls), **fields), *results]


CONVERSATIONS: dict[str, tuple[list[Message], bool]] = {  # and whether there are tools
    "plain": ([USER], False),
    "system": ([SYSTEM, USER, ANSWER, AGAIN], False),
    "late system": ([USER, ANSWER, SYSTEM, AGAIN], False),
    "two users": ([USER, AGAIN], False),
    "starts with an answer": ([ANSWER, USER], False),
    "only system": ([SYSTEM], False),
    "empty answer": ([USER, _says("assistant", ""), AGAIN], False),
    "reasoning": ([USER, {**ANSWER, "reasoning_content": "thought"}, AGAIN], False),
    "tools": ([SYSTEM, USER], True),
    "call": ([USER, *_calling(WEATHER), AGAIN], True),
    "system and call": ([SYSTEM, USER, *_calling(WEATHER)], True),
    "call at the front": ([*_calling(WEATHER), AGAIN], True),
    "call beside text": ([USER, *_calling(WEATHER, text="w-answer")], True),
    "two calls": ([USER, *_calling(WEATHER, FILES), AGAIN], True),
    "call after call": ([USER, *_calling(WEATHER), *_calling(FILES), ANSWER, AGAIN], True),
    "call without tools": ([USER, *_calling(WEATHER), AGAIN], False),
    "reasoned call": ([USER, *_calling(WEATHER, reasoning_content="thought")], True),
}


def complaints(source: str) -> Iterator[str]:
    templates = Templates.of(source, SPECIAL)
    for name, (messages, with_tools) in CONVERSATIONS.items():
        try:
            text = _rendered(templates, messages, with_tools)
        except PacelineError as error:
            yield f"{name}: {error}"
            continue
        missing = [word for word in _words(messages) if word not in text]
        if missing or (with_tools and "of a place" not in text):
            yield f"{name}: without {missing or 'the tools'}"
    format = choose_format(source, [token for token in VOCABULARY if token in source])
    for calls in ([WEATHER], [FILES]):
        try:
            prompt, whole = (_rendered(templates, [USER, *more], True) for more in ([], _calling(*calls)))
        except PacelineError:
            continue
        goes_on = whole.startswith(prompt)
        said = whole[len(prompt) :] if goes_on else whole.partition("w-user")[2]
        thinking = goes_on and opens_reasoning(prompt[-64:], format)
        read = parse_output(said, format, TOOLS, starts_in_reasoning=thinking).calls
        wanted = [(call["function"]["name"], json.loads(call["function"]["arguments"])) for call in calls]
        if [(call.name, json.loads(call.arguments)) for call in read] != wanted:
            yield f"calls are not read ({format.tools}): {said[:120]!r}"


def _rendered(templates: Templates, messages: Sequence[Message], with_tools: bool) -> str:
    conversation, media = checked(messages, takes_images=False, takes_video=False, takes_audio=False)
    conversation, _ = normalized(conversation, media, names=templates.writes_names)
    return templates.render(conversation, TOOLS if with_tools else None, add_generation_prompt=len(messages) == 1)


def _words(messages: Sequence[Message]) -> list[str]:
    calls = [call["function"]["name"] for message in messages for call in message.get("tool_calls") or []]
    return [*(message["content"] for message in messages if message["content"]), *calls]


def main(folder: Path) -> None:
    logging.disable(logging.CRITICAL)
    good = 0
    files = sorted(folder.glob("*.jinja"))
    for file in files:
        found = list(complaints(file.read_text()))
        good += not found
        print(f"{file.stem}: {'; '.join(found)[:400] or 'ok'}")
    print(f"{good} of {len(files)} templates without a complaint")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
