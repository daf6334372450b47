"""How good a model is on held-out rows, without generating: where every token of an answer is its best guess given
the ones before, greedy decoding gives exactly that answer."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from training import layers
from training.batches import Inputs, Pool
from training.model import Rows, counting, positions_of

if TYPE_CHECKING:
    from training.train import Trainer

TOKENS = 32768  # of one pass
DEEP = 2048  # rows longer than this are not examined at depth 2 and 3, whose masks are dense


@torch.no_grad()
def examine(trainer: Trainer, pool: Pool, most: int = 384) -> dict[str, dict[str, float]]:
    """By kind: the loss of predicted tokens, the share of answers (runs of predicted tokens) that greedy decoding
    would give exactly, and how often the MTP head guesses what the model says, at depth 1 to 3."""
    sizes, layers.SIZES = layers.SIZES, set()  # nothing is compiled for this
    sums: dict[int, NDArray[np.float64]] = defaultdict(lambda: np.zeros(9))
    step = max(1, TOKENS // pool.length)
    for start in range(0, min(most, len(pool.tokens)), step):
        rows = np.arange(start, min(start + step, len(pool.tokens)))
        _count(trainer, pool, rows, sums)
    layers.SIZES = sizes
    result = {}
    for kind, (loss, tokens, right, spans, *agreed) in sorted(sums.items()):
        shares = {"loss": loss / max(tokens, 1), "exact": right / max(spans, 1), "answers": spans}
        for depth, (both, asked) in enumerate(zip(agreed[:3], [tokens, *agreed[:2]], strict=True), 1):
            shares[f"mtp{depth}"] = both / max(asked, 1)
        result[pool.names[kind]] = shares
        print(f"held {pool.names[kind]:>16} " + " ".join(f"{k} {v:.3f}" for k, v in shares.items()), flush=True)
    return result


def _count(trainer: Trainer, pool: Pool, rows: NDArray[np.int64], sums: dict[int, NDArray[np.float64]]) -> None:
    model = trainer.model
    see = model.shape.eye is not None and len(pool.pictures) > 0
    inputs = Inputs.empty(len(rows), sum(pool.held(int(row)) for row in rows) if see else 0, trainer.device)
    inputs.fill(pool, rows)
    tokens = pool.tokens[inputs.rows].long()
    mask = pool.loss[inputs.rows].bool()
    embeddings = model.embed(tokens)
    positions = counting(len(rows), pool.length, trainer.device)
    if len(inputs.picture):
        embeddings = model.with_pictures(embeddings, pool.pictures[inputs.picture], inputs.place)
        positions = positions_of(
            tokens, trainer.picture_token, *(side // model.shape.eye.patch // 2 for side in pool.size)
        )
    rotation = model.rotation(positions)
    hidden = model(embeddings, rotation)
    logits = (hidden @ model.table.T.to(hidden.dtype)).float()
    said = _late(logits.argmax(-1), 1)  # what it says at each column, given the tokens before
    best = logits.log_softmax(-1)[:, :-1].gather(2, tokens[:, 1:, None]).squeeze(-1)
    losses = torch.cat([torch.zeros_like(best[:, :1]), -best], 1) * mask
    mask[:, :3] = False
    right = said == tokens
    agreed = [torch.zeros_like(mask)] * 3
    if model.shape.mtp:
        following = torch.cat([embeddings[:, 1:], torch.zeros_like(embeddings[:, :1])], 1).flatten(0, 1)
        given = (following, hidden.flatten(0, 1), rotation, Rows(len(rows), pool.length))
        states = model.mtp.deeper(*given, 3) if pool.length <= DEEP else [model.mtp(*given)]
        found = [state.reshape(hidden.shape) @ model.table.T.to(hidden.dtype) for state in states]
        each = [_late(guess.argmax(-1), 2) == said for guess in found]
        agreed[0] = each[0]
        for depth in range(1, len(each)):  # it gets there only if it was right at the depths before
            agreed[depth] = each[depth] & _late(agreed[depth - 1], 1)
    kinds = pool.kinds[inputs.rows].tolist()
    starts = mask & ~_late(mask, 1)
    for at, kind in enumerate(kinds):
        spans = starts[at].cumsum(0) * mask[at]
        answers = torch.unique(spans[mask[at] & (tokens[at] == trainer.end_token)])
        # Rows of chats are filled up with text, which is no answer.
        counted = torch.isin(spans, answers) & mask[at] if len(answers) else mask[at]
        wrong = torch.unique(spans[counted & ~right[at]]) if len(answers) else answers
        numbers = [losses[at][counted].sum().item(), counted.sum().item(), len(answers) - len(wrong), len(answers)]
        sums[kind] += [*numbers, *((part[at] & counted).sum().item() for part in agreed), 0, 0]


def _late(x: Tensor, by: int) -> Tensor:
    return torch.cat([torch.zeros_like(x[:, :by]), x[:, :-by]], 1)
