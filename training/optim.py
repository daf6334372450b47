"""Muon for the matrices, AdamW for the rest, with every number on the device so that a CUDA graph can hold a step."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

ADAM = ("embed_tokens", "pos_embed", "patch_embed", "conv1d", "in_proj_a", "in_proj_b")
THIRDS = ("in_proj_qkv", "attn.qkv")  # three matrices in one


def orthogonal(x: Tensor, steps: int = 5) -> Tensor:
    """A batch of matrices, rows <= columns, with their singular values pulled to about one (Newton-Schulz)."""
    a, b, c = 3.4445, -4.7750, 2.0315
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(steps):
        square = x @ x.mT
        x = a * x + (b * square + c * square @ square) @ x
    return x


class Optimizer:
    """`rate` scales both learning rates; set it before every step. Gradients that are not finite change nothing."""

    def __init__(
        self, model: nn.Module, *, muon: float = 0.02, adam: float = 0.004, decay: float = 0.1, clip: float = 1.0
    ) -> None:
        self.muon, self.adam, self.decay, self.clip = muon, adam, decay, clip
        self.matrices: list[tuple[str, nn.Parameter]] = []
        self.others: list[tuple[str, nn.Parameter]] = []
        for name, weight in model.named_parameters():
            matrix = weight.ndim == 2 and not any(part in name for part in ADAM)
            (self.matrices if matrix else self.others).append((name, weight))
        device = next(model.parameters()).device
        self.rate = torch.ones((), device=device)
        self.count = torch.zeros((), device=device)
        self.norm = torch.zeros((), device=device)
        self.momentum = {name: torch.zeros_like(weight) for name, weight in self.matrices}
        self.mean = {name: torch.zeros_like(weight) for name, weight in self.others}
        self.square = {name: torch.zeros_like(weight) for name, weight in self.others}

    @torch.no_grad()
    def step(self) -> None:
        for _, weight in (*self.matrices, *self.others):
            if weight.grad is None:  # a part that this step did not use
                weight.grad = torch.zeros_like(weight)
        grads = [weight.grad for _, weight in (*self.matrices, *self.others)]
        self.norm.copy_(torch.stack(torch._foreach_norm(grads)).norm())
        sound = torch.isfinite(self.norm).float()
        for grad in grads:
            grad.nan_to_num_(0, 0, 0)
        torch._foreach_mul_(grads, (self.clip / (self.norm + 1e-6)).clamp(max=1).nan_to_num(0) * sound)
        self.count += sound
        rate = self.rate * sound
        self._step_others(rate, sound)
        self._step_matrices(rate, sound)

    def _step_matrices(self, rate: Tensor, sound: Tensor) -> None:
        weights = [weight.data for _, weight in self.matrices]
        grads = [weight.grad for _, weight in self.matrices]
        kept = [self.momentum[name] for name, _ in self.matrices]
        torch._foreach_mul_(kept, 1 - 0.05 * sound)
        torch._foreach_add_(kept, grads)
        updates = torch._foreach_add(grads, kept, alpha=0.95)
        torch._foreach_mul_(weights, 1 - rate * (self.muon * self.decay))
        groups: dict[tuple[int, ...], list[tuple[Tensor, Tensor]]] = defaultdict(list)
        for (name, _), update, weight in zip(self.matrices, updates, weights, strict=True):
            for part, target in zip(_parts(name, update), _parts(name, weight), strict=True):
                groups[tuple(part.shape)].append((part, target))
        fast = torch.bfloat16 if rate.is_cuda else torch.float32
        for (rows, columns), pairs in groups.items():
            stacked = torch.stack([part for part, _ in pairs]).to(fast)
            tall = rows > columns
            turned = orthogonal(stacked.mT if tall else stacked)
            change = (turned.mT if tall else turned).float() * (rate * (-self.muon * max(1, rows / columns) ** 0.5))
            torch._foreach_add_([target for _, target in pairs], list(change.unbind(0)))

    def _step_others(self, rate: Tensor, sound: Tensor) -> None:
        first, second = 0.9, 0.95
        count = self.count.clamp(min=1)
        weights = [weight.data for _, weight in self.others]
        grads = [weight.grad for _, weight in self.others]
        means = [self.mean[name] for name, _ in self.others]
        squares = [self.square[name] for name, _ in self.others]
        for kept, new, part in ((means, grads, first), (squares, torch._foreach_mul(grads, grads), second)):
            torch._foreach_mul_(kept, 1 - (1 - part) * sound)
            torch._foreach_add_(kept, torch._foreach_mul(new, 1 - part))
        scales = torch._foreach_mul(squares, 1 / (1 - second**count))
        torch._foreach_sqrt_(scales)
        torch._foreach_add_(scales, 1e-8)
        changes = torch._foreach_div(means, scales)
        torch._foreach_mul_(changes, rate * -self.adam / (1 - first**count))
        torch._foreach_add_(weights, changes)

    def state(self) -> dict[str, Any]:
        return {"count": self.count, "momentum": self.momentum, "mean": self.mean, "square": self.square}

    def load(self, state: dict[str, Any]) -> None:
        self.count.copy_(state["count"])
        for mine, theirs in ((getattr(self, name), state[name]) for name in ("momentum", "mean", "square")):
            for name, value in theirs.items():
                mine[name].copy_(value)


def _parts(name: str, x: Tensor) -> Iterator[Tensor]:
    yield from x.chunk(3) if any(part in name for part in THIRDS) else (x,)
