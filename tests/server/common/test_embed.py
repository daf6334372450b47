"""Vectors that are cut; the endpoints' tests have the rest."""

from __future__ import annotations

import numpy as np
import pytest

from paceline.errors import InvalidRequest
from paceline.server.common.embed import check_count, cut


def test_a_cut_vector_has_length_one_again() -> None:
    vector = (np.array([3, 4, 12]) / 13).astype(np.float32)
    assert cut(vector, None) is vector and cut(vector, 3) is vector
    assert cut(vector, 2).tolist() == pytest.approx([0.6, 0.8])
    assert cut(np.zeros(3, dtype=np.float32), 2).tolist() == [0, 0]


def test_there_is_a_limit_on_texts() -> None:
    check_count("input", 2048)
    with pytest.raises(InvalidRequest, match="2049"):
        check_count("input", 2049)
