"""The training's model: the fast forms equal the plain ones, and what is exported is what was trained."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch", reason="the training model is PyTorch, which Paceline does not need")

from training import delta, export, model  # noqa: E402
from training.loss import head_loss  # noqa: E402
from training.optim import Optimizer, orthogonal  # noqa: E402
from training.shapes import MINI, Eye, Shape  # noqa: E402

SMALL = Shape(
    hidden=32, layers=4, intermediate=48, heads=2, kv_heads=1, head_dim=32, state_heads=2, state_dim=16, vocab=300
)
SMALL = replace(SMALL, eye=Eye(depth=1, hidden=32, intermediate=48, heads=2, side=4))
PICTURE = 299


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


def inputs(tokens: int, *, same: bool = False) -> list[Any]:
    """Queries, keys, values, decays and betas; `same` keys, hardly fading, are what overflows careless inverses."""
    q, k, v = (torch.randn(2, tokens, 2, 16, dtype=torch.float64) for _ in range(3))
    if same:
        k = k[:, :1].expand_as(k)
    q, k = (torch.nn.functional.normalize(x, dim=-1) for x in (q, k))
    decay = -torch.rand(2, tokens, 2, dtype=torch.float64) * (0.001 if same else 0.5)
    beta = torch.rand(2, tokens, 2, dtype=torch.float64) * (0 if same else 1) + (0.999 if same else 0)
    return [x.clone().requires_grad_() for x in (q, k, v, decay, beta)]


@pytest.mark.parametrize(("chunks", "same"), [(3, False), (3, True), (64, False)])
def test_chunks_equal_the_recurrence(chunks: int, same: bool) -> None:
    """64 chunks take the two-level scan."""
    given = inputs(chunks * delta.CHUNK, same=same)
    plain, fast = delta.recurrent(*given), delta.chunked(*given)
    torch.testing.assert_close(fast, plain, rtol=1e-9, atol=1e-9)
    direction = torch.randn_like(plain)
    wanted = torch.autograd.grad((plain * direction).sum(), given)
    found = torch.autograd.grad((fast * direction).sum(), given)
    for mine, theirs in zip(found, wanted, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-7, atol=1e-8)


def test_inverse_holds_in_float32_where_keys_repeat() -> None:
    ones = torch.ones(4, 64, 64).tril(-1)
    inverse = delta.unit_lower_inverse(ones)
    torch.testing.assert_close(inverse @ (ones + torch.eye(64)), torch.eye(64).expand(4, 64, 64), rtol=0, atol=1e-4)


def test_sequences_laid_end_to_end_do_not_see_each_other() -> None:
    net = model.Model(replace(SMALL, eye=None))
    for weight in net.parameters():
        weight.data.add_(torch.randn_like(weight) * 0.05)
    tokens = torch.randint(0, 250, (3, 128))
    with torch.no_grad():
        together = net(net.embed(tokens), net.rotation(model.counting(3, 128, tokens.device)))
        alone = net(net.embed(tokens[1:2]), net.rotation(model.counting(1, 128, tokens.device)))
    torch.testing.assert_close(together[1:2], alone)


def test_head_loss_is_cross_entropy() -> None:
    hidden = torch.randn(2, 5, 8, dtype=torch.float64, requires_grad=True)
    table = torch.randn(30, 8, dtype=torch.float64, requires_grad=True)
    targets, weights = torch.randint(0, 30, (2, 5)), torch.rand(2, 5, dtype=torch.float64)
    plain = torch.nn.functional.cross_entropy((hidden @ table.T).flatten(0, 1), targets.flatten(), reduction="none")
    total, each = head_loss(hidden, table, targets, weights)
    torch.testing.assert_close(each.flatten(), plain)
    wanted = torch.autograd.grad((plain * weights.flatten()).sum(), (hidden, table))
    found = torch.autograd.grad(total, (hidden, table))
    for mine, theirs in zip(found, wanted, strict=True):
        torch.testing.assert_close(mine, theirs)


def test_positions_spread_over_an_image() -> None:
    row = torch.tensor([[5, PICTURE, PICTURE, PICTURE, PICTURE, 6, 7]])
    found = model.positions_of(row, PICTURE, 2)[:, 0].tolist()
    assert found == [[0, 1, 1, 1, 1, 3, 4], [0, 1, 1, 2, 2, 3, 4], [0, 1, 2, 1, 2, 3, 4]]


def whole(net: Any, tokens: Any, pictures: Any, places: Any) -> Any:
    embeddings = net.with_pictures(net.embed(tokens), pictures, places)
    return net(embeddings, net.rotation(model.positions_of(tokens, PICTURE, 2)))


def test_future_and_missing_images_change_nothing() -> None:
    net = model.Model(SMALL)
    for weight in net.parameters():  # as trained: what starts at zero would hide mistakes
        weight.data.add_(torch.randn_like(weight) * 0.05)
    tokens = torch.randint(0, 250, (1, 128))
    tokens[0, 10:14] = PICTURE
    pictures = torch.randint(0, 256, (2, 64, 64, 3), dtype=torch.uint8)
    nowhere = torch.tensor([10, 128])
    with torch.no_grad():
        first = whole(net, tokens, pictures, nowhere)
        changed = tokens.clone()
        changed[0, 100:] = 7
        torch.testing.assert_close(whole(net, changed, pictures, nowhere)[:, :100], first[:, :100])
        torch.testing.assert_close(whole(net, tokens, pictures[:1], nowhere[:1]), first)
        assert not torch.allclose(whole(net, tokens, pictures.flip(0), nowhere)[:, 20:], first[:, 20:])


def test_deeper_draft_tokens_begin_with_the_first() -> None:
    net = model.Model(SMALL)
    hidden, embeddings = torch.randn(2, 2, 16, SMALL.hidden)
    rotation = net.rotation(model.counting(2, 16, hidden.device))
    given = (embeddings.flatten(0, 1), hidden.flatten(0, 1), rotation, model.Rows(2, 16))
    torch.testing.assert_close(net.mtp.deeper(*given, 2)[0], net.mtp(*given))


def test_a_few_steps_learn() -> None:
    net = model.Model(replace(SMALL, eye=None))
    optimizer = Optimizer(net)
    tokens = torch.randint(0, 250, (2, 65))
    rotation = net.rotation(model.counting(2, 64, tokens.device))
    losses = []
    for _ in range(30):
        net.zero_grad()
        loss, _ = head_loss(
            net(net.embed(tokens[:, :-1]), rotation), net.table, tokens[:, 1:], torch.full((2, 64), 1 / 128)
        )
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 2
    net.table.grad.fill_(float("nan"))
    before = net.table.detach().clone()
    optimizer.step()
    torch.testing.assert_close(net.table.detach(), before)


def test_orthogonal_evens_the_singular_values() -> None:
    values = torch.linalg.svdvals(orthogonal(torch.randn(3, 16, 40)))
    assert values.min() > 0.6 and values.max() < 1.3


def test_the_export_is_what_was_trained(tmp_path: Path) -> None:
    pytest.importorskip("safetensors.torch")
    net = model.Model(SMALL)
    added = ["<|endoftext|>", "<|im_end|>", "<|image_pad|>", "<|video_pad|>", "<|vision_start|>", "<|vision_end|>"]
    tokens = [{"content": text, "id": 280 + at} for at, text in enumerate(added)]
    (tmp_path / "tokenizer.json").write_text(json.dumps({"added_tokens": tokens}))
    out = tmp_path / "out"
    export.export(net.state_dict(), SMALL, tmp_path, out)
    again = model.Model(SMALL)
    again.load_state_dict(export.exported(out))
    for name, value in net.state_dict().items():
        torch.testing.assert_close(again.state_dict()[name], value, rtol=2**-8, atol=2**-8)
    config = json.loads((out / "config.json").read_text())
    assert config["text_config"]["layer_types"].count("full_attention") == 1
    assert all(file.stat().st_size < 16 * 2**20 for file in out.iterdir())


def test_the_mini_is_small_enough() -> None:
    count = sum(weight.numel() for weight in model.Model(MINI).parameters())
    assert 16e6 < count < 30e6
