"""Which of mlx-lm's families Paceline serves: `python -m tests.models.families` prints the table of docs/models.md.

Every family is mlx-lm's own class, small, with random weights. It is adapted and checked as at start-up; if it is
served, two rows of very different lengths are then run far past every window it has, in every layout that the engine
may use after that check, against mlx-lm's own caches. `python -m tests.models.families llama gpt2` tries some only.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, log10
from typing import Any

import mlx.core as mx
import numpy as np
from mlx.utils import tree_map
from mlx_lm.models.cache import make_prompt_cache
from mlx_lm.utils import _get_classes

from paceline.cache.batch import Batch, LayerPlan
from paceline.cache.slot_plan import NAMES, PADDED, ROWS, SIMILAR, Grouping
from paceline.errors import LoadError
from paceline.models import check
from paceline.models.adapter import Adapted, adapt, flat_plans

Config = dict[str, Any]
VOCABULARY = 256
WINDOW = 24
PROMPTS = (75, 11)  # tokens; the second crosses the window while it decodes
STEPS = 40
CHUNK = 17

SIZES: Config = {
    "hidden_size": 64,
    "num_hidden_layers": 4,
    "intermediate_size": 128,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "rms_norm_eps": 1e-6,
    "layer_norm_eps": 1e-6,
    "norm_eps": 1e-6,
    "layer_norm_epsilon": 1e-6,
    "vocab_size": VOCABULARY,
    "max_position_embeddings": 4096,
    "rope_theta": 10_000.0,
    "attention_bias": False,
    "mlp_bias": False,
    "tie_word_embeddings": False,
    "sliding_window": WINDOW,
    "layer_types": ["sliding_attention", "full_attention"] * 2,
}
EXPERTS: Config = {
    "num_experts": 4,
    "num_local_experts": 4,
    "n_routed_experts": 4,
    "n_shared_experts": 1,
    "num_shared_experts": 1,
    "num_experts_per_tok": 2,
    "num_experts_per_token": 2,
    "moe_intermediate_size": 32,
    "shared_expert_intermediate_size": 32,
    "decoder_sparse_step": 1,
    "mlp_only_layers": [],
    "norm_topk_prob": True,
    "n_group": 1,
    "topk_group": 1,
    "first_k_dense_replace": 1,
}
LATENT: Config = {
    "kv_lora_rank": 32,
    "q_lora_rank": 32,
    "qk_rope_head_dim": 16,
    "qk_nope_head_dim": 16,
    "v_head_dim": 16,
    "num_key_value_heads": 4,
}
DELTA: Config = {
    "linear_num_value_heads": 4,
    "linear_num_key_heads": 2,
    "linear_key_head_dim": 16,
    "linear_value_head_dim": 16,
    "linear_conv_kernel_dim": 4,
    "partial_rotary_factor": 0.5,
    "full_attention_interval": 4,
}
GRANITE: Config = {
    "logits_scaling": 4.0,
    "attention_multiplier": 0.25,
    "embedding_multiplier": 4.0,
    "residual_multiplier": 0.5,
}
MAMBA: Config = {
    "mamba_d_ssm": 64,
    "mamba_n_heads": 4,
    "mamba_d_head": 16,
    "mamba_d_state": 16,
    "mamba_d_conv": 4,
    "mamba_n_groups": 1,
    "mamba_proj_bias": False,
    "mamba_conv_bias": True,
    "mamba_num_heads": 4,
    "mamba_head_dim": 16,
    "ssm_state_size": 16,
    "state_size": 16,
    "conv_kernel": 4,
    "n_groups": 1,
    "use_bias": False,
    "use_conv_bias": True,
    "num_heads": 4,
    "time_step_limit": [0.0, 100.0],
    "time_step_rank": "auto",
}
LINEAR: Config = {
    "linear_attn_config": {
        "kda_layers": [1, 2, 3],
        "full_attn_layers": [4],
        "num_heads": 4,
        "head_dim": 16,
        "short_conv_kernel_size": 4,
    },
    "model_max_length": 4096,
}
YARN: Config = {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32, "mscale_all_dim": 1.0}
GPT: Config = {"n_ctx": 4096, "n_embd": 64, "n_head": 4, "n_layer": 4, "n_positions": 4096, "n_inner": 128}


def windows(plans: Sequence[LayerPlan]) -> set[int]:
    """The sliding windows a model has."""
    found = {plan.window for plan in plans if plan.window is not None}
    for plan in plans:
        found |= windows(plan.parts)
    return found


def family(model_type: str, *parts: Config, **more: Any) -> Config:
    config = {"model_type": model_type, **SIZES}
    for part in (*parts, more):
        config |= part
    return config


def nested(model_type: str, *parts: Config, **more: Any) -> Config:
    """A family whose language model is described in a `text_config`."""
    return {"model_type": model_type, "text_config": family(f"{model_type}_text", *parts, **more)}


FAMILIES: Mapping[str, Config] = {
    "llama": family("llama"),
    "mistral": family("mistral", layer_types=None, sliding_window=None),
    "mistral3": {"model_type": "mistral3", "text_config": family("llama", layer_types=None, sliding_window=None)},
    "ministral3": family(
        "ministral3",
        rope_parameters={
            "rope_theta": 10_000.0,
            "llama_4_scaling_beta": 0.1,
            "original_max_position_embeddings": 32,
        },
    ),
    "mixtral": family("mixtral", EXPERTS),
    "qwen2": family("qwen2"),
    "qwen2_moe": family("qwen2_moe", EXPERTS),
    "qwen3": family("qwen3"),
    "qwen3_moe": family("qwen3_moe", EXPERTS),
    "qwen3_next": family("qwen3_next", EXPERTS, DELTA),
    "qwen3_vl (text)": nested("qwen3_vl", rope_scaling=None),
    "gemma": family("gemma"),
    "gemma2": family("gemma2", query_pre_attn_scalar=16.0),
    "gemma3_text": family("gemma3_text", sliding_window_pattern=2, query_pre_attn_scalar=16),
    "gemma3n": nested(
        "gemma3n",
        num_kv_shared_layers=2,
        vocab_size_per_layer_input=VOCABULARY,
        rope_local_base_freq=10_000.0,
        final_logit_softcapping=30.0,
        activation_sparsity_pattern=[0.0] * 4,
        hidden_size_per_layer_input=16,
        altup_num_inputs=2,
        altup_coef_clip=120.0,
        altup_correct_scale=True,
        altup_active_idx=0,
        laurel_rank=8,
    ),
    "gemma4_text": family(
        "gemma4_text",
        num_kv_shared_layers=2,
        hidden_size_per_layer_input=16,
        vocab_size_per_layer_input=VOCABULARY,
        global_head_dim=16,
        tie_word_embeddings=True,
    ),
    "phi3": family("phi3"),
    "gpt_oss": family("gpt_oss", EXPERTS),
    "olmo2": family("olmo2"),
    "olmo3": family("olmo3"),
    "cohere2": family("cohere2", sliding_window_pattern=2),
    "exaone4": family(
        "exaone4", sliding_window_pattern="LG", rope_scaling={"rope_type": "default"}, tie_word_embeddings=False
    ),
    "mimo_v2_flash": family(
        "mimo_v2_flash",
        EXPERTS,
        hybrid_layer_pattern=[1, 0, 1, 0],
        moe_layer_freq=[0, 1, 1, 1],
        add_swa_attention_sink_bias=True,
        add_full_attention_sink_bias=False,
        sliding_window_size=WINDOW,
        routed_scaling_factor=1.0,
        topk_method="noaux_tc",
        scoring_func="sigmoid",
        layernorm_epsilon=1e-6,
        swa_rope_theta=10_000.0,
        swa_num_attention_heads=4,
        swa_num_key_value_heads=2,
        v_head_dim=16,
        swa_head_dim=16,
        swa_v_head_dim=16,
        partial_rotary_factor=0.5,
    ),
    "granite": family("granite", GRANITE),
    "granitemoehybrid": family(
        "granitemoehybrid",
        EXPERTS,
        GRANITE,
        MAMBA,
        shared_intermediate_size=64,
        layer_types=["mamba", "attention", "mamba", "attention"],
    ),
    "glm4": family("glm4", partial_rotary_factor=0.5),
    "starcoder2": family("starcoder2", norm_epsilon=1e-6),
    "smollm3": family("smollm3", no_rope_layer_interval=4, layer_types=None),
    "gpt_neox": family("gpt_neox", rotary_pct=0.5, rotary_emb_base=10_000, use_parallel_residual=True),
    "deepseek_v2": family("deepseek_v2", EXPERTS, LATENT, topk_method="greedy", rope_scaling=YARN),
    "deepseek_v3": family("deepseek_v3", EXPERTS, LATENT),
    "falcon_h1": family("falcon_h1", MAMBA, lm_head_multiplier=1.0),
    "nemotron_h": family("nemotron_h", MAMBA, hybrid_override_pattern="M*-M", layer_types=None),
    "mamba2": family("mamba2", MAMBA, num_key_value_heads=4),
    "jamba": family(
        "jamba",
        EXPERTS,
        MAMBA,
        attn_layer_offset=1,
        attn_layer_period=2,
        expert_layer_offset=1,
        expert_layer_period=2,
        mamba_dt_rank=8,
        mamba_expand=2,
    ),
    "lfm2": family(
        "lfm2",
        conv_bias=False,
        conv_L_cache=3,
        block_dim=64,
        block_multiple_of=8,
        block_ffn_dim_multiplier=1.0,
        block_auto_adjust_ff_dim=False,
        layer_types=["conv", "full_attention", "conv", "full_attention"],
    ),
    "lfm2_moe": family(
        "lfm2_moe",
        EXPERTS,
        num_dense_layers=1,
        use_expert_bias=True,
        conv_bias=False,
        conv_L_cache=3,
        layer_types=["conv", "full_attention", "conv", "full_attention"],
    ),
    "kimi_linear": family("kimi_linear", EXPERTS, LATENT, LINEAR),
    "recurrent_gemma": family(
        "recurrent_gemma",
        attention_window_size=WINDOW,
        conv1d_width=4,
        embeddings_scale_by_sqrt_dim=True,
        logits_soft_cap=30.0,
        lru_width=64,
        block_types=["recurrent", "attention"],
    ),
    "rwkv7": family("rwkv7", a_low_rank_dim=16, v_low_rank_dim=16, gate_low_rank_dim=16, decay_low_rank_dim=16),
    "baichuan_m1": family(
        "baichuan_m1",
        sliding_window_layers=[0, 2],
        conv_window=2,
        num_swa_attention_heads=4,
        num_swa_key_value_heads=2,
    ),
    "plamo2": family("plamo2", MAMBA, hidden_size_per_head=16, mamba_step=2, attention_window_size=4096),
    "gpt2": family("gpt2", GPT, num_key_value_heads=4),
    "gpt_bigcode": family("gpt_bigcode", GPT, num_key_value_heads=1),
    "llama4": nested(
        "llama4",
        EXPERTS,
        attention_chunk_size=WINDOW,
        num_experts_per_tok=1,
        interleave_moe_layer_step=2,
        intermediate_size_mlp=128,
        rope_scaling=None,
        use_qk_norm=True,
    ),
}


@dataclass(frozen=True)
class Verdict:
    layout: str  # empty: refused
    caches: str
    error: float  # the largest difference of the long run, as a share of the largest logit
    line: str  # why it was refused
    drafts: bool = False  # whether its steps roll back

    @property
    def row(self) -> str:
        if not self.layout:
            return f"refused | {self.caches} | | {self.line}"
        exact = "bitwise" if self.error == 0 else f"within {10 ** ceil(log10(self.error)):.0e}"
        result = exact if self.error < 1e-4 else f"**WRONG** by {self.error:.0e}"
        return f"{self.layout} | {self.caches} | {'yes' if self.drafts else 'no'} | {result}"


def build(config: Config, seed: int = 0) -> Any:
    """mlx-lm's model with random weights, large enough that attention chooses and positions matter."""
    model_class, arguments = _get_classes(config)
    mx.random.seed(seed)
    module = model_class(arguments.from_dict(config))
    module.update(tree_map(_louder, module.parameters()))
    module.eval()
    mx.eval(module.parameters())
    return module


def _louder(array: mx.array) -> mx.array:
    """Attention that chooses, and no weight left at the zero or the one that it starts from."""
    return (3.0 if array.ndim == 2 else 1.0) * array + 0.1 * mx.random.normal(array.shape)


def judge(config: Config) -> Verdict:
    module, reference = build(config), build(config)
    caches = sorted({_kind(cache) for cache in make_prompt_cache(reference)})
    try:
        model = adapt(module, config)
        layout = check.choose_layout(model, (SIMILAR, PADDED))
    except LoadError as refusal:
        return Verdict("", ", ".join(caches), 0.0, str(refusal))
    forms = (PADDED,) if layout is PADDED else (ROWS, PADDED)  # "similar" can look like either
    worst = max(long_run(model, reference, form) for form in forms)
    able = all(plan.kind == "attention" or plan.apply_accepted is not None for plan in flat_plans(model.plans))
    drafts = able and check.rolls_back(model, layout, check.plain_step(model))
    return Verdict(NAMES[layout.skew], ", ".join(caches), worst, "", drafts)


def long_run(model: Adapted, reference: Any, layout: Grouping) -> float:
    """Two rows, the second joining while the first decodes, against each alone. Returns the worst difference."""
    random = np.random.default_rng(1)
    prompts = [random.integers(0, VOCABULARY, count).tolist() for count in PROMPTS]
    forced = random.integers(0, VOCABULARY, (len(prompts), STEPS)).tolist()
    expected = [_alone(reference, prompt, tokens) for prompt, tokens in zip(prompts, forced, strict=True)]
    assert all(window < PROMPTS[0] and window < PROMPTS[1] + STEPS for window in windows(model.plans))
    other = [*reversed(prompts[0][:-1]), prompts[0][-1]]
    assert _difference(_alone(reference, other, forced[0])[0], expected[0][0]) > 1e-3, "the model sees no context"
    worst, batch, fed = 0.0, _prefilled(model, layout, prompts[0]), [0]
    for step in range(STEPS + 5):
        if step == 5:
            assert batch.join(_prefilled(model, layout, prompts[1])).row == 1
            fed.append(0)
        if step == STEPS:  # the first row leaves
            batch.keep([1])
            fed, prompts, forced, expected = fed[1:], prompts[1:], forced[1:], expected[1:]
        inputs = [
            prompt[-1] if count == 0 else tokens[count - 1]
            for prompt, tokens, count in zip(prompts, forced, fed, strict=False)
        ]
        logits = check.decode(model, batch, mx.array(inputs))
        for row, count in enumerate(fed):
            worst = max(worst, _difference(logits[row], expected[row][count]))
        fed = [count + 1 for count in fed]
    return worst


def _difference(logits: mx.array, expected: mx.array) -> float:
    share = mx.abs(logits - expected).max() / mx.abs(expected).max()
    return float(np.nan_to_num(np.array(share), nan=np.inf))


def _alone(reference: Any, prompt: list[int], forced: list[int]) -> list[mx.array]:
    """mlx-lm's own caches, fed the same tokens: the logits of every step."""
    cache = make_prompt_cache(reference)
    reference(mx.array([prompt[:-1]]), cache=cache)
    logits = []
    for token in [prompt[-1], *forced[:-1]]:
        logits.append(reference(mx.array([[token]]), cache=cache)[0, -1])
        mx.eval(logits[-1])
    return logits


def _prefilled(model: Adapted, layout: Grouping, prompt: list[int]) -> Batch:
    row = model.batch(layout)
    for start in range(0, len(prompt) - 1, CHUNK):
        part = prompt[start : min(start + CHUNK, len(prompt) - 1)]
        row.begin(len(part))
        model.module(mx.array([part]), cache=row.layers)
        row.commit()
        mx.eval(row.arrays())
    return row


def _kind(cache: Any) -> str:
    parts = getattr(cache, "caches", None)
    if parts is not None:
        return f"{type(cache).__name__}({', '.join(_kind(part) for part in parts)})"
    return type(cache).__name__


def main(names: Sequence[str]) -> None:
    """Families with the same result share a row."""
    rows: dict[str, list[str]] = {}
    for name in names or FAMILIES:
        try:
            row = judge(FAMILIES[name]).row
        except Exception as error:  # a family that cannot even be built here must not hide the others
            row = f"? | | | {type(error).__name__}: {error}"
        rows.setdefault(row, []).append(name)
    print("| families | layout | caches | drafts | long run |\n|---|---|---|---|---|")
    for row, alike in rows.items():
        print(f"| {', '.join(alike)} | {row} |")


if __name__ == "__main__":
    main(sys.argv[1:])
