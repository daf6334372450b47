"""The tokenizer and chat template that every synthetic checkpoint carries.

A byte-level BPE trained on the few lines below. They hold no accents, no CJK and no emoji on purpose: such
characters fall to single bytes, so one character spans several tokens and a detokenizer has to wait for it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

SIZE = 512  # a larger model vocabulary is padding: its ids decode to nothing

END_OF_TEXT = "<|endoftext|>"
END_OF_TURN = "<|im_end|>"
SPECIAL = (
    END_OF_TEXT,
    "<|im_start|>",
    END_OF_TURN,
    "<|vision_start|>",
    "<|vision_end|>",
    "<|vision_pad|>",
    "<|image_pad|>",
    "<|video_pad|>",
)
# Visible in decoded text, as in Qwen's own vocabulary: parsers look for them.
MARKUP = ("<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>")

TRAINING_TEXT = """
A pace line is a row of riders who share the wind. The first rider pulls, the others follow close behind, and
when the leader tires the next one comes through. Nobody waits for the slowest wheel, and nobody rides alone.
When a rider joins late, the line opens a gap; when a rider leaves early, the line closes it again.
What is the capital of the country? Which colour is the bird in this picture, and what does it eat?
You are a helpful assistant. Answer the question in one or two short sentences, then stop.
The weather in the mountains changes quickly: at nine there was sun, at ten rain, at noon there was snow.
She wrote the number 42 on the board, then 7, 13, 256, 1024 and 2025, and asked them to find the largest.
def read(path: str) -> list[str]:
    with open(path) as file:
        return [line.strip() for line in file if line and not line.startswith("#")]
class Row: length = 0; tokens = []; self.tokens.append(token); return None; import json; for i in range(8):
{"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object", "properties": {}}}}
{"name": "get_weather", "arguments": {"city": "Lisbon", "unit": "celsius", "days": 3}} true false null
system user assistant tool developer message content text image think answer
""".strip()

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
    {{- '# Tools\n' -}}
    {%- for tool in tools -%}{{- tool | tojson -}}{{- '\n' -}}{%- endfor -%}
    {{- 'To call one, write <tool_call>\n{"name": ..., "arguments": {...}}\n</tool_call><|im_end|>\n' -}}
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
            {{- '<think>\n' + message.reasoning_content + '\n</think>\n\n' -}}
        {%- endif -%}
        {{- body(message.content) -}}
        {%- for call in message.tool_calls or [] -%}
            {%- set tool_call = call.function or call -%}
            {{- '\n<tool_call>\n{"name": "' + tool_call.name + '", "arguments": ' -}}
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
    {%- if enable_thinking is defined -%}
        {{- '<think>\n' if enable_thinking else '<think>\n\n</think>\n\n' -}}
    {%- endif -%}
{%- endif -%}
""".strip()


@dataclass(frozen=True)
class Vocabulary:
    """Which ids a model may say. `size` counts the tokenizer's ids; the model's table may be longer."""

    size: int
    words: int  # ids below this are plain text; the added tokens follow
    ids: dict[str, int]  # of the added tokens

    @property
    def ends(self) -> tuple[int, int]:
        return self.ids[END_OF_TURN], self.ids[END_OF_TEXT]


def write(folder: Path, *, vocab: int = SIZE, max_length: int = 32768) -> Vocabulary:
    """Trains the tokenizer, writes its files into `folder`, and says which ids it uses."""
    added = SPECIAL + MARKUP
    if vocab < 256 + len(added):
        raise ValueError(f"vocab is {vocab}; the bytes and the special tokens alone need {256 + len(added)}")
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=min(vocab, SIZE) - len(added),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([TRAINING_TEXT], trainer)
    words = tokenizer.get_vocab_size()
    tokenizer.add_special_tokens([AddedToken(text, special=True, normalized=False) for text in SPECIAL])
    tokenizer.add_tokens([AddedToken(text, special=False, normalized=False) for text in MARKUP])
    tokenizer.save(str(folder / "tokenizer.json"))

    known = tokenizer.get_vocab()
    ids = {text: known[text] for text in added}
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "added_tokens_decoder": {str(ids[text]): _describe(text) for text in added},
        "additional_special_tokens": list(SPECIAL[1:]),
        "bos_token": None,
        "eos_token": END_OF_TURN,
        "pad_token": END_OF_TEXT,
        "unk_token": None,
        "add_prefix_space": False,
        "clean_up_tokenization_spaces": False,
        "model_max_length": max_length,
        "image_token": "<|image_pad|>",
        "video_token": "<|video_pad|>",
        "vision_start_token": "<|vision_start|>",
        "vision_end_token": "<|vision_end|>",
        "chat_template": CHAT_TEMPLATE,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(settings, indent=1))
    (folder / "chat_template.jinja").write_text(CHAT_TEMPLATE)
    return Vocabulary(tokenizer.get_vocab_size(), words, ids)


def _describe(text: str) -> dict[str, object]:
    return {
        "content": text,
        "special": text in SPECIAL,
        "lstrip": False,
        "rstrip": False,
        "normalized": False,
        "single_word": False,
    }
