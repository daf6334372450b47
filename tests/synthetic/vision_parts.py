"""What the configurations of vision-language families share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

Config = dict[str, Any]
Ids = Mapping[str, int]
HALF = {"image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5], "do_normalize": True, "do_rescale": True}
TEXT: Config = {
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "intermediate_size": 96,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "rms_norm_eps": 1e-6,
    "rope_theta": 10000.0,
    "max_position_embeddings": 8192,
    "tie_word_embeddings": False,
}
SIGLIP: Config = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "intermediate_size": 48,
    "num_attention_heads": 2,
    "patch_size": 14,
    "image_size": 56,
}


@dataclass(frozen=True)
class Family:
    """`config` and `files` get the ids of the tokens. `renames` lead from mlx-vlm's names to the checkpoint's."""

    config: Callable[[Ids], Config]
    files: Callable[[Ids], dict[str, Config]]
    tokens: tuple[str, ...]  # special ones, beside COMMON
    mark: str  # what the template writes for a picture
    renames: tuple[tuple[str, str], ...] = ()
    convert: Callable[[dict[str, Any]], object] = lambda weights: None
    tokenizer: Config = field(default_factory=dict)
    padded: bool = False  # served in the padded layout only
    sound: str = ""  # what the template writes for a recording
