"""Makes a larger model of a smaller one's weights that says exactly the same, to be trained on.

New layers change nothing at first, as their last matrices are zero; so are the columns of `down_proj` that new rows of
`gate_proj` and `up_proj` feed. New layers stand between the halves of the old ones, in whole groups of `interval`, so
that every old layer stays what it is, attention or GatedDeltaNet.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from torch import Tensor, nn

LAYER = re.compile(r"^(model\.language_model\.layers\.)(\d+)(\..*)$")


def grown(old: Mapping[str, Tensor], model: nn.Module) -> dict[str, Tensor]:
    """A state dict for the freshly initialized `model`, which has at least the old one's sizes."""
    interval: int = model.shape.interval  # type: ignore[assignment, union-attr]
    count = 1 + max(int(found[2]) for name in old if (found := LAYER.match(name)))
    new = 1 + max(int(found[2]) for name in model.state_dict() if (found := LAYER.match(name)))
    if (new - count) % interval:
        raise ValueError(f"{new - count} new layers are no whole number of groups of {interval}")
    half = count // interval // 2 * interval
    weights = {name: value.clone() for name, value in model.state_dict().items()}
    for name, value in old.items():
        found = LAYER.match(name)
        if found and int(found[2]) >= half:
            name = f"{found[1]}{int(found[2]) + new - count}{found[3]}"
        place = weights[name]
        if place.shape == value.shape:
            place.copy_(value)
        elif name.endswith(("gate_proj.weight", "up_proj.weight")):
            place[: len(value)] = value
        elif name.endswith("down_proj.weight"):
            place.zero_()
            place[:, : value.shape[1]] = value
        else:
            raise ValueError(f"{name} cannot grow from {tuple(value.shape)} to {tuple(place.shape)}")
    return weights


__all__ = ["grown"]
