"""Random scripts of conversations that branch, are edited and interleave, played on a stepped engine with a cache.

Every prompt is made of a few short pieces and of what was answered before, so that scripts meet each other's prefixes
at every kind of border. What must come out is known: mlx-lm's own tokens for the same prompt, alone.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from hypothesis import strategies as st

from paceline.engine.prefix_manager import PrefixManager
from paceline.types import Prompt, Sampling, Speculation
from tests.engine.stepper import Heard, Stepper
from tests.reference import greedy_text

LONGEST = 120  # tokens of a prompt
SAID = 12  # tokens of an answer, at most
SALTS = ("", "", "", "another user")


def words(seed: int, length: int) -> tuple[int, ...]:
    return tuple(np.random.default_rng([seed, 77]).integers(0, 480, 64)[:length].tolist())


SYSTEM = words(1000, 40)  # what most conversations begin with


class Move(NamedTuple):
    """`which` names a request made before, counted round; the other numbers are what the move makes of them."""

    kind: str
    which: int = 0
    seed: int = 0  # of the new tokens
    length: int = 1  # how many
    at: int = 0  # a place in an earlier prompt, or a number of steps
    tokens: int = 6  # of the answer
    boundaries: tuple[int, ...] = ()
    salt: int = 0
    rules: int = 0  # what else is special about the request


ASKS = ("start", "continue", "continue", "edit", "branch", "repeat", "prefix")
ASKED = st.builds(
    Move,
    kind=st.sampled_from(ASKS),
    which=st.integers(0, 9),
    seed=st.integers(0, 3),
    length=st.integers(1, 40),
    at=st.integers(0, LONGEST),
    tokens=st.integers(1, SAID),
    boundaries=st.lists(st.integers(1, LONGEST), max_size=4).map(lambda boundaries: tuple(sorted(set(boundaries)))),
    salt=st.integers(0, len(SALTS) - 1),
    rules=st.integers(0, 11),
)
STEPPED = st.integers(1, 20).map(lambda steps: Move("steps", at=steps))
RESTED = st.just(Move("rest"))
CANCELLED = st.tuples(st.integers(0, 9), st.integers(0, 6)).map(lambda both: Move("cancel", both[0], at=both[1]))
CLEARED = st.just(Move("clear"))
SCRIPTS = st.lists(
    st.one_of(*[ASKED] * 8, *[STEPPED] * 3, RESTED, RESTED, CANCELLED, CANCELLED, CLEARED), min_size=6, max_size=20
)


@dataclass(slots=True)
class Asked:
    prompt: tuple[int, ...]
    tokens: int
    stops: tuple[int, ...]  # tokens that end it
    heard: Heard
    cancelled: bool = False


class Conversations:
    """Plays scripts, and knows what each request must be answered."""

    def __init__(self, stepper: Stepper, folder: Path, speculation: Sequence[Speculation | None] = (None,)) -> None:
        self.stepper = stepper
        self.folder = folder
        self.speculation = speculation  # what single requests ask for
        self.asked: list[Asked] = []

    def play(self, script: Sequence[Move]) -> None:
        with quiet():
            self._play(script)

    def _play(self, script: Sequence[Move]) -> None:
        for move in script:
            if move.kind == "steps":
                self.stepper.step(move.at)
            elif move.kind == "rest":
                self.stepper.finish()
            elif move.kind == "clear":
                self.stepper.reuse.clear()
            elif move.kind == "cancel":
                self.cancel(move)
            else:
                self.ask(self.prompt(move), move)
        self.stepper.finish()

    def cancel(self, move: Move) -> None:
        if self.asked:
            place = move.which % len(self.asked)
            self.stepper.step(move.at)
            self.stepper.abort(str(place))
            self.asked[place].cancelled = True

    def prompt(self, move: Move) -> tuple[int, ...]:
        new = words(move.seed, move.length)
        if move.kind == "start" or not self.asked:
            return SYSTEM + new
        before = self.asked[move.which % len(self.asked)]
        at = 1 + move.at % len(before.prompt)
        if move.kind == "continue":
            whole = before.prompt + tuple(before.heard.tokens) + new
        elif move.kind == "edit":  # in the middle: what follows it stays
            whole = before.prompt[: at - 1] + ((before.prompt[at - 1] + 1) % 480,) + before.prompt[at:]
        elif move.kind == "branch":
            whole = before.prompt[:at] + new
        elif move.kind == "prefix":
            whole = before.prompt[:at]
        else:
            whole = before.prompt
        return whole[:LONGEST]

    def ask(self, tokens: tuple[int, ...], move: Move) -> Asked:
        boundaries = tuple(mark for mark in move.boundaries if mark <= len(tokens))
        prompt = Prompt(tokens, boundaries=boundaries, cached=move.rules != 0, salt=SALTS[move.salt])
        stops: tuple[int, ...] = ()
        if move.rules in (1, 2, 3):  # its own words end it: the first that it would say, or a later one
            stops = (greedy_text(self.folder, tokens, SAID)[2 * move.rules - 2],)
        sampling = Sampling(
            temperature=0,
            max_tokens=move.tokens,
            ignore_eos=True,
            stop_token_ids=stops,
            logprobs=1 if move.rules == 4 else None,
            prompt_logprobs=0 if move.rules == 5 else None,
            speculation=self.speculation[move.rules % len(self.speculation)],
        )
        heard = self.stepper.submit(str(len(self.asked)), prompt, sampling)
        asked = Asked(tokens, move.tokens, stops, heard)
        self.asked.append(asked)
        return asked

    # -- what must be

    def check(self) -> None:
        for asked in self.asked:
            said = self.expected(asked)
            if asked.heard.finish_reason == "abort":
                assert asked.cancelled
                said = said[: len(asked.heard.tokens)]
            else:
                assert asked.heard.finish_reason in ("length", "stop"), asked.heard.deltas[-1]
            assert asked.heard.tokens == said, f"prompt of {len(asked.prompt)}, {asked.heard.cached} of them cached"
        check_rest(self.stepper.reuse)

    def expected(self, asked: Asked) -> list[int]:
        said = greedy_text(self.folder, asked.prompt, SAID)[: asked.tokens]
        ends = [place for place, token in enumerate(said) if token in asked.stops]
        return said[: ends[0] + 1] if ends else said


def check_rest(reuse: PrefixManager) -> None:
    """What holds whenever nothing runs."""
    cache = reuse.cache
    nodes = list(cache.nodes())
    assert all(node.pins == 0 for node in nodes)
    assert cache.memory == sum(node.nbytes for node in nodes)
    assert cache.memory <= cache.limit()
    assert reuse._waits == []
    for node in nodes:
        assert node.alive and not node.invalid and len(node.key)
        assert node.segment is not None or node.segment_file is not None
        assert node.parent is not None and node.parent.stop == node.start
        assert node.parent.children[int(node.key[0])] is node
        segment: Any = node.segment
        if segment is not None:
            assert {array.shape[2] for array in segment.arrays} <= {len(node.key)}
    assert reuse.disk is not None or all(node.segment_file is None for node in nodes)


@contextmanager
def quiet() -> Iterator[None]:
    """Nothing may fail on the way, not even what is caught and done again. (The disk may complain of its files.)"""
    complaints: list[str] = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: complaints.append(record.getMessage())  # type: ignore[method-assign]
    logger = logging.getLogger("paceline")
    handler.addFilter(lambda record: record.name == "paceline")
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
    assert complaints == []
