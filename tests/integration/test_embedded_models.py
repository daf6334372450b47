"""The exactness suite on the models that the package carries: language, and a head that learnt it.

Random weights say anything after anything, and their heads were made to agree. Here prompts are conversations, answers
are words, and drafts are right and wrong where a trained head is. What must come out is the same: mlx-lm's and
mlx-vlm's own greedy tokens, whatever rides along. They are compared beyond the end of an answer, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from paceline.models.files import EMBEDDED
from paceline.types import Prompt, Speculation
from tests.engine.conversations import SCRIPTS, Conversations, Move, check_rest, quiet
from tests.engine.stepper import Heard, Stepper
from tests.engine.watched import Told, Watched, greedy, rounds_alone, usage
from tests.integration.test_images import CONVERSATIONS, TEXT, expected
from tests.integration.test_speculation import guesses_of_one_pass
from tests.models.test_vision import ONE, TWO, Message, assistant, built, user
from tests.reference import greedy_text

MINI, DRAFT = EMBEDDED / "paceline-mini", EMBEDDED / "paceline-mini-draft"
TOKENS = 32
PICTURED = 12  # as many as `expected` knows
PLENTY = 1 << 30
LAYOUTS = ["rows", "padded", "similar"]
DEPTHS: list[Speculation] = ["off", 1, 3, "auto"]
SYSTEM: Message = {"role": "system", "content": "You are a patient guide in a small museum. Answer in one sentence."}
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Current weather in a city",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
PLACES = ("harbour", "mill", "bridge", "tower", "garden", "market")
NOTES = " ".join(f"The number of the {place} is {311 + 7 * turn}." for turn, place in enumerate(PLACES * 6))
CHATS: dict[str, tuple[Message, ...]] = {
    "hello": (user("Hello!"),),
    "a question": (SYSTEM, user("What is a river?")),
    "a turn": (user("What is the capital of France?"), assistant("Paris."), user("Tell me a story about a dog.")),
    "a form": (user('Anna is 31 years old. Write JSON with the keys "name" and "age".'),),
    "a tool": (user("What is the weather in Lisbon?"),),
    "a long text": (user(f"{NOTES}\n\nWhat is the number of the mill?"),),
}


@cache
def chat(name: str) -> tuple[int, ...]:
    return built(MINI, CHATS[name], [WEATHER] if name == "a tool" else None).token_ids


def said(name: str, tokens: int = TOKENS) -> list[int]:
    return greedy_text(MINI, chat(name), TOKENS)[:tokens]


# -- text


@pytest.mark.slow
@pytest.mark.parametrize(
    ("layout", "depth"),
    [("rows", "off"), ("padded", "off"), ("similar", "off"), ("similar", 1), ("rows", 3), ("padded", "auto")],
)
def test_chats_that_join_late_and_leave_early_give_mlx_lms_tokens(layout: str, depth: Speculation) -> None:
    stepper = Watched(MINI, layout, chunk=48, speculation=depth)
    wanted = {name: TOKENS - 5 * place for place, name in enumerate(CHATS)}
    heard = {}
    for turn, name in enumerate(CHATS):
        heard[name] = stepper.greedy(name, chat(name), wanted[name])
        stepper.step(turn % 3)
    leaver = stepper.greedy("leaver", chat("a long text")[:90], TOKENS)
    stepper.step(3)
    stepper.abort("leaver")
    stepper.finish()
    assert leaver.finish_reason == "abort"
    for name, each in heard.items():
        assert each.tokens == said(name, wanted[name]), name
    assert (sum(stepper.drafts[1:]) > 0) == (depth != "off")


@pytest.mark.slow
def test_every_chunk_size_gives_the_same_tokens_and_accepts_the_same() -> None:
    found = []
    for chunk in (1, 7, 33, 64, 1000):
        stepper = Watched(MINI, "padded", chunk=chunk, speculation=3)
        heard = stepper.greedy("row", chat("a tool"), TOKENS)
        stepper.finish()
        assert heard.tokens == said("a tool"), f"chunk {chunk}"
        found.append(stepper.runner.rounds["row"])
    assert found == [found[0]] * 5


@pytest.mark.slow
def test_the_draft_model_gives_mlx_lms_tokens_in_batch() -> None:
    """It has the same tokens, no pictures and no head."""
    stepper = Stepper(DRAFT, "similar", chunk=40)
    heard = {}
    for name in CHATS:
        heard[name] = stepper.greedy(name, chat(name), TOKENS)
        stepper.step()
    stepper.finish()
    for name, each in heard.items():
        assert each.tokens == greedy_text(DRAFT, chat(name), TOKENS), name


# -- its head


@pytest.mark.slow
def test_a_sequence_beside_others_accepts_what_it_accepts_alone() -> None:
    names = ("hello", "a turn", "a form", "a tool")
    texts = [Prompt(chat(name)) for name in names] + [built(MINI, TWO)]
    company: list[Speculation] = ["off", 1, 5, "auto"]
    stepper = Watched(MINI, "similar", chunk=24)
    for place, text in enumerate(texts):
        stepper.submit(str(place), text, greedy(TOKENS, speculation=3))
        if place < len(company):
            stepper.submit(f"other {place}", chat("a question"), greedy(5 + 6 * place, speculation=company[place]))
        stepper.step(place % 3)
    stepper.finish()
    for place, text in enumerate(texts):
        rounds = rounds_alone(MINI, text, TOKENS, 3)
        assert stepper.runner.rounds[str(place)] == rounds
        assert usage(stepper.heard[str(place)]).accepted_tokens == sum(each.kept - 1 for each in rounds)


@pytest.mark.thin(2)
@pytest.mark.parametrize("name", ["a tool", "three pictures in three turns"])
def test_the_first_draft_token_of_every_speculative_step_is_that_of_one_pass_over_prompt_and_answer(name: str) -> None:
    text = Prompt(chat(name)) if name in CHATS else built(MINI, CONVERSATIONS[name])
    stepper = Watched(MINI, chunk=20, speculation=2)
    heard = stepper.greedy("row", text, TOKENS)
    stepper.finish()
    guesses = guesses_of_one_pass(MINI, text, heard.tokens)
    done = 0
    for each in stepper.runner.rounds["row"]:
        assert each.guesses[0] == guesses[done], f"after {done} tokens"
        done += each.kept


@pytest.mark.slow
def test_most_of_what_the_head_drafts_is_right() -> None:
    """How much exactly is measured by training.evaluate; a head that reads the wrong states is right by chance."""
    rounds = [each for name in CHATS for each in rounds_alone(MINI, Prompt(chat(name)), TOKENS, 1)]
    assert sum(each.kept - 1 for each in rounds) > len(rounds) / 2


# -- prefixes


def ask(stepper: Stepper, name: str, messages: Sequence[Message]) -> tuple[Heard, Prompt]:
    prompt = built(MINI, messages)
    heard = stepper.greedy(name, prompt, PICTURED)
    with quiet():
        stepper.finish()
    if prompt.media:
        assert heard.tokens == expected(MINI, messages).tokens, name
    else:
        assert heard.tokens == greedy_text(MINI, prompt.token_ids, PICTURED), name
    return heard, prompt


@pytest.mark.slow
@pytest.mark.parametrize("depth", ["off", 3])
def test_a_conversation_goes_on_where_it_was(depth: Speculation) -> None:
    stepper = Stepper(MINI, "similar", 32, speculation=depth, cache=PLENTY)
    first, prompt = ask(stepper, "first", CHATS["a question"])
    again, _ = ask(stepper, "again", CHATS["a question"])
    assert (first.cached, again.cached) == (0, len(prompt.token_ids) - 1)
    turn, _ = ask(stepper, "turn", (*CHATS["a question"], assistant("A river is water."), user("Is it long?")))
    assert turn.cached > len(built(MINI, (SYSTEM, user(""))).token_ids) // 2
    other, _ = ask(stepper, "another user", (SYSTEM, user("Who painted this?")))
    assert other.cached > 0
    check_rest(stepper.reuse)


@pytest.mark.slow
@pytest.mark.parametrize("depth", ["off", 3])
def test_an_image_is_known_and_another_in_its_place_is_not(depth: Speculation) -> None:
    stepper = Stepper(MINI, "padded", 16, speculation=depth, cache=PLENTY)
    _, prompt = ask(stepper, "first", ONE)
    assert ask(stepper, "again", ONE)[0].cached == len(prompt.token_ids) - 1
    turn, _ = ask(stepper, "text after it", (*ONE, assistant("A bird."), user("Does it sing?")))
    token = stepper.model.config["image_token_id"]
    first, last = prompt.token_ids.index(token), len(prompt.token_ids) - prompt.token_ids[::-1].index(token)
    assert turn.cached >= last
    assert ask(stepper, "another picture", (user(2, "What is this?"),))[0].cached <= first
    check_rest(stepper.reuse)


@pytest.mark.slow
@settings(
    max_examples=6, suppress_health_check=[HealthCheck.too_slow], phases=(Phase.explicit, Phase.generate)
)  # to shrink a script takes minutes
@given(
    script=SCRIPTS,
    depth=st.sampled_from(DEPTHS),
    layout=st.sampled_from(LAYOUTS),
    chunk=st.sampled_from([5, 17, 64]),
    budget=st.sampled_from([PLENTY, PLENTY, 2_000_000]),
)
def test_no_script_of_conversations_changes_a_token(
    script: list[Move], depth: Speculation, layout: str, chunk: int, budget: int
) -> None:
    stepper = Stepper(MINI, layout, chunk, speculation=depth, cache=budget)
    stepper.engine.scheduler.draft_lengths = Told().knowing()
    conversations = Conversations(stepper, MINI)
    conversations.play(script)
    conversations.check()


# -- pictures


@pytest.mark.slow
@pytest.mark.parametrize(
    ("layout", "chunk", "depth"), [("rows", 9, "off"), ("similar", 48, 2), ("padded", 200, "auto")]
)
def test_conversations_with_and_without_images_ride_together(layout: str, chunk: int, depth: Speculation) -> None:
    stepper = Watched(MINI, layout, chunk=chunk, speculation=depth)
    heard = {}
    for turn, (name, messages) in enumerate([("text", TEXT), *CONVERSATIONS.items()]):
        prompt = built(MINI, messages)
        assert list(prompt.token_ids) == expected(MINI, messages).prompt
        heard[name] = stepper.greedy(name, prompt, PICTURED)
        stepper.step(turn % 3)
    plain = stepper.greedy("chat", chat("hello"), TOKENS)
    stepper.finish()
    assert heard.pop("text").tokens == expected(MINI, TEXT).tokens
    for name, each in heard.items():
        assert each.tokens == expected(MINI, CONVERSATIONS[name]).tokens, name
    assert plain.tokens == said("hello")
