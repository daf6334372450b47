"""The files of a LoRA adapter, read and checked: mlx-lm's layout and PEFT's. No MLX.

An adapter adds `scale * (x @ a) @ b` to the output of some linear layers. What it may hold beside that (DoRA, trained
biases, embeddings, experts) is refused by name: an adapter that is applied in part gives wrong answers.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from paceline.errors import LoadError
from paceline.models.files import one_line, read_header

CONFIG = "adapter_config.json"
MAX_CONFIG = 1 << 20  # bytes
WEIGHTS: Mapping[str, str] = {"mlx-lm": "adapters.safetensors", "PEFT": "adapter_model.safetensors"}
NAMES: Mapping[str, re.Pattern[str]] = {
    "mlx-lm": re.compile(r"(?P<path>.+)\.lora_(?P<factor>[ab])"),
    "PEFT": re.compile(r"(?P<path>.+)\.lora_(?P<factor>[AB])(\.default)?\.weight"),
}
BYTES = {"F32": 4, "F16": 2, "BF16": 2}
OUTER = ("base_model", "model", "language_model", "text_model", "transformer", "backbone")  # modules around the layers

# PEFT's fields that change what an adapter does: each with what it is.
UNSUPPORTED: Mapping[str, str] = {
    "use_dora": "a DoRA adapter",
    "use_qalora": "a QA-LoRA adapter",
    "modules_to_save": "an adapter with whole layers of its own",
    "lora_bias": "an adapter with trained biases",
    "layer_replication": "an adapter that repeats layers of the model",
    "trainable_token_indices": "an adapter with trained embeddings",
    "target_parameters": "an adapter of parameters that are no linear layers, as experts of a mixture are",
    "alora_invocation_tokens": "an adapter that begins to work inside a prompt (aLoRA)",
}
CHANGES_BASE = ("pissa", "olora", "corda", "loftq", "lora_ga")  # initializations that change the model's own weights

# Tensors that are no factors of a linear layer, by their names.
OTHERS: tuple[tuple[str, str], ...] = (
    ("lora_magnitude_vector", "a part of a DoRA adapter"),
    ("lora_embedding_", "for an embedding"),
    ("modules_to_save", "a layer of the adapter's own"),
    (".bias", "a bias"),
)


@dataclass(frozen=True, slots=True)
class Factors:
    """The two factors of one layer: (inputs, rank) and (rank, outputs), or PEFT's transposed."""

    a: str  # names of the tensors
    b: str
    inputs: int
    outputs: int
    rank: int
    scale: float


@dataclass(frozen=True, slots=True)
class LoraFiles:
    folder: Path
    weights: Path
    layout: Literal["mlx-lm", "PEFT"]
    factors: Mapping[str, Factors]  # by `module_path`

    def digest(self) -> str:
        """Of the contents, all of them: what was computed with another adapter must never be taken for this one's."""
        digest = hashlib.sha256((self.folder / CONFIG).read_bytes())
        with self.weights.open("rb") as stream:
            digest.update(hashlib.file_digest(stream, "sha256").digest())
        return digest.hexdigest()

    @property
    def rank(self) -> int:
        return max(factors.rank for factors in self.factors.values())


def module_path(path: str) -> str:
    """A layer's path without the modules around the layers: families and layouts differ in those."""
    parts = path.split(".")
    while len(parts) > 1 and parts[0] in OUTER:
        parts = parts[1:]
    return ".".join(parts)


def read(folder: Path) -> LoraFiles:
    """Raises LoadError, which names the file and the tensor."""
    config_file = folder / CONFIG
    config = _config(folder, config_file)
    layout: Literal["mlx-lm", "PEFT"] = "PEFT" if "peft_type" in config else "mlx-lm"
    if layout == "PEFT":
        _check_peft(config_file, config)
    elif config.get("fine_tune_type", "lora") != "lora":
        raise LoadError(f"{config_file} is of the kind {config['fine_tune_type']!r}; only 'lora' can be served.")
    weights = folder / WEIGHTS[layout]
    if not weights.is_file():
        raise LoadError(f"{folder} has no {weights.name}, which belongs to an adapter in {layout}'s layout.")
    pairs = _pairs(weights, layout)
    factors: dict[str, Factors] = {}
    for path, names in pairs.items():
        short = module_path(path)
        if short in factors:
            raise LoadError(f"{weights}: {names['a'][0]} is there twice, for the layer {short}.")
        factors[short] = _factors(weights, layout, config_file, config, path, names)
    if not factors:
        raise LoadError(f"{weights} holds no factors of an adapter.")
    return LoraFiles(folder, weights, layout, factors)


def _config(folder: Path, file: Path) -> dict[str, Any]:
    if not folder.is_dir():
        raise LoadError(f"There is no folder {folder} with an adapter.")
    if not file.is_file():
        raise LoadError(f"{folder} has no {CONFIG}, so it is no adapter's folder.")
    try:
        if file.stat().st_size > MAX_CONFIG:
            raise ValueError(f"it has more than {MAX_CONFIG} bytes")
        config = json.loads(file.read_text())
    except (OSError, ValueError, RecursionError) as error:
        raise LoadError(f"{file} cannot be read: {one_line(error)}") from error
    if not isinstance(config, dict):
        raise LoadError(f"{file} holds no object.")
    return config


def _check_peft(file: Path, config: Mapping[str, Any]) -> None:
    kind = config["peft_type"]
    if kind != "LORA":
        raise LoadError(f"{file} is of the kind {kind!r}; only 'LORA' can be served.")
    for name, what in UNSUPPORTED.items():
        if config.get(name):
            raise LoadError(f"{file} has {name}: {what} cannot be served.")
    if config.get("bias", "none") != "none":
        raise LoadError(f"{file} has bias {config['bias']!r}: an adapter with trained biases cannot be served.")
    start = config.get("init_lora_weights")
    if isinstance(start, str) and start.startswith(CHANGES_BASE):
        raise LoadError(
            f"{file} has init_lora_weights {start!r}, which changed the model's own weights. Convert the adapter to a "
            "plain one with PEFT, as its guide to this initialization says."
        )


def _pairs(file: Path, layout: str) -> dict[str, dict[str, tuple[str, tuple[int, int]]]]:
    """The factors' names and shapes by the layer's path, `a` and `b` of each."""
    pairs: dict[str, dict[str, tuple[str, tuple[int, int]]]] = {}
    for name, entry in read_header(file).items():
        found = NAMES[layout].fullmatch(name)
        if found is None:
            what = next((what for part, what in OTHERS if part in name), f"not known in {layout}'s layout")
            if layout == "mlx-lm" and name.endswith(".m"):
                what = "a part of a DoRA adapter"
            raise LoadError(f"{file}: the tensor {name} is {what}, and cannot be served.")
        pair = pairs.setdefault(found["path"], {})
        if found["factor"].lower() in pair:
            raise LoadError(f"{file}: the tensor {name} is there twice.")
        pair[found["factor"].lower()] = (name, _shape(file, name, entry))
    for path, names in pairs.items():
        if len(names) < 2:
            [(name, _)] = names.values()
            raise LoadError(f"{file}: the tensor {name} has no other factor for {path}.")
    return pairs


def _shape(file: Path, name: str, entry: Any) -> tuple[int, int]:
    try:
        kind, shape, (begin, end) = entry["dtype"], entry["shape"], entry["data_offsets"]
        sizes = [size for size in shape if isinstance(size, int) and size > 0]
        if kind not in BYTES:
            raise ValueError(f"its type is {kind}; it should be one of {', '.join(BYTES)}")
        if len(shape) == 3:
            raise ValueError("it is for the experts of a mixture, which take no adapters")
        if len(shape) != 2 or len(sizes) != 2:
            raise ValueError(f"its shape is {shape}, which is no factor of a linear layer")
        if begin < 0 or end - begin != math.prod(sizes) * BYTES[kind]:
            raise ValueError(f"{end - begin} bytes do not hold its shape {shape}")
    except (ValueError, LookupError, TypeError) as error:
        raise LoadError(f"{file}: the tensor {name} cannot be used: {one_line(error)}.") from error
    return sizes[0], sizes[1]


def _factors(
    file: Path,
    layout: str,
    config_file: Path,
    config: Mapping[str, Any],
    path: str,
    names: Mapping[str, tuple[str, tuple[int, int]]],
) -> Factors:
    (a, a_shape), (b, b_shape) = names["a"], names["b"]
    if layout == "PEFT":
        a_shape, b_shape = a_shape[::-1], b_shape[::-1]
    (inputs, rank), (inner, outputs) = a_shape, b_shape
    if rank != inner:
        raise LoadError(f"{file}: the factors of {path} do not fit each other: {a} has rank {rank}, {b} {inner}.")
    declared, scale = (_peft_scale if layout == "PEFT" else _mlx_scale)(config_file, config, path, rank)
    if declared != rank:
        raise LoadError(f"{file}: the tensor {a} has rank {rank}, and {config_file.name} says {declared}.")
    return Factors(a, b, inputs, outputs, rank, scale)


def _mlx_scale(file: Path, config: Mapping[str, Any], path: str, rank: int) -> tuple[int, float]:
    parameters = config.get("lora_parameters")
    if not isinstance(parameters, dict):
        raise LoadError(f"{file} has neither lora_parameters (mlx-lm) nor peft_type (PEFT).")
    return (
        _number(file, "rank in lora_parameters", parameters.get("rank"), whole=True),
        _number(file, "scale in lora_parameters", parameters.get("scale")),
    )


def _peft_scale(file: Path, config: Mapping[str, Any], path: str, rank: int) -> tuple[int, float]:
    declared = _number(file, "r", _pattern(file, config, "rank_pattern", path, config.get("r")), whole=True)
    alpha = _number(file, "lora_alpha", _pattern(file, config, "alpha_pattern", path, config.get("lora_alpha")))
    return declared, alpha / (math.sqrt(rank) if config.get("use_rslora") else rank)


def _pattern(file: Path, config: Mapping[str, Any], field: str, path: str, otherwise: Any) -> Any:
    """The value of the first name in a pattern that the path ends with."""
    patterns = config.get(field) or {}
    if not isinstance(patterns, dict):
        raise LoadError(f"{file}: {field} is no object.")
    for name, value in patterns.items():
        if not re.fullmatch(r"[\w.]+", name):
            raise LoadError(f"{file}: {field} has the expression {name!r}; only names of layers can be served.")
        if path == name or path.endswith(f".{name}"):
            return value
    return otherwise


def _number(file: Path, name: str, value: Any, *, whole: bool = False) -> Any:
    kinds = (int,) if whole else (int, float)
    if isinstance(value, bool) or not isinstance(value, kinds) or not math.isfinite(value) or (whole and value < 1):
        raise LoadError(f"{file}: {name} is {value!r}; it should be a {'whole ' if whole else ''}number.")
    return value
