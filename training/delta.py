"""The gated delta rule in chunks: everything but one matrix product per chunk runs in parallel over the sequence.

With S the state (keys by values), the rule for one token is
    S <- exp(g) S;  S <- S + k (beta (v - k S))^T;  o = q S.
Inside a chunk the corrections solve a unit triangular system (the UT transform). Written out, a chunk maps the state
by S' = M S + N and reads o = P S + R, where M, N, P and R depend on the chunk alone: they are computed for all chunks
at once, and only S' = M S + N is sequential.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

CHUNK = 64


def recurrent(q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Tensor) -> Tensor:
    """The plain rule, token by token: what the chunk form is checked against. (rows, tokens, heads, dims)."""
    state = q.new_zeros(q.shape[0], q.shape[2], k.shape[-1], v.shape[-1])
    out = []
    for t in range(q.shape[1]):
        state = state * g[:, t, :, None, None].exp()
        seen = (state * k[:, t, :, :, None]).sum(-2)
        delta = (v[:, t] - seen) * beta[:, t, :, None]
        state = state + k[:, t, :, :, None] * delta[:, :, None, :]
        out.append((state * q[:, t, :, :, None]).sum(-2))
    return torch.stack(out, 1)


def chunked(q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Tensor) -> Tensor:
    """As `recurrent`, for a number of tokens that CHUNK divides."""
    rows, tokens = q.shape[:2]
    m, n, p, r = coefficients(*(split(x.flatten(0, 1)) for x in (q, k, v, g, beta)), q.dtype)
    return joined(r + p @ scan(m, n, rows)).reshape(rows, tokens, *v.shape[2:])


def coefficients(
    q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Tensor, half: torch.dtype
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """M, N, P and R of every chunk, from inputs of shape (heads, chunks, CHUNK, dims).

    Products run in `half`; decays, the triangular system and M and N, whose errors would add up along a sequence,
    are in the inputs' type.
    """
    work = g.dtype
    sums = g.cumsum(-1)
    size = sums.shape[-1]
    later = torch.ones(size, size, dtype=torch.bool, device=g.device).triu(1)
    fade = (sums[..., :, None] - sums[..., None, :]).masked_fill(later, float("-inf")).exp()
    grown = sums.exp()[..., None]
    last = sums[..., -1:]
    beta = beta[..., None]
    key = k.to(half)
    kt = key.transpose(-1, -2)
    system = (beta * (key @ kt).to(work) * fade).tril(-1)
    solved = unit_lower_inverse(system, half)
    w = solved @ (k * (beta * grown)).to(half)
    u = solved @ (v * beta).to(half)
    reads = ((q.to(half) @ kt).to(work) * fade).to(half)
    fading = (k * (last - sums).exp()[..., None]).to(half).transpose(-1, -2)
    identity = torch.eye(k.shape[-1], dtype=work, device=k.device)
    m = last.exp()[..., None] * identity - (fading @ w).to(work)
    n = (fading @ u).to(work)
    p = (q * grown - (reads @ w).to(work)).to(half)
    return m, n, p, reads @ u


def split(x: Tensor) -> Tensor:
    """(tokens, heads, ...) to (heads, chunks, CHUNK, ...)."""
    return x.reshape(-1, CHUNK, *x.shape[1:]).movedim(2, 0)


def joined(x: Tensor) -> Tensor:
    """(heads, chunks, CHUNK, dims) to (tokens, heads, dims)."""
    return x.movedim(0, 2).flatten(0, 1)


class _Inverse(torch.autograd.Function):
    """(I + A)^-1 of strictly lower triangular A, by halves: no power of A is taken beyond blocks of eight.

    Powers of the whole matrix would overflow where keys repeat (a run of equal tokens), though the inverse is small.
    """

    @staticmethod
    def forward(ctx: Any, a: Tensor, half: torch.dtype) -> Tensor:
        size = a.shape[-1]
        flat = a.reshape(-1, size, size)
        width = 8
        x = -_diagonal(flat, width)
        square = _small(x, x)
        result = x + _small(x, square) + square  # (I + x)(I + x^2) - I
        fourth = _small(square, square)
        result = result + _small(result, fourth) + fourth
        result = result + torch.eye(width, dtype=a.dtype, device=a.device)
        while width < size:
            pairs = result.reshape(-1, 2, width, width)
            upper, lower = pairs[:, 0], pairs[:, 1]
            below = _diagonal(flat, 2 * width)[:, width:, :width]
            corner = -(lower @ below @ upper)
            top = torch.cat([upper, torch.zeros_like(upper)], -1)
            result = torch.cat([top, torch.cat([corner, lower], -1)], -2)
            width *= 2
        result = result.reshape(a.shape).to(half)
        ctx.work = a.dtype
        ctx.save_for_backward(result)
        return result

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (result,) = ctx.saved_tensors
        turned = result.transpose(-1, -2)
        return -(turned @ grad @ turned).to(ctx.work).tril(-1), None


def unit_lower_inverse(a: Tensor, half: torch.dtype | None = None) -> Tensor:
    """In `half` precision, if told, though computed in a's."""
    inverse: Tensor = _Inverse.apply(a, half or a.dtype)
    return inverse


def _diagonal(a: Tensor, width: int) -> Tensor:
    """The diagonal blocks, (matrices * blocks, width, width)."""
    count = a.shape[-1] // width
    blocks = a.reshape(-1, count, width, count, width).diagonal(dim1=1, dim2=3)
    return blocks.permute(0, 3, 1, 2).reshape(-1, width, width)


def _small(a: Tensor, b: Tensor) -> Tensor:
    """A product of small matrices in full precision, whatever the matrix units are set to."""
    return (a[..., :, :, None] * b[..., None, :, :]).sum(-2)


class _Scan(torch.autograd.Function):
    """States of S' = M S + N before every step and after the last, along dimension 1. `start` is a constant."""

    @staticmethod
    def forward(ctx: Any, m: Tensor, n: Tensor, start: Tensor) -> Tensor:
        steps = m.shape[1]
        states = n.new_empty(n.shape[0], steps + 1, *n.shape[2:])
        states[:, 0] = start
        for i in range(steps):
            torch.baddbmm(n[:, i], m[:, i], states[:, i], out=states[:, i + 1])
        ctx.save_for_backward(m, states)
        return states

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None]:
        m, states = ctx.saved_tensors
        steps = m.shape[1]
        after = torch.empty_like(states[:, 1:])  # gradients of the states after every step
        after[:, -1] = grad[:, -1]
        for i in range(steps - 1, 0, -1):
            torch.baddbmm(grad[:, i], m[:, i].transpose(-1, -2), after[:, i], out=after[:, i - 1])
        return after @ states[:, :-1].transpose(-1, -2), after, None


def _states(m: Tensor, n: Tensor, start: Tensor) -> Tensor:
    states: Tensor = _Scan.apply(m, n, start)
    return states


def scan(m: Tensor, n: Tensor, rows: int) -> Tensor:
    """The state before every chunk, from zero at the start of each of `rows` rows. All (heads, chunks, keys, values).

    Long rows take two levels: what groups of chunks do to any state, then the states between the groups.
    """
    shape = n.shape
    chunks = shape[1] // rows
    m, n = (x.reshape(-1, chunks, *x.shape[2:]) for x in (m, n))  # rows of every head
    none = torch.zeros_like(n[0, 0])
    if chunks <= 32:
        return _states(m, n, none)[:, :-1].reshape(shape)
    group = 1 << ((chunks.bit_length() - 1) // 2)
    keys = m.shape[-1]
    inner_m, inner_n = (x.reshape(-1, group, *x.shape[2:]) for x in (m, n))
    start = torch.cat([torch.eye(keys, dtype=m.dtype, device=m.device), none], -1)
    effect = _states(inner_m, torch.cat([torch.zeros_like(inner_m), inner_n], -1), start)
    total = effect[:, -1].reshape(m.shape[0], -1, *effect.shape[2:])
    between = _states(total[..., :keys], total[..., keys:], none)[:, :-1]
    before = effect[:, :-1].reshape(m.shape[0], -1, group, *effect.shape[2:])
    return (before[..., :keys] @ between[:, :, None] + before[..., keys:]).reshape(shape)
