"""Quantized weights: how a model has them, and how they become dense.

On a CPU, BLAS multiplies dense float32 only. MLX multiplies by quantized weights in plain loops, once for every row of
a batch, so that a batch gains nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import mlx.core as mx
import mlx.nn as nn
from mlx.utils import tree_unflatten
from mlx_lm.models.switch_layers import QuantizedSwitchLinear
from mlx_lm.utils import dequantize_model

KNOWN = (nn.QuantizedLinear, nn.QuantizedEmbedding, QuantizedSwitchLinear)  # what `dequantize_model` replaces


def quantized_layers(module: nn.Module) -> dict[str, nn.Module]:
    return {name: part for name, part in module.named_modules() if "scales" in part and hasattr(part, "bits")}


@dataclass(frozen=True, slots=True)
class Quantization:
    """How a checkpoint has its weights, and what they became at load. As text: "4-bit, dequantized to float32"."""

    kind: str  # as in "4-bit", "4-bit and 8-bit" or "mxfp4"
    dense: mx.Dtype | None = None  # None: they are quantized still
    left: int = 0  # layers that stay quantized all the same

    @classmethod
    def of(cls, module: nn.Module) -> Quantization | None:
        """None: nothing is quantized."""
        parts = quantized_layers(module).values()
        kinds = {f"{part.bits}-bit" if part.mode == "affine" else str(part.mode) for part in parts}
        return cls(" and ".join(sorted(kinds))) if kinds else None

    def __str__(self) -> str:
        if self.dense is None:
            return self.kind
        left = f" except {self.left} layers" if self.left else ""
        return f"{self.kind}, dequantized to {dtype_name(self.dense)}{left}"


def dtype_name(dtype: mx.Dtype) -> str:
    return str(dtype).rpartition(".")[2]


def dequantize(module: nn.Module) -> int:
    """Make the weights dense, lazily, in the type of their scales. Returns how many layers stay quantized.

    mlx-lm does not know every kind of layer, and it takes subclasses for their base class and forgets nvfp4's tensor
    scale: such layers are put back.
    """
    found = quantized_layers(module)
    stay = {name: part for name, part in found.items() if not _is_known(part)}
    dequantize_model(module)
    if stay:
        module.update_modules(tree_unflatten(list(stay.items())))
    return len(stay)


def dense_bytes(module: nn.Module, dtype: mx.Dtype) -> int:
    """Additional bytes of the module when it is dequantized."""
    known = [part for part in quantized_layers(module).values() if _is_known(part)]
    return sum(part.scales.size * part.group_size * dtype.size - part.weight.nbytes for part in known)


def dense_tensor_bytes(tensors: Mapping[str, mx.array], group_size: int, dtype: mx.Dtype) -> int:
    """The same for tensors that are in no module yet."""
    return sum(array.size * group_size * dtype.size for name, array in tensors.items() if name.endswith(".scales"))


def _is_known(part: nn.Module) -> bool:
    return type(part) in KNOWN and getattr(part, "global_scale", None) is None
