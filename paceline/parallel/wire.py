"""A sequence as a record of an order: what the engine needs of a request, and none of its client."""

from __future__ import annotations

import base64
from collections.abc import Sequence as Many
from dataclasses import dataclass
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter

from paceline.engine.sequence import EngineRequest, Sequence, Siblings
from paceline.engine.speculation_policy import SpeculationMode
from paceline.types import Media, MediaInputs, MediaKind, Pooling, Prompt, RequestId, Sampling, SamplingTokens

ARRAY, TUPLE = "$array", "$tuple"


@dataclass(frozen=True, slots=True)
class MediumRecord:
    digest: str
    tokens: int
    token_id: int
    token_ids: tuple[int, ...]
    text: str
    cost: int
    kind: MediaKind
    inputs: dict[str, Any]


@dataclass(frozen=True, slots=True)
class SequenceRecord:
    id: str
    group: str  # its request, by the first choice
    number: int  # in the order of arrival
    arrived: float
    seed: int
    token_ids: tuple[int, ...]
    media: tuple[MediumRecord, ...]
    boundaries: tuple[int, ...]
    system: int
    cached: bool
    salt: str
    pooling: Pooling | None
    sampling: Sampling
    max_tokens: int
    speculation: SpeculationMode
    eos_ids: frozenset[int]
    tokens: SamplingTokens
    grammar: bool  # it has one: its masks are rank 0's


RECORD = TypeAdapter(SequenceRecord)


def record(seq: Sequence) -> dict[str, Any]:
    prompt, request = seq.prompt, seq.request
    first = next(iter(seq.siblings), seq)
    made = SequenceRecord(
        id=seq.id,
        group=first.id,
        number=seq.number,
        arrived=seq.queue.arrived,
        seed=seq.seed,
        token_ids=prompt.token_ids,
        media=tuple(_medium(medium) for medium in prompt.media),
        boundaries=prompt.boundaries,
        system=prompt.system,
        cached=prompt.cached,
        salt=prompt.salt,
        pooling=prompt.pooling,
        sampling=seq.sampling,
        max_tokens=request.max_tokens,
        speculation=seq.speculation,
        eos_ids=request.eos_ids,
        tokens=request.tokens,
        grammar=seq.grammar is not None,
    )
    found: dict[str, Any] = RECORD.dump_python(made, mode="json")
    return found


class Sequences:
    """Makes a follower's sequences. The choices of a request know each other."""

    def __init__(self, vocab_size: int) -> None:
        self._groups: WeakValueDictionary[str, Siblings] = WeakValueDictionary()
        self._anything = AnyToken(vocab_size)

    def made(self, found: dict[str, Any]) -> Sequence:
        """Raises pydantic's ValidationError for what is no record."""
        given = RECORD.validate_python(found)
        prompt = Prompt(
            given.token_ids,
            tuple(_media(medium) for medium in given.media),
            given.boundaries,
            given.system,
            given.cached,
            given.salt,
            pooling=given.pooling,
        )
        request = EngineRequest(
            RequestId(given.id),
            prompt,
            given.sampling,
            given.max_tokens,
            given.speculation,
            given.eos_ids,
            tokens=given.tokens,
        )
        seq = Sequence.silent(request, self._anything if given.grammar else None)
        seq.number, seq.seed, seq.queue.arrived = given.number, given.seed, given.arrived
        siblings = self._groups.get(given.group)
        if siblings is None:
            self._groups[given.group] = seq.siblings
        else:
            siblings.add(seq)
            seq.siblings = siblings
        return seq


class AnyToken:
    """In place of a grammar, which rank 0 alone has: every rank takes the tokens that rank 0 samples."""

    def __init__(self, vocab_size: int) -> None:
        self._all = np.full((1, -(-vocab_size // 32)), 0xFFFFFFFF, dtype=np.uint32)

    def forced(self) -> Many[int]:
        return ()

    def packed(self, draft_tokens: Many[int], said: Many[int] = ()) -> tuple[NDArray[np.uint32], None]:
        return np.broadcast_to(self._all, (len(draft_tokens) + 1, self._all.shape[1])), None

    def allowed(self, draft_tokens: Many[int]) -> NDArray[np.bool_]:
        return np.ones((len(draft_tokens) + 1, 32 * self._all.shape[1]), dtype=np.bool_)

    def accept(self, token: int) -> None:
        """Every token is allowed."""


def _medium(medium: Media) -> MediumRecord:
    return MediumRecord(
        medium.digest,
        medium.tokens,
        medium.token_id,
        medium.token_ids,
        medium.text,
        medium.cost,
        medium.kind,
        {name: packed(value) for name, value in medium.inputs.items()},
    )


def _media(given: MediumRecord) -> Media:
    inputs = MediaInputs({name: unpacked(value) for name, value in given.inputs.items()})
    return Media(
        given.digest, given.tokens, given.token_id, given.token_ids, given.text, given.cost, given.kind, inputs
    )


def packed(value: Any) -> Any:
    """An input of a tower for JSON: arrays of numbers, tuples and lists of those, and plain values."""
    if isinstance(value, np.ndarray):
        data = base64.b64encode(np.ascontiguousarray(value).tobytes()).decode("ascii")
        return {ARRAY: [value.dtype.str, list(value.shape), data]}
    if isinstance(value, tuple):
        return {TUPLE: [packed(part) for part in value]}
    if isinstance(value, list):
        return [packed(part) for part in value]
    if isinstance(value, np.generic):
        return value.item()
    return value


def unpacked(value: Any) -> Any:
    if isinstance(value, list):
        return [unpacked(part) for part in value]
    if isinstance(value, dict) and ARRAY in value:
        kind, shape, data = value[ARRAY]
        dtype = np.dtype(kind)
        if dtype.hasobject:
            raise ValueError("an array of objects")
        return np.frombuffer(base64.b64decode(data, validate=True), dtype).reshape(shape)
    if isinstance(value, dict) and TUPLE in value:
        return tuple(unpacked(part) for part in value[TUPLE])
    return value
