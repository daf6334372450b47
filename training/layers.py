"""Layers of the model whose products run in the type of the activations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Rotation = tuple[Tensor, Tensor]  # cosines and sines, (tokens, pairs)
COMPILED: dict[str, Callable[..., Any]] = {}
SIZES: set[int] = set()  # numbers of tokens that compiled functions are for


def call(function: Callable[..., Any], x: Tensor, *arguments: Any) -> Any:
    if len(x) in SIZES:
        function = COMPILED[function.__name__]
    return function(x, *arguments)


def norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """RMS norm whose weight counts from one."""
    work = torch.promote_types(torch.float32, x.dtype)
    y = x.to(work)
    return (y * torch.rsqrt((y * y).mean(-1, keepdim=True) + eps) * (1 + weight.to(work))).to(x.dtype)


def linear(x: Tensor, *weights: Tensor) -> Tensor:
    """Products with several matrices, side by side."""
    return F.linear(x, (torch.cat(weights) if len(weights) > 1 else weights[0]).to(x.dtype))


class Linear(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight.to(x.dtype), None if self.bias is None else self.bias.to(x.dtype))


class Norm(nn.Module):
    def __init__(self, size: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(size))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        normed: Tensor = call(norm, x, self.weight, self.eps)
        return normed


class GatedNorm(nn.Module):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))


class _Lookup(torch.autograd.Function):
    """Rows of a table. Its gradient adds in place: PyTorch's own sorts, which a CUDA graph cannot record."""

    @staticmethod
    def forward(ctx: Any, table: Tensor, ids: Tensor, dtype: torch.dtype) -> Tensor:
        ctx.save_for_backward(ids)
        ctx.shape = table.shape
        return table[ids].to(dtype)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        (ids,) = ctx.saved_tensors
        grads = torch.zeros(ctx.shape, dtype=torch.promote_types(torch.float32, grad.dtype), device=grad.device)
        grads.index_add_(0, ids.reshape(-1), grad.reshape(-1, grad.shape[-1]).to(grads.dtype))
        return grads, None, None


def lookup(table: Tensor, ids: Tensor, dtype: torch.dtype) -> Tensor:
    rows: Tensor = _Lookup.apply(table, ids, dtype)
    return rows
