"""Cross entropy through the tied head, with its gradient taken on the way: the logits are never kept."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


class _HeadLoss(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, hidden: Tensor, table: Tensor, targets: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
        head = table.to(hidden.dtype)
        probabilities = torch.softmax(hidden @ head.T, -1)
        places = targets[:, None]
        losses = -probabilities.gather(1, places).squeeze(1).to(weights.dtype).clamp(min=1e-30).log()
        # Where a token was certain, rounding leaves exactly nothing to learn.
        probabilities.scatter_add_(1, places, torch.full_like(places, -1, dtype=probabilities.dtype))
        scale = weights[:, None].to(hidden.dtype)
        ctx.save_for_backward((probabilities @ head) * scale, (probabilities.T @ (hidden * scale)).to(table.dtype))
        ctx.mark_non_differentiable(losses)
        return (losses * weights).sum(), losses

    @staticmethod
    def backward(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Tensor, Tensor, None, None]:
        hidden, table = ctx.saved_tensors
        return hidden * grad.to(hidden.dtype), table * grad, None, None


def head_loss(hidden: Tensor, table: Tensor, targets: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """The weighted sum of the losses, and each token's own. `hidden` (rows, tokens, width); the rest (rows, tokens)."""
    total, losses = _HeadLoss.apply(
        hidden.reshape(-1, hidden.shape[-1]), table, targets.reshape(-1), weights.reshape(-1)
    )
    return total, losses.reshape(targets.shape)
