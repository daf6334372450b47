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


@pytest.mark.parametrize("sizes", [{"layers": 12, "intermediate": 96}, {"hidden": 48, "intermediate": 96}])
def test_more_layers_and_wider_ones_change_nothing_at_first(sizes: dict[str, Any]) -> None:
    torch.manual_seed(0)
    old = replace(OLD, eps=1e-12)  # whose share of a mean over more numbers is larger
    small = _random(model.Model(old, torch.float64).double())
    large = model.Model(replace(old, **sizes), torch.float64).double()
    large.load_state_dict(grown(small.state_dict(), large))
    tokens = torch.randint(0, 250, (2, 128))
    rotation = small.rotation(model.counting(2, 128, tokens.device))
    with torch.no_grad():
        ours, theirs = (net(net.embed(tokens), rotation) for net in (large, small))
        torch.testing.assert_close(ours @ large.table.T, theirs @ small.table.T)
        rows = model.Rows(2, 128)
        heads = [
            net.mtp(net.embed(tokens).flatten(0, 1), states.flatten(0, 1), rotation, rows) @ net.table.T
            for net, states in ((large, ours), (small, theirs))
        ]
    torch.testing.assert_close(*heads)


def test_all_that_is_new_learns() -> None:
    torch.manual_seed(0)
    small = _random(model.Model(replace(OLD, eye=SMALL.eye)))
    large = model.Model(replace(OLD, eye=SMALL.eye, hidden=48, intermediate=96))
    large.load_state_dict(grown(small.state_dict(), large))
    tokens = torch.randint(0, 250, (2, 128))
    rotation = small.rotation(model.counting(2, 128, tokens.device))
    for _ in range(2):  # what reads new numbers learns when something writes them
        states = large(large.embed(tokens), rotation)
        rows = model.Rows(2, 128)
        heads = large.mtp(large.embed(tokens).flatten(0, 1), states.flatten(0, 1), rotation, rows)
        loss = sum((x @ large.table.T).logsumexp(-1).mean() for x in (states, heads))
        named = [(name, weight) for name, weight in large.named_parameters() if "visual" not in name]
        found = torch.autograd.grad(loss, [weight for _, weight in named])
        for (_, weight), change in zip(named, found, strict=True):
            weight.data.sub_(0.1 * change)
    for (name, weight), change in zip(named, found, strict=True):
        if weight.ndim == 2 and 48 in weight.shape:
            new = change[32:] if weight.shape[0] == 48 and "fc" not in name else change[:, 32:48]
            assert new.abs().max() > 0, name


def test_layers_come_in_whole_groups() -> None:
    small, large = model.Model(OLD), model.Model(replace(OLD, layers=10))
    with pytest.raises(ValueError, match="whole number of groups"):
        grown(small.state_dict(), large)


def test_other_sizes_cannot_grow() -> None:
    small, large = model.Model(OLD), model.Model(replace(OLD, head_dim=64))
    with pytest.raises(ValueError, match="cannot grow"):
        grown(small.state_dict(), large)
