"""The tokenizer and the chat template of the embedded model.

`python -m training.tokenizer` trains a byte-level BPE on the collected text and on our own chats, and writes
`OUT/tokenizer/`. Digits are single tokens, so that numbers are copied digit by digit.

The template is Qwen3's ChatML with three differences, all for the prefix cache: an earlier turn is written exactly as
it was generated, its think block included; without `enable_thinking` the block is there and empty, in history too;
and nothing depends on which turn is the last.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Iterator
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

from training.sources import OUT, SEPARATOR

SIZE = 6144
MAX_LENGTH = 32768
END_OF_TEXT, TURN, END_OF_TURN = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
VISION_START, VISION_END, IMAGE, VIDEO = "<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>"
SPECIAL = (END_OF_TEXT, TURN, END_OF_TURN, VISION_START, VISION_END, IMAGE, VIDEO)
# Visible in decoded text, as in Qwen's own vocabulary: parsers look for them.
MARKUP = ("<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>")

# Qwen's pre-tokenizer. `\s*[\r\n]+` keeps a run of newlines whole whatever follows, so a prompt that ends in one is
# cut into the same tokens as the conversation that goes on behind it.
WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)

TOOLS_BEFORE = "# Tools\n\nYou may call one or more functions. Their signatures:\n<tools>\n"
TOOLS_AFTER = (
    '</tools>\n\nFor a function call, answer with its name and arguments:\n<tool_call>\n{"name": NAME, '
    '"arguments": OBJECT}\n</tool_call>'
)

CHAT_TEMPLATE = r"""
{%- macro body(content) -%}
    {%- if content is string -%}
        {{- content -}}
    {%- elif content is iterable and content is not mapping -%}
        {%- for part in content -%}
            {%- if part.type in ('image', 'image_url') or 'image' in part or 'image_url' in part -%}
                {{- '<|vision_start|><|image_pad|><|vision_end|>' -}}
            {%- elif part.type == 'video' or 'video' in part -%}
                {{- '<|vision_start|><|video_pad|><|vision_end|>' -}}
            {%- elif 'text' in part -%}
                {{- part.text -}}
            {%- endif -%}
        {%- endfor -%}
    {%- endif -%}
{%- endmacro -%}
{%- set opening = messages[0] if messages and messages[0].role == 'system' else none -%}
{%- if tools -%}
    {{- '<|im_start|>system\n' -}}
    {%- if opening is not none -%}{{- body(opening.content) + '\n\n' -}}{%- endif -%}
    {{- TOOLS_BEFORE -}}
    {%- for tool in tools -%}{{- tool | tojson -}}{{- '\n' -}}{%- endfor -%}
    {{- TOOLS_AFTER + '<|im_end|>\n' -}}
{%- elif opening is not none -%}
    {{- '<|im_start|>system\n' + body(opening.content) + '<|im_end|>\n' -}}
{%- endif -%}
{%- for message in messages -%}
    {%- if message.role == 'system' -%}
        {%- if not loop.first -%}{{- raise_exception('The system message must come first.') -}}{%- endif -%}
    {%- elif message.role == 'user' -%}
        {{- '<|im_start|>user\n' + body(message.content) + '<|im_end|>\n' -}}
    {%- elif message.role == 'assistant' -%}
        {{- '<|im_start|>assistant\n' -}}
        {%- if message.reasoning_content -%}
            {{- '<think>\n' + message.reasoning_content.strip('\n') + '\n</think>\n\n' -}}
        {%- else -%}
            {{- '<think>\n\n</think>\n\n' -}}
        {%- endif -%}
        {%- set said = body(message.content) -%}
        {{- said -}}
        {%- for call in message.tool_calls or [] -%}
            {%- set tool_call = call.function or call -%}
            {%- if said or not loop.first -%}{{- '\n' -}}{%- endif -%}
            {{- '<tool_call>\n{"name": "' + tool_call.name + '", "arguments": ' -}}
            {{- tool_call.arguments if tool_call.arguments is string else tool_call.arguments | tojson -}}
            {{- '}\n</tool_call>' -}}
        {%- endfor -%}
        {{- '<|im_end|>\n' -}}
    {%- elif message.role == 'tool' -%}
        {%- if loop.first or loop.previtem.role != 'tool' -%}{{- '<|im_start|>user' -}}{%- endif -%}
        {{- '\n<tool_response>\n' + body(message.content) + '\n</tool_response>' -}}
        {%- if loop.last or loop.nextitem.role != 'tool' -%}{{- '<|im_end|>\n' -}}{%- endif -%}
    {%- else -%}
        {{- raise_exception('Unexpected message role: ' + message.role) -}}
    {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{- '<|im_start|>assistant\n' -}}
    {{- '<think>\n' if enable_thinking is defined and enable_thinking else '<think>\n\n</think>\n\n' -}}
{%- endif -%}
""".strip()
CHAT_TEMPLATE = CHAT_TEMPLATE.replace("TOOLS_BEFORE", "'" + TOOLS_BEFORE.replace("\n", "\\n") + "'")
CHAT_TEMPLATE = CHAT_TEMPLATE.replace("TOOLS_AFTER", "'" + TOOLS_AFTER.replace("\n", "\\n") + "'")


def train(texts: Iterator[str], size: int = SIZE) -> Tokenizer:
    """A tokenizer of exactly `size` ids, the added ones last."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(WORDS), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size - len(SPECIAL) - len(MARKUP),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
        max_token_length=16,
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.add_special_tokens([AddedToken(text, special=True, normalized=False) for text in SPECIAL])
    tokenizer.add_tokens([AddedToken(text, special=False, normalized=False) for text in MARKUP])
    if tokenizer.get_vocab_size() != size:
        raise ValueError(f"the text gives a vocabulary of {tokenizer.get_vocab_size()} tokens, not {size}")
    return tokenizer


def write(tokenizer: Tokenizer, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    ids = tokenizer.get_vocab()
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "added_tokens_decoder": {str(ids[text]): _describe(text) for text in SPECIAL + MARKUP},
        "additional_special_tokens": list(SPECIAL[1:]),
        "bos_token": None,
        "eos_token": END_OF_TURN,
        "pad_token": END_OF_TEXT,
        "unk_token": None,
        "add_prefix_space": False,
        "clean_up_tokenization_spaces": False,
        "model_max_length": MAX_LENGTH,
        "image_token": IMAGE,
        "video_token": VIDEO,
        "vision_start_token": VISION_START,
        "vision_end_token": VISION_END,
        "chat_template": CHAT_TEMPLATE,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(settings, indent=1) + "\n")
    (folder / "chat_template.jinja").write_text(CHAT_TEMPLATE + "\n")


def load(out: Path = OUT) -> Tokenizer:
    return Tokenizer.from_file(str(out / "tokenizer" / "tokenizer.json"))


def _describe(text: str) -> dict[str, object]:
    flags = {"lstrip": False, "rstrip": False, "normalized": False, "single_word": False}
    return {"content": text, "special": text in SPECIAL, **flags}


def _sample(out: Path, size: int, rng: random.Random) -> Iterator[str]:
    """Pieces of every corpus, in proportion to its size; then our own chats, about as much again as a third."""
    files = sorted((out / "corpus").glob("*.txt"))
    total = sum(path.stat().st_size for path in files)
    for path in files:
        share = min(1.0, size / total)
        for document in path.read_text(encoding="utf-8").split(SEPARATOR):
            for first in range(0, len(document), 4000):
                if rng.random() < share:
                    yield document[first : first + 4000]
    from training.data import sample_chats

    yield from sample_chats(size // 3, rng)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--sample", type=int, default=15_000_000, help="bytes of text to train on")
    arguments = parser.parse_args()
    write(train(_sample(arguments.out, arguments.sample, random.Random(7))), arguments.out / "tokenizer")


if __name__ == "__main__":
    main()
