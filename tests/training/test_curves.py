"""The picture of a training run."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from training import curves

LOOKS = [
    {"step": 100 * look, "seconds": 9.0, "rate": 0.5, "losses": {"1024 text": 4.0 - look, "4096 wide": 2.0}}
    for look in (1, 2, 3)
]


def test_a_line_is_the_mean_over_the_last_looks_of_the_kinds_that_are_there() -> None:
    assert curves.series(LOOKS, ["1024 text", "missing"]) == [(100.0, 3.0), (200.0, 2.5), (300.0, 2.0)]
    assert curves.series(LOOKS, ["1024 text", "4096 wide"])[0] == (100.0, 2.5)
    assert curves.series(LOOKS, ["missing"]) == []


def test_the_picture_has_a_line_and_a_label_for_each_kind_that_was_looked_at(tmp_path: Path) -> None:
    curve, out = tmp_path / "curve.json", tmp_path / "curve.svg"
    curve.write_text(json.dumps(LOOKS))
    curves.main([str(curve), str(out)])
    texts = [node.text for node in ElementTree.parse(out).getroot().iter("{http://www.w3.org/2000/svg}text")]
    assert {"text", "long texts, 4k"} <= set(texts) and "pictures" not in texts


def test_a_curve_without_such_kinds_is_refused() -> None:
    with pytest.raises(ValueError, match="none of the kinds"):
        curves.picture([{"step": 1, "losses": {"other": 1.0}}])
