"""Which sequence broke a step: told what fails, it says who is set apart and who is to blame."""

from __future__ import annotations

import random

import pytest

from paceline.engine.fault_isolation import FaultIsolation, Verdict, is_out_of_memory
from paceline.engine.sequence import Sequence
from tests.engine.simulator import seq


def seqs(count: int, *, proven: bool = True) -> list[Sequence]:
    made = [seq(10) for _ in range(count)]
    for each in made:
        each.proven = proven
    return made


def search(
    suspects: FaultIsolation, everyone: list[Sequence], guilty: list[Sequence], most: int = 200
) -> tuple[list[Sequence], int]:
    """Step all that may ride until nothing is looked into any more; who was blamed, and how many steps failed."""
    blamed, failures = [], 0
    for _ in range(most):
        riding = [each for each in everyone if each.finished is None and suspects.may_run(each)]
        if any(each in guilty for each in riding):
            failures += 1
            verdict = suspects.failed(riding)
            if verdict.culprit is not None:
                verdict.culprit.finished = "error"
                suspects.remove(verdict.culprit)
                blamed.append(verdict.culprit)
        else:
            suspects.succeeded(riding)
            if not suspects.active:
                return blamed, failures
    raise AssertionError("the search does not end")


def test_the_newest_members_are_set_apart_first() -> None:
    suspects = FaultIsolation()
    old, new = seqs(3), seqs(2, proven=False)
    assert suspects.failed([*old, *new]) == Verdict(tuple(new))
    assert suspects.active
    assert all(suspects.may_run(each) and not suspects.is_suspect(each) for each in old)
    assert all(suspects.is_suspect(each) for each in new)


def test_nobody_new_rides_before_the_others_have_shown_that_they_can_do_without() -> None:
    suspects = FaultIsolation()
    old, new = seqs(3), seqs(2, proven=False)
    suspects.failed([*old, *new])
    assert not any(suspects.may_run(each) for each in new)
    suspects.succeeded(old)
    assert all(suspects.may_run(each) for each in new)


def test_who_has_just_come_is_not_blamed_for_an_old_sequences_fault() -> None:
    suspects = FaultIsolation()
    old, new = seqs(3), seqs(1, proven=False)
    blamed, _ = search(suspects, [*old, *new], [old[1]])
    assert blamed == [old[1]]


def test_a_step_of_old_sequences_is_tried_again_as_it_is() -> None:
    suspects = FaultIsolation()
    everyone = seqs(4)
    assert suspects.failed(everyone) == Verdict()
    assert suspects.active and all(suspects.may_run(each) for each in everyone)


def test_a_fault_that_does_not_come_back_clears_everybody() -> None:
    suspects = FaultIsolation()
    everyone = seqs(4)
    suspects.failed(everyone)
    suspects.succeeded(everyone)
    assert not suspects.active
    new = seqs(2, proven=False)
    suspects.failed([*everyone, *new])
    assert search(suspects, [*everyone, *new], []) == ([], 0)
    assert all(each.proven for each in new)


def test_sequences_are_tried_in_halves() -> None:
    suspects = FaultIsolation()
    everyone = seqs(5)
    suspects.failed(everyone)
    verdict = suspects.failed(everyone)
    assert verdict == Verdict(tuple(everyone))
    assert suspects.trial == everyone[:3]
    assert [suspects.may_run(each) for each in everyone] == [True] * 3 + [False] * 2
    suspects.succeeded(everyone[:3])
    assert suspects.trial == everyone[3:]


@pytest.mark.parametrize("count", [1, 2, 3, 8, 16, 33])
@pytest.mark.parametrize("proven", [True, False])
def test_a_single_culprit_is_found_in_few_steps(count: int, proven: bool) -> None:
    for guilty in range(count):
        everyone = seqs(count, proven=proven)
        blamed, failures = search(FaultIsolation(), everyone, [everyone[guilty]])
        assert blamed == [everyone[guilty]]
        assert failures <= 2 * count.bit_length() + 4


def test_several_culprits_are_all_found_and_nobody_else() -> None:
    dice = random.Random(3)
    for _ in range(200):
        everyone = seqs(dice.randint(2, 12))
        for each in everyone:
            each.proven = dice.random() < 0.7
        guilty = dice.sample(everyone, dice.randint(1, min(3, len(everyone))))
        blamed, _ = search(FaultIsolation(), everyone, guilty)
        assert sorted(each.number for each in blamed) == sorted(each.number for each in guilty)


def test_one_failure_alone_is_not_enough_to_be_blamed() -> None:
    suspects = FaultIsolation()
    (only,) = seqs(1)
    assert suspects.failed([only]) == Verdict()
    assert suspects.failed([only]) == Verdict(culprit=only)
    assert not suspects.active


def test_a_suspect_that_ends_meanwhile_is_suspected_no_more() -> None:
    suspects = FaultIsolation()
    everyone = seqs(4)
    suspects.failed(everyone)
    suspects.failed(everyone)
    for each in everyone[:2]:
        each.finished = "abort"
        suspects.remove(each)
    assert suspects.trial == everyone[2:]
    assert all(suspects.may_run(each) for each in everyone[2:])


def test_the_trial_does_not_wait_for_sequences_that_have_ended() -> None:
    suspects = FaultIsolation()
    (old,), (new,) = seqs(1), seqs(1, proven=False)
    suspects.failed([old, new])
    assert not suspects.may_run(new)
    suspects.remove(old)
    assert suspects.may_run(new)


def test_a_sequence_that_has_ended_is_never_set_apart() -> None:
    suspects = FaultIsolation()
    everyone = seqs(3)
    everyone[0].finished = "stop"
    suspects.failed(everyone)
    assert suspects.failed(everyone) == Verdict(tuple(everyone[1:]))


def test_a_member_of_the_trial_that_could_not_ride_stays_on_trial() -> None:
    suspects = FaultIsolation()
    everyone = seqs(4)
    suspects.failed(everyone)
    suspects.failed(everyone)
    suspects.succeeded(everyone[:1])  # the second had no place
    assert suspects.trial == [everyone[1]]


def test_a_fault_among_others_meanwhile_loses_and_doubles_nobody() -> None:
    suspects = FaultIsolation()
    old, new, late = seqs(2), seqs(2, proven=False), seqs(1, proven=False)
    suspects.failed([*old, *new])
    verdict = suspects.failed([*old, *late])
    assert sorted(each.number for each in verdict.isolate) == sorted(each.number for each in [*late, *new])
    assert search(suspects, [*old, *new, *late], [old[0]])[0] == [old[0]]


def test_after_the_search_the_next_fault_is_retried_again() -> None:
    suspects = FaultIsolation()
    (only,), others = seqs(1), seqs(2)
    suspects.failed([only])
    suspects.failed([only])
    assert suspects.failed(others) == Verdict()


@pytest.mark.parametrize(
    "message",
    [
        "[metal::malloc] Attempting to allocate 99 bytes which is greater than the maximum allowed buffer size of 9",
        "[metal::malloc] Resource limit (499000) exceeded.",
        "[METAL] Command buffer execution failed: Insufficient Memory (kIOGPUCommandBufferCallbackErrorOutOfMemory)",
        "[malloc_or_wait] Unable to allocate 1073741824 bytes.",
        "cudaMallocAsync(&data, size, stream) failed: out of memory",
        "std::bad_alloc",
        "CUDA error: cannot allocate memory",
    ],
)
def test_the_words_of_each_device_are_known(message: str) -> None:
    assert is_out_of_memory(RuntimeError(message))


def test_pythons_own_error_counts() -> None:
    assert is_out_of_memory(MemoryError())


def test_what_caused_it_counts_too() -> None:
    try:
        try:
            raise RuntimeError("[malloc_or_wait] Unable to allocate 1 bytes.")
        except RuntimeError as inner:
            raise ValueError("a step was lost") from inner
    except ValueError as outer:
        assert is_out_of_memory(outer)
    try:
        try:
            raise MemoryError
        except MemoryError:
            raise ValueError("while it was handled")  # noqa: B904
    except ValueError as outer:
        assert is_out_of_memory(outer)


@pytest.mark.parametrize("error", [None, ValueError("shapes do not match"), RuntimeError(""), KeyError("memory")])
def test_others_are_others(error: BaseException | None) -> None:
    assert not is_out_of_memory(error)


def test_a_circle_of_causes_ends() -> None:
    first, second = ValueError("one"), ValueError("two")
    first.__cause__, second.__cause__ = second, first
    assert not is_out_of_memory(first)
