"""One model over several ranks: mlx-lm's own `shard()` splits heads, experts and the output head among them.

Every rank computes all tokens with its part of the weights, and the parts are summed after attention and after the
MLP. What `shard()` leaves whole (embeddings, norms, an MTP head, a vision tower) every rank has for itself.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

import mlx.core as mx
import mlx.nn as nn
import numpy as np
from mlx.utils import tree_flatten
from mlx_lm.models.base import gather_last_axis
from mlx_lm.models.cache import make_prompt_cache

from paceline.errors import LoadError

log = logging.getLogger("paceline")
PROBE = 12  # tokens whose logits are compared
LARGEST_REFERENCE = 2 << 30  # bytes of weights up to which the whole model is run once, to compare with
TOLERANCE = {mx.float32: 1e-4, mx.float16: 0.05, mx.bfloat16: 0.1}  # of the largest logit
WHOLE = "The parts were not compared with the whole model, which is too large to load on every rank."
Group = Any  # mx.distributed.Group, which has no types


class Sharding:
    """How a module is split: at load, between reading the configuration and evaluating the weights."""

    def __init__(self, group: Group) -> None:
        self.group = group
        self._reference: mx.array | None = None
        self.error: float | None = None  # by which logits differ from the whole model's, of the largest; None: unknown

    @property
    def rank(self) -> int:
        return int(self.group.rank())

    @property
    def ranks(self) -> int:
        return int(self.group.size())

    def split(self, module: nn.Module, config: Mapping[str, Any], notes: list[str]) -> None:
        """Raises LoadError, where the family cannot be split, or not by so many."""
        family, target = config["model_type"], splittable(module)
        if target is None:
            raise LoadError(
                f"{family} cannot be split over ranks: mlx-lm has no shard() for it. Serve it with one process."
            )
        nbytes = sum(array.nbytes for _, array in tree_flatten(module.parameters()))
        if nbytes <= LARGEST_REFERENCE:
            self._reference = _logits(module)
        else:
            notes.append(WHOLE)
            log.warning(WHOLE)
        before = {name: array.shape for name, array in tree_flatten(target.parameters())}
        try:
            target.shard(self.group)
        except Exception as error:  # mlx-lm's or MLX's: what does not divide
            raise LoadError(f"{family} cannot be split over {self.ranks} ranks: {error}") from error
        split = [name for name, array in tree_flatten(target.parameters()) if array.shape != before.get(name)]
        if not split:
            raise LoadError(f"{family} cannot be split over ranks: mlx-lm's shard() changed nothing.")

    def check(self, module: nn.Module) -> None:
        """Are the parts together the whole model? Raises LoadError. After the weights are evaluated."""
        reference, self._reference = self._reference, None
        if reference is None:
            return
        found = _logits(module)
        share: Any = (mx.abs(found - reference).max() / mx.abs(reference).max()).item()
        if not share <= TOLERANCE.get(reference.dtype, 0.1):
            raise LoadError(
                f"This model gives other logits over {self.ranks} ranks than in one process: they differ by "
                f"{share:.2g} of the largest. It is not served."
            )
        self.error = share
        log.info("over %d ranks logits differ by %.2g of the largest from the whole model", self.ranks, share)

    def agree(self, values: mx.array) -> mx.array:
        """Rank 0's values, on every rank. Those of other ranks only order the collectives: an input that did not
        depend on the pass before could be sent first."""
        mine = values if self.rank == 0 else values * 0
        return mx.distributed.all_sum(mine, group=self.group)


def splittable(module: nn.Module) -> Any:
    """The module with a `shard()`: the model, or the text model inside one with pictures. None: there is none."""
    for part in (module, getattr(module, "language_model", None)):
        if part is not None and callable(getattr(type(part), "shard", None)):
            return part
    return None


def whole_logits(inner: Any) -> Callable[[mx.array], mx.array]:
    """The output head of a text model, whose vocabulary may be split among ranks."""
    head = inner.lm_head
    group = getattr(inner, "sharding_group", None)
    if group is None or not type(head).__name__.endswith("AllToShardedLinear"):
        return head
    return lambda hidden: gather_last_axis(head(hidden), group)


def _logits(module: nn.Module) -> mx.array:
    tokens = mx.array([np.random.default_rng(0).integers(0, 200, PROBE).tolist()])
    logits = module(tokens, cache=make_prompt_cache(module))[0]
    mx.eval(logits)
    return logits
