"""Tokenizers of the two kinds that checkpoints have, small enough to build in a test."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers, trainers
from tokenizers import Tokenizer as Backend

from paceline.conversation.tokenizer import Tokenizer
from tests import synthetic

TEMPLATE = (
    "{% for message in messages %}[{{ message.role }}] {{ message.content }}<turn>{% endfor %}"
    "{% if add_generation_prompt %}[assistant] {% endif %}"
)

# How text is cut before tokens are joined. GPT-2's parts the last of a run of whitespace from the others.
QWEN_PIECES = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
GPT2_PIECES = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"


def byte_level(folder: Path) -> Tokenizer:
    """As in Llama 3 and Qwen: a token is bytes. One of its special tokens is known to the backend only."""
    synthetic.tokenizer.write(folder, vocab=512, max_length=1000)
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


def joining(
    folder: Path, template: str, special: Sequence[str], *, pieces: str = QWEN_PIECES, eos_token: str | None = None
) -> Tokenizer:
    """Byte-level, and quick to join: line breaks with more of them, marks with what follows."""
    backend = Backend(models.BPE())
    split = pre_tokenizers.Split(Regex(pieces), "isolated")
    bytewise = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    backend.pre_tokenizer = pre_tokenizers.Sequence([split, bytewise])
    backend.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=600, initial_alphabet=alphabet, show_progress=False)
    ends = (
        "\n",
        "\n\n",
        "\n\n\n",
        "\n\n\n\n",
        " ",
        "  ",
        "    ",
        " \n",
        ".\n",
        ".\n\n",
        ".\n\n\n",
        ":\n",
        ":\n\n",
        "!\n\n",
    )
    text = "".join(f"{word}{end}" for word in synthetic.tokenizer.TRAINING_TEXT.split() for end in ends)
    backend.train_from_iterator([text], trainer)
    backend.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in special])
    return _saved(backend, folder, {"eos_token": eos_token, "chat_template": template})


def _saved(backend: Any, folder: Path, settings: Mapping[str, Any] | None = None) -> Tokenizer:
    if settings is None:
        backend.add_special_tokens(["<unk>", "<s>", "</s>", "<turn>"])
        settings = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "chat_template": TEMPLATE}
    backend.save(str(folder / "tokenizer.json"))
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", **settings}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return Tokenizer.load(folder, {})
