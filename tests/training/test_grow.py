"""A grown model says exactly what the smaller one says."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch", reason="the training model is PyTorch, which Paceline does not need")

from tests.training.test_model import SMALL  # noqa: E402
from training import model  # noqa: E402
from training.grow import grown  # noqa: E402

OLD = replace(SMALL, layers=8, eye=None)


def _random(net: Any) -> Any:
    for weight in net.parameters():
        weight.data.add_(torch.randn_like(weight) * 0.05)
    return net


def test_more_layers_and_wider_ones_change_nothing_at_first() -> None:
    torch.manual_seed(0)
    small = _random(model.Model(OLD, torch.float64).double())
    large = model.Model(replace(OLD, layers=12, intermediate=96), torch.float64).double()
    large.load_state_dict(grown(small.state_dict(), large))
    tokens = torch.randint(0, 250, (2, 128))
    rotation = small.rotation(model.counting(2, 128, tokens.device))
    with torch.no_grad():
        ours, theirs = (net(net.embed(tokens), rotation) for net in (large, small))
        torch.testing.assert_close(ours, theirs)
        rows = model.Rows(2, 128)
        flat = small.embed(tokens).flatten(0, 1)
        heads = [net.mtp(flat, theirs.flatten(0, 1), rotation, rows) for net in (large, small)]
    torch.testing.assert_close(*heads)


def test_layers_come_in_whole_groups() -> None:
    small, large = model.Model(OLD), model.Model(replace(OLD, layers=10))
    with pytest.raises(ValueError, match="whole number of groups"):
        grown(small.state_dict(), large)


def test_other_sizes_cannot_grow() -> None:
    small, large = model.Model(OLD), model.Model(replace(OLD, hidden=48))
    with pytest.raises(ValueError, match="cannot grow"):
        grown(small.state_dict(), large)
