"""What the tests of the prefix cache share: texts of a given length, and a client that knows what it said before."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from paceline.requests import ChatRequest, Choice, Completion, GenerateRequest
from paceline.service import Service
from paceline.types import Sampling
from tests.synthetic.tokenizer import CHAT_TEMPLATE, TRAINING_TEXT

Message = dict[str, Any]
ENOUGH = 0.97  # of the tokens that are shared, the share that must be reused
ANSWER = Sampling(temperature=0, max_tokens=16)
# The smallest hybrid there can be: one layer of each kind, some ten thousand tokens a second on one core.
SMALLEST: Mapping[str, Any] = {
    "layers": 2,
    "attention_every": 2,
    "hidden": 32,
    "intermediate": 32,
    "heads": 1,
    "kv_heads": 1,
    "state_key_heads": 1,
    "state_value_heads": 1,
    "vision_layers": 1,
    "vision_hidden": 32,
    "mix": 4.0,  # so small a model says the same to everybody unless its layers are strong
}
WORDS = sorted(set(TRAINING_TEXT.replace("\n", " ").split(" ")) - {""})


def words(tokenizer: Any, tokens: int, seed: int = 0) -> str:
    """A text of about so many tokens."""
    drawn = random.Random(seed)
    text = ""
    while (missing := tokens - len(tokenizer.encode(text))) > 0:
        text += " ".join(drawn.choices(WORDS, k=missing // 4 + 1)) + " "
    return text.strip()


def without_thinking(model: Path, folder: Path) -> Path:
    """The same checkpoint with a template that opens no `<think>` for the answer."""
    thinks = CHAT_TEMPLATE[CHAT_TEMPLATE.index("{%- if enable_thinking is defined -%}") : -len("{%- endif -%}")]
    for file in model.iterdir():
        if file.name == "chat_template.jinja":
            (folder / file.name).write_text(CHAT_TEMPLATE.replace(thinks, ""))
        elif file.name == "tokenizer_config.json":
            settings = json.loads(file.read_text())
            (folder / file.name).write_text(json.dumps(settings | {"chat_template": CHAT_TEMPLATE.replace(thinks, "")}))
        else:
            (folder / file.name).symlink_to(file)
    return folder


def says(role: str, content: str) -> Message:
    return {"role": role, "content": content}


def next_turn(service: Service, said: Sequence[int], message: Message) -> list[int]:
    """The tokens of a conversation that goes on, as its template would write them."""
    ends = service.tokenizer.eos_ids
    tail = service.tokenizer.encode("\n" if said[-1] in ends else "<|im_end|>\n", add_special_tokens=False)
    return [*said, *tail, *service.render([message])]


def common(one: Sequence[int], other: Sequence[int]) -> int:
    """The length of the longest common prefix."""
    shorter = min(len(one), len(other))
    differs = np.nonzero(np.asarray(one[:shorter]) != np.asarray(other[:shorter]))[0]
    return int(differs[0]) if len(differs) else shorter


@dataclass(frozen=True)
class Answer:
    completion: Completion
    shared: int  # tokens of its prompt that were sent or generated before

    @property
    def prompt(self) -> list[int]:
        return list(self.completion.prompt.token_ids)

    @property
    def said(self) -> list[int]:
        return list(self.completion.choices[0].token_ids)

    @property
    def text(self) -> str:
        return self.completion.choices[0].text

    @property
    def cached(self) -> int:
        return self.completion.usage.cached_tokens

    @property
    def computed(self) -> int:
        """Prompt tokens that had to be prefilled; the last one never is."""
        return len(self.prompt) - 1 - self.cached

    @property
    def reused(self) -> float:
        """Of the tokens that are shared, and could be restored: the last one of a prompt never can."""
        return self.cached / min(self.shared, len(self.prompt) - 1)


@dataclass
class Client:
    """Talks to a service under a salt of its own. Every answer must be the one that is given without a cache."""

    service: Service
    salt: str
    sampling: Sampling = ANSWER
    answers: list[Answer] = field(default_factory=list)

    async def chat(self, messages: Sequence[Mapping[str, Any]], **options: Any) -> Answer:
        request = ChatRequest(messages, self.sampling, template_options=options, cache_salt=self.salt)
        return self._checked(await self.service.chat(request), await self.service.chat(replace(request, cache=False)))

    async def generate(self, prompt: Sequence[int]) -> Answer:
        request = GenerateRequest(prompt, self.sampling, cache_salt=self.salt)
        plain = replace(request, cache=False)
        return self._checked(await self.service.generate(request), await self.service.generate(plain))

    async def uncached(self, messages: Sequence[Mapping[str, Any]]) -> tuple[Choice, ...]:
        return (await self.service.chat(ChatRequest(messages, self.sampling, cache=False))).choices

    def knows(self, prompt: Sequence[int]) -> int:
        """How much of this prompt was sent or generated before."""
        return max((common(prompt, answer.prompt + answer.said) for answer in self.answers), default=0)

    def _checked(self, completion: Completion, plain: Completion) -> Answer:
        assert completion.prompt.token_ids == plain.prompt.token_ids
        assert completion.choices == plain.choices
        assert plain.usage.cached_tokens == 0
        answer = Answer(completion, self.knows(completion.prompt.token_ids))
        assert answer.cached <= answer.shared
        self.answers.append(answer)
        return answer
