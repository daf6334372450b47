from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from paceline.conversation.text import ByteDetokenizer, TextStream
from paceline.engine.masking import bits_of
from paceline.engine.sequence import EngineRequest, Sequence, Siblings
from paceline.engine.speculation_policy import SpeculationMode
from paceline.parallel import wire
from paceline.types import Media, MediaInputs, Prompt, RequestId, Sampling, SamplingTokens, ThinkMarks

VOCABULARY = 100


def sequence(name: str, **more: Any) -> Sequence:
    request = EngineRequest(RequestId(name), more.pop("prompt", Prompt((1, 2, 3))), Sampling(), 8, **more)
    return Sequence(request, TextStream(ByteDetokenizer(lambda token: b"")), lambda delta: None)


def sent(seq: Sequence, sequences: wire.Sequences | None = None) -> Sequence:
    """The same on another rank."""
    return (sequences or wire.Sequences(VOCABULARY)).made(json.loads(json.dumps(wire.record(seq))))


def test_a_sequence_is_the_same_on_another_rank() -> None:
    sampling = Sampling(
        temperature=0.3,
        logit_bias={5: -1.5, 7: float("inf")},
        stop=("a", "b"),
        stop_token_ids=(9,),
        seed=4,
        prompt_logprobs=2,
    )
    words = SamplingTokens(frozenset({1, 2}), ((3, 4), (5,)), ThinkMarks((6,), 7, (7, 8)))
    prompt = Prompt((1, 2, 3), boundaries=(1, 2), system=1, salt="s", pooling="last")
    mode = SpeculationMode(None, "because", ("mtp", "lookup"))
    request = EngineRequest(RequestId("a"), prompt, sampling, 8, mode, frozenset({50, 51}), tokens=words)
    seq = Sequence(request, TextStream(ByteDetokenizer(lambda token: b"")), lambda delta: None)
    seq.queue.arrived = 12.5
    other = sent(seq)
    assert (other.id, other.prompt, other.sampling, other.speculation) == (seq.id, prompt, sampling, mode)
    assert (other.request.tokens, other.stop_ids, other.max_tokens) == (words, seq.stop_ids, seq.max_tokens)
    assert (other.number, other.seed, other.queue.arrived) == (seq.number, seq.seed, 12.5)
    assert other.grammar is None


def test_a_sampled_sequence_has_the_seed_of_rank_0() -> None:
    seq = sequence("a")
    assert sent(seq).seed == seq.seed


def test_a_grammar_is_anything_on_other_ranks() -> None:
    seq = sequence("a")
    seq.grammar = wire.AnyToken(VOCABULARY)
    grammar = sent(seq).grammar
    assert isinstance(grammar, wire.AnyToken)
    allowed, heirs = bits_of(grammar, (1, 2), (3,))
    assert allowed.shape == (3, 4) and (allowed == 0xFFFFFFFF).all() and heirs is None
    assert not list(grammar.forced()) and grammar.allowed(()).all()
    grammar.accept(3)


def test_choices_of_a_request_know_each_other_on_other_ranks() -> None:
    choices = [sequence("a/0"), sequence("a/1")]
    siblings = Siblings(choices)
    for seq in choices:
        seq.siblings = siblings
    sequences = wire.Sequences(VOCABULARY)
    others = [sent(seq, sequences) for seq in (*choices, sequence("b/0"))]
    assert others[0].siblings is others[1].siblings
    assert [seq.id for seq in others[0].siblings] == ["a/0", "a/1"]
    assert others[2].siblings is not others[0].siblings


def test_media_travel_as_arrays() -> None:
    inputs = MediaInputs(
        pixels=np.arange(6, dtype=np.float32).reshape(2, 3), bounds=(np.array([1, 2]), [3, "x"]), size=np.int64(4)
    )
    medium = Media("ab", 2, 7, (6, 7, 7), "<img>", 24, "video", inputs)
    other = sent(sequence("a", prompt=Prompt((6, 7, 7), (medium,)))).prompt.media[0]
    assert other == medium
    np.testing.assert_array_equal(other.inputs["pixels"], inputs["pixels"])
    assert other.inputs["pixels"].dtype == np.float32
    np.testing.assert_array_equal(other.inputs["bounds"][0], [1, 2])
    assert isinstance(other.inputs["bounds"], tuple) and other.inputs["bounds"][1] == [3, "x"]
    assert other.inputs["size"] == 4


def test_arrays_of_objects_are_refused() -> None:
    with pytest.raises(ValueError, match="objects"):
        wire.unpacked({wire.ARRAY: ["|O", [1], "AAAAAAAAAAA="]})


def test_what_is_no_record_is_refused() -> None:
    with pytest.raises(ValidationError):
        wire.Sequences(VOCABULARY).made({"id": "a"})
