"""What can be tried without other ranks; `tests/integration/test_ranks.py` has those."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import mlx.core as mx
import mlx.nn as nn
import pytest

from paceline.errors import LoadError
from paceline.models import sharding
from paceline.models.sharding import Sharding, splittable, whole_logits
from tests.engine.stepper import loaded


class Model(nn.Module):  # type: ignore[misc]
    """Halves its weight, as a rank of two would."""

    def __init__(self, *, fails: bool = False, splits: bool = True) -> None:
        super().__init__()
        self.weight = mx.random.normal((8, 200), key=mx.random.key(0))
        self._fails, self._splits = fails, splits

    layers = ()

    def __call__(self, tokens: mx.array, cache: Any = None) -> mx.array:
        return self.weight.T[tokens]

    def shard(self, group: Any) -> None:
        if self._fails:
            raise ValueError("8 heads cannot be divided by 3")
        if self._splits:
            self.weight = self.weight[:4]


class Unsplittable(nn.Module): ...  # type: ignore[misc]


def made() -> Sharding:
    return Sharding(SimpleNamespace(rank=lambda: 1, size=lambda: 2))


def test_a_family_without_shard_is_refused() -> None:
    with pytest.raises(LoadError, match=r"gpt2 cannot be split over ranks: mlx-lm has no shard\(\)"):
        made().split(Unsplittable(), {"model_type": "gpt2"}, [])


def test_what_does_not_divide_is_refused() -> None:
    with pytest.raises(LoadError, match="over 2 ranks: 8 heads cannot be divided"):
        made().split(Model(fails=True), {"model_type": "m"}, [])


def test_a_shard_that_splits_nothing_is_refused() -> None:
    with pytest.raises(LoadError, match="changed nothing"):
        made().split(Model(splits=False), {"model_type": "m"}, [])


def test_parts_that_are_not_the_whole_are_refused() -> None:
    module, parts = Model(), made()
    parts.split(module, {"model_type": "m"}, [])
    assert module.weight.shape == (4, 200)
    module.weight = mx.concatenate([module.weight, module.weight])
    with pytest.raises(LoadError, match="gives other logits over 2 ranks"):
        parts.check(module)


def test_parts_that_are_the_whole_are_accepted() -> None:
    module, parts = Model(), made()
    whole = module.weight
    parts.split(module, {"model_type": "m"}, [])
    module.weight = whole
    parts.check(module)
    assert parts.error == 0


def test_a_model_that_is_too_large_is_not_compared_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sharding, "LARGEST_REFERENCE", 10)
    module, parts, notes = Model(), made(), list[str]()
    parts.split(module, {"model_type": "m"}, notes)
    parts.check(module)
    assert notes == [sharding.WHOLE] and parts.error is None


def test_the_text_model_inside_is_split_where_the_model_has_no_shard() -> None:
    outer = Unsplittable()
    assert splittable(outer) is None
    outer.language_model = Model()
    assert splittable(outer) is outer.language_model


def test_a_head_that_is_not_split_is_used_as_it_is(llama: Path) -> None:
    inner = loaded(llama).language.inner
    assert whole_logits(inner) is inner.lm_head
