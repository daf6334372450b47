"""Tokenizers of the two kinds that checkpoints have, small enough to build in a test."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers
from tokenizers import Tokenizer as Backend

from paceline.conversation.tokenizer import Tokenizer
from paceline.models import synthetic_tokenizer

TEMPLATE = (
    "{% for message in messages %}[{{ message.role }}] {{ message.content }}<turn>{% endfor %}"
    "{% if add_generation_prompt %}[assistant] {% endif %}"
)


def byte_level(folder: Path) -> Tokenizer:
    """As in Llama 3 and Qwen: a token is bytes. One of its special tokens is known to the backend only."""
    synthetic_tokenizer.write(folder, vocab=512, max_length=1000)
    backend = Backend.from_file(str(folder / "tokenizer.json"))
    backend.add_special_tokens([AddedToken("<|reserved|>", special=True, normalized=False)])
    backend.save(str(folder / "tokenizer.json"))
    return Tokenizer.load(folder, {})


def byte_fallback(folder: Path) -> Tokenizer:
    """As in Llama 2 and Gemma: pieces of text, and one token a byte for what no piece has."""
    pieces = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *"▁abcdehlorw.é", "▁a", "▁▁", "lo"]
    merges = [("▁", "a"), ("▁", "▁"), ("l", "o")]
    vocabulary = {piece: place for place, piece in enumerate(pieces)}
    backend = Backend(models.BPE(vocabulary, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    backend.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    backend.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    return _saved(backend, folder)


def metaspace(folder: Path) -> Tokenizer:
    """As in T5 and older Mistral files: the decoder drops the space before the first word."""
    pieces = ["<unk>", "<s>", "</s>", *"▁abcdehlorw.", "▁a", "▁▁", "lo", "한", "国", "🙂"]
    merges = [("▁", "a"), ("▁", "▁"), ("l", "o")]
    vocabulary = {piece: place for place, piece in enumerate(pieces)}
    backend = Backend(models.BPE(vocabulary, merges, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.Metaspace()
    backend.decoder = decoders.Metaspace()
    return _saved(backend, folder)


def _saved(backend: Any, folder: Path) -> Tokenizer:
    backend.add_special_tokens(["<unk>", "<s>", "</s>", "<turn>"])
    backend.save(str(folder / "tokenizer.json"))
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": "<s>",
        "eos_token": "</s>",
        "unk_token": "<unk>",
        "chat_template": TEMPLATE,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return Tokenizer.load(folder, {})
