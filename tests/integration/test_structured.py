"""Structured output in the common batch: what ended by itself fits its schema, and nobody else notices."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from paceline.conversation.grammar import Grammars, GrammarSpec, Tool, tool_call_spec
from paceline.conversation.tokenizer import Tokenizer
from paceline.engine.forced_tokens import GrammarProposer
from paceline.types import Sampling, Speculation, SpeculationMethod
from tests.conversation.grammar.schemas import Schema, complaint, gathered
from tests.engine.stepper import Heard, Stepper, loaded
from tests.engine.watched import Told, usage
from tests.lengths import turns

Tiny = Callable[..., Path]
FREE = 6
WEATHER = {"type": "object", "properties": {"days": {"enum": [1, 2, 3]}}, "required": ["days"]}


@pytest.fixture(scope="module")
def folder(tiny: Tiny) -> Path:
    return tiny("hybrid", layers=4)


@cache
def tokenizer_of(folder: Path) -> Tokenizer:
    return Tokenizer.load(folder, {})


@cache
def grammars_of(folder: Path) -> Grammars:
    tokenizer = tokenizer_of(folder)
    return Grammars(tokenizer, loaded(folder).language.vocab_size, tokenizer.eos_ids)


@cache
def schemas() -> list[Schema]:
    return gathered(300)


def stepper_for(folder: Path, speculation: Speculation) -> Stepper:
    return Stepper(folder, "padded", 512, 48, tokenizer_of(folder).eos_ids, speculation)


def ask(
    stepper: Stepper, folder: Path, spec: GrammarSpec, place: int, tokens: int = 50, seed: int | None = None
) -> Heard:
    chance = random.Random(place)
    prompt = [chance.randrange(5, 400) for _ in range(chance.randrange(2, 9))]
    sampling = Sampling(temperature=1.5, max_tokens=tokens, seed=seed)
    return stepper.submit(f"ruled {place}", prompt, sampling, grammars_of(folder).compile(spec).matcher())


def ask_freely(stepper: Stepper, place: int) -> Heard:
    """Greedy and seeded rows in turn: what they say alone is known."""
    sampling = Sampling(temperature=place % 2 * 1.2, seed=place, max_tokens=30, ignore_eos=True)
    return stepper.submit(f"free {place}", range(5 + place, 12 + 3 * place), sampling)


def text_of(folder: Path, heard: Heard) -> str:
    tokenizer = tokenizer_of(folder)
    tokens = [token for token in heard.tokens if token not in tokenizer.eos_ids]
    return tokenizer.decode(tokens, skip_special_tokens=False)


@pytest.mark.slow
@pytest.mark.parametrize(("speculation", "every"), [("off", 1), (2, 4)])
def test_random_schemas_among_free_sequences(folder: Path, speculation: Speculation, every: int) -> None:
    """300 of them; a quarter of them again in rounds, where every position has its mask."""
    stepper = stepper_for(folder, speculation)
    asked = schemas()[:: turns(every, every, 10 * every)]
    ruled: list[Heard] = []
    free: list[Heard] = []
    for place, schema in enumerate(asked):
        if place % (len(asked) // FREE) == 0 and len(free) < FREE:
            free.append(ask_freely(stepper, len(free)))
        ruled.append(ask(stepper, folder, GrammarSpec.json_schema(schema), place))
    stepper.finish()
    assert {heard.finish_reason for heard in ruled} <= {"stop", "length"}
    ended = [(schema, heard) for schema, heard in zip(asked, ruled, strict=True) if heard.finish_reason == "stop"]
    assert len(ended) > 0.4 * len(asked)  # two thirds, give or take: most rows have no seed
    for schema, heard in ended:
        assert complaint(schema, text_of(folder, heard)) is None
    alone = stepper_for(folder, "off")
    for place, heard in enumerate(free):
        expected = ask_freely(alone, place)
        alone.finish()
        assert heard.tokens == expected.tokens


@pytest.mark.parametrize("count", [1, 6])
def test_what_a_schema_forces_in_the_usual_style_is_drafted_and_changes_no_token(folder: Path, count: int) -> None:
    """Alone, and beside others: with one grammar among several sequences its masks are made late."""
    tokenizer = tokenizer_of(folder)
    drafting = Grammars(tokenizer, loaded(folder).language.vocab_size, tokenizer.eos_ids, drafts=True)
    city = {"type": "object", "properties": {"city": {"enum": ["Bern", "Basel"]}}, "required": ["city"]}
    schema = {"type": "object", "properties": {"where": city, "days": {"enum": [1, 2]}}, "required": ["where", "days"]}
    spec = GrammarSpec.json_schema({**schema, "additionalProperties": False})

    def told(methods: tuple[SpeculationMethod, ...]) -> tuple[list[list[int]], int]:
        stepper = Stepper(folder, "padded", methods=methods, speculation="auto", proposers=[GrammarProposer()])
        stepper.engine.scheduler.draft_lengths = Told().knowing()
        sampling = Sampling(temperature=0, max_tokens=60, logit_bias=dict.fromkeys(tokenizer.encode(" \n"), -100.0))
        heard = [stepper.submit("ruled", range(5, 12), sampling, drafting.compile(spec).matcher())]
        heard += [ask_freely(stepper, place) for place in range(count - 1)]
        stepper.finish()
        accepted = usage(heard[0]).accepted_tokens
        return [each.tokens for each in heard], accepted

    plain, _ = told(())
    drafted, accepted = told(("grammar",))
    assert drafted == plain and accepted >= 2  # beside others in shapes that are new, only every ninth step may draft


def answers(folder: Path, spec: GrammarSpec, speculation: Speculation, count: int = 12) -> list[str]:
    """What ended by itself."""
    stepper = stepper_for(folder, speculation)
    heard = [ask(stepper, folder, spec, place, tokens=90) for place in range(count)]
    stepper.finish()
    assert {one.finish_reason for one in heard} <= {"stop", "length"}
    return [text_of(folder, one) for one in heard if one.finish_reason == "stop"]


@pytest.mark.thin(2)
@pytest.mark.parametrize("speculation", ["off", 3])
def test_patterns_choices_and_grammars(folder: Path, speculation: Speculation) -> None:
    pattern = r"[a-f]{2,5}-(0|1)+\.\d{2}"
    found = answers(folder, GrammarSpec.regex(pattern), speculation)
    assert found and all(re.fullmatch(pattern, text) for text in found)
    choices = ["yes", "no", "not at all", "é🙂"]
    found = answers(folder, GrammarSpec.choice(choices), speculation)
    assert len(found) == 12 and set(found) <= set(choices)
    grammar = 'start: term (("+" | "-") term){0,3}\nterm: /[0-9]{1,3}/ | "(" start ")"'
    found = answers(folder, GrammarSpec.lark(grammar), speculation)
    assert found
    for text in found:
        assert re.fullmatch(r"[0-9()+-]+", text) and text.count("(") == text.count(")")


@pytest.mark.thin(2)
@pytest.mark.parametrize("speculation", ["off", 3])
def test_a_forced_call_is_a_call(folder: Path, speculation: Speculation) -> None:
    spec = tool_call_spec([Tool("weather", WEATHER, strict=True)], "required", "<tool_call>\n", "\n</tool_call>", False)
    found = answers(folder, spec, speculation)
    call = re.compile(r'<tool_call>\n\{"name": "weather", "arguments": \{\s*"days"\s*:\s*[123]\s*\}\}\n</tool_call>')
    assert found and all(call.fullmatch(text) for text in found)


@pytest.mark.slow
def test_a_seed_gives_the_same_answer_at_every_draft_length(folder: Path) -> None:
    schema = {"type": "array", "items": {"enum": ["red", "green", 3, None]}, "maxItems": 6}
    told = []
    for speculation in ("off", 1, 4):
        stepper = stepper_for(folder, speculation)
        heard = [ask(stepper, folder, GrammarSpec.json_schema(schema), place, seed=place) for place in range(6)]
        stepper.finish()
        told.append([one.tokens for one in heard])
    assert told[0] == told[1] == told[2]


def test_a_sequence_that_is_kept_from_ending_fails_alone(folder: Path) -> None:
    """min_tokens bans the end tokens, and a complete grammar everything else."""
    stepper = stepper_for(folder, "off")
    compiled = grammars_of(folder).compile(GrammarSpec.choice(["a"]))
    stuck = stepper.submit(
        "stuck", range(5, 9), Sampling(temperature=0, max_tokens=9, min_tokens=8), compiled.matcher()
    )
    fine = stepper.submit("fine", range(5, 9), Sampling(temperature=0, max_tokens=9), compiled.matcher())
    stepper.finish()
    assert (stuck.finish_reason, fine.finish_reason) == ("error", "stop")
    assert "grammar" in (stuck.deltas[-1].error or "")
