"""The prompts that the model is judged by: at least 200 a figure, from phrases and combinations it was never trained
on.

They come from the same generators as the training data, asked for the other side of the split, so the two cannot
drift apart; `tests/training` holds them disjoint.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from training import data_long, facts_find, facts_forms, facts_talk, pictures, pictures_talk
from training.data_chat import Chat, Turn
from training.data_long import HAYSTACK, Corpus

COUNT = 200
SEED = 20_777
LENGTHS = (1024, 4096, 8192, 16384)
QUESTIONS = {1024: 1, 4096: 2, 8192: 4, 16384: 5}  # about one text: the longer it is, the more it is asked
MARGIN = 160  # tokens of a prompt that are not its text


@dataclass(frozen=True)
class Prompt:
    """A chat whose last answer is to be given, and whether an answer is right."""

    chat: Chat
    right: Callable[[str], bool]
    fact_text: str = ""  # of a hidden fact: the sentence that tells it

    @property
    def thinks(self) -> bool:
        return self.chat.thinks


def says(expected: str) -> Callable[[str], bool]:
    """The expected words, whole, whatever the case."""
    pattern = re.compile(rf"(?<!\w){re.escape(expected)}(?!\w)", re.IGNORECASE)
    return lambda answer: pattern.search(answer) is not None


def is_json(expected: Any) -> Callable[[str], bool]:
    def right(answer: str) -> bool:
        try:
            return bool(json.loads(answer) == expected)
        except ValueError:
            return False

    return right


def _anything(answer: str) -> bool:
    return bool(answer.strip())


def _rng(figure: str) -> Random:
    return Random(repr((SEED, figure)))


def chat(count: int = COUNT) -> list[Prompt]:
    """Everyday exchanges, passages with questions, and facts told in passing."""
    rng = _rng("chat")
    draws = (
        facts_talk.talk,
        facts_talk.talk,
        facts_find.scene,
        lambda rng, split: data_long.memory(rng, split, rng.randint(3, 8)),
    )
    found = [draws[place % len(draws)](rng, "held") for place in range(count)]
    return [Prompt(one, says(one.expect) if one.expect else _anything) for one in found]


def lookup(count: int = COUNT) -> list[Prompt]:
    """Short texts of many facts."""
    rng = _rng("lookup")
    found = [facts_find.lookup(rng, "held", questions=1) for _ in range(count)]
    return [Prompt(one, says(one.expect)) for one in found]


def json_answers(count: int = COUNT) -> list[Prompt]:
    rng = _rng("json")
    found = [facts_forms.json_answer(rng, "held") for _ in range(count)]
    return [Prompt(one, is_json(one.expect)) for one in found]


def tools(count: int = COUNT) -> list[Prompt]:
    """The call; `expect` is (name, arguments). The caller parses the answer."""
    rng = _rng("tools")
    return [Prompt(facts_forms.tool_call(rng, "held", finish=False), _anything) for _ in range(count)]


def tool_answers(count: int = COUNT) -> list[Prompt]:
    """What is said when the tool has answered."""
    rng = _rng("tool answers")
    found = [facts_forms.tool_call(rng, "held", finish=True) for _ in range(count)]
    return [Prompt(one, says(one.turns[-1].text)) for one in found]


def retrieval(length: int, corpus: Corpus, words: Tokenizer, count: int = COUNT) -> list[Prompt]:
    """A fact hidden in a held-out text of nearly `length` tokens, with others beside it; one question a prompt."""
    rng = _rng(f"retrieval {length}")
    found: list[Prompt] = []
    while len(found) < count:
        drawn, haystack, starts = data_long.hidden(
            corpus, words, length - MARGIN, rng, "held", count=max(4, min(32, length // 400)), questions=1
        )
        text = words.decode(haystack.tolist(), skip_special_tokens=False)
        opening = facts_find.opening(rng, "held").format(text)
        for fact in rng.sample(list(starts), min(QUESTIONS[length], len(starts))):
            question = f"{opening}\n\n{fact.asked(rng, 'held')}"
            turns = [Turn("user", question), Turn("assistant", fact.answer)]
            one = replace(drawn, turns=turns, system="", expect=fact.value, combination=(fact.key, fact.attribute))
            found.append(Prompt(one, says(fact.value), starts[fact]))
    return found[:count]


def pictures_one(count: int = COUNT) -> list[Prompt]:
    """Shape, colour and number, in combinations that were held out."""
    rng = _rng("pictures one")
    found = [pictures_talk.one_group(rng, "held", questions=1) for _ in range(count)]
    return [Prompt(one, says(one.expect)) for one in found]


def pictures_two(count: int = COUNT) -> list[Prompt]:
    rng = _rng("pictures two")
    found = [pictures_talk.two_pictures(rng, "held", questions=1) for _ in range(count)]
    return [Prompt(one, says(one.expect)) for one in found]


def pictures_other(kind: str, count: int = COUNT) -> list[Prompt]:
    """Two groups, positions, words, emoji: shown beside the figures that were set."""
    rng = _rng("pictures " + kind)
    draw = {
        "groups": lambda: pictures_talk.two_groups(rng, "held", questions=1),
        "position": lambda: pictures_talk.position(rng, "held"),
        "word": lambda: pictures_talk.word(rng, "held"),
        "emoji": lambda: pictures_talk.emoji(rng, "held"),
    }[kind]
    return [Prompt(one, says(one.expect)) for one in (draw() for _ in range(count))]


def pictures_changed(count: int = COUNT) -> list[tuple[Prompt, Prompt]]:
    """The same question about two pictures that differ in what is asked for."""
    rng = _rng("pictures changed")
    found = []
    while len(found) < count:
        one, other = pictures.draw_group(rng, "held"), pictures.draw_group(rng, "held")
        if one == other:
            continue
        question = pictures_talk.what(rng, "held")
        pair = []
        for group in (one, other):
            turns = [
                Turn("user", question, pictures=[pictures.shapes([group], rng)]),
                Turn("assistant", pictures_talk.said(group)),
            ]
            chat = Chat(turns, "picture", (group.shape, group.colour, group.count), expect=pictures_talk.said(group))
            pair.append(Prompt(chat, says(chat.expect)))
        found.append((pair[0], pair[1]))
    return found


def passages(corpus: Corpus, count: int = 240, length: int = 512) -> NDArray[np.uint16]:
    """Held-out text, [count, length]."""
    places = np.linspace(0, len(corpus.tokens) - length - 1, count).astype(int)
    return np.stack([corpus.tokens[place : place + length] for place in places])


def every(corpus: Corpus, words: Tokenizer) -> Iterator[tuple[str, list[Prompt]]]:
    """All figures that are a share of right answers."""
    yield "chat", chat()
    yield "lookup", lookup()
    yield "json", json_answers()
    yield "tools", tools()
    yield "tool answers", tool_answers()
    for length in LENGTHS:
        yield f"retrieval {length}", retrieval(length, corpus, words)
    yield "pictures one", pictures_one()
    yield "pictures two", pictures_two()
    for kind in ("groups", "position", "word", "emoji"):
        yield f"pictures {kind}", pictures_other(kind)


def held_corpus(folder: Path, words: Tokenizer) -> Corpus:
    from training.data import corpus_tokens

    return Corpus.of(corpus_tokens(folder, "held", words)[0], words)


__all__ = ["HAYSTACK", "Prompt", "every", "held_corpus", "passages"]
