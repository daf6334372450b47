from __future__ import annotations

from pathlib import Path
from typing import Any

import mlx.core as mx

from training.average import average


def part(path: Path) -> Any:
    return mx.load(str(path))


def test_weights_are_mixed_and_the_rest_is_copied(tmp_path: Path) -> None:
    for name, value in (("one", 1.0), ("two", 3.0)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text(name)
        both: Any = {"a": mx.full((2,), value, mx.bfloat16)}, {"b": mx.full((3,), 10 * value, mx.bfloat16)}
        order = both if name == "one" else both[::-1]  # cut in other parts
        for at, weights in enumerate(order):
            mx.save_safetensors(str(tmp_path / name / f"model-{at}.safetensors"), weights)
    average(tmp_path / "one", tmp_path / "two", 0.25, tmp_path / "out")
    assert (tmp_path / "out/config.json").read_text() == "one"
    assert part(tmp_path / "out/model-0.safetensors")["a"].tolist() == [2.5, 2.5]
    assert part(tmp_path / "out/model-1.safetensors")["b"].tolist() == [25.0] * 3
    assert part(tmp_path / "out/model-0.safetensors")["a"].dtype == mx.bfloat16
