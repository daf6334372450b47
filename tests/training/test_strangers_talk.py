"""Rules of talk: each passes what a person would accept and fails what one would not."""

from __future__ import annotations

import pytest

from training import strangers_talk
from training.strangers_ask import Answer, Verdict
from training.strangers_know import KNOWABLE, answers, questions, refuses
from training.strangers_stated import stated

STORY = (
    "Once there was a fox who lived by a river. One day the fox found a red kite in a tree. She gave it to a child, "
    "and they were friends from then on."
)


@pytest.mark.parametrize(
    ("rule", "good", "bad"),
    [
        (strangers_talk.greets, "Hello! How can I help you?", "The capital is red."),
        (strangers_talk.greets, "Hi", "Good morning is a nice thing to like!"),
        (strangers_talk.greets, "I am fine, thank you.", "A word that means hello."),
        (strangers_talk.replies, "You're welcome!", "Hello."),
        (strangers_talk.says_who, "I am Paceline Mini.", "I am well."),
        (strangers_talk.says_who, "A small language model.", "I am ChatGPT, a model."),
        (strangers_talk.says_abilities, "I answer questions and look at pictures.", "I can do it."),
        (strangers_talk.tells_of("little fox"), STORY, STORY.replace("fox", "cat")),
        (strangers_talk.tells_of("little fox"), STORY, STORY[:-1]),
        (strangers_talk.lists_three("fruits"), "1. Apples\n2. Cherries\n3. Figs", "Apple, pear."),
        (strangers_talk.lists_three("colours"), "Red, green and blue.", "Red, green, blue and pink."),
        (strangers_talk.lists_three("fruits"), "Here are three: apple, plum, fig", "apple, plum, fig and chair"),
        (strangers_talk.defines("dog"), "An animal that barks.", "A dog is a dog."),
        (strangers_talk.defines("city"), "A large town.", "City."),
        (strangers_talk.agrees(True), "Yes, it is.", "No."),
        (strangers_talk.agrees(False), "No.", "It is red."),
    ],
)
def test_a_rule_passes_the_good_and_fails_the_bad(rule: Verdict, good: str, bad: str) -> None:
    assert rule(Answer(good)) == ""
    assert rule(Answer(bad))


def test_every_kind_of_talk_is_asked_in_many_ways() -> None:
    for kind in strangers_talk.ASKS:
        made = strangers_talk.questions(40, 0, f"talk {kind}", frozenset(), kind)
        prompts = {question.body["messages"][0]["content"] for question in made}
        assert len(prompts) >= 18, kind


def test_the_first_request_is_the_readmes() -> None:
    (question,) = strangers_talk.first_requests(1, "first", frozenset())
    assert question.body == {"messages": [{"role": "user", "content": "Hello! Who are you?"}], "max_tokens": 100}
    assert question.verdict(Answer("Hello! I am Paceline.", finish="stop")) == ""


def test_half_of_the_stated_facts_are_asked_rightly() -> None:
    import random

    made = [stated(random.Random(index), index) for index in range(60)]
    assert sum(truth for _, truth, _ in made) == 30
    for text, truth, (_, value, asked) in made:
        assert (value == asked) is truth and value in text and asked in text


def test_what_cannot_be_known_wants_a_refusal_and_what_can_wants_none() -> None:
    for question in questions(48, 0, "unknowable", frozenset(), knowable=False):
        assert question.verdict(Answer("I do not know that.", finish="stop")) == ""
        assert question.verdict(Answer("It is 12.", finish="stop")) == "does not say that it does not know"
    for question in questions(len(KNOWABLE), 0, "knowable", frozenset(), knowable=True):
        assert question.verdict(Answer("I do not know that.")) and question.verdict(Answer("White.")) == ""
    assert answers(Answer(" ")) == "empty"
    assert refuses(frozenset(), "")(Answer("I do not know", finish="length")) == "does not end"
