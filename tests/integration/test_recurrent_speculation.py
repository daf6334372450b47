"""Families with short convolutions, Mamba or Mamba2 layers draft, and say what mlx-lm says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from paceline.cache.slot_plan import LAYOUTS
from paceline.engine.lookup import LookupProposer
from paceline.engine.proposer import Offer
from paceline.engine.sequence import Sequence
from paceline.engine.warmup import check_steps
from paceline.models import check
from paceline.models.loader import load
from paceline.types import LONGEST_DRAFT
from tests.engine.proposing import Oracle
from tests.engine.stepper import BUCKETED, Stepper, loaded
from tests.engine.watched import prompt, usage
from tests.integration.test_preemption import disturb
from tests.integration.test_speculation_methods import SIZES, stepper_for, truths
from tests.reference import greedy_text
from tests.synthetic.recurrent_families import NAMES, build

LONG = 40
Folder = Callable[[str], Path]


@pytest.fixture(scope="session")
def recurrent(tmp_path_factory: pytest.TempPathFactory) -> Folder:
    home = tmp_path_factory.mktemp("recurrent")

    def folder(name: str) -> Path:
        path = home / name
        return path if path.exists() else build(name, path)

    return folder


@pytest.mark.thin(9)
@pytest.mark.parametrize("layout", [*LAYOUTS, *BUCKETED])
@pytest.mark.parametrize("name", NAMES)
def test_drafts_of_every_length_and_every_mistake_change_no_token(recurrent: Folder, name: str, layout: str) -> None:
    folder = recurrent(name)
    answers = truths(folder, SIZES, LONG)
    oracle = Oracle(answers, len(layout))
    stepper = stepper_for(folder, oracle, layout, methods=("lookup",), chunk=40)
    heard = []
    for place, size in enumerate(SIZES):
        heard.append(stepper.greedy(str(size), prompt(size), LONG - place))
        stepper.step(place % 3)
    stepper.finish()
    for place, (size, each) in enumerate(zip(SIZES, heard, strict=True)):
        assert each.tokens == answers[str(size)][: LONG - place]
    assert sum(usage(each).accepted_tokens for each in heard) > 0
    assert sum(usage(each).rejected_tokens for each in heard) > 0
    assert max(oracle.offered) > LONGEST_DRAFT // 2


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_alone_too_when_exactly_so_many_tokens_are_rejected(recurrent: Folder, name: str) -> None:
    """Drafts of one length, of which the first wrong token is the first, the second, and so on."""
    folder = recurrent(name)
    text = greedy_text(folder, prompt(9), LONG)
    for right in range(6):
        stepper = stepper_for(folder, WrongAfter({"9": text}, right), "rows", methods=("lookup",))
        heard = stepper.greedy("9", prompt(9), LONG)
        stepper.finish()
        assert heard.tokens == text
        assert usage(heard).rejected_tokens > 0 and (usage(heard).accepted_tokens > 0) == (right > 0)


class WrongAfter(Oracle):
    """Six tokens are offered, of which the first `right` are right."""

    def __init__(self, answers: dict[str, list[int]], right: int) -> None:
        super().__init__(answers, 0, wrong=0.0, silent=0.0)
        self.right = right

    def offer(self, seq: Sequence) -> Offer | None:
        if super().offer(seq) is None:
            return None
        tokens = list(self.answers[str(seq.id)][len(seq.generated) : len(seq.generated) + 6])
        tokens[self.right :] = [(token + 1) % self.vocab for token in tokens[self.right :]]
        return Offer(self.method, tuple(tokens), (0.99,) * len(tokens))


@pytest.mark.thin(7)
@pytest.mark.parametrize("traces", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_lookup_drafts_an_answer_that_was_given_before(recurrent: Folder, name: str, traces: bool) -> None:
    folder = recurrent(name)
    answers = truths(folder, SIZES[:3], LONG)
    layout = "padded+buckets" if traces else "rows"
    lookup = [LookupProposer()]
    stepper = Stepper(
        folder, layout, speculation="auto", methods=("lookup",), proposers=lookup, chunk=64, traces=traces
    )
    for turn in ("first", "again"):
        heard = [stepper.greedy(f"{turn} {size}", prompt(size), LONG) for size in SIZES[:3]]
        stepper.finish()
        assert [each.tokens for each in heard] == list(answers.values())
    assert sum(usage(each).accepted_tokens for each in heard) > LONG // 4


@pytest.mark.parametrize("name", NAMES)
def test_prompts_that_are_padded_and_traced_as_on_a_gpu_change_no_token(recurrent: Folder, name: str) -> None:
    folder = recurrent(name)
    answers = truths(folder, SIZES[:2], 4)
    stepper = Stepper(folder, "padded+buckets", chunk=64, traces=True)
    for turn in range(3):  # plain, then traced, then by the trace
        heard = [stepper.greedy(f"{turn} {size}", prompt(size), 4) for size in SIZES[:2]]
        stepper.finish()
        assert [each.tokens for each in heard] == list(answers.values())
    assert stepper.runner.prompts.traced_calls > 0


@pytest.mark.slow
@pytest.mark.parametrize("cache", [None, 1 << 30])
@pytest.mark.parametrize("name", NAMES)
def test_preempted_and_restored_rows_say_the_same(recurrent: Folder, name: str, cache: int | None) -> None:
    folder = recurrent(name)
    answers = truths(folder, SIZES, LONG)
    stepper = stepper_for(folder, Oracle(answers, 6), cache=cache)
    heard = [stepper.greedy(str(size), prompt(size), LONG) for size in SIZES]
    disturb(stepper, 3, 0.2)
    assert [each.tokens for each in heard] == list(answers.values())


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_it_drafts_for_another_model(recurrent: Folder, tiny: Callable[..., Path], name: str) -> None:
    """Its batch reads rows of different lengths together."""
    folder = tiny("llama", layers=2)
    answers = truths(folder, SIZES, LONG)
    stepper = Stepper(folder, speculation=3, methods=("draft_model",), draft=recurrent(name), chunk=48)
    heard = [stepper.greedy(str(size), prompt(size), LONG) for size in SIZES]
    stepper.finish()
    assert [each.tokens for each in heard] == list(answers.values())
    assert sum(usage(each).rejected_tokens for each in heard) > 0


@pytest.mark.thin(7)
@pytest.mark.parametrize("name", NAMES)
def test_the_check_at_start_lets_it_draft(recurrent: Folder, name: str, caplog: pytest.LogCaptureFixture) -> None:
    model = loaded(recurrent(name))
    check_steps(model, LAYOUTS["similar"])
    assert model.no_rollback is None and caplog.messages == []


def test_where_the_check_disagrees_nothing_is_drafted_and_the_log_says_so(
    recurrent: Folder, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    model = load(str(recurrent("lfm2")), "float32")
    monkeypatch.setattr(check, "rolls_back", lambda *arguments: False)
    check_steps(model, LAYOUTS["similar"])
    assert model.no_rollback is not None and "plain decoding" in model.no_rollback
    assert caplog.messages == [f"nothing is drafted for this model: {model.no_rollback}"]
