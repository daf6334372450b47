"""Whoever drafts, drawn text keeps its distribution: prompt lookup and grammars, which are certain of their tokens, and
a draft model; in rows of one batch, and in the choices of one request. Noise is fixed, as in
test_speculative_sampling.py."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest

from paceline.engine import sampler as sampling_module
from paceline.engine import sequence
from paceline.engine.lookup import LookupProposer
from paceline.engine.proposer import Draft, HostProposer, Offer
from paceline.types import Prompt, Sampling, Speculation, SpeculationMethod
from tests.engine.stepper import Stepper
from tests.engine.watched import Told, usage
from tests.integration import test_speculative_sampling as library
from tests.integration.test_grammar import InTurns
from tests.integration.test_speculative_sampling import (
    ALIKE,
    APART,
    DRAFT,
    OTHERS,
    RULES,
    SETTINGS,
    TARGET,
    VOCABULARY,
    Chain,
    Text,
    chance,
    drawn,
    plainly,
    texts,
    two,
)

Tiny = Callable[..., Path]

# -- the sampler

KNOWN = [int(token) for token in mx.argmax(TARGET, axis=-1).tolist()]  # type: ignore[union-attr, arg-type]
KNOWN = [token if place % 2 else (place + 3) % VOCABULARY for place, token in enumerate(KNOWN)]  # often wrong


class CertainChain(Chain):
    """Some rows draft what the host knows, the others with the draft, in the same step."""

    def round(self) -> None:
        last: Any = self.last.tolist()
        for seq, token in zip(self.rows, last, strict=True):
            if seq.seed % 3 or seq.sampling.seed is not None:
                known = []
                for _ in range(seq.draft.length):
                    token = KNOWN[token]
                    known.append(token)
                seq.draft.plan(Draft("lookup", len(known), tuple(known)))
        depth = max(seq.draft.length for seq in self.rows)
        guesses: list[mx.array] = []
        mine = mx.array([bool(seq.draft.tokens) for seq in self.rows])
        while len(guesses) < depth:
            place = len(guesses)
            before = guesses[-1] if guesses else self.last
            drafted = self.sampler.propose(DRAFT[before], place, guesses)
            known = [seq.draft.tokens[place] if place < len(seq.draft.tokens) else 0 for seq in self.rows]
            guesses.append(mx.where(mine, mx.array(known, dtype=drafted.dtype), drafted))
        self._take(self.sampler.verify(TARGET[mx.stack([self.last, *guesses], axis=1)], self.last, guesses))


@pytest.fixture
def certain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "Chain", CertainChain)


def by_seed(seq: sequence.Sequence) -> int:
    return seq.seed % 4


@pytest.mark.slow
@pytest.mark.usefixtures("certain")
@pytest.mark.parametrize("others", [False, True])
@pytest.mark.parametrize("name", SETTINGS)
def test_certain_drafts_beside_drawn_ones_are_kept_or_replaced_as_plain_samples_are(name: str, others: bool) -> None:
    seqs = drawn(SETTINGS[name], 0, by_seed if others else two, OTHERS if others else ())
    assert chance(texts(seqs), plainly(name)) > ALIKE
    accepted = sum(seq.accepted for seq in seqs)
    assert 0.15 < accepted / sum(seq.accepted + seq.rejected for seq in seqs) < 0.85


@pytest.mark.slow
@pytest.mark.usefixtures("certain")
def test_certain_drafts_that_are_taken_for_drawn_ones_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    verify = sampling_module._Drawn.verify

    def broken(self: sampling_module._Drawn, *arguments: Any) -> mx.array:
        known = [seq.draft.tokens for seq in self.seqs]
        for seq in self.seqs:
            seq.draft.tokens = ()
        found = verify(self, *arguments)
        for seq, tokens in zip(self.seqs, known, strict=True):
            seq.draft.tokens = tokens
        return found

    monkeypatch.setattr(sampling_module._Drawn, "verify", broken)
    name = "as the model says"
    assert chance(texts(drawn(SETTINGS[name], 0, two)), plainly(name)) < APART


# -- the engine

SMALLEST: dict[str, Any] = {
    "layers": 1,
    "hidden": 32,
    "intermediate": 32,
    "heads": 2,
    "kv_heads": 1,
    "head_dim": 16,
    "vocab": 270,
    "sharpness": 3.0,
}
SERVED, TOGETHER = 5_000, 50
TOKENS, LAST = 8, 3  # of an answer, and those of them that are compared: a draft model reads the first ones
REPEATS = (7, *(42,) * 6)  # what lookup finds in it is as often wrong as not
Make = Callable[[], Stepper]


class Usual(HostProposer):
    """Offers the same tokens everywhere."""

    def __init__(self, method: SpeculationMethod, tokens: Sequence[int]) -> None:
        self.method, self.tokens = method, tuple(tokens)

    def offer(self, seq: sequence.Sequence) -> Offer | None:
        done = len(seq.generated)
        tokens = [self.tokens[place % len(self.tokens)] for place in range(done, done + 3)]
        return Offer(self.method, tuple(tokens), (0.9,) * 3)

    def peek(self, seq: sequence.Sequence) -> Offer | None:
        return self.offer(seq)


def served(
    make: Make, seeds: range, depths: Sequence[Speculation], grammar: bool = False, **rules: Any
) -> tuple[list[Text], tuple[int, int]]:
    """The last tokens of many answers to one prompt, and how many draft tokens were right, and wrong."""
    result: list[Text] = []
    accepted = rejected = 0
    for start in seeds[::TOGETHER]:
        stepper = make()
        stepper.engine.scheduler.draft_lengths = Told().knowing()
        shared = Prompt(REPEATS)
        heard = []
        for place in range(TOGETHER):
            sampling = Sampling(max_tokens=TOKENS, speculation=depths[place % len(depths)], **RULES, **rules)
            ruled = InTurns(SMALLEST["vocab"]) if grammar else None
            heard.append(stepper.submit(str(start + place), shared, sampling, ruled))
        for name, seq in stepper.engine.seqs.items():
            seq.seed = int(name)
        stepper.finish()
        result += [tuple(each.tokens[-LAST:]) for each in heard]
        accepted += sum(usage(each).accepted_tokens for each in heard)
        rejected += sum(usage(each).rejected_tokens for each in heard)
    return result, (accepted, rejected)


def stepper_of(folder: Path, methods: tuple[SpeculationMethod, ...], **options: Any) -> Stepper:
    return Stepper(folder, "padded", chunk=4096, max_rows=TOGETHER, methods=methods, **options)


_plain: dict[bool, list[Text]] = {}


def served_plainly(tiny: Tiny, grammar: bool = False) -> list[Text]:
    if grammar not in _plain:
        folder = tiny("llama", **SMALLEST)
        seeds = range(1_000_000, 1_000_000 + SERVED)
        _plain[grammar] = served(lambda: stepper_of(folder, ("lookup",)), seeds, ["off"], grammar)[0]
    return _plain[grammar]


def lookup(tiny: Tiny) -> Make:
    return lambda: stepper_of(tiny("llama", **SMALLEST), ("lookup",), proposers=[LookupProposer()])


def draft_model(tiny: Tiny) -> Make:
    """The same words, and another layer."""
    other = tiny("llama", **{**SMALLEST, "layers": 2})
    return lambda: stepper_of(tiny("llama", **SMALLEST), ("draft_model",), draft=other)


def both(tiny: Tiny) -> Make:
    other = tiny("llama", **{**SMALLEST, "layers": 2})
    return lambda: stepper_of(
        tiny("llama", **SMALLEST), ("draft_model", "lookup"), draft=other, proposers=[LookupProposer()]
    )


@pytest.mark.slow
@pytest.mark.parametrize("depths", [[3], [1, 2, "off", 3]])
@pytest.mark.parametrize("who", [lookup, draft_model, both])
def test_the_engine_draws_the_same_distribution(tiny: Tiny, who: Callable[[Tiny], Make], depths: list[Any]) -> None:
    found, counts = served(who(tiny), range(SERVED), depths)
    assert chance(found, served_plainly(tiny)) > ALIKE
    assert min(counts) > SERVED / 5  # both happen often


@pytest.mark.slow
@pytest.mark.parametrize("method", ["grammar", "lookup"])
def test_and_under_a_grammar_whose_tokens_are_drafted(tiny: Tiny, method: SpeculationMethod) -> None:
    """What is drafted is what the grammar allows, sometimes."""
    folder = tiny("llama", **SMALLEST)
    usual = [42, 40, 44, 43]  # at the third place the grammar allows another
    make = lambda: stepper_of(folder, (method,), proposers=[Usual(method, usual)])  # noqa: E731
    found, counts = served(make, range(SERVED), [3, 2], grammar=True)
    assert all(token % 3 == (TOKENS - LAST + place) % 3 for text in found for place, token in enumerate(text))
    assert chance(pairs(found), pairs(served_plainly(tiny, grammar=True))) > ALIKE
    assert min(counts) > SERVED / 5


def pairs(found: Sequence[Text]) -> list[Text]:
    """Answers of two sequences each: of one there are too few kinds."""
    return [one + other for one, other in zip(found[::2], found[1::2], strict=True)]


# -- the choices of one request


@pytest.mark.slow
@pytest.mark.parametrize("who", [lookup, draft_model])
def test_the_choices_of_a_request_are_drawn_independently(tiny: Tiny, who: Callable[[Tiny], Make]) -> None:
    """n = 4: one prompt, and each choice drafts by itself. The same token of two choices together is distributed as
    that of choices that draft nothing."""

    def choices(make: Make, seeds: range, depth: Speculation) -> list[Text]:
        found, counts = served(make, seeds, [depth])
        assert depth == "off" or min(counts) > SERVED / 5
        fours = [found[place : place + 4] for place in range(0, len(found), 4)]  # side by side in a batch
        return [four[a][:1] + four[b][:1] for four in fours for a, b in ((0, 1), (2, 3))]

    drafted = choices(who(tiny), range(SERVED), 3)
    plain = choices(who(tiny), range(2_000_000, 2_000_000 + SERVED), "off")
    assert chance(drafted, plain) > ALIKE
