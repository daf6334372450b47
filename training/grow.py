"""Makes a larger model of a smaller one's weights that says the same, to be trained on.

New layers change nothing at first, as their last matrices are zero; so are the columns of `down_proj` that new rows of
`gate_proj` and `up_proj` feed. New layers stand between the halves of the old ones, in whole groups of `interval`, so
that every old layer stays what it is, attention or GatedDeltaNet. New numbers of the hidden states are zero, as what
writes them is zero; what reads them is not, so that both learn. Norms, whose mean is over more numbers, scale it back.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from torch import Tensor, nn

LAYER = re.compile(r"^(model\.language_model\.layers\.)(\d+)(\..*)$")
# The axes along which a part may grow, by the end of its name. New parts of those that write are zero.
READS = {f"{part}_proj.weight": {1} for part in "qkv"} | {
    f"in_proj_{part}.weight": {1} for part in ("qkv", "z", "a", "b")
}
READS |= {"gate_proj.weight": {0, 1}, "up_proj.weight": {0, 1}}
WRITES = {"o_proj.weight": {0}, "out_proj.weight": {0}, "down_proj.weight": {0, 1}, "embed_tokens.weight": {1}}
WRITES |= {"merger.linear_fc2.weight": {0}, "merger.linear_fc2.bias": {0}}
NORMS = tuple(
    f"{part}.weight" for part in ("layernorm", "language_model.norm", "mtp.norm", "norm_embedding", "norm_hidden")
)


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
        _place(name, weights[name], value)
    return weights


def _axes(name: str) -> set[int]:
    return next((axes for end, axes in (READS | WRITES).items() if name.endswith(end)), set())


def _place(name: str, place: Tensor, value: Tensor) -> None:
    """`value` in the corner of `place`, whose other parts are new: zero where a layer writes with them."""
    if place.shape == value.shape:
        place.copy_(value)
    elif name.endswith(NORMS):  # zero-centred
        scale = (len(value) / len(place)) ** 0.5
        place.fill_(scale - 1)
        place[: len(value)] = (1 + value) * scale - 1
    elif name.endswith("mtp.fc.weight"):  # reads two states, side by side
        place[len(value) :] = 0
        for new, old in zip(place.chunk(2, 1), value.chunk(2, 1), strict=True):
            new[: len(old), : old.shape[1]] = old
    elif _axes(name) >= {axis for axis, size in enumerate(place.shape) if size != value.shape[axis]}:
        if name.endswith(tuple(WRITES)):
            place.zero_()
        place[tuple(slice(size) for size in value.shape)] = value
    else:
        raise ValueError(f"{name} cannot grow from {tuple(value.shape)} to {tuple(place.shape)}")


__all__ = ["grown"]
