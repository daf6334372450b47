"""The tokenizer and template of synthetic checkpoints."""

from __future__ import annotations

import json
from pathlib import Path

from tests.reference import load_text


def test_the_end_tokens_of_a_hybrid_are_the_union_of_two_files(hybrid: Path) -> None:
    text = json.loads((hybrid / "config.json").read_text())["text_config"]["eos_token_id"]
    generation = json.loads((hybrid / "generation_config.json").read_text())["eos_token_id"]
    assert text not in generation


def test_characters_outside_the_training_text_span_several_tokens(llama: Path) -> None:
    _, tokenizer = load_text(llama)
    for text in ("猫", "🚲", "é"):
        ids = tokenizer.encode(text, add_special_tokens=False)
        assert len(ids) > 1
        assert tokenizer.decode(ids) == text


def test_the_template_renders_tools_images_and_thinking(hybrid: Path) -> None:
    _, tokenizer = load_text(hybrid)
    call = {"type": "function", "function": {"name": "get_weather", "arguments": {"city": "Lisbon"}}}
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "Where?"}]},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "content": "sun"},
        {"role": "tool", "content": "rain"},
    ]
    tools = [{"type": "function", "function": {"name": "get_weather", "parameters": {}}}]
    text = tokenizer.apply_chat_template(
        messages, tools=tools, tokenize=False, add_generation_prompt=True, enable_thinking=True
    )
    assert text.count("<|im_start|>system") == 1
    assert "<|vision_start|><|image_pad|><|vision_end|>Where?" in text
    assert '{"name": "get_weather", "arguments": {"city": "Lisbon"}}' in text
    assert text.count("<tool_response>") == 2
    assert text.endswith("<|im_start|>assistant\n<think>\n")
