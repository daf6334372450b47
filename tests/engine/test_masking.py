from __future__ import annotations

import io
import re
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from paceline.engine.masking import MaskCache, PackedMasks, _compiled, _lanes, masked, packed
from paceline.types import INHERITS

VIEWS = ("ExpandDims", "Squeeze", "Reshape")  # of an array, which run nothing
SCORES = [2.0, 0.0, -1.0, -3.0, -4.0]


def chances(scores: mx.array) -> list[float]:
    return np.array(mx.softmax(scores, axis=-1)).round(5).tolist()  # type: ignore[no-any-return]


def test_a_plain_mask_leaves_what_is_allowed() -> None:
    found = masked(mx.array(SCORES), mx.array([False, True, False, True, False]))
    assert found.tolist() == [-mx.inf, 0.0, -mx.inf, -3.0, -mx.inf]


def test_what_is_refused_goes_to_the_heirs_in_proportion() -> None:
    """Token 1 begins a call; 3 and 4 begin the text; the model wants neither, but prose."""
    before = chances(mx.array(SCORES))
    mask = mx.array([0, 1, 0, INHERITS, INHERITS], dtype=mx.uint8)
    after = chances(masked(mx.array(SCORES), mask))
    assert abs(after[1] - before[1]) < 1e-4, "a call is as likely as it was"
    assert abs(after[3] + after[4] - (1 - before[1])) < 1e-4
    assert abs(after[3] / after[4] - before[3] / before[4]) < 0.05
    assert after[0] == after[2] == 0


def test_rows_and_positions_do_not_touch_each_other() -> None:
    scores = mx.array([[SCORES, SCORES[::-1]], [SCORES, SCORES]])
    masks = np.ones((2, 2, 5), dtype=np.uint8)
    masks[0, 1] = [INHERITS, INHERITS, 0, 1, 0]
    both = masked(scores, mx.array(masks))
    assert both[1].tolist() == scores[1].tolist() and both[0, 0].tolist() == SCORES
    assert both[0, 1].tolist() == masked(scores[0, 1], mx.array(masks[0, 1])).tolist()


def test_heirs_that_are_banned_stay_banned() -> None:
    scores = mx.array([1.0, -mx.inf, -mx.inf])
    found = masked(scores, mx.array([1, INHERITS, INHERITS], dtype=mx.uint8))
    assert found.tolist() == [1.0, -mx.inf, -mx.inf]


@pytest.mark.parametrize("vocabulary", [5, 32, 33, 100])
@pytest.mark.parametrize("inherits", [False, True])
def test_masks_as_bits_do_what_dense_masks_do_and_touch_no_other_row(vocabulary: int, inherits: bool) -> None:
    random = np.random.default_rng(vocabulary)
    scores = mx.array(random.normal(size=(4, 3, vocabulary)).astype(np.float32))
    values = random.integers(0, 3 if inherits else 2, (2, 3, vocabulary))
    dense: Any = values.astype(np.uint8) if inherits else values.astype(np.bool_)
    masks = PackedMasks.of({1: packed(dense[0]), 3: packed(dense[1, :2])}, 4, 3)
    found = masks.apply(scores)
    rows: dict[int, Any] = {0: None, 1: dense[0], 2: None, 3: dense[1].copy()}
    rows[3][2] = 1  # no mask: all is allowed
    for row, mask in rows.items():
        expected = scores[row] if mask is None else masked(scores[row], mx.array(mask))
        np.testing.assert_allclose(np.array(found[row]), np.array(expected), rtol=1e-6)
        for place in range(3):
            alone = masks.at(place).apply(scores[:, place])
            np.testing.assert_allclose(np.array(alone[row]), np.array(expected[place]), rtol=1e-6)
    single = PackedMasks.of({1: packed(dense[0, :1]), 3: packed(dense[1, :1])}, 4, None)
    np.testing.assert_array_equal(np.array(single.apply(scores[:, 0])), np.array(masks.at(0).apply(scores[:, 0])))


@pytest.mark.parametrize(("masks", "kernels"), [(1, 1), (2, 2)])
def test_plain_masks_are_one_kernel_and_the_choice_among_several(masks: int, kernels: int) -> None:
    """Compiled, as on a GPU: each launch is the host's time, beside a batch of rows that have no mask."""
    scores = mx.zeros((5, 64))
    mx.eval(scores)
    found = PackedMasks.of({row: packed(np.ones((1, 64), dtype=np.bool_)) for row in range(masks)}, 5, None)
    out = io.StringIO()
    mx.export_to_dot(out, _compiled(scores, found.which, found.free, found.bits, found.inheriting, _lanes()))
    operations = [name for name in re.findall(r'label ="(\w+)"', out.getvalue()) if name not in VIEWS]
    assert len(operations) == kernels, operations


def test_a_mask_is_sent_once_and_the_oldest_is_dropped() -> None:
    cache = MaskCache(2)
    buffer = np.zeros((1, 3), dtype=np.uint32)  # a grammar writes all its masks into one array
    sent = []
    for number in (1, 2, 1, 3, 1, 2):
        buffer[:] = number
        sent.append(cache(buffer))
        assert (np.array(sent[-1]) == number).all()
    assert sent[0] is sent[2] is sent[4] and sent[5] is not sent[1]
