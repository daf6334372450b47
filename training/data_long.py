"""Long conversations: facts hidden anywhere in a text of 1k to 16k tokens, facts told in passing, long lists of facts.

Haystacks are cut from the tokenized corpus. Facts go only where a full stop stands between two words, so that the
text, tokenized as a whole by a server, gives the same tokens again.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from training import facts_find, facts_talk
from training.data_chat import Chat, Split, Turn
from training.facts_find import Fact

HAYSTACK = "\ue000"  # stands for the text in a chat's first turn


@dataclass
class Corpus:
    """Plain text as tokens, and where a document ends."""

    tokens: NDArray[np.uint16]
    end: int  # the token between documents
    full_stop: int
    blank_line: int
    stop_and_line: tuple[int, ...]  # a full stop and a blank line, as they are cut where they stand together
    spaced: NDArray[np.bool_]  # by id: tokens that begin with a space and a letter

    @classmethod
    def of(cls, tokens: NDArray[np.uint16], tokenizer: Tokenizer) -> Corpus:
        words = [tokenizer.id_to_token(id) or "" for id in range(tokenizer.get_vocab_size())]
        spaced = np.array([word.startswith("Ġ") and word[1:2].isalpha() for word in words])
        (stop,), (blank,) = tokenizer.encode(".").ids, tokenizer.encode("\n\n").ids
        together = tuple(tokenizer.encode(".\n\n").ids)
        return cls(tokens, tokenizer.token_to_id("<|endoftext|>"), stop, blank, together, spaced)

    def piece(self, size: int, rng: Random, stops: int = 0) -> NDArray[np.uint16]:
        """About `size` tokens from anywhere, between two full stops; documents' ends become blank lines.

        At least `stops` full stops are inside, where the corpus has such a place at all.
        """
        for attempt in range(200):
            first = rng.randrange(len(self.tokens) - size - 600)
            tokens = self.tokens[first : first + size + 600]
            places = self.stops(tokens)
            if len(places) < 8:
                continue
            start, last = places[0] + 1, places[places <= places[0] + size][-1]
            if last - start > 0.7 * size:
                joined = self._joined(tokens[start : last + 1])
                if len(self.stops(joined)) >= (stops if attempt < 100 else 1):
                    return joined
        raise RuntimeError("the corpus has no sentences")

    def _joined(self, tokens: NDArray[np.uint16]) -> NDArray[np.uint16]:
        parts: list[NDArray[np.uint16]] = []
        for document in np.split(tokens, np.flatnonzero(tokens == self.end) + 1):
            if len(document) and document[-1] == self.end:
                stopped = len(document) > 1 and document[-2] == self.full_stop
                between = self.stop_and_line if stopped else (self.blank_line,)
                parts += [document[: -2 if stopped else -1], np.array(between, np.uint16)]
            else:
                parts.append(document)
        return np.concatenate(parts)

    def stops(self, tokens: NDArray[np.uint16]) -> NDArray[np.intp]:
        """Places of full stops between a word and a word."""
        here = (tokens[:-1] == self.full_stop) & self.spaced[tokens[1:]]
        return np.flatnonzero(here)


def hidden(
    corpus: Corpus,
    tokenizer: Tokenizer,
    size: int,
    rng: Random,
    split: Split,
    *,
    count: int | None = None,
    questions: int | None = None,
) -> tuple[Chat, NDArray[np.uint16], dict[Fact, str]]:
    """A chat whose haystack has about `size` tokens, the haystack, and how each fact in it is told."""
    count = count or rng.randint(2, max(3, min(48, size // 250)))
    found = facts_find.draw_facts(rng, split, count)
    sentences = [fact.told(rng, split) for fact in found]
    told = [tokenizer.encode(" " + sentence, add_special_tokens=False).ids for sentence in sentences]
    text = corpus.piece(size - sum(map(len, told)), rng, stops=count)
    places = corpus.stops(text)
    chosen = sorted(rng.sample(places.tolist(), min(len(found), len(places))))
    parts, before = [], 0
    hidden_facts: dict[Fact, str] = {}
    for place, fact, sentence, tokens in zip(chosen, found, sentences, told, strict=False):
        parts += [text[before : place + 1], np.array(tokens, np.uint16)]
        hidden_facts[fact] = sentence
        before = place + 1
    parts.append(text[before:])
    chat = facts_find.ask(
        HAYSTACK, list(hidden_facts), rng, split, questions or rng.randint(min(4, count), min(24, count))
    )
    chat.kind = "hidden"
    return chat, np.concatenate(parts), hidden_facts


def dense(rng: Random, split: Split, size: int) -> Chat:
    """A long list of facts and many questions; about eighteen tokens a fact, forty-five a question."""
    count = max(4, int(size * rng.uniform(0.3, 0.7)) // 20)
    questions = min(count, max(4, (size - count * 20) // 48), 64)
    chat = facts_find.lookup(rng, split, count, questions)
    chat.kind = "dense"
    return chat


REMEMBERED = "OK, I will remember that."


def memory(rng: Random, split: Split, exchanges: int) -> Chat:
    """Facts told in passing in a conversation about other things, and asked for later."""
    open_facts: list[Fact] = []
    turns: list[Turn] = []
    expect = ""
    combination: tuple[object, ...] = ()
    kinds, weights = list(facts_talk.TALKS), list(facts_talk.TALKS.values())
    for place in range(exchanges):
        draw = rng.random()
        if open_facts and (draw < 0.35 or place == exchanges - 1):  # the last question is always about a fact
            fact = open_facts.pop(rng.randrange(len(open_facts)))
            turns += [Turn("user", fact.asked(rng, split)), Turn("assistant", fact.answer)]
            expect, combination = fact.value, (fact.key, fact.attribute)
        elif draw < 0.65 or place == 0 or not open_facts and place == exchanges - 2:
            fact = facts_find.draw_fact(rng, split)
            if all((fact.key, fact.attribute) != (other.key, other.attribute) for other in open_facts):
                open_facts.append(fact)
                turns += [Turn("user", fact.told(rng, split)), Turn("assistant", REMEMBERED)]
        else:
            exchange = facts_talk.draw(rng.choices(kinds, weights)[0], rng, split)
            turns += [Turn("user", exchange.user), Turn("assistant", exchange.answer)]
            expect, combination = exchange.short, exchange.combination
    if turns[-1].text == REMEMBERED:  # a last fact that nobody asked for
        turns += [Turn("user", open_facts[-1].asked(rng, split)), Turn("assistant", open_facts[-1].answer)]
        expect, combination = open_facts[-1].value, (open_facts[-1].key, open_facts[-1].attribute)
    return Chat(turns, "memory", combination, expect=expect)


__all__ = ["Corpus", "dense", "hidden", "memory"]
