"""What a model will take, before it is loaded: from its config.json and the headers of its weight files. No MLX.

The memory model (cache/memory_model) is exact, and known after loading only. This is for choosing what to load.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

from paceline.errors import LoadError
from paceline.models.files import WEIGHTS as FILES
from paceline.models.files import context_length, one_line, read_config

SIZES = {"F64": 8, "F32": 4, "I64": 8, "U64": 8, "I32": 4, "U32": 4, "F16": 2, "BF16": 2, "I16": 2, "U16": 2}
FLOATS = ("F64", "F32", "F16", "BF16")
WORK = 0.05  # activations of a step, as a share of the weights
LEAST_WORK = 64 << 20
HEADROOM = 0.1  # of the memory, as the engine keeps it free
WORKING_TOKENS = 8192  # tokens of context without which a model is not worth loading
DENSE_SHARE = 2 / 3  # of the usable memory, as the engine makes quantized weights dense on a CPU


@dataclass(frozen=True, slots=True)
class Estimate:
    """Bytes. `token`: keys and values of a token in all layers that keep every token."""

    stored: int  # of the weight files
    weights: int  # in memory
    token: int
    windows: tuple[tuple[int, int], ...]  # of layers that keep a window only: its tokens, and the bytes of each
    context_length: int

    def sequence(self, tokens: int) -> int:
        return self.token * tokens + sum(min(tokens, window) * size for window, size in self.windows)

    def total(self, tokens: int) -> int:
        """With one sequence of so many tokens, and what the engine keeps free."""
        work = max(int(self.weights * WORK), LEAST_WORK)
        return int((self.weights + self.sequence(tokens) + work) / (1 - HEADROOM))

    @property
    def least(self) -> int:
        """With room for one conversation of usual length: less than this is not worth loading it for."""
        return self.total(min(self.context_length, WORKING_TOKENS))


@dataclass(frozen=True, slots=True)
class _Sizes:
    stored: int
    kept: int  # in memory, as they are stored
    wide: int  # with floats of four bytes
    dense: int  # and with quantized tensors made dense


def estimate(
    folder: Path, *, cpu: bool, dtype: str = "auto", memory: int | None = None, kv: tuple[int, int, int] | None = None
) -> Estimate:
    """`cpu`: weights become float32 there, unless `dtype` says otherwise. `memory`: what may be used, which decides
    whether quantized weights become dense. `kv`: bits and group size of quantized keys and values, and how
    many tokens are not (these are not counted). Raises LoadError."""
    config = read_config(folder)
    sizes = _sizes(folder, config)
    wide = dtype == "float32" or (dtype == "auto" and cpu)
    weights = sizes.wide if wide else sizes.kept
    if cpu and wide and (memory is None or sizes.dense <= memory * (1 - HEADROOM) * DENSE_SHARE):
        weights = sizes.dense
    number = 4 if wide else 2
    token, windows = _attention(config, number if kv is None else kv[0] / 8 + 2 * number / kv[1])
    return Estimate(sizes.stored, weights, token, windows, context_length(config))


def _sizes(folder: Path, config: Mapping[str, Any]) -> _Sizes:
    stored = kept = wide = dense = 0
    quantization = config.get("quantization") or config.get("quantization_config") or {}
    group = quantization.get("group_size") if isinstance(quantization, Mapping) else None
    for file in sorted(folder.glob(FILES)):
        header = _header(file)
        stored += file.stat().st_size
        for name, entry in header.items():
            if name == "__metadata__":
                continue
            count = prod(entry["shape"])
            size = SIZES.get(entry["dtype"], 1) * count
            as_float = 4 * count if entry["dtype"] in FLOATS else size
            kept, wide = kept + size, wide + as_float
            base = name.removesuffix("weight")
            if name.endswith(".weight") and f"{base}scales" in header:
                scales = prod(header[f"{base}scales"]["shape"])
                dense += scales * (group if isinstance(group, int) and group > 0 else 64) * 4
            elif not name.endswith((".scales", ".biases")) or f"{name.rpartition('.')[0]}.scales" not in header:
                dense += as_float
    return _Sizes(stored, kept, wide, dense)


def _header(file: Path) -> dict[str, Any]:
    try:
        with file.open("rb") as stream:
            (length,) = struct.unpack("<Q", stream.read(8))
            if length > file.stat().st_size:
                raise ValueError("its header is cut off")
            header = json.loads(stream.read(length))
        if not isinstance(header, dict):
            raise ValueError("its header is no object")
        return header
    except (OSError, ValueError, struct.error) as error:
        raise LoadError(f"{file} is damaged: {one_line(error)}. Download it again.") from error


def _attention(config: Mapping[str, Any], size: float) -> tuple[int, tuple[tuple[int, int], ...]]:
    """Bytes of keys and values per token: in layers that keep every token, and in those with a window."""
    text = config.get("text_config") if isinstance(config.get("text_config"), Mapping) else config
    assert isinstance(text, Mapping)
    layers, heads = _count(text, "num_hidden_layers", "n_layer"), _count(text, "num_attention_heads", "n_head")
    if not layers or not heads:
        return 0, ()
    if rank := _count(text, "kv_lora_rank"):
        return int(layers * (rank + _count(text, "qk_rope_head_dim")) * size), ()
    width = _count(text, "head_dim") or _count(text, "hidden_size", "n_embd") // heads
    token = int(2 * (_count(text, "num_key_value_heads") or heads) * width * size)
    kinds = text.get("layer_types")
    if isinstance(kinds, list):
        sliding = sum(kind == "sliding_attention" for kind in kinds)
        full = sum(kind in ("full_attention", "attention") for kind in kinds)
    else:
        every = _count(text, "sliding_window_pattern")
        window = _count(text, "sliding_window") if every else 0
        full = layers // every if window else layers // (_count(text, "full_attention_interval") or 1)
        sliding = layers - full if window else 0
    window = _count(text, "sliding_window")
    if not window:
        return (full + sliding) * token, ()
    return full * token, ((window, sliding * token),) if sliding else ()


def _count(config: Mapping[str, Any], *names: str) -> int:
    for name in names:
        value = config.get(name)
        if isinstance(value, int) and value > 0:
            return value
    return 0
