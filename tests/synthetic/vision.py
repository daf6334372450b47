"""Small checkpoints of vision-language families: mlx-vlm's model with random weights, written in the layout and with
the processor files that the family's checkpoints have on Hugging Face."""

from __future__ import annotations

import json
import math
import os
import shutil
import tempfile
from pathlib import Path

import numpy as np
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

from tests.synthetic.tokenizer import TRAINING_TEXT
from tests.synthetic.vision_families import FAMILIES
from tests.synthetic.vision_parts import Config, Family
from tests.synthetic.weights import write_json

COMMON = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
TEMPLATE = """
{%- for message in messages -%}
    {{- '<|im_start|>' + message.role + '\n' -}}
    {%- if message.content is string -%}{{- message.content -}}{%- else -%}
        {%- for part in message.content -%}
            {{- 'MARK' if part.type == 'image' else 'SOUND' if part.type == 'audio' else part.text -}}
        {%- endfor -%}
    {%- endif -%}
    {{- '<|im_end|>\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\n' -}}{%- endif -%}
""".strip()


def build(name: str, folder: Path) -> Path:
    """Writes the checkpoint. Complete or not at all: another test process may build it too."""
    family = FAMILIES[name]
    folder.parent.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(dir=folder.parent))
    ids = _tokenizer(made, family)
    config: Config = {"vocab_size": ids[""], "torch_dtype": "float32", **family.config(ids)}
    for part in ("text_config", "llm_config", "language_config"):
        if part in config:
            config[part] = {"vocab_size": ids[""]} | config[part]
    write_json(made / "config.json", config | {"eos_token_id": ids["<|im_end|>"]})
    for file, content in family.files(ids).items():
        write_json(made / file, content)
    _weights(made, family, config)
    try:
        os.rename(made, folder)
    except OSError:
        shutil.rmtree(made)
    return folder


def _tokenizer(folder: Path, family: Family) -> dict[str, int]:
    special = [*COMMON, *family.tokens]
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=400, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator([TRAINING_TEXT, "\n\n \n\n\n"], trainer)
    tokenizer.add_special_tokens([AddedToken(text, special=True, normalized=False) for text in special])
    tokenizer.save(str(folder / "tokenizer.json"))
    known = tokenizer.get_vocab()
    template = TEMPLATE.replace("MARK", family.mark.replace("\n", "\\n")).replace("SOUND", family.sound)
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "additional_special_tokens": special[1:],
        "eos_token": "<|im_end|>",
        "pad_token": "<|endoftext|>",
        "clean_up_tokenization_spaces": False,
        "model_max_length": 8192,
        "chat_template": template,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(settings | family.tokenizer))
    (folder / "chat_template.jinja").write_text(template)
    return {text: known[text] for text in special} | {"": tokenizer.get_vocab_size()}


def _weights(folder: Path, family: Family, config: Config) -> None:
    import mlx.core as mx
    from mlx.utils import tree_flatten

    from paceline.models.tower import Tower

    rng = np.random.default_rng(0)
    tied = config.get("text_config", {}).get("tie_word_embeddings", False)
    weights = {}
    for name, array in tree_flatten(Tower(config).view.parameters()):
        values = rng.standard_normal(array.shape).astype(np.float32)
        if array.ndim < 2:
            values = np.float32("norm" in name and name.endswith("weight")) + 0.1 * values
        elif "embed_tokens" in name:
            values *= 0.3 if tied else 1  # a tied head would say the last token again
        else:
            values *= 1.5 / math.sqrt(math.prod(array.shape[1:]))
        weights[name] = values
    for name in [name for name, values in weights.items() if values.ndim in (4, 5)]:  # of convolutions, channels last
        weights[name] = np.moveaxis(weights[name], -1, 1)
    family.convert(weights)
    renamed = {}
    for name, values in weights.items():
        for start, other in family.renames:
            if name.startswith(start):
                name = other + name.removeprefix(start)
                break
        renamed[name] = mx.array(np.array(values, order="C"))
    mx.save_safetensors(str(folder / "model.safetensors"), renamed, metadata={"format": "pt"})
