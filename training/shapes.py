"""Sizes of the two models, and the JSON files that Hugging Face's layout has for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Eye:
    """A vision tower: pictures of 16-pixel patches, four of which make one token."""

    depth: int = 4
    hidden: int = 128
    intermediate: int = 256
    heads: int = 4
    side: int = 4  # of the square of learnt positions; other grids interpolate in it
    patch: int = 16
    merge: int = 2
    picture: int = 96  # pixels a side of the pictures that it is trained on


@dataclass(frozen=True)
class Shape:
    """A Qwen3.5 of our size. Every `interval`-th layer attends, the others are GatedDeltaNets."""

    hidden: int = 256
    layers: int = 8
    interval: int = 4
    intermediate: int = 512
    heads: int = 4
    kv_heads: int = 2
    head_dim: int = 64
    state_heads: int = 4
    state_dim: int = 64
    conv: int = 4
    vocab: int = 6144
    # A quarter of every head is rotated. With this base the slowest of the eight pairs turns once in 20k tokens, so
    # training to 16k shows nearly every angle there is, and 32k shows no new ones.
    rope_theta: float = 10_000.0
    rotary: float = 0.25
    eps: float = 1e-6
    longest: int = 32768  # trained to half of it; the instructions of agents take 20k
    mtp: bool = True
    window: int | None = None  # tokens that a draft need not look beyond while it reads (docs/specprefill.md)
    eye: Eye | None = Eye()

    @property
    def rotated_pairs(self) -> int:
        return int(self.head_dim * self.rotary) // 2

    @property
    def sections(self) -> tuple[int, int, int]:
        section = -(-self.rotated_pairs // 3)
        return section, section, self.rotated_pairs - 2 * section

    def attends(self, layer: int) -> bool:
        return (layer + 1) % self.interval == 0


FIRST = Shape()  # the first edition: what `grow` begins with
MINI = Shape(layers=12, intermediate=1024)
DRAFT = Shape(
    hidden=128,
    layers=4,
    interval=2,
    intermediate=256,
    heads=4,
    kv_heads=2,
    state_heads=2,
    state_dim=64,
    mtp=False,
    window=512,
    eye=None,
)
SHAPES = {"paceline-mini": MINI, "paceline-mini-draft": DRAFT}


def hugging_face(shape: Shape, ids: dict[str, int]) -> dict[str, Any]:
    """`config.json`. `ids` are the special tokens'. A shape without a tower still has the nested layout, so that
    every loader takes the same path for both models."""
    text = {
        "model_type": "qwen3_5_text",
        "hidden_size": shape.hidden,
        "intermediate_size": shape.intermediate,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "head_dim": shape.head_dim,
        "linear_num_key_heads": shape.state_heads,
        "linear_num_value_heads": shape.state_heads,
        "linear_key_head_dim": shape.state_dim,
        "linear_value_head_dim": shape.state_dim,
        "linear_conv_kernel_dim": shape.conv,
        "full_attention_interval": shape.interval,
        "layer_types": [
            "full_attention" if shape.attends(layer) else "linear_attention" for layer in range(shape.layers)
        ],
        "attn_output_gate": True,
        "attention_bias": False,
        "hidden_act": "silu",
        "rms_norm_eps": shape.eps,
        "mamba_ssm_dtype": "float32",
        "vocab_size": shape.vocab,
        "max_position_embeddings": shape.longest,
        "tie_word_embeddings": True,
        "mtp_num_hidden_layers": int(shape.mtp),
        "mtp_use_dedicated_embeddings": False,
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": shape.rope_theta,
            "partial_rotary_factor": shape.rotary,
            "mrope_interleaved": True,
            "mrope_section": list(shape.sections),
        },
        "eos_token_id": ids["<|endoftext|>"],
        "dtype": "bfloat16",
    }
    config = {
        "architectures": [f"Qwen3_5For{'ConditionalGeneration' if shape.eye else 'CausalLM'}"],
        "model_type": "qwen3_5",
        "text_config": text,
        "vocab_size": shape.vocab,
        "tie_word_embeddings": True,
        "dtype": "bfloat16",
    }
    if shape.window is not None:
        config["specprefill_window"] = shape.window
    if shape.eye is None:
        return config
    return config | {
        "vision_config": _vision(shape, shape.eye),
        "image_token_id": ids["<|image_pad|>"],
        "video_token_id": ids["<|video_pad|>"],
        "vision_start_token_id": ids["<|vision_start|>"],
        "vision_end_token_id": ids["<|vision_end|>"],
    }


def _vision(shape: Shape, eye: Eye) -> dict[str, Any]:
    return {
        "model_type": "qwen3_5",
        "depth": eye.depth,
        "hidden_size": eye.hidden,
        "intermediate_size": eye.intermediate,
        "num_heads": eye.heads,
        "in_channels": 3,
        "patch_size": eye.patch,
        "temporal_patch_size": 2,
        "spatial_merge_size": eye.merge,
        "out_hidden_size": shape.hidden,
        "num_position_embeddings": eye.side**2,
        "deepstack_visual_indexes": [],
        "hidden_act": "gelu_pytorch_tanh",
        "initializer_range": 0.02,
    }


def generation(ids: dict[str, int]) -> dict[str, Any]:
    """`generation_config.json`: greedy, until a turn or the text ends."""
    end = ids["<|endoftext|>"]
    return {"eos_token_id": [ids["<|im_end|>"], end], "pad_token_id": end, "do_sample": False}


def processors(shape: Shape) -> dict[str, dict[str, Any]]:
    """The files that say how pictures and videos are brought to about the area that the tower was trained on."""
    eye = shape.eye
    if eye is None:
        return {}
    area = eye.picture**2
    common = {
        "patch_size": eye.patch,
        "temporal_patch_size": 2,
        "merge_size": eye.merge,
        "do_convert_rgb": True,
        "do_resize": True,
        "do_rescale": True,
        "rescale_factor": 1 / 255,
        "do_normalize": True,
        "image_mean": [0.5, 0.5, 0.5],
        "image_std": [0.5, 0.5, 0.5],
        # The tower knows squares. Pictures that are nearly square are brought to one; to others it interpolates.
        "size": {"shortest_edge": area * 2 // 3, "longest_edge": area * 3 // 2},
        "processor_class": "Qwen3VLProcessor",
    }
    image = common | {"image_processor_type": "Qwen2VLImageProcessorFast"}
    video = {"video_processor_type": "Qwen3VLVideoProcessor", "fps": 2, "min_frames": 4, "max_frames": 16}
    video |= {"size": {"shortest_edge": area, "longest_edge": area}}
    return {"preprocessor_config.json": image, "video_preprocessor_config.json": common | video}
