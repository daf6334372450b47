"""Whether the memory suffices, in numbers. Unless a test says otherwise, a slot costs a byte and nothing else does."""

from __future__ import annotations

import pytest

from paceline.cache.memory_model import AttentionCost, MemoryModel
from paceline.cache.slot_plan import PADDED, SIMILAR
from paceline.engine.admission import AHEAD, GROWTH
from paceline.engine.prefill_budget import MIN_CHUNK
from paceline.engine.queueing import DEFAULT_OUTPUT
from paceline.engine.sequence import Sequence
from paceline.errors import NeverFits
from tests.engine.simulator import admission, seq

GIGABYTE = 10**9


def say(each: Sequence, tokens: int) -> Sequence:
    """As if it had read its prompt and said so much."""
    each.computed.tokens = len(each.context) - 1
    each.generated, each.scheduled = [0] * tokens, tokens
    return each


# -- never


def test_a_prompt_that_can_never_fit_is_refused_with_the_numbers() -> None:
    tight = admission(2 * GIGABYTE, token=1_000_000, weights=5 * GIGABYTE)
    with pytest.raises(NeverFits) as refusal:
        tight.check(3000, place="prompt")
    assert "3000 tokens needs 3.07 GB" in str(refusal.value)
    assert "has 2.00 GB beside the model" in str(refusal.value)
    assert (refusal.value.field, refusal.value.code) == ("prompt", "memory_limit_exceeded")


def test_what_others_hold_now_does_not_matter_for_never() -> None:
    full = admission(1024)
    full.budget.hold("sequences", 1024)
    full.budget.hold("prefixes", 1024)
    full.check(1000)


def test_the_headroom_is_not_for_requests() -> None:
    full = admission(1024)
    full.budget.headroom = 1
    with pytest.raises(NeverFits):
        full.check(1000)


def test_the_least_chunk_and_the_images_count_too() -> None:
    admission(1024).check(1000)
    with pytest.raises(NeverFits):
        admission(1024, chunk_token=1.0).check(1000)
    admission(1024 + MIN_CHUNK, chunk_token=1.0).check(1000)
    with pytest.raises(NeverFits):
        admission(1024, media_byte=1.0).check(1000, [5])
    admission(1029, media_byte=1.0).check(1000, [5])


@pytest.mark.parametrize("prompt", [1, 2, 31, 500, 5000])
@pytest.mark.parametrize("window", [None, 24, 512])
def test_what_is_not_refused_may_come_in_alone_and_say_something(prompt: int, window: int | None) -> None:
    """The numbers of `check`, of letting in and of going on agree: to the byte."""
    rules = admission(0, width=4, chunk_token=3.0, chunk_pair=0.1, decode_token=50.0, media_byte=1.0, encode_byte=2.0)
    rules.memory_model = MemoryModel(
        (AttentionCost(None, 2), AttentionCost(window, 3)),
        state=100,
        chunk_token=3.0,
        chunk_pair=0.1,
        decode_token=50.0,
        media_byte=1.0,
        encode_byte=2.0,
    )
    new = seq(prompt, patches=[7])
    low, high = 0, 10**7
    while low < high:  # the least memory with which it is not refused
        rules.budget.limit = (low + high) // 2
        try:
            rules.check(prompt, new.media_costs)
            high = rules.budget.limit
        except NeverFits:
            low = rules.budget.limit + 1
    rules.budget.limit = low
    assert rules.fits([], new)
    assert not rules.exceeds_memory(new)
    assert not rules.exceeds_memory(say(new, 1))


# -- how long sequences become


def test_a_sequence_is_priced_by_what_it_is_expected_to_say_and_never_by_max_tokens_alone() -> None:
    rules = admission(1)
    assert rules.expected_length(seq(100, limit=100_000)) == 100 + DEFAULT_OUTPUT
    assert rules.expected_length(seq(100, limit=5)) == 105


def test_what_is_expected_is_learnt() -> None:
    rules = admission(1)
    for _ in range(64):
        rules.output_estimate.observe(700)
    assert rules.expected_length(seq(100, limit=100_000)) == 800


def test_a_sequence_that_says_more_than_expected_is_expected_to_go_on() -> None:
    rules = admission(1)
    assert rules.expected_length(say(seq(100, limit=100_000), 1000)) == 100 + 1000 + GROWTH
    assert rules.expected_length(say(seq(100, limit=1010), 1000)) == 100 + 1010


# -- now


def test_a_sequence_fits_beside_others_if_all_can_become_as_long_as_expected() -> None:
    rules = admission(3 * 512)
    running = [seq(100), seq(100)]  # each will have 356 tokens: 512 slots
    assert rules.fits(running, seq(100))
    assert not rules.fits([*running, seq(100)], seq(100))
    assert not rules.fits(running, seq(300))


def test_prefixes_count_as_free() -> None:
    rules = admission(512)
    rules.budget.hold("prefixes", 512)
    assert rules.fits([], seq(100))


def test_alone_a_sequence_may_begin_even_if_it_may_exceed_the_memory() -> None:
    rules = admission(512)
    assert rules.fits([], seq(500))
    assert not rules.fits([], seq(520))
    assert not rules.fits([seq(1, limit=1)], seq(500))


def test_padding_is_paid_for() -> None:
    rules = admission(2 * 4096)
    long = seq(3800)
    assert rules.fits([long], seq(10))
    rules.memory_model = MemoryModel((AttentionCost(None, 1),), grouping=PADDED)
    assert rules.fits([long], seq(10))
    assert not rules.fits([long, seq(10)], seq(10))
    rules.memory_model = MemoryModel((AttentionCost(None, 1),), grouping=SIMILAR)
    assert rules.fits([long, seq(10)], seq(10))


def test_sequences_that_share_a_buffer_pay_for_its_longest_though_their_lengths_differ_by_now() -> None:
    rules = admission(10_000)
    rules.memory_model = MemoryModel((AttentionCost(None, 1),), grouping=SIMILAR)
    short, long = say(seq(10), 20), say(seq(500), 1000)
    apart = rules.used([short, long], 0)
    short.computed.group = long.computed.group = 1
    assert (apart, rules.used([short, long], 0)) == (256 + 1536, 2 * 1536)


def test_what_is_still_to_be_read_is_counted_before_it_is_read() -> None:
    rules = admission(3000)
    reading = seq(2900)
    assert rules.used([reading], 0) == 0
    assert rules.left([reading]) == 3000 - 3072
    assert rules.left([seq(100), reading]) < rules.left([reading])


def test_no_sequence_is_taken_to_become_longer_than_it_may() -> None:
    rules = admission(256)
    assert rules.left([say(seq(250, limit=6), 1)]) == 0
    assert rules.left([say(seq(250, limit=1000), 1)]) < 0


def test_who_is_let_in_is_not_at_once_too_much() -> None:
    rules = admission(0)
    for prompt in range(1, 1500, 7):
        running, new = [say(seq(prompt), 300)], seq(prompt // 2 + 1)
        rules.budget.limit = rules.reserved([*running, new], MIN_CHUNK)
        assert rules.fits(running, new)
        assert rules.left([*running, new]) >= rules.reading([*running, new], MIN_CHUNK)
    assert AHEAD < GROWTH


# -- chunks


def test_the_chunk_shrinks_by_halves_until_it_fits_but_not_below_the_least() -> None:
    rules = admission(1_000_000, chunk_token=10.0)
    reading = [seq(3000)]
    assert rules.chunk(reading, 512, 5120) == 512
    assert rules.chunk(reading, 512, 5119) == 256
    assert rules.chunk(reading, 512, 700) == 64
    assert rules.chunk(reading, 512, 0) == MIN_CHUNK
    assert rules.chunk(reading, 8, 0) == 8


def test_sequences_that_only_decode_do_not_shrink_the_chunk() -> None:
    rules = admission(10, chunk_token=10.0)
    assert rules.chunk([say(seq(10), 1)], 512, 0) == 512


# -- the account


def test_the_account_says_what_sequences_hold_what_they_were_promised_and_what_steps_take() -> None:
    rules = admission(10_000, chunk_token=2.0, decode_token=3.0, media_byte=1.0)
    rules.account([say(seq(100), 200), seq(50, patches=[9])], 64)
    parts = rules.budget.held()
    assert parts["sequences"] == 512
    assert parts["reserved"] == 512 + 512 - 512
    assert parts["activations"] == 2 * 3 + 50 * 2
    assert parts["sequence images"] == 9


def test_when_nobody_is_there_nothing_is_held() -> None:
    rules = admission(10_000, chunk_token=2.0, decode_token=3.0, media_byte=1.0)
    rules.account([seq(50, patches=[9])], 64)
    rules.account([], 64)
    assert set(rules.budget.held().values()) == {0}


def test_the_status_has_every_part() -> None:
    rules = admission(1000, weights=24)
    rules.account([say(seq(100), 1)], 64)
    stats = rules.stats()
    assert stats.limit_bytes == 1024
    assert stats.parts["sequences"] == 256
    assert stats.free_bytes == 1000 - 512
    assert stats.expected_output_tokens == DEFAULT_OUTPUT


def test_between_two_steps_a_sequence_that_reads_holds_its_own_buffers_and_the_features_of_its_images() -> None:
    rules = admission(100_000, weights=24, media_byte=1.5)
    rules.memory_model = MemoryModel((AttentionCost(None, 1),), state=7, media_byte=1.5, grouping=PADDED)
    for name, size in {"prefixes": 1000, "draft prefixes": 2000, "images": 4000, "reserved": 50_000}.items():
        rules.budget.hold(name, size)
    kept = 24 + 1000 + 2000 + 4000
    assert rules.held([]) == kept
    short, long, reading = say(seq(10), 20), say(seq(500), 1000), seq(700, patches=[9])
    reading.computed.tokens = 300
    together, apart, pictures = 2 * 1536 + 2 * 7, 512 + 7, 13
    assert rules.held([short, long, reading]) == kept + together + apart + pictures
    long.media_costs = (100,)  # it has read them
    assert rules.held([long]) == kept + 1536 + 7


# -- drafts that score prompts


def test_a_draft_is_paid_for_while_a_prompt_is_still_to_be_scored_and_one_at_a_time() -> None:
    rules = admission(100_000)
    first, second, plain = seq(100), seq(300), seq(2000)
    first.sparse.decided = second.sparse.decided = False
    without = rules.used([first, second, plain], 0)
    rules.scoring = lambda tokens: 10 * tokens
    assert rules.used([first, second, plain], 0) == without + 3000
    rules.account([first, second, plain], 0)
    assert rules.budget.held()["draft"] == 3000
    second.sparse.decided = True
    rules.account([first, second, plain], 0)
    assert rules.budget.held()["draft"] == 1000
    first.sparse.decided = True
    rules.account([first, second, plain], 0)
    assert rules.budget.held()["draft"] == 0
