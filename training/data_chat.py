"""A conversation to learn from or to be asked, and how it becomes tokens.

`segments` writes what the chat template writes, cut where generation begins and ends: the parts that the model must
say itself carry the loss. A test holds it equal to the template.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from training.rough import plain, rough
from training.tokenizer import END_OF_TURN, IMAGE, TOOLS_AFTER, TOOLS_BEFORE, TURN, VISION_END, VISION_START

T = TypeVar("T")
Split = Literal["train", "held"]
Picture = NDArray[np.uint8]
ROUGH = 0.6  # of the phrases that are asked in training
HELD_SHARE = 16  # one combination in so many is held out
PLACEHOLDER = VISION_START + IMAGE + VISION_END
PICTURE = "\ufffc"  # in a user's text: a picture stands here; without it, all pictures stand before the text


@dataclass
class Turn:
    role: Literal["user", "assistant", "tool"]
    text: str = ""
    thought: str = ""  # of an assistant: its think block
    calls: Sequence[tuple[str, dict[str, Any]]] = ()
    pictures: Sequence[Picture] = ()  # of a user, before the text or where `PICTURE` is in it


@dataclass
class Chat:
    """`turns` ends with an assistant's. `combination` names what the split is made by."""

    turns: list[Turn]
    kind: str
    combination: tuple[object, ...]
    system: str = ""
    tools: Sequence[dict[str, Any]] = ()
    expect: Any = None  # what a checker looks for in the last answer
    blind: bool = False  # JSON whose keys nobody could guess: a grammar writes them, and they are not predicted
    pictures: list[Picture] = field(default_factory=list)  # all, in order; filled by __post_init__

    def __post_init__(self) -> None:
        self.pictures = [picture for turn in self.turns for picture in turn.pictures]

    @property
    def thinks(self) -> bool:
        return bool(self.turns[-1].thought)

    def messages(self) -> list[dict[str, Any]]:
        """All but the last answer, as a client sends it (pictures as `image` parts that hold the array)."""
        found: list[dict[str, Any]] = [{"role": "system", "content": self.system}] if self.system else []
        for turn in self.turns[:-1]:
            message: dict[str, Any] = {"role": turn.role, "content": turn.text}
            if turn.pictures:
                shown = iter(turn.pictures)
                parts: list[dict[str, Any]] = []
                for piece in re.split(f"({PICTURE})", placed(turn)):
                    if piece == PICTURE:
                        parts.append({"type": "image", "image": next(shown)})
                    elif piece:
                        parts.append({"type": "text", "text": piece})
                message["content"] = parts
            if turn.thought:
                message["reasoning_content"] = turn.thought
            if turn.calls:
                message["tool_calls"] = [
                    {
                        "id": f"call_{place}",
                        "type": "function",
                        "function": {"name": name, "arguments": json.dumps(arguments)},
                    }
                    for place, (name, arguments) in enumerate(turn.calls)
                ]
            if turn.role == "tool":
                message["tool_call_id"] = "call_0"
            found.append(message)
        return found


def placed(turn: Turn) -> str:
    """A user's text with a mark for each picture."""
    return turn.text if PICTURE in turn.text else PICTURE * len(turn.pictures) + turn.text


def held(*combination: object, share: int = HELD_SHARE) -> bool:
    """Whether a combination is kept for evaluation, as one in `share` is: by a hash, the same in every run."""
    return zlib.crc32(repr(combination).encode()) % share == 0


class Phrases:
    """Ways to say something; the last ones are never trained on. What is asked is trained on roughly, too."""

    def __init__(self, *texts: str, held: int = 2, exact: bool = False) -> None:
        if len(texts) <= held:
            raise ValueError(f"{len(texts)} phrases leave none to train on when {held} are held out")
        self.trained, self.held = texts[: len(texts) - held], texts[len(texts) - held :]
        self.exact = exact
        self._never = {plain(text) for text in self.held}

    def pick(self, rng: Random, split: Split) -> str:
        if split == "held":
            return rng.choice(self.held)
        text = rng.choice(self.trained)
        if self.exact or rng.random() > ROUGH:
            return text
        changed = rough(text, rng)
        return text if plain(changed) in self._never else changed


def calls_text(calls: Sequence[tuple[str, dict[str, Any]]]) -> str:
    return "\n".join(
        f'<tool_call>\n{{"name": "{name}", "arguments": {json.dumps(arguments, ensure_ascii=False)}}}\n</tool_call>'
        for name, arguments in calls
    )


def answer_text(turn: Turn) -> str:
    """What the model says in a turn, behind the think block."""
    calls = calls_text(turn.calls)
    return turn.text + ("\n" if turn.text and calls else "") + calls


def segments(chat: Chat) -> list[tuple[str, bool]]:
    """The conversation's text in order; True where the model says it."""
    found: list[tuple[str, bool]] = []
    text = ""
    if chat.tools:
        text = f"{TURN}system\n" + (chat.system + "\n\n" if chat.system else "") + TOOLS_BEFORE
        text += "".join(json.dumps(tool, ensure_ascii=False) + "\n" for tool in chat.tools)
        text += f"{TOOLS_AFTER}{END_OF_TURN}\n"
    elif chat.system:
        text = f"{TURN}system\n{chat.system}{END_OF_TURN}\n"
    for place, turn in enumerate(chat.turns):
        if turn.role == "user":
            text += f"{TURN}user\n{placed(turn).replace(PICTURE, PLACEHOLDER)}{END_OF_TURN}\n"
        elif turn.role == "tool":
            if chat.turns[place - 1].role != "tool":
                text += f"{TURN}user"
            text += f"\n<tool_response>\n{turn.text}\n</tool_response>"
            if chat.turns[place + 1].role != "tool":
                text += f"{END_OF_TURN}\n"
        else:
            text += f"{TURN}assistant\n<think>\n"
            if turn.thought:
                found += [(text, False), (f"{turn.thought}\n</think>\n\n{answer_text(turn)}{END_OF_TURN}", True)]
            else:
                found += [(text + "\n</think>\n\n", False), (answer_text(turn) + END_OF_TURN, True)]
            text = "\n"
    return [*found, (text, False)]
